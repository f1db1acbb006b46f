"""What is to be simulated: environments, policies, rounds, seed. A replication of it can be run anywhere."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._hashing import code_hash
from causalbandits._progress import Notice
from causalbandits.engine.compiled import can_play, play_compiled
from causalbandits.engine.driver import ENVIRONMENT, Moment, Moments, PlayCounts, play, stream
from causalbandits.environments import LISTED, Environment, Shortfall, paid_for
from causalbandits.errors import BudgetError, CausalBanditsError, PolicyError, ProblemError, ProblemWarning
from causalbandits.model import FittedModel
from causalbandits.policies import AnyPolicy, identity_with_code
from causalbandits.problem import Action, Budget, Problem
from causalbandits.results import Origin, Values

Source = Environment | Callable[[np.random.Generator], Environment]

Found = dict[str, dict[str, Values]]
"""By policy, then measure: one replication's values at each checkpoint."""


@dataclass(frozen=True)
class Plan:
    """Every policy on the same environment, or on a new one each replication."""

    source: Source
    policies: Mapping[str, AnyPolicy]
    believed: Problem | None
    rounds: npt.NDArray[np.int64]
    seed: int
    compiled: bool = False
    """Whether to use the compiled driver where it can be; the numbers are the same."""
    measures: tuple[str, ...] = ()
    """What to keep beside regret, of `results.measures.MEASURES`."""
    budget: float | None = None
    """What may be spent in all rounds together."""
    epsilon: float = 0.0
    """How much worse than the best is good enough, for the risk of stopping."""

    def environment(self, replication: int) -> Environment:
        """The environment of a replication, the same for every policy."""
        if isinstance(self.source, Environment):
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
        if not isinstance(env, Environment):
            raise CausalBanditsError(
                f"A function that draws environments must return an Environment; for replication {replication} it "
                f"returned {env!r}."
            )
        return env

    def run(self, replication: int, tick: Callable[[int], None] = lambda rounds: None) -> Found:
        """One replication of every policy."""
        env = self.environment(replication)
        return {name: self._played(policy, env, replication, tick) for name, policy in self.policies.items()}

    def _played(
        self, policy: AnyPolicy, env: Environment, replication: int, tick: Callable[[int], None]
    ) -> dict[str, Values]:
        """One policy's regret, and what else is measured, at each checkpoint."""
        problem = self._believed_by(policy, env)
        watch = _Observer(env, policy, problem, len(self.rounds), self.measures, self.epsilon, self._allowance)
        arguments = env, policy, problem, self.rounds, self.seed, replication
        watching = watch if watch.found else None
        if self._is_compiled(env, policy):
            played = play_compiled(*arguments, watch=watching)
            tick(int(self.rounds[-1]))
        else:
            played = play(*arguments, tick, watching, self.budget)
        found = {"regret": played.regret, "reward": played.reward, **watch.found}
        return {name: found[name] for name in ("regret", *self.measures)}

    @property
    def _allowance(self) -> float | None:
        """What a budget has for each round."""
        return None if self.budget is None else self.budget / int(self.rounds[-1])

    def all_compiled(self) -> bool:
        """Whether no policy needs the interpreter, so that threads serve as well as processes."""
        env = self.environment(0)
        return all(self._is_compiled(env, policy) and not policy.learns_tables for policy in self.policies.values())

    def _is_compiled(self, env: Environment, policy: AnyPolicy) -> bool:
        return self.compiled and self.budget is None and can_play(env, policy, self._believed_by(policy, env))

    def compile(self) -> None:
        """Have the compiled rounds ready before they are needed, and say so if that takes its time."""
        env = self.environment(0)
        for policy in self.policies.values():
            if self._is_compiled(env, policy):
                problem = self._believed_by(policy, env)
                with Notice(f"Compiling the simulator for {policy.id} (once; it is kept on disk) ..."):
                    play_compiled(env, policy, problem, np.ones(1, dtype=np.int64), self.seed, 0)

    def check(self) -> None:
        """Raise, before anything runs, if the first replication's parts do not fit; warn of odd scales."""
        env = self.environment(0)
        if "plays" in self.measures:
            env.problem.actions.refuse_enumeration("How often each action was played is kept for every action", LISTED)
        if self.budget is not None:
            self._check_budget(env, self._believed_in(env), self.budget)
        for policy in self.policies.values():
            if policy.unit_rewards and env.reward.bounded is False:
                raise PolicyError(
                    f"The policy {policy.id!r} needs rewards in [0, 1]; {env.reward!r} leaves that range. Use a "
                    "Gaussian prior or a UCB policy."
                )
            problem = self._believed_by(policy, env)
            statistic = policy.begin(problem)
            moments = Moments(env, policy, problem)
            if "simple regret" in self.measures:
                for _, moment in weighed(moments, env)[:1]:
                    policy.favoured(moment.situation, statistic, self._allowance)
            if "risk" in self.measures:
                self._check_rule(policy, Moments(env, policy, problem), env, statistic)
            size = max(abs(bound) for bound in env.mean.range())
            if moments.left_out:
                warnings.warn(
                    f"{moments.why_left_out(next(iter(moments.left_out)))} Rounds in which nothing may be done, "
                    f"{sum(moments.left_out.values()):.0%} of those that come, are left out.",
                    ProblemWarning,
                    stacklevel=3,
                )
            policy.warn_of_unknown_tables(problem, stacklevel=3)
            policy.warn_of_scale("The mean reward reaches", size, problem, stacklevel=3)

    def _check_rule(self, policy: AnyPolicy, moments: Moments, env: Environment, statistic: Any) -> None:
        if self.budget is not None:
            raise BudgetError(
                "When to stop is asked of a single best action, and what a budget pays for is a mixture of two: leave "
                "the measure 'risk' out, or the budget."
            )
        _, moment = weighed(moments, env)[0]
        best = policy.favoured(moment.situation, statistic).action
        if policy.risk(moment.situation, statistic, best, self.epsilon) is None:
            raise PolicyError(
                f"The policy {policy.id!r} has no rule that says when to stop: leave the measure 'risk' out, or take a "
                "policy that has one, such as 'c-ts-beta', 'c-ucb' or 'cl-ts'."
            )

    def _believed_by(self, policy: AnyPolicy, env: Environment) -> Problem:
        """What a policy is told: a policy that learns tables is not told the true ones, only the graph."""
        problem = self._believed_in(env)
        if not policy.learns_tables or isinstance(problem.model, FittedModel):
            return problem
        return problem.without_tables()

    def _check_budget(self, env: Environment, problem: Problem, total: float) -> None:
        """Whether it lasts, and everybody knows what is paid."""
        Shortfall(env, Budget(total, int(self.rounds[-1])).a_round)
        if problem.costs != env.problem.costs:
            raise BudgetError("The believed problem must have the environment's costs where there is a budget.")

    def _believed_in(self, env: Environment) -> Problem:
        if self.believed is None:
            return env.problem
        for name in self.believed.context:
            if name not in env.problem.context:
                raise ProblemError(
                    f"The believed problem has {name!r} as context, which the environment's has not: "
                    f"{list(env.problem.context)}."
                )
        ours, theirs = self.believed.manipulable, env.problem.manipulable
        if ours != theirs:
            raise ProblemError(
                f"The believed problem must have the environment's manipulable variables, {list(theirs)}, in the same "
                f"order; it has {list(ours)}."
            )
        if self.believed.costs is not None and env.problem.costs is None:
            raise ProblemError(
                "The believed problem has costs, and the environment has none: regret would be that of rewards alone. "
                "Make the environment with costs, too: Environment.from_model(..., costs=...), or of a Problem "
                "that has them."
            )
        unseen = [name for name in self.believed.parents if name not in env.problem.parents]
        if unseen:
            raise ProblemError(
                f"The believed problem's parents must be among the environment's, {list(env.problem.parents)}: only "
                f"these are drawn; {unseen[0]!r} is not."
            )
        for name in (*ours, *self.believed.parents, *self.believed.context):
            mine, true = self.believed.variable(name).states, env.problem.variable(name).states
            if mine != true:
                raise ProblemError(
                    f"The believed problem must have the environment's states, in the same order: {name!r} has "
                    f"{list(true)} there and {list(mine)} here. Give fit() the states, or the model as its graph."
                )
        return self.believed

    @cached_property
    def origin(self) -> Origin:
        """What decides about the numbers of each policy, replications, rounds and seed aside."""
        env = self.environment(0)
        world = {
            "environment": env.fingerprint,
            "drawn": None if isinstance(self.source, Environment) else code_hash(self.source),
        }
        believed = None if self.believed is None else self.believed.fingerprint
        budget = {} if self.budget is None else {"budget": self.budget}
        if self.epsilon:
            budget["epsilon"] = self.epsilon
        policies = {
            name: _hashed(
                {"policy": identity_with_code(policy, self._believed_by(policy, env)), "believed": believed, **budget}
            )
            for name, policy in self.policies.items()
        }
        ids = {name: policy.id for name, policy in self.policies.items()}
        return Origin(_hashed(world), policies, ids)

    @cached_property
    def fingerprint(self) -> str:
        """A short name for this very plan: what decides about its numbers, replications aside."""
        parts = {**self.origin._asdict(), "rounds": self.rounds.tolist(), "seed": self.seed, "measures": self.measures}
        return _hashed(parts)


class _Observer:
    """Notes at each checkpoint what the drivers do not: what the policy would recommend, and what it has played."""

    def __init__(
        self,
        env: Environment,
        policy: AnyPolicy,
        problem: Problem,
        checkpoints: int,
        measures: tuple[str, ...],
        epsilon: float,
        allowance: float | None,
    ) -> None:
        self._env, self._policy, self._epsilon, self._allowance = env, policy, epsilon, allowance
        recommends = [name for name in ("simple regret", "risk") if name in measures]
        self._moments = weighed(Moments(env, policy, problem), env) if recommends else []
        worlds = [] if allowance is None else [moment.env for _, moment in self._moments]
        self._best = {world.problem.known: float(paid_for(world, allowance or 0.0).max()) for world in worlds}
        """Of what a budget pays for in every round, by what is known."""
        self.found: dict[str, Values] = {name: np.empty(checkpoints) for name in recommends}
        if "plays" in measures:
            self.found["plays"] = np.empty((checkpoints, env.problem.actions.size), dtype=np.int64)

    def __call__(self, slot: int, statistic: Any, counts: PlayCounts) -> None:
        found = [
            (share, moment, self._policy.favoured(moment.situation, statistic, self._allowance).action)
            for share, moment in self._moments
        ]
        if "simple regret" in self.found:
            lost = [share * self._lost(moment, best) for share, moment, best in found]
            self.found["simple regret"][slot] = sum(lost[1:], lost[0])
        if "risk" in self.found:
            self.found["risk"][slot] = max(self._risk(moment, statistic, best) for _, moment, best in found)
        if "plays" in self.found:
            self.found["plays"][slot] = counts()

    def _lost(self, moment: Moment, best: Action) -> float:
        number = self._env.problem.actions.rank(best.choices)  # another belief may number actions otherwise
        if self._allowance is None:
            return moment.env.gap(number)
        return self._best[moment.env.problem.known] - moment.env.mean_reward(number)

    def _risk(self, moment: Moment, statistic: Any, best: Action) -> float:
        found = self._policy.risk(moment.situation, statistic, best, self._epsilon)
        return 1.0 if found is None else found


def weighed(moments: Moments, env: Environment) -> list[tuple[float, Moment]]:
    """Every context that can occur with its probability; of too many, so many that were drawn, all alike."""
    if not env.problem.context:
        return [(1.0, moments.whole)]
    left_out = moments.left_out
    played = sum(share for codes, share in env.problem.contexts.weighed() if codes not in left_out) if left_out else 1.0
    weights = [(codes, share) for codes, share in env.problem.contexts.weighed() if codes not in left_out]
    return [(share / played, moments[codes]) for codes, share in weights]


def _hashed(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
