"""`simulate`: every policy, replication by replication, in this process or in others."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from causalbandits._files import FilePath
from causalbandits._progress import Progress
from causalbandits._typing import is_integer, is_iterable, is_real
from causalbandits.engine.checkpoint import Checkpoint
from causalbandits.engine.plan import Plan, Source
from causalbandits.engine.workers import FinishedReplication, run_replications
from causalbandits.environments import AnyEnvironment
from causalbandits.errors import CausalBanditsError, SizeError, unknown_name_message
from causalbandits.policies import Policies, name_policies
from causalbandits.problem import Budget, Problem
from causalbandits.results import MEASURES, Run, Values

ALL_ROUNDS = 1000
"""Up to this horizon regret is kept for every round; beyond it, for `CHECKPOINTS` evenly spaced rounds."""
CHECKPOINTS = 500

COMPILED_FROM = 50_000
"""The minimum total number of rounds for which the compiled driver is loaded (it may have to be compiled); once loaded,
a 25th of that suffices."""

HORIZON_LIMIT = 2**40
"""The maximum number of rounds in a replication: a day or more of the fastest policy."""

RESULT_LIMIT = 2**30
"""The maximum number of values that a run keeps: 8 GiB."""


def simulate(
    env: Source,
    policies: Policies,
    *,
    horizon: int,
    replications: int | range = 20,
    seed: int = 0,
    workers: int | None = None,
    believed: Problem | None = None,
    measures: str | Iterable[str] = (),
    rounds: Iterable[int] | None = None,
    budget: float | None = None,
    tolerance: float = 0.0,
    checkpoint: FilePath | None = None,
    progress: bool | Callable[[int], None] = True,
) -> Run:
    """Simulate policies on an environment: every policy, `replications` times, for `horizon` rounds.

    The same seed gives the same numbers for any number of `workers`. More replications extend fewer, and the numbers of
    a policy do not depend on the other policies. Within a replication, all policies face the same random numbers of the
    environment.

    >>> from causalbandits import zoo
    >>> run = simulate(zoo.email_campaign(), ["c-ts(prior=beta)", "uniform"], horizon=300, replications=5, seed=1)
    >>> run.summary()
    policy            mean final regret  standard error  95% interval
    -----------------------------------------------------------------
    c-ts(prior=beta)               20.8             2.9  [12.7, 29.0]
    uniform                        48.9             1.0  [46.1, 51.7]

    Args:
        env: The environment, or a function that draws one from a random generator. With a function, each replication
            has its own environment, the same for every policy (Bayesian regret). With a `ChangingEnvironment`, the
            regret of a round is relative to the best action of that round (dynamic regret).
        policies: One policy or several: objects, texts such as "c-ts(prior=beta)", or a mapping from names of your own
            to either. "auto" is the default policy of the environment's problem.
        horizon: The number of rounds.
        replications: The number of replications, or a range of their numbers as a part of a larger run (see
            `Run.merged`).
        seed: The seed of all random numbers; an integer of at least 0.
        workers: The number of replications played in parallel. Default: one; inside `joblib.parallel_config(...)`, the
            choice of the joblib backend.
        believed: The problem that the policies assume, if it differs from the truth. Its manipulable variables must be
            the environment's, and its parents among the environment's parents. Default: the environment's problem.
        measures: The measures to keep besides regret: "simple regret" (of the action that the policy would recommend),
            "error probability" (the smallest delta at which it may stop, see `Run.stopping`), "reward" (the sum of
            rewards) and "plays" (the number of plays of each action). Default: none.
        rounds: The rounds after which measures are kept; the last is the horizon. Default: all up to a horizon of 1000,
            otherwise 500 of them.
        budget: The total cost of all rounds that may be spent. Costs then only limit the choice, and regret is relative
            to the best mixture of actions for that budget. Such runs are not compiled. Default: no budget.
        tolerance: The acceptable loss in mean reward of the measure "error probability", in units of the reward.
        checkpoint: A folder that keeps finished replications, so that the same call resumes after an interruption.
            Default: none.
        progress: Whether to show a progress bar if the run takes more than two seconds, or a function that is called
            with the number of rounds since its last call.

    Returns:
        The run, with the measures of every policy and replication.

    Raises:
        CausalBanditsError: If a setting is out of range.
        PolicyError: If a policy is unknown, cannot be used on the problem, or has no stopping rule although "error
            probability" is measured.
        ProblemError: If `believed` does not fit the environment.
        BudgetError: If a budget is combined with "error probability" or with an environment that changes.
        SizeError: If the run is too long.
        StateError: If `checkpoint` cannot be used, or belongs to another run.
    """
    numbers = _replication_numbers(replications)
    integers = {"horizon": horizon, "seed": seed, **({} if workers is None else {"workers": workers})}
    _check_settings(env, believed, **integers)
    if horizon > HORIZON_LIMIT:
        raise SizeError(f"horizon is {horizon} rounds; the limit is {HORIZON_LIMIT}.")
    policies_by_name = name_policies(policies)
    checkpoint_rounds = checkpoints(int(horizon)) if rounds is None else _parse_rounds(rounds, int(horizon))
    extra_measures = _parse_measures(measures)
    least = COMPILED_FROM // 25 if "causalbandits.engine.compiled.primitives" in sys.modules else COMPILED_FROM
    compiled = len(policies_by_name) * len(numbers) * horizon >= least
    if not is_real(tolerance) or not 0 <= tolerance < math.inf:
        raise CausalBanditsError(
            f"tolerance, the acceptable loss in mean reward, must be 0 or more; got {tolerance!r}."
        )
    total_budget = None if budget is None else Budget(budget, int(horizon)).total
    plan = Plan(
        env,
        policies_by_name,
        believed,
        checkpoint_rounds,
        int(seed),
        compiled,
        extra_measures,
        total_budget,
        float(tolerance),
    )
    plan = plan.with_policies_resolved(int(horizon))
    plan.check()
    _check_size(plan, len(numbers))
    values = _gather(numbers, _run_replications(plan, numbers, workers, checkpoint, progress))
    description = (
        repr(env)
        if isinstance(env, AnyEnvironment)
        else f"drawn anew each replication, such as {plan.environment(0)!r}"
    )
    return Run(
        rounds=checkpoint_rounds,
        measures=values,
        seed=int(seed),
        environment=description,
        first=numbers.start,
        origin=plan.origin,
        tolerance=plan.tolerance,
    )


def _replication_numbers(replications: int | range) -> range:
    """The replication numbers to play."""
    numbers = _replication_range(replications)
    if numbers.stop - numbers.start > RESULT_LIMIT:
        raise SizeError(f"A run has {RESULT_LIMIT} replications at most; got replications={replications!r}.")
    return numbers


def _replication_range(replications: int | range) -> range:
    if isinstance(replications, range):
        if not replications or replications.step != 1 or replications.start < 0:
            raise CausalBanditsError(
                f"replications must be a number, or a range of them such as range(100, 200); got {replications!r}."
            )
        return replications
    _check_whole("replications", replications)
    return range(int(replications))


def _check_settings(env: object, believed: object, **integers: object) -> None:
    if not isinstance(env, AnyEnvironment) and not callable(env):
        raise CausalBanditsError(f"simulate needs an Environment, or a function that draws one; got {env!r}.")
    if believed is not None and not isinstance(believed, Problem):
        raise CausalBanditsError(f"believed, the problem that policies assume, must be a Problem; got {believed!r}.")
    for name, value in integers.items():
        _check_whole(name, value)


def _check_whole(name: str, value: object) -> None:
    least = 0 if name == "seed" else 1
    if not is_integer(value) or value < least:
        raise CausalBanditsError(f"{name} must be a whole number, {least} or more; got {value!r}.")


def _parse_rounds(rounds: Iterable[int], horizon: int) -> npt.NDArray[np.int64]:
    try:
        checkpoint_rounds = [operator.index(t) for t in rounds]
    except TypeError:
        checkpoint_rounds = []
    if (
        checkpoint_rounds[-1:] != [horizon]
        or checkpoint_rounds[0] < 1
        or checkpoint_rounds != sorted(set(checkpoint_rounds))
    ):
        raise CausalBanditsError(
            "rounds, the checkpoints at which measures are stored, must be whole numbers, 1 or more, that increase up "
            f"to the horizon, {horizon}; got {rounds!r}."
        )
    return np.array(checkpoint_rounds, dtype=np.int64)


def _parse_measures(measures: str | Iterable[str]) -> tuple[str, ...]:
    """The measures to keep besides regret, in a fixed order, independent of the order of the request."""
    if not is_iterable(measures):
        raise CausalBanditsError(f"measures must be names, such as ['simple regret']; got {measures!r}.")
    names = [measures] if isinstance(measures, str) else list(measures)
    for name in names:
        if not isinstance(name, str) or name not in MEASURES:
            raise CausalBanditsError(unknown_name_message("measure", name, MEASURES))
    return tuple(name for name in MEASURES if name in names and name != "regret")


def _check_size(plan: Plan, replications: int) -> None:
    actions = plan.environment(0).problem.actions.size if "plays" in plan.measures else 0
    numbers_each = 1 + len(plan.measures) - ("plays" in plan.measures) + actions
    numbers = len(plan.policies) * replications * len(plan.rounds) * numbers_each
    if numbers > RESULT_LIMIT:
        raise SizeError(
            f"{len(plan.policies)} policies x {replications} replications x {len(plan.rounds)} checkpoints x "
            f"{numbers_each} numbers at each are {numbers}; the limit is {RESULT_LIMIT}. Run fewer replications, or "
            "store fewer checkpoints (rounds=)."
        )


def checkpoints(horizon: int) -> npt.NDArray[np.int64]:
    """The rounds for which regret is kept; always includes the last.

    >>> checkpoints(5000)[[0, 1, -1]].tolist()
    [10, 20, 5000]
    """
    if horizon <= ALL_ROUNDS:
        return np.arange(1, horizon + 1)
    return np.arange(1, CHECKPOINTS + 1) * horizon // CHECKPOINTS


def _gather(numbers: range, finished: Iterator[FinishedReplication]) -> dict[str, dict[str, Values]]:
    """Every measure of every policy, a row per replication, independent of the order of completion."""
    tables: dict[str, dict[str, Values]] = {}
    for replication, values_by_policy in finished:
        for policy, measures in values_by_policy.items():
            for measure, values in measures.items():
                by_policy = tables.setdefault(measure, {})
                if policy not in by_policy:
                    by_policy[policy] = np.empty((len(numbers), *values.shape), values.dtype)
                by_policy[policy][replication - numbers.start] = values
    return tables


def _run_replications(
    plan: Plan,
    numbers: range,
    workers: int | None,
    folder: FilePath | None,
    progress: bool | Callable[[int], None],
) -> Iterator[FinishedReplication]:
    """Every replication, in the order of completion; those of a checkpoint first."""
    checkpoint = None if folder is None else Checkpoint(folder, plan)
    stored = {} if checkpoint is None else checkpoint.load_finished(numbers)
    report = progress if callable(progress) else None
    rounds_each = len(plan.policies) * int(plan.rounds[-1])
    if report is not None and stored:
        report(rounds_each * len(stored))
    yield from stored.items()
    missing = [replication for replication in numbers if replication not in stored]
    if missing:
        plan.compile()
    with Progress(len(missing) * rounds_each, "Simulating", visible=progress is True, on_advance=report) as bar:
        for replication, values in run_replications(plan, missing, workers, bar):
            if checkpoint is not None:
                checkpoint.add(replication, values)
            yield replication, values
