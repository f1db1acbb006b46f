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
from causalbandits.cli.options import parse_assignments
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
IdKind = Annotated[
    str | None, typer.Option(help='What the decision is named by, "number" or "key", where digits could be both.')
]
SQLITE_MAGIC = b"SQLite format 3\0"


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
    with open_campaign(file) as agent_or_study:
        context_states = parse_states(agent_or_study.problem, context) if context else None
        if isinstance(agent_or_study, Agent):
            reject_key(key)
            decision = agent_or_study.ask(context=context_states)
        else:
            decision = agent_or_study.ask(context=context_states, key=key)
    record = {"id": decision.id, "intervention": dict(decision.intervention), "propensity": decision.propensity}
    typer.echo(json.dumps(record))


def tell(
    file: CampaignFile,
    id: Annotated[str, typer.Argument(help="The decision's number or, of a study, its key.")],
    reward: Annotated[float, typer.Argument(help="The reward.")],
    parent: TypedValues = None,
    observed: TypedValues = None,
    by: IdKind = None,
) -> None:
    """Tell the outcome of a decision; prints what became of it as JSON.

    [bold]Example[/bold]

      causalbandits tell campaign.db 17 1 --parent subject=short --parent template=1 --parent send_time=morning
    """
    with open_campaign(file) as agent_or_study:
        parent_states = None if parent is None else parse_states(agent_or_study.problem, parent)
        observed_states = None if observed is None else parse_states(agent_or_study.problem, observed)
        if isinstance(agent_or_study, Agent):
            reject_key(None if id.isascii() and id.isdigit() and by != "key" else id)
            agent_or_study.tell(
                int(id), ... if parent_states is None else parent_states, reward, observed=observed_states
            )
            receipt = {"status": "applied", "why": "", "missing": []}
        else:
            receipt = agent_or_study.tell(
                agent_or_study.id_of(id, by), parent_states, reward, observed=observed_states
            )._asdict()
    typer.echo(json.dumps(receipt))


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

    with open_campaign(file, save_changes=False) as agent_or_study:
        context_states = parse_states(agent_or_study.problem, context) if context else None
        print_plain(Console(), repr(agent_or_study.recommend(context=context_states, level=level, epsilon=epsilon)))


@contextmanager
def open_campaign(file: str, *, save_changes: bool = True) -> Iterator[Agent | Study]:
    """What a file holds. An agent is saved when all went well; of a study everything is on disk at once."""
    if _is_study(file):
        from causalbandits.study import Study

        with Study.open(file) as study:
            yield study
        return
    agent = Agent.load(file)
    yield agent
    if save_changes:
        agent.save(file)


def _is_study(file: str) -> bool:
    from causalbandits.study.storage import is_postgres_url

    try:
        if is_postgres_url(file):
            return True
        with Path(file).open("rb") as stream:
            return stream.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except OSError as error:
        raise StateError(f"Cannot read {file}: {error.strerror}. causalbandits study create makes a study.") from None


def reject_key(key: object) -> None:
    """An agent knows its decisions by number alone."""
    if isinstance(key, str):
        raise CausalBanditsError(
            f"An agent's decisions have numbers, and no keys; got {key!r}. A study has both: "
            "causalbandits study create."
        )


def parse_states(problem: Problem, arguments: Sequence[str]) -> Mapping[str, Any]:
    """Values as they were typed, as the states that they name."""
    values: dict[str, Any] = {}
    for name, text in parse_assignments(arguments, "A=x").items():
        states_by_text = {str(state): state for state in problem.variable(name).states}
        if text not in states_by_text:
            raise CausalBanditsError(f"{name} is one of {', '.join(states_by_text)}; got {text!r}.")
        values[name] = states_by_text[text]
    return values
