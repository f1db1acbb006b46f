"""Which actions are worth trying where nothing but the graph is known: one rule for all constraints.

An action is never the only best if it is a mixture of other actions that may be taken and cost no more. `model.worth`
says of which sets' settings a set's are mixtures, whatever the tables are; here the same is asked of actions, value by
value, where not all values of all sets may be set, or some cost more than others.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from causalbandits.errors import CausalBanditsError, ModelError, ProblemError, ProblemWarning, SizeError, unknown
from causalbandits.model import CausalGraph, Knowledge, as_causal_graph
from causalbandits.model.graph import COMPARED_LIMIT, MixedGraph, leading, members, optimal_sets, replacing
from causalbandits.problem.actions import ENUMERATION_LIMIT, PREDICATE_LIMIT, ActionSpace, Choices, Costs, Prices, shown
from causalbandits.problem.separators import shown_names


def checked_reward(
    knowledge: Knowledge,
    space: ActionSpace,
    reward: str | None,
    parents: object = (),
    separator: object = None,
    require: object = None,
) -> str:
    """The reward of a problem that learns a number per action; what such a problem has no use for is refused."""
    by_graph = isinstance(knowledge, CausalGraph)
    if parents or separator is not None:
        raise ProblemError(
            "P(z | do(a)) needs tables, and a CausalGraph has none: leave parents, separator and observable out to "
            "learn a number per action, or give what has tables: cb.fit(graph, rows), or a CausalModel."
            if by_graph
            else "parents=[] learns a number per action: leave separator and observable out."
        )
    if reward is None:
        raise ProblemError(
            "A number per action is learnt of the actions that are worth trying, and these are found by the graph: "
            "name the reward's variable, reward='Y'."
        )
    known = as_causal_graph(knowledge).parents
    if reward not in known:
        raise ModelError(unknown("variable", reward, known))
    if reward in space.names:
        raise ProblemError(f"The reward {reward!r} must not be manipulable: setting it is no experiment.")
    if require is not None and by_graph:
        raise ProblemError(
            "What is required is judged by tables, and a CausalGraph has none: leave require out, or give a "
            "CausalModel or an ObservedModel."
        )
    return reward


def number_worth_trying(
    knowledge: Knowledge, space: ActionSpace, reward: str | None, costs: Prices | None
) -> int | None:
    """How many actions are worth trying by the graph alone; None where that is not to be said."""
    if reward is None:
        return None
    try:
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):
            return worth_trying(as_causal_graph(knowledge), space, reward, Costs.given(space, costs)).size
    except CausalBanditsError:
        return None


def worth_trying(
    graph: CausalGraph,
    space: ActionSpace,
    reward: str,
    costs: Costs | None,
    context: Sequence[str] = (),
    *,
    stacklevel: int = 2,
) -> ActionSpace:
    """The actions of a space that may be the only best once the context is known, as a list, in their order."""
    mixed = graph.mixed([*space.names, reward, *context])
    mixed = mixed.given(mixed.bits(context))
    goal = mixed.bits([reward])
    leads = mixed.ancestors(goal, mixed.all)
    if leads == goal:
        raise ProblemError(f"No intervention can change the reward {reward!r}: none leads to it in the graph.")
    _warn_of_idle(mixed.shown(mixed.bits(space.names) & ~leads), reward, stacklevel + 2)
    if space.listed is None and not space.values and costs is None:
        found = _by_sets(mixed, goal, space)
    else:
        space.refuse_enumeration("Which actions are worth trying is asked of every action", PREDICATE_LIMIT)
        found = _by_values(mixed, goal, space, costs)
    left = space.listing(found)
    left.requirements = space.requirements
    return left


def _by_sets(mixed: MixedGraph, goal: int, space: ActionSpace) -> list[Choices]:
    """Every setting of every set that may be the best to set."""
    always = mixed.bits(space.always)
    sets = optimal_sets(mixed, goal, space.at_most, always)
    varied = [leading(mixed, goal, own) for own in sets]
    size = sum(math.prod(len(space.settable[k]) for k in members(own)) for own in varied)
    if size > ENUMERATION_LIMIT:
        raise SizeError(
            f"{shown(size)} actions on {len(sets)} sets of variables may each be the best; the limit is "
            f"{ENUMERATION_LIMIT}. Use at_most=, or fewer manipulable variables."
        )
    least = space.least()
    return sorted(row for own in varied for row in _settings(space, own, least))


def _settings(space: ActionSpace, own: int, least: Choices) -> Iterator[Choices]:
    """All settings of a set; what must be set besides takes its first value."""
    options = [space.settable[k] if own >> k & 1 else (choice,) for k, choice in enumerate(least)]
    return itertools.product(*options)


class _Doing(NamedTuple):
    """What actions that do the same have in common: the first of the cheapest, its place, and its cost."""

    place: int
    choices: Choices
    cost: float


def _by_values(mixed: MixedGraph, goal: int, space: ActionSpace, costs: Costs | None) -> list[Choices]:
    """The actions that are no mixture of others that are allowed and cost no more."""
    by_set = _effects(mixed, goal, space, costs)
    if len(by_set) > COMPARED_LIMIT:
        raise SizeError(
            f"{len(by_set)} sets of variables would be compared with each other; the limit is {COMPARED_LIMIT}. "
            "Allow fewer: at_most=, or fewer manipulable variables."
        )
    always = mixed.bits(space.surely_set())
    kept = []
    for own, effects in by_set.items():
        others = replacing(mixed, goal, own | always, [other | always for other in by_set])
        instead = [(other, by_set[leading(mixed, goal, other)]) for other in others]
        kept += [
            effect
            for effect in effects.values()
            if not any(_all_allowed(effect, own | always, other, known, space) for other, known in instead)
        ]
    return [effect.choices for effect in sorted(kept)]


def _effects(mixed: MixedGraph, goal: int, space: ActionSpace, costs: Costs | None) -> dict[int, dict[Choices, _Doing]]:
    """By the set that counts, then by its values: what the actions do."""
    by_set: dict[int, dict[Choices, _Doing]] = {}
    counts: dict[int, int] = {}
    for place, row in enumerate(space.array().tolist()):
        choices = tuple(row)
        whole = sum(1 << k for k, choice in enumerate(choices) if choice)
        own = counts.get(whole)
        if own is None:
            own = counts[whole] = leading(mixed, goal, whole)
        found = by_set.setdefault(own, {})
        key, cost = _restricted(choices, own), 0.0 if costs is None else costs.of(choices)
        if key not in found or cost < found[key].cost:
            found[key] = _Doing(place, choices, cost)
    return by_set


def _restricted(choices: Iterable[int], own: int) -> Choices:
    return tuple(choice if own >> k & 1 else 0 for k, choice in enumerate(choices))


def _all_allowed(effect: _Doing, own: int, other: int, known: dict[Choices, _Doing], space: ActionSpace) -> bool:
    """Whether every setting of another set that agrees with an action may be taken, for no more."""
    counted = next(iter(known))
    options = [
        (0,) if not counted[k] else (choice,) if own >> k & 1 else range(1, radix)
        for k, (choice, radix) in enumerate(zip(effect.choices, space.radices, strict=True))
    ]
    found = (known.get(key) for key in itertools.product(*options))
    return all(instead is not None and instead.cost <= effect.cost for instead in found)


def _warn_of_idle(knobs: tuple[str, ...], reward: str, stacklevel: int) -> None:
    if knobs:
        warnings.warn(
            f"No path leads from {shown_names(knobs)} to the reward {reward!r}: by this graph, setting such a variable "
            "changes nothing, and it is not tried. Take it out of manipulable, or draw the arrow that is missing.",
            ProblemWarning,
            stacklevel=stacklevel,
        )
