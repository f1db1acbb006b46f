"""Conversion to and from other libraries, which are imported only when one of their models is created."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from causalbandits.errors import CausalBanditsError, ModelError, short_repr
from causalbandits.formats._draft import state_labels
from causalbandits.model import CausalModel, Variable


def from_pgmpy(network: Any) -> CausalModel:
    """Convert a pgmpy DiscreteBayesianNetwork, in which every node must have a CPD."""
    variables = []
    for name in _query_network(network, "pgmpy", lambda: list(network.nodes())):
        cpd = _query_network(network, "pgmpy", lambda name=name: network.get_cpds(name))
        if cpd is None:
            raise ModelError(f"The node {name!r} needs a CPD: add it with network.add_cpds(...).")
        parents = list(cpd.variables[1:])
        table = np.moveaxis(np.asarray(cpd.values, dtype=np.float64), 0, -1)
        variables.append(Variable(name, cpd.state_names[name], parents=parents, table=table))
        for parent in parents:
            cpd_states, parent_states = (
                list(cpd.state_names[parent]),
                list(network.get_cpds(parent).state_names[parent]),
            )
            if cpd_states != parent_states:
                raise ModelError(
                    f"The CPD of {name!r} has the states {cpd_states} of {parent!r}, and the CPD of {parent!r} has "
                    f"{parent_states}."
                )
    return CausalModel(variables)


def to_pgmpy(model: CausalModel) -> Any:
    """Convert a model to a pgmpy DiscreteBayesianNetwork; states keep their types."""
    models, factors = _import_library("pgmpy", "pgmpy.models"), _import_library("pgmpy", "pgmpy.factors.discrete")
    network_class = getattr(models, "DiscreteBayesianNetwork", None) or models.BayesianNetwork  # its name before 1.0
    bayes_net = network_class()
    bayes_net.add_nodes_from(model.names)
    bayes_net.add_edges_from((parent, v.name) for v in model.variables.values() for parent in v.parents)
    for v in model.variables.values():
        rows = v.table.reshape(-1, len(v.states))
        bayes_net.add_cpds(
            factors.TabularCPD(
                v.name,
                len(v.states),
                rows.T,
                evidence=list(v.parents) or None,
                evidence_card=[len(model[parent].states) for parent in v.parents] or None,
                state_names={name: list(model[name].states) for name in (v.name, *v.parents)},
            )
        )
    return bayes_net


def from_pyagrum(network: Any) -> CausalModel:
    """Convert a pyAgrum BayesNet; states are its labels, variables keep its order."""
    variables = []
    for node in _query_network(network, "pyAgrum", lambda: sorted(network.nodes())):
        variable, cpt = network.variable(node), network.cpt(node)
        parents = list(cpt.names)[1:]
        # The axes of its arrays are its names in reverse order, so that its own axis comes last.
        table = np.asarray(cpt.toarray(), dtype=np.float64).transpose([*range(len(parents))[::-1], len(parents)])
        variables.append(Variable(variable.name(), variable.labels(), parents=parents, table=table))
    return CausalModel(variables)


def to_pyagrum(model: CausalModel) -> Any:
    """Convert a model to a pyAgrum BayesNet; states that are not text are converted to text."""
    library = _import_library("pyagrum", "pyagrum")
    network = library.BayesNet()
    for v in model.variables.values():
        network.add(library.LabelizedVariable(v.name, v.name, state_labels(v)))
    for v in model.variables.values():
        for parent in v.parents:
            network.addArc(parent, v.name)
    for v in model.variables.values():
        axes = [*v.parents, v.name]
        backwards = [axes.index(name) for name in reversed(network.cpt(v.name).names)]
        network.cpt(v.name)[:] = np.ascontiguousarray(v.table.transpose(backwards))
    return network


def _import_library(package: str, module: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise CausalBanditsError(f"This conversion requires {package}: pip install {package}. ({error})") from None


def _query_network(network: Any, library: str, query: Any) -> Any:
    try:
        return query()
    except (AttributeError, TypeError):
        raise ModelError(f"A discrete Bayesian network of {library} was expected; got {short_repr(network)}.") from None
