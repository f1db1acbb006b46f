"""Separators: sets of variables that replace the reward's parents; given, found, or the cheapest ones.

A set is valid if it d-separates every intervention from the reward: given its values, the reward does not depend on
the action. Its variables must also not be effects of the reward, because P(z | do(a)) would then depend on the
reward's own mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping

from causalbandits.errors import ProblemError, unknown_name_message
from causalbandits.model import (
    CausalGraph,
    CausalModel,
    Knowledge,
    LatentModel,
    as_causal_graph,
    validate_unique_names,
)
from causalbandits.model import graph as graphs


class AugmentedGraph:
    """A model's graph with a node for every intervention, and without the edges into variables that are always
    set.
    """

    def __init__(
        self,
        model: Knowledge,
        manipulable: Iterable[str],
        always_set: Collection[str],
        count_actions: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.model, self.manipulable, self.always_set = model, tuple(manipulable), frozenset(always_set)
        self._count_actions = count_actions
        """A function that returns the number of actions with a mean of their own in the non-causal problem; None
        if unknown.
        """
        cut_graph = graphs.without_causes_of(model.graph, always_set)
        self.graph, self.nodes = graphs.with_intervention_nodes(cut_graph, self.manipulable)

    def without_effect_on(self, names: Iterable[str]) -> tuple[str, ...]:
        """The manipulable variables without a directed path to any of these variables."""
        relevant = graphs.ancestors(self.graph, names)
        return tuple(name for name in self.manipulable if name not in relevant)

    def validate_parents(self, parents: Iterable[str] | None, reward: str | None) -> tuple[str, ...]:
        """The given parents, if they may replace the reward's parents; by default the parents in the graph."""
        if reward is None and parents is None:
            raise ProblemError(
                "Name the reward's variable in the graph (reward='Y'), or its direct causes (reward_parents=[...])."
            )
        if reward is not None:
            self._refuse_manipulable(reward)
        graph_parents = () if reward is None else self.model.parents_of(reward)
        names = graph_parents if parents is None else validate_unique_names("parent", parents, self.model.__getitem__)
        if reward is not None:
            self._validate_order(names, reward)
            self._validate_separation(names, reward)
        if not names:
            raise ProblemError("The reward must have at least one parent, because otherwise no action can change it.")
        return names

    def _refuse_manipulable(self, reward: str) -> None:
        if reward in self.manipulable:
            raise ProblemError(f"The reward {reward!r} must not be manipulable. Remove it from manipulable=.")

    def _validate_order(self, names: tuple[str, ...], reward: str) -> None:
        """Raise an error if a parent is an effect of the reward."""
        if reward in names:
            raise ProblemError(f"The reward {reward!r} cannot be its own parent.")
        for name in names:
            path = graphs.directed_path(self.graph, reward, name)
            if path:
                raise ProblemError(
                    f"reward_parents= must not contain effects of the reward {reward!r}; {name!r} is one: "
                    f"{graphs.format_path(self.graph, path)}. Leave {name!r} out; the reward's own parents "
                    f"{list(self.model.parents_of(reward))} are always valid."
                )

    def is_separated(self, names: tuple[str, ...], reward: str) -> bool:
        """Whether these variables d-separate every intervention from the reward."""
        return not any(graphs.open_path(self.graph, node, reward, names) for node in self.nodes.values())

    def _validate_separation(self, names: tuple[str, ...], reward: str) -> None:
        for node in self.nodes.values():
            path = graphs.open_path(self.graph, node, reward, names)
            if path:
                raise ProblemError(
                    f"The set {list(names)} must separate every intervention from the reward {reward!r}: "
                    f"{graphs.format_path(self.graph, path)} is open. {self._suggest_separator(reward)}",
                    path=("reward_parents",),
                )

    def _suggest_separator(self, reward: str) -> str:
        if isinstance(self.model, CausalModel):
            graph_parents = list(self.model.parents_of(reward))
            return f"Choose a set that blocks this path; the reward's own parents {graph_parents} are always valid."
        observable = tuple(name for name in self.model.names if name != reward)
        if self._has_separator(reward, observable):
            return 'Choose a set that blocks this path; adjust="smallest" finds one.'
        return self._suggest_for_hidden_causes(self.model, reward, observable)

    def _has_separator(self, reward: str, observable: Iterable[str]) -> bool:
        """Whether some of these variables d-separate every intervention from the reward."""
        costs: dict[Hashable, int] = dict.fromkeys(observable, 1)
        return graphs.cheapest_separator(self.graph, list(self.nodes.values()), reward, costs) is not None

    def _suggest_for_hidden_causes(
        self, knowledge: LatentModel | CausalGraph, reward: str, observable: Collection[str]
    ) -> str:
        """Suggestions that would make a separator exist: setting a variable in every action, or observing
        confounders.
        """
        free = [name for name in self.manipulable if name not in self.always_set]
        sets_to_fix = [[name] for name in free] + ([free] if len(free) > 1 else [])
        closing = next(
            (k for k in sets_to_fix if self._with_always_set(knowledge, k)._has_separator(reward, observable)), None
        )
        starts, hidden = list(self.nodes.values()), [node for node in knowledge.graph if node not in knowledge.names]
        costs: dict[Hashable, int] = dict.fromkeys(observable, 1) | {node: 1 + len(observable) for node in hidden}
        separator = graphs.cheapest_separator(self.graph, starts, reward, costs) or set()
        causes_to_observe = [graphs.format_hidden_cause(node) for node in hidden if node in separator]
        suggestions = (
            []
            if closing is None
            else [f"Setting {', '.join(closing)} in every action (not in optional=) would block this path"]
        )
        suggestions += (
            [
                f"observing {', '.join(causes_to_observe)} would also block it"
                if suggestions
                else f"Observing {', '.join(causes_to_observe)} would"
            ]
            if causes_to_observe
            else []
        )
        size = self._count_actions()
        each = "each action" if size is None else f"each of the {size} actions"
        return "; ".join([*suggestions, f"reward_parents=[] learns a mean for {each} that may be optimal"]) + "."

    def _with_always_set(self, knowledge: LatentModel | CausalGraph, names: Collection[str]) -> AugmentedGraph:
        return AugmentedGraph(knowledge, self.manipulable, self.always_set.union(names))

    def cheapest_separator(
        self, reward: str, observable: Iterable[str] | None, context: tuple[str, ...] = ()
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The cheapest set of observable variables that separates every intervention from the reward, and the
        observable ones.

        It separates the context from the reward, too, and may contain context variables, which are observed anyway.
        """
        self._refuse_manipulable(reward)
        self.model.parents_of(reward)
        others = [name for name in self.model.names if name != reward]
        candidates = (
            tuple(others)
            if observable is None
            else validate_unique_names("observable", observable, self.model.__getitem__)
        )
        if reward in candidates:
            raise ProblemError(
                f"can_observe= must not contain the reward {reward!r}, because the reward is observed last."
            )
        candidates += tuple(name for name in context if name not in candidates)
        starts: list[Hashable] = [*self.nodes.values(), *context]
        costs: dict[Hashable, int] = {name: graphs.product_cost(len(self.model[name].states)) for name in others}
        separator = graphs.cheapest_separator(self.graph, starts, reward, {name: costs[name] for name in candidates})
        if separator is None:
            raise ProblemError(self._explain_no_separator(reward, candidates, costs, starts))
        if separator <= set(context):
            raise ProblemError(
                f"No intervention can change the reward {reward!r}: the graph has no path from a manipulable "
                "variable to it."
            )
        return tuple(name for name in self.model.names if name in separator), candidates

    def _explain_no_separator(
        self, reward: str, observable: tuple[str, ...], costs: dict[Hashable, int], starts: list[Hashable]
    ) -> str:
        """The message that suggests the fewest additional variables to observe."""
        if not isinstance(self.model, CausalModel):
            paths = (graphs.open_path(self.graph, node, reward, observable) for node in starts)
            path = next(path for path in paths if path)
            return (
                f"No set of the observable variables {format_names(observable)} separates the interventions from the "
                "reward "
                f"{reward!r}: {graphs.format_path(self.graph, path)} is open. "
                f"{self._suggest_for_hidden_causes(self.model, reward, observable)}"
            )
        penalty = 1 + sum(costs.values())
        penalised_costs = {name: cost if name in observable else cost + penalty for name, cost in costs.items()}
        separator = graphs.cheapest_separator(self.graph, starts, reward, penalised_costs) or set()
        missing = [name for name in self.model.names if name in separator and name not in observable]
        return (
            f"No set of the observable variables {format_names(observable)} separates the interventions from the "
            f"reward {reward!r}. Observing {', '.join(map(repr, missing))} as well would be sufficient."
        )


def format_names(names: tuple[str, ...]) -> str:
    """Names as text, abbreviated if there are many."""
    return ", ".join(names) if len(names) <= 8 else f"{', '.join(names[:3])}, ... ({len(names)} variables)"


# The context of a problem, and the condition under which P(z | do(a), c) determines the mean reward:
#
#     E[Y | do(a), c] = sum_z P(z | do(a), c) E[Y | z]
#
# This holds if no context variable is an effect of an action or of the reward, and if z separates the reward from
# every intervention and from every context variable outside z. The reward's own parents always satisfy it. Adding the
# context to z helps if it closes the remaining paths, and is harmful if the context is a collider between unobserved
# causes.


def validate_context(augmented: AugmentedGraph, context: Iterable[str], reward: str | None) -> tuple[str, ...]:
    """The names of the context variables, validated."""
    names = validate_unique_names("context", context, augmented.model.__getitem__)
    for name in names:
        if isinstance(augmented.model, CausalGraph) and name in augmented.model.hidden:
            raise ProblemError(
                f"Context must be known before the decision; {name!r} is unobserved. Remove it from context."
            )
        if name in augmented.manipulable:
            raise ProblemError(
                f"Context must be known before the decision; {name!r} is manipulable. Remove it from context or from "
                "manipulable."
            )
        if name == reward:
            raise ProblemError(f"The reward {name!r} is observed after the decision. Remove it from context.")
        if reward is not None:
            _refuse_path(augmented, reward, name, "the reward")
        for variable in augmented.manipulable:
            _refuse_path(augmented, variable, name, "the manipulable")
    return names


def _refuse_path(augmented: AugmentedGraph, start: str, name: str, kind: str) -> None:
    path = graphs.directed_path(augmented.graph, start, name)
    if path:
        raise ProblemError(
            f"Context must be known before the decision; {name!r} is an effect of {kind} {start!r}: "
            f"{graphs.format_path(augmented.graph, path)}. Remove {name!r} from context."
        )


def validate_parents_in_context(
    augmented: AugmentedGraph, parents: tuple[str, ...], context: tuple[str, ...], reward: str | None
) -> None:
    """Raise an error if the parents do not separate the reward once the context is known."""
    if all(name in context for name in parents):
        raise ProblemError(
            f"All of the parents {list(parents)} are context, known before the decision, so no action could change "
            "the reward. Remove variables that decisions can change from context, or add the other parents."
        )
    if reward is None:
        return
    open_paths = {
        name: graphs.open_path(augmented.graph, name, reward, parents) for name in context if name not in parents
    }
    open_paths = {name: path for name, path in open_paths.items() if path}
    if open_paths:
        name, path = next(iter(open_paths.items()))
        raise ProblemError(
            f"Given the parents {list(parents)}, the context {name!r} must be independent of the reward {reward!r}, "
            f"and the path {graphs.format_path(augmented.graph, path)} is open. "
            f"{_suggest_parents(augmented, parents, context, reward)}"
        )


def _suggest_parents(augmented: AugmentedGraph, parents: tuple[str, ...], context: tuple[str, ...], reward: str) -> str:
    """A checked suggestion of sufficient parents."""
    model, with_context = augmented.model, (*parents, *(name for name in context if name not in parents))
    for candidate in _candidates_by_size(parents, with_context):
        if not _has_open_path(augmented, candidate, context, reward):
            added = ", ".join(repr(name) for name in candidate if name not in parents)
            return f"Adding {added} to reward_parents is sufficient."
    alternatives = _suggest_alternatives(model, reward)
    manipulable = [
        name for name, node in augmented.nodes.items() if graphs.open_path(augmented.graph, node, reward, with_context)
    ]
    with_variables_set = AugmentedGraph(model, augmented.manipulable, {*augmented.always_set, *manipulable})
    if manipulable and not _has_open_path(with_variables_set, with_context, context, reward):
        path = graphs.open_path(augmented.graph, augmented.nodes[manipulable[0]], reward, with_context)
        return (
            f"Adding the context to reward_parents is not sufficient: {graphs.format_path(augmented.graph, path)} is "
            f"then open, unless every action sets {', '.join(manipulable)} (not in optional=). Or "
            f"{alternatives[0].lower()}{alternatives[1:]}"
        )
    return alternatives


def _suggest_alternatives(model: Knowledge, reward: str) -> str:
    if isinstance(model, CausalModel):
        return f"Pass other parents; the reward's own parents {list(model[reward].parents)} are always valid."
    return (
        "Remove it from context, observe the unobserved variables on that path, or learn a mean per action: "
        "reward_parents=[]."
    )


def _candidates_by_size(parents: tuple[str, ...], with_context: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The parents with one context variable, then with all of them."""
    added = [name for name in with_context if name not in parents]
    return [*((*parents, name) for name in added if len(added) > 1), with_context]


def _has_open_path(augmented: AugmentedGraph, parents: tuple[str, ...], context: tuple[str, ...], reward: str) -> bool:
    starts = [*augmented.nodes.values(), *(name for name in context if name not in parents)]
    return any(graphs.open_path(augmented.graph, start, reward, parents) for start in starts)


def find_reward_node(graph: Knowledge, reward: str | None, reward_parents: Iterable[str] | None) -> str | None:
    """The reward as a node of the graph; None if it is not one and its parents are given."""
    names = as_causal_graph(graph).parents
    if reward is None or reward in names:
        return reward
    if reward_parents is None:
        raise ProblemError(
            f"{unknown_name_message('variable', reward, names)} If the reward is not in the graph, name its direct "
            "causes: reward_parents=[...]."
        )
    return None


def encode_context(model: Knowledge, context: tuple[str, ...], values: object) -> dict[str, int]:
    """The values of some or all context variables as codes."""
    if not context:
        raise ProblemError(f"This problem has no context. Declare it, Problem(..., context=[...]); got {values!r}.")
    if not isinstance(values, Mapping):
        raise ProblemError(f"context must map {format_names(context)} to values; got {values!r}.")
    for name in values:
        if name not in context:
            raise ProblemError(unknown_name_message("variable of the context:", name, context))
    return {name: model[name].code(values[name]) for name in context if name in values}
