"""CausalBandit: all that a learner may know. The graph, the actions and P(z | a); nothing of the reward."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Literal

from causalbandits._memory import Memory
from causalbandits._types import Array, Z
from causalbandits.errors import InterventionError, ProblemError, ProblemWarning, StateError
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.fitted import FittedModel
from causalbandits.model.intervention import Intervention, State
from causalbandits.model.knowledge import Knowledge
from causalbandits.model.model import CausalModel
from causalbandits.model.observed import ObservedModel
from causalbandits.problem.actions import Action, shown
from causalbandits.problem.combinations import search_by_structure
from causalbandits.problem.constraints import Manipulable
from causalbandits.problem.context import context_codes
from causalbandits.problem.costs import Prices
from causalbandits.problem.differing import difference
from causalbandits.problem.districts_given import DistrictsGiven, blocks_given
from causalbandits.problem.given import BlocksGiven
from causalbandits.problem.narrowed import Narrowed
from causalbandits.problem.requirements import Limits
from causalbandits.problem.searched import Searched
from causalbandits.problem.separation import shown_names
from causalbandits.problem.situation import Situation
from causalbandits.problem.stated import Stated, checked_problem, stated_in

GIVEN_KEPT, CONFIGURATIONS_KEPT = 2**12, 2**24
"""The problem is remembered in so many contexts, and no more of them than have this many configurations together."""


class CausalBandit(Searched):
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

    manipulable: tuple[str, ...]
    reward: str | None
    observable: tuple[str, ...]
    """Where the separator was looked for; empty where the parents were given."""
    whole: CausalBandit
    """The problem before anything is known."""
    _blocks_given: BlocksGiven | DistrictsGiven | None

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
        stated = checked_problem(
            model,
            manipulable,
            parents,
            reward=reward,
            separator=separator,
            observable=observable,
            at_most=at_most,
            always=always,
            actions=actions,
            forbid=forbid,
            reduce=reduce,
            costs=costs,
            require=require,
            context=context,
            stacklevel=2,
        )
        self._settle(stated)
        _warn_of_idle(stated.idle, self.parents)

    def _settle(self, stated: Stated, known: Z | None = None, whole: CausalBandit | None = None) -> CausalBandit:
        """What was stated, and what follows from it."""
        self._stated = stated
        self.knowledge, self.actions, self.parents, self.reward, self.observable, self.reduce = stated[:6]
        self.costs, self.context = stated.costs, stated.context
        self.manipulable = self.actions.names
        self.shape = tuple(len(self.knowledge[name].states) for name in self.parents)
        self.configurations = math.prod(self.shape)
        self.known = known
        self.known_codes = dict(_told(self.context, known))
        self.whole = self if whole is None else whole
        self._blocks_given = _blocks_given(stated) if whole is None else whole._blocks_given
        self.blocks = () if self._blocks_given is None else self._blocks_given(self.known_codes)
        if whole is None and isinstance(self._blocks_given, DistrictsGiven):
            self._blocks_given.check(self.context)
        self._given: Memory[Z, CausalBandit] = Memory(
            max(16, min(GIVEN_KEPT, CONFIGURATIONS_KEPT // self.configurations))
        )
        self._given_values: Memory[frozenset[tuple[str, State]], CausalBandit] = Memory(GIVEN_KEPT)
        self._narrowed = Narrowed()
        return self

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
            view = CausalBandit.__new__(CausalBandit)._settle(self._stated, codes, self.whole)
            found = self.whole._given.keep(codes, view)
        return found

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
        return self._narrowed.situation(self, eligible, any_tables=any_tables)

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
        again = CausalBandit.__new__(CausalBandit)._settle(self._stated._replace(knowledge=model))
        return again.in_context(self.known)

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

    def cost(self, action: Action | Mapping[str, State] | int) -> float:
        """What an action costs; 0 in a problem without costs."""
        choices = self.choices(action)
        return 0.0 if self.costs is None else self.costs.of(choices)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description, enough to make the problem again."""
        return {**self._stated.to_record(), **({"known": list(self.known)} if self.known else {})}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> CausalBandit:
        """The problem that `to_record` describes."""
        if not isinstance(record, Mapping):
            raise StateError(f"Not the description of a problem: a mapping is needed, not {record!r}.")
        try:
            problem = cls.__new__(cls)._settle(stated_in(record))
            return problem.in_context(problem.contexts.checked(record.get("known")))
        except KeyError as error:
            raise StateError(f"Not the description of a problem: {error} is missing.") from None
        except (TypeError, ProblemError, InterventionError) as error:
            raise StateError(f"Not the description of a problem: {str(error).rstrip('.')}.") from None

    @cached_property
    def fingerprint(self) -> str:
        """A short name for this very problem: equal problems have equal fingerprints."""
        record = self.to_record()
        record.get("model", {}).pop("properties", None)  # remarks do not count when models are compared
        return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def _told(context: tuple[str, ...], known: Z | None) -> Iterator[tuple[str, int]]:
    """What is known of the context, by name."""
    return ((name, code) for name, code in zip(context, known or (), strict=False) if code >= 0)


def _blocks_given(stated: Stated) -> BlocksGiven | DistrictsGiven | None:
    """The blocks of z by what is known; None where there are no parents, or no tables."""
    if not stated.parents or isinstance(stated.knowledge, CausalGraph):
        return None
    return blocks_given(stated.knowledge, stated.actions, stated.parents)


def _warn_of_idle(knobs: tuple[str, ...], parents: tuple[str, ...]) -> None:
    if knobs:
        warnings.warn(
            f"No path leads from {shown_names(knobs)} to the reward's parents, {shown_names(parents)}: by this graph, "
            "setting such a variable changes nothing. Causal policies will not try it; others will waste rounds on "
            "it. Take it out of manipulable, or draw the arrow that is missing.",
            ProblemWarning,
            stacklevel=3,
        )
