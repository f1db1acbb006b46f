"""Commands on a durable study: make it, ask and tell, look at it, serve it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits.cli.asking import NamedBy, TypedValues, ask, recommend, states, tell
from causalbandits.cli.options import Asked, about_a_problem
from causalbandits.cli.show import print_plain
from causalbandits.errors import CausalBanditsError, StateError

study = typer.Typer(
    help="A campaign that goes on: decisions and outcomes in a file, for many processes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
keys = typer.Typer(help="Who may reach a service: keys with roles.", no_args_is_help=True)
study.add_typer(keys, name="keys")
for command in (ask, tell, recommend):
    study.command()(command)

File = Annotated[str, typer.Argument(help="The study's file, or its address, postgresql://host/database?study=name.")]
KeysFile = Annotated[Path, typer.Argument(help="The file of keys; a service looks for keys.json beside its study.")]


@study.command()
@about_a_problem
def create(
    asked: Asked,
    to: Annotated[str, typer.Option(help="The study's file, or its address, where there must be none yet.")],
    policy: Annotated[str, typer.Option(help="The policy's id; `causalbandits policies` lists them.")] = "c-ts-beta",
    seed: Annotated[int | None, typer.Option(min=0, help="Drawn by chance if left out.")] = None,
    window: Annotated[
        float | None, typer.Option(help="After so many seconds, silence may be taken for --default.")
    ] = None,
    default: Annotated[float | None, typer.Option(help="The reward that silence then counts as.")] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=1, help="Posterior draws a decision, for a Thompson policy: above 1, chances are known."),
    ] = None,
    floor: Annotated[
        float,
        typer.Option(help="The probability that is spread over all actions, so that the log can be weighted by them."),
    ] = 0.0,
    budget: Annotated[float | None, typer.Option(help="So much may be spent; with --rounds.")] = None,
    rounds: Annotated[int | None, typer.Option(help="In so many decisions.")] = None,
) -> None:
    """Make a study of a model and its knobs.

    [bold]Examples[/bold]

      causalbandits study create email_campaign --to campaign.db

      causalbandits study create model.json --manipulate product,purpose --parents subject --to campaign.db \\
        --policy c-ts-beta --window 86400 --default 0
    """
    from causalbandits.policies import policy as policy_by_id
    from causalbandits.problem.budget import Budget
    from causalbandits.study import Study

    if (budget is None) != (rounds is None):
        raise CausalBanditsError("--budget and --rounds belong together: so much to spend in so many decisions.")
    chosen = policy_by_id(policy) if draws is None else policy_by_id(policy, draws=draws)
    money = None if budget is None or rounds is None else Budget(budget, rounds)
    rules: dict[str, Any] = {"seed": seed, "window": window, "default": default, "floor": floor, "budget": money}
    with Study.create(to, asked.problem, chosen, **rules) as made:
        typer.echo(f"{to}: {made.problem!r}, decided by {made.policy}.")


@study.command()
def report(file: File) -> None:
    """How a study stands."""
    from rich.console import Console

    from causalbandits.study import Study

    with Study.open(file) as found:
        print_plain(Console(), repr(found.report()))


@study.command()
def mode(
    file: File,
    to: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODE]",
            help="online, shadow, uniform, frozen, paused or closed; left out, the modes so far are listed.",
            show_default=False,
        ),
    ] = None,
    baseline: TypedValues = None,
    by: Annotated[str, typer.Option(help="Who wants it.")] = "",
    why: Annotated[str, typer.Option(help="For the record.")] = "",
) -> None:
    """How decisions come about from now on, or the modes so far; every change is kept.

    [bold]Examples[/bold]

      causalbandits study mode campaign.db

      causalbandits study mode campaign.db shadow --baseline send_time=morning --why "before we trust it"
    """
    from causalbandits.study import Study

    with Study.open(file) as found:
        if to is not None:
            done = None if baseline is None else states(found.problem, baseline)
            found.set_mode(to, baseline=done, by=by, why=why)  # type: ignore[arg-type]
        for one in found.modes():
            typer.echo(json.dumps(one))


@study.command()
def correct(
    file: File,
    id: Annotated[str, typer.Argument(help="The decision's number, or its key.")],
    reward: Annotated[float, typer.Argument(help="The reward that counts from now on.")],
    parent: TypedValues = None,
    by: NamedBy = None,
) -> None:
    """Tell another outcome than the one that counts."""
    from causalbandits.study import Study

    with Study.open(file) as found:
        seen = None if parent is None else states(found.problem, parent)
        typer.echo(json.dumps(found.correct(found.id_of(id, by), seen, reward)._asdict()))


@study.command()
def forget(
    file: File, id: Annotated[str, typer.Argument(help="The decision's number, or its key.")], by: NamedBy = None
) -> None:
    """Stop waiting for an outcome: the decision was not carried out."""
    from causalbandits.study import Study

    with Study.open(file) as found:
        found.forget(found.id_of(id, by))


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
def backup(
    file: File, to: Annotated[Path, typer.Argument(help="The copy, which must not exist yet.", dir_okay=False)]
) -> None:
    """Copy a study while it is used, and verify the copy."""
    from causalbandits.study.backup import back_up

    typer.echo(f"{to}: {back_up(file, to)!r}")


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
    study: Annotated[
        list[str] | None, typer.Option(help="A study that it opens, as often as you like; all, if left out.")
    ] = None,
) -> None:
    """Make a key; it is shown this once.

    [bold]Example[/bold]

      causalbandits study keys make keys.json backend --role writer
    """
    from causalbandits.service.keys import Keys

    typer.echo(Keys(file).make(name, role, study or ()))


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
        typer.echo("  ".join([own.name, own.role, *([] if own.studies is None else own.studies)]))


def serve(
    files: Annotated[
        list[str] | None, typer.Argument(help="The studies' files, or addresses; each is served by its name.")
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
    run(files or [], host=host, port=port, keys=keys, directory=directory, ready=lambda: typer.echo(address))
