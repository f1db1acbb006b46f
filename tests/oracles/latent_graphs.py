"""The graphs H1 to H8, and random graphs and models with hidden causes."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import networkx as nx
import numpy as np

import causalbandits as cb

EXAMPLES = {
    "H1": "A -> B -> Y; A -> Y; B <-> Y",
    "H2": "A -> B -> Y; C -> Y; A <-> C; B <-> Y",
    "H3": "A -> B -> C -> Y; A -> C; B <-> C; A <-> Y",
    "H4": "A -> B -> D -> Y; C -> D; C -> Y; B <-> C; D <-> Y",
    "H5": "A -> B -> C -> Y; D -> C; D -> E -> Y; B <-> E; C <-> Y; A <-> D",
    "H6": "A -> B -> D -> E -> Y; A -> C -> D; C -> Y; B <-> C; D <-> Y",
    "H7": "A -> B -> C -> D -> Y; F -> E -> D; F -> Y; A <-> C; B <-> D; E <-> Y",
    "H8": "A -> C; B -> C -> D -> Y; B -> Y; A <-> D; C <-> Y; B <-> C",
}


def example(name):
    """One of the graphs, its names in alphabetical order."""
    graph = cb.CausalGraph.from_text(EXAMPLES[name])
    return cb.CausalGraph({n: graph.parents[n] for n in sorted(graph.parents)}, hidden=graph.hidden)


def random_graph(rng, size, arrows=0.4, pairs=0.3):
    """Variables V0, V1, ..., Y, of which earlier ones may cause later ones, in a shuffled order."""
    names = [f"V{i}" for i in range(size - 1)] + ["Y"]
    parents = {b: [a for a in names[:i] if rng.random() < arrows] for i, b in enumerate(names)}
    hidden = [pair for pair in itertools.combinations(names, 2) if rng.random() < pairs]
    order = [names[i] for i in rng.permutation(size)]
    return cb.CausalGraph({name: parents[name] for name in order}, hidden=hidden)


def random_model(rng, graph, states=2, sharp=0.5):
    """A whole model of a graph, with a variable of its own for each hidden cause."""
    causes = {group: f"U{i}" for i, group in enumerate(graph.groups)}
    variables = [cb.Variable(name, range(states), table=rng.dirichlet([sharp] * states)) for name in causes.values()]
    for name, before in graph.parents.items():
        parents = [*before, *(cause for group, cause in causes.items() if name in group)]
        table = rng.dirichlet([sharp] * states, size=[states] * len(parents))
        variables.append(cb.Variable(name, range(states), parents=parents, table=table))
    return cb.CausalModel(variables)


def joint(model, do=()):
    """P(everything | do), an axis per variable in the model's order, by brute force."""
    fixed = dict(do)
    axis = {name: i for i, name in enumerate(model.names)}
    shape = [len(model[name].states) for name in model.names]
    table = np.ones(shape)
    for name in model.names:
        own = model[name]
        factor = own.table if name not in fixed else np.broadcast_to(
            np.eye(len(own.states))[own.code(fixed[name])], own.table.shape)  # fmt: skip
        axes = [axis[parent] for parent in own.parents] + [axis[name]]
        order = np.argsort(axes)
        view = [1] * len(shape)
        for a in axes:
            view[a] = shape[a]
        table = table * factor.transpose(order).reshape(view)
    return table


def distribution(model, names, do=()):
    """P(names | do), an axis per name."""
    table = joint(model, do)
    kept = [model.names.index(name) for name in names]
    others = tuple(i for i in range(table.ndim) if i not in kept)
    return table.sum(axis=others).transpose(np.argsort(np.argsort(kept)))


class CoinWorlds(NamedTuple):
    """Many worlds of one graph in which only coins are random: each variable of two values is a function of its causes,
    of the coins of its hidden causes and, where it is a root, of one of its own."""

    graph: cb.CausalGraph
    inputs: dict[str, list]
    functions: dict[str, np.ndarray]
    """A row for each world, an entry for each configuration of the inputs."""
    coins: dict[tuple, np.ndarray]
    """How often each coin shows 1, world by world."""

    @classmethod
    def drawn(cls, rng, graph, number):
        """Sums modulo 2, in which to set anything in between spoils what hidden causes cancel, and any functions."""
        own = [(name,) for name, parents in graph.parents.items() if not parents]
        coins = {group: rng.choice([0.5, 0.7], number) for group in [*graph.groups, *own]}
        inputs = {n: [*parents, *(c for c in coins if n in c)] for n, parents in graph.parents.items()}
        functions = {}
        for name, causes in inputs.items():
            bits = np.array(list(np.ndindex(*[2] * len(causes))), dtype=int).reshape(2 ** len(causes), -1)
            sums = rng.integers(0, 2, (number, len(causes))) @ bits.T + rng.integers(0, 2, (number, 1))
            anything = rng.integers(0, 2, (number, len(bits)))
            functions[name] = np.where(rng.random((number, 1)) < 0.6, sums % 2, anything)
        return cls(graph, inputs, functions, coins)

    def means(self, do):
        """P(Y=1 | do) in every world, coin by coin."""
        number, faces = len(self.functions["Y"]), list(np.ndindex(*[2] * len(self.coins)))
        shown = dict(zip(self.coins, np.array(faces, dtype=int).T, strict=True))
        weight = np.ones((number, len(faces)))
        for coin, chance in self.coins.items():
            weight = weight * np.where(shown[coin], chance[:, None], 1 - chance[:, None])
        values = {coin: np.broadcast_to(own, weight.shape) for coin, own in shown.items()}
        for name in nx.topological_sort(nx.DiGraph(self.graph.graph.subgraph(self.graph.parents))):
            code = np.zeros(weight.shape, dtype=int)
            for cause in self.inputs[name]:
                code = 2 * code + values[cause]
            found = np.take_along_axis(self.functions[name], code, 1)
            values[name] = np.full(weight.shape, do[name]) if name in do else found
        return (values["Y"] * weight).sum(axis=1)

    def best_by_set(self, sets):
        """The best mean of the settings of each set, a column for each world."""
        settings = [[dict(zip(own, v, strict=True)) for v in np.ndindex(*[2] * len(own))] for own in sets]
        return np.array([np.max([self.means(do) for do in own], axis=0) for own in settings])

    def model(self, world):
        """One of the worlds as a model with a table for everything."""
        names = {coin: f"coin{i}" for i, coin in enumerate(self.coins)}
        variables = [
            cb.Variable(names[coin], [0, 1], table=[1 - chance[world], chance[world]])
            for coin, chance in self.coins.items()
        ]
        for name, causes in self.inputs.items():
            table = np.eye(2)[self.functions[name][world]].reshape([2] * len(causes) + [2])
            variables.append(cb.Variable(name, [0, 1], parents=[names.get(c, c) for c in causes], table=table))
        return cb.CausalModel(variables)
