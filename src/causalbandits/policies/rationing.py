"""A decision under a budget where something is known: scores in all contexts, and what this one gets of the money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from causalbandits.errors import PolicyError
from causalbandits.policies.outcome import Choice
from causalbandits.problem.budget import Purse
from causalbandits.problem.occasions import occasions_of
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import TIE, Scores
from causalbandits.problem.sharing import Offer, shared_mixtures
from causalbandits.problem.situation import Situation

if TYPE_CHECKING:
    from causalbandits.policies.base import AnyPolicy


def situations_to_come(policy: AnyPolicy, problem: CausalBandit) -> list[Situation]:
    """Where decisions will be made if all of the context is known; one situation where there is none."""
    if not problem.context or problem.known:
        return [policy.situation(problem)]
    everything = occasions_of(problem, (0,) * len(problem.context))
    return [policy.situation(problem.in_context(codes)) for codes in everything.codes]


def rationed(policy: AnyPolicy, situation: Situation, statistic: Any, rng: np.random.Generator, purse: Purse) -> Choice:
    """One of the two actions that a context plays when all of them share what is left of a budget.

    Values are scores of the reward alone, in every context by the same draw.
    """
    _refuse_own_decisions(policy)
    problem, known = situation.problem, situation.known
    assert situation.costs is not None
    assert known is not None
    pace, expected = purse.pace(situation.costs, rng.random), occasions_of(problem, known)
    shares = dict(zip(expected.codes, expected.shares(purse.came).tolist(), strict=True))
    own = shares.pop(known, 0.0)
    others = [policy.permitted(policy.situation(problem.in_context(codes)), statistic) for codes in shares]
    here, *there = policy.score_each([s.free for s in (situation, *others)], statistic, rng)
    offers = [_offer(own, here, situation, pace.positions)]
    for share, other, scores in zip(shares.values(), others, there, strict=True):
        assert other.costs is not None
        offers.append(_offer(share, scores, other, purse.payable(other.costs)))
    action = situation.action(pace.taken(shared_mixtures(offers, purse.a_round_left)[0]))
    return Choice(action, None if policy.randomised else pace.chance)


def _offer(share: float, scores: Scores, situation: Situation, positions: Any) -> Offer:
    scores.refuse_unless_finite()
    assert situation.costs is not None
    tie = TIE * max(1.0, float(scores.scale))
    return Offer(share, scores.values[positions], situation.costs[positions], tie)


def _refuse_own_decisions(policy: AnyPolicy) -> None:
    if policy.in_order:
        raise PolicyError(
            f"The policy {policy.id!r} makes its evidence from the chances of its decisions, and a budget that "
            "contexts share changes these: leave the budget or the context out, or take a policy without a guard."
        )
    if not type(policy).decide.__module__.startswith("causalbandits."):
        raise PolicyError(
            f"{policy.id}: under a budget that contexts share, an action is taken by its score and what the other "
            "contexts could do with the money, not by a decide() of your own: leave that, the budget or the context "
            "out."
        )
