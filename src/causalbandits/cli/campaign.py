"""A campaign without Python code: ask, tell and recommend, on a study or on an agent's file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbandits.agent import Agent
from causalbandits.cli.console import print_plain
from causalbandits.cli.options import parse_assignments
from causalbandits.errors import CausalBanditsError, StateError
from causalbandits.model import intervals_of_states
from causalbandits.problem import Problem

if TYPE_CHECKING:
    from causalbandits.study import Study

CampaignFile = Annotated[
    str,
    typer.Argument(
        help=("A study's file or PostgreSQL address, or a file written by agent.save()."), show_default=False
    ),
]
TypedValues = Annotated[
    list[str] | None, typer.Option(metavar="A=x", help="The value of a variable; repeatable.", show_default=False)
]
IdKind = Annotated[str | None, typer.Option(help='Whether ID is a "number" or a "key"; required if it could be both.')]
SQLITE_MAGIC = b"SQLite format 3\0"


def ask(
    file: CampaignFile,
    context: TypedValues = None,
    key: Annotated[
        str | None,
        typer.Option(
            help=("Idempotency key, one for each exposure: a repeated request returns the same decision. Studies only.")
        ),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(help="The visitor, patient or machine: its later decisions repeat its action. Studies only."),
    ] = None,
    sticky: Annotated[
        bool, typer.Option("--sticky/--no-sticky", help=("Whether later decisions of the unit repeat its action."))
    ] = True,
) -> None:
    """Choose an action for the next decision, and print the decision as JSON.

    [bold]Example[/bold]

      causalbandits ask campaign.db --context segment=new --key visit-4711 --unit visitor-17
    """
    with open_campaign(file) as agent_or_study:
        context_states = parse_states(agent_or_study.problem, context) if context else None
        if isinstance(agent_or_study, Agent):
            reject_key(key)
            if unit is not None:
                raise CausalBanditsError(
                    "--unit requires a study, and this file holds an agent. Create a study: causalbandits study create."
                )
            decision = agent_or_study.ask(context=context_states)
        else:
            decision = agent_or_study.ask(context=context_states, key=key, unit=unit, sticky=sticky)
    record = {"id": decision.id, "action": decision.action, "propensity": decision.propensity}
    typer.echo(json.dumps(record))


def tell(
    file: CampaignFile,
    id: Annotated[str, typer.Argument(help="The decision's number; in a study, also its id or key.")],
    reward: Annotated[
        float | None,
        typer.Argument(
            help="The reward. In a study, it may be left out if only --observed is new.", show_default=False
        ),
    ] = None,
    observed: TypedValues = None,
    by: IdKind = None,
) -> None:
    """Report the outcome of a decision, and print its status as JSON.

    An outcome that is "incomplete" is completed by the values that are missing, without its reward.

    [bold]Examples[/bold]

      causalbandits tell campaign.db 17 1 --observed subject=short --observed template=1

      causalbandits tell campaign.db 17 --observed subject=short
    """
    with open_campaign(file) as agent_or_study:
        observed_states = None if observed is None else parse_states(agent_or_study.problem, observed)
        if reward is None and (observed is None or isinstance(agent_or_study, Agent)):
            raise CausalBanditsError(
                f"The reward is missing: causalbandits tell FILE {id} REWARD. Nothing was changed."
            )
        if isinstance(agent_or_study, Agent):
            assert reward is not None
            reject_key(None if id.isascii() and id.isdigit() and by != "key" else id)
            agent_or_study.tell(int(id), reward=reward, observed=observed_states)
            record: dict[str, Any] = {"status": "applied", "why": "", "missing": []}
        else:
            receipt = agent_or_study.tell(agent_or_study.id_of(id, by), reward=reward, observed=observed_states)
            record = receipt._asdict()
            if receipt.status == "incomplete":
                values = " ".join(f"--observed {name}=..." for name in receipt.missing)
                record["why"] += f": causalbandits tell FILE {id} {values}"
    typer.echo(json.dumps(record))


def recommend(
    file: CampaignFile,
    context: TypedValues = None,
    confidence: Annotated[
        float, typer.Option(min=0, max=1, help="Confidence level of the interval and the stopping rule, such as 0.95.")
    ] = 0.95,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Acceptable loss in mean reward, in the reward's units.")
    ] = 0.0,
    table: Annotated[bool, typer.Option("--table", help="Print the ranking of all actions with intervals.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Print the best action so far: mean reward with an interval, probability of being best, stopping rule.

    [bold]Examples[/bold]

      causalbandits recommend campaign.db --tolerance 0.01

      causalbandits recommend campaign.db --table --json
    """
    from rich.console import Console

    from causalbandits.study.remote import encode_action_table, encode_recommendation, without_python

    with open_campaign(file, save_changes=False) as agent_or_study:
        context_states = parse_states(agent_or_study.problem, context) if context else None
        recommendation = agent_or_study.recommend(context=context_states, confidence=confidence, tolerance=tolerance)
        ranking = recommendation.table() if table else None
    if json_output:
        record = encode_recommendation(recommendation)
        typer.echo(json.dumps({**record, "table": encode_action_table(ranking)} if ranking else record))
    else:
        text = repr(recommendation) if ranking is None else f"{recommendation!r}\n\n{ranking.format_rows()}"
        print_plain(Console(), without_python(text))


def structure(
    file: CampaignFile,
    at_least: Annotated[
        float, typer.Option(min=0, max=1, help="Smallest probability of an edge in the graph of the last line.")
    ] = 0.5,
    out: Annotated[
        Path | None,
        typer.Option(help="Write this graph to a file, such as graph.json or graph.dot.", dir_okay=False),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw all edges with a probability of 0.1 or more (.svg, .png, .pdf).", dir_okay=False),
    ] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Print the causal structure learned so far, for a campaign whose problem has no graph.

    An edge into a variable is followed by its probability: the probability that the variable's parent set contains
    the other variable. The parent set of the reward separates the actions from the reward. Its variables need not
    cause the reward. The graph of the probable edges can be written to a file, corrected, and used to create another
    study.

    [bold]Examples[/bold]

      causalbandits structure campaign.db

      causalbandits structure campaign.db --at-least 0.9 --out graph.json --picture structure.svg

      causalbandits study create graph.json --reward click --manipulable purpose,send_time --to next.db
    """
    from rich.console import Console

    from causalbandits.formats import write
    from causalbandits.results.plots import parse_picture_path
    from causalbandits.study.remote import encode_structure

    if picture is not None:
        parse_picture_path(picture)
    with open_campaign(file, save_changes=False) as agent_or_study:
        learned = agent_or_study.structure()
    graph = learned.graph(at_least)
    lines = [repr(learned), f"Graph (edges with probability {at_least:g} or more): {graph.to_text()}"]
    if out is not None:
        write(graph, out)
        lines.append(f"Graph file: {out}")
    if picture is not None:
        learned.plot(picture)
        lines.append(f"Picture: {picture}")
    if json_output:
        typer.echo(json.dumps(encode_structure(learned)))
    else:
        print_plain(Console(), "\n".join(lines))


@contextmanager
def open_campaign(file: str, *, save_changes: bool = True) -> Iterator[Agent | Study]:
    """The agent or study in a file. An agent is saved if the command succeeds; a study stores every change at once."""
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
        raise StateError(
            f"Cannot read {file}: {error.strerror}. To create a study: causalbandits study create."
        ) from None


def reject_key(key: object) -> None:
    """Refuse keys for an agent, which identifies decisions by number."""
    if isinstance(key, str):
        raise CausalBanditsError(
            f"The decisions of an agent have numbers and no keys; got {key!r}. Pass the number, or create a study, "
            "whose decisions have both: causalbandits study create."
        )


def parse_states(problem: Problem, arguments: Sequence[str]) -> Mapping[str, Any]:
    """Typed values, as the states that they name."""
    values: dict[str, Any] = {}
    for name, text in parse_assignments(arguments, "A=x").items():
        variable = problem.variable(name)
        states_by_text = {str(state): state for state in variable.states}
        if text not in states_by_text and intervals_of_states(variable.states) is not None and is_number(text):
            values[name] = variable.states[variable.code(float(text))]
            continue
        if text not in states_by_text:
            is_list = "," in text and "=" in text
            several = " Repeat the option for each variable: it takes a single NAME=value." if is_list else ""
            raise CausalBanditsError(f"{name} must be one of {', '.join(states_by_text)}; got {text!r}.{several}")
        values[name] = states_by_text[text]
    return values


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
