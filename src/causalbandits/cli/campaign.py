"""A campaign without a line of Python: ask, tell and recommend, on a study or on an agent's file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbandits.agent import Agent
from causalbandits.cli.console import print_plain
from causalbandits.cli.options import assignments
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.problem import Problem

if TYPE_CHECKING:
    from causalbandits.study import Study

CampaignFile = Annotated[
    str, typer.Argument(help="A study's file, or its address; or a file that agent.save() wrote.", show_default=False)
]
TypedValues = Annotated[
    list[str] | None, typer.Option(metavar="A=x", help="A value, as often as you like.", show_default=False)
]
NamedBy = Annotated[
    str | None, typer.Option(help='What the decision is named by, "number" or "key", where digits could be both.')
]
SQLITE = b"SQLite format 3\0"


def ask(
    file: CampaignFile,
    context: TypedValues = None,
    key: Annotated[
        str | None, typer.Option(help="Of a study: asking again with the same key gives the same decision.")
    ] = None,
) -> None:
    """Ask for a decision; prints it as JSON.

    [bold]Example[/bold]

      causalbandits ask campaign.db --context segment=new --key visitor-17
    """
    with campaign(file) as found:
        known = states(found.problem, context) if context else None
        if isinstance(found, Agent):
            refuse_key(key)
            decision = found.ask(context=known)
        else:
            decision = found.ask(context=known, key=key)
    shown = {"id": decision.id, "intervention": dict(decision.intervention), "propensity": decision.propensity}
    typer.echo(json.dumps(shown))


def tell(
    file: CampaignFile,
    id: Annotated[str, typer.Argument(help="The decision's number or, of a study, its key.")],
    reward: Annotated[float, typer.Argument(help="The reward.")],
    parent: TypedValues = None,
    observed: TypedValues = None,
    by: NamedBy = None,
) -> None:
    """Tell the outcome of a decision; prints what became of it as JSON.

    [bold]Example[/bold]

      causalbandits tell campaign.db 17 1 --parent subject=short --parent template=1 --parent send_time=morning
    """
    with campaign(file) as found:
        seen = None if parent is None else states(found.problem, parent)
        more = None if observed is None else states(found.problem, observed)
        if isinstance(found, Agent):
            refuse_key(None if id.isascii() and id.isdigit() and by != "key" else id)
            found.tell(int(id), ... if seen is None else seen, reward, observed=more)
            became = {"status": "applied", "why": ""}
        else:
            became = found.tell(found.id_of(id, by), seen, reward, observed=more)._asdict()
    typer.echo(json.dumps(became))


def recommend(
    file: CampaignFile,
    context: TypedValues = None,
    level: Annotated[float, typer.Option(help="How sure the interval is to be.")] = 0.95,
    epsilon: Annotated[
        float, typer.Option(help="By so much another may be better, and you may stop all the same.")
    ] = 0.0,
) -> None:
    """What to do if the campaign had to stop now, how sure that is, and whether it may.

    [bold]Example[/bold]

      causalbandits recommend campaign.db --epsilon 0.01
    """
    from rich.console import Console

    with campaign(file, changes=False) as found:
        known = states(found.problem, context) if context else None
        print_plain(Console(), repr(found.recommend(context=known, level=level, epsilon=epsilon)))


@contextmanager
def campaign(file: str, *, changes: bool = True) -> Iterator[Agent | Study]:
    """What a file holds. An agent is saved when all went well; of a study everything is on disk at once."""
    if _is_study(file):
        from causalbandits.study import Study

        with Study.open(file) as study:
            yield study
        return
    agent = Agent.load(file)
    yield agent
    if changes:
        agent.save(file)


def _is_study(file: str) -> bool:
    from causalbandits.study.storage import is_address

    try:
        if is_address(file):
            return True
        with Path(file).open("rb") as opened:
            return opened.read(len(SQLITE)) == SQLITE
    except OSError as error:
        raise StateError(f"Cannot read {file}: {error.strerror}. causalbandits study create makes a study.") from None


def refuse_key(given: object) -> None:
    """An agent knows its decisions by number alone."""
    if isinstance(given, str):
        raise CausalBanditsError(
            f"An agent's decisions have numbers, and no keys; got {given!r}. A study has both: "
            "causalbandits study create."
        )


def states(problem: Problem, typed: Sequence[str]) -> Mapping[str, Any]:
    """Values as they were typed, as the states that they name."""
    found: dict[str, Any] = {}
    for name, text in assignments(typed, "A=x").items():
        known = {str(state): state for state in problem.variable(name).states}
        if text not in known:
            raise CausalBanditsError(f"{name} is one of {', '.join(known)}; got {text!r}.")
        found[name] = known[text]
    return found
