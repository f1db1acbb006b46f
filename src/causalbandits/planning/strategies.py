"""Options for learning: by configurations, by configurations with a variable that is always set, or by actions.

1. By configurations: observed variables separate every action from the reward, and P(z | do(a)) is known or identified
   from observations. All policies with a mean per configuration apply.
2. By configurations with a variable always set: the variables would separate if some manipulable variable were set in
  every action, because unobserved confounders only matter when it is not set.
3. By configurations after further measurement: the variables separate, but P(z | do(a)) is not identified. The option
  names variables to observe, or to randomise in some rows.
4. By actions: always possible, a mean per action, for the actions worth trying.

The recommended option has the fewest parameters among those that exclude no possibly optimal action. Always setting a
variable excludes the actions that do not set it, which may be optimal.
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
"""The maximum number of intervention sets whose effect is checked for identification."""


class Strategy(NamedTuple):
    """One option for learning: its number of parameters (None if it is impossible), and the code to write or the
    obstacle."""

    name: str
    numbers: int | None
    text: str
    gives_up: bool = False
    """Whether the option excludes possibly optimal actions."""


class Route(NamedTuple):
    """The available options, and the recommended one."""

    ways: tuple[Strategy, ...]

    @property
    def best(self) -> Strategy | None:
        """The option with the fewest parameters that excludes no possibly optimal action; the first of several."""
        feasible = [way for way in self.ways if way.numbers is not None and not way.gives_up]
        return min(feasible, key=lambda way: way.numbers or 0, default=None)

    def parts(self) -> list[Part]:
        """The options as parts of a report."""
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
"""The route if there are no unobserved variables, or the reward is not in the graph: no options."""


def route_of(problem: Problem) -> Route:
    """The options for a problem whose reward is in its graph; otherwise none."""
    reward = problem.reward
    if reward is None or reward not in problem.graph.parents:
        return NO_ROUTE
    search = _StrategySearch(
        problem.knowledge, problem.actions, reward, problem.costs, problem.context, problem.can_observe
    )
    return Route(tuple(search.strategies()))


class _StrategySearch(NamedTuple):
    """The inputs of the search for options: known distributions, possible actions, and the reward."""

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
        """The options that always set variables: first those variables that every action worth trying sets anyway."""
        free = [name for name in self.space.names if name not in always_set]
        implied = [name for name in free if name in self._always_set_by_candidates()]
        candidates = [implied] if implied else []
        candidates += [[name] for name in free if [name] != implied] + ([free] if len(free) > 1 else [])
        limit = len(self.space.names) if self.space.max_set is None else self.space.max_set
        for variables in candidates:
            if len(always_set) + len(variables) > limit:
                continue
            strategy = self._configuration_strategy(
                f"with {', '.join(variables)} always set", [*sorted(always_set), *variables]
            )
            if strategy.numbers is not None and variables != implied:
                text = (
                    f"{strategy.text} This excludes actions that leave {', '.join(variables)} to their natural "
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
        # already reported for the problem itself
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):
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
        """The graph in which variables without given values have two."""
        if not isinstance(self.knowledge, CausalGraph):
            return self.knowledge
        missing = [name for name in self.knowledge.parents if name not in self.knowledge.states]
        return self.knowledge.with_values({name: [0, 1] for name in missing})

    def _state_count(self, name: str) -> int:
        return len(self._with_values()[name].states)

    def _nonidentification_reason(self, separator: tuple[str, ...], always: Sequence[str]) -> str:
        """The reason why P(z | do(a)) is not identified for some action; empty if it is."""
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
        """The actions that set these variables; a listed action sets them to some value."""
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
        """The sets of variables that some action sets."""
        if self.space.explicit_choices is not None:
            rows = self.space.explicit_choices
            sets = ((n for n, c in zip(self.space.names, row, strict=True) if c or n in always) for row in rows)
            yield from dict.fromkeys(map(tuple, sets))
            return
        free = [name for name in self.space.names if name not in always]
        limit = len(self.space.names) if self.space.max_set is None else self.space.max_set
        for size in range(min(len(free), limit - len(always)) + 1):
            for variables in itertools.combinations(free, size):
                yield tuple(name for name in self.space.names if name in variables or name in always)

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
