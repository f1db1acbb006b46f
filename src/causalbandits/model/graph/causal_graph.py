"""CausalGraph: a causal graph without CPTs, possibly with unobserved confounders.

An unobserved common cause is an unobserved node, so that the graph stays a directed acyclic graph: `x <-> y` is an
unnamed root node with the children x and y. Bidirected edges, districts and projections are derived from it (`admg`).
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import networkx as nx

from causalbandits._typing import is_integer, is_iterable
from causalbandits.errors import ModelError, short_repr, unknown_name_message
from causalbandits.model.graph import dag as graphs
from causalbandits.model.graph import pomis
from causalbandits.model.graph.admg import ADMG, members
from causalbandits.model.graph.identification import Estimand, Hedge, IdentificationQuery
from causalbandits.model.graph.text import format_graph_text, parse_graph_text
from causalbandits.model.intervention import State
from causalbandits.model.records import decode_graph, encode_graph, parse_document
from causalbandits.model.variable import Variable, validate_unique_names

# Validation of the parts of a causal graph as users give them, and conversion to a canonical order.

Group = tuple[str, ...]
"""Variables that share an unobserved common cause."""

Hidden = str | Iterable[str]
"""A variable that has no column, or a group of variables."""


def with_roots(graph: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """Each variable's parents; a parent that has no entry of its own is a root, placed before its first child."""
    parents: dict[str, tuple[str, ...]] = {}
    for name, parents_of_name in graph.items():
        causes = Variable(name, [0], parents=parents_of_name, table=[]).parents
        for parent in causes:
            if parent not in graph:
                parents.setdefault(parent, ())
        parents[name] = causes
    return parents


def validate_states(states: Any, names: Iterable[str]) -> dict[str, Iterable[State]]:
    if states is None:
        return {}
    if not isinstance(states, Mapping):
        raise ModelError(
            f"values must map variables to lists of values, such as {{'x': [0, 1]}}; got {short_repr(states)}."
        )
    for name in states:
        if name not in names:
            raise ModelError(f"values: {unknown_name_message('variable', name, names)}")
    return dict(states)


def parse_hidden(hidden: Any, names: tuple[str, ...]) -> tuple[str | Group, ...]:
    """The unobserved variables, then the groups, each in the graph's order."""
    rule = (
        "hidden lists unobserved variables, and groups of variables with an unobserved common cause, such as "
        "['u', ('x', 'y')]"
    )
    if isinstance(hidden, str | Mapping) or not is_iterable(hidden):
        raise ModelError(f"{rule}; got {short_repr(hidden)}.")
    position = {name: i for i, name in enumerate(names)}
    alone: set[str] = set()
    groups: set[Group] = set()
    for part in hidden:
        if not isinstance(part, str) and (isinstance(part, Mapping) or not is_iterable(part)):
            raise ModelError(f"{rule}; got {short_repr(part)} in it.")
        group = (part,) if isinstance(part, str) else tuple(part)
        for name in group:
            if not isinstance(name, str) or name not in position:
                raise ModelError(f"hidden: {unknown_name_message('variable', name, names)}")
        if isinstance(part, str):
            alone.add(part)
            continue
        if len(group) < 2:
            effects = "one effect" if group else "no effect"
            raise ModelError(f"hidden: {group} has {effects}; a common cause has at least two.")
        if len(set(group)) < len(group):
            raise ModelError(f"hidden: the effects of a common cause must differ; got {short_repr(group)}.")
        groups.add(tuple(sorted(group, key=position.__getitem__)))
    if len(alone) == len(names):
        raise ModelError("hidden: at least one variable must be observed.")
    ordered = sorted(groups, key=lambda group: [position[name] for name in group])
    return (*sorted(alone, key=position.__getitem__), *ordered)


def parse_digraph(graph: graphs.Graph) -> tuple[dict[str, Any], list[Any], dict[str, Any]]:
    """The parents, the unobserved confounders and the states in a networkx graph."""
    _refuse_reversed_edges(graph)
    nameless = {node: group for node in graph if (group := _nameless_group(graph, node)) is not None}
    parents, hidden = {}, [*nameless.values(), *(node for node in _hidden_nodes(graph) if node not in nameless)]
    for name, data in graph.nodes(data=True):
        if name in nameless:
            continue
        predecessors = tuple(cause for cause in graph.predecessors(name) if cause not in nameless)
        ordered = tuple(data.get("parents", predecessors))
        if sorted(map(str, ordered)) != sorted(map(str, predecessors)):
            raise ModelError(
                f"Node {name!r} has the attribute parents={list(ordered)}, and its arrows come from "
                f"{list(predecessors)}. Make them equal."
            )
        parents[name] = ordered
    states = {name: graph.nodes[name]["states"] for name in parents if "states" in graph.nodes[name]}
    return parents, hidden, states


def _nameless_group(graph: graphs.Graph, node: Hashable) -> Group | None:
    """The children of an unnamed node; None if the node has a name."""
    if not (isinstance(node, tuple) and len(node) == 2 and node[0] == "hidden"):
        return None
    return tuple(graph.successors(node))


_FLAG_VALUES = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _hidden_nodes(graph: graphs.Graph) -> list[Any]:
    """The nodes that a networkx graph marks as unobserved: by `hidden`, DoWhy's `observed` or pgmpy's `latents`."""
    declared_latents = getattr(graph, "latents", ())
    latents = frozenset(declared_latents) if is_iterable(declared_latents) else frozenset()
    return [
        node
        for node, data in graph.nodes(data=True)
        if node in latents or _parse_flag(node, data, "hidden", False) or not _parse_flag(node, data, "observed", True)
    ]


def _parse_flag(node: Hashable, data: Mapping[str, Any], attribute: str, default: bool) -> bool:
    flag = _FLAG_VALUES.get(str(data.get(attribute, default)).strip('"').lower())
    if flag is None:
        raise ModelError(
            f"Node {node!r} has the attribute {attribute}={short_repr(data[attribute])}; it must be True or False, or "
            "'yes' or 'no'."
        )
    return flag


def _refuse_reversed_edges(graph: graphs.Graph) -> None:
    """Raise an error for edges with a `dir` attribute other than "forward".

    Other libraries that read DOT files keep the attribute, but store the edge from the first node to the second
    regardless.
    """
    for cause, effect, data in graph.edges(data=True):
        direction = str(data.get("dir", "forward")).strip('"').lower()
        if direction != "forward":
            raise ModelError(
                f"The arrow {cause} -> {effect} has the attribute dir={direction}, which is supported in files only. "
                "Read the file itself, cb.read('graph.dot'); or reverse the arrow, and list unobserved common causes, "
                "hidden=[('x', 'y')]."
            )


GRAPH_FORMAT, GRAPH_VERSION = "causalbandits-graph", 1


class CausalGraph:
    """A causal graph, possibly with unobserved confounders; immutable.

    >>> graph = CausalGraph({"exposure": ["channel"], "sale": ["exposure"]}, hidden=[("channel", "sale")])
    >>> graph
    CausalGraph('channel -> exposure; exposure -> sale; channel <-> sale')
    >>> graph.districts()
    (('channel', 'sale'), ('exposure',))
    >>> graph == CausalGraph.from_text("channel -> exposure -> sale; channel <-> sale")
    True

    Args:
        parents: A mapping from each variable to its direct causes; a cause without an entry of its own has no parents.
        hidden: The unobserved confounders: names of unobserved variables, and groups of variables that share an unnamed
            one. Default: none.
        values: The values of variables, by name; manipulable variables need them if there is no data. Default: not
            known.

    Attributes:
        parents: The direct causes of each variable.
        states: The values of the variables whose values are known.
        hidden: The unobserved variables, then the groups that share an unnamed unobserved confounder.

    Raises:
        ModelError: If a name or a group is malformed, or the graph has a cycle.
    """

    parents: Mapping[str, tuple[str, ...]]
    states: Mapping[str, tuple[State, ...]]
    hidden: tuple[str | Group, ...]
    """The unobserved variables, then the groups that share an unobserved common cause, in the graph's order."""

    def __init__(
        self,
        parents: Mapping[str, Iterable[str]],
        *,
        hidden: Iterable[Hidden] = (),
        values: Mapping[str, Iterable[State]] | None = None,
    ) -> None:
        if not isinstance(parents, Mapping):
            raise ModelError(
                "A CausalGraph maps each variable to its parents, such as {'purpose': [], 'subject': ['purpose']}; "
                f"got {short_repr(parents)}."
            )
        parents_by_name = with_roots(parents)
        if not parents_by_name:
            raise ModelError("The graph needs at least one variable.")
        states_by_name = validate_states(values, parents_by_name)
        # `Variable` validates its name, its states and its parents' names; its CPT stays empty here.
        variables = {
            name: Variable(name, states_by_name.get(name, [0]), parents=p, table=[])
            for name, p in parents_by_name.items()
        }
        attributes = self.__dict__
        attributes["parents"] = MappingProxyType({name: v.parents for name, v in variables.items()})
        attributes["states"] = MappingProxyType(
            {name: variables[name].states for name in parents_by_name if name in states_by_name}
        )
        attributes["hidden"] = parse_hidden(hidden, tuple(parents_by_name))
        cycle = graphs.find_cycle(self.graph)
        if cycle:
            raise ModelError(f"The graph must have no cycle; it has {' -> '.join(cycle)}.")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"CausalGraph is immutable. Create a new one with another {name}.")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The observed variables, in the order given."""
        hidden = frozenset(self.hidden)
        return tuple(name for name in self.parents if name not in hidden)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of variables that share an unnamed unobserved confounder."""
        return tuple(part for part in self.hidden if not isinstance(part, str))

    @cached_property
    def graph(self) -> graphs.Graph:
        """The graph as a frozen `networkx.DiGraph`; unobserved nodes have `hidden=True`, unnamed ones are ("hidden",
        group).
        """
        graph, hidden = nx.DiGraph(), frozenset(self.hidden)
        for name, parents in self.parents.items():
            states = {"states": self.states[name]} if name in self.states else {}
            graph.add_node(name, parents=parents, hidden=name in hidden, **states)
        graph.add_edges_from((p, name) for name, parents in self.parents.items() for p in parents)
        for group in self.groups:
            graph.add_node(("hidden", group), hidden=True)
            graph.add_edges_from((("hidden", group), name) for name in group)
        return nx.freeze(graph)

    def __getitem__(self, name: str) -> Variable:
        """A variable with its states and without a CPT; raises an error if its states are unknown."""
        self.validate_name(name)
        if name not in self.states:
            raise ModelError(
                f"The graph has no values of {name!r}, which are required here. Pass values={{{name!r}: [...]}}."
            )
        return Variable(name, self.states[name], parents=self.parents[name], table=[])

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, CausalGraph) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return tuple(self.parents.items()), tuple(self.states.items()), self.hidden

    def __repr__(self) -> str:
        text = self.to_text()
        if len(text) <= 200:
            return f"CausalGraph({text!r})"
        edges = sum(map(len, self.parents.values()))
        return f"CausalGraph({len(self.parents)} variables, {edges} arrows, {len(self.hidden)} hidden)"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_causal_graph, (dict(self.parents), self.hidden, dict(self.states)))

    def with_values(self, values: Mapping[str, Iterable[State]]) -> CausalGraph:
        """The same graph with the values of some variables.

        Args:
            values: The values by variable; they replace earlier ones.

        Returns:
            The graph.

        Raises:
            ModelError: If a variable is unknown or its values are malformed.
        """
        return CausalGraph(
            self.parents, hidden=self.hidden, values={**self.states, **validate_states(values, self.parents)}
        )

    def validate_names(self, kind: str, names: Iterable[str]) -> tuple[str, ...]:
        """Check that names are variables of the graph, each given once.

        Args:
            kind: The description of the names in an error message.
            names: The names.

        Returns:
            The names.

        Raises:
            ModelError: If a name is unknown or given twice.
        """
        return validate_unique_names(kind, names, self.validate_name)

    def validate_name(self, name: str) -> None:
        """Check that a name is a variable of the graph.

        Args:
            name: The name.

        Raises:
            ModelError: If it is not.
        """
        if not isinstance(name, str) or name not in self.parents:
            raise ModelError(unknown_name_message("variable", name, self.parents))

    def parents_of(self, name: str) -> Group:
        """The observed direct causes of a variable.

        Args:
            name: The name of the variable, which may itself be unobserved.

        Returns:
            The names of its observed parents.

        Raises:
            ModelError: If there is no such variable.
        """
        self.validate_name(name)
        return tuple(cause for cause in self.parents[name] if cause not in self.hidden)

    def projected(self, names: Iterable[str]) -> CausalGraph:
        """The latent projection onto some variables: the same independencies among them, with all others unobserved.

        >>> CausalGraph.from_text("x -> m -> y; u -> {x, y}; u [hidden]").projected(["x", "y"])
        CausalGraph('x -> y; x <-> y')

        Args:
            names: The variables to keep.

        Returns:
            The projected graph.

        Raises:
            ModelError: If a name is unknown or given twice.
        """
        onto = self.validate_names("projected", names)
        admg = self.admg([name for name in self.parents if name in onto])
        parents = {name: admg.names_of(parent_bits) for name, parent_bits in zip(admg.names, admg.parents, strict=True)}
        pairs = [
            (name, admg.names[j])
            for i, name in enumerate(admg.names)
            for j in members(admg.siblings[i] >> i + 1 << i + 1)
        ]
        hidden = [name for name in admg.names if name in self.hidden]
        return CausalGraph(
            parents, hidden=[*hidden, *pairs], values={n: s for n, s in self.states.items() if n in parents}
        )

    def admg(self, names: Sequence[str]) -> ADMG:
        """The latent projection as an acyclic directed mixed graph (ADMG) of bit sets, for algorithms.

        Args:
            names: The variables to keep, in order.

        Returns:
            The ADMG.
        """
        return ADMG.projection(self.graph, names)

    def districts(self) -> tuple[Group, ...]:
        """The districts (c-components): groups of observed variables that unobserved confounders connect."""
        admg = self.admg(self.names)
        return tuple(admg.names_of(district) for district in admg.districts(admg.all_nodes))

    def minimal_sets(self, reward: str, *, manipulable: Iterable[str] | None = None) -> tuple[Group, ...]:
        """The minimal intervention sets (MIS): every member can change the reward while the others are set.

        Args:
            reward: The name of the reward's node.
            manipulable: The variables that can be set. Default: all observed variables except the reward.

        Returns:
            The sets, smallest first.

        Raises:
            ModelError: If a name is unknown.
        """
        admg, goal = self._settable_admg(reward, manipulable)
        return _names_of_sets(admg, pomis.minimal_intervention_sets(admg, goal))

    def optimal_sets(
        self,
        reward: str,
        *,
        manipulable: Iterable[str] | None = None,
        max_set: int | None = None,
        always_set: Iterable[str] = (),
    ) -> tuple[Group, ...]:
        """The possibly optimal minimal intervention sets (POMIS): each is the best set to intervene on for some CPTs.

        >>> graph = CausalGraph.from_text("A -> B -> Y; C -> Y; A <-> C; B <-> Y")
        >>> graph.optimal_sets("Y"), graph.optimal_sets("Y", manipulable=["A", "B"])
        ((('A', 'C'), ('B', 'C')), ((), ('A',), ('B',)))

        Args:
            reward: The name of the reward's node.
            manipulable: The variables that can be set. Default: all observed variables except the reward.
            max_set: The largest number of variables that may be set at once. Default: no limit.
            always_set: The variables that every intervention sets. Default: none.

        Returns:
            The sets; other sets need not be tried.

        Raises:
            ModelError: If a name is unknown, or `max_set` is smaller than the number of variables in `always_set`.
        """
        admg, goal = self._settable_admg(reward, manipulable)
        required = self.validate_names("always_set", always_set)
        for name in required:
            if name not in admg.names or name == reward:
                raise ModelError(f"always_set: {name!r} is not manipulable.")
        if max_set is not None and (not is_integer(max_set) or max_set < len(required)):
            raise ModelError(
                f"max_set must be a whole number, no less than the {len(required)} variables that are always set; "
                f"got {short_repr(max_set)}."
            )
        return _names_of_sets(admg, pomis.pomis_sets(admg, goal, max_set, admg.bits(required)))

    def effect(self, of: Iterable[str], *, do: Iterable[str], randomised: Iterable[Hidden] = ()) -> Estimand:
        """Identify the effect P(of | do(...)) as a formula of observed distributions.

        >>> graph = CausalGraph.from_text("ad -> visits -> sale; ad <-> sale")
        >>> print(graph.effect(["sale"], do=["ad"]))
        sum over visits: P(visits | ad) (sum over ad: P(ad) P(sale | ad, visits))

        Args:
            of: The outcome variables.
            do: The variables that are set.
            randomised: The variables, or groups of variables, that were set at random in some rows of the data.
                Default: none.

        Returns:
            The estimand, which prints as a formula.

        Raises:
            NotIdentifiedError: If the effect is not identified; the error names the reason and a remedy.
            ModelError: If a name is unknown or unobserved.
        """
        if isinstance(randomised, str | Mapping) or not is_iterable(randomised):
            raise ModelError(
                f"randomised must be a list of names, or of groups, such as ['x']; got {short_repr(randomised)}."
            )
        groups = [
            self.validate_observed_names("randomised", [group] if isinstance(group, str) else group)
            for group in randomised
        ]
        return self.estimand_from([(), *groups], of, do)

    def estimand_from(self, regimes: Sequence[Group], of: Iterable[str], do: Iterable[str]) -> Estimand:
        """Identify an effect from given data regimes.

        Args:
            regimes: The groups of variables that were set at random in each kind of rows; `()` stands for observational
                rows. The first regime that identifies the effect is used.
            of: The outcome variables.
            do: The variables that are set.

        Returns:
            The estimand.

        Raises:
            NotIdentifiedError: If the effect is not identified.
            ModelError: If a name is unknown or unobserved.
        """
        outcomes, interventions = self.validate_observed_names("of", of), self.validate_observed_names("do", do)
        if not outcomes or set(outcomes) & set(interventions):
            raise ModelError(
                f"of must be variables that are not set; got of={list(outcomes)}, do={list(interventions)}."
            )
        query = IdentificationQuery(self.graph, self.names, outcomes, interventions)
        formula = query.identify(regimes)
        if isinstance(formula, Hedge):
            raise query.build_error(formula, regimes)
        return Estimand(outcomes, interventions, formula)

    def validate_observed_names(self, kind: str, names: Iterable[str]) -> Group:
        """Check that names are observed variables of the graph, each given once.

        Args:
            kind: The description of the names in an error message.
            names: The names.

        Returns:
            The names.

        Raises:
            ModelError: If a name is unknown, unobserved or given twice.
        """
        validated = self.validate_names(kind, names)
        for name in validated:
            if name in self.hidden:
                raise ModelError(f"{kind}: {name!r} is unobserved, so its distribution cannot be computed.")
        return validated

    def _settable_admg(self, reward: str, manipulable: Iterable[str] | None) -> tuple[ADMG, int]:
        """The latent projection onto the manipulable variables and the reward, and the bit mask of the reward."""
        self.validate_name(reward)
        default = [name for name in self.names if name != reward]
        settable = default if manipulable is None else self.validate_names("manipulable", manipulable)
        if reward in settable:
            raise ModelError(f"The reward {reward!r} must not be manipulable. Remove it from manipulable=.")
        admg = self.admg([name for name in self.parents if name in settable or name == reward])
        return admg, admg.bits([reward])

    def to_text(self) -> str:
        """The graph as text that `from_text` reads; values are not included."""
        return format_graph_text(self.parents, [part for part in self.hidden if isinstance(part, str)], self.groups)

    @classmethod
    def from_text(cls, text: str) -> CausalGraph:
        """The graph that a text describes.

        >>> CausalGraph.from_text("{a, b} -> c; a <-> c")
        CausalGraph('{a, b} -> c; a <-> c')

        Args:
            text: Statements separated by newlines or `;`: `a -> b -> c`, `c <- d`, `{a, b} -> c` (two arrows), `a <->
                c` (an unobserved confounder), `u [hidden]` (an unobserved variable), `{a, b, c} [hidden]` (three
                variables that share an unobserved confounder). Names that are not one word stand in double quotes.

        Returns:
            The graph.

        Raises:
            ModelError: If the text is malformed or the graph has a cycle.
        """
        parsed_text = parse_graph_text(text)
        return cls(parsed_text.parents, hidden=parsed_text.hidden)

    def to_json(self) -> str:
        """The graph as JSON text, with its values."""
        return json.dumps({"format": GRAPH_FORMAT, "version": GRAPH_VERSION, **self.to_record()})

    @classmethod
    def from_json(cls, text: str) -> CausalGraph:
        """The graph that `to_json` wrote.

        Args:
            text: The JSON text.

        Returns:
            The graph.

        Raises:
            ModelError: If the text is not a graph.
        """
        return cls.from_record(parse_document(text, "graph", GRAPH_FORMAT, GRAPH_VERSION))

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description from which `from_record` restores the graph."""
        return encode_graph(self.parents, self.states, self.hidden)

    @classmethod
    def from_record(cls, record: Any) -> CausalGraph:
        """The graph that `to_record` describes.

        Args:
            record: The description.

        Returns:
            The graph.

        Raises:
            ModelError: If the record does not describe a graph.
        """
        graph_record_fields = decode_graph(record)
        return cls(graph_record_fields.parents, hidden=graph_record_fields.hidden, values=graph_record_fields.states)

    def with_hidden(self, hidden: Iterable[Hidden]) -> CausalGraph:
        """The same graph with more unobserved confounders.

        Args:
            hidden: Names of variables that become unobserved, and groups of variables that share an unnamed confounder.

        Returns:
            The graph.

        Raises:
            ModelError: If a name is unknown.
        """
        more = parse_hidden(hidden, tuple(self.parents))
        return CausalGraph(self.parents, hidden=[*self.hidden, *more], values=self.states)

    @classmethod
    def from_networkx(cls, graph: graphs.Graph) -> CausalGraph:
        """The graph of a `networkx.DiGraph`.

        Args:
            graph: The directed graph. Nodes with `hidden=True`, DoWhy's `observed="no"` or pgmpy's `latents` are
                unobserved; nodes may have `states`, and `parents` in order.

        Returns:
            The graph.

        Raises:
            ModelError: If the graph is not directed or an attribute is malformed.
        """
        if not isinstance(graph, nx.DiGraph):
            raise ModelError(f"A CausalGraph needs a directed graph (networkx.DiGraph); got {short_repr(graph)}.")
        parents, hidden, states = parse_digraph(graph)
        return cls(parents, hidden=hidden, values=states)


def _names_of_sets(admg: ADMG, sets: Iterable[int]) -> tuple[Group, ...]:
    """The names of sets, sorted by size, then in the graph's order."""
    return tuple(
        admg.names_of(nodes) for nodes in sorted(sets, key=lambda nodes: (nodes.bit_count(), list(members(nodes))))
    )


def _rebuild_causal_graph(
    parents: Mapping[str, Group], hidden: Sequence[Hidden], states: Mapping[str, Any]
) -> CausalGraph:
    return CausalGraph(parents, hidden=hidden, values=states)
