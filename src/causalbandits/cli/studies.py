"""Commands on a durable study: make it, ask and tell, look at it, serve it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits.cli.options import Asked, about_a_problem, assignments
from causalbandits.cli.show import print_plain
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.problem.problem import CausalBandit

study = typer.Typer(
    help="A campaign that goes on: decisions and outcomes in a file, for many processes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
keys = typer.Typer(help="Who may reach a service: keys with roles.", no_args_is_help=True)
study.add_typer(keys, name="keys")

File = Annotated[Path, typer.Argument(help="The study's file.", dir_okay=False)]
TypedValues = Annotated[
    list[str] | None, typer.Option(metavar="A=x", help="A value, as often as you like.", show_default=False)
]
KeysFile = Annotated[Path, typer.Argument(help="The file of keys; a service looks for keys.json beside its study.")]


@study.command()
@about_a_problem
def create(
    asked: Asked,
    to: Annotated[Path, typer.Option(help="The study's file, which must not exist yet.", dir_okay=False)],
    policy: Annotated[str, typer.Option(help="The policy's id; `causalbandits policies` lists them.")] = "c-ts-beta",
    seed: Annotated[int | None, typer.Option(min=0, help="Drawn by chance if left out.")] = None,
    window: Annotated[
        float | None, typer.Option(help="After so many seconds, silence may be taken for --default.")
    ] = None,
    default: Annotated[float | None, typer.Option(help="The reward that silence then counts as.")] = None,
) -> None:
    """Make a study of a model and its knobs.

    [bold]Examples[/bold]

      causalbandits study create email_campaign --to campaign.db

      causalbandits study create model.json --manipulate product,purpose --parents subject --to campaign.db \\
        --policy c-ts-beta --window 86400 --default 0
    """
    from causalbandits.study import Study

    with Study.create(to, asked.problem, policy, seed=seed, window=window, default=default) as made:
        typer.echo(f"{to}: {made.problem!r}, decided by {made.policy}.")


@study.command()
def ask(
    file: File,
    context: TypedValues = None,
    key: Annotated[str | None, typer.Option(help="Asking again with the same key gives the same decision.")] = None,
) -> None:
    """Ask for a decision; prints it as JSON.

    [bold]Example[/bold]

      causalbandits study ask campaign.db --context segment=new --key visitor-17
    """
    from causalbandits.study import Study

    with Study.open(file) as found:
        known = states(found.problem, context) if context else None
        decision = found.ask(context=known, key=key)
        shown = {"id": decision.id, "intervention": dict(decision.intervention), "propensity": decision.propensity}
        typer.echo(json.dumps(shown))


@study.command()
def tell(
    file: File,
    id: Annotated[str, typer.Argument(help="The decision's number, or its key.")],
    reward: Annotated[float, typer.Argument(help="The reward.")],
    parent: TypedValues = None,
    observed: TypedValues = None,
) -> None:
    """Tell the outcome of a decision.

    [bold]Example[/bold]

      causalbandits study tell campaign.db 17 1 --parent subject=short --parent template=1
    """
    from causalbandits.study import Study

    with Study.open(file) as found:
        seen = None if parent is None else states(found.problem, parent)
        more = None if observed is None else states(found.problem, observed)
        number = int(id) if id.isascii() and id.isdigit() else id
        told = found.tell(number, seen, reward, observed=more)
        typer.echo(json.dumps(told._asdict()))


@study.command()
def report(file: File) -> None:
    """How a study stands."""
    from rich.console import Console

    from causalbandits.study import Study

    with Study.open(file) as found:
        print_plain(Console(), repr(found.report()))


@study.command()
def verify(file: File) -> None:
    """Fold the log again, and compare with what is kept, bit for bit."""
    from causalbandits.study import Study

    with Study.open(file) as found:
        result = found.verify()
    typer.echo(repr(result))
    if not result:
        raise typer.Exit(1)


@study.command()
def export(
    file: File, to: Annotated[Path, typer.Argument(help="decisions.csv, .parquet or .dsjson", dir_okay=False)]
) -> None:
    """Write a line for each decision, with what came of it."""
    from causalbandits.study import Study

    with Study.open(file) as found:
        typer.echo(f"{to}: {found.export(to)} decisions")


@study.command()
def expire(file: File) -> None:
    """Take the silence of decisions whose window has passed for the default outcome; for a cron job."""
    from causalbandits.study import Study

    with Study.open(file) as found:
        typer.echo(f"{found.expire()} decisions have expired.")


@keys.command()
def make(
    file: KeysFile,
    name: Annotated[str, typer.Argument(help="Whose key it is.")],
    role: Annotated[
        str,
        typer.Option(metavar="reader|writer|admin", help="A reader looks, a writer asks and tells, an admin corrects."),
    ] = "writer",
) -> None:
    """Make a key; it is shown this once.

    [bold]Example[/bold]

      causalbandits study keys make keys.json backend --role writer
    """
    from causalbandits.service.keys import Keys

    typer.echo(Keys(file).make(name, role))


@keys.command()
def revoke(file: KeysFile, name: Annotated[str, typer.Argument(help="Whose key.")]) -> None:
    """A key opens nothing any more, once the service is started again."""
    from causalbandits.service.keys import Keys

    Keys(file).revoke(name)


@keys.command("list")
def listed(file: KeysFile) -> None:
    """Whose keys there are."""
    from causalbandits.service.keys import Keys

    for own in Keys(file):
        typer.echo(f"{own.name}  {own.role}")


def serve(
    files: Annotated[
        list[Path], typer.Argument(help="The studies' files; each is served by its name.", dir_okay=False)
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; other than 127.0.0.1 only with keys.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8000,
    keys: Annotated[
        Path | None, typer.Option(help="The file of keys; keys.json beside the first study if left out.")
    ] = None,
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
    typer.echo(f"http://{host}:{port} (Ctrl-C stops it)")
    run(files, host=host, port=port, keys=keys)


def states(problem: CausalBandit, typed: Sequence[str]) -> Mapping[str, Any]:
    """TypedValues as they were typed, as the states that they name."""
    found: dict[str, Any] = {}
    for name, text in assignments(typed, "A=x").items():
        known = {str(state): state for state in problem.variable(name).states}
        if text not in known:
            raise CausalBanditsError(f"{name} is one of {', '.join(known)}; got {text!r}.")
        found[name] = known[text]
    return found
