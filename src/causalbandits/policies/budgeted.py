"""A decision under a budget where something is known: scores in all contexts, and what this one gets of the money."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from causalbandits.errors import PolicyError
from causalbandits.policies.feedback import Choice, over_the_coin, pick_place
from causalbandits.problem import Offer, Problem, Purse, Scores, Situation, occasions_of, shared_mixtures
from causalbandits.problem.projection import TIE

if TYPE_CHECKING:
    from causalbandits.policies.base import AnyPolicy

WEIGHED_SINGLY = 2**16
"""Of no more actions than this the best is found that a budget pays for in every round."""


def situations_to_come(policy: AnyPolicy, problem: Problem) -> list[Situation]:
    """Where decisions will be made if all of the context is known; one situation where there is none."""
    if not problem.context or problem.known:
        return [policy.situation(problem)]
    everything = occasions_of(problem, (0,) * len(problem.context))
    return [policy.situation(problem.in_context(codes)) for codes in everything.codes]


def rationed(policy: AnyPolicy, situation: Situation, statistic: Any, rng: np.random.Generator, purse: Purse) -> Choice:
    """One of the two actions that a context plays when all of them share what is left of a budget.

    Values are scores of the reward alone, in every context by the same draw. Of several draws, each makes a mixture of
    its own, and one of them is played, each draw being as likely.
    """
    _refuse_own_decisions(policy)
    problem, known = situation.problem, situation.known
    assert known is not None
    own = policy.permitted(situation, statistic)
    assert own.costs is not None
    pace, expected = purse.pace(own.costs, rng.random), occasions_of(problem, known)
    shares = dict(zip(expected.codes, expected.shares(purse.came).tolist(), strict=True))
    share = shares.pop(known, 0.0)
    others = [policy.permitted(policy.situation(problem.in_context(codes)), statistic) for codes in shares]
    here, *there = policy.score_each([s.free for s in (own, *others)], statistic, rng)
    offers = [_offers(share, here, own, pace.positions)]
    for share, other, scores in zip(shares.values(), others, there, strict=True):
        assert other.costs is not None
        offers.append(_offers(share, scores, other, purse.payable(other.costs)))
    taken = [pace.taken(shared_mixtures(of_draw, purse.a_round_left)[0]) for of_draw in zip(*offers, strict=True)]
    if here.values.ndim == 1:
        return Choice(own.action(taken[0]), None if policy.randomised else pace.chance)
    return over_the_coin(pick_place(taken, own.action, rng), pace, own.action)


def weighed_singly(situation: Situation) -> Situation:
    """Where the best action is looked for that is paid for in every round: among all, unless they are too many.

    One that a mixture makes up for, and so is not searched, may be the best of these.
    """
    problem = situation.problem
    return problem.situation(every=True) if problem.actions.size <= WEIGHED_SINGLY else situation


def _offers(share: float, scores: Scores, situation: Situation, positions: Any) -> list[Offer]:
    """What a context can do, by each draw."""
    scores.refuse_unless_finite()
    assert situation.costs is not None
    costs, values = situation.costs[positions], np.atleast_2d(scores.values)[:, positions]
    ties = TIE * np.maximum(1.0, np.broadcast_to(scores.scale, len(values)))
    return [Offer(share, own, costs, tie) for own, tie in zip(values, ties.tolist(), strict=True)]


def _refuse_own_decisions(policy: AnyPolicy) -> None:
    if not type(policy).decide.__module__.startswith("causalbandits."):
        raise PolicyError(
            f"{policy.id}: under a budget that contexts share, an action is taken by its score and what the other "
            "contexts could do with the money, not by a decide() of your own: leave that, the budget or the context "
            "out."
        )
