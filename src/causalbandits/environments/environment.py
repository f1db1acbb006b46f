"""Environment: a problem together with the mechanism of its reward, which policies never see."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from causalbandits._cache import BoundedCache, Cached
from causalbandits._random import Seed, random_generator
from causalbandits._typing import Array, Z
from causalbandits.environments.rewards import AdditiveMean, BernoulliReward, Reward
from causalbandits.errors import ProblemError, ProblemWarning, caller_stacklevel, warn
from causalbandits.model import CausalModel, Intervention, State, cumulative_probabilities, validate_unique_names
from causalbandits.model.graph import ancestors
from causalbandits.problem import Problem, Scores, Situation
from causalbandits.problem.actions import ENUMERATION_LIMIT, Choices, Manipulable
from causalbandits.problem.inference import ConditionedBlocks
from causalbandits.problem.projection import Projection

# Ancestral sampling: the parents of the reward and their ancestors are sampled one by one, in causal order.

CONDITIONAL_CDF_CACHE_SIZE = 2**16
"""The maximum number of cached conditional distributions."""


class Mechanism(NamedTuple):
    """The mechanism of a variable: its intervention, or its distribution given its parents."""

    name: str
    position: int | None
    """The position among the manipulable variables; None for other variables."""
    causes: tuple[tuple[str, int], ...]
    cdfs: list[list[float]]
    """For every configuration of the parents, the cumulative distribution of the variable."""


class AncestralSampler:
    """Ancestral sampling in which some variables may be set and some values are known."""

    def __init__(self, problem: Problem, shown: tuple[str, ...] = ()) -> None:
        self._problem, self._shown = problem, shown
        self._conditional_cdfs: BoundedCache[tuple[str, tuple[tuple[str, int], ...]], list[float]] = BoundedCache(
            CONDITIONAL_CDF_CACHE_SIZE
        )

    def draw(self, choices: Choices, rng: np.random.Generator) -> dict[str, int]:
        """Sample the reward's parents, the constrained and the shown variables, and their ancestors."""
        codes: dict[str, int] = {}
        known_codes = self._problem.context_codes_by_name
        for name, position, causes, cdfs in self.mechanisms:
            if name in known_codes:
                codes[name] = known_codes[name]
                continue
            if name in self._ancestors_of_known:
                codes[name] = bisect_right(self._conditional_cdf(name, {**codes, **known_codes}), rng.random())
                continue
            if position is not None and choices[position]:
                codes[name] = choices[position] - 1
                continue
            row = 0
            for cause, size in causes:
                row = row * size + codes[cause]
            codes[name] = bisect_right(cdfs[row], rng.random())
        return codes

    def _conditional_cdf(self, name: str, known_codes: Mapping[str, int]) -> list[float]:
        """The cumulative distribution of an ancestor of a known variable, given the known values and earlier
        ancestors."""
        key = name, tuple(known_codes.items())
        cdf = self._conditional_cdfs.get(key)
        if cdf is None:
            block = self._ancestors_of_known[name](known_codes)[0]
            cdf = self._conditional_cdfs.store(key, cumulative_probabilities(block.table[0]).tolist())
        return cdf

    @cached_property
    def _ancestors_of_known(self) -> dict[str, ConditionedBlocks]:
        """The ancestors of known variables that are not manipulable: by name, the conditional distribution of each."""
        model, known_codes = self._problem.model, self._problem.context_codes_by_name
        return {
            name: ConditionedBlocks(model, (), (name,))
            for name in ancestors(model.graph, known_codes)
            if name not in known_codes
        }

    @cached_property
    def mechanisms(self) -> list[Mechanism]:
        """The mechanisms of the reward's parents, of constrained and shown variables and of their ancestors, in causal
        order.
        """
        problem = self._problem
        model, manipulable = problem.model, problem.manipulable
        on_the_way = ancestors(
            model.graph, (*problem.parents, *problem.context, *problem.constrained_variables, *self._shown)
        )
        return [
            Mechanism(
                name,
                manipulable.index(name) if name in manipulable else None,
                tuple((cause, len(model[cause].states)) for cause in model[name].parents),
                [
                    cumulative_probabilities(row).tolist()
                    for row in model[name].table.reshape(-1, len(model[name].states))
                ],
            )
            for name in model.order
            if name in on_the_way
        ]


LISTED = 2**16
"""The maximum number of actions among which the best is found by enumeration."""

CONTEXT_CACHE_SIZE = 2**12
"""The maximum number of contexts for which a conditioned environment is cached."""

MEAN_CACHE_SIZE = 2**16
"""The maximum number of cached gaps of actions, and of cached means of configurations."""


class Observation(NamedTuple):
    """The result of one pull.

    Attributes:
        parents: The values of the reward's parents, by variable.
        reward: The reward.
    """

    parents: Mapping[str, State]
    reward: float


class Best(NamedTuple):
    """The best action.

    Attributes:
        intervention: The action; the first of several that are equal.
        mean: Its mean reward minus its cost.
    """

    intervention: Intervention
    mean: float


class Environment(Cached):
    """A problem with its reward mechanism, for simulation; policies never see the mechanism.

    >>> from causalbandits import zoo
    >>> env = zoo.figure2()
    >>> env.best().intervention, round(env.best().mean, 10)
    (do(X1=1, X2=2, X3=2, X4=3), 0.2)
    >>> round(env.mean_reward({}), 10)
    0.0025

    Args:
        problem: The problem; it must have parents.
        reward: The reward mechanism, such as `rewards.BernoulliReward`.
        shown: Further variables of the model that are sampled in every round, for learners that observe them
            (`simulate(env, policies, believed=...)`). Default: none.

    Attributes:
        problem: The problem.
        reward: The reward mechanism.
        shown: The further variables that are sampled.

    Raises:
        ProblemError: If the arguments do not fit together, or the problem has no parents.
    """

    cache_size = 16  # the environment of an assumed problem may take megabytes

    shown: tuple[str, ...] = ()

    def __init__(self, problem: Problem, reward: Reward, *, shown: Iterable[str] = ()) -> None:
        if not isinstance(problem, Problem) or not isinstance(reward, Reward):
            raise ProblemError(
                f"An Environment needs a Problem and a reward (BernoulliReward, ...); got {problem!r}, {reward!r}."
            )
        if problem.unit == "actions":
            raise ProblemError(
                "An environment requires the reward's parents, and this problem has none. Create the environment from "
                "the whole model, and pass this problem as the policies' belief: simulate(env, policies, "
                "believed=problem, ...)."
            )
        if problem.unknown_cpts:
            warn(
                f"Nothing is known of the CPTs of {', '.join(problem.unknown_cpts)}, so this environment draws their "
                "values uniformly, whatever the action. Create the problem from a CausalModel, or pass data= with it.",
                ProblemWarning,
                stacklevel=caller_stacklevel(),
            )
        self.problem = problem
        self.reward = reward
        self.shown = validate_unique_names("shown", shown, problem.variable) if shown else ()
        self.mean = reward.mean_on(problem)
        self._cdfs: list[BoundedCache[Choices, list[float]]] = [
            BoundedCache(block.row_cache_size) for block in problem.blocks
        ]
        self._means: BoundedCache[Z, float] = BoundedCache(MEAN_CACHE_SIZE)
        self._gaps: BoundedCache[int, float] = BoundedCache(MEAN_CACHE_SIZE)
        self._conditioned_cache: BoundedCache[Z, Environment] = BoundedCache(CONTEXT_CACHE_SIZE)

    @classmethod
    def from_model(
        cls,
        model: CausalModel,
        *,
        manipulable: Manipulable,
        reward: str,
        shown: Iterable[str] = (),
        **problem_arguments: Any,
    ) -> Environment:
        """The environment of a model in which the reward is one of the variables.

        Args:
            model: The model.
            manipulable: The manipulable variables, as for `Problem`.
            reward: The name of the reward, a variable with the values 0 and 1.
            shown: Further variables that are sampled with the reward's parents, for learners that assume other parents
                (`simulate(env, policies, believed=...)`). Default: none.
            **problem_arguments: Further arguments of `Problem`, such as `optional` and `max_set`.

        Returns:
            The environment.

        Raises:
            ProblemError: If the reward is not a variable with the values 0 and 1, or the arguments do not form a
                problem.
        """
        if not isinstance(model, CausalModel):
            raise ProblemError(f"An environment is created from a CausalModel, with all CPTs; got {model!r}.")
        reward_variable = model[reward]
        if sorted(map(repr, reward_variable.states)) not in (["0", "1"], ["0.0", "1.0"], ["False", "True"]):
            raise ProblemError(f"The reward {reward!r} must be 0 or 1; its states are {list(reward_variable.states)}.")
        extra_parents = tuple(
            name
            for name in validate_unique_names("shown", shown, model.__getitem__)
            if name not in reward_variable.parents
        )
        problem = Problem(
            model,
            manipulable=manipulable,
            reward_parents=(*reward_variable.parents, *extra_parents),
            reward=reward,
            **problem_arguments,
        )
        means = reward_variable.table[..., reward_variable.code(1)].reshape(
            *reward_variable.table.shape[:-1], *(1 for _ in extra_parents)
        )
        return cls(problem, BernoulliReward(np.broadcast_to(means, problem.shape)))

    def condition(self, context: Mapping[str, State]) -> Environment:
        """The environment once values of its context are known; cached.

        Args:
            context: The known values by variable.

        Returns:
            The conditioned environment.

        Raises:
            InterventionError: If a value is unknown.
            ProblemError: If a variable is not part of the problem's context.
        """
        return self.condition_codes(self.problem.condition(context).context_codes)

    def condition_codes(self, codes: Z | None) -> Environment:
        """The environment once values of its context are known, given as codes.

        Args:
            codes: The position of each context variable's value, -1 for unknown ones; None for no context.

        Returns:
            The conditioned environment.
        """
        if codes is None or codes == self.problem.context_codes:
            return self
        env = self._conditioned_cache.get(codes)
        if env is None:
            conditioned = Environment(self.problem.condition_codes(codes), self.reward, shown=self.shown)
            env = self._conditioned_cache.store(codes, conditioned)
        return env

    def draw_context(self, rng: Seed = None) -> dict[str, State]:
        """Sample a context.

        Args:
            rng: The seed or generator. Default: a random seed.

        Returns:
            The values of the context, by variable.
        """
        return self.problem.contexts.values(self.draw_codes(random_generator(rng)))

    def draw_codes(self, rng: np.random.Generator) -> Z:
        """Sample a context, as codes.

        Args:
            rng: The generator.

        Returns:
            The position of each context variable's value.
        """
        return self.problem.contexts.sample(rng)

    def _at_context(self, context: Mapping[str, State] | None) -> Environment:
        return self if context is None else self.condition(context)

    def __repr__(self) -> str:
        return f"Environment({self.problem!r}, {self.reward!r})"

    def mean_reward(self, action: Mapping[str, State] | int, context: Mapping[str, State] | None = None) -> float:
        """The exact mean reward of an action.

        Args:
            action: The action: a mapping from variables to values, or its number.
            context: The known values of the context. Default: marginal over the context.

        Returns:
            The mean reward, without subtracting the cost.

        Raises:
            InterventionError: If the action is not part of the action space.
        """
        return self._at_context(context).mean.under(self.problem.choices(action))

    def value(self, action: Mapping[str, State] | int, context: Mapping[str, State] | None = None) -> float:
        """The exact mean reward of an action minus its cost.

        Args:
            action: The action: a mapping from variables to values, or its number.
            context: The known values of the context. Default: marginal over the context.

        Returns:
            The mean reward minus the cost.

        Raises:
            InterventionError: If the action is not part of the action space.
        """
        return self._at_context(context)._value(self.problem.choices(action))

    def _value(self, choices: Choices) -> float:
        mean, costs = self.mean.under(choices), self.problem.costs
        return mean if costs is None else mean - costs.cost_of(choices)

    @cached_property
    def means(self) -> Array:
        """The exact mean reward of every action, in the order of their numbers."""
        means = self.mean.of_actions(self.problem.projection)
        means.setflags(write=False)
        return means

    @cached_property
    def values(self) -> Array:
        """The exact mean reward minus cost of every action, in the order of their numbers."""
        costs = self.problem.costs
        return self.means if costs is None else self.means - costs.costs_of(self.problem.actions.array())

    def best(self, context: Mapping[str, State] | None = None) -> Best:
        """The best action: the first with the largest mean reward minus cost, up to rounding.

        If there are too many actions to list, only actions that can be optimal are searched (see `Problem.reduction`).

        Args:
            context: The known values of the context. Default: marginal over the context.

        Returns:
            The intervention and its mean reward minus cost.
        """
        if context is not None:
            return self.condition(context).best()
        space = self.problem.actions
        narrowed = self.problem.is_restricted
        if not narrowed and isinstance(self.mean, AdditiveMean) and (space.is_product or self._is_beyond_listing()):
            choices = self._best_by_block(self.mean)
            return Best(space.decode(choices), self._value(choices))
        situation = self.problem.situation(every=space.size <= LISTED)
        values = situation.net_of_costs(Scores.of(self.means_in(situation)))
        position = values.best_position()
        return Best(situation.action(position).intervention, float(values.values[position]))

    def means_in(self, situation: Situation) -> Array:
        """The exact mean reward of every searched action.

        Args:
            situation: The situation.

        Returns:
            The means, in the order of the searched actions.
        """
        lists_all_actions = self.problem.actions.size <= LISTED and not self.problem.is_restricted
        return self.means if lists_all_actions else self.mean.of_actions(situation.candidates.projection)

    def _is_beyond_listing(self) -> bool:
        """Whether blocks are chosen independently, with too many combinations to enumerate."""
        space = self.problem.actions
        return space.is_free and space.size > LISTED and self.problem.candidates.size > ENUMERATION_LIMIT

    def _best_by_block(self, mean: AdditiveMean) -> Choices:
        """An additive mean is a sum over blocks, each of which can be maximised separately."""
        space, blocks, costs = self.problem.actions, self.problem.blocks, self.problem.costs
        choices = list(space.baseline_choices() if costs is None else costs.cheapest(space.baseline_choices()))
        choices_by_block = [space.within(block.manipulable).array() for block in blocks]
        rows = [block.rows(allowed) for block, allowed in zip(blocks, choices_by_block, strict=True)]
        for block, allowed, contributions in zip(blocks, choices_by_block, mean.by_row(rows), strict=True):
            scores = Scores.of(contributions)
            if costs is not None:
                row_costs = costs.costs_of(allowed, block.manipulable)
                scores = scores.subtract_costs(row_costs, float(row_costs.max()))
            best = scores.best_position()
            for position, choice in zip(block.manipulable, allowed[best].tolist(), strict=True):
                choices[position] = choice
        return tuple(choices)

    def gaps(self) -> Array:
        """The gap of every action: the loss in mean reward minus cost relative to the best action."""
        return self._all_gaps if self.problem.is_restricted else np.asarray(self.values.max() - self.values)

    def gap(self, action: Mapping[str, State] | int, context: Mapping[str, State] | None = None) -> float:
        """The gap of one action: its loss in mean reward minus cost relative to the best action.

        Args:
            action: The action: a mapping from variables to values, or its number.
            context: The known values of the context. Default: marginal over the context.

        Returns:
            The gap.

        Raises:
            InterventionError: If the action is not part of the action space.
        """
        if context is not None:
            return self.condition(context).gap(action)
        if self._lists_gaps and type(action) is int and 0 <= action < len(self._all_gaps):
            return float(self._all_gaps[action])
        space = self.problem.actions
        number = (
            action if type(action) is int and 0 <= action < space.size else space.rank(self.problem.choices(action))
        )
        if self._lists_gaps:
            return float(self._all_gaps[number])
        gap = self._gaps.get(number)
        if gap is None:
            gap = self._gaps.store(number, max(0.0, self._best_value - self._value(space.choices(number))))
        return gap

    def gaps_in(self, projection: Projection, costs: Array | None = None) -> Array:
        """The gaps of a set of actions.

        Args:
            projection: The projection of the actions.
            costs: The costs of the actions. Default: none.

        Returns:
            The gaps, in the order of the actions.
        """
        means = self.mean.of_actions(projection)
        return np.maximum(0.0, self._best_value - (means if costs is None else means - costs))

    @cached_property
    def _lists_gaps(self) -> bool:
        """Whether the actions are few enough to list all gaps."""
        return self.problem.actions.size <= LISTED

    @cached_property
    def _all_gaps(self) -> Array:
        return np.maximum(0.0, self._best_value - self.values)

    @cached_property
    def configuration_means(self) -> Array:
        """The mean reward E[Y | z] of every configuration, in the order of their numbers."""
        return np.array([self.mean.at(z) for z in np.ndindex(*self.problem.shape)])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the environment: its problem, its means, and the code of a custom sampler."""
        shown = f" {self.shown!r}" if self.shown else ""
        content = f"{self.problem.fingerprint} {self.reward!r} {self.reward.code()}{shown}".encode()
        content += self.mean.content()
        return hashlib.sha256(content).hexdigest()[:16]

    @cached_property
    def _best_value(self) -> float:
        return self.best().mean

    def pull(
        self, action: Mapping[str, State] | int, rng: Seed = None, context: Mapping[str, State] | None = None
    ) -> Observation:
        """Play an action once.

        >>> from causalbandits import zoo
        >>> zoo.email_campaign().pull({"send_time": "morning"}, rng=1)
        Observation(parents={'subject': 'short', 'template': '2', 'send_time': 'morning'}, reward=1.0)

        Args:
            action: The action: a mapping from variables to values, or its number.
            rng: The seed or generator. Default: a random seed.
            context: The known values of the context. Default: a sampled context.

        Returns:
            The values of the reward's parents, and the reward.

        Raises:
            InterventionError: If the action is not part of the action space.
        """
        z, reward = self._at_context(context).draw(self.problem.choices(action), random_generator(rng))
        return Observation(self.problem.decode_parents(z), reward)

    def draw(self, choices: Choices, rng: np.random.Generator) -> tuple[Z, float]:
        """Sample the parents and the reward under an action.

        Args:
            choices: The position of each manipulable variable's choice.
            rng: The generator: one uniform number per block of parents, then the reward's own.

        Returns:
            The positions of the parents' values, and the reward.
        """
        return self._draw_reward(choices, rng, self._sample_parents)

    def draw_all(self, choices: Choices, rng: np.random.Generator) -> tuple[dict[str, int], Z, float]:
        """Sample the parents, their ancestors and the reward under an action.

        Args:
            choices: The position of each manipulable variable's choice.
            rng: The generator: one uniform number per variable that is not set, in causal order, then the reward's own.

        Returns:
            The positions of all sampled values by variable, those of the parents, and the reward.
        """
        observed: dict[str, int] = {}

        def sample_parents(choices: Choices, rng: np.random.Generator) -> Z:
            observed.update(self._ancestral_sampler.draw(choices, rng))
            return tuple([observed[name] for name in self.problem.parents])

        return (observed, *self._draw_reward(choices, rng, sample_parents))

    def _draw_reward(
        self, choices: Choices, rng: np.random.Generator, sample_parents: Callable[[Choices, np.random.Generator], Z]
    ) -> tuple[Z, float]:
        try:
            codes = sample_parents(choices, rng)
        except (TypeError, IndexError, AttributeError):
            self.problem.actions.validate_choices(choices)
            if not isinstance(rng, np.random.Generator):
                raise ProblemError(f"draw() takes choices and a numpy Generator; got {rng!r}.") from None
            raise
        mean = self._means.get(codes)
        if mean is None:
            mean = self._means.store(codes, self.mean.at(codes))
        return codes, self.reward.draw(mean, lambda: self.problem.decode_parents(codes), rng)

    @property
    def mechanisms(self) -> list[Mechanism]:
        """The mechanisms of the parents, of constrained and shown variables and of their ancestors, in causal order."""
        return self._ancestral_sampler.mechanisms

    @cached_property
    def _ancestral_sampler(self) -> AncestralSampler:
        return AncestralSampler(self.problem, self.shown)

    def _sample_parents(self, choices: Choices, rng: np.random.Generator) -> Z:
        z = [0] * len(self.problem.parents)
        for block, cdfs in zip(self.problem.blocks, self._cdfs, strict=True):
            block_choices = tuple([choices[k] for k in block.manipulable])
            cdf = cdfs.get(block_choices)
            if cdf is None:
                self.problem.actions.validate_choices(choices)
                cdf = cdfs.store(block_choices, cumulative_probabilities(block.row(block_choices)).tolist())
            code = bisect_right(cdf, rng.random())
            for axis, size in zip(reversed(block.parents), reversed(block.shape), strict=True):
                code, z[axis] = divmod(code, size)
        return tuple(z)
