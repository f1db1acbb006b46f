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
from causalbandits.model import CausalGraph, CausalModel, Knowledge, LatentModel, as_causal_graph
from causalbandits.problem import ActionSpace, AugmentedGraph, Problem
from causalbandits.problem.actions import Costs, format_count
from causalbandits.problem.candidates import possibly_optimal_actions
from causalbandits.problem.inference import build_conditioned_blocks
from causalbandits.results import Grid, Heading, Part, Text

MAX_SETS_CHECKED = 2**10
"""So many sets of knobs are asked for at most, whether what setting them leads to can be computed."""


class Strategy(NamedTuple):
    """One way to learn: how many numbers it takes, None if it cannot be gone; and what to write, or why not."""

    name: str
    numbers: int | None
    text: str
    gives_up: bool = False
    """Whether actions are lost that may be the best."""


class Route(NamedTuple):
    """The ways that there are, and the one to go."""

    ways: tuple[Strategy, ...]

    @property
    def best(self) -> Strategy | None:
        """The way with the fewest numbers on which nothing is lost; of several, the first."""
        feasible = [way for way in self.ways if way.numbers is not None and not way.gives_up]
        return min(feasible, key=lambda way: way.numbers or 0, default=None)

    def parts(self) -> list[Part]:
        """The same for people."""
        rows = [(way.name, "-" if way.numbers is None else format_count(way.numbers)) for way in self.ways]
        advice = (
            [
                Text(
                    f"Recommended: {self.best.name}. It learns the fewest parameters among the "
                    "options that exclude no possibly optimal action."
                )
            ]
            if self.best
            else []
        )
        return [
            Heading("Options for learning"),
            Grid(("option", "parameters"), rows),
            *(Text(f"{way.name[0].upper()}{way.name[1:]}: {way.text}") for way in self.ways),
            *advice,
        ]


NO_ROUTE = Route(())
"""Where nothing is hidden, or the reward is not in the graph, there is nothing to choose."""


def route_of(problem: Problem) -> Route:
    """The ways for a problem whose reward is in its graph; none where it is not."""
    reward = problem.reward
    if reward is None or reward not in problem.graph.parents:
        return NO_ROUTE
    search = _StrategySearch(
        problem.knowledge, problem.actions, reward, problem.costs, problem.context, problem.can_observe
    )
    return Route(tuple(search.strategies()))


class _StrategySearch(NamedTuple):
    """What is known, what may be done, and to what end."""

    knowledge: Knowledge
    space: ActionSpace
    reward: str
    costs: Costs | None
    context: tuple[str, ...]
    can_observe: tuple[str, ...]

    def strategies(self) -> Iterator[Strategy]:
        always_set = self.space.variables_always_set()
        strategy = self._configuration_strategy("by configurations", sorted(always_set))
        yield strategy
        if strategy.numbers is None and not isinstance(self.knowledge, CausalModel):
            yield from itertools.islice(self._always_set_strategies(always_set), 1)
        yield self._action_strategy()

    def _always_set_strategies(self, always_set: Collection[str]) -> Iterator[Strategy]:
        """The ways on which knobs are always set: first those that every action worth trying sets anyhow."""
        free = [name for name in self.space.names if name not in always_set]
        implied = [name for name in free if name in self._always_set_by_candidates()]
        candidates = [implied] if implied else []
        candidates += [[name] for name in free if [name] != implied] + ([free] if len(free) > 1 else [])
        limit = len(self.space.names) if self.space.max_set is None else self.space.max_set
        for knobs in candidates:
            if len(always_set) + len(knobs) > limit:
                continue
            strategy = self._configuration_strategy(
                f"with {', '.join(knobs)} always set", [*sorted(always_set), *knobs]
            )
            if strategy.numbers is not None and knobs != implied:
                text = (
                    f"{strategy.text} This excludes actions that leave {', '.join(knobs)} to their natural "
                    "mechanism, and the best action may be among them."
                )
                yield strategy._replace(text=text, gives_up=True)
            elif strategy.numbers is not None:
                yield strategy

    def _always_set_by_candidates(self) -> Collection[str]:
        try:
            return self._candidate_actions().variables_always_set()
        except (SizeError, ProblemError):
            return ()

    def _candidate_actions(self) -> ActionSpace:
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # said of the problem itself
            return possibly_optimal_actions(
                as_causal_graph(self.knowledge), self.space, self.reward, self.costs, self.context
            )

    def _configuration_strategy(self, name: str, always: Sequence[str]) -> Strategy:
        try:
            separator = self._find_separator(always)
        except ProblemError as error:
            return Strategy(name, None, str(error))
        reason = self._nonidentification_reason(separator, always)
        if reason:
            return Strategy(name, None, reason)
        numbers = math.prod(self._state_count(variable) for variable in separator)
        z, optional = ", ".join(separator), [name for name in self.space.names if name not in always]
        optional_text = f", optional={optional if always else True}" if optional else ""
        verb = "separate" if len(separator) > 1 else "separates"
        text = f"{z} {verb} the interventions from {self.reward}: reward_parents={list(separator)}{optional_text}."
        if isinstance(self.knowledge, CausalGraph):
            text += f" P({z} | do(a)) can be computed from observational rows: pass data=rows to Problem."
        return Strategy(name, numbers, text)

    def _find_separator(self, always: Sequence[str]) -> tuple[str, ...]:
        augmented = AugmentedGraph(self._with_values(), self.space.names, always)
        return augmented.cheapest_separator(self.reward, self.can_observe or None, self.context)[0]

    def _with_values(self) -> Knowledge:
        """Where nothing is said of a variable's values, it counts as one of two."""
        if not isinstance(self.knowledge, CausalGraph):
            return self.knowledge
        missing = [name for name in self.knowledge.parents if name not in self.knowledge.states]
        return self.knowledge.with_values({name: [0, 1] for name in missing})

    def _state_count(self, name: str) -> int:
        return len(self._with_values()[name].states)

    def _nonidentification_reason(self, separator: tuple[str, ...], always: Sequence[str]) -> str:
        """Why P(z | do(a)) cannot be computed for some action; empty if it can."""
        if isinstance(self.knowledge, CausalModel):
            return ""
        targets = list(dict.fromkeys((*separator, *self.context)))
        try:
            if isinstance(self.knowledge, LatentModel):
                build_conditioned_blocks(self.knowledge, self._space_always_setting(always), targets)({})
            else:
                self._require_identified(self.knowledge, targets, always)
        except (NotIdentifiedError, SizeError) as error:
            return str(error)
        return ""

    def _require_identified(self, graph: CausalGraph, targets: list[str], always: Sequence[str]) -> None:
        for intervened in itertools.islice(self._intervention_sets(always), MAX_SETS_CHECKED):
            outcomes = [name for name in targets if name not in intervened]
            if outcomes:
                graph.effect(outcomes, do=intervened)

    def _space_always_setting(self, always: Sequence[str]) -> ActionSpace:
        """The actions where these knobs are always set; in a list, to some value."""
        space = self.space
        if space.explicit_choices is None:
            return ActionSpace(space.variables, max_set=space.max_set, always_set=always, values=space.values)
        defaults = [
            choices[0] if name in always else 0 for name, choices in zip(space.names, space.settable, strict=True)
        ]
        rows = (
            tuple(choice or default for choice, default in zip(row, defaults, strict=True))
            for row in space.explicit_choices
        )
        return space.only_choices(list(dict.fromkeys(rows)))

    def _intervention_sets(self, always: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """The sets of knobs that some action sets."""
        if self.space.explicit_choices is not None:
            rows = self.space.explicit_choices
            sets = ((n for n, c in zip(self.space.names, row, strict=True) if c or n in always) for row in rows)
            yield from dict.fromkeys(map(tuple, sets))
            return
        free = [name for name in self.space.names if name not in always]
        limit = len(self.space.names) if self.space.max_set is None else self.space.max_set
        for size in range(min(len(free), limit - len(always)) + 1):
            for knobs in itertools.combinations(free, size):
                yield tuple(name for name in self.space.names if name in knobs or name in always)

    def _action_strategy(self) -> Strategy:
        try:
            candidates = self._candidate_actions()
        except (SizeError, ProblemError) as error:
            return Strategy("by actions", None, str(error))
        contexts = math.prod(self._state_count(name) for name in self.context)
        contexts_text = f", in each of {contexts} contexts" if self.context else ""
        total_text = f" of {format_count(self.space.size)}" if candidates.size < self.space.size else ""
        text = f"{format_count(candidates.size)}{total_text} actions may be optimal{contexts_text}: reward_parents=[]."
        return Strategy("by actions", candidates.size * contexts, text)
