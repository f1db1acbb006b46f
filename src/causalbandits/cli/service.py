"""Commands of those who run a service: start it, and say who may reach it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalbandits.errors import StateError

keys = typer.Typer(help="Who may reach a service: keys with roles.", no_args_is_help=True)

KeysFile = Annotated[Path, typer.Argument(help="The file of keys; a service looks for keys.json beside its study.")]


@keys.command()
def make(
    file: KeysFile,
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    role: Annotated[
        str,
        typer.Option(metavar="reader|writer|admin", help="A reader looks, a writer asks and tells, an admin corrects."),
    ] = "writer",
    study: Annotated[
        list[str] | None, typer.Option(help="A study that it opens, as often as you like; all, if left out.")
    ] = None,
) -> None:
    """Make a key; it is shown this once.

    [bold]Example[/bold]

      causalbandits study keys make keys.json backend --role writer
    """
    from causalbandits.service import Keys

    typer.echo(Keys(file).create(name, role, study or ()))


@keys.command()
def revoke(file: KeysFile, name: Annotated[str, typer.Argument(help="Whose key.")]) -> None:
    """A key opens nothing any more, from now on."""
    from causalbandits.service import Keys

    Keys(file).revoke(name)


@keys.command("list")
def list_keys(file: KeysFile) -> None:
    """Whose keys there are."""
    from causalbandits.service import Keys

    for record in Keys(file):
        typer.echo("  ".join([record.name, record.role, *([] if record.studies is None else record.studies)]))


def serve(
    files: Annotated[
        list[str] | None,
        typer.Argument(help="The studies' files, or addresses, each served by its name; or a directory."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; other than 127.0.0.1 only with keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(help="The file of keys; keys.json beside the first study if left out.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help="Also serve the studies (.db) of a directory; admins may make others there.", file_okay=False
        ),
    ] = None,
    drain_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            max=3600,
            help="On SIGTERM, answer requests for so many seconds more, while GET /readyz answers 503.",
        ),
    ] = 0.0,
    log_format: Annotated[
        str, typer.Option(metavar="text|json", help="One line per event on stderr, as text or as JSON.")
    ] = "text",
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="info|warning|error",
            help="info logs every request; if left out, info for json and warning for text.",
        ),
    ] = None,
    without_keys: Annotated[
        bool,
        typer.Option(
            "--without-keys",
            help="Everybody who reaches the service is an admin, through proxies and from other machines, too; "
            "CAUSALBANDITS_WITHOUT_KEYS=everybody-is-admin has to say the same.",
        ),
    ] = False,
) -> None:
    """Serve studies over HTTP until interrupted.

    [bold]Example[/bold]

      causalbandits serve campaign.db

      curl -X POST -H "Content-Type: application/json" -d "{}" http://127.0.0.1:8000/v1/studies/campaign/decisions
    """
    try:
        from causalbandits.service import serve as run
    except ImportError as error:
        raise StateError(
            f"A service needs more than the library ({error.name}): pip install 'causalbandits[service]'."
        ) from None
    address = f"http://{host}:{port} (Ctrl-C stops it)"
    run(
        files or [],
        host=host,
        port=port,
        keys=keys,
        directory=directory,
        drain_seconds=drain_seconds,
        log_format=log_format,
        log_level=log_level,
        without_keys=without_keys,
        ready=lambda: typer.echo(address),
    )
