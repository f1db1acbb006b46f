"""The graphs H1 to H8, and random graphs and models with hidden causes."""

from __future__ import annotations

import itertools

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
