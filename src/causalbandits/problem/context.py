"""What may be known before a decision, and when P(z | do(a), c) tells all that it says of the reward.

    E[Y | do(a), c] = sum_z P(z | do(a), c) E[Y | z]

holds if no context variable can be changed by what is done or by the reward, and if z separates the reward from every
intervention and from every context variable outside z. The reward's own parents always do. Taking the context into z
helps where z cuts all that comes from it, and hurts where the context is an effect of two hidden ways round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from causalbandits.errors import ProblemError, unknown
from causalbandits.model import graph as graphs
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.knowledge import Knowledge
from causalbandits.model.model import CausalModel
from causalbandits.model.variable import unique_names
from causalbandits.problem.separation import AugmentedGraph, shown_names


def checked_context(augmented: AugmentedGraph, given: Iterable[str], reward: str | None) -> tuple[str, ...]:
    """Names of variables that can be known before the decision."""
    names = unique_names("context", given, augmented.model.__getitem__)
    for name in names:
        if isinstance(augmented.model, CausalGraph) and name in augmented.model.hidden:
            raise ProblemError(f"The context is known before the decision; {name!r} is hidden. Take it out of context.")
        if name in augmented.manipulable:
            raise ProblemError(
                f"The context is known before the decision; {name!r} is manipulable, so that decisions make it. Take "
                "it out of context, or out of manipulable."
            )
        if name == reward:
            raise ProblemError(f"The reward {name!r} comes after the decision: take it out of context.")
        if reward is not None:
            _refuse_path(augmented, reward, name, "the reward")
        for knob in augmented.manipulable:
            _refuse_path(augmented, knob, name, "the manipulable")
    return names


def _refuse_path(augmented: AugmentedGraph, start: str, name: str, what: str) -> None:
    path = graphs.directed_path(augmented.graph, start, name)
    if path:
        raise ProblemError(
            f"The context is known before the decision; {name!r} comes after {what} {start!r}: "
            f"{graphs.describe_path(augmented.graph, path)}. Take {name!r} out of context."
        )


def check_with_context(
    augmented: AugmentedGraph, parents: tuple[str, ...], context: tuple[str, ...], reward: str | None
) -> None:
    """Refuse parents that do not stand in for the reward's once the context is known."""
    if all(name in context for name in parents):
        raise ProblemError(
            f"All of the parents {list(parents)} are context: known before the decision, so that no action could "
            "change the reward. Leave out of context what decisions may change, or name the other parents."
        )
    if reward is None:
        return
    opened = {name: graphs.open_path(augmented.graph, name, reward, parents) for name in context if name not in parents}
    opened = {name: path for name, path in opened.items() if path}
    if opened:
        name, path = next(iter(opened.items()))
        raise ProblemError(
            f"Given the parents {list(parents)}, the context {name!r} must tell nothing more of the reward {reward!r}: "
            f"{graphs.describe_path(augmented.graph, path)} is open. {_way_out(augmented, parents, context, reward)}"
        )


def _way_out(augmented: AugmentedGraph, parents: tuple[str, ...], context: tuple[str, ...], reward: str) -> str:
    """What would be enough, checked."""
    model, more = augmented.model, (*parents, *(name for name in context if name not in parents))
    for some in _fewest_first(parents, more):
        if not _still_open(augmented, some, context, reward):
            added = ", ".join(repr(name) for name in some if name not in parents)
            return f"Add {added} to parents: that is enough."
    others = _other_ways(model, reward)
    knobs = [name for name, node in augmented.nodes.items() if graphs.open_path(augmented.graph, node, reward, more)]
    settled = AugmentedGraph(model, augmented.manipulable, {*augmented.surely_set, *knobs})
    if knobs and not _still_open(settled, more, context, reward):
        path = graphs.open_path(augmented.graph, augmented.nodes[knobs[0]], reward, more)
        return (
            f"Adding it to parents is not enough: then {graphs.describe_path(augmented.graph, path)} is open, unless "
            f"always={knobs}. Or {others[0].lower()}{others[1:]}"
        )
    return others


def _other_ways(model: Knowledge, reward: str) -> str:
    if isinstance(model, CausalModel):
        return f"Name other parents: the reward's own parents {list(model[reward].parents)} always do."
    return "Take it out of context, observe what is hidden on that path, or learn a number per action: parents=[]."


def _fewest_first(parents: tuple[str, ...], more: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The parents with one variable of the context, then with all."""
    added = [name for name in more if name not in parents]
    return [*((*parents, name) for name in added if len(added) > 1), more]


def _still_open(augmented: AugmentedGraph, parents: tuple[str, ...], context: tuple[str, ...], reward: str) -> bool:
    starts = [*augmented.nodes.values(), *(name for name in context if name not in parents)]
    return any(graphs.open_path(augmented.graph, start, reward, parents) for start in starts)


def context_codes(model: Knowledge, context: tuple[str, ...], given: object) -> dict[str, int]:
    """Values of context variables, some or all of them, as codes."""
    if not context:
        raise ProblemError(f"This problem has no context: CausalBandit(..., context=[...]) names it; got {given!r}.")
    if not isinstance(given, Mapping):
        raise ProblemError(f"context must map {shown_names(context)} to values; got {given!r}.")
    for name in given:
        if name not in context:
            raise ProblemError(unknown("variable of the context:", name, context))
    return {name: model[name].code(given[name]) for name in context if name in given}
