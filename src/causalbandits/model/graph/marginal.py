"""Marginalisation of unobserved variables out of a directed acyclic graph, for CPTs learned from what is observed.

The latent projection onto the observed variables has arrows and, where an unobserved variable is a common cause,
bidirected edges; these divide the observed variables into districts. In an order of causes before effects, the joint
distribution of the observed variables is the product of P(v | Markov pillow of v): the pillow has the members of v's
district that come before v, and the parents of v and of these members (Tian and Pearl 2002). An unobserved variable
with a single observed child leaves its parents to that child, and nothing else changes.

A factor P(v | pillow) is the same under every intervention on variables outside of v's district. So the pillows make a
directed acyclic graph of the observed variables that has the true P(. | do(a)) for every intervention on variables
that have no bidirected edge, and whose CPTs can be counted in every round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from causalbandits.model.graph.admg import ADMG
from causalbandits.model.graph.dag import Graph
from causalbandits.model.graph.identification import DataRegime


class MarginalGraph(NamedTuple):
    """The observed variables with their Markov pillows, and the districts in which unobserved common causes join them.

    >>> import networkx as nx
    >>> marginal_graph(nx.DiGraph([("k", "m"), ("v", "u"), ("u", "m"), ("m", "y")]), ["k", "v", "m", "y"]).parents
    {'k': (), 'v': (), 'm': ('k', 'v'), 'y': ('m',)}
    >>> marginal_graph(nx.DiGraph([("k", "m"), ("u", "m"), ("u", "n")]), ["k", "m", "n"])
    MarginalGraph(parents={'k': (), 'm': ('k',), 'n': ('k', 'm')}, confounded=(('m', 'n'),))
    """

    parents: dict[str, tuple[str, ...]]
    confounded: tuple[tuple[str, ...], ...]
    """The districts of two variables or more."""


def marginal_graph(graph: Graph, observed: Sequence[str]) -> MarginalGraph:
    """The graph of the observed variables; in a district, those listed first come first if the arrows allow it."""
    admg = ADMG.projection(graph, observed)
    pillows = {factor.variable: factor.conditioning for factor in DataRegime(admg, 0).conditionals()}
    districts = (admg.names_of(district) for district in admg.districts(admg.all_nodes))
    return MarginalGraph(pillows, tuple(district for district in districts if len(district) > 1))
