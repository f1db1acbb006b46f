"""Commands on a durable study: make it, ask and tell, look at it."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits.cli.campaign import IdKind, TypedValues, ask, parse_states, recommend, tell
from causalbandits.cli.console import print_plain
from causalbandits.cli.options import CommandTarget, translate_errors, with_problem_options
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
PosteriorSamples = Annotated[
    int | None,
    typer.Option(min=1, help="Posterior samples for a decision of a Thompson policy: above 1, propensities are known."),
]


def user_name() -> str:
    """Who is logged for a change: the user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without an entry for the user
        return ""


POLICY_HELP = 'A family with options, such as "c-ts(prior=beta)"; `causalbandits policies` lists them.'


@study.command()
@with_problem_options
def create(
    target: CommandTarget,
    to: Annotated[str, typer.Option(help="The study's file, or its address, where there must be none yet.")],
    policy: Annotated[str, typer.Option(help=f"{POLICY_HELP} auto: chosen for the problem.")] = "auto",
    horizon: Annotated[
        int | None, typer.Option(min=1, help="For how many decisions, for a policy that wants to know.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Drawn by chance if left out.")] = None,
    attribution_window: Annotated[
        float | None,
        typer.Option(help="Seconds after which a decision without an outcome may be given --default-reward."),
    ] = None,
    default_reward: Annotated[
        float | None, typer.Option(help="The reward of a decision without an outcome after --attribution-window.")
    ] = None,
    late_outcomes: Annotated[
        str,
        typer.Option(help='Outcomes after that replace the default reward, "apply", or are only recorded, "ignore".'),
    ] = "apply",
    hold_until_window: Annotated[
        bool, typer.Option("--hold-until-window", help="Outcomes count only when their window has passed.")
    ] = False,
    zero_probability: Annotated[
        str, typer.Option(help='Observed values to which the model gives probability 0: "raise" (refuse) or "allow".')
    ] = "raise",
    samples: PosteriorSamples = None,
    min_propensity: Annotated[
        float,
        typer.Option(help="The probability that is spread over all actions, so that the log can be weighted by them."),
    ] = 0.0,
    holdout: Annotated[
        float, typer.Option(help="The share of units in the control group, which always gets --baseline.")
    ] = 0.0,
    baseline: TypedValues = None,
    budget: Annotated[float | None, typer.Option(help="So much may be spent; with --rounds.")] = None,
    rounds: Annotated[int | None, typer.Option(help="In so many decisions.")] = None,
) -> None:
    """Make a study of a model and its knobs.

    [bold]Examples[/bold]

      causalbandits study create email_campaign --to campaign.db

      causalbandits study create model.json --manipulable product,purpose --reward-parents subject --to campaign.db \\
        --attribution-window 86400 --default-reward 0
    """
    from causalbandits.policies import policy as parse_policy
    from causalbandits.problem import Budget
    from causalbandits.study import Study

    if (budget is None) != (rounds is None):
        raise CausalBanditsError("--budget and --rounds belong together: so much to spend in so many decisions.")
    parsed_policy = parse_policy(policy) if samples is None else parse_policy(policy, samples=samples)
    total_budget = None if budget is None or rounds is None else Budget(budget, rounds)
    outcome_rules = {
        "attribution_window": attribution_window,
        "default_reward": default_reward,
        "late_outcomes": late_outcomes,
        "hold_until_window": hold_until_window,
        "zero_probability": zero_probability,
    }
    rules: dict[str, Any] = {
        "horizon": horizon,
        "seed": seed,
        **outcome_rules,
        "min_propensity": min_propensity,
        "holdout": holdout,
        "baseline": None if baseline is None else parse_states(target.problem, baseline),
        "budget": total_budget,
    }
    with translate_errors(*rules), Study.create(to, target.problem, parsed_policy, **rules) as new_study:
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
    by: Annotated[str | None, typer.Option(help="Who wants it; left out, the user of this machine.")] = None,
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
            current_study.set_mode(to, baseline=baseline_states, by=user_name() if by is None else by, why=why)  # type: ignore[arg-type]
        for record in current_study.modes():
            typer.echo(json.dumps(record))


@study.command()
def correct(
    file: StudyFile,
    id: Annotated[str, typer.Argument(help="The decision's id, number or key.")],
    reward: Annotated[float, typer.Argument(help="The reward that counts from now on.")],
    observed: TypedValues = None,
    by: IdKind = None,
) -> None:
    """Tell another outcome than the one that counts."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        observed_states = None if observed is None else parse_states(current_study.problem, observed)
        receipt = current_study.correct(
            current_study.id_of(id, by), reward=reward, observed=observed_states, by=user_name()
        )
    typer.echo(json.dumps(receipt._asdict()))


@study.command()
def learn(
    file: StudyFile,
    past: Annotated[Path, typer.Argument(help="Rounds of the past, .csv or .parquet, a line each.", dir_okay=False)],
    reward: Annotated[str | None, typer.Option(help="The column of the rewards; left out, the problem's own.")] = None,
    interventions: Annotated[
        str | None, typer.Option(help="The column that says what was set; left out, nothing was in any line.")
    ] = None,
    trust_past: Annotated[
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
        typer.echo(repr(current_study.learn(past, reward=reward, interventions=interventions, trust_past=trust_past)))


@study.command()
def use(
    file: StudyFile,
    policy: Annotated[
        str | None,
        typer.Argument(help=f"{POLICY_HELP} Left out, the policies so far are listed.", show_default=False),
    ] = None,
    samples: PosteriorSamples = None,
) -> None:
    """Let another policy decide from now on, starting with all that was learnt; or list the policies so far."""
    from causalbandits.policies import policy as parse_policy
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        if policy is None:
            for record in current_study.policies():
                typer.echo(json.dumps(record))
            return
        new_policy = parse_policy(policy) if samples is None else parse_policy(policy, samples=samples)
        current_study.use(new_policy, by=user_name())
        typer.echo(f"{file}: decided by {current_study.policy}.")


@study.command()
def retract(
    file: StudyFile, id: Annotated[str, typer.Argument(help="The decision's id, number or key.")], by: IdKind = None
) -> None:
    """Take back what was told: the decision waits again. By a key, also an outcome that came before its decision."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.retract(current_study.id_of(id, by), by=user_name())


@study.command()
def early(file: StudyFile) -> None:
    """List outcomes that came before their decision, as JSON, one a line; retract takes one back by its key.

    [bold]Example[/bold]

      causalbandits study early campaign.db
    """
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        page = current_study.early_outcomes()
        while page:
            for outcome in page:
                typer.echo(json.dumps(outcome._asdict()))
            page = current_study.early_outcomes(page[-1].key)


@study.command()
def cancel(
    file: StudyFile, id: Annotated[str, typer.Argument(help="The decision's id, number or key.")], by: IdKind = None
) -> None:
    """Stop waiting for an outcome: the decision was not carried out."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.cancel(current_study.id_of(id, by), by=user_name())


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
