"""Which variables stand in for the reward's parents: those that were given, its own, or the cheapest that do.

A set will do if it separates every intervention from the reward: given its values, the reward is the same whatever was
done. It must come before the reward, too, or P(z | do(a)) would hang on how the reward itself comes about.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from causalbandits.errors import ProblemError, unknown
from causalbandits.model import CausalGraph, CausalModel, Knowledge, ObservedModel, unique_names
from causalbandits.model import graph as graphs


class AugmentedGraph:
    """A model's graph with a node for every intervention; what is always set has no causes of its own left."""

    def __init__(
        self,
        model: Knowledge,
        manipulable: Iterable[str],
        surely_set: Collection[str],
        worth_trying: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.model, self.manipulable, self.surely_set = model, tuple(manipulable), frozenset(surely_set)
        self._worth_trying = worth_trying
        """How many actions a number would be learnt for, if that can be said."""
        own = graphs.without_causes_of(model.graph, surely_set)
        self.graph, self.nodes = graphs.with_intervention_nodes(own, self.manipulable)

    def without_effect_on(self, names: Iterable[str]) -> tuple[str, ...]:
        """The knobs from which no path leads to any of these variables."""
        reached = graphs.ancestors(self.graph, names)
        return tuple(name for name in self.manipulable if name not in reached)

    def checked_parents(self, given: Iterable[str] | None, reward: str | None) -> tuple[str, ...]:
        """What was given, if it may stand in for the reward's parents; its own where nothing was."""
        if reward is None and given is None:
            raise ProblemError("Name the reward's parents (parents=[...]) or the reward's variable (reward='Y').")
        if reward is not None:
            self._refuse_manipulable(reward)
        own = () if reward is None else self.model.parents_of(reward)
        names = own if given is None else unique_names("parent", given, self.model.__getitem__)
        if reward is not None:
            self._check_order(names, reward)
            self._check_separation(names, reward)
        if not names:
            raise ProblemError("The reward needs at least one parent: without one no action can change it.")
        return names

    def _refuse_manipulable(self, reward: str) -> None:
        if reward in self.manipulable:
            raise ProblemError(f"The reward {reward!r} must not be manipulable: setting it is no experiment.")

    def _check_order(self, names: tuple[str, ...], reward: str) -> None:
        """What comes after the reward cannot stand in for its causes."""
        if reward in names:
            raise ProblemError(f"The reward {reward!r} cannot be its own parent.")
        for name in names:
            path = graphs.directed_path(self.graph, reward, name)
            if path:
                raise ProblemError(
                    f"parents= must come before the reward {reward!r}; {name!r} comes after it: "
                    f"{graphs.describe_path(self.graph, path)}. Leave {name!r} out; the reward's own parents "
                    f"{list(self.model.parents_of(reward))} always do."
                )

    def is_separated(self, names: tuple[str, ...], reward: str) -> bool:
        """Whether given these variables no intervention tells anything of the reward."""
        return not any(graphs.open_path(self.graph, node, reward, names) for node in self.nodes.values())

    def _check_separation(self, names: tuple[str, ...], reward: str) -> None:
        for node in self.nodes.values():
            path = graphs.open_path(self.graph, node, reward, names)
            if path:
                raise ProblemError(
                    f"The set {list(names)} must separate every intervention from the reward {reward!r}: "
                    f"{graphs.describe_path(self.graph, path)} is open. {self._way_out(reward)}"
                )

    def _way_out(self, reward: str) -> str:
        if isinstance(self.model, CausalModel):
            own = list(self.model.parents_of(reward))
            return f"Choose a set that blocks it; the reward's own parents {own} always do."
        seen = tuple(name for name in self.model.names if name != reward)
        if self._separates(reward, seen):
            return 'Choose a set that blocks it: separator="cheapest" finds one.'
        return self._where_causes_are_hidden(self.model, reward, seen)

    def _separates(self, reward: str, seen: Iterable[str]) -> bool:
        """Whether some of these variables separate every intervention from the reward."""
        costs: dict[Hashable, int] = dict.fromkeys(seen, 1)
        return graphs.cheapest_separator(self.graph, list(self.nodes.values()), reward, costs) is not None

    def _where_causes_are_hidden(self, known: ObservedModel | CausalGraph, reward: str, seen: Collection[str]) -> str:
        """What would make some set separate: a knob that is always set, or hidden causes that are observed."""
        free = [name for name in self.manipulable if name not in self.surely_set]
        sure = [[name] for name in free] + ([free] if len(free) > 1 else [])
        closing = next((k for k in sure if self._always(known, k)._separates(reward, seen)), None)
        starts, hidden = list(self.nodes.values()), [node for node in known.graph if node not in known.names]
        costs: dict[Hashable, int] = dict.fromkeys(seen, 1) | {node: 1 + len(seen) for node in hidden}
        found = graphs.cheapest_separator(self.graph, starts, reward, costs) or set()
        wanted = [graphs.shown_cause(node) for node in hidden if node in found]
        ways = [] if closing is None else [f"always={closing} would close it"]
        ways += (
            [f"so would observing {', '.join(wanted)}" if ways else f"Observing {', '.join(wanted)} would"]
            if wanted
            else []
        )
        size = self._worth_trying()
        each = "each action" if size is None else f"each of the {size} actions"
        return "; ".join([*ways, f"parents=[] learns a number for {each} worth trying"]) + "."

    def _always(self, known: ObservedModel | CausalGraph, knobs: Collection[str]) -> AugmentedGraph:
        return AugmentedGraph(known, self.manipulable, self.surely_set.union(knobs))

    def cheapest(
        self, reward: str, observable: Iterable[str] | None, context: tuple[str, ...] = ()
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The cheapest set of observable variables that separates every intervention from the reward, and these.

        It separates the context from the reward, too, which it may have variables of: these are observed anyhow.
        """
        self._refuse_manipulable(reward)
        self.model.parents_of(reward)
        others = [name for name in self.model.names if name != reward]
        seen = (
            tuple(others)
            if observable is None
            else unique_names("observable variable", observable, self.model.__getitem__)
        )
        if reward in seen:
            raise ProblemError(f"observable= must not have the reward {reward!r} in it: it comes too late.")
        seen += tuple(name for name in context if name not in seen)
        starts: list[Hashable] = [*self.nodes.values(), *context]
        costs: dict[Hashable, int] = {name: graphs.product_cost(len(self.model[name].states)) for name in others}
        found = graphs.cheapest_separator(self.graph, starts, reward, {name: costs[name] for name in seen})
        if found is None:
            raise ProblemError(self._not_separated(reward, seen, costs, starts))
        if found <= set(context):
            raise ProblemError(f"No intervention can change the reward {reward!r}: none leads to it in the graph.")
        return tuple(name for name in self.model.names if name in found), seen

    def _not_separated(
        self, reward: str, seen: tuple[str, ...], costs: dict[Hashable, int], starts: list[Hashable]
    ) -> str:
        """What to start observing: as few as possible of what is not seen yet."""
        if not isinstance(self.model, CausalModel):
            paths = (graphs.open_path(self.graph, node, reward, seen) for node in starts)
            path = next(path for path in paths if path)
            return (
                f"No set of the observable variables {shown_names(seen)} separates the interventions from the reward "
                f"{reward!r}: {graphs.describe_path(self.graph, path)} is open. "
                f"{self._where_causes_are_hidden(self.model, reward, seen)}"
            )
        more = 1 + sum(costs.values())
        dear = {name: cost if name in seen else cost + more for name, cost in costs.items()}
        wanted = graphs.cheapest_separator(self.graph, starts, reward, dear) or set()
        missing = [name for name in self.model.names if name in wanted and name not in seen]
        return (
            f"No set of the observable variables {shown_names(seen)} separates the interventions from the "
            f"reward {reward!r}. Start observing {', '.join(map(repr, missing))}: that would be enough."
        )


def shown_names(names: tuple[str, ...]) -> str:
    """Names for people, the first few if there are many."""
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:3])}, ... ({len(names)} variables)"


# What may be known before a decision, and when P(z | do(a), c) tells all that it says of the reward.
#
#     E[Y | do(a), c] = sum_z P(z | do(a), c) E[Y | z]
#
# holds if no context variable can be changed by what is done or by the reward, and if z separates the reward from
# every
# intervention and from every context variable outside z. The reward's own parents always do. Taking the context into z
# helps where z cuts all that comes from it, and hurts where the context is an effect of two hidden ways round.


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
        raise ProblemError(f"This problem has no context: Problem(..., context=[...]) names it; got {given!r}.")
    if not isinstance(given, Mapping):
        raise ProblemError(f"context must map {shown_names(context)} to values; got {given!r}.")
    for name in given:
        if name not in context:
            raise ProblemError(unknown("variable of the context:", name, context))
    return {name: model[name].code(given[name]) for name in context if name in given}
