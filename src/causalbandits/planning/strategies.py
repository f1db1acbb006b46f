"""What is possible with what is known: by configurations, with a knob that is always set, or by actions.

1. Some observed variables separate every action from the reward, and P(z | do(a)) is known or can be computed from what
   is observed: a number per configuration, for every policy.
2. They would if some knob were always set: leaving alone is what hidden causes spoil.
3. They do, and P(z | do(a)) cannot be computed: what to observe, or what to set at random in some rows.
4. Whatever is known, a number per action, on the actions worth trying.

The way with the fewest numbers is the one to go, of those on which no action is lost that may be the best: a knob that
is always set is never left alone, and that may be what is best.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from causalbandits.errors import NotIdentifiedError, ProblemError, ProblemWarning, SizeError
from causalbandits.model import CausalGraph, CausalModel, Knowledge, ObservedModel, as_causal_graph
from causalbandits.problem import ActionSpace, AugmentedGraph, Problem
from causalbandits.problem.actions import Costs, shown
from causalbandits.problem.candidates import worth_trying
from causalbandits.problem.inference import blocks_given
from causalbandits.results import Grid, Heading, Part, Text

SETS_ASKED = 2**10
"""So many sets of knobs are asked for at most, whether what setting them leads to can be computed."""


class Way(NamedTuple):
    """One way to learn: how many numbers it takes, None if it cannot be gone; and what to write, or why not."""

    name: str
    numbers: int | None
    text: str
    gives_up: bool = False
    """Whether actions are lost that may be the best."""


class Route(NamedTuple):
    """The ways that there are, and the one to go."""

    ways: tuple[Way, ...]

    @property
    def best(self) -> Way | None:
        """The way with the fewest numbers on which nothing is lost; of several, the first."""
        open_ = [way for way in self.ways if way.numbers is not None and not way.gives_up]
        return min(open_, key=lambda way: way.numbers or 0, default=None)

    def parts(self) -> list[Part]:
        """The same for people."""
        rows = [(way.name, "-" if way.numbers is None else shown(way.numbers)) for way in self.ways]
        best = [Text(f"Nothing is lost, and the fewest numbers are learnt, {self.best.name}.")] if self.best else []
        return [
            Heading("What is possible"),
            Grid(("learning", "numbers"), rows),
            *(Text(f"{way.name[0].upper()}{way.name[1:]}: {way.text}") for way in self.ways),
            *best,
        ]


NO_ROUTE = Route(())
"""Where nothing is hidden, or the reward is not in the graph, there is nothing to choose."""


def route_of(problem: Problem) -> Route:
    """The ways for a problem whose reward is in its graph; none where it is not."""
    reward = problem.reward
    if reward is None or reward not in problem.graph.parents:
        return NO_ROUTE
    asked = _RouteAsked(problem.knowledge, problem.actions, reward, problem.costs, problem.context, problem.observable)
    return Route(tuple(asked.ways()))


class _RouteAsked(NamedTuple):
    """What is known, what may be done, and to what end."""

    knowledge: Knowledge
    space: ActionSpace
    reward: str
    costs: Costs | None
    context: tuple[str, ...]
    observable: tuple[str, ...]

    def ways(self) -> Iterator[Way]:
        sure = self.space.surely_set()
        found = self._by_configurations("by configurations", sorted(sure))
        yield found
        if found.numbers is None and not isinstance(self.knowledge, CausalModel):
            yield from itertools.islice(self._where_more_is_set(sure), 1)
        yield self._by_actions()

    def _where_more_is_set(self, sure: Collection[str]) -> Iterator[Way]:
        """The ways on which knobs are always set: first those that every action worth trying sets anyhow."""
        free = [name for name in self.space.names if name not in sure]
        anyhow = [name for name in free if name in self._set_anyhow()]
        tried = [anyhow] if anyhow else []
        tried += [[name] for name in free if [name] != anyhow] + ([free] if len(free) > 1 else [])
        most = len(self.space.names) if self.space.at_most is None else self.space.at_most
        for own in tried:
            if len(sure) + len(own) > most:
                continue
            way = self._by_configurations(f"with always={own}", [*sorted(sure), *own])
            if way.numbers is not None and own != anyhow:
                lost = f"{way.text} To leave {', '.join(own)} alone is given up, which may be what is best."
                yield way._replace(text=lost, gives_up=True)
            elif way.numbers is not None:
                yield way

    def _set_anyhow(self) -> Collection[str]:
        try:
            return self._worth_trying().surely_set()
        except (SizeError, ProblemError):
            return ()

    def _worth_trying(self) -> ActionSpace:
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # said of the problem itself
            return worth_trying(as_causal_graph(self.knowledge), self.space, self.reward, self.costs, self.context)

    def _by_configurations(self, name: str, always: Sequence[str]) -> Way:
        try:
            separator = self._separator(always)
        except ProblemError as error:
            return Way(name, None, str(error))
        reason = self._not_identified(separator, always)
        if reason:
            return Way(name, None, reason)
        numbers = math.prod(self._states(variable) for variable in separator)
        z, given = ", ".join(separator), f", always={list(always)}" if always else ""
        verb = "separate" if len(separator) > 1 else "separates"
        text = f"{z} {verb} what is done from {self.reward}: parents={list(separator)}{given}."
        if isinstance(self.knowledge, CausalGraph):
            text += f" P({z} | do(a)) is computed from rows in which nothing was set: known = cb.fit(graph, rows)."
        return Way(name, numbers, text)

    def _separator(self, always: Sequence[str]) -> tuple[str, ...]:
        augmented = AugmentedGraph(self._with_states(), self.space.names, always)
        return augmented.cheapest(self.reward, self.observable or None, self.context)[0]

    def _with_states(self) -> Knowledge:
        """Where nothing is said of a variable's values, it counts as one of two."""
        if not isinstance(self.knowledge, CausalGraph):
            return self.knowledge
        missing = [name for name in self.knowledge.parents if name not in self.knowledge.states]
        return self.knowledge.with_states({name: [0, 1] for name in missing})

    def _states(self, name: str) -> int:
        return len(self._with_states()[name].states)

    def _not_identified(self, separator: tuple[str, ...], always: Sequence[str]) -> str:
        """Why P(z | do(a)) cannot be computed for some action; empty if it can."""
        if isinstance(self.knowledge, CausalModel):
            return ""
        wanted = list(dict.fromkeys((*separator, *self.context)))
        try:
            if isinstance(self.knowledge, ObservedModel):
                blocks_given(self.knowledge, self._space_with(always), wanted)({})
            else:
                self._refuse_unidentified(self.knowledge, wanted, always)
        except (NotIdentifiedError, SizeError) as error:
            return str(error)
        return ""

    def _refuse_unidentified(self, graph: CausalGraph, wanted: list[str], always: Sequence[str]) -> None:
        for done in itertools.islice(self._sets(always), SETS_ASKED):
            of = [name for name in wanted if name not in done]
            if of:
                graph.effect(of, do=done)

    def _space_with(self, always: Sequence[str]) -> ActionSpace:
        """The actions where these knobs are always set; in a list, to some value."""
        space = self.space
        if space.listed is None:
            return ActionSpace(space.variables, at_most=space.at_most, always=always, values=space.values)
        first = [own[0] if name in always else 0 for name, own in zip(space.names, space.settable, strict=True)]
        rows = (tuple(c or least for c, least in zip(row, first, strict=True)) for row in space.listed)
        return space.listing(list(dict.fromkeys(rows)))

    def _sets(self, always: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The sets of knobs that some action sets."""
        if self.space.listed is not None:
            rows = self.space.listed
            sets = ((n for n, c in zip(self.space.names, row, strict=True) if c or n in always) for row in rows)
            yield from dict.fromkeys(map(tuple, sets))
            return
        free = [name for name in self.space.names if name not in always]
        most = len(self.space.names) if self.space.at_most is None else self.space.at_most
        for size in range(min(len(free), most - len(always)) + 1):
            for own in itertools.combinations(free, size):
                yield tuple(name for name in self.space.names if name in own or name in always)

    def _by_actions(self) -> Way:
        try:
            left = self._worth_trying()
        except (SizeError, ProblemError) as error:
            return Way("by actions", None, str(error))
        contexts = math.prod(self._states(name) for name in self.context)
        each = f", in each of {contexts} contexts" if self.context else ""
        of = f" of {shown(self.space.size)}" if left.size < self.space.size else ""
        text = f"{shown(left.size)}{of} actions are worth trying{each}: parents=[]."
        return Way("by actions", left.size * contexts, text)
