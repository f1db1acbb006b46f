"""What a causal graph is made of, as people give it: checked, and in one order."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from causalbandits._types import is_iterable
from causalbandits.errors import ModelError, brief, unknown
from causalbandits.model import graph as graphs
from causalbandits.model.intervention import State
from causalbandits.model.variable import Variable

Group = tuple[str, ...]
"""Variables that share a hidden cause."""

Hidden = str | Iterable[str]
"""A variable that has no column, or a group."""


def with_roots(graph: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Each variable's parents; a parent that has no entry of its own is a root, placed before its first child."""
    parents: dict[str, tuple[str, ...]] = {}
    for name, before in graph.items():
        causes = Variable(name, [0], parents=before, table=[]).parents
        for parent in causes:
            if parent not in graph:
                parents.setdefault(parent, ())
        parents[name] = causes
    return parents


def checked_states(states: Any, names: Iterable[str]) -> dict[str, Iterable[State]]:
    if states is None:
        return {}
    if not isinstance(states, Mapping):
        raise ModelError(f"states must map variables to lists of values, such as {{'x': [0, 1]}}; got {brief(states)}.")
    for name in states:
        if name not in names:
            raise ModelError(f"states: {unknown('variable', name, names)}")
    return dict(states)


def checked_hidden(given: Any, names: tuple[str, ...]) -> tuple[str | Group, ...]:
    """The hidden variables, then the groups, each in the graph's order."""
    rule = "hidden lists variables that are not observed, and groups that share a hidden cause: ['u', ('x', 'y')]"
    if isinstance(given, str | Mapping) or not is_iterable(given):
        raise ModelError(f"{rule}; got {brief(given)}.")
    position = {name: i for i, name in enumerate(names)}
    alone: set[str] = set()
    groups: set[Group] = set()
    for part in given:
        if not isinstance(part, str) and (isinstance(part, Mapping) or not is_iterable(part)):
            raise ModelError(f"{rule}; got {brief(part)} in it.")
        group = (part,) if isinstance(part, str) else tuple(part)
        for name in group:
            if not isinstance(name, str) or name not in position:
                raise ModelError(f"hidden: {unknown('variable', name, names)}")
        if isinstance(part, str):
            alone.add(part)
            continue
        if len(group) < 2:
            effects = "one effect" if group else "no effect"
            raise ModelError(f"hidden: {group} has {effects}; a common cause has two at least.")
        if len(set(group)) < len(group):
            raise ModelError(f"hidden: the effects of a common cause must differ; got {brief(group)}.")
        groups.add(tuple(sorted(group, key=position.__getitem__)))
    if len(alone) == len(names):
        raise ModelError("hidden: at least one variable must be observed.")
    ordered = sorted(groups, key=lambda group: [position[name] for name in group])
    return (*sorted(alone, key=position.__getitem__), *ordered)


def parts_of_digraph(graph: graphs.Graph) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    """What a networkx graph says of causes, of what is hidden, and of states."""
    _refuse_turned_arrows(graph)
    nameless = {node: group for node in graph if (group := _nameless_group(graph, node)) is not None}
    parents, hidden = {}, [*nameless.values(), *(node for node in _hidden_nodes(graph) if node not in nameless)]
    for name, data in graph.nodes(data=True):
        if name in nameless:
            continue
        before = tuple(cause for cause in graph.predecessors(name) if cause not in nameless)
        ordered = tuple(data.get("parents", before))
        if sorted(map(str, ordered)) != sorted(map(str, before)):
            raise ModelError(f"Node {name!r} says that its parents are {list(ordered)}; its arrows say {list(before)}.")
        parents[name] = ordered
    states = {name: graph.nodes[name]["states"] for name in parents if "states" in graph.nodes[name]}
    return parents, hidden, states


def _nameless_group(graph: graphs.Graph, node: Hashable) -> Group | None:
    """What a node without a name is the cause of; None if it has one."""
    if not (isinstance(node, tuple) and len(node) == 2 and node[0] == "hidden"):
        return None
    return tuple(graph.successors(node))


_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _hidden_nodes(graph: graphs.Graph) -> list[Any]:
    """The nodes that a networkx graph says nobody observes: by `hidden`, DoWhy's `observed` or pgmpy's `latents`."""
    said = getattr(graph, "latents", ())
    latents = frozenset(said) if is_iterable(said) else frozenset()
    return [
        node
        for node, data in graph.nodes(data=True)
        if node in latents or _truth(node, data, "hidden", False) or not _truth(node, data, "observed", True)
    ]


def _truth(node: Hashable, data: Mapping[str, Any], word: str, default: bool) -> bool:
    said = _TRUTH.get(str(data.get(word, default)).strip('"').lower())
    if said is None:
        raise ModelError(f"Node {node!r} says {word}={brief(data[word])}; it must be True or False, or 'yes' or 'no'.")
    return said


def _refuse_turned_arrows(graph: graphs.Graph) -> None:
    """What other libraries read from DOT keeps `dir` of an edge, and draws an arrow from first to last all the same."""
    for cause, effect, data in graph.edges(data=True):
        said = str(data.get("dir", "forward")).strip('"').lower()
        if said != "forward":
            raise ModelError(
                f"The arrow {cause} -> {effect} says dir={said}, which only files mean: read the file itself, "
                "cb.read('graph.dot'), or turn the arrow, and list hidden common causes, hidden=[('x', 'y')]."
            )
