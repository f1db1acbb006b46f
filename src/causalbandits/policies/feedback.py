"""The results of a policy (a choice, an incumbent, bounds) and its inputs (outcomes, and their sums)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from causalbandits._typing import Array, Z
from causalbandits.errors import SizeError
from causalbandits.problem import Action, PacingRule, Scores, Situation

Support = tuple[tuple[Action, float], ...]
"""The actions that a decision was drawn from, each with its probability."""


class Choice(NamedTuple):
    """The action to play.

    Attributes:
        action: The action.
        propensity: The probability with which it was chosen, given the samples of `support`; 1 for a deterministic
            choice, None if the policy cannot tell.
        support: The actions that the decision was drawn from, with their probabilities; None for a deterministic
            choice, or if the policy cannot tell.
    """

    action: Action
    propensity: float | None = None
    support: Support | None = None


class Outcome(NamedTuple):
    """The outcome of a decision, in codes (positions of values).

    Attributes:
        action: The action.
        z: The codes of the reward's parents.
        reward: The reward.
        successes: The reward for policies that count successes: if it is strictly between 0 and 1, a Bernoulli draw
            that depends on the decision's number only, so that updates are deterministic.
        number: The number of the decision.
        propensity: The probability with which the action was chosen.
        support: The actions that the decision was drawn from, with their probabilities.
        observed: The codes of further observed variables, by name.
        context: The codes of the context, -1 for unknown values; None if nothing was known.
    """

    action: Action
    z: Z
    reward: float
    successes: float
    number: int = 0
    propensity: float | None = None
    support: Support | None = None
    observed: Mapping[str, int] | None = None
    context: Z | None = None


def sample_choice(actions: Sequence[Action], rng: np.random.Generator) -> Choice:
    """One of the best actions of several posterior samples, each sample with equal probability.

    Marginally, this is Thompson sampling. Given the samples, the probability of an action is exactly its share of them.
    """
    distinct = list(dict.fromkeys(actions))
    return sample_choice_by_position([distinct.index(action) for action in actions], distinct.__getitem__, rng)


def sample_choice_by_position(best: Sequence[int], action: Callable[[int], Action], rng: np.random.Generator) -> Choice:
    """As `sample_choice`, for actions given by their positions in the search."""
    draws = len(best)
    shares = {best[0]: draws} if best.count(best[0]) == draws else Counter(best)
    support = tuple([(action(place), count / draws) for place, count in shares.items()])
    position = best[int(rng.random() * draws)]
    return Choice(action(position), shares[position] / draws, support)


def with_pacing_propensity(choice: Choice, pacing: PacingRule | None, action: Callable[[int], Action]) -> Choice:
    """The choice with its probability under a budget, which turns each of several posterior samples into a mixture of
    two actions.

    One random number selects between the two, the same for all samples. Given the samples, but not this number, the
    probability of an action is exactly its mean share of the mixtures.
    """
    if pacing is None:
        return choice
    support = tuple([(action(place), share) for place, share in pacing.position_probabilities().items()])
    return Choice(choice.action, dict(support)[choice.action], support)


AUDIT_LIMIT = 2**12
"""The largest number of actions that are audited; each of them is then part of every decision's support."""


def with_audit(
    choice: Choice, share: float, situation: Situation, rng: np.random.Generator, positions: Sequence[int]
) -> Choice:
    """The choice, or with probability `share` a uniformly random action among these positions; with its exact
    propensity.
    """
    size = len(positions)
    if size > AUDIT_LIMIT:
        raise SizeError(
            f"audit= periodically tries each of the {size} searched actions; the limit is {AUDIT_LIMIT}. Leave out "
            "audit=, or allow fewer actions."
        )
    propensities = {situation.action(position): share / size for position in positions}
    for action, probability in choice.support or ():
        propensities[action] += (1.0 - share) * probability
    played = situation.action(positions[int(rng.integers(size))]) if rng.random() < share else choice.action
    return Choice(played, propensities[played], tuple(propensities.items()))


def sample_tied(scores: Scores, action: Callable[[int], Action], rng: np.random.Generator) -> Choice:
    """One of the actions with the largest score, with equal probability; no random number is drawn if it is unique.

    The probabilities of more than `AUDIT_LIMIT` actions are not listed.
    """
    tied = scores.tied_positions().tolist()
    if len(tied) == 1:
        return Choice(action(tied[0]), 1.0)
    chosen = action(tied[int(rng.random() * len(tied))])
    if len(tied) > AUDIT_LIMIT:
        return Choice(chosen)
    share = 1.0 / len(tied)
    return Choice(chosen, share, tuple([(action(position), share) for position in tied]))


def randomised_rounding(reward: float, seed: np.random.SeedSequence, decision_number: int) -> float:
    """A Bernoulli draw (success or failure) for a reward between 0 and 1, determined by the seed and the decision
    number.
    """
    if not 0.0 < reward < 1.0:
        return reward
    seed_sequence = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, decision_number))
    return 1.0 if np.random.default_rng(seed_sequence).random() < reward else 0.0


class RunnerUp(NamedTuple):
    """The action with the second-largest estimated mean reward minus cost.

    Attributes:
        action: The action.
        mean: The estimated mean reward, without subtracting the cost.
        cost: The cost.
    """

    action: Action
    mean: float
    cost: float = 0.0


class Incumbent(NamedTuple):
    """The action with the largest estimated mean reward minus cost.

    Attributes:
        action: The action.
        mean: The estimated mean reward, without subtracting the cost.
        seen: The probability of a configuration with rewards; None if it has no meaning.
        runner_up: The second-best action; None if there is none.
    """

    action: Action
    mean: float
    seen: float | None = None
    runner_up: RunnerUp | None = None


def runner_up_of(situation: Situation, position: int, means: Array) -> RunnerUp:
    """The action at a position as the runner-up."""
    action = situation.action(position)
    return RunnerUp(action, float(means[position]), situation.problem.cost(action))


def two_best_positions(scores: Scores) -> tuple[int, int | None]:
    """The positions of the best and of the second best."""
    first = scores.best_position()
    if len(scores.values) == 1:
        return first, None
    remaining = scores.values.copy()
    remaining[first] = remaining.min() - 1.0
    return first, Scores(remaining, scores.scale).best_position()


class Bounds(NamedTuple):
    """Bounds on an action's mean reward.

    Attributes:
        lower: The lower bound.
        upper: The upper bound.
        kind: "credible" or "confidence".
        assumes: The assumptions.
    """

    lower: float
    upper: float
    kind: str
    assumes: str


class Sums(NamedTuple):
    """Sums over the outcomes of one action and configuration in one context."""

    rounds: int = 0
    total: float = 0.0
    squares: float = 0.0
    successes: float = 0.0


class OutcomeSums(dict[tuple[Z | None, Action, Z], Sums]):
    """Sums by (context, action, z), for combinations that occurred.

    >>> from causalbandits import zoo
    >>> do = zoo.email_campaign().problem.actions.action(0)
    >>> OutcomeSums.of(Outcome(do, (0, 0, 0), reward, reward) for reward in (1.0, 0.0, 1.0))
    {(None, do(), (0, 0, 0)): Sums(rounds=3, total=2.0, squares=2.0, successes=2.0)}
    """

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> OutcomeSums:
        """The sums of these outcomes."""
        sums = cls()
        for outcome in outcomes:
            sums.add(outcome)
        return sums

    def add(self, outcome: Outcome) -> None:
        """Add one outcome."""
        key, y = (outcome.context, outcome.action, outcome.z), outcome.reward
        n, total, squares, successes = self.get(key, Sums())
        self[key] = Sums(n + 1, total + y, squares + y * y, successes + outcome.successes)

    def rows(self) -> Iterator[tuple[Z | None, Action, Z, Sums]]:
        """Rows of context, action, configuration and sums."""
        return ((*key, sums) for key, sums in self.items())
