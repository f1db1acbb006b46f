"""How a decision comes about, by the study's mode; once for the first time, and again whenever it is derived anew.

online     the policy decides
shadow     a baseline is done, and what the policy would have done is logged
uniform    all that may be chosen is as likely
frozen     the policy decides by what it had learnt when it was frozen; outcomes are recorded all the same
paused     nothing is decided for now; outcomes are taken
closed     nothing is decided any more; outcomes of what was decided are taken
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from causalbandits.errors import BudgetError, InterventionError, StudyModeError
from causalbandits.policies import AnyPolicy, Choice
from causalbandits.problem import Action, Problem, Purse
from causalbandits.study.propensities import Mixed, actions_of, any_of, open_situation, with_floor

Mode = Literal["online", "shadow", "uniform", "frozen", "paused", "closed"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Inquiry(NamedTuple):
    """What is known, and which actions may be chosen (None: all that the problem allows)."""

    problem: Problem
    eligible: Sequence[Action] | None


class Mind(NamedTuple):
    """Who decides, what was learnt, what there is to spend, and the floor under all chances."""

    policy: AnyPolicy
    statistic: Any
    purse: Purse | None
    floor: float


class Made(NamedTuple):
    """A decision."""

    choice: Choice
    mixed: Mixed | None = None
    would: Action | None = None


def made(mode: str, baseline: Action | None, asked: Inquiry, mind: Mind, rng: np.random.Generator) -> Made:
    """The decision that a mode makes."""
    if mode == "uniform":
        return _uniform(asked, mind, rng)
    if mode == "shadow":
        assert baseline is not None
        return _in_shadow(baseline, asked, mind, rng)
    if mode in ("paused", "closed"):
        raise StudyModeError(
            f"The study is {mode}: nothing is decided"
            + (" until it is online again. " if mode == "paused" else " any more. ")
            + "Outcomes of earlier decisions are taken."
        )
    return _by_policy(asked, mind, rng)


def _by_policy(asked: Inquiry, mind: Mind, rng: np.random.Generator) -> Made:
    policy, statistic, purse, floor = mind
    problem, eligible = asked
    situation = policy.situation(problem) if eligible is None else policy.situation(problem, eligible=eligible)
    if purse is not None:
        return Made(policy.paced(situation, statistic, rng, purse))
    choice = policy.chosen(situation, statistic, rng)
    if not floor:
        return Made(choice)
    among = actions_of(open_situation(policy, problem, eligible, statistic))
    return Made(*with_floor(choice, floor, among, rng))


def _uniform(asked: Inquiry, mind: Mind, rng: np.random.Generator) -> Made:
    situation = open_situation(mind.policy, *asked, mind.statistic)
    among = actions_of(situation)
    if mind.purse is not None:
        assert situation.costs is not None
        among = tuple(among[i] for i in mind.purse.pace(situation.costs, rng.random).positions)
    mixed = Mixed((), 1.0, among)
    return Made(mixed.choice(any_of(among, rng)), None if mind.purse is not None else mixed)


def _in_shadow(baseline: Action, asked: Inquiry, mind: Mind, rng: np.random.Generator) -> Made:
    problem, eligible = asked
    situation = open_situation(mind.policy, problem, eligible, mind.statistic)
    if not situation.allows(baseline):
        raise InterventionError(f"In the shadow {baseline} is done, which may not be chosen here. Nothing was decided.")
    cost = problem.cost(baseline)
    if mind.purse is not None:
        assert situation.costs is not None
        if not mind.purse.pace(situation.costs, rng.random).affords(cost):
            raise BudgetError(f"In the shadow {baseline} is done, which costs {cost:g}: more than may be spent now.")
    return Made(Choice(baseline, 1.0), None, _by_policy(asked, mind, rng).choice.action)
