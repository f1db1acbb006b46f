"""DOT, the language of Graphviz, and that of dagitty: the graph without CPTs.

`digraph`s and dagitty's `dag`s are read: names, chains a -> b <- c, groups {a b} -> c and subgraphs. `a <-> b`, or an
edge with dir=both, means an unobserved confounder of both; dir=back reverses an arrow. A node is unobserved if it has
the attribute `latent`, `unobserved`, `hidden` or `observed=no`, in a `dag` also `l` or `u`. Other attributes, and
ports, are skipped. HTML labels, strings joined with +, undirected edges, and dagitty's other kinds of graph are
refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace

from causalbandits.errors import ModelError
from causalbandits.formats._scanner import DEPTH_LIMIT, EDGE_LIMIT, Scanner, Token, clip
from causalbandits.model import CausalGraph
from causalbandits.model import graph as graphs

_SKIP = re.compile(r"(?:\s++|//[^\n]*+|^#[^\n]*+|/\*(?s:.*?)\*/)*+", re.MULTILINE)
BEGINNING = re.compile(
    rb"(?:\xef\xbb\xbf)?+SKIP(?:strict\bSKIP)?+(?:digraph|dag)\b".replace(b"SKIP", _SKIP.pattern.encode()),
    re.MULTILINE | re.IGNORECASE,
)
_TOKEN = re.compile(
    r'(?P<quoted>"(?:[^"\\]|\\.)*+")|(?P<mark><->|->|<-|--|[{}\[\];,=:+<>])'
    r"|(?P<word>-?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?+)(?![\w.])|[^\W\d][\w.]*+|\w++)",
    re.DOTALL,
)
_KEYWORDS = ("graph", "node", "edge", "digraph", "subgraph", "strict")
_ARROWS = ("->", "<-", "<->")
_OTHER_KINDS = {
    "mag": "a maximal ancestral graph, whose arrows mean ancestry",
    "pag": "a partial ancestral graph, which represents many graphs",
    "pdag": "a partially directed graph, which represents many graphs",
}
_FLAGS = {"latent": True, "unobserved": True, "hidden": True, "observed": False}
"""The attributes of a node that state whether it is unobserved."""
_DAGITTYS_SHORT = {"l": "latent", "u": "unobserved", "s": "selected"}
_NO = ("no", "false", "0")
CAUSE = "cause"
"""`hidden=cause`: an unnamed node that represents an unobserved confounder of three variables or more."""


@dataclass(frozen=True)
class _Attributes:
    """The attributes of edges (`dir`) and of nodes: unobserved or not, and unnamed; None if not stated."""

    dir: str = "forward"
    at: int = 0
    hidden: bool | None = None
    nameless: bool = False


def loads(text: str, file: str = "DOT") -> CausalGraph:
    """The graph in a text in DOT or dagitty's language; `file` names it in errors.

    >>> loads("digraph { season -> {visits price} -> sales; visits -> sales [dir=both] }")
    CausalGraph('season -> visits; season -> price; {visits, price} -> sales; visits <-> sales')
    >>> loads("dag { U [latent] X [exposure] Y [outcome] X -> Y X <- U -> Y }").hidden
    ('U',)
    """
    reader = _DotReader(Scanner(text, file, skip=_SKIP, token=_TOKEN, unquote=_unquote))
    reader.read()
    return reader.graph()


class _DotReader:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner, self.edges, self.of_dagitty = scanner, 0, False
        self.parents: dict[str, dict[str, None]] = {}
        self.pairs: dict[tuple[str, str], None] = {}
        self.hidden: dict[str, bool] = {}
        self.nameless: dict[str, None] = {}

    def graph(self) -> CausalGraph:
        """The parsed graph."""
        causes: dict[str, list[str]] = {name: [] for name in self.nameless}
        for name, before in self.parents.items():
            for cause in before:
                if cause in causes:
                    causes[cause].append(name)
        for name in causes:
            if self.parents[name]:
                raise ModelError(f"A node without a name (hidden=cause) has no causes; {clip(name)} has.")
        parents = {n: [c for c in before if c not in causes] for n, before in self.parents.items() if n not in causes}
        hidden = [name for name, is_so in self.hidden.items() if is_so and name not in causes]
        return CausalGraph(parents, hidden=[*hidden, *self.pairs, *causes.values()])

    def read(self) -> None:
        scanner = self.scanner
        if self.sees_keyword("strict"):
            scanner.take()
        if self.sees_keyword(*_OTHER_KINDS):
            kind = scanner.next.text
            scanner.fail(scanner.next.at, "'digraph' or 'dag'", f"{kind!r}, {_OTHER_KINDS[kind.lower()]}")
        if not self.sees_keyword("digraph", "dag"):
            scanner.fail(scanner.next.at, "'digraph' or 'dag'")
        self.of_dagitty = scanner.take().text.lower() == "dag"
        if not scanner.sees("{"):
            scanner.label("a name or '{'")
        self.statements(0, _Attributes())
        if scanner.next.kind != "end":
            scanner.fail(scanner.next.at, "the end of the file")

    def sees_keyword(self, *words: str) -> bool:
        token = self.scanner.next
        return token.kind == "word" and token.text.lower() in words

    def statements(self, depth: int, inherited: _Attributes) -> dict[str, None]:
        """A list of statements in braces; returns its nodes in order. `inherited` attributes apply to all of them."""
        scanner = self.scanner
        if depth > DEPTH_LIMIT:
            scanner.fail(scanner.next.at, f"at most {DEPTH_LIMIT} groups within each other")
        scanner.expect("{")
        nodes: dict[str, None] = {}
        while not scanner.accept("}"):
            if self.sees_keyword("graph", "node", "edge"):
                inherited = self.attributes(inherited, of=scanner.take().text.lower())
            else:
                nodes |= self.chain(depth, inherited)
            scanner.accept(";")
        return nodes

    def chain(self, depth: int, inherited: _Attributes) -> dict[str, None]:
        """One node or group, or several joined by arrows."""
        scanner = self.scanner
        groups, arrows = [self.group(depth, inherited)], list[Token]()
        if scanner.accept("="):  # graph = attribute
            scanner.label("a value")
            return {}
        self.add(groups[0], inherited)
        while scanner.sees(*_ARROWS):
            arrows.append(scanner.take())
            groups.append(self.group(depth, inherited))
            self.add(groups[-1], inherited)
        if scanner.sees("--"):
            scanner.fail(scanner.next.at, "'->'")
        if arrows:
            edge_attributes = self.attributes(inherited, of="edge")
            for before, arrow, after in zip(groups, arrows, groups[1:], strict=False):
                self.join(before, arrow, after, edge_attributes)
        else:
            self.mark(groups[0], self.attributes(replace(inherited, hidden=None), of="node"))
        return {name: None for group in groups for name in group}

    def add(self, nodes: dict[str, None], inherited: _Attributes) -> None:
        """Add named nodes, some of which may be new."""
        for name in nodes:
            if name not in self.parents:
                self.parents[name] = {}
                self.mark({name: None}, inherited)

    def mark(self, nodes: dict[str, None], attributes: _Attributes) -> None:
        for name in nodes:
            if attributes.hidden is not None:
                self.hidden[name] = attributes.hidden
            if attributes.nameless:
                self.nameless[name] = None

    def join(self, before: dict[str, None], arrow: Token, after: dict[str, None], attributes: _Attributes) -> None:
        """Add the edges of an arrow between groups."""
        self.edges += len(before) * len(after)
        if self.edges > EDGE_LIMIT:
            self.scanner.fail(arrow.at, f"at most {EDGE_LIMIT:,} edges", "more")
        arrow_direction = self.direction(arrow, attributes)
        for a, b in itertools.product(before, after):
            if arrow_direction == "<->":
                self.pairs[a, b] = None
            elif arrow_direction == "->":
                self.parents[b][a] = None
            else:
                self.parents[a][b] = None

    def direction(self, arrow: Token, attributes: _Attributes) -> str:
        """The direction of an edge by its arrow and `dir`."""
        if arrow.text == "->":
            return {"both": "<->", "back": "<-"}.get(attributes.dir, "->")
        if attributes.dir in ("back", "both") and (arrow.text, attributes.dir) != ("<->", "both"):
            self.scanner.fail(attributes.at, f"no dir beside {arrow.text!r}", f"dir={attributes.dir}")
        return arrow.text

    def group(self, depth: int, inherited: _Attributes) -> dict[str, None]:
        scanner = self.scanner
        if self.sees_keyword("subgraph"):
            scanner.take()
            if not scanner.sees("{"):
                scanner.label("a name or '{'")
        if scanner.sees("{"):
            return self.statements(depth + 1, inherited)
        if self.sees_keyword(*_KEYWORDS):
            scanner.fail(scanner.next.at, "a node")
        name = scanner.label("a node, '{' or '}'")
        if not name.text:
            scanner.fail(name.at, "a name", "''")
        while scanner.accept(":"):
            scanner.label("a port")
        return {name.text: None}

    def attributes(self, current: _Attributes, *, of: str) -> _Attributes:
        """The attributes in effect after an attribute list, of nodes, edges or the graph."""
        scanner = self.scanner
        while scanner.accept("["):
            while not scanner.accept("]"):
                attribute = scanner.label("an attribute or ']'")
                value = scanner.label("a value").text.lower() if scanner.accept("=") else ""
                if of == "edge" and attribute.text == "dir":
                    current = self.read_direction(current, attribute, value)
                if of == "node":
                    current = self.read_flag(current, attribute, value)
                if scanner.sees(",", ";"):
                    scanner.take()
        return current

    def read_direction(self, current: _Attributes, attribute: Token, value: str) -> _Attributes:
        if value == "none":
            problem_text = (
                "dir=none, an edge without direction. Write the edge from the cause to the effect, or leave it out"
            )
            self.scanner.fail(attribute.at, "an arrow from a cause to its effect", problem_text)
        return replace(current, dir=value, at=attribute.at)

    def read_flag(self, current: _Attributes, attribute: Token, value: str) -> _Attributes:
        word = _DAGITTYS_SHORT.get(attribute.text, attribute.text) if self.of_dagitty else attribute.text
        if self.of_dagitty and word == "selected":
            problem_text = f"{attribute.text!r}: effects in selected data do not carry over to other data"
            self.scanner.fail(attribute.at, "a variable that is not a selection node", problem_text)
        if word not in _FLAGS:
            return current
        hidden = _FLAGS[word] != (value in _NO)
        return replace(current, hidden=hidden, nameless=current.nameless or (word, value) == ("hidden", CAUSE))


def dumps(graph: graphs.Graph) -> str:
    """A graph (a networkx.DiGraph) in DOT; nodes with states, such as those of `CausalModel.graph`, show them."""
    return "digraph {\n" + "".join(_format_lines(graph)) + "}\n"


def _format_lines(graph: graphs.Graph) -> Iterator[str]:
    nameless = dict.fromkeys(node for node in graph if isinstance(node, tuple) and node[:1] == ("hidden",))
    for name, data in graph.nodes(data=True):
        if name not in nameless:
            yield _format_node(str(name), data)
    for name, data in graph.nodes(data=True):
        for cause in () if name in nameless else data.get("parents", graph.predecessors(name)):
            if cause not in nameless:
                yield f"  {_quote(str(cause))} -> {_quote(str(name))};\n"
    for number, node in enumerate(nameless):
        yield from _format_hidden_cause(graph, node, number)


def _format_node(name: str, data: dict[str, object]) -> str:
    states = data.get("states")
    label_text = "\n".join([name, ", ".join(map(str, states))]) if states else name  # type: ignore[call-overload]
    label = label_text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    is_hidden = data.get("hidden") is True or data.get("observed") == "no"
    return f'  {_quote(name)} [label="{label}"{", observed=no, style=dashed" if is_hidden else ""}];\n'


def _format_hidden_cause(graph: graphs.Graph, node: Hashable, number: int) -> Iterator[str]:
    effects = [_quote(str(effect)) for effect in graph.successors(node)]
    if len(effects) == 2:
        yield f"  {effects[0]} -> {effects[1]} [dir=both, style=dashed];\n"
        return
    name, used_names = f"hidden {number + 1}", set(map(str, graph))
    while name in used_names:
        name += "'"
    yield f'  {_quote(name)} [label="", hidden={CAUSE}, shape=point, style=dashed];\n'
    yield from (f"  {_quote(name)} -> {effect} [style=dashed];\n" for effect in effects)


def _unquote(text: str) -> str:
    # Names as Graphviz reads them: a quote is escaped, a backslash is not, and a line that ends in a backslash
    # continues.
    return re.sub(r"\\(?:(\\)|(\")|\n)", lambda m: "\\\\" if m[1] else (m[2] or ""), text[1:-1])


def _quote(text: str) -> str:
    quoted = '"' + text.replace('"', '\\"') + '"'
    token_match = _TOKEN.fullmatch(quoted)
    if not token_match or _unquote(quoted) != text:
        raise ModelError(f"DOT cannot hold the name {clip(text)}: a backslash stands before a quote or at its end.")
    return quoted
