"""What sets two problems apart, beside the numbers of their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from causalbandits.problem.actions import shown

if TYPE_CHECKING:
    from causalbandits.problem.problem import CausalBandit


def difference(ours: CausalBandit, theirs: CausalBandit) -> str:
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


def _of(problem: CausalBandit, what: str) -> Any:
    if what == "variables":
        return sorted(problem.graph.names)
    if what == "known":
        return problem.contexts.shown(problem.known) or "nothing"
    found = getattr(problem, what)
    return list(found) if isinstance(found, tuple) else found


def _costs(problem: CausalBandit) -> str:
    """Every price: a range may be the same where prices differ."""
    if problem.costs is None:
        return "none"
    prices = zip(problem.actions.variables, problem.costs.to_record(), strict=True)
    return ", ".join(
        f"{variable.name} {{{', '.join(f'{s}: {p:g}' for s, p in zip(variable.states, own, strict=True))}}}"
        for variable, own in prices
        if any(own)
    )


def _required(problem: CausalBandit) -> str:
    return "nothing" if problem.requirements is None else str(problem.requirements.to_record()["limits"])
