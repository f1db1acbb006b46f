"""The causal structure that a campaign has learned: probabilities of edges and of parent sets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from causalbandits._files import FilePath
from causalbandits._typing import is_real
from causalbandits.errors import PolicyError
from causalbandits.model import CausalGraph, State
from causalbandits.policies import StructureThompsonSampling
from causalbandits.problem import Problem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_SETS, RECORDED_SETS = 3, 100
"""The number of parent sets per variable that a structure prints, and that its record has."""

STRUCTURE_NOTE = (
    "the parent set of the reward separates the actions from the reward. Its variables need not cause the reward."
)
"""The meaning of a parent set, in two sentences."""

OBSERVED_ROLE = "observed"
"""The role of a variable that is observed after the decision; the others are "context" and "manipulable"."""


@dataclass(frozen=True)
class LearnedStructure:
    """The posterior distribution of the causal structure.

    An edge into a variable says that it is in the variable's parent set. Parent sets separate the variable from all
    variables before it, in the order in which they are listed; they need not be its direct causes.

    Attributes:
        reward: The name of the reward.
        rounds: The number of outcomes that were learned from.
        edges: The probability of each possible edge, by cause and effect.
        parent_sets: The probability of each candidate parent set, by variable. A structure that was read over HTTP has
            the 100 likeliest sets of each variable.
        values: The values of each variable before the reward, in order.
        roles: The role of each variable before the reward: "context", "manipulable" or "observed".
        unused: The number of outcomes that were not learned from, because an observed variable is missing.
    """

    reward: str
    rounds: int
    edges: Mapping[tuple[str, str], float]
    parent_sets: Mapping[str, Mapping[tuple[str, ...], float]]
    values: Mapping[str, tuple[State, ...]]
    roles: Mapping[str, str]
    unused: int = 0

    @property
    def must_observe(self) -> tuple[str, ...]:
        """The variables whose values must be reported with every outcome."""
        return tuple(name for name, role in self.roles.items() if role == OBSERVED_ROLE)

    def probability(self, cause: str, effect: str) -> float:
        """The probability of an edge.

        Args:
            cause: The variable that the edge leaves.
            effect: The variable that the edge enters.

        Returns:
            The probability.

        Raises:
            PolicyError: If no candidate parent set has this edge.
        """
        if (cause, effect) not in self.edges:
            raise PolicyError(
                f"{cause!r} -> {effect!r} is no possible edge: {effect!r} comes before {cause!r} in the order, or the "
                "edge is forbidden, or one of them is not a variable of the problem."
            )
        return self.edges[cause, effect]

    def edges_into(self, effect: str) -> list[tuple[str, float]]:
        """The possible edges into a variable.

        Args:
            effect: The variable that the edges enter.

        Returns:
            Pairs of a cause and the probability of its edge, the likeliest first.
        """
        pairs = [(cause, probability) for (cause, target), probability in self.edges.items() if target == effect]
        return sorted(pairs, key=lambda pair: -pair[1])

    def likeliest_sets(self, variable: str, limit: int = SHOWN_SETS) -> list[tuple[tuple[str, ...], float]]:
        """The likeliest parent sets of a variable.

        Args:
            variable: An observed variable, or the reward.
            limit: The largest number of sets.

        Returns:
            Pairs of a set and its probability, the likeliest first; none for a variable without candidate sets.
        """
        return sorted(self.parent_sets.get(variable, {}).items(), key=lambda item: -item[1])[:limit]

    def graph(self, at_least: float = 0.5) -> CausalGraph:
        """The graph of the edges whose probability is large enough, to look at, to correct, or to hand on.

        Args:
            at_least: The smallest probability of an edge.

        Returns:
            The graph, with the reward in it.

        Raises:
            PolicyError: If `at_least` is not a number from 0 to 1.
        """
        parents: dict[str, list[str]] = {name: [] for name in (*self.values, self.reward)}
        for cause, effect in self.likely_edges(at_least):
            parents[effect].append(cause)
        return CausalGraph(parents, values=dict(self.values))

    def likely_edges(self, at_least: float) -> dict[tuple[str, str], float]:
        """The edges whose probability is large enough.

        Args:
            at_least: The smallest probability of an edge.

        Returns:
            The probability by cause and effect.

        Raises:
            PolicyError: If `at_least` is not a number from 0 to 1.
        """
        if not is_real(at_least) or not 0 <= at_least <= 1:
            raise PolicyError(f"at_least must be a probability, from 0 to 1; got {at_least!r}.")
        return {edge: probability for edge, probability in self.edges.items() if probability >= at_least}

    def plot(self, path: FilePath | None = None, *, at_least: float = 0.1) -> Figure:
        """Plot the learned structure: an arrow for each likely edge, with its probability.

        Variables stand in their order, from the context and the manipulable variables to the reward. The width of an
        arrow grows with its probability.

        Args:
            path: Where to write the picture; its ending is the format. Default: it is not written.
            at_least: The smallest probability of an edge that is drawn.

        Returns:
            The figure; a notebook shows it.

        Raises:
            PolicyError: If `at_least` is not a number from 0 to 1.
            StateError: If the picture cannot be written.
        """
        from causalbandits.results.plots import plot_structure

        return plot_structure(self, path, at_least=at_least)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready form, from which `from_record` builds the structure again.

        Returns:
            The reward, the numbers of outcomes, the variables, the edges with their probabilities, and of each variable
            the 100 likeliest parent sets.
        """
        return {
            "reward": self.reward,
            "outcomes": self.rounds,
            "unused": self.unused,
            "must_observe": list(self.must_observe),
            "variables": [
                {"variable": name, "role": self.roles[name], "values": list(states)}
                for name, states in self.values.items()
            ],
            "edges": [
                {"cause": cause, "effect": effect, "probability": probability}
                for (cause, effect), probability in self.edges.items()
            ],
            "parent_sets": [
                {
                    "variable": variable,
                    "likeliest": [
                        {"parents": list(names), "probability": probability}
                        for names, probability in self.likeliest_sets(variable, RECORDED_SETS)
                    ],
                }
                for variable in self.parent_sets
            ],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> LearnedStructure:
        """The structure that `to_record` describes.

        Args:
            record: The record.

        Returns:
            The structure, with the parent sets that the record has.
        """
        return cls(
            reward=record["reward"],
            rounds=record["outcomes"],
            edges={(edge["cause"], edge["effect"]): float(edge["probability"]) for edge in record["edges"]},
            parent_sets={
                one["variable"]: {tuple(own["parents"]): float(own["probability"]) for own in one["likeliest"]}
                for one in record["parent_sets"]
            },
            values={one["variable"]: tuple(map(_decode_state, one["values"])) for one in record["variables"]},
            roles={one["variable"]: one["role"] for one in record["variables"]},
            unused=record["unused"],
        )

    def __repr__(self) -> str:
        lines = [f"Structure after {self.rounds} outcomes: probability of an edge"]
        for effect in reversed(list(self.parent_sets)):
            edges = ", ".join(f"{cause} {p:.2f}" for cause, p in self.edges_into(effect)) or "none possible"
            shown = "; ".join(f"{{{', '.join(names)}}} {p:.2f}" for names, p in self.likeliest_sets(effect))
            lines += [f"Into {effect}: {edges}", f"  Likeliest parent sets: {shown}"]
        if self.unused:
            lines.append(
                f"Outcomes not used: {self.unused}, because a value of {', '.join(self.must_observe)} is missing"
            )
        lines.append(f"Note: {STRUCTURE_NOTE}")
        return "\n".join(lines)


def _decode_state(value: Any) -> State:
    """A value as in JSON, which has lists for tuples."""
    return tuple(map(_decode_state, value)) if isinstance(value, list) else value


def learn_structure(problem: Problem, policy: StructureThompsonSampling, statistic: Any) -> LearnedStructure:
    """The structure that a policy has learned from its statistic."""
    prior = problem.structure_prior
    assert prior is not None
    parent_sets = policy.parent_set_probabilities(problem, statistic)
    names = (*problem.context, *problem.manipulable, *prior.observed)
    edges = {
        (cause, effect): min(1.0, math.fsum(p for members, p in distribution.items() if cause in members))
        for effect, distribution in parent_sets.items()
        for cause in names
        if any(cause in members for members in distribution)
    }
    roles = {
        **dict.fromkeys(problem.context, "context"),
        **dict.fromkeys(problem.manipulable, "manipulable"),
        **dict.fromkeys(prior.observed, OBSERVED_ROLE),
    }
    values = {name: problem.variable(name).states for name in names}
    return LearnedStructure(prior.reward, statistic.rounds, edges, parent_sets, values, roles, statistic.unused)
