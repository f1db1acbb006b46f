"""Commands on a durable study: make it, ask and tell, look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits.cli.campaign import IdKind, TypedValues, ask, parse_states, recommend, tell
from causalbandits.cli.console import print_plain
from causalbandits.cli.options import CommandTarget, with_problem_options
from causalbandits.cli.service import keys
from causalbandits.errors import CausalBanditsError

study = typer.Typer(
    help="A campaign that goes on: decisions and outcomes in a file, for many processes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
study.add_typer(keys, name="keys")
for command in (ask, tell, recommend):
    study.command()(command)

StudyFile = Annotated[
    str, typer.Argument(help="The study's file, or its address, postgresql://host/database?study=name.")
]
PosteriorDraws = Annotated[
    int | None,
    typer.Option(min=1, help="Posterior draws a decision, for a Thompson policy: above 1, chances are known."),
]


@study.command()
@with_problem_options
def create(
    target: CommandTarget,
    to: Annotated[str, typer.Option(help="The study's file, or its address, where there must be none yet.")],
    policy: Annotated[str, typer.Option(help="The policy's id; `causalbandits policies` lists them.")] = "c-ts-beta",
    horizon: Annotated[
        int | None, typer.Option(min=1, help="For how many decisions, for a policy that wants to know.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Drawn by chance if left out.")] = None,
    window: Annotated[
        float | None, typer.Option(help="After so many seconds, silence may be taken for --default.")
    ] = None,
    default: Annotated[float | None, typer.Option(help="The reward that silence then counts as.")] = None,
    late: Annotated[
        str, typer.Option(help='What comes after that, "apply" in the default\'s place or "ignore".')
    ] = "apply",
    hold: Annotated[bool, typer.Option("--hold", help="Outcomes count when their window has passed, too.")] = False,
    impossible: Annotated[
        str, typer.Option(help='What the model gives probability 0, "refuse" or "accept".')
    ] = "refuse",
    draws: PosteriorDraws = None,
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
    from causalbandits.problem import Budget
    from causalbandits.study import Study

    if (budget is None) != (rounds is None):
        raise CausalBanditsError("--budget and --rounds belong together: so much to spend in so many decisions.")
    resolved_policy = policy_by_id(policy) if draws is None else policy_by_id(policy, draws=draws)
    total_budget = None if budget is None or rounds is None else Budget(budget, rounds)
    outcome_rules = {"window": window, "default": default, "late": late, "hold": hold, "impossible": impossible}
    rules: dict[str, Any] = {"horizon": horizon, "seed": seed, **outcome_rules, "floor": floor, "budget": total_budget}
    with Study.create(to, target.problem, resolved_policy, **rules) as new_study:
        typer.echo(f"{to}: {new_study.problem!r}, decided by {new_study.policy}.")


@study.command()
def report(file: StudyFile) -> None:
    """How a study stands."""
    from rich.console import Console

    from causalbandits.study import Study

    with Study.open(file) as current_study:
        print_plain(Console(), repr(current_study.report()))


@study.command()
def mode(
    file: StudyFile,
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

    with Study.open(file) as current_study:
        if to is not None:
            baseline_states = None if baseline is None else parse_states(current_study.problem, baseline)
            current_study.set_mode(to, baseline=baseline_states, by=by, why=why)  # type: ignore[arg-type]
        for record in current_study.modes():
            typer.echo(json.dumps(record))


@study.command()
def correct(
    file: StudyFile,
    id: Annotated[str, typer.Argument(help="The decision's number, or its key.")],
    reward: Annotated[float, typer.Argument(help="The reward that counts from now on.")],
    parent: TypedValues = None,
    by: IdKind = None,
) -> None:
    """Tell another outcome than the one that counts."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        parent_states = None if parent is None else parse_states(current_study.problem, parent)
        typer.echo(json.dumps(current_study.correct(current_study.id_of(id, by), parent_states, reward)._asdict()))


@study.command()
def learn(
    file: StudyFile,
    past: Annotated[Path, typer.Argument(help="Rounds of the past, .csv or .parquet, a line each.", dir_okay=False)],
    reward: Annotated[str | None, typer.Option(help="The column of the rewards; left out, the problem's own.")] = None,
    interventions: Annotated[
        str | None, typer.Option(help="The column that says what was set; left out, nothing was in any line.")
    ] = None,
    trust: Annotated[
        float | None,
        typer.Option(help="The prior probability that past rewards are not confounded; 1 for a randomised experiment."),
    ] = None,
) -> None:
    """Learn from rounds of the past that the study did not decide; the same ones again change nothing.

    [bold]Example[/bold]

      causalbandits study learn campaign.db last-year.csv --reward clicked
    """
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        typer.echo(repr(current_study.learn(past, reward=reward, interventions=interventions, trust=trust)))


@study.command()
def use(
    file: StudyFile,
    policy: Annotated[str, typer.Argument(help="The policy's id; `causalbandits policies` lists them.")],
    draws: PosteriorDraws = None,
) -> None:
    """Let another policy decide from now on; it starts with all that was learnt."""
    from causalbandits.policies import policy as policy_by_id
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.use(policy_by_id(policy) if draws is None else policy_by_id(policy, draws=draws))
        typer.echo(f"{file}: decided by {current_study.policy}.")


@study.command()
def retract(
    file: StudyFile, id: Annotated[str, typer.Argument(help="The decision's number, or its key.")], by: IdKind = None
) -> None:
    """Take back what was told of a decision: it waits for its outcome again."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.retract(current_study.id_of(id, by))


@study.command()
def forget(
    file: StudyFile, id: Annotated[str, typer.Argument(help="The decision's number, or its key.")], by: IdKind = None
) -> None:
    """Stop waiting for an outcome: the decision was not carried out."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.forget(current_study.id_of(id, by))


@study.command()
def verify(file: StudyFile) -> None:
    """Fold the log again, and compare with what is kept, bit for bit."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        result = current_study.verify()
    typer.echo(repr(result))
    if not result:
        raise typer.Exit(1)


@study.command()
def export(
    file: StudyFile, to: Annotated[Path, typer.Argument(help="decisions.csv, .parquet or .dsjson", dir_okay=False)]
) -> None:
    """Write a line for each decision, with what came of it."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        typer.echo(f"{to}: {current_study.export(to)}")


@study.command()
def backup(
    file: StudyFile, to: Annotated[Path, typer.Argument(help="The copy, which must not exist yet.", dir_okay=False)]
) -> None:
    """Copy a study while it is used, and verify the copy."""
    from causalbandits.study import back_up

    typer.echo(f"{to}: {back_up(file, to)!r}")


@study.command()
def expire(file: StudyFile) -> None:
    """Take the silence of decisions whose window has passed for the default outcome; for a cron job."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        typer.echo(f"{current_study.expire()} decisions whose window has passed.")
