"""The actions that can be optimal if only the graph is known; one rule for all constraints.

An action is never the only best if it is a mixture of other allowed actions that cost no more. `model.graph.pomis`
decides for which sets of variables this holds under all CPTs. This module decides it action by action, if not all
values of all sets are allowed, or if costs differ.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from causalbandits.errors import (
    CausalBanditsError,
    ModelError,
    ProblemError,
    ProblemWarning,
    SizeError,
    unknown_name_message,
    warn,
)
from causalbandits.model import CausalGraph, Knowledge, as_causal_graph
from causalbandits.model.graph import ADMG, COMPARISON_LIMIT, dominating_sets, members, minimal_subset, pomis_sets
from causalbandits.problem.actions import (
    ENUMERATION_LIMIT,
    PREDICATE_LIMIT,
    ActionSpace,
    Choices,
    Costs,
    Prices,
    format_count,
)
from causalbandits.problem.separators import format_names


def validate_reward_variable(
    knowledge: Knowledge,
    space: ActionSpace,
    reward: str | None,
    parents: object = (),
    search: object = None,
    max_probability: object = None,
) -> str:
    """The reward of a problem that learns a mean per action; arguments without a use in such a problem are refused."""
    by_graph = isinstance(knowledge, CausalGraph)
    if parents or search is not None:
        raise ProblemError("reward_parents=[] learns a mean per action. Leave out adjust= and can_observe=.")
    if reward is None:
        raise ProblemError(
            "reward_parents=[] requires a reward in the graph, from which the possibly optimal actions are derived. "
            "Pass the variable's name, reward='Y'."
        )
    parents_by_name = as_causal_graph(knowledge).parents
    if reward not in parents_by_name:
        raise ModelError(unknown_name_message("variable", reward, parents_by_name))
    if reward in space.names:
        raise ProblemError(f"The reward {reward!r} must not be manipulable. Remove it from manipulable=.")
    if max_probability is not None and by_graph:
        raise ProblemError(
            "max_probability= requires CPTs, and a problem that learns a mean per action has none. Leave out "
            "max_probability=, or pass data (data=), a CausalModel or a LatentModel."
        )
    return reward


def count_possibly_optimal_actions(
    knowledge: Knowledge, space: ActionSpace, reward: str | None, costs: Prices | None
) -> int | None:
    """The number of actions that can be optimal by the graph alone; None if it cannot be determined."""
    if reward is None:
        return None
    try:
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):
            return possibly_optimal_actions(as_causal_graph(knowledge), space, reward, Costs.parse(space, costs)).size
    except CausalBanditsError:
        return None


def possibly_optimal_actions(
    graph: CausalGraph,
    space: ActionSpace,
    reward: str,
    costs: Costs | None,
    context: Sequence[str] = (),
    *,
    stacklevel: int = 2,
) -> ActionSpace:
    """The actions of a space that may be the only best once the context is known, as a list, in their order."""
    admg = graph.admg([*space.names, reward, *context])
    admg = admg.condition_on(admg.bits(context))
    goal = admg.bits([reward])
    relevant = admg.ancestors(goal, admg.all_nodes)
    if relevant == goal:
        raise ProblemError(
            f"No intervention can change the reward {reward!r}: the graph has no path from a manipulable "
            "variable to it."
        )
    _warn_of_ineffective_variables(admg.names_of(admg.bits(space.names) & ~relevant), reward, stacklevel + 2)
    if space.explicit_choices is None and not space.values and costs is None:
        choices = _actions_by_sets(admg, goal, space)
    else:
        space.refuse_enumeration("The possibly optimal actions are selected from all actions", PREDICATE_LIMIT)
        choices = _actions_by_values(admg, goal, space, costs)
    restricted = space.only_choices(choices)
    restricted.requirements = space.requirements
    return restricted


LOST_SETS_LIMIT = 12
"""The largest number of manipulable variables for which a warning lists the sets that may be optimal."""


def warn_of_lost_sets(
    graph: CausalGraph, space: ActionSpace, reward: str, context: Sequence[str] = (), *, stacklevel: int = 2
) -> None:
    """Warn if every variable is set although a POMIS leaves some of them to their natural mechanism.

    A variable's mechanism may depend on causes of the reward that are neither manipulable nor context. If the
    variable is not set, it responds to these causes; a fixed value does not.
    """
    admg = graph.admg([*space.names, reward, *context])
    admg = admg.condition_on(admg.bits(context))
    goal = admg.bits([reward])
    if not any(admg.siblings[i] for i in members(admg.ancestors(goal, admg.all_nodes))):
        return
    everything = admg.bits(space.names)
    if len(space.names) > LOST_SETS_LIMIT:
        lost_sets = "some of them"
    else:
        all_set = minimal_subset(admg, goal, everything)
        sets = {minimal_subset(admg, goal, nodes) for nodes in pomis_sets(admg, goal, None, 0)} - {all_set}
        if not sets:
            return
        names = sorted((admg.names_of(all_set & ~nodes) for nodes in sets), key=lambda group: (len(group), group))
        lost_sets = " or ".join("{" + ", ".join(group) + "}" for group in names[:4]) + (", ..." if names[4:] else "")
    warn(
        f"Every action sets all of {', '.join(space.names[:8])}{', ...' if space.names[8:] else ''}. According to the "
        f"graph, an action that does not set {lost_sets} may be better than all of these, because a natural mechanism "
        "can respond to causes of the reward that are neither manipulable nor context. To allow such actions: "
        "optional=True, or optional=[names]. If every variable must be set in every decision: optional=False.",
        ProblemWarning,
        stacklevel=stacklevel + 1,
    )


def _actions_by_sets(admg: ADMG, goal: int, space: ActionSpace) -> list[Choices]:
    """Every setting of every set that may be optimal."""
    always = admg.bits(space.always_set)
    sets = pomis_sets(admg, goal, space.max_set, always)
    minimal_sets = [minimal_subset(admg, goal, nodes) for nodes in sets]
    size = sum(math.prod(len(space.settable[k]) for k in members(nodes)) for nodes in minimal_sets)
    if size > ENUMERATION_LIMIT:
        raise SizeError(
            f"{format_count(size)} actions on {len(sets)} sets of variables may be optimal; the limit is "
            f"{ENUMERATION_LIMIT}. Use max_set=, or fewer manipulable variables."
        )
    baseline = space.baseline_choices()
    return sorted(row for nodes in minimal_sets for row in _settings(space, nodes, baseline))


def _settings(space: ActionSpace, nodes: int, baseline: Choices) -> Iterator[Choices]:
    """All settings of a set; other variables that must be set take their first value."""
    options = [space.settable[k] if nodes >> k & 1 else (choice,) for k, choice in enumerate(baseline)]
    return itertools.product(*options)


class _ActionEffect(NamedTuple):
    """The first of the cheapest actions with the same effect, with its position and cost."""

    place: int
    choices: Choices
    cost: float


def _actions_by_values(admg: ADMG, goal: int, space: ActionSpace, costs: Costs | None) -> list[Choices]:
    """The actions that are no mixture of other allowed actions that cost no more."""
    by_set = _group_by_effect(admg, goal, space, costs)
    if len(by_set) > COMPARISON_LIMIT:
        raise SizeError(
            f"{len(by_set)} sets of variables would be compared with each other; the limit is {COMPARISON_LIMIT}. "
            "Allow fewer: max_set=, or fewer manipulable variables."
        )
    always = admg.bits(space.variables_always_set())
    undominated = []
    for nodes, effects in by_set.items():
        dominating = dominating_sets(admg, goal, nodes | always, [candidate | always for candidate in by_set])
        replacements = [(candidate, by_set[minimal_subset(admg, goal, candidate)]) for candidate in dominating]
        undominated += [
            effect
            for effect in effects.values()
            if not any(
                _is_dominated(effect, nodes | always, candidate, effects_of_candidate, space)
                for candidate, effects_of_candidate in replacements
            )
        ]
    return [effect.choices for effect in sorted(undominated)]


def _group_by_effect(
    admg: ADMG, goal: int, space: ActionSpace, costs: Costs | None
) -> dict[int, dict[Choices, _ActionEffect]]:
    """The effects of the actions, by their minimal set and its values."""
    by_set: dict[int, dict[Choices, _ActionEffect]] = {}
    minimal_by_set: dict[int, int] = {}
    for place, row in enumerate(space.array().tolist()):
        choices = tuple(row)
        set_nodes = sum(1 << k for k, choice in enumerate(choices) if choice)
        nodes = minimal_by_set.get(set_nodes)
        if nodes is None:
            nodes = minimal_by_set[set_nodes] = minimal_subset(admg, goal, set_nodes)
        effects = by_set.setdefault(nodes, {})
        key, cost = _restrict_choices(choices, nodes), 0.0 if costs is None else costs.cost_of(choices)
        if key not in effects or cost < effects[key].cost:
            effects[key] = _ActionEffect(place, choices, cost)
    return by_set


def _restrict_choices(choices: Iterable[int], nodes: int) -> Choices:
    return tuple(choice if nodes >> k & 1 else 0 for k, choice in enumerate(choices))


def _is_dominated(
    effect: _ActionEffect,
    nodes: int,
    candidate: int,
    candidate_effects: dict[Choices, _ActionEffect],
    space: ActionSpace,
) -> bool:
    """Whether every setting of another set that agrees with an action is allowed and costs no more."""
    counted = next(iter(candidate_effects))
    options = [
        (0,) if not counted[k] else (choice,) if nodes >> k & 1 else range(1, radix)
        for k, (choice, radix) in enumerate(zip(effect.choices, space.radices, strict=True))
    ]
    replacements = (candidate_effects.get(key) for key in itertools.product(*options))
    return all(replacement is not None and replacement.cost <= effect.cost for replacement in replacements)


def _warn_of_ineffective_variables(manipulable: tuple[str, ...], reward: str, stacklevel: int) -> None:
    if manipulable:
        warn(
            f"No path leads from {format_names(manipulable)} to the reward {reward!r}, so interventions on these "
            "variables have no effect and are not tried. Remove these variables from manipulable, or add the missing "
            "arrow.",
            ProblemWarning,
            stacklevel=stacklevel,
        )
