"""CausalBandit: all that a learner may know. The graph, the actions and P(z | a); nothing of the reward."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import index
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from causalbandits._memory import Memory, Remembers
from causalbandits._random import Seed
from causalbandits._types import Array, is_iterable
from causalbandits.errors import InterventionError, ProblemError, ProblemWarning, SizeError, StateError, unknown
from causalbandits.model.fitted import FittedModel
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.model import CausalModel, unique_names
from causalbandits.problem.actions import Action, ActionSpace, Choices, Reasons, shown
from causalbandits.problem.constraints import Manipulable, action_space, without_forbidden
from causalbandits.problem.costs import Costs, Prices
from causalbandits.problem.inference import ENTRY_LIMIT, Block, find_blocks
from causalbandits.problem.possibility import can_happen
from causalbandits.problem.projection import Projection
from causalbandits.problem.requirements import Limits, required, requirements_of
from causalbandits.problem.search import (
    EveryAction,
    Reduction,
    SearchSet,
    SomeActions,
    reduce_space,
    search_by_structure,
)
from causalbandits.problem.separation import AugmentedGraph, shown_names
from causalbandits.problem.situation import Situation

DRAWS_AT_ONCE = 2**22
"""So many numbers of drawn distributions are made at once."""

SITUATIONS_KEPT = 2**8
"""So many narrowed situations are remembered."""


class CredibleInterval(NamedTuple):
    """The mean of a distribution, entry by entry, and the limits of what the data leave likely."""

    mean: Array
    lower: Array
    upper: Array


class CausalBandit(Remembers):
    """A model, the variables that may be set, and the reward's parents (or a set that stands in for them).

    >>> from causalbandits import CausalModel, Variable
    >>> model = CausalModel([
    ...     Variable("purpose", ["Promo", "Nurture"], table=[.6, .4]),
    ...     Variable("subject", ["short", "long"], parents=["purpose"], table=[[.7, .3], [.3, .7]])])
    >>> problem = CausalBandit(model, manipulable=["purpose"], parents=["subject"])
    >>> problem.actions.size
    3
    >>> problem.parent_distribution({"purpose": "Nurture"})
    array([0.3, 0.7])

    `reward="Y"` names the reward's variable in the model: its parents are then found in the graph, or the given
    `parents` are checked to separate every intervention from it. With `separator="cheapest"` the set with the fewest
    configurations that does so is found, among the `observable` variables (all but the reward, if left out); of
    equally small ones the one nearest to the reward, because rewards vary less given it.

    The action set may be narrowed: only some values may be set (`manipulable={"dose": ["low"], "x": None}`; None: all),
    `at_most=k` variables at once, variables that are `always` set, an explicit list of `actions`, combinations to
    `forbid` (a function of an intervention: it sees what is set, never what a variable left alone turns out to be).
    Causal policies search only the actions that can be the best for some reward (see `reduction`); `reduce=False` makes
    them search all.

    `costs={"product": 0.02, "send_time": {"morning": 0.01}}` says what it costs to set a knob, or to set it to a value,
    in the reward's units; what is not there, and what is left alone, costs nothing. Actions are then judged by their
    mean reward less their cost. Rewards are told as they come, nothing subtracted.

    `require={"complaint": {"yes": 0.01}}` says what may happen: only actions under which a complaint has probability
    0.01 at most may be chosen (see `requirements`); a number alone is for the value 1 of a variable that is 0 or 1.
    Where tables were fitted to data, this must be so with probability 0.95.
    """

    def __init__(
        self,
        model: CausalModel,
        manipulable: Manipulable,
        parents: Iterable[str] | None = None,
        *,
        reward: str | None = None,
        separator: Literal["cheapest"] | None = None,
        observable: Iterable[str] | None = None,
        at_most: int | None = None,
        always: Iterable[str] = (),
        actions: Iterable[Mapping[str, State]] | None = None,
        forbid: Callable[[Intervention], bool] | None = None,
        reduce: bool = True,
        costs: Prices | None = None,
        require: Limits | None = None,
    ) -> None:
        if not isinstance(model, CausalModel):
            raise ProblemError(f"A CausalBandit needs a CausalModel; got {model!r}.")
        if not isinstance(reduce, bool | np.bool_):
            raise ProblemError(f"reduce must be True or False; got {reduce!r}.")
        if reward is not None and not isinstance(reward, str):
            raise ProblemError(f"reward must be the name of a variable, such as 'Y'; got {reward!r}.")
        space = action_space(model, manipulable, at_most=at_most, always=always, actions=actions)
        if forbid is not None:
            space = without_forbidden(space, forbid, stacklevel=2)
        if require is not None:
            space = required(space, model, require, reward)
        augmented = AugmentedGraph(model, space.names, space.surely_set())
        seen: tuple[str, ...] = ()
        if separator is not None:
            found, seen = augmented.cheapest(_sought(separator, parents, reward), observable)
        elif observable is None:
            found = augmented.checked_parents(parents, reward)
        else:
            raise ProblemError('observable= says where to look for a separator: give separator="cheapest" too.')
        priced = Costs.given(space, costs)
        self._settle(model, space, found, reward=reward, observable=seen, reduce=bool(reduce), costs=priced)
        _warn_of_idle(augmented.without_effect_on(found), found)

    def _settle(
        self,
        model: CausalModel,
        space: ActionSpace,
        parents: tuple[str, ...],
        *,
        reward: str | None,
        observable: tuple[str, ...],
        reduce: bool,
        costs: Costs | None,
    ) -> CausalBandit:
        """What was given, once it is known to fit together, and what follows from it."""
        self.model, self.actions, self.manipulable = model, space, space.names
        self.parents, self.reward, self.reduce = parents, reward, reduce
        self.observable = observable
        """Where the separator was looked for; empty where the parents were given."""
        self.costs = costs
        """What actions cost; None where none costs anything."""
        self.shape = tuple(len(model[name].states) for name in parents)
        self.configurations = math.prod(self.shape)
        self.blocks = find_blocks(self.model, self.manipulable, self.parents)
        self._situations: Memory[tuple[int, ...], Situation] = Memory(SITUATIONS_KEPT)
        self._lists: Memory[tuple[Action | Mapping[str, State], ...], tuple[int, ...]] = Memory(SITUATIONS_KEPT)
        return self

    def __repr__(self) -> str:
        return (
            f"CausalBandit({shown(self.actions.size)} actions on {shown_names(self.manipulable)}; "
            f"{shown(self.configurations)} configurations of {shown_names(self.parents)}"
            f"{'' if self.costs is None else f'; costs on {shown_names(self.costs.names)}'})"
        )

    @cached_property
    def every(self) -> EveryAction:
        """All actions, in the order of their numbers."""
        return EveryAction(self.actions, self.blocks, self.shape)

    @property
    def projection(self) -> Projection:
        """Sums over P(z | a) for every action, in the order of their numbers."""
        return self.every.projection

    def projection_of(self, choices: Choices) -> Projection:
        """Sums over P(z | a) for a single action, equal to `projection`'s in every bit."""
        rows = [block.row(tuple(choices[k] for k in block.knobs))[None] for block in self.blocks]
        return Projection(rows, None, self.shape, self.blocks, all_pairs=True)

    @cached_property
    def _reduced(self) -> tuple[SearchSet, Reduction]:
        why = "the action set is a list" if self.actions.listed is not None else "" if self.reduce else "reduce=False"
        if why:
            return self.every, Reduction(self.actions, (), (), self.actions.size, aside=why)
        return reduce_space(self.actions, self.blocks, self.shape, self.costs)

    @property
    def search(self) -> SearchSet:
        """The actions that can be the best for some reward, which causal policies search."""
        return self._reduced[0]

    def situation(
        self,
        *,
        every: bool = False,
        any_tables: bool = False,
        eligible: Iterable[Action | Mapping[str, State]] | None = None,
    ) -> Situation:
        """What is known before one decision, in which all actions may be chosen, or only the `eligible` ones.

        The actions that can be the best for some reward are searched; with `any_tables` those that can be, whatever
        the tables are, or `every` one that may be chosen. Situations are remembered: asking again for the same one
        costs next to nothing.
        """
        for name, value in (("every", every), ("any_tables", any_tables)):
            if not isinstance(value, bool):
                raise ProblemError(f"{name} must be True or False; got {value!r}.")
        if eligible is None:
            return self._in_all if every else self._in_unknown if any_tables else self._in_searched
        if isinstance(eligible, str | Mapping) or not is_iterable(eligible):
            raise InterventionError(
                f"eligible must be a list of interventions, such as [{{'x': 1}}]; got {eligible!r}."
            )
        numbers = self._numbers(tuple(eligible))
        if not numbers:
            raise InterventionError("No action is eligible: the list is empty, or the function says no to all.")
        found = self._situations.get(numbers)
        if found is None:
            found = self._situations.keep(numbers, Situation(self, SomeActions(self.every, numbers)))
        return found

    def _numbers(self, given: tuple[Action | Mapping[str, State], ...]) -> tuple[int, ...]:
        """The numbers of some actions, in order; the same interventions, given again, are not looked up one by one."""
        try:
            found = self._lists.get(given)
        except TypeError:  # a dict has no hash
            found = None
        if found is None:
            found = tuple(sorted({self._own(action).number for action in given}))
            if all(isinstance(action, Intervention) for action in given):
                self._lists.keep(given, found)
        return found

    def _own(self, action: Action | Mapping[str, State]) -> Action:
        """An action of this problem, given as one, as another problem's, or as an intervention."""
        if isinstance(action, Action):
            return action if action.space is self.actions else self.actions.find(action.intervention)
        return self.actions.find(action)

    @cached_property
    def _in_searched(self) -> Situation:
        return Situation(self, self.search)

    @cached_property
    def _in_all(self) -> Situation:
        return Situation(self, self.every)

    @cached_property
    def _in_unknown(self) -> Situation:
        if not self.reduce or self.actions.listed is not None:
            return self._in_all
        return Situation(self, search_by_structure(self.actions, self.blocks, self.shape, self.costs))

    def reduction(self) -> Reduction:
        """Which actions need not be searched, and why.

        >>> from causalbandits import zoo
        >>> zoo.lower_bound(3, delta=0.1).problem.reduction()
        27 actions -> 2 that can be the best for some reward.
        Without effect on the reward's parents, so left alone: X2, X3.
        X1 -> X1: 3 choices, 2 kept.
          do() = 0.5 do(X1=1) + 0.5 do(X1=2)
        """
        return self._reduced[1]

    def with_model(self, model: CausalModel) -> CausalBandit:
        """The same problem with other tables; variables and states must be the same."""
        if not isinstance(model, CausalModel):
            raise ProblemError(f"with_model() takes a CausalModel; got {model!r}.")
        for name in self.model.names:
            if model[name].states != self.model[name].states or model[name].parents != self.model[name].parents:
                raise ProblemError(f"with_model() takes the same graph and states; {name!r} differs.")
        return CausalBandit.__new__(CausalBandit)._settle(
            model,
            self.actions,
            self.parents,
            reward=self.reward,
            observable=self.observable,
            reduce=self.reduce,
            costs=self.costs,
        )

    def without_tables(self) -> CausalBandit:
        """The same problem, of whose tables nothing is known but their shapes: for policies that learn them.

        >>> from causalbandits import zoo
        >>> zoo.email_campaign().problem.without_tables().parent_distribution({"purpose": "Promo"})[0, :, 0].round(3)
        array([0.042, 0.042, 0.042])
        """
        return self.remember("without tables", lambda: self.with_model(FittedModel.of_nothing(self.model)))

    def same_but_tables(self, other: CausalBandit) -> bool:
        """Whether another problem differs in the numbers of its tables at most."""
        ours, theirs = ({name: (v.states, v.parents) for name, v in p.model.variables.items()} for p in (self, other))
        return (
            ours == theirs
            and (self.manipulable, self.parents, self.reward) == (other.manipulable, other.parents, other.reward)
            and self.actions.same_as(other.actions)
            and self.costs == other.costs
        )

    def choices(self, action: Action | Mapping[str, State] | int) -> Choices:
        """An action, given as such, by its number or its intervention, as one choice per manipulable variable."""
        if isinstance(action, Action):
            return action.choices
        if isinstance(action, Mapping):
            choices = self.actions.encode(action)
            self.actions.rank(choices)
            return choices
        return self.actions.choices(action)

    @property
    def requirements(self) -> Reasons | None:
        """What was required of actions, and which it left; None if nothing was, or all actions comply."""
        return self.actions.requirements

    def cost(self, action: Action | Mapping[str, State] | int) -> float:
        """What an action costs; 0 in a problem without costs."""
        choices = self.choices(action)
        return 0.0 if self.costs is None else self.costs.of(choices)

    @overload
    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: Literal[False] = False,
        level: float = ...,
        draws: int = ...,
        rng: Seed = ...,
    ) -> Array: ...

    @overload
    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: Literal[True],
        level: float = ...,
        draws: int = ...,
        rng: Seed = ...,
    ) -> CredibleInterval: ...

    def parent_distribution(
        self,
        action: Action | Mapping[str, State] | int,
        *,
        interval: bool = False,
        level: float = 0.95,
        draws: int = 1000,
        rng: Seed = 0,
    ) -> Array | CredibleInterval:
        """P(z | do(a)) with one axis per parent.

        If the model was fitted, `interval=True` adds what the data leave uncertain: for each configuration, the
        quantiles between which its probability lies with probability `level`, from `draws` of the posterior.
        """
        choices = self.choices(action)
        if self.configurations > ENTRY_LIMIT:
            raise SizeError(
                f"The joint distribution of {len(self.parents)} parents has {shown(self.configurations)} entries; the "
                f"limit is {ENTRY_LIMIT}. Use features, whose means need the parents' marginals only."
            )
        own = [tuple(choices[k] for k in block.knobs) for block in self.blocks]
        mean = self.joint([block.row(c)[None] for block, c in zip(self.blocks, own, strict=True)])[0]
        if not isinstance(interval, bool):
            raise ProblemError(f"interval must be True or False; got {interval!r}.")
        if not interval:
            return np.asarray(mean)
        if not isinstance(self.model, FittedModel):
            raise ProblemError(
                "Only a model fitted to data has intervals (fit(graph, data)); this one is known exactly."
            )
        if not isinstance(level, float | int) or not 0 < level < 1:
            raise ProblemError(f"level must lie between 0 and 1; got {level!r}.")
        if not isinstance(draws, int | np.integer) or draws < 2 or draws * self.configurations > ENTRY_LIMIT:
            raise ProblemError(
                f"draws must be a whole number, 2 or more, and {ENTRY_LIMIT // self.configurations} at most for "
                f"{self.configurations} configurations; got {draws!r}."
            )
        tables = self.model.draw_tables(int(draws), rng)
        drawn = self.joint([block.under(tables, c) for block, c in zip(self.blocks, own, strict=True)])
        lower, upper = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return CredibleInterval(mean, lower, upper)

    def block_draws(self, action: Action, draws: int = 400) -> list[Array] | None:
        """Each block's P(z_b | do(a)) drawn from the posterior of fitted tables, a row each; None where they are exact.

        The draws are the same every time, so that an interval made of them is.
        """
        if not isinstance(self.model, FittedModel):
            return None
        tables = self.model.draw_tables(draws, np.random.default_rng(0))
        return [block.under(tables, [action.choices[k] for k in block.knobs]) for block in self.blocks]

    def parent_draws(self, action: Action) -> Array | None:
        """The same for P(z | do(a))."""
        rows = self.block_draws(action, max(2, min(400, DRAWS_AT_ONCE // self.configurations)))
        return None if rows is None else self.joint(rows).reshape(len(rows[0]), -1)

    def joint(self, rows: Sequence[Array]) -> Array:
        """The product of the blocks' distributions, given as rows of as many models: models, then the parents' axes."""
        product = np.ones((len(rows[0]), 1))
        for row in rows:
            product = (product[:, :, None] * row[:, None, :]).reshape(len(row), -1)
        axes = [axis for block in self.blocks for axis in block.parents]
        by_block = product.reshape(-1, *(self.shape[axis] for axis in axes))
        return np.ascontiguousarray(by_block.transpose(0, *(1 + np.argsort(axes))))

    def parent_distributions(self) -> Array:
        """P(z | do(a)) for all actions at once: a row per action, then one axis per parent."""
        size = self.actions.size * self.configurations
        if size > ENTRY_LIMIT:
            raise SizeError(
                f"{self.actions.size} actions x {self.configurations} configurations are {size} numbers; the limit "
                f"is {ENTRY_LIMIT}. Ask for one action at a time, or use project(), which never builds this matrix."
            )
        table = np.ones((self.actions.size, 1))
        for b, rows in enumerate(self.projection.rows):
            table = (table[:, :, None] * rows[self.projection.row_of_action(b)][:, None, :]).reshape(len(table), -1)
        axes = [axis for block in self.blocks for axis in block.parents]
        by_block = table.reshape(-1, *(self.shape[axis] for axis in axes))
        return np.ascontiguousarray(by_block.transpose(0, *(1 + np.argsort(axes))))

    def probability(self, action: int, z: Sequence[int]) -> float:
        """P(z | do(a)) of one configuration, z given by the parents' codes."""
        self.configuration(z)
        choices = self.actions.choices(action)
        return math.prod([block.probability(choices, z) for block in self.blocks])

    def possible(self, action: Action, z: Sequence[int]) -> bool:
        """Whether P(z | do(a)) > 0; asks only the blocks in which something is impossible."""
        doubtful = self._blocks_with_zeros
        return not doubtful or all(block.probability(action.choices, z) > 0.0 for block in doubtful)

    def possible_together(self, action: Action, seen: Mapping[str, int]) -> bool:
        """Whether P(seen | do(a)) > 0 for values of any variables, given by their codes; True if it is hard to tell."""
        return not self._has_zeros or can_happen(self.model, self.model.codes(action.intervention), seen)

    @cached_property
    def _has_zeros(self) -> bool:
        return any(not v.table.all() for v in self.model.variables.values())

    @cached_property
    def _blocks_with_zeros(self) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.may_be_zero())

    @cached_property
    def _parent_names(self) -> frozenset[str]:
        return frozenset(self.parents)

    @cached_property
    def _parent_codes(self) -> tuple[tuple[str, Callable[[State], int]], ...]:
        return tuple((name, self.model[name].code) for name in self.parents)

    def configuration(self, z: Sequence[int]) -> int:
        """The number of a configuration: the last parent moves fastest."""
        number = 0
        try:
            for size, code in zip(self.shape, z, strict=True):
                if not 0 <= code < size:
                    raise IndexError
                number = number * size + code
            return index(number)
        except (TypeError, ValueError, IndexError, ArithmeticError):
            raise ProblemError(
                f"A configuration has one code per parent, each below {list(self.shape)}; got {z!r}."
            ) from None

    def encode_parents(self, values: Mapping[str, State]) -> tuple[int, ...]:
        """The parents' values as codes; all of them must be there, and nothing else."""
        if type(values) is not dict and not isinstance(values, Mapping):
            raise ProblemError(f"The parents' values must be a mapping from each parent to its value; got {values!r}.")
        if values.keys() != self._parent_names:
            for name in values:
                if name not in self.parents:
                    raise ProblemError(unknown("parent", name, self.parents))
            missing = [name for name in self.parents if name not in values]
            raise ProblemError(f"Every parent must be observed; missing: {', '.join(map(repr, missing))}.")
        return tuple([code(values[name]) for name, code in self._parent_codes])

    def decode_parents(self, z: Sequence[int]) -> dict[str, State]:
        """The parents' values from their codes."""
        self.configuration(z)
        return {name: self.model[name].states[code] for name, code in zip(self.parents, z, strict=True)}

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description, enough to make the problem again."""
        return {
            "model": self.model.to_record(),
            "parents": list(self.parents),
            "reward": self.reward,
            "reduce": self.reduce,
            **self.actions.to_record(),
            **({} if self.costs is None else {"costs": self.costs.to_record()}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CausalBandit:
        """The problem that `to_record` describes."""
        if not isinstance(record, Mapping):
            raise StateError(f"Not the description of a problem: a mapping is needed, not {record!r}.")
        try:
            model = CausalModel.from_record(record["model"])
            space = ActionSpace.from_record(record, model)
            parents = unique_names("parent", record["parents"], model)
            if not isinstance(record["reduce"], bool):
                raise ProblemError(f"reduce must be true or false; got {record['reduce']!r}.")
            AugmentedGraph(model, space.names, space.surely_set()).checked_parents(parents, record["reward"])
            space.requirements = requirements_of(record.get("require"), space, model)
            costs = Costs.from_record(record.get("costs"), space)
            return cls.__new__(cls)._settle(
                model, space, parents, reward=record["reward"], observable=(), reduce=record["reduce"], costs=costs
            )
        except KeyError as error:
            raise StateError(f"Not the description of a problem: {error} is missing.") from None
        except (TypeError, ProblemError, InterventionError) as error:
            raise StateError(f"Not the description of a problem: {str(error).rstrip('.')}.") from None

    @cached_property
    def fingerprint(self) -> str:
        """A short name for this very problem: equal problems have equal fingerprints."""
        record = self.to_record()
        record["model"].pop("properties", None)  # remarks do not count when models are compared
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _sought(separator: str, parents: Iterable[str] | None, reward: str | None) -> str:
    """The reward for which a separator is to be found."""
    if not isinstance(separator, str) or separator != "cheapest":
        raise ProblemError(f'separator must be "cheapest" or left out; got {separator!r}.')
    if parents is not None or reward is None:
        raise ProblemError('separator="cheapest" finds the parents: name the reward (reward="Y") instead of them.')
    return reward


def _warn_of_idle(knobs: tuple[str, ...], parents: tuple[str, ...]) -> None:
    if knobs:
        warnings.warn(
            f"No path leads from {shown_names(knobs)} to the reward's parents, {shown_names(parents)}: by this graph, "
            "setting such a variable changes nothing. Causal policies will not try it; others will waste rounds on "
            "it. Take it out of manipulable, or draw the arrow that is missing.",
            ProblemWarning,
            stacklevel=3,
        )
