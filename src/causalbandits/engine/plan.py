"""The plan of a simulation: environments, policies, rounds, seed. Its replications can run anywhere."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._hashing import code_hash
from causalbandits._progress import Notice
from causalbandits._typing import Z
from causalbandits.engine.compiled import can_play, play_compiled
from causalbandits.engine.driver import ENVIRONMENT, Moment, Moments, PlayCounts, play, stream
from causalbandits.environments import (
    LISTED,
    AnyEnvironment,
    BudgetedRegret,
    ChangingEnvironment,
    Environment,
    Segment,
    affordable_means,
    environment_at,
    segments_of,
)
from causalbandits.errors import BudgetError, CausalBanditsError, PolicyError, ProblemError, ProblemWarning, warn
from causalbandits.model.graph import ancestors
from causalbandits.policies import (
    AnyPolicy,
    find_incumbent,
    is_auto,
    policy_fingerprint_with_code,
    resolve_policy,
    stopping_obstacle,
    warn_of_scale,
    warn_of_unknown_cpts,
)
from causalbandits.problem import Action, Budget, Problem
from causalbandits.results import Origin, Values

Source = AnyEnvironment | Callable[[np.random.Generator], AnyEnvironment]

ReplicationValues = dict[str, dict[str, Values]]
"""By policy, then measure: the values of one replication at each checkpoint."""


@dataclass(frozen=True)
class Plan:
    """Every policy on the same environment, or on a new one in each replication."""

    source: Source
    policies: Mapping[str, AnyPolicy]
    believed: Problem | None
    rounds: npt.NDArray[np.int64]
    seed: int
    compiled: bool = False
    """Whether to use the compiled driver where possible; the numbers are the same."""
    measures: tuple[str, ...] = ()
    """The measures to keep besides regret, from `results.measures.MEASURES`."""
    budget: float | None = None
    """The total cost that may be spent in all rounds."""
    tolerance: float = 0.0
    """The acceptable loss in mean reward, for the error probability of stopping."""

    def environment(self, replication: int) -> AnyEnvironment:
        """The environment of a replication, the same for every policy."""
        if isinstance(self.source, AnyEnvironment):
            return self.source
        try:
            env = self.source(stream(self.seed, replication, ENVIRONMENT))
        except CausalBanditsError:
            raise
        except Exception as error:
            raise CausalBanditsError(
                "A function that draws environments must take a random generator and return an Environment; for "
                f"replication {replication} it raised {type(error).__name__}: {error}"
            ) from error
        if not isinstance(env, AnyEnvironment):
            raise CausalBanditsError(
                f"A function that draws environments must return an Environment; for replication {replication} it "
                f"returned {env!r}."
            )
        return env

    def with_policies_resolved(self, horizon: int) -> Plan:
        """The plan with the horizon passed to every policy, and the problem's default in place of "auto"."""
        problem = None
        policies = {}
        for name, policy in self.policies.items():
            if is_auto(policy):
                problem = problem or self._believed_problem(self.environment(0))
                policies[name] = resolve_policy(problem, policy, horizon=horizon)
            else:
                policies[name] = policy.for_horizon(horizon)
        return replace(self, policies=policies)

    def run(self, replication: int, tick: Callable[[int], None] = lambda rounds: None) -> ReplicationValues:
        """One replication of every policy."""
        env = self.environment(replication)
        return {name: self._play(policy, env, replication, tick) for name, policy in self.policies.items()}

    def _play(
        self, policy: AnyPolicy, env: AnyEnvironment, replication: int, tick: Callable[[int], None]
    ) -> dict[str, Values]:
        """One policy's regret and other measures at each checkpoint."""
        problem = self._problem_for(policy, env)
        observer = _Observer(env, policy, problem, self.rounds, self.measures, self.tolerance, self._allowance)
        arguments = env, policy, problem, self.rounds, self.seed, replication
        active_observer = observer if observer.values else None
        if self._is_compiled(env, policy):
            trajectory = play_compiled(*arguments, watch=active_observer)
            tick(int(self.rounds[-1]))
        else:
            trajectory = play(*arguments, tick, active_observer, self.budget)
        values = {"regret": trajectory.regret, "reward": trajectory.reward, **observer.values}
        return {name: values[name] for name in ("regret", *self.measures)}

    @property
    def _allowance(self) -> float | None:
        """The budget for each round."""
        return None if self.budget is None else self.budget / int(self.rounds[-1])

    def all_compiled(self) -> bool:
        """Whether no policy needs the interpreter, so that threads suffice instead of processes."""
        env = self.environment(0)
        return all(
            self._is_compiled(env, policy) and not policy.traits.learns_cpts for policy in self.policies.values()
        )

    def _is_compiled(self, env: AnyEnvironment, policy: AnyPolicy) -> bool:
        return self.compiled and self.budget is None and can_play(env, policy, self._problem_for(policy, env))

    def compile(self) -> None:
        """Compile the rounds in advance, and show a notice if that takes long."""
        env = self.environment(0)
        for policy in self.policies.values():
            if self._is_compiled(env, policy):
                problem = self._problem_for(policy, env)
                with Notice(f"Compiling the simulator for {policy.id} (once; the result is cached on disk) ..."):
                    play_compiled(env, policy, problem, np.ones(1, dtype=np.int64), self.seed, 0)

    def check(self) -> None:
        """Raise, before anything runs, if the parts of the first replication do not fit; warn about unusual scales."""
        env = self.environment(0)
        if "plays" in self.measures:
            env.problem.actions.refuse_enumeration("The counts of plays are stored for every action", LISTED)
        if self.budget is not None:
            self._check_budget(env, self._believed_problem(env), self.budget)
        segments = segments_of(env)
        first = segments[0].env
        size = max(abs(bound) for segment in segments for bound in segment.env.mean.range())
        for policy in self.policies.values():
            for segment in segments:
                if policy.traits.unit_rewards and segment.env.reward.bounded is False:
                    raise PolicyError(
                        f"The policy {policy.id!r} needs rewards in [0, 1]; {segment.env.reward!r} can leave that "
                        "range. Use a Gaussian prior or a UCB policy."
                    )
            problem = self._problem_for(policy, env)
            statistic = policy.init(problem)
            if "simple regret" in self.measures:
                for _, moment in weigh_moments(Moments(first, policy, problem), first)[:1]:
                    find_incumbent(policy, moment.situation, statistic, self._allowance)
            if "error probability" in self.measures:
                self._check_rule(policy, Moments(first, policy, problem), first, statistic)
            self._warn_of_skipped_rounds(policy, problem, segments)
            warn_of_unknown_cpts(policy, problem, stacklevel=3)
            expected = policy.largest_expected_reward(problem)
            warn_of_scale(policy, "The mean reward reaches", size, expected, stacklevel=3)

    def _warn_of_skipped_rounds(self, policy: AnyPolicy, problem: Problem, segments: Sequence[Segment]) -> None:
        """Warn of contexts in which no action is allowed."""
        ends = [*(segment.start for segment in segments[1:]), int(self.rounds[-1]) + 1]
        reason, skipped = "", 0.0
        for segment, end in zip(segments, ends, strict=True):
            moments = Moments(segment.env, policy, problem)
            if moments.infeasible and segment.start < end:
                reason = reason or moments.infeasibility_reason(next(iter(moments.infeasible)))
                share = min(end, int(self.rounds[-1]) + 1) - segment.start
                skipped += sum(moments.infeasible.values()) * max(0, share) / int(self.rounds[-1])
        if reason:
            warn(
                f"{reason} Rounds without an allowed action are skipped ({skipped:.0%} of all rounds).",
                ProblemWarning,
                stacklevel=4,
            )

    def _check_rule(self, policy: AnyPolicy, moments: Moments, env: Environment, statistic: Any) -> None:
        if self.budget is not None:
            raise BudgetError(
                "A stopping rule is about a single best action, and under a budget the optimum is a mixture of two "
                "actions. Leave out the measure 'error probability', or the budget."
            )
        _, moment = weigh_moments(moments, env)[0]
        best = find_incumbent(policy, moment.situation, statistic).action
        if policy.error_probability(moment.situation, statistic, best, self.tolerance) is None:
            reason = stopping_obstacle(policy, moment.situation.problem) or "the policy defines none"
            raise PolicyError(
                f"The policy {policy.id!r} has no valid stopping rule: {reason}. Leave out the measure 'error "
                "probability', or use a policy with a stopping rule, such as 'c-ts(prior=beta)', 'c-ucb' or 'cl-ts'."
            )

    def _problem_for(self, policy: AnyPolicy, env: AnyEnvironment) -> Problem:
        """The problem that a policy receives; a policy that estimates the CPTs receives only the graph."""
        problem = self._believed_problem(env)
        if not policy.traits.learns_cpts or problem.structure_prior is not None or problem.model.posterior is not None:
            return problem
        return problem.without_cpts()

    def _check_budget(self, env: AnyEnvironment, problem: Problem, total: float) -> None:
        """Check that the budget lasts, and that every policy uses costs."""
        if isinstance(env, ChangingEnvironment):
            raise BudgetError(
                "A budget is planned for all rounds together, and the best mixture for it is not defined if the "
                "environment changes. Leave out budget=, or simulate each environment of the ChangingEnvironment alone."
            )
        BudgetedRegret(env, Budget(total, int(self.rounds[-1])).per_round)
        if problem.costs != env.problem.costs:
            raise BudgetError("With a budget, the believed problem must have the environment's costs.")

    def _believed_problem(self, env: AnyEnvironment) -> Problem:
        if self.believed is None:
            return env.problem
        if self.believed.structure_prior is not None and self.believed.structure_prior.limits:
            raise ProblemError(
                f"The believed problem limits {' and '.join(self.believed.unknown_limits)}, and its structure is "
                "learned. Regret is relative to the best of all actions, whether they keep the limit or not. Leave "
                "max_probability= out to simulate or forecast."
            )
        for name in self.believed.context:
            if name not in env.problem.context:
                raise ProblemError(
                    f"The believed problem has {name!r} as context, and the environment's problem does not: "
                    f"{list(env.problem.context)}."
                )
        believed, expected = self.believed.manipulable, env.problem.manipulable
        if believed != expected:
            raise ProblemError(
                f"The believed problem must have the environment's manipulable variables, {list(expected)}, in the "
                f"same order; it has {list(believed)}."
            )
        if self.believed.costs is not None and env.problem.costs is None:
            raise ProblemError(
                "The believed problem has costs, and the environment has none: regret would ignore the costs. Create "
                "the environment with costs, too: Environment.from_model(..., costs=...), or from a Problem with "
                "costs=."
            )
        unseen = [name for name in self.believed.parents if name not in env.problem.parents]
        if unseen:
            raise ProblemError(
                f"The believed problem's parents must be among the environment's, {list(env.problem.parents)}: the "
                f"environment draws only these; {unseen[0]!r} is not among them."
            )
        prior = self.believed.structure_prior
        observed = () if prior is None else prior.observed
        if absent := [name for name in observed if name not in env.problem.graph.names]:
            raise ProblemError(
                f"The believed problem observes {', '.join(map(repr, absent))}, and the environment has no such "
                f"variable; it has {', '.join(map(repr, env.problem.graph.names))}. Leave it out of values=, or create "
                "the environment from a model with it."
            )
        shown = set.intersection(*(set(segment.env.shown) for segment in segments_of(env)))
        drawn = ancestors(env.problem.graph.graph, (*env.problem.parents, *env.problem.context, *shown))
        if undrawn := [name for name in observed if name not in drawn]:
            raise ProblemError(
                f"The believed problem observes {', '.join(map(repr, undrawn))}, which the environment has and does "
                f"not draw. Create the environment with shown={undrawn!r}, an argument of Environment and of "
                "Environment.from_model, or leave the variable out of values=."
            )
        for name in (*believed, *self.believed.parents, *observed, *self.believed.context):
            believed_states, true_states = self.believed.variable(name).states, env.problem.variable(name).states
            if believed_states != true_states:
                raise ProblemError(
                    f"The believed problem must have the environment's values, in the same order: {name!r} has "
                    f"{list(true_states)} there and {list(believed_states)} here. Pass values= to fit(), or pass the "
                    "environment's model as the graph."
                )
        return self.believed

    @cached_property
    def origin(self) -> Origin:
        """The settings that determine the numbers of each policy, without replications, rounds and seed."""
        env = self.environment(0)
        environment = {
            "environment": env.fingerprint,
            "drawn": None if isinstance(self.source, AnyEnvironment) else code_hash(self.source),
        }
        believed = None if self.believed is None else self.believed.fingerprint
        budget = {} if self.budget is None else {"budget": self.budget}
        if self.tolerance:
            budget["tolerance"] = self.tolerance
        policies = {
            name: _short_hash(
                {
                    "policy": policy_fingerprint_with_code(policy, self._problem_for(policy, env)),
                    "believed": believed,
                    **budget,
                }
            )
            for name, policy in self.policies.items()
        }
        ids = {name: policy.id for name, policy in self.policies.items()}
        return Origin(_short_hash(environment), policies, ids)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of this plan: of all settings that determine its numbers, without replications."""
        parts = {**self.origin._asdict(), "rounds": self.rounds.tolist(), "seed": self.seed, "measures": self.measures}
        return _short_hash(parts)


class _Observer:
    """Records at each checkpoint the policy's recommendation and the actions it has played."""

    def __init__(
        self,
        env: AnyEnvironment,
        policy: AnyPolicy,
        problem: Problem,
        rounds: npt.NDArray[np.int64],
        measures: tuple[str, ...],
        tolerance: float,
        allowance: float | None,
    ) -> None:
        self._env, self._policy, self._tolerance, self._allowance = env, policy, tolerance, allowance
        self._problem, self._rounds = problem, rounds
        self._recommends = [name for name in ("simple regret", "error probability") if name in measures]
        self._here: Environment | None = None
        self._moments: list[tuple[float, Moment]] = []
        self._best: dict[Z | None, float] = {}
        """The best action that the budget pays for in every round, given the context."""
        self.values: dict[str, Values] = {name: np.empty(len(rounds)) for name in self._recommends}
        if "plays" in measures:
            self.values["plays"] = np.empty((len(rounds), env.problem.actions.size), dtype=np.int64)

    def _enter(self, env: Environment) -> None:
        """Evaluate recommendations in this environment from now on."""
        self._here = env
        self._moments = weigh_moments(Moments(env, self._policy, self._problem), env) if self._recommends else []
        if self._allowance is not None:
            self._best = {
                moment.env.problem.context_codes: float(affordable_means(moment.env, self._allowance).max())
                for _, moment in self._moments
            }

    def __call__(self, slot: int, statistic: Any, counts: PlayCounts) -> None:
        here = environment_at(self._env, int(self._rounds[slot]))
        if here is not self._here:
            self._enter(here)
        incumbents = [
            (share, moment, find_incumbent(self._policy, moment.situation, statistic, self._allowance).action)
            for share, moment in self._moments
        ]
        if "simple regret" in self.values:
            lost = [share * self._simple_regret(moment, best) for share, moment, best in incumbents]
            self.values["simple regret"][slot] = sum(lost[1:], lost[0])
        if "error probability" in self.values:
            self.values["error probability"][slot] = max(
                self._error_probability(moment, statistic, best) for _, moment, best in incumbents
            )
        if "plays" in self.values:
            self.values["plays"][slot] = counts()

    def _simple_regret(self, moment: Moment, best: Action) -> float:
        number = self._env.problem.actions.rank(best.choices)  # the policy's problem may number actions differently
        if self._allowance is None:
            return moment.env.gap(number)
        return self._best[moment.env.problem.context_codes] - moment.env.mean_reward(number)

    def _error_probability(self, moment: Moment, statistic: Any, best: Action) -> float:
        error_probability = self._policy.error_probability(moment.situation, statistic, best, self._tolerance)
        return 1.0 if error_probability is None else error_probability


def weigh_moments(moments: Moments, env: Environment) -> list[tuple[float, Moment]]:
    """Every possible context with its probability; if they are too many, a random sample with equal weights."""
    if not env.problem.context:
        return [(1.0, moments.unconditional)]
    infeasible = moments.infeasible
    played = (
        sum(share for codes, share in env.problem.contexts.weighted_contexts() if codes not in infeasible)
        if infeasible
        else 1.0
    )
    weights = [(codes, share) for codes, share in env.problem.contexts.weighted_contexts() if codes not in infeasible]
    return [(share / played, moments[codes]) for codes, share in weights]


def _short_hash(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
