"""The specification of a problem: its arguments, parsed and checked against each other; comparison and records."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import networkx as nx
import numpy as np

from causalbandits._typing import Z, is_real
from causalbandits.errors import ProblemError, SizeError
from causalbandits.model import (
    CausalGraph,
    CausalModel,
    DirichletPosterior,
    Intervention,
    Knowledge,
    LatentModel,
    State,
    as_causal_graph,
    encode_knowledge,
    knowledge_from_record,
    validate_unique_names,
)
from causalbandits.model import graph as graphs
from causalbandits.problem.actions import (
    ActionSpace,
    Costs,
    Manipulable,
    Prices,
    build_action_space,
    format_count,
    remove_forbidden,
)
from causalbandits.problem.candidates import (
    count_possibly_optimal_actions,
    possibly_optimal_actions,
    validate_reward_variable,
    warn_of_lost_sets,
)
from causalbandits.problem.chance_constraints import Limits, apply_chance_constraints, decode_chance_constraints
from causalbandits.problem.inference import ENTRY_LIMIT
from causalbandits.problem.separators import (
    AugmentedGraph,
    find_reward_node,
    validate_context,
    validate_parents_in_context,
)


class Specification(NamedTuple):
    """The parsed arguments of a problem, which determine everything else."""

    knowledge: Knowledge
    actions: ActionSpace
    parents: tuple[str, ...]
    reward: str | None
    observable: tuple[str, ...]
    reduce: bool
    costs: Costs | None
    context: tuple[str, ...]
    idle: tuple[str, ...] = ()
    """The manipulable variables without a path to the parents, if this deserves a warning."""
    reward_range: tuple[float, float] | None = None
    """The declared bounds of every reward; None if none were declared."""
    structure: CausalGraph | None = None
    """The graph with the reward in it, if the model lacks the reward; None if the model has all of it."""
    noise_scale: float | None = None
    """The declared sub-Gaussian scale of rewards given the parents; None if none was declared."""

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description."""
        return {
            **encode_knowledge(self.knowledge),
            "parents": list(self.parents),
            "reward": self.reward,
            "reduce": self.reduce,
            **self.actions.to_record(),
            **({} if self.costs is None else {"costs": self.costs.to_record()}),
            **({"context": list(self.context)} if self.context else {}),
            **({} if self.reward_range is None else {"reward_range": list(self.reward_range)}),
            **({} if self.noise_scale is None else {"noise_scale": self.noise_scale}),
            **({} if self.structure is None else {"structure": self.structure.to_record()}),
        }

    def declare(self, reward_range: object, noise_scale: object) -> Specification:
        """The specification with the declared properties of the rewards, which are validated."""
        return self._replace(
            reward_range=_parse_reward_range(reward_range), noise_scale=_parse_noise_scale(noise_scale)
        )


def _parse_reward_range(reward_range: object) -> tuple[float, float] | None:
    if reward_range is None:
        return None
    bounds = list(reward_range) if isinstance(reward_range, list | tuple) else []
    if len(bounds) != 2 or not all(is_real(b) and math.isfinite(b) for b in bounds) or not bounds[0] < bounds[1]:
        raise ProblemError(
            "reward_range must be two finite numbers, the least and the largest possible reward, such as (0, 1); got "
            f"{reward_range!r}. Leave it out if the bounds are unknown."
        )
    return float(bounds[0]), float(bounds[1])


def _parse_noise_scale(noise_scale: object) -> float | None:
    if noise_scale is None:
        return None
    if not is_real(noise_scale) or not 0.0 < noise_scale < math.inf:
        raise ProblemError(
            "noise_scale must be a positive number, the scale for which rewards are sub-Gaussian given the parents; "
            f"got {noise_scale!r}. Leave it out if the scale is unknown."
        )
    return float(noise_scale)


def parse_specification(
    model: Knowledge,
    *,
    manipulable: Manipulable,
    reward: str | None,
    reward_parents: Iterable[str] | None,
    adjust: Literal["smallest"] | None,
    can_observe: Iterable[str] | None,
    optional: Iterable[str] | bool | None,
    max_set: int | None,
    actions: Iterable[Mapping[str, State]] | None,
    forbid: Callable[[Intervention], bool] | None,
    reduce: bool,
    costs: Prices | None,
    max_probability: Limits | None,
    context: Iterable[str],
    structure: CausalGraph | None = None,
    stacklevel: int,
) -> Specification:
    """The arguments of `Problem`, checked against each other.

    `structure` is the graph with the reward in it, if the model has no CPT of the reward; d-separation is then
    checked in it.
    """
    if not isinstance(reduce, bool | np.bool_):
        raise ProblemError(f"reduce must be True or False; got {reduce!r}.")
    if reward is not None and not isinstance(reward, str):
        raise ProblemError(f"reward must be the name of a variable, such as 'Y'; got {reward!r}.")
    space = build_action_space(model, manipulable, optional=optional, max_set=max_set, actions=actions)
    if forbid is not None:
        space = remove_forbidden(space, forbid, stacklevel=stacklevel + 1)
    if isinstance(model, CausalGraph) or (isinstance(reward_parents, list | tuple) and not reward_parents):
        goal = validate_reward_variable(model, space, reward, reward_parents, adjust or can_observe, max_probability)
        return _specify_by_actions(
            model,
            space,
            goal,
            reduce,
            costs,
            max_probability,
            context,
            _warns_of_lost_sets(optional, max_set, actions),
            stacklevel + 1,
        )
    graph = model if structure is None else _with_values_of(structure, model)
    node = find_reward_node(graph, reward, reward_parents)
    context_names = validate_context(_build_augmented_graph(graph, space), context, node)
    if can_observe is not None:
        can_observe = validate_unique_names("observable", can_observe, model.__getitem__)
        if reward_parents is not None:
            reward_parents = validate_unique_names("parent", reward_parents, model.__getitem__)
        targets = reward_parents
        if targets is None and structure is not None and reward is not None and adjust is None:
            targets = structure.parents.get(reward)
        model = _marginalise(model, space, targets, reward, adjust, can_observe, max_probability, context_names)
        graph = model if structure is None else graph
    if max_probability is not None:
        space = apply_chance_constraints(space, model, max_probability, reward, in_contexts=bool(context_names))
    count_actions = partial(count_possibly_optimal_actions, graph, space, node, costs)
    augmented = AugmentedGraph(graph, space.names, space.variables_always_set(), count_actions)
    separator_names, searched = _find_parents(augmented, reward_parents, node, adjust, can_observe, context_names)
    for name in separator_names:
        model[name]  # raises an error if the model lacks it
    validate_parents_in_context(augmented, separator_names, context_names, node)
    if _warns_of_lost_sets(optional, max_set, actions) and node is not None:
        warn_of_lost_sets(as_causal_graph(graph), space, node, context_names, stacklevel=stacklevel + 1)
    idle = augmented.without_effect_on(separator_names)
    return Specification(
        model,
        space,
        separator_names,
        reward,
        searched,
        bool(reduce),
        Costs.parse(space, costs),
        context_names,
        idle,
        structure=structure,
    )


def _specify_by_actions(
    model: Knowledge,
    space: ActionSpace,
    goal: str,
    reduce: bool,
    costs: Prices | None,
    max_probability: Limits | None,
    context: Iterable[str],
    warns_of_lost_sets: bool,
    stacklevel: int,
) -> Specification:
    """The specification of a problem that learns a mean per action, for the actions that may be optimal by the
    graph alone.
    """
    context_names = validate_context(_build_augmented_graph(model, space), context, goal)
    if warns_of_lost_sets:
        warn_of_lost_sets(as_causal_graph(model), space, goal, context_names, stacklevel=stacklevel + 1)
    if max_probability is not None and not isinstance(model, CausalGraph):
        space = apply_chance_constraints(space, model, max_probability, goal, in_contexts=bool(context_names))
    parsed_costs = Costs.parse(space, costs)
    if reduce and not (context_names and max_probability):
        space = possibly_optimal_actions(
            as_causal_graph(model), space, goal, parsed_costs, context_names, stacklevel=stacklevel + 1
        )
    return Specification(model, space, (), goal, (), reduce, parsed_costs, context_names)


def _build_augmented_graph(model: Knowledge, space: ActionSpace) -> AugmentedGraph:
    return AugmentedGraph(model, space.names, space.variables_always_set())


def _with_values_of(structure: CausalGraph, model: CausalModel | LatentModel) -> CausalGraph:
    return structure.with_values({name: model[name].states for name in model.names if name in structure.parents})


def _find_parents(
    augmented: AugmentedGraph,
    parents: Iterable[str] | None,
    reward: str | None,
    adjust: str | None,
    can_observe: Iterable[str] | None,
    context: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The reward's parents or an adjustment set, and the variables that were declared observable."""
    if adjust is not None:
        return augmented.cheapest_separator(_validate_adjustment(adjust, parents, reward), can_observe, context)
    return augmented.validate_parents(parents, reward), tuple(can_observe or ())


def _validate_adjustment(adjust: str, parents: Iterable[str] | None, reward: str | None) -> str:
    """The reward for which the smallest adjustment set is to be found."""
    if not isinstance(adjust, str) or adjust != "smallest":
        raise ProblemError(f'adjust must be "smallest" or left out; got {adjust!r}.')
    if parents is not None or reward is None:
        raise ProblemError(
            'adjust="smallest" replaces the reward\'s parents by an adjustment set. Pass the reward '
            '(reward="Y"), a node of the graph, and leave out reward_parents=.'
        )
    return reward


def _warns_of_lost_sets(optional: object, max_set: object, actions: object) -> bool:
    """Whether the user did not decide that every variable is set in every decision."""
    return optional is None and max_set is None and actions is None


# Unobserved variables of a model whose CPTs are learned are marginalised out, or refused if that is not possible. A
# CPT is updated in rounds that observe its variable and all its parents. With a parent that is never observed, the
# CPT would never change. So the graph is replaced by that of the observed variables (`marginal_graph`), whose CPTs
# can be learned.


def _marginalise(
    model: CausalModel | LatentModel,
    space: ActionSpace,
    parents: tuple[str, ...] | None,
    reward: str | None,
    adjust: str | None,
    can_observe: tuple[str, ...],
    max_probability: Limits | None,
    context: tuple[str, ...],
) -> CausalModel | LatentModel:
    """The model without the variables that are never observed, if its CPTs are learned."""
    if isinstance(model, LatentModel) or model.posterior is None:
        if adjust is None:
            raise ProblemError(
                "can_observe= restricts the search for an adjustment set, or declares the observable variables if "
                'CPTs are learned online. The CPTs of this model are known. Add adjust="smallest", or leave out '
                "can_observe=."
            )
        return model
    if reward is not None and reward in can_observe:
        raise ProblemError(f"can_observe= must not contain the reward {reward!r}, because the reward is observed last.")
    if adjust is not None and not all(_has_flat_prior(model.posterior, name) for name in model.names):
        return model  # its CPTs come from data that had all variables
    observed = {*can_observe, *space.names, *context} | ({reward} if reward is not None else set())
    _refuse_unobserved(
        "The reward's parents", parents or (), observed, "Add it, or pass the reward (reward=) to select other parents."
    )
    if isinstance(max_probability, Mapping):
        _refuse_unobserved(
            "The variables of max_probability=",
            max_probability,
            observed,
            ("Add it, because its probability must be learned."),
        )
    return _marginalise_unobserved(
        model,
        model.posterior,
        observed,
        manipulable=space.names,
        always_set=space.variables_always_set(),
        reward=reward if reward in model.names else None,
    )


def _marginalise_unobserved(
    model: CausalModel,
    posterior: DirichletPosterior,
    observed: Collection[str],
    *,
    manipulable: Collection[str],
    always_set: Collection[str],
    reward: str | None,
) -> CausalModel:
    """The model of the observed variables, which include the manipulable ones, the context and the reward.

    P(. | do(a)) of the observed variables stays the same for every action. CPTs whose parents stay the same may have
    data. A CPT whose parents change must be unknown, because knowledge of P(m | k, u) gives no Dirichlet distribution
    for P(m | k).
    """
    unobserved = [name for name in model.names if name not in observed]
    if not unobserved:
        return model
    graph = _without_unobserved_causes(model.graph, unobserved, always_set)
    marginal = graphs.marginal_graph(graph, _factor_order(graph, model, observed, manipulable, reward))
    _refuse_confounded(graph, marginal, unobserved, manipulable)
    parents = {
        name: _keep_order(model[name].parents, marginal.parents[name]) for name in model.names if name in observed
    }
    changed = [name for name in parents if parents[name] != model[name].parents]
    counts, prior = dict(posterior.counts), dict(posterior.prior)
    for name in changed:
        shape = tuple(len(model[axis].states) for axis in (*parents[name], name))
        _refuse_large_cpt(name, parents[name], shape)
        pseudo_count = 1.0 if name in always_set else _flat_pseudo_count(model, posterior, name, unobserved)
        counts[name], prior[name] = np.zeros(shape), np.full(shape, pseudo_count)
    marginal_posterior = posterior.replace(
        counts={name: counts[name] for name in parents}, prior={name: prior[name] for name in parents}
    )
    return CausalModel.from_posterior(
        CausalGraph(parents, values={name: model[name].states for name in parents}), marginal_posterior
    )


def _has_flat_prior(posterior: DirichletPosterior, name: str) -> bool:
    """Whether a variable's CPT is unknown: no counts, and the same pseudo-count in every cell."""
    prior = posterior.prior[name]
    return not posterior.counts[name].any() and bool((prior == prior.flat[0]).all())


def _refuse_unobserved(kind: str, names: Iterable[str], observed: Collection[str], reason: str) -> None:
    """Raise an error for names that are not among the observed variables."""
    for name in names:
        if name not in observed:
            raise ProblemError(
                f"{kind} must be observable: can_observe= leaves {name!r} out. {reason}", path=("can_observe",)
            )


def _without_unobserved_causes(graph: graphs.Graph, unobserved: list[str], always_set: Collection[str]) -> graphs.Graph:
    """The graph without edges from unobserved variables into variables that every action sets."""
    cut = nx.DiGraph(graph)
    cut.remove_edges_from(
        [(cause, name) for name in always_set for cause in graph.predecessors(name) if cause in unobserved]
    )
    return cut


def _factor_order(
    graph: graphs.Graph, model: CausalModel, observed: Collection[str], manipulable: Collection[str], reward: str | None
) -> list[str]:
    """The observed variables in the order in which a district is factorised.

    The reward and its effects come last, preceded by the effects of manipulable variables. Otherwise the context, or
    a parent of the reward, might get one of these as a parent.
    """
    after_reward = set() if reward is None else {reward, *nx.descendants(graph, reward)}
    after_action: set[Hashable] = set(manipulable).union(*(nx.descendants(graph, name) for name in manipulable))
    return sorted(
        (name for name in model.names if name in observed),
        key=lambda name: (name in after_reward, name in after_action),
    )


def _refuse_confounded(
    graph: graphs.Graph, marginal: graphs.MarginalGraph, unobserved: list[str], manipulable: Collection[str]
) -> None:
    """Raise an error if a manipulable variable shares an unobserved cause with another variable.

    The natural value of the variable is informative about that cause, and a set value is not: P(m | k) is not P(m |
    do(k)).
    """
    for district in marginal.confounded:
        variable = next((name for name in district if name in manipulable), None)
        if variable is not None:
            others = [name for name in district if name != variable]
            hidden = graph.subgraph([*unobserved, *district])
            causes = graphs.ancestors(hidden.subgraph([*unobserved, variable]), [variable])
            cause = next(name for name in unobserved if name in causes and set(others) & nx.descendants(hidden, name))
            raise ProblemError(
                f"An unobserved variable must not be a common cause of a manipulable variable and others; {cause!r} "
                f"is a common cause of {variable!r} and {', '.join(map(repr, others))}, so rounds without an "
                f"intervention on {variable!r} do not show its effect. Set {variable!r} in every action (remove it "
                "from optional=), "
                f"observe {cause!r} (can_observe=), or learn a mean per action (reward_parents=[])."
            )


def _keep_order(before: tuple[str, ...], after: tuple[str, ...]) -> tuple[str, ...]:
    """The parents in their previous order, followed by the new ones."""
    return (*(name for name in before if name in after), *(name for name in after if name not in before))


def _flat_pseudo_count(model: CausalModel, posterior: DirichletPosterior, name: str, unobserved: list[str]) -> float:
    """The pseudo-count of every cell of an unknown CPT."""
    if not _has_flat_prior(posterior, name):
        lost = [parent for parent in model[name].parents if parent in unobserved] or unobserved
        raise ProblemError(
            f"Unobserved variables can be marginalised out of unknown CPTs only; there is prior knowledge of P({name} "
            f"| {', '.join(model[name].parents)}), from data or a prior, and {', '.join(map(repr, lost))} is not "
            "observable. Fit the projected graph, fit(graph.projected([...]), ...), or add the variable to "
            "can_observe=."
        )
    return float(posterior.prior[name].flat[0])


def _refuse_large_cpt(name: str, parents: tuple[str, ...], shape: tuple[int, ...]) -> None:
    if math.prod(shape) > ENTRY_LIMIT:
        raise SizeError(
            f"Without the unobserved variables, the CPT of {name!r} is given {', '.join(map(repr, parents))} and has "
            f"{math.prod(shape)} entries; the limit is {ENTRY_LIMIT}. Observe more of them, or give them fewer states."
        )


# Records and comparison.


def decode_specification(record: Mapping[str, Any]) -> Specification:
    """The specification that `to_record` describes."""
    model = knowledge_from_record(record)
    if isinstance(model, CausalGraph) or not record["parents"]:
        return _decode_by_actions(model, record)
    space = ActionSpace.from_record(record, model)
    parents = validate_unique_names("parent", record["parents"], model.__getitem__)
    if not isinstance(record["reduce"], bool):
        raise ProblemError(f"reduce must be true or false; got {record['reduce']!r}.")
    reward, structure = record["reward"], None
    if "structure" in record:
        structure = CausalGraph.from_record(record["structure"])
    graph = model if structure is None else _with_values_of(structure, model)
    augmented, node = _build_augmented_graph(graph, space), find_reward_node(graph, reward, parents)
    augmented.validate_parents(parents, node)
    context = validate_context(augmented, record.get("context", ()), node)
    validate_parents_in_context(augmented, parents, context, node)
    space.requirements = decode_chance_constraints(record.get("max_probability"), space, model)
    costs = Costs.from_record(record.get("costs"), space)
    specification = Specification(
        model, space, parents, reward, (), record["reduce"], costs, context, structure=structure
    )
    return specification.declare(record.get("reward_range"), record.get("noise_scale"))


def _decode_by_actions(knowledge: Knowledge, record: Mapping[str, Any]) -> Specification:
    """The specification of a problem without parents; the record has the actions that may be optimal."""
    space = ActionSpace.from_record(record, knowledge)
    reward = validate_reward_variable(knowledge, space, record["reward"], record["parents"])
    context = validate_context(_build_augmented_graph(knowledge, space), record.get("context", ()), reward)
    if not isinstance(knowledge, CausalGraph):
        space.requirements = decode_chance_constraints(record.get("max_probability"), space, knowledge)
    costs = Costs.from_record(record.get("costs"), space)
    specification = Specification(knowledge, space, (), reward, (), bool(record["reduce"]), costs, context)
    return specification.declare(record.get("reward_range"), record.get("noise_scale"))


def first_difference(
    ours: Specification, theirs: Specification, our_context: Z | None = None, their_context: Z | None = None
) -> str:
    """The first difference of two problems as text; empty if they differ at most in their CPTs.

    The contexts are the codes of the known context in either problem.
    """
    our_graph, their_graph = as_causal_graph(ours.knowledge), as_causal_graph(theirs.knowledge)
    for attribute, verb, our_value, their_value in (
        ("variables", "are", sorted(our_graph.names), sorted(their_graph.names)),
        ("manipulable", "is", list(ours.actions.names), list(theirs.actions.names)),
        ("parents", "are", list(ours.parents), list(theirs.parents)),
        ("reward", "is", ours.reward, theirs.reward),
        ("context", "is", list(ours.context), list(theirs.context)),
        ("known", "is", _format_known(ours, our_context), _format_known(theirs, their_context)),
        ("reward_range", "is", ours.reward_range, theirs.reward_range),
        ("noise_scale", "is", ours.noise_scale, theirs.noise_scale),
    ):
        if our_value != their_value:
            return f"its {attribute} {verb} {their_value}, not {our_value}"
    return _graph_difference(our_graph, their_graph) or _action_difference(ours, theirs)


def _graph_difference(ours: CausalGraph, theirs: CausalGraph) -> str:
    for name in ours.names:
        our_states, their_states = (list(graph.states.get(name, ())) for graph in (ours, theirs))
        if our_states != their_states:
            return f"its states of {name!r} are {their_states}, not {our_states}"
        if ours.parents[name] != theirs.parents[name]:
            return f"its causes of {name!r} are {list(theirs.parents[name])}, not {list(ours.parents[name])}"
    if set(ours.hidden) != set(theirs.hidden):
        return f"its unobserved confounders are {list(theirs.hidden)}, not {list(ours.hidden)}"
    return ""


def _action_difference(ours: Specification, theirs: Specification) -> str:
    if ours.costs != theirs.costs:
        return f"its costs are {_format_costs(theirs)}, not {_format_costs(ours)}"
    requirements = [s.actions.requirements for s in (ours, theirs)]
    records = [[] if constraints is None else constraints.to_record() for constraints in requirements]
    if records[0] != records[1]:
        return f"its limits on outcomes are {_format_requirements(theirs)}, not {_format_requirements(ours)}"
    if not ours.actions.is_same_as(theirs.actions):
        our_size, their_size = format_count(ours.actions.size), format_count(theirs.actions.size)
        return f"it has {their_size} other actions, not these {our_size}"
    return ""


def _format_known(specification: Specification, context_codes: Z | None) -> str:
    """The known values of the context as text."""
    codes = [(name, code) for name, code in zip(specification.context, context_codes or (), strict=False) if code >= 0]
    return ", ".join(f"{name}={specification.knowledge[name].states[code]}" for name, code in codes) or "nothing"


def _format_costs(specification: Specification) -> str:
    """All prices, because ranges may be equal although prices differ."""
    if specification.costs is None:
        return "none"
    priced = zip(specification.actions.variables, specification.costs.to_record(), strict=True)
    return ", ".join(
        f"{variable.name} {{{', '.join(f'{s}: {p:g}' for s, p in zip(variable.states, prices, strict=True))}}}"
        for variable, prices in priced
        if any(prices)
    )


def _format_requirements(specification: Specification) -> str:
    constraints = specification.actions.requirements
    return "nothing" if constraints is None else str(constraints.to_record()["limits"])
