"""Commands on a durable study: create it, ask and tell, report its status."""

from __future__ import annotations

import getpass
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from causalbandits.cli.campaign import IdKind, TypedValues, ask, parse_states, recommend, structure, tell
from causalbandits.cli.console import print_plain
from causalbandits.cli.options import CommandTarget, translate_errors, with_problem_options
from causalbandits.cli.service import keys
from causalbandits.errors import CausalBanditsError

if TYPE_CHECKING:
    from causalbandits.study import Rules

study = typer.Typer(
    help="Run a durable campaign: decisions and outcomes in a file or a database, for many processes.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
study.add_typer(keys, name="keys")
for command in (ask, tell, recommend, structure):
    study.command()(command)

StudyFile = Annotated[
    str, typer.Argument(help="The study's file, or its address postgresql://host/database?study=name.")
]
PosteriorSamples = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=("Posterior samples per decision of a Thompson sampling policy; with 2 or more, propensities are logged."),
    ),
]


def user_name() -> str:
    """The name that is logged for a change: the user of this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container without an entry for the user
        return ""


POLICY_HELP = 'A policy family with options, such as "c-ts(prior=beta)"; `causalbandits policies` lists them.'


@study.command()
@with_problem_options
def create(
    target: CommandTarget,
    to: Annotated[str, typer.Option(help="The study's file or address, which must not exist yet.")],
    policy: Annotated[str, typer.Option(help=f"{POLICY_HELP} auto: the problem's default policy.")] = "auto",
    horizon: Annotated[
        int | None, typer.Option(min=1, help="Planned number of decisions, for policies that use it.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help=("Random seed. Default: a random one, which the study stores."))
    ] = None,
    attribution_window: Annotated[
        float | None,
        typer.Option(help="Outcome timeout in seconds: `study expire` then assigns --default-reward (requires it)."),
    ] = None,
    default_reward: Annotated[
        float | None,
        typer.Option(help=("Reward of a decision without an outcome after --attribution-window (requires it).")),
    ] = None,
    late_outcomes: Annotated[
        str,
        typer.Option(
            help=('Outcomes after the timeout replace the default reward ("apply") or are only recorded ("ignore").')
        ),
    ] = "apply",
    hold_until_window: Annotated[
        bool,
        typer.Option(
            "--hold-until-window", help=("Delay updates until the attribution window of the decision has passed.")
        ),
    ] = False,
    zero_probability: Annotated[
        str,
        typer.Option(
            help=('Treatment of observed values that have probability 0 in the model: "raise" (reject) or "allow".')
        ),
    ] = "raise",
    samples: PosteriorSamples = None,
    min_propensity: Annotated[
        float,
        typer.Option(
            help=("Probability that is spread uniformly over all actions, for off-policy evaluation by actions.")
        ),
    ] = 0.0,
    holdout: Annotated[
        float, typer.Option(help="Share of units in the control group, which always receives --baseline (requires it).")
    ] = 0.0,
    baseline: TypedValues = None,
    changes: Annotated[
        float | None,
        typer.Option(
            help="Follow changes of mechanisms, with this probability of a false alarm, such as 0.05. Default: they "
            "are assumed to stay the same."
        ),
    ] = None,
    budget: Annotated[float | None, typer.Option(help="Total budget (requires --rounds).")] = None,
    rounds: Annotated[
        int | None, typer.Option(help=("Number of decisions that the budget must last (requires --budget)."))
    ] = None,
) -> None:
    """Create a study of a problem.

    [bold]Examples[/bold]

      causalbandits study create email_campaign --to campaign.db

      causalbandits study create model.json --manipulable product,purpose --reward-parents subject --to campaign.db \\
        --attribution-window 86400 --default-reward 0
    """
    from causalbandits.policies import policy as parse_policy
    from causalbandits.problem import Budget
    from causalbandits.study import Study

    if (budget is None) != (rounds is None):
        raise CausalBanditsError(
            "--budget and --rounds require each other: the total budget, and the number of decisions that it "
            "must last. Pass both or neither."
        )
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
        "changes": changes,
        "budget": total_budget,
    }
    with translate_errors(*rules), Study.create(to, target.problem, parsed_policy, **rules) as new_study:
        typer.echo(f"Study: {to}\nProblem: {new_study.problem!r}\nPolicy: {new_study.policy}")
        typer.echo("\n".join(_format_rules(new_study.rules)))


def _format_rules(rules: Rules) -> list[str]:
    """The rules of a new study that depend on its options, one per line."""
    window = "none; decisions without an outcome stay open"
    if rules.attribution_window is not None:
        window = f"{rules.attribution_window:g} s, default reward {rules.default_reward:g}, late outcomes: "
        window += f"{rules.late_outcomes}{', outcomes are held until it closes' if rules.hold_until_window else ''}"
    lines = [f"Attribution window: {window}"]
    if rules.holdout and rules.baseline is not None:
        always = ", ".join(f"{name}={value}" for name, value in rules.baseline.items())
        lines.append(f"Control group: {100 * rules.holdout:g}% of units, always {always}")
    return lines


@study.command()
def report(file: StudyFile) -> None:
    """Print the status of a study: decisions, outcomes, past data, mean reward and budget."""
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
            help="online, shadow, uniform, frozen, paused or closed. Without it, the command lists all modes so far.",
            show_default=False,
        ),
    ] = None,
    baseline: TypedValues = None,
    by: Annotated[
        str | None, typer.Option(help=("Name that the study logs for the change. Default: the user of this machine."))
    ] = None,
    why: Annotated[str, typer.Option(help="Reason for the change, which the study stores.")] = "",
) -> None:
    """Change the mode of a study, or list all modes so far. The study logs every change.

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
    reward: Annotated[float, typer.Argument(help="The new reward, which replaces the reported one.")],
    observed: TypedValues = None,
    by: IdKind = None,
) -> None:
    """Replace the reported outcome of a decision."""
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
    past: Annotated[Path, typer.Argument(help="Past rounds, one row each (.csv or .parquet).", dir_okay=False)],
    reward: Annotated[
        str | None, typer.Option(help=("The column of the rewards. Default: the problem's reward."))
    ] = None,
    interventions: Annotated[
        str | None,
        typer.Option(
            help=("The column that names the variables set in each row. Default: all rows are observational.")
        ),
    ] = None,
    trust_past: Annotated[
        float | None,
        typer.Option(help="Prior probability that past rewards are not confounded; 1 for a randomised experiment."),
    ] = None,
) -> None:
    """Learn from past rounds that the study did not decide. Learning the same rows again changes nothing.

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
        typer.Argument(help=f"{POLICY_HELP} Without it, the command lists all policies so far.", show_default=False),
    ] = None,
    samples: PosteriorSamples = None,
) -> None:
    """Change the policy of a study, or list all policies so far. The new policy starts with all outcomes so far."""
    from causalbandits.policies import policy as parse_policy
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        if policy is None:
            for record in current_study.policies():
                typer.echo(json.dumps(record))
            return
        new_policy = parse_policy(policy) if samples is None else parse_policy(policy, samples=samples)
        current_study.use(new_policy, by=user_name())
        typer.echo(f"Study: {file}\nPolicy: {current_study.policy}")


@study.command()
def changes(
    file: StudyFile,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Print the changes of mechanisms so far, detected or reported, and the evidence for further ones.

    [bold]Example[/bold]

      causalbandits study changes campaign.db
    """
    from rich.console import Console

    from causalbandits.study import Study
    from causalbandits.study.remote import encode_changes

    with Study.open(file) as current_study:
        found = current_study.changes()
    if json_output:
        typer.echo(json.dumps(encode_changes(found)))
    else:
        print_plain(Console(), repr(found))


@study.command()
def changed(
    file: StudyFile,
    mechanism: Annotated[
        str, typer.Option(help="The variable whose conditional probability table changed, or the reward.")
    ],
) -> None:
    """Report that a mechanism has changed: outcomes of earlier decisions no longer count for it.

    [bold]Example[/bold]

      causalbandits study changed campaign.db --mechanism template
    """
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.changed(mechanism, by=user_name())


@study.command()
def retract(
    file: StudyFile, id: Annotated[str, typer.Argument(help="The decision's id, number or key.")], by: IdKind = None
) -> None:
    """Remove the outcome of a decision, which is then pending again.

    A key can also name an outcome that was reported before its decision.
    """
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.retract(current_study.id_of(id, by), by=user_name())


@study.command()
def early(file: StudyFile) -> None:
    """List outcomes that were reported before their decision, as JSON, one per line.

    To remove one, pass its key to retract.

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
    """Cancel a decision that was not carried out. It no longer waits for an outcome."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        current_study.cancel(current_study.id_of(id, by), by=user_name())


@study.command()
def verify(file: StudyFile) -> None:
    """Replay the event log, and compare the result with the stored state bit for bit."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        result = current_study.verify()
    typer.echo(repr(result))
    if not result:
        raise typer.Exit(1)


@study.command()
def export(
    file: StudyFile,
    to: Annotated[
        Path,
        typer.Argument(help=("The file to write, such as decisions.csv (.csv, .parquet, .dsjson)."), dir_okay=False),
    ],
) -> None:
    """Export all decisions with their outcomes, one row each."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        typer.echo(f"{to}: {current_study.export(to)}")


@study.command()
def backup(
    file: StudyFile,
    to: Annotated[Path, typer.Argument(help=("The file for the copy, which must not exist yet."), dir_okay=False)],
) -> None:
    """Copy a study while it is in use, and verify the copy."""
    from causalbandits.study import back_up

    typer.echo(f"{to}: {back_up(file, to)!r}")


@study.command()
def expire(file: StudyFile) -> None:
    """Assign the default reward to decisions without an outcome after the attribution window; for a cron job."""
    from causalbandits.study import Study

    with Study.open(file) as current_study:
        typer.echo(f"Expired: {current_study.expire()} decisions")
