"""Forecasts before launch: each policy's regret, and the number of rounds until it finds the best action.

Environments are drawn from a prior over rewards, and from the posterior of the CPTs if the model was fitted to data.
Where the structure is learned, parent sets and CPTs are drawn from their prior; all contexts are equally likely.
The policies receive the problem as given, and all are played in the same environments. A recommendation at a checkpoint
counts as correct if its true mean is within `tolerance` of the best. The best action counts as found for good from the
first checkpoint after which all recommendations are correct up to the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._files import FilePath
from causalbandits._tables import decimal_places, format_table
from causalbandits._typing import Array, is_integer, is_real
from causalbandits.engine import ENVIRONMENT, HORIZON_LIMIT, WORLD, simulate, stream
from causalbandits.environments import (
    LISTED,
    BernoulliReward,
    BlackBoxEnvironment,
    Environment,
    Reward,
    affordable_means,
)
from causalbandits.errors import BudgetError, CausalBanditsError, SizeError
from causalbandits.model import CausalGraph, CausalModel, State, Variable
from causalbandits.policies import AnyPolicy, Policies, default_with_reason, policy
from causalbandits.problem import CONTEXT_SAMPLE_SIZE, Budget, Problem, StructurePrior, feasible_contexts
from causalbandits.problem.projection import TIE
from causalbandits.results import Run, stopping_rounds, validate_delta

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Sampled environments: rewards from a prior, CPTs from the posterior given data.

RewardPrior = tuple[float, float] | Callable[[Problem, np.random.Generator], Reward]

LOSS_SAMPLES = 50
"""The number of sampled environments whose median is the expected loss of a random action."""

ACTION_SAMPLES = 1000
"""The number of sampled actions if there are too many to enumerate."""


@dataclass(frozen=True)
class BernoulliStep:
    """The step of an environment for learning by actions: the reward is 1 with the action's own probability."""

    problem: Problem
    means: Array
    """A row for each context."""

    def __call__(
        self, do: Mapping[str, State], rng: np.random.Generator, context: Mapping[str, State] | None = None
    ) -> tuple[dict[str, State], float]:
        row = 0 if context is None else self.problem.condition(context).context_number or 0
        return {}, float(rng.random() < self.means[row, self.problem.actions.find(do).number])


@dataclass(frozen=True)
class EnvironmentPrior:
    """A distribution over environments: rewards from their prior, CPTs from their posterior if they have one, and the
    structure from its prior if it is learned.
    """

    problem: Problem
    reward_prior: RewardPrior

    def __post_init__(self) -> None:
        prior = self.problem.structure_prior
        if prior is not None and prior.limits:
            raise CausalBanditsError(
                f"No environment with a limit on {' and '.join(self.problem.unknown_limits)} can be sampled where the "
                "structure is learned. Leave max_probability= out of the problem to forecast."
            )
        if callable(self.reward_prior):
            return
        try:
            a, b = (float(value) for value in self.reward_prior)
        except (TypeError, ValueError):
            a = b = math.nan
        if not (0 < a < math.inf and 0 < b < math.inf):
            raise CausalBanditsError(
                "reward_prior must be two positive numbers (a, b), the parameters of a Beta distribution of the "
                "means, or a function of the problem and a random generator that returns a reward; got "
                f"{self.reward_prior!r}."
            )
        object.__setattr__(self, "reward_prior", (a, b))

    def __call__(self, rng: np.random.Generator) -> Environment:
        if self.problem.structure_prior is not None:
            return self._sample_structure(self.problem.structure_prior, rng)
        if self.problem.unit == "actions":
            return self._sample_by_actions(rng)
        knowledge = self.problem.knowledge
        truth = self.problem
        if not isinstance(knowledge, CausalGraph) and knowledge.posterior is not None:
            truth = truth.with_model(knowledge.draw(rng))
        return Environment(truth, self._sample_reward(truth, rng))

    def _sample_structure(self, prior: StructurePrior, rng: np.random.Generator) -> Environment:
        """An environment with sampled parent sets, CPTs and rewards, which draws every observed variable.

        Every row of a CPT has a uniform distribution on the simplex, as for the policy that learns the structure.
        """
        problem = self.problem
        parents = {
            candidate.variable: candidate.sets[int(rng.choice(len(candidate.sets), p=np.exp(candidate.log_prior)))]
            for candidate in prior.candidates
        }
        states = {name: problem.variable(name).states for name in problem.graph.names if name != prior.reward}
        variables = [
            Variable(name, states[name], table=np.full(len(states[name]), 1.0 / len(states[name])))
            for name in (*problem.context, *problem.manipulable)
        ]
        for name in prior.observed:
            shape = tuple(len(states[cause]) for cause in parents[name])
            table = rng.dirichlet(np.ones(len(states[name])), size=shape)
            variables.append(Variable(name, states[name], parents=parents[name], table=table))
        # An environment has parents of the reward; without any, all values of the first variable have the same mean.
        reward_parents = parents[prior.reward]
        truth = problem.with_structure(CausalModel(variables), reward_parents or problem.manipulable[:1])
        if reward_parents or callable(self.reward_prior):
            reward = self._sample_reward(truth, rng)
        else:
            reward = BernoulliReward(np.full(truth.shape, rng.beta(*self.reward_prior)))
        return Environment(truth, reward, shown=prior.observed)

    def _sample_by_actions(self, rng: np.random.Generator) -> Environment:
        """An environment in which every action's mean, in every context, is sampled independently, without a CPT in
        common."""
        if callable(self.reward_prior):
            raise CausalBanditsError(
                "reward_prior: this problem learns one mean per action, and a function draws rewards given parents. "
                "Pass two numbers (a, b), the parameters of a Beta distribution of the actions' means."
            )
        problem, (a, b) = self.problem, self.reward_prior
        means = rng.beta(a, b, size=(problem.contexts.size, problem.actions.size))
        return BlackBoxEnvironment(problem, BernoulliStep(problem, means), means=means if problem.context else means[0])

    def _sample_reward(self, truth: Problem, rng: np.random.Generator) -> Reward:
        if not callable(self.reward_prior):
            a, b = self.reward_prior
            return BernoulliReward(rng.beta(a, b, size=truth.shape))
        try:
            reward = self.reward_prior(truth, rng)
        except TypeError as error:
            raise CausalBanditsError(
                f"reward_prior, a function, must take the problem and a random generator; it raised {error!r}."
            ) from error
        if not isinstance(reward, Reward):
            raise CausalBanditsError(
                f"reward_prior must return a reward, such as GaussianReward(...); it returned {reward!r}."
            )
        return reward

    def default_policies(self, horizon: int, seed: int) -> list[AnyPolicy | str]:
        """The default policy of an agent, Thompson sampling without the graph, and uniform sampling."""
        by_actions = self.problem.unit == "actions" and self.problem.structure_prior is None  # binary rewards
        bounded = by_actions or self(stream(seed, 0, ENVIRONMENT)).reward.bounded
        ts = policy("ts", prior="beta") if bounded else policy("ts", scales="given")
        default = default_with_reason(self.problem, horizon=horizon).policy
        return [default] if self.problem.unknown_limits else [default, ts, "uniform"]

    def at_stake(self, seed: int, allowance: float | None = None) -> float:
        """The expected loss of a uniformly random action relative to the best one: the median over sampled
        environments.

        With a budget per round, only actions within it count. The median limits the influence of environments in which
        actions are all equal or extremely different. The number of environments is fixed, so that it does not depend on
        the number of replications.
        """
        return float(np.median([self._mean_gap(seed, number, allowance) for number in range(LOSS_SAMPLES)]))

    def _mean_gap(self, seed: int, number: int, allowance: float | None) -> float:
        env, rng = self(stream(seed, number, ENVIRONMENT)), stream(seed, number, WORLD)
        if not self.problem.context:
            return self._mean_gap_in_context(env, rng, allowance)
        contexts = env.problem.contexts
        if contexts.size <= CONTEXT_SAMPLE_SIZE:
            likely = feasible_contexts(env.problem, contexts.by_probability())
            return sum(
                share * self._mean_gap_in_context(env.condition_codes(codes), rng, allowance) for codes, share in likely
            )
        samples = [(env.draw_codes(rng), 1.0) for _ in range(CONTEXT_SAMPLE_SIZE)]
        return float(
            np.mean(
                [
                    self._mean_gap_in_context(env.condition_codes(codes), rng, allowance)
                    for codes, _ in feasible_contexts(env.problem, samples)
                ]
            )
        )

    def _mean_gap_in_context(self, env: Environment, rng: np.random.Generator, allowance: float | None) -> float:
        if allowance is not None:
            means = affordable_means(env, allowance)
            return float(means.max() - means.mean())
        size = self.problem.actions.size
        if size <= LISTED:
            return float(env.gaps().mean())
        length = size.bit_length() // 8 + 9  # more bytes than the number has
        return float(
            np.mean([env.gap(int.from_bytes(rng.bytes(length), "little") % size) for _ in range(ACTION_SAMPLES)])
        )


CHECKPOINTS = 100
"""The number of checkpoints, each some percent later than the previous one."""

DEFAULT_TOLERANCE_SHARE = 0.1
"""The default tolerance as a share of the expected loss of a random action."""


class Needed(NamedTuple):
    """A number of rounds with its 95% confidence interval over replications; None beyond the horizon.

    Attributes:
        rounds: The estimate.
        lower: The lower end.
        upper: The upper end.
    """

    rounds: int | None
    lower: int | None
    upper: int | None


@dataclass(frozen=True)
class Forecast:
    """A forecast of regret and of finding the best action; prints as a table.

    Attributes:
        run: The simulation, with simple regret among its measures.
        tolerance: The acceptable loss in mean reward; `dataclasses.replace` changes it without another simulation.
        at_stake: The expected loss of a random action, as the median over the sampled environments.
        stops_within: The tolerance of the stopping rule.
        budget: The total cost of all rounds that may be spent; None without a budget. Regret is then relative to the
            best mixture, and the best action is the best that the budget pays for in every round.
    """

    run: Run
    tolerance: float
    at_stake: float
    stops_within: float = 0.0
    budget: float | None = None

    def has_found_best(self, policy: str) -> npt.NDArray[np.bool_]:
        """Whether the recommended action is within the tolerance of the best.

        Args:
            policy: The name of the policy.

        Returns:
            An array of replications x checkpoints.
        """
        return self.run.measure("simple regret", policy) <= self.tolerance + TIE

    def has_settled(self, policy: str) -> npt.NDArray[np.bool_]:
        """Whether the recommended action is within the tolerance of the best at this and every later checkpoint.

        Args:
            policy: The name of the policy.

        Returns:
            An array of replications x checkpoints.
        """
        return np.logical_and.accumulate(self.has_found_best(policy)[:, ::-1], axis=1)[:, ::-1]

    def probability(self, policy: str) -> tuple[Array, Array, Array]:
        """The probability that the recommended action is within the tolerance of the best, at each checkpoint.

        Args:
            policy: The name of the policy.

        Returns:
            Three arrays: the estimate, and the lower and upper end of its 95% interval (Wilson).
        """
        return _wilson_interval(self.has_found_best(policy))

    def needed(self, policy: str, probability: float = 0.9) -> Needed:
        """The number of rounds after which the policy has found the best action for good with this probability.

        Args:
            policy: The name of the policy.
            probability: The probability, above 0 and below 1.

        Returns:
            The number of rounds with its interval.
        """
        _validate_probability(probability)
        estimate, lower, upper = _wilson_interval(self.has_settled(policy))
        return Needed(*(self._first_round(curve >= probability) for curve in (estimate, upper, lower)))

    def until_stop(self, policy: str, probability: float = 0.9, delta: float = 0.05) -> Needed:
        """The number of rounds after which the stopping rule is met with this probability; it needs `stops=True`.

        Wrong decisions to stop are included; their share is at most `delta`.

        Args:
            policy: The name of the policy.
            probability: The probability, above 0 and below 1.
            delta: The error probability of the stopping rule.

        Returns:
            The number of rounds with its interval.
        """
        _validate_probability(probability)
        validate_delta(delta)
        stop_rounds = stopping_rounds(self.run.rounds, self.run.measure("error probability", policy), delta)
        estimate, lower, upper = _wilson_interval(stop_rounds[:, None] <= self.run.rounds)
        return Needed(*(self._first_round(curve >= probability) for curve in (estimate, upper, lower)))

    def _first_round(self, is_reached: npt.NDArray[np.bool_]) -> int | None:
        return int(self.run.rounds[int(np.argmax(is_reached))]) if is_reached.any() else None

    def __repr__(self) -> str:
        horizon = self.run.horizon
        found_for_good = "rounds until found for good (90%)"
        rows: list[tuple[str, ...]] = []
        digits = decimal_places([row.mean for row in self.run.summary()])
        for row in self.run.summary():
            p, lower, upper = (float(values[-1]) for values in self.probability(row.policy))
            regret = f"{row.mean:.{digits}f} ({row.lower:.{digits}f} to {row.upper:.{digits}f})"
            share = f"{p:.0%} ({lower:.0%} to {upper:.0%})"
            rows.append((row.policy, regret, share, _format_needed(self.needed(row.policy), horizon)))
        head: tuple[str, ...] = ("policy", f"regret after {horizon}", "found by then", found_for_good)
        if "error probability" in self.run.measures:
            head = (*head, "rounds until stopping (90%)")
            stop_texts = [_format_needed(self.until_stop(row.policy), horizon) for row in self.run.summary()]
            rows = [(*row, stop_text) for row, stop_text in zip(rows, stop_texts, strict=True)]
        return (
            f"{format_table(head, rows)}\nSimulated problem instances: {self.run.replications}\nFound: "
            f"{self.good_enough}"
        )

    __str__ = __repr__

    @property
    def good_enough(self) -> str:
        """The tolerance as a phrase."""
        share = (
            f" ({self.tolerance / self.at_stake:.0%} of the median loss of a random action)" if self.at_stake else ""
        )
        of_those = "" if self.budget is None else " that the budget affords in every round"
        return f"the recommended action is within {self.tolerance:.3g} of the best{of_those}{share}"

    def plot(self, path: FilePath | None = None) -> Figure:
        """Plot regret, and the probability that the best action is found, against rounds.

        Args:
            path: The file to save the figure in. Default: not saved.

        Returns:
            The Matplotlib figure.
        """
        from causalbandits.results.plots import plot_forecast

        return plot_forecast(self, path)


def _wilson_interval(events: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """The frequency of True over the first axis, and its 95% Wilson interval."""
    n, p, z = len(events), events.mean(axis=0), 1.96
    centre, scale = p + z * z / (2 * n), 1 + z * z / n
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return p, np.maximum(0.0, (centre - half) / scale), np.minimum(1.0, (centre + half) / scale)


def _validate_probability(probability: object) -> None:
    if not isinstance(probability, float) or not 0 < probability < 1:
        raise CausalBanditsError(f"probability must lie between 0 and 1, such as 0.9; got {probability!r}.")


def _format_needed(needed: Needed, horizon: int) -> str:
    if needed.rounds is None:
        return f"more than {horizon}"
    return f"{needed.rounds} ({needed.lower} to {needed.upper or f'more than {horizon}'})"


def forecast(
    problem: Problem,
    policies: Policies | None = None,
    *,
    horizon: int,
    reward_prior: RewardPrior = (1.0, 1.0),
    tolerance: float | None = None,
    budget: float | None = None,
    stops: bool = False,
    replications: int = 200,
    seed: int = 0,
    workers: int | None = None,
    checkpoint: FilePath | None = None,
    progress: bool | Callable[[int], None] = True,
) -> Forecast:
    """Forecast regret and the number of rounds to find the best action, by simulation under a prior over rewards.

    If the problem's structure is learned, each sampled environment has its own parent sets and CPTs, from the prior of
    the problem and uniform distributions; all contexts are equally likely.

    >>> from causalbandits import zoo
    >>> forecast(zoo.email_campaign().problem, horizon=500, replications=20)
    policy                              regret after 500 ...
    ...
    c-gittins(prior=main-effects)    16.8 (10.9 to 22.7) ...
    ...

    Args:
        problem: The problem.
        policies: The policies, as for `simulate`. Default: the default policy, Thompson sampling without the graph, and
            uniform sampling.
        horizon: The number of rounds, at least 10.
        reward_prior: The prior over rewards. A pair (a, b) makes rewards 0 or 1, with means from Beta(a, b) for every
            configuration; (2, 50) means rates of about 4%. A function of the problem and a random generator may draw
            any reward.
        tolerance: The acceptable loss in mean reward, in units of the reward. Default: a tenth of the expected loss of
            a random action, as the median over 50 sampled environments.
        budget: The total cost of all rounds that may be spent; regret is then relative to the best mixture for that
            budget. Default: no budget.
        stops: Whether to forecast the stopping times, too (`until_stop`); policies then need a stopping rule.
        replications: The number of sampled environments, at least 2.
        seed: The seed of all random numbers.
        workers: The number of replications played in parallel, as for `simulate`.
        checkpoint: A folder that keeps finished replications, as for `simulate`.
        progress: Whether to show a progress bar, as for `simulate`.

    Returns:
        The forecast, which prints as a table.

    Raises:
        CausalBanditsError: If a setting is out of range.
        PolicyError: If a policy is unknown or cannot be used on the problem.
    """
    if not isinstance(problem, Problem):
        raise CausalBanditsError(f"forecast needs a Problem (an environment has one); got {problem!r}.")
    for name, value, least in (("horizon", horizon, 10), ("replications", replications, 2), ("seed", seed, 0)):
        if not is_integer(value) or value < least:
            raise CausalBanditsError(f"{name} must be a whole number, {least} or more; got {value!r}.")
    if horizon > HORIZON_LIMIT:
        raise SizeError(f"A forecast covers at most {HORIZON_LIMIT} rounds; got horizon={horizon!r}.")
    if tolerance is not None and (not is_real(tolerance) or not 0 <= tolerance <= 1e150):
        raise CausalBanditsError(
            f"tolerance, the acceptable loss in mean reward, must be 0 or more; got {tolerance!r}."
        )
    if not isinstance(stops, bool):
        raise CausalBanditsError(f"stops must be True or False; got {stops!r}.")
    if budget is not None and problem.costs is None:
        raise BudgetError("A budget requires the costs of actions: Problem(..., costs={...}).")
    if budget is not None and stops:
        raise BudgetError(
            "A stopping rule is about a single best action, and under a budget the optimum is a mixture of two "
            "actions. Leave out stops= or budget=."
        )
    prior = EnvironmentPrior(problem, reward_prior)
    at_stake = prior.at_stake(seed, None if budget is None else Budget(budget, int(horizon)).per_round)
    tolerance = DEFAULT_TOLERANCE_SHARE * at_stake if tolerance is None else float(tolerance)
    run = simulate(
        prior,
        prior.default_policies(int(horizon), seed) if policies is None else policies,
        horizon=horizon,
        replications=replications,
        seed=seed,
        workers=workers,
        believed=problem,
        measures=["simple regret", "error probability"] if stops else "simple regret",
        rounds=np.unique(np.geomspace(10, horizon, CHECKPOINTS).astype(np.int64)),
        tolerance=tolerance if stops else 0.0,
        budget=budget,
        checkpoint=checkpoint,
        progress=progress,
    )
    return Forecast(run, tolerance, at_stake, tolerance, budget)
