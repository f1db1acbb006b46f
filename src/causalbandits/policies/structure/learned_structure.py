"""What is known of the causal structure after some outcomes: probabilities of edges and of parent sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from causalbandits._typing import is_real
from causalbandits.errors import PolicyError
from causalbandits.model import CausalGraph, State

SHOWN_SETS = 3
"""Of so many parent sets a structure prints the probability."""


@dataclass(frozen=True)
class LearnedStructure:
    """The posterior distribution of the causal structure.

    An edge into a variable says that it is in the variable's parent set. Parent sets separate the variable from all
    variables before it, in the order in which they are listed; they need not be its direct causes.

    Attributes:
        reward: The name of the reward.
        rounds: The number of outcomes that were learned from.
        edges: The probability of each possible edge, by cause and effect.
        parent_sets: The probability of each candidate parent set, by variable.
    """

    reward: str
    rounds: int
    edges: Mapping[tuple[str, str], float]
    parent_sets: Mapping[str, Mapping[tuple[str, ...], float]]
    values: Mapping[str, tuple[State, ...]]

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

    def graph(self, at_least: float = 0.5) -> CausalGraph:
        """The graph of the edges whose probability is large enough, to look at, to correct, or to hand on.

        Args:
            at_least: The smallest probability of an edge.

        Returns:
            The graph, with the reward in it.

        Raises:
            PolicyError: If `at_least` is not a number from 0 to 1.
        """
        if not is_real(at_least) or not 0 <= at_least <= 1:
            raise PolicyError(f"at_least must be a probability, from 0 to 1; got {at_least!r}.")
        parents: dict[str, list[str]] = {name: [] for name in (*self.values, self.reward)}
        for (cause, effect), probability in self.edges.items():
            if probability >= at_least:
                parents[effect].append(cause)
        return CausalGraph(parents, values=dict(self.values))

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready form.

        Returns:
            The reward, the number of outcomes, and the edges with their probabilities.
        """
        return {
            "reward": self.reward,
            "outcomes": self.rounds,
            "edges": [
                {"cause": cause, "effect": effect, "probability": probability}
                for (cause, effect), probability in self.edges.items()
            ],
        }

    def __repr__(self) -> str:
        lines = [f"Structure after {self.rounds} outcomes: probability of an edge"]
        for effect, sets in reversed(self.parent_sets.items()):
            into = {cause: p for (cause, target), p in self.edges.items() if target == effect}
            ranked = sorted(into, key=lambda cause: -into[cause])
            edges = ", ".join(f"{cause} {into[cause]:.2f}" for cause in ranked) or "none possible"
            likeliest = sorted(sets.items(), key=lambda item: -item[1])[:SHOWN_SETS]
            shown = "; ".join(f"{{{', '.join(names)}}} {p:.2f}" for names, p in likeliest)
            lines += [f"Into {effect}: {edges}", f"  Likeliest parent sets: {shown}"]
        return "\n".join(lines)
