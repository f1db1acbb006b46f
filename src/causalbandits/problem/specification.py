"""The specification of a problem: its arguments, parsed and checked against each other; comparison and records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from causalbandits._typing import Z, is_real
from causalbandits.errors import ProblemError
from causalbandits.model import (
    CausalGraph,
    CausalModel,
    FittedModel,
    Intervention,
    Knowledge,
    ObservedModel,
    State,
    as_causal_graph,
    encode_knowledge,
    knowledge_from_record,
    validate_unique_names,
)
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
)
from causalbandits.problem.chance_constraints import Limits, apply_chance_constraints, decode_chance_constraints
from causalbandits.problem.separators import AugmentedGraph, validate_context, validate_parents_in_context
from causalbandits.problem.unobserved import has_flat_prior, marginalise_unobserved, refuse_unobserved


class Specification(NamedTuple):
    """What a problem is made of; all else follows from it."""

    knowledge: Knowledge
    actions: ActionSpace
    parents: tuple[str, ...]
    reward: str | None
    observable: tuple[str, ...]
    reduce: bool
    costs: Costs | None
    context: tuple[str, ...]
    idle: tuple[str, ...] = ()
    """The knobs from which no path leads to the parents, where that is worth a warning."""
    reward_range: tuple[float, float] | None = None
    """The declared bounds of every reward; None where none were declared."""
    noise_scale: float | None = None
    """The declared scale for which rewards are sub-Gaussian given the parents; None where none was declared."""

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
        }

    def declare(self, reward_range: object, noise_scale: object) -> Specification:
        """The same with what the user declares of the rewards, if it can be so."""
        return self._replace(
            reward_range=_parse_reward_range(reward_range), noise_scale=_parse_noise_scale(noise_scale)
        )


def _parse_reward_range(reward_range: object) -> tuple[float, float] | None:
    if reward_range is None:
        return None
    bounds = list(reward_range) if isinstance(reward_range, list | tuple) else []
    if len(bounds) != 2 or not all(is_real(b) and math.isfinite(b) for b in bounds) or not bounds[0] < bounds[1]:
        raise ProblemError(
            f"reward_range must be two finite numbers, the least and the largest possible reward, such as (0, 1); got "
            f"{reward_range!r}. Leave it out where rewards have no bounds that you know of."
        )
    return float(bounds[0]), float(bounds[1])


def _parse_noise_scale(noise_scale: object) -> float | None:
    if noise_scale is None:
        return None
    if not is_real(noise_scale) or not 0.0 < noise_scale < math.inf:
        raise ProblemError(
            "noise_scale must be a positive number, the scale for which rewards are sub-Gaussian given the parents; "
            f"got {noise_scale!r}. Leave it out where you know of none."
        )
    return float(noise_scale)


def parse_specification(
    model: Knowledge,
    manipulable: Manipulable,
    parents: Iterable[str] | None,
    *,
    reward: str | None,
    separator: Literal["cheapest"] | None,
    observable: Iterable[str] | None,
    at_most: int | None,
    always: Iterable[str],
    actions: Iterable[Mapping[str, State]] | None,
    forbid: Callable[[Intervention], bool] | None,
    reduce: bool,
    costs: Prices | None,
    require: Limits | None,
    context: Iterable[str],
    stacklevel: int,
) -> Specification:
    """What `Problem` was given, if it fits together."""
    if not isinstance(model, Knowledge):
        raise ProblemError(f"A Problem needs a CausalModel, an ObservedModel or a CausalGraph; got {model!r}.")
    if not isinstance(reduce, bool | np.bool_):
        raise ProblemError(f"reduce must be True or False; got {reduce!r}.")
    if reward is not None and not isinstance(reward, str):
        raise ProblemError(f"reward must be the name of a variable, such as 'Y'; got {reward!r}.")
    space = build_action_space(model, manipulable, at_most=at_most, always=always, actions=actions)
    if forbid is not None:
        space = remove_forbidden(space, forbid, stacklevel=stacklevel + 1)
    if isinstance(model, CausalGraph) or (isinstance(parents, list | tuple) and not parents):
        goal = validate_reward_variable(model, space, reward, parents, separator or observable, require)
        return _specify_by_actions(model, space, goal, reduce, costs, require, context, stacklevel + 1)
    context_names = validate_context(_build_augmented_graph(model, space), context, reward)
    if observable is not None:
        observable = validate_unique_names("observable variable", observable, model.__getitem__)
        parents = None if parents is None else validate_unique_names("parent", parents, model.__getitem__)
        model = _marginalise(model, space, parents, reward, separator, observable, require, context_names)
    if require is not None:
        space = apply_chance_constraints(space, model, require, reward, in_contexts=bool(context_names))
    count_actions = partial(count_possibly_optimal_actions, model, space, reward, costs)
    augmented = AugmentedGraph(model, space.names, space.variables_always_set(), count_actions)
    separator_names, searched = _find_parents(augmented, parents, reward, separator, observable, context_names)
    validate_parents_in_context(augmented, separator_names, context_names, reward)
    idle = augmented.without_effect_on(separator_names)
    return Specification(
        model, space, separator_names, reward, searched, bool(reduce), Costs.parse(space, costs), context_names, idle
    )


def _specify_by_actions(
    model: Knowledge,
    space: ActionSpace,
    goal: str,
    reduce: bool,
    costs: Prices | None,
    require: Limits | None,
    context: Iterable[str],
    stacklevel: int,
) -> Specification:
    """A number per action is learnt, of the actions that are worth trying by the graph alone."""
    context_names = validate_context(_build_augmented_graph(model, space), context, goal)
    if require is not None and not isinstance(model, CausalGraph):
        space = apply_chance_constraints(space, model, require, goal, in_contexts=bool(context_names))
    parsed_costs = Costs.parse(space, costs)
    if reduce and not (context_names and require):
        space = possibly_optimal_actions(
            as_causal_graph(model), space, goal, parsed_costs, context_names, stacklevel=stacklevel + 1
        )
    return Specification(model, space, (), goal, (), reduce, parsed_costs, context_names)


def _build_augmented_graph(model: Knowledge, space: ActionSpace) -> AugmentedGraph:
    return AugmentedGraph(model, space.names, space.variables_always_set())


def _find_parents(
    augmented: AugmentedGraph,
    parents: Iterable[str] | None,
    reward: str | None,
    separator: str | None,
    observable: Iterable[str] | None,
    context: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parents, given or found, and the variables that can be observed, where these were declared."""
    if separator is not None:
        return augmented.cheapest_separator(
            _validate_separator_request(separator, parents, reward), observable, context
        )
    return augmented.validate_parents(parents, reward), tuple(observable or ())


def _marginalise(
    model: CausalModel | ObservedModel,
    space: ActionSpace,
    parents: tuple[str, ...] | None,
    reward: str | None,
    separator: str | None,
    observable: tuple[str, ...],
    require: Limits | None,
    context: tuple[str, ...],
) -> CausalModel | ObservedModel:
    """The model without the variables that are never observed, if its CPTs are to be learned."""
    if not isinstance(model, FittedModel):
        if separator is None:
            raise ProblemError(
                "observable= says where to look for a separator, or what can be observed while CPTs are learned; the "
                'CPTs of this model are known. For a separator give separator="cheapest" too, else leave observable= '
                "out."
            )
        return model
    if reward is not None and reward in observable:
        raise ProblemError(f"observable= must not have the reward {reward!r} in it: it comes too late.")
    if separator is not None and not all(has_flat_prior(model, name) for name in model.names):
        return model  # its CPTs come from data that had all variables
    observed = {*observable, *space.names, *context} | ({reward} if reward is not None else set())
    refuse_unobserved(
        "The reward's parents", parents or (), observed, "Add it, or name the reward (reward=) for other parents."
    )
    if isinstance(require, Mapping):
        refuse_unobserved("What require= names", require, observed, "Add it: how likely it is must be learned.")
    return marginalise_unobserved(
        model, observed, manipulable=space.names, always_set=space.variables_always_set(), reward=reward
    )


def _validate_separator_request(separator: str, parents: Iterable[str] | None, reward: str | None) -> str:
    """The reward for which a separator is to be found."""
    if not isinstance(separator, str) or separator != "cheapest":
        raise ProblemError(f'separator must be "cheapest" or left out; got {separator!r}.')
    if parents is not None or reward is None:
        raise ProblemError('separator="cheapest" finds the parents: name the reward (reward="Y") instead of them.')
    return reward


def decode_specification(record: Mapping[str, Any]) -> Specification:
    """What `to_record` describes."""
    model = knowledge_from_record(record)
    if isinstance(model, CausalGraph) or not record["parents"]:
        return _decode_by_actions(model, record)
    space = ActionSpace.from_record(record, model)
    parents = validate_unique_names("parent", record["parents"], model.__getitem__)
    if not isinstance(record["reduce"], bool):
        raise ProblemError(f"reduce must be true or false; got {record['reduce']!r}.")
    reward, augmented = record["reward"], _build_augmented_graph(model, space)
    augmented.validate_parents(parents, reward)
    context = validate_context(augmented, record.get("context", ()), reward)
    validate_parents_in_context(augmented, parents, context, reward)
    space.requirements = decode_chance_constraints(record.get("require"), space, model)
    costs = Costs.from_record(record.get("costs"), space)
    specification = Specification(model, space, parents, reward, (), record["reduce"], costs, context)
    return specification.declare(record.get("reward_range"), record.get("noise_scale"))


def _decode_by_actions(knowledge: Knowledge, record: Mapping[str, Any]) -> Specification:
    """Of a problem without parents; which actions are worth trying was found when it was made."""
    space = ActionSpace.from_record(record, knowledge)
    reward = validate_reward_variable(knowledge, space, record["reward"], record["parents"])
    context = validate_context(_build_augmented_graph(knowledge, space), record.get("context", ()), reward)
    if not isinstance(knowledge, CausalGraph):
        space.requirements = decode_chance_constraints(record.get("require"), space, knowledge)
    costs = Costs.from_record(record.get("costs"), space)
    specification = Specification(knowledge, space, (), reward, (), bool(record["reduce"]), costs, context)
    return specification.declare(record.get("reward_range"), record.get("noise_scale"))


def first_difference(
    ours: Specification, theirs: Specification, our_context: Z | None = None, their_context: Z | None = None
) -> str:
    """The first thing in which two problems differ, theirs first, in words; empty where it is their tables at most.

    The contexts are the codes of what is known in either problem.
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
        return f"its hidden causes are {list(theirs.hidden)}, not {list(ours.hidden)}"
    return ""


def _action_difference(ours: Specification, theirs: Specification) -> str:
    if ours.costs != theirs.costs:
        return f"its costs are {_format_costs(theirs)}, not {_format_costs(ours)}"
    requirements = [s.actions.requirements for s in (ours, theirs)]
    records = [[] if constraints is None else constraints.to_record() for constraints in requirements]
    if records[0] != records[1]:
        return f"what it requires is {_format_requirements(theirs)}, not {_format_requirements(ours)}"
    if not ours.actions.is_same_as(theirs.actions):
        our_size, their_size = format_count(ours.actions.size), format_count(theirs.actions.size)
        return f"it has other actions: {their_size}, where these are {our_size}"
    return ""


def _format_known(specification: Specification, context_codes: Z | None) -> str:
    """What is known of the context."""
    codes = [(name, code) for name, code in zip(specification.context, context_codes or (), strict=False) if code >= 0]
    return ", ".join(f"{name}={specification.knowledge[name].states[code]}" for name, code in codes) or "nothing"


def _format_costs(specification: Specification) -> str:
    """Every price: a range may be the same where prices differ."""
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
