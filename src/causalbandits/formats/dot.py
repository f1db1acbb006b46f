"""DOT, the language of Graphviz, and dagitty's, which is much like it: the graph alone, without tables.

Read are `digraph`s and dagitty's `dag`s: names, chains a -> b <- c, groups {a b} -> c and subgraphs. `a <-> b`, or an
edge with dir=both, says that both have a hidden cause; dir=back turns an arrow. A node is hidden if it says `latent`,
`unobserved`, `hidden` or `observed=no`, in a `dag` also `l` or `u`. Other attributes, and ports, are skipped. HTML
labels, strings joined with +, edges without direction, and dagitty's other kinds of graph are refused.
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
    "mag": "a maximal ancestral graph, whose arrows say what is an ancestor of what",
    "pag": "a partial ancestral graph, which stands for many graphs",
    "pdag": "a partially directed graph, which stands for many graphs",
}
_FLAGS = {"latent": True, "unobserved": True, "hidden": True, "observed": False}
"""What a node may say of itself, and whether it is hidden if that is so."""
_DAGITTYS_SHORT = {"l": "latent", "u": "unobserved", "s": "selected"}
_NO = ("no", "false", "0")
CAUSE = "cause"
"""`hidden=cause`: a node without a name, there to draw a hidden cause of three variables or more."""


@dataclass(frozen=True)
class _Said:
    """What attributes say of edges (`dir`) and of nodes: hidden or not, and without a name; None where nothing."""

    dir: str = "forward"
    at: int = 0
    hidden: bool | None = None
    nameless: bool = False


def loads(text: str, file: str = "DOT") -> CausalGraph:
    """The graph that a text in DOT or dagitty's language draws; `file` names it in errors.

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
        """What was read."""
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
        if self.keyword("strict"):
            scanner.take()
        if self.keyword(*_OTHER_KINDS):
            kind = scanner.next.text
            scanner.fail(scanner.next.at, "'digraph' or 'dag'", f"{kind!r}, {_OTHER_KINDS[kind.lower()]}")
        if not self.keyword("digraph", "dag"):
            scanner.fail(scanner.next.at, "'digraph' or 'dag'")
        self.of_dagitty = scanner.take().text.lower() == "dag"
        if not scanner.sees("{"):
            scanner.label("a name or '{'")
        self.statements(0, _Said())
        if scanner.next.kind != "end":
            scanner.fail(scanner.next.at, "the end of the file")

    def keyword(self, *words: str) -> bool:
        token = self.scanner.next
        return token.kind == "word" and token.text.lower() in words

    def statements(self, depth: int, said: _Said) -> dict[str, None]:
        """A list of statements in braces; the nodes that it names, in order. `said` is what holds for all of them."""
        scanner = self.scanner
        if depth > DEPTH_LIMIT:
            scanner.fail(scanner.next.at, f"at most {DEPTH_LIMIT} groups within each other")
        scanner.expect("{")
        nodes: dict[str, None] = {}
        while not scanner.accept("}"):
            if self.keyword("graph", "node", "edge"):
                said = self.attributes(said, of=scanner.take().text.lower())
            else:
                nodes |= self.chain(depth, said)
            scanner.accept(";")
        return nodes

    def chain(self, depth: int, said: _Said) -> dict[str, None]:
        """One node or group, or several joined by arrows."""
        scanner = self.scanner
        groups, arrows = [self.group(depth, said)], list[Token]()
        if scanner.accept("="):  # graph = attribute
            scanner.label("a value")
            return {}
        self.add(groups[0], said)
        while scanner.sees(*_ARROWS):
            arrows.append(scanner.take())
            groups.append(self.group(depth, said))
            self.add(groups[-1], said)
        if scanner.sees("--"):
            scanner.fail(scanner.next.at, "'->'")
        if arrows:
            own = self.attributes(said, of="edge")
            for before, arrow, after in zip(groups, arrows, groups[1:], strict=False):
                self.join(before, arrow, after, own)
        else:
            self.mark(groups[0], self.attributes(replace(said, hidden=None), of="node"))
        return {name: None for group in groups for name in group}

    def add(self, nodes: dict[str, None], said: _Said) -> None:
        """Nodes that are named, perhaps for the first time."""
        for name in nodes:
            if name not in self.parents:
                self.parents[name] = {}
                self.mark({name: None}, said)

    def mark(self, nodes: dict[str, None], said: _Said) -> None:
        for name in nodes:
            if said.hidden is not None:
                self.hidden[name] = said.hidden
            if said.nameless:
                self.nameless[name] = None

    def join(self, before: dict[str, None], arrow: Token, after: dict[str, None], said: _Said) -> None:
        """The edges of an arrow between groups."""
        self.edges += len(before) * len(after)
        if self.edges > EDGE_LIMIT:
            self.scanner.fail(arrow.at, f"at most {EDGE_LIMIT:,} edges", "more")
        way = self.way(arrow, said)
        for a, b in itertools.product(before, after):
            if way == "<->":
                self.pairs[a, b] = None
            elif way == "->":
                self.parents[b][a] = None
            else:
                self.parents[a][b] = None

    def way(self, arrow: Token, said: _Said) -> str:
        """What an arrow says together with `dir`."""
        if arrow.text == "->":
            return {"both": "<->", "back": "<-"}.get(said.dir, "->")
        if said.dir in ("back", "both") and (arrow.text, said.dir) != ("<->", "both"):
            self.scanner.fail(said.at, f"no dir beside {arrow.text!r}", f"dir={said.dir}")
        return arrow.text

    def group(self, depth: int, said: _Said) -> dict[str, None]:
        scanner = self.scanner
        if self.keyword("subgraph"):
            scanner.take()
            if not scanner.sees("{"):
                scanner.label("a name or '{'")
        if scanner.sees("{"):
            return self.statements(depth + 1, said)
        if self.keyword(*_KEYWORDS):
            scanner.fail(scanner.next.at, "a node")
        name = scanner.label("a node, '{' or '}'")
        if not name.text:
            scanner.fail(name.at, "a name", "''")
        while scanner.accept(":"):
            scanner.label("a port")
        return {name.text: None}

    def attributes(self, said: _Said, *, of: str) -> _Said:
        """What holds after the attributes that follow, of nodes, edges or the graph."""
        scanner = self.scanner
        while scanner.accept("["):
            while not scanner.accept("]"):
                attribute = scanner.label("an attribute or ']'")
                value = scanner.label("a value").text.lower() if scanner.accept("=") else ""
                if of == "edge" and attribute.text == "dir":
                    said = self.directed(said, attribute, value)
                if of == "node":
                    said = self.described(said, attribute, value)
                if scanner.sees(",", ";"):
                    scanner.take()
        return said

    def directed(self, said: _Said, attribute: Token, value: str) -> _Said:
        if value == "none":
            found = "dir=none, an edge without direction: write it from the cause to the effect, or leave it out"
            self.scanner.fail(attribute.at, "an arrow from cause to effect", found)
        return replace(said, dir=value, at=attribute.at)

    def described(self, said: _Said, attribute: Token, value: str) -> _Said:
        word = _DAGITTYS_SHORT.get(attribute.text, attribute.text) if self.of_dagitty else attribute.text
        if self.of_dagitty and word == "selected":
            found = f"{attribute.text!r}: data that were chosen by it tell of no other"
            self.scanner.fail(attribute.at, "a variable that selects nothing", found)
        if word not in _FLAGS:
            return said
        hidden = _FLAGS[word] != (value in _NO)
        return replace(said, hidden=hidden, nameless=said.nameless or (word, value) == ("hidden", CAUSE))


def dumps(graph: graphs.Graph) -> str:
    """A graph (a networkx.DiGraph) in DOT; nodes with states, such as those of `CausalModel.graph`, show them."""
    return "digraph {\n" + "".join(_lines(graph)) + "}\n"


def _lines(graph: graphs.Graph) -> Iterator[str]:
    nameless = dict.fromkeys(node for node in graph if isinstance(node, tuple) and node[:1] == ("hidden",))
    for name, data in graph.nodes(data=True):
        if name not in nameless:
            yield _node(str(name), data)
    for name, data in graph.nodes(data=True):
        for cause in () if name in nameless else data.get("parents", graph.predecessors(name)):
            if cause not in nameless:
                yield f"  {_quote(str(cause))} -> {_quote(str(name))};\n"
    for number, node in enumerate(nameless):
        yield from _hidden_cause(graph, node, number)


def _node(name: str, data: dict[str, object]) -> str:
    states = data.get("states")
    shown = "\n".join([name, ", ".join(map(str, states))]) if states else name  # type: ignore[call-overload]
    label = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    is_hidden = data.get("hidden") is True or data.get("observed") == "no"
    return f'  {_quote(name)} [label="{label}"{", observed=no, style=dashed" if is_hidden else ""}];\n'


def _hidden_cause(graph: graphs.Graph, node: Hashable, number: int) -> Iterator[str]:
    effects = [_quote(str(effect)) for effect in graph.successors(node)]
    if len(effects) == 2:
        yield f"  {effects[0]} -> {effects[1]} [dir=both, style=dashed];\n"
        return
    name, taken = f"hidden {number + 1}", set(map(str, graph))
    while name in taken:
        name += "'"
    yield f'  {_quote(name)} [label="", hidden={CAUSE}, shape=point, style=dashed];\n'
    yield from (f"  {_quote(name)} -> {effect} [style=dashed];\n" for effect in effects)


def _unquote(text: str) -> str:
    # As Graphviz reads names: a quote is escaped, a backslash is not, and a line that ends in one goes on.
    return re.sub(r"\\(?:(\\)|(\")|\n)", lambda m: "\\\\" if m[1] else (m[2] or ""), text[1:-1])


def _quote(text: str) -> str:
    quoted = '"' + text.replace('"', '\\"') + '"'
    found = _TOKEN.fullmatch(quoted)
    if not found or _unquote(quoted) != text:
        raise ModelError(f"DOT cannot hold the name {clip(text)}: a backslash stands before a quote or at its end.")
    return quoted
