"""C-TS with learned structure: Thompson sampling over parent sets, CPTs and mean rewards.

    draw a parent set of the reward, and one of each observed variable on the way, by their posterior probabilities
    draw the CPTs and the mean rewards that they need
    play argmax_a sum_s P(s | a) theta_s

Actions that differ only in variables without effect under the draw have the same value. Such ties are broken by further
draws of everything: a rule such as "the first" would leave some actions untried for as long as small sets are likely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from causalbandits._typing import Array, Codes, is_real
from causalbandits.errors import PolicyError
from causalbandits.model import CausalGraph, State
from causalbandits.policies.base import FamilyPolicy, validate_samples
from causalbandits.policies.feedback import (
    Bounds,
    Choice,
    Incumbent,
    Outcome,
    runner_up_of,
    sample_choice_by_position,
    two_best_positions,
)
from causalbandits.policies.structure.parent_sets import ParentSetCounts, ParentSets, RewardModel
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import require_context, validate_one_of
from causalbandits.problem import Action, Problem, Scores, Situation, StructurePrior

TIE_BREAKS = 8
"""Ties are broken by so many further draws at most; then the first of the actions that still tie is played."""

INTERVAL_DRAWS, INTERVAL_SEED = 2000, 0
"""Estimates and intervals are made of so many draws, always the same ones."""


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
        for effect, sets in reversed(list(self.parent_sets.items())):
            into = {cause: p for (cause, target), p in self.edges.items() if target == effect}
            ranked = sorted(into, key=lambda cause: -into[cause])
            edges = ", ".join(f"{cause} {into[cause]:.2f}" for cause in ranked) or "none possible"
            likeliest = sorted(sets.items(), key=lambda item: -item[1])[:SHOWN_SETS]
            shown = "; ".join(f"{{{', '.join(names)}}} {p:.2f}" for names, p in likeliest)
            lines += [f"Into {effect}: {edges}", f"  Likeliest parent sets: {shown}"]
        return "\n".join(lines)


class StructureLayout:
    """The arrays of a problem whose structure is learned: candidate sets, and the values of each action's variables."""

    def __init__(self, problem: Problem) -> None:
        prior = problem.structure_prior
        if prior is None:
            raise PolicyError(
                "The family 'c-ts-structure' learns the causal structure, and this problem's graph is given. Leave the "
                "graph out and name the observed variables, Problem(None, values=...), or declare that it is known "
                "partly, known='partly'."
            )
        self.names = (*problem.context, *problem.manipulable, *prior.observed)
        self.parent_sets = ParentSets(
            prior, self.names, {name: len(problem.variable(name).states) for name in self.names}
        )
        self.n_context = len(problem.context)
        self._manipulable = problem.manipulable
        self.action_codes = problem.actions.array() - 1
        """The values that each action sets, a row each."""

    def codes(self, outcome: Outcome) -> Codes | None:
        """The values of all variables before the reward, in order; None if one of them was not observed."""
        known = dict(zip(self.names[: self.n_context], outcome.context or (), strict=False))
        known |= dict(zip(self._manipulable, (choice - 1 for choice in outcome.action.choices), strict=True))
        known = {**(outcome.observed or {}), **known}
        codes = [known.get(name, -1) for name in self.names]
        return None if min(codes) < 0 else np.array(codes, dtype=np.intp)

    def by_action(self, kept: Sequence[int], values: Array) -> Array:
        """Values by the manipulable variables `kept`, for every action; draws stay on the first axis."""
        columns = tuple(self.action_codes[:, k - self.n_context] for k in kept)
        if not columns:
            return np.repeat(values[:, None], len(self.action_codes), axis=1)
        index: tuple[Any, ...] = (slice(None), *columns)
        return np.asarray(values[index])


def structure_layout(problem: Problem) -> StructureLayout:
    """The arrays of a problem, the same in all contexts."""
    return problem.unconditional.compute_once("structure layout", lambda: StructureLayout(problem.unconditional))


@dataclass(frozen=True, kw_only=True, repr=False)
class StructureThompsonSampling(FamilyPolicy[ParentSetCounts]):
    """Thompson sampling for a problem whose graph is not known: the causal structure is learned with the CPTs.

    Every outcome is evidence about every candidate parent set, of each observed variable and of the reward. It assumes
    that no unobserved variable confounds an observed variable with the reward, and that the reward's parents are among
    the candidate sets.

    >>> from causalbandits import Problem
    >>> problem = Problem(None, reward="click", manipulable={"price": [9, 12]}, values={"page": ["a", "b"]})
    >>> structure_layout(problem).parent_sets.cells
    15

    Args:
        prior: "beta" for rewards in [0, 1], with a Beta(1, 1) prior of each mean; "gaussian" for any rewards, whose
            scales are estimated.
        samples: The number of posterior samples of a decision; with two or more, propensities are logged.

    Raises:
        PolicyError: If an option is out of range.
    """

    family, family_label = "c-ts-structure", "C-TS, learned structure"

    prior: Literal["beta", "gaussian"] = "gaussian"
    samples: int = 1

    def __post_init__(self) -> None:
        validate_one_of("prior", self.prior, ("beta", "gaussian"))
        validate_samples(self.samples)

    @cached_property
    def traits(self) -> Traits:
        is_beta = self.prior == "beta"
        return Traits(
            searches_all=True,
            needs_parents=False,
            needs_context=True,
            learns_cpts=True,
            unit_rewards=is_beta,
            counts_successes=is_beta,
            no_budget="use 'ts(prior=beta)', or a problem with a graph",
        )

    @property
    def _model(self) -> RewardModel:
        return self.prior

    def init(self, problem: Problem) -> ParentSetCounts:
        problem.actions.refuse_enumeration(f"The policy {self.id!r} scores every action")
        return structure_layout(problem).parent_sets.empty()

    def update(self, situation: Situation, statistic: ParentSetCounts, outcome: Outcome) -> None:
        layout = structure_layout(situation.problem)
        codes = layout.codes(outcome)
        if codes is None:
            statistic.unused += 1
            return
        reward = outcome.successes if self.traits.counts_successes else outcome.reward
        layout.parent_sets.add(statistic, codes, reward)

    def _context(self, situation: Situation) -> tuple[int, ...]:
        require_context(self.id, situation.problem)
        return tuple(situation.problem.context_codes or ())

    def _sample(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> Scores:
        """The value of every searched action under one draw of structure, CPTs and means."""
        layout = structure_layout(situation.problem)
        sets = layout.parent_sets
        structure = sets.sample_structure(sets.weights(statistic, self._model), rng)
        kept, values = sets.sample_values(statistic, self._model, structure, self._context(situation), rng, 1)
        return situation.take(layout.by_action(kept, values)[0])

    def score(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> Scores:
        return self._sample(situation, statistic, rng)

    def _best_position(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> int:
        """The position of the best action under a draw; ties are broken by further draws."""
        tied = self._sample(situation, statistic, rng).tied_positions()
        for _ in range(TIE_BREAKS):
            if len(tied) == 1:
                break
            scores = self._sample(situation, statistic, rng)
            tied = tied[Scores(scores.values[tied], scores.scale).tied_positions()]
        return int(tied[0])

    def decide(self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator) -> Choice:
        best = [self._best_position(situation, statistic, rng) for _ in range(self.samples)]
        if self.samples == 1:
            return Choice(situation.action(best[0]))
        return sample_choice_by_position(best, situation.action, rng)

    def structure(self, problem: Problem, statistic: ParentSetCounts) -> LearnedStructure:
        """The posterior distribution of the causal structure."""
        sets = structure_layout(problem).parent_sets
        prior = problem.structure_prior
        assert prior is not None
        weights = sets.weights(statistic, self._model)
        by_variable = {
            candidate.variable: dict(zip(candidate.sets, probabilities.tolist(), strict=True))
            for candidate, probabilities in zip(prior.candidates, weights, strict=True)
        }
        edges = {
            (cause, effect): math.fsum(p for names, p in distribution.items() if cause in names)
            for effect, distribution in by_variable.items()
            for cause in structure_layout(problem).names
            if any(cause in names for names in distribution)
        }
        values = {name: problem.variable(name).states for name in structure_layout(problem).names}
        return LearnedStructure(prior.reward, statistic.rounds, edges, by_variable, values)

    def concerns(self, problem: Problem, statistic: ParentSetCounts) -> tuple[str, ...]:
        if not statistic.unused:
            return ()
        return (
            f"{statistic.unused} outcomes lack a value of {', '.join(problem.must_observe)} and are not learned from: "
            "parent sets are compared on the same outcomes",
        )

    def sample_values(
        self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator, samples: int
    ) -> Array:
        return situation.take(self._sample_action_values(situation, statistic, rng, samples)).values

    def _sample_action_values(
        self, situation: Situation, statistic: ParentSetCounts, rng: np.random.Generator, draws: int
    ) -> Array:
        """The mean reward of every action of the problem, a row for each draw of a structure, of CPTs and of means."""
        layout, context = structure_layout(situation.problem), self._context(situation)
        sets = layout.parent_sets
        weights = sets.weights(statistic, self._model)
        structures = Counter(sets.sample_structure(weights, rng) for _ in range(draws))
        rows = [
            layout.by_action(*sets.sample_values(statistic, self._model, structure, context, rng, n))
            for structure, n in structures.items()
        ]
        return np.asarray(rng.permutation(np.concatenate(rows)))

    def _estimates(self, situation: Situation, statistic: ParentSetCounts) -> Array:
        rng = np.random.default_rng(INTERVAL_SEED)
        return self._sample_action_values(situation, statistic, rng, INTERVAL_DRAWS)

    def incumbent(self, situation: Situation, statistic: ParentSetCounts) -> Incumbent:
        means = self._estimates(situation, statistic).mean(axis=0)
        scores = situation.take(means)
        first, second = two_best_positions(scores)
        values = situation.without_costs.take(means).values
        runner_up = None if second is None else runner_up_of(situation, second, values)
        return Incumbent(situation.action(first), float(values[first]), None, runner_up)

    def interval(self, situation: Situation, statistic: ParentSetCounts, action: Action, confidence: float) -> Bounds:
        samples = self._estimates(situation, statistic)[:, action.number]
        lower, upper = np.quantile(samples, [(1 - confidence) / 2, (1 + confidence) / 2])
        prior = situation.problem.structure_prior
        assert prior is not None
        return Bounds(
            float(lower),
            float(upper),
            "credible",
            f"{_assumption_about_latent(prior)}; the reward's parents are among the candidate sets of at most "
            f"{prior.max_parents} variables",
        )


def _assumption_about_latent(prior: StructurePrior) -> str:
    if not prior.latent:
        return "no unobserved variable confounds an observed variable with the reward"
    pairs = ", ".join(" and ".join(pair) for pair in prior.latent)
    return (
        f"unobserved variables affect the reward and observed variables only as declared ({pairs}), and no variable "
        "affects one that is listed before it"
    )
