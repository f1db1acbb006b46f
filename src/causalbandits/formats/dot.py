"""DOT, the language of Graphviz: the graph alone, for drawing and for `fit`.

Read are `digraph`s of names, chains a -> b -> c, groups {a b} -> c and subgraphs; attributes and ports are skipped.
HTML labels, strings joined with +, undirected graphs, and edges whose attribute `dir` says that they are no arrow from
cause to effect are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import networkx as nx

from causalbandits.errors import ModelError
from causalbandits.formats._limits import DEPTH_LIMIT, EDGE_LIMIT
from causalbandits.formats._text import Scanner, clip
from causalbandits.model import graph as graphs

_SKIP = re.compile(r"(?:\s++|//[^\n]*+|^#[^\n]*+|/\*(?s:.*?)\*/)*+", re.MULTILINE)
BEGINNING = re.compile(
    rb"(?:\xef\xbb\xbf)?+SKIP(?:strict\bSKIP)?+digraph\b".replace(b"SKIP", _SKIP.pattern.encode()),
    re.MULTILINE | re.IGNORECASE,
)
_TOKEN = re.compile(
    r'(?P<quoted>"(?:[^"\\]|\\.)*+")|(?P<mark>->|--|[{}\[\];,=:+<>])'
    r"|(?P<word>-?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?+)(?![\w.])|\w++)",
    re.DOTALL,
)
_OTHER_EDGES = {
    "both": "which says that both have a hidden cause. Hidden causes are not yet supported: draw the cause as a node",
    "back": "an arrow drawn backwards: write the edge from the cause to the effect",
    "none": "an edge without direction: write it from the cause to the effect, or leave it out",
}
"""What `dir` may say of an edge other than "forward"."""
_KEYWORDS = ("graph", "node", "edge", "digraph", "subgraph", "strict")


def loads(text: str, file: str = "DOT") -> graphs.Graph:
    """The directed acyclic graph (a networkx.DiGraph of names) that a text in DOT draws; `file` names it in errors.

    >>> sorted(loads("digraph { season -> {visits price} -> sales }").edges)
    [('price', 'sales'), ('season', 'price'), ('season', 'visits'), ('visits', 'sales')]
    """
    reader = _DotReader(Scanner(text, file, skip=_SKIP, token=_TOKEN, unquote=_unquote))
    reader.read()
    cycle = graphs.find_cycle(reader.graph)
    if cycle:
        raise ModelError(f"The graph must have no cycle; it has {' -> '.join(cycle)}.")
    return reader.graph


class _DotReader:
    def __init__(self, scanner: Scanner) -> None:
        self.scanner, self.graph, self.arrows = scanner, nx.DiGraph(), 0

    def read(self) -> None:
        scanner = self.scanner
        if self.keyword("strict"):
            scanner.take()
        if not self.keyword("digraph"):
            scanner.fail(scanner.next.at, "'digraph'")
        scanner.take()
        if not scanner.sees("{"):
            scanner.label("a name or '{'")
        self.statements(0)
        if scanner.next.kind != "end":
            scanner.fail(scanner.next.at, "the end of the file")

    def keyword(self, *words: str) -> bool:
        token = self.scanner.next
        return token.kind == "word" and token.text.lower() in words

    def statements(self, depth: int) -> dict[str, None]:
        """A list of statements in braces; the nodes that it names, in order."""
        scanner = self.scanner
        if depth > DEPTH_LIMIT:
            scanner.fail(scanner.next.at, f"at most {DEPTH_LIMIT} groups within each other")
        scanner.expect("{")
        nodes: dict[str, None] = {}
        while not scanner.accept("}"):
            if self.keyword("graph", "node", "edge"):
                self.attributes(of_edges=scanner.take().text.lower() == "edge")
            else:
                nodes |= self.chain(depth)
            scanner.accept(";")
        return nodes

    def chain(self, depth: int) -> dict[str, None]:
        """One node or group, or several joined by arrows."""
        scanner = self.scanner
        group = self.group(depth)
        if scanner.accept("="):  # graph = attribute
            scanner.label("a value")
            return {}
        self.graph.add_nodes_from(group)
        nodes, edges = dict(group), scanner.sees("->")
        while scanner.sees("->"):
            at = scanner.take().at
            following = self.group(depth)
            self.arrows += len(group) * len(following)
            if self.arrows > EDGE_LIMIT:
                scanner.fail(at, f"at most {EDGE_LIMIT:,} edges", "more")
            self.graph.add_edges_from((a, b) for a in group for b in following)
            nodes |= following
            group = following
        if scanner.sees("--"):
            scanner.fail(scanner.next.at, "'->'")
        self.attributes(of_edges=edges)
        return nodes

    def group(self, depth: int) -> dict[str, None]:
        scanner = self.scanner
        if self.keyword("subgraph"):
            scanner.take()
            if not scanner.sees("{"):
                scanner.label("a name or '{'")
        if scanner.sees("{"):
            return self.statements(depth + 1)
        if self.keyword(*_KEYWORDS):
            scanner.fail(scanner.next.at, "a node")
        name = scanner.label("a node, '{' or '}'")
        if not name.text:
            scanner.fail(name.at, "a name", "''")
        while scanner.accept(":"):
            scanner.label("a port")
        return {name.text: None}

    def attributes(self, *, of_edges: bool) -> None:
        scanner = self.scanner
        while scanner.accept("["):
            while not scanner.accept("]"):
                attribute = scanner.label("an attribute or ']'")
                if scanner.accept("="):
                    value = scanner.label("a value").text.lower()
                    if of_edges and attribute.text == "dir" and value in _OTHER_EDGES:
                        scanner.fail(
                            attribute.at, "an arrow from cause to effect", f"dir={value}, {_OTHER_EDGES[value]}"
                        )
                if scanner.sees(",", ";"):
                    scanner.take()


def dumps(graph: graphs.Graph) -> str:
    """A graph in DOT; nodes with states, such as those of `CausalModel.graph`, show them."""
    return "digraph {\n" + "".join(_lines(graph)) + "}\n"


def _lines(graph: graphs.Graph) -> Iterator[str]:
    for name, data in graph.nodes(data=True):
        shown = "\n".join([str(name), ", ".join(map(str, data["states"]))]) if data.get("states") else str(name)
        label = shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        yield f'  {_quote(str(name))} [label="{label}"];\n'
    for a, b in graph.edges:
        yield f"  {_quote(str(a))} -> {_quote(str(b))};\n"


def _unquote(text: str) -> str:
    # As Graphviz reads names: a quote is escaped, a backslash is not, and a line that ends in one goes on.
    return re.sub(r"\\(?:(\\)|(\")|\n)", lambda m: "\\\\" if m[1] else (m[2] or ""), text[1:-1])


def _quote(text: str) -> str:
    quoted = '"' + text.replace('"', '\\"') + '"'
    found = _TOKEN.fullmatch(quoted)
    if not found or _unquote(quoted) != text:
        raise ModelError(f"DOT cannot hold the name {clip(text)}: a backslash stands before a quote or at its end.")
    return quoted
