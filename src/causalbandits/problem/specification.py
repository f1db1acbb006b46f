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
    knowledge_from_record,
    knowledge_record,
    unique_names,
)
from causalbandits.problem.actions import (
    ActionSpace,
    Costs,
    Manipulable,
    Prices,
    action_space,
    shown,
    without_forbidden,
)
from causalbandits.problem.candidates import checked_reward, number_worth_trying, worth_trying
from causalbandits.problem.chance_constraints import Limits, required, requirements_of
from causalbandits.problem.separators import AugmentedGraph, check_with_context, checked_context

if TYPE_CHECKING:
    from causalbandits.problem.problem import Problem


class Stated(NamedTuple):
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
            **knowledge_record(self.knowledge),
            "parents": list(self.parents),
            "reward": self.reward,
            "reduce": self.reduce,
            **self.actions.to_record(),
            **({} if self.costs is None else {"costs": self.costs.to_record()}),
            **({"context": list(self.context)} if self.context else {}),
        }


def checked_problem(
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
) -> Stated:
    """What `Problem` was given, if it fits together."""
    if not isinstance(model, Knowledge):
        raise ProblemError(f"A Problem needs a CausalModel, an ObservedModel or a CausalGraph; got {model!r}.")
    if not isinstance(reduce, bool | np.bool_):
        raise ProblemError(f"reduce must be True or False; got {reduce!r}.")
    if reward is not None and not isinstance(reward, str):
        raise ProblemError(f"reward must be the name of a variable, such as 'Y'; got {reward!r}.")
    space = action_space(model, manipulable, at_most=at_most, always=always, actions=actions)
    if forbid is not None:
        space = without_forbidden(space, forbid, stacklevel=stacklevel + 1)
    if isinstance(model, CausalGraph) or (isinstance(parents, list | tuple) and not parents):
        goal = checked_reward(model, space, reward, parents, separator or observable, require)
        return _by_actions(model, space, goal, reduce, costs, require, context, stacklevel + 1)
    known = checked_context(_augmented(model, space), context, reward)
    if require is not None:
        space = required(space, model, require, reward, in_contexts=bool(known))
    worth = partial(number_worth_trying, model, space, reward, costs)
    augmented = AugmentedGraph(model, space.names, space.surely_set(), worth)
    found, seen = _standing_in(augmented, parents, reward, separator, observable, known)
    check_with_context(augmented, found, known, reward)
    idle = augmented.without_effect_on(found)
    return Stated(model, space, found, reward, seen, bool(reduce), Costs.given(space, costs), known, idle)


def _by_actions(
    model: Knowledge,
    space: ActionSpace,
    goal: str,
    reduce: bool,
    costs: Prices | None,
    require: Limits | None,
    context: Iterable[str],
    stacklevel: int,
) -> Stated:
    """A number per action is learnt, of the actions that are worth trying by the graph alone."""
    before = checked_context(_augmented(model, space), context, goal)
    if require is not None and not isinstance(model, CausalGraph):
        space = required(space, model, require, goal, in_contexts=bool(before))
    priced = Costs.given(space, costs)
    if reduce and not (before and require):
        space = worth_trying(as_causal_graph(model), space, goal, priced, before, stacklevel=stacklevel + 1)
    return Stated(model, space, (), goal, (), reduce, priced, before)


def _augmented(model: Knowledge, space: ActionSpace) -> AugmentedGraph:
    return AugmentedGraph(model, space.names, space.surely_set())


def _standing_in(
    augmented: AugmentedGraph,
    parents: Iterable[str] | None,
    reward: str | None,
    separator: str | None,
    observable: Iterable[str] | None,
    known: tuple[str, ...],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parents, given or found, and where they were looked for."""
    if separator is not None:
        return augmented.cheapest(_sought(separator, parents, reward), observable, known)
    if observable is not None:
        raise ProblemError('observable= says where to look for a separator: give separator="cheapest" too.')
    return augmented.checked_parents(parents, reward), ()


def _sought(separator: str, parents: Iterable[str] | None, reward: str | None) -> str:
    """The reward for which a separator is to be found."""
    if not isinstance(separator, str) or separator != "cheapest":
        raise ProblemError(f'separator must be "cheapest" or left out; got {separator!r}.')
    if parents is not None or reward is None:
        raise ProblemError('separator="cheapest" finds the parents: name the reward (reward="Y") instead of them.')
    return reward


def stated_in(record: Mapping[str, Any]) -> Stated:
    """What `to_record` describes."""
    model = knowledge_from_record(record)
    if isinstance(model, CausalGraph) or not record["parents"]:
        return _stated_by_actions(model, record)
    space = ActionSpace.from_record(record, model)
    parents = unique_names("parent", record["parents"], model.__getitem__)
    if not isinstance(record["reduce"], bool):
        raise ProblemError(f"reduce must be true or false; got {record['reduce']!r}.")
    reward, augmented = record["reward"], _augmented(model, space)
    augmented.checked_parents(parents, reward)
    context = checked_context(augmented, record.get("context", ()), reward)
    check_with_context(augmented, parents, context, reward)
    space.requirements = requirements_of(record.get("require"), space, model)
    costs = Costs.from_record(record.get("costs"), space)
    return Stated(model, space, parents, reward, (), record["reduce"], costs, context)


def _stated_by_actions(known: Knowledge, record: Mapping[str, Any]) -> Stated:
    """Of a problem without parents; which actions are worth trying was found when it was made."""
    space = ActionSpace.from_record(record, known)
    reward = checked_reward(known, space, record["reward"], record["parents"])
    context = checked_context(_augmented(known, space), record.get("context", ()), reward)
    if not isinstance(known, CausalGraph):
        space.requirements = requirements_of(record.get("require"), space, known)
    costs = Costs.from_record(record.get("costs"), space)
    return Stated(known, space, (), reward, (), bool(record["reduce"]), costs, context)


# What sets two problems apart, beside the numbers of their tables.


def difference(ours: Problem, theirs: Problem) -> str:
    """The first thing in which two problems differ, theirs first, in words; empty where it is their tables at most."""
    for what in ("variables", "manipulable", "parents", "reward", "context", "known"):
        mine, its = (_of(problem, what) for problem in (ours, theirs))
        if mine != its:
            return f"its {what} {'are' if what in ('variables', 'parents') else 'is'} {its}, not {mine}"
    mine, its = ours.graph, theirs.graph
    for name in mine.names:
        if mine.states.get(name) != its.states.get(name):
            return f"its states of {name!r} are {list(its.states.get(name, ()))}, not {list(mine.states.get(name, ()))}"
        if mine.parents[name] != its.parents[name]:
            return f"its causes of {name!r} are {list(its.parents[name])}, not {list(mine.parents[name])}"
    if set(mine.hidden) != set(its.hidden):
        return f"its hidden causes are {list(its.hidden)}, not {list(mine.hidden)}"
    if ours.costs != theirs.costs:
        return f"its costs are {_costs(theirs)}, not {_costs(ours)}"
    required = [[] if p.requirements is None else p.requirements.to_record() for p in (ours, theirs)]
    if required[0] != required[1]:
        return f"what it requires is {_required(theirs)}, not {_required(ours)}"
    if not ours.actions.same_as(theirs.actions):
        return f"it has other actions: {shown(theirs.actions.size)}, where these are {shown(ours.actions.size)}"
    return ""


def _of(problem: Problem, what: str) -> Any:
    if what == "variables":
        return sorted(problem.graph.names)
    if what == "known":
        return problem.contexts.shown(problem.known) or "nothing"
    found = getattr(problem, what)
    return list(found) if isinstance(found, tuple) else found


def _costs(problem: Problem) -> str:
    """Every price: a range may be the same where prices differ."""
    if problem.costs is None:
        return "none"
    prices = zip(problem.actions.variables, problem.costs.to_record(), strict=True)
    return ", ".join(
        f"{variable.name} {{{', '.join(f'{s}: {p:g}' for s, p in zip(variable.states, own, strict=True))}}}"
        for variable, own in prices
        if any(own)
    )


def _required(problem: Problem) -> str:
    return "nothing" if problem.requirements is None else str(problem.requirements.to_record()["limits"])
