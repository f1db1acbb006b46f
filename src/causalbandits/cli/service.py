"""Commands for operators of a service: start it, and manage its access keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from causalbandits.errors import StateError

keys = typer.Typer(help="Manage the API keys of a service.", no_args_is_help=True)

KeysFile = Annotated[
    Path,
    typer.Argument(help=("The file of keys. A service uses keys.json in the folder of its first study by default.")),
]


@keys.command()
def make(
    file: KeysFile,
    name: Annotated[str, typer.Argument(help="Name of the key's holder.")],
    role: Annotated[
        str,
        typer.Option(
            metavar="reader|writer|admin",
            help=(
                "reader: read only. writer: also ask and tell. admin: also correct outcomes, change modes and policies."
            ),
        ),
    ] = "writer",
    study: Annotated[
        list[str] | None, typer.Option(help="A study that the key may access; repeatable. Default: all studies.")
    ] = None,
) -> None:
    """Create a key, and print it. The key is printed only once.

    [bold]Example[/bold]

      causalbandits study keys make keys.json backend --role writer
    """
    from causalbandits.service import Keys

    typer.echo(Keys(file).create(name, role, study or ()))


@keys.command()
def revoke(file: KeysFile, name: Annotated[str, typer.Argument(help="Name of the key's holder.")]) -> None:
    """Revoke a key. The service rejects it from now on."""
    from causalbandits.service import Keys

    Keys(file).revoke(name)


@keys.command("list")
def list_keys(file: KeysFile) -> None:
    """List the keys: name, role and studies."""
    from causalbandits.service import Keys

    for record in Keys(file):
        typer.echo("  ".join([record.name, record.role, *([] if record.studies is None else record.studies)]))


def serve(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help=(
                "Files or PostgreSQL addresses of the studies, or one directory of studies. Each study is served "
                "under its file's name."
            )
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Addresses other than 127.0.0.1 require keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(help="The file of keys. Default: keys.json in the folder of the first study.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            help=("Also serve the studies (.db) in this directory; admins can create further studies there over HTTP."),
            file_okay=False,
        ),
    ] = None,
    drain_seconds: Annotated[
        float,
        typer.Option(
            min=0,
            max=3600,
            help=(
                "After SIGTERM, continue to answer requests for this number of seconds, while GET /readyz answers 503."
            ),
        ),
    ] = 0.0,
    log_format: Annotated[
        str, typer.Option(metavar="text|json", help="Format of the log on stderr, one line per event.")
    ] = "text",
    log_level: Annotated[
        str | None,
        typer.Option(
            metavar="info|warning|error",
            help="Log level; info logs every request. Default: info for json, warning for text.",
        ),
    ] = None,
    without_keys: Annotated[
        bool,
        typer.Option(
            "--without-keys",
            help=(
                "Serve without keys: every client is an admin, also through proxies and from other machines. "
                "Requires the environment variable CAUSALBANDITS_WITHOUT_KEYS=everybody-is-admin."
            ),
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
            f"The service requires further packages ({error.name} is missing): pip install 'causalbandits[service]'."
        ) from None
    address = f"Serving on http://{host}:{port} (press Ctrl-C to stop)"
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
