"""CausalBandit: all that a learner may know. The graph, the actions and P(z | a); nothing of the reward."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from causalbandits._memory import Memory
from causalbandits._types import Array, Z, is_iterable
from causalbandits.errors import InterventionError, ProblemError, ProblemWarning, StateError, unknown
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.fitted import FittedModel
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.model import CausalModel, unique_names
from causalbandits.model.observed import ObservedModel
from causalbandits.problem.actions import Action, ActionSpace, Reasons, shown
from causalbandits.problem.constraints import Manipulable, action_space, without_forbidden
from causalbandits.problem.context import check_with_context, checked_context, context_codes
from causalbandits.problem.contexts import Contexts
from causalbandits.problem.costs import Costs, Prices
from causalbandits.problem.differing import difference
from causalbandits.problem.distributions import Distributions
from causalbandits.problem.districts_given import DistrictsGiven, blocks_given
from causalbandits.problem.given import BlocksGiven
from causalbandits.problem.inference import Block
from causalbandits.problem.knowledge import Knowledge, graph_of, knowledge_of, knowledge_record
from causalbandits.problem.requirements import Limits, Requirements, required, requirements_of
from causalbandits.problem.search import Reduction, SearchSet, SomeActions, reduce_space, search_by_structure
from causalbandits.problem.separation import AugmentedGraph, shown_names
from causalbandits.problem.situation import Situation
from causalbandits.problem.worth_trying import checked_reward, number_worth_trying, worth_trying

SITUATIONS_KEPT = 2**8
"""So many narrowed situations are remembered."""

GIVEN_KEPT, CONFIGURATIONS_KEPT = 2**12, 2**24
"""The problem is remembered in so many contexts, and no more of them than have this many configurations together."""


class CausalBandit(Distributions):
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
    Where tables were fitted to data, this must be so with probability 0.95; in a context, for P(. | do(a), c).

    `parents=[]` with `reward="Y"` learns a number per action instead (`problem.learns`), without P(z | a): of the
    actions that are allowed, those that may be the only best by the graph alone (`CausalGraph.optimal_sets`) are kept.
    So does a `CausalGraph` in the model's place, which has no tables, and may have hidden causes.

    `context` names the variables whose values may be known before a decision. No action can change them, and given the
    parents they tell nothing more of the reward: with `reward=` that is checked, without it, it is believed.
    """

    def __init__(
        self,
        model: Knowledge,
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
        context: Iterable[str] = (),
    ) -> None:
        if not isinstance(model, Knowledge):
            raise ProblemError(f"A CausalBandit needs a CausalModel, an ObservedModel or a CausalGraph; got {model!r}.")
        if not isinstance(reduce, bool | np.bool_):
            raise ProblemError(f"reduce must be True or False; got {reduce!r}.")
        if reward is not None and not isinstance(reward, str):
            raise ProblemError(f"reward must be the name of a variable, such as 'Y'; got {reward!r}.")
        space = action_space(model, manipulable, at_most=at_most, always=always, actions=actions)
        if forbid is not None:
            space = without_forbidden(space, forbid, stacklevel=2)
        if isinstance(model, CausalGraph) or (isinstance(parents, list | tuple) and not parents):
            goal = checked_reward(model, space, reward, parents, separator or observable, require)
            before = checked_context(AugmentedGraph(model, space.names, space.surely_set()), context, goal)
            if require is not None and not isinstance(model, CausalGraph):
                space = required(space, model, require, goal, in_contexts=bool(before))
            priced = Costs.given(space, costs)
            if reduce and not (before and require):
                space = worth_trying(graph_of(model), space, goal, priced, before)
            self._settle(model, space, (), reward=goal, observable=(), reduce=reduce, costs=priced, context=before)
            return
        known = checked_context(AugmentedGraph(model, space.names, space.surely_set()), context, reward)
        if require is not None:
            space = required(space, model, require, reward, in_contexts=bool(known))
        worth = partial(number_worth_trying, model, space, reward, costs)
        augmented = AugmentedGraph(model, space.names, space.surely_set(), worth)
        seen: tuple[str, ...] = ()
        if separator is not None:
            found, seen = augmented.cheapest(_sought(separator, parents, reward), observable, known)
        elif observable is None:
            found = augmented.checked_parents(parents, reward)
        else:
            raise ProblemError('observable= says where to look for a separator: give separator="cheapest" too.')
        check_with_context(augmented, found, known, reward)
        priced = Costs.given(space, costs)
        self._settle(
            model, space, found, reward=reward, observable=seen, reduce=bool(reduce), costs=priced, context=known
        )
        _warn_of_idle(augmented.without_effect_on(found), found)

    def _settle(
        self,
        knowledge: Knowledge,
        space: ActionSpace,
        parents: tuple[str, ...],
        *,
        reward: str | None,
        observable: tuple[str, ...],
        reduce: bool,
        costs: Costs | None,
        context: tuple[str, ...],
        known: Z | None = None,
        whole: CausalBandit | None = None,
    ) -> CausalBandit:
        """What was given, once it is known to fit together, and what follows from it."""
        self.knowledge, self.actions, self.manipulable = knowledge, space, space.names
        self.parents, self.reward, self.reduce = parents, reward, reduce
        self.observable = observable
        """Where the separator was looked for; empty where the parents were given."""
        self.costs = costs
        """What actions cost; None where none costs anything."""
        self.shape = tuple(len(knowledge[name].states) for name in parents)
        self.configurations = math.prod(self.shape)
        self.context = context
        """The variables whose values may be known before a decision."""
        self.known = known
        """The codes of the context's variables, -1 for those that are not known; None if none is."""
        self.whole = self if whole is None else whole
        """The problem before anything is known."""
        self._blocks_given: BlocksGiven | DistrictsGiven | None = None
        if parents and not isinstance(knowledge, CausalGraph):
            self._blocks_given = blocks_given(knowledge, space, parents) if whole is None else whole._blocks_given
        self.known_codes = dict(_told(context, known))
        """What is known of the context, by name."""
        self.blocks: tuple[Block, ...] = () if self._blocks_given is None else self._blocks_given(self.known_codes)
        if whole is None and isinstance(self._blocks_given, DistrictsGiven):
            self._blocks_given.check(context)
        self._given: Memory[Z, CausalBandit] = Memory(
            max(16, min(GIVEN_KEPT, CONFIGURATIONS_KEPT // self.configurations))
        )
        self._given_values: Memory[frozenset[tuple[str, State]], CausalBandit] = Memory(GIVEN_KEPT)
        self._situations: Memory[tuple[int, ...], Situation] = Memory(SITUATIONS_KEPT)
        self._lists: Memory[tuple[Action | Mapping[str, State], ...], tuple[int, ...]] = Memory(SITUATIONS_KEPT)
        return self

    @cached_property
    def contexts(self) -> Contexts:
        """The values that the context may have, and how likely they are, given what is known."""
        return Contexts(self.knowledge if self.context else None, self.context, self.known)

    @cached_property
    def context_number(self) -> int | None:
        """The number of the context; 0 where there is none, None where it is not known in full."""
        return self.contexts.number(self.known)

    @cached_property
    def known_parents(self) -> dict[str, State]:
        """What is known of the parents, by name."""
        return {name: value for name, value in self.contexts.values(self.known).items() if name in self.parents}

    @cached_property
    def can_occur(self) -> bool:
        """Whether what is known has a probability above 0."""
        return self.known is None or not self.contexts.has_shares or self.contexts.probability(self.known) > 0.0

    @property
    def context_distribution(self) -> Array:
        """P(c), one axis per variable of the context."""
        return self.contexts.distribution

    def given(self, context: Mapping[str, State]) -> CausalBandit:
        """The same problem once some or all of its context is known: P(z | do(a)) is P(z | do(a), c) there.

        Actions and configurations, and their numbers, are the same. It is remembered.
        """
        try:
            key = frozenset(context.items())
            found = self._given_values.get(key)
        except (AttributeError, TypeError):
            key, found = frozenset(), None
        if found is None:
            codes = context_codes(self.knowledge, self.context, context)
            found = self.in_context(self._also_known(codes)) if codes else self
            self._given_values.keep(key, found)
        return found

    def in_context(self, codes: Z | None) -> CausalBandit:
        """The same, given by codes: one per variable of the context, -1 for what is not known; None if nothing is."""
        if codes is None or codes == self.known:
            return self.whole if codes is None else self
        found = self.whole._given.get(codes)
        if found is None:
            found = self.whole._given.keep(codes, self._view(codes))
        return found

    def _view(self, codes: Z) -> CausalBandit:
        """A problem that shares all but what depends on the context."""
        return self.whole._again(self.knowledge, known=codes, whole=self.whole)

    def _again(self, model: Knowledge, **view: Any) -> CausalBandit:
        """The same with these tables; all that was asked of the problem was checked when it was made."""
        return CausalBandit.__new__(CausalBandit)._settle(
            model,
            self.actions,
            self.parents,
            reward=self.reward,
            observable=self.observable,
            reduce=self.reduce,
            costs=self.costs,
            context=self.context,
            **view,
        )

    def _also_known(self, codes: Mapping[str, int]) -> Z:
        before = self.known or (-1,) * len(self.context)
        for name, code in zip(self.context, before, strict=True):
            if code >= 0 and codes.get(name, code) != code:
                known, told = (self.knowledge[name].states[i] for i in (code, codes[name]))
                raise ProblemError(f"{name!r} is known to be {known!r} here; it cannot be {told!r} as well.")
        return tuple([codes.get(name, code) for name, code in zip(self.context, before, strict=True)])

    def __repr__(self) -> str:
        costs = "" if self.costs is None else f"; costs on {shown_names(self.costs.names)}"
        context = f"; context {shown_names(self.context)}" if self.context else ""
        known = f", known: {self.contexts.shown(self.known)}" if self.known else ""
        if self.learns == "actions":
            return (
                f"CausalBandit({shown(self.actions.size)} actions on {shown_names(self.manipulable)}"
                f"{costs}{context}{known})"
            )
        return (
            f"CausalBandit({shown(self.actions.size)} actions on {shown_names(self.manipulable)}; "
            f"{shown(self.configurations)} configurations of {shown_names(self.parents)}{costs}{context}{known})"
        )

    @cached_property
    def _reduced(self) -> tuple[SearchSet, Reduction]:
        if self._complying is not None:
            size, why = len(self._complying), "the others do not keep to what is required"
            return SomeActions(self.every, self._complying), Reduction(self.actions, (), (), size, aside=why)
        if self.learns == "actions":
            why = "they may each be the only best, by the graph alone" if self.reduce else "reduce=False"
            return self.every, Reduction(self.actions, (), (), self.actions.size, aside=why)
        why = "the action set is a list" if self.actions.listed is not None else "" if self.reduce else "reduce=False"
        if why:
            return self.every, Reduction(self.actions, (), (), self.actions.size, aside=why)
        return reduce_space(self.actions, self.blocks, self.shape, self.costs)

    @cached_property
    def _left(self) -> tuple[int, ...] | None:
        """Where what is required depends on the context: the actions that keep to it here; None if all do."""
        if not self.context or not isinstance(self.requirements, Requirements):
            return None
        complies = self.requirements.complying(self.actions.array())
        return None if complies.all() else tuple(np.flatnonzero(complies).tolist())

    @property
    def has_actions(self) -> bool:
        """Whether anything may be done here: what is required may leave nothing in a context."""
        return self._left is None or bool(self._left)

    @property
    def no_action(self) -> str:
        """Why nothing may be done here; empty if something may."""
        if self.has_actions or not isinstance(self.requirements, Requirements):
            return ""
        where = f" where {self.contexts.shown(self.known)}" if self.known else " where the context is not known"
        return self.requirements.none_complies(self.actions.array(), where)

    @property
    def _complying(self) -> tuple[int, ...] | None:
        """The same as `_left`; refused if there are none."""
        if not self.has_actions:
            raise ProblemError(self.no_action)
        return self._left

    @property
    def is_narrowed(self) -> bool:
        """Whether fewer actions may be chosen here than there are, because of what is required."""
        return self._complying is not None

    @property
    def search(self) -> SearchSet:
        """The actions that can be the best for some reward, which causal policies search."""
        return self._reduced[0]

    def situation(
        self,
        *,
        context: Mapping[str, State] | None = None,
        every: bool = False,
        any_tables: bool = False,
        eligible: Iterable[Action | Mapping[str, State]] | None = None,
    ) -> Situation:
        """What is known before one decision, in which all actions may be chosen, or only the `eligible` ones.

        `context` are values of its variables, some or all of them. The actions that can be the best for some reward are
        searched; with `any_tables` those that can be, whatever the tables are, or `every` one that may be chosen.
        Situations are remembered: asking again for the same one costs next to nothing.
        """
        if context is not None:
            return self.given(context).situation(every=every, any_tables=any_tables, eligible=eligible)
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
        numbers = numbers if any_tables else self._allowed(numbers)
        if not numbers:
            raise InterventionError("No action is eligible: the list is empty, or the function says no to all.")
        found = self._situations.get(numbers)
        if found is None:
            found = self._situations.keep(numbers, Situation(self, SomeActions(self.every, numbers)))
        return found

    def _allowed(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """Those that keep to what is required here."""
        if self._complying is None or not numbers:
            return numbers
        left = tuple(sorted(set(numbers).intersection(self._complying)))
        if not left and self.requirements is not None:
            action = self.actions.action(numbers[0])
            raise InterventionError(
                f"No eligible action keeps to what is required: {action} does not, because "
                f"{self.requirements.reason(action.choices)}."
            )
        return left

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
        return Situation(self, self.every if self._complying is None else self.search)

    @cached_property
    def _in_unknown(self) -> Situation:
        if self.required:  # what complies is not known, and may be needed where what it is a mixture of does not
            return Situation(self, self.every)
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

    def with_model(self, model: CausalModel | ObservedModel) -> CausalBandit:
        """The same problem with other tables; variables and states must be the same."""
        if self.learns == "actions":
            raise ProblemError("A problem that learns a number per action has no use for tables: make it anew.")
        known = self.knowledge
        kind = ObservedModel if isinstance(known, ObservedModel) else CausalModel
        if not isinstance(model, kind):
            raise ProblemError(f"with_model() takes a model of the same kind, {kind.__name__}; got {model!r}.")
        if isinstance(model, ObservedModel) and model.causal_graph != self.graph:
            raise ProblemError(f"with_model() takes the same graph and states; got one of {model.causal_graph!r}.")
        for name in self.model.names if isinstance(model, CausalModel) else ():
            if model[name].states != self.model[name].states or model[name].parents != self.model[name].parents:
                raise ProblemError(f"with_model() takes the same graph and states; {name!r} differs.")
        return self._again(model).in_context(self.known)

    @property
    def required(self) -> tuple[str, ...]:
        """The variables of which something is required."""
        found = self.requirements
        return (
            tuple(dict.fromkeys(part.variable.name for part in found.parts)) if isinstance(found, Requirements) else ()
        )

    @cached_property
    def unknown_tables(self) -> tuple[str, ...]:
        """The variables between knobs and parents of whose tables nothing is known, as after `without_tables`."""
        if not self.parents or not isinstance(self.knowledge, FittedModel):
            return ()
        between = {name for block in self.blocks for name in block.names if block.knobs}.difference(self.manipulable)
        known = self.knowledge
        return tuple(name for name in known.order if name in between and known.is_unknown(name))

    def without_tables(self) -> CausalBandit:
        """The same problem, of whose tables nothing is known but their shapes: for policies that learn them.

        >>> from causalbandits import zoo
        >>> zoo.email_campaign().problem.without_tables().parent_distribution({"purpose": "Promo"})[0, :, 0].round(3)
        array([0.083, 0.083])
        """
        return self.remember("without tables", lambda: self.with_model(FittedModel.of_nothing(self.model)))

    def same_but_tables(self, other: CausalBandit) -> bool:
        """Whether another problem differs in the numbers of its tables at most."""
        return not difference(self, other)

    @cached_property
    def requirements(self) -> Reasons | None:
        """What was required of actions, and which it leaves, here; None if nothing was."""
        found = self.actions.requirements
        return found.given(self.known_codes) if self.known and isinstance(found, Requirements) else found

    def cost(self, action: Action | Mapping[str, State] | int) -> float:
        """What an action costs; 0 in a problem without costs."""
        choices = self.choices(action)
        return 0.0 if self.costs is None else self.costs.of(choices)

    @cached_property
    def _parent_names(self) -> frozenset[str]:
        return frozenset(self.parents)

    @cached_property
    def _parent_codes(self) -> tuple[tuple[str, Callable[[State], int]], ...]:
        return tuple((name, self.variable(name).code) for name in self.parents)

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
        return {name: self.variable(name).states[code] for name, code in zip(self.parents, z, strict=True)}

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description, enough to make the problem again."""
        return {
            **knowledge_record(self.knowledge),
            "parents": list(self.parents),
            "reward": self.reward,
            "reduce": self.reduce,
            **self.actions.to_record(),
            **({} if self.costs is None else {"costs": self.costs.to_record()}),
            **({"context": list(self.context)} if self.context else {}),
            **({"known": list(self.known)} if self.known else {}),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CausalBandit:
        """The problem that `to_record` describes."""
        if not isinstance(record, Mapping):
            raise StateError(f"Not the description of a problem: a mapping is needed, not {record!r}.")
        try:
            model = knowledge_of(record)
            if isinstance(model, CausalGraph) or not record["parents"]:
                return cls._by_actions(model, record)
            space = ActionSpace.from_record(record, model)
            parents = unique_names("parent", record["parents"], model)
            if not isinstance(record["reduce"], bool):
                raise ProblemError(f"reduce must be true or false; got {record['reduce']!r}.")
            reward, augmented = record["reward"], AugmentedGraph(model, space.names, space.surely_set())
            augmented.checked_parents(parents, reward)
            context = checked_context(augmented, record.get("context", ()), reward)
            check_with_context(augmented, parents, context, reward)
            space.requirements = requirements_of(record.get("require"), space, model)
            costs = Costs.from_record(record.get("costs"), space)
            reduce = record["reduce"]
            problem = cls.__new__(cls)._settle(
                model, space, parents, reward=reward, observable=(), reduce=reduce, costs=costs, context=context
            )
            return problem.in_context(problem.contexts.checked(record.get("known")))
        except KeyError as error:
            raise StateError(f"Not the description of a problem: {error} is missing.") from None
        except (TypeError, ProblemError, InterventionError) as error:
            raise StateError(f"Not the description of a problem: {str(error).rstrip('.')}.") from None

    @classmethod
    def _by_actions(cls, known: Knowledge, record: Mapping[str, Any]) -> CausalBandit:
        """A problem without parents; which actions are worth trying was found when it was made."""
        space = ActionSpace.from_record(record, known)
        reward = checked_reward(known, space, record["reward"], record["parents"])
        context = checked_context(
            AugmentedGraph(known, space.names, space.surely_set()), record.get("context", ()), reward
        )
        if not isinstance(known, CausalGraph):
            space.requirements = requirements_of(record.get("require"), space, known)
        costs, reduce = Costs.from_record(record.get("costs"), space), bool(record["reduce"])
        own = cls.__new__(cls)._settle(
            known, space, (), reward=reward, observable=(), reduce=reduce, costs=costs, context=context
        )
        return own.in_context(own.contexts.checked(record.get("known")))

    @cached_property
    def fingerprint(self) -> str:
        """A short name for this very problem: equal problems have equal fingerprints."""
        record = self.to_record()
        record.get("model", {}).pop("properties", None)  # remarks do not count when models are compared
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _told(context: tuple[str, ...], known: Z | None) -> Iterator[tuple[str, int]]:
    """What is known of the context, by name."""
    return ((name, code) for name, code in zip(context, known or (), strict=False) if code >= 0)


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
