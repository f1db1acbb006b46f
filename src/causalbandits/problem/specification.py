"""What a problem is stated to be: what is known, what may be done, what is wanted; once it is known to fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from causalbandits.errors import ProblemError
from causalbandits.model import (
    CausalGraph,
    Intervention,
    Knowledge,
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
from causalbandits.problem.candidates import count_possibly_optimal_actions, possibly_optimal_actions, validate_reward
from causalbandits.problem.chance_constraints import Limits, apply_chance_constraints, decode_chance_constraints
from causalbandits.problem.separators import AugmentedGraph, validate_context, validate_parents_in_context

if TYPE_CHECKING:
    from causalbandits.problem.problem import Problem


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
        }


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
        goal = validate_reward(model, space, reward, parents, separator or observable, require)
        return _specify_by_actions(model, space, goal, reduce, costs, require, context, stacklevel + 1)
    context_names = validate_context(_build_augmented_graph(model, space), context, reward)
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
    """The parents, given or found, and where they were looked for."""
    if separator is not None:
        return augmented.cheapest_separator(
            _validate_separator_request(separator, parents, reward), observable, context
        )
    if observable is not None:
        raise ProblemError('observable= says where to look for a separator: give separator="cheapest" too.')
    return augmented.validate_parents(parents, reward), ()


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
    return Specification(model, space, parents, reward, (), record["reduce"], costs, context)


def _decode_by_actions(knowledge: Knowledge, record: Mapping[str, Any]) -> Specification:
    """Of a problem without parents; which actions are worth trying was found when it was made."""
    space = ActionSpace.from_record(record, knowledge)
    reward = validate_reward(knowledge, space, record["reward"], record["parents"])
    context = validate_context(_build_augmented_graph(knowledge, space), record.get("context", ()), reward)
    if not isinstance(knowledge, CausalGraph):
        space.requirements = decode_chance_constraints(record.get("require"), space, knowledge)
    costs = Costs.from_record(record.get("costs"), space)
    return Specification(knowledge, space, (), reward, (), bool(record["reduce"]), costs, context)


# What sets two problems apart, beside the numbers of their tables.


def first_difference(ours: Problem, theirs: Problem) -> str:
    """The first thing in which two problems differ, theirs first, in words; empty where it is their tables at most."""
    for attribute in ("variables", "manipulable", "parents", "reward", "context", "known"):
        our_value, their_value = (_attribute_value(problem, attribute) for problem in (ours, theirs))
        if our_value != their_value:
            return f"its {attribute} {'are' if attribute in ('variables', 'parents') else 'is'} {their_value}, not {our_value}"
    our_value, their_value = ours.graph, theirs.graph
    for name in our_value.names:
        if our_value.states.get(name) != their_value.states.get(name):
            return f"its states of {name!r} are {list(their_value.states.get(name, ()))}, not {list(our_value.states.get(name, ()))}"
        if our_value.parents[name] != their_value.parents[name]:
            return f"its causes of {name!r} are {list(their_value.parents[name])}, not {list(our_value.parents[name])}"
    if set(our_value.hidden) != set(their_value.hidden):
        return f"its hidden causes are {list(their_value.hidden)}, not {list(our_value.hidden)}"
    if ours.costs != theirs.costs:
        return f"its costs are {_format_costs(theirs)}, not {_format_costs(ours)}"
    constraints = [[] if p.requirements is None else p.requirements.to_record() for p in (ours, theirs)]
    if constraints[0] != constraints[1]:
        return f"what it requires is {_format_requirements(theirs)}, not {_format_requirements(ours)}"
    if not ours.actions.is_same_as(theirs.actions):
        return f"it has other actions: {format_count(theirs.actions.size)}, where these are {format_count(ours.actions.size)}"
    return ""


def _attribute_value(problem: Problem, attribute: str) -> Any:
    if attribute == "variables":
        return sorted(problem.graph.names)
    if attribute == "known":
        return problem.contexts.format_context(problem.context_codes) or "nothing"
    value = getattr(problem, attribute)
    return list(value) if isinstance(value, tuple) else value


def _format_costs(problem: Problem) -> str:
    """Every price: a range may be the same where prices differ."""
    if problem.costs is None:
        return "none"
    prices = zip(problem.actions.variables, problem.costs.to_record(), strict=True)
    return ", ".join(
        f"{variable.name} {{{', '.join(f'{s}: {p:g}' for s, p in zip(variable.states, prices_of_variable, strict=True))}}}"
        for variable, prices_of_variable in prices
        if any(prices_of_variable)
    )


def _format_requirements(problem: Problem) -> str:
    return "nothing" if problem.requirements is None else str(problem.requirements.to_record()["limits"])
