"""Decisions: what may be chosen (a context, eligible actions, a batch), and what is to be done now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from causalbandits._typing import is_iterable
from causalbandits.errors import InterventionError
from causalbandits.model import Intervention, State
from causalbandits.policies import AnyPolicy, situation_for
from causalbandits.problem import Action, Problem, Situation
from causalbandits.problem.actions import PREDICATE_LIMIT

Context = Mapping[str, State]

Eligible = Iterable[Mapping[str, State]] | Callable[[Intervention], bool]
"""Which actions may be chosen in one decision: a list of interventions, or a function that says yes or no."""

BATCH_LIMIT = 2**20
"""So many decisions may be asked for at once."""


class Decision(NamedTuple):
    """What to do now; `id` is for telling the reward, whenever it comes.

    `propensity` is the probability with which it was chosen, where the policy can tell: 1 for UCB, a share of the
    draws for Thompson sampling with `draws=` above 1.
    """

    id: int
    intervention: Intervention
    propensity: float | None = None


def restrict_to_eligible(policy: AnyPolicy, problem: Problem, eligible: Eligible) -> Situation:
    """The situation in which only what is eligible may be chosen."""
    return situation_for(policy, problem, eligible=eligible_actions(problem, eligible))


def eligible_actions(problem: Problem, eligible: Eligible) -> list[Action] | Iterable[Mapping[str, State]]:
    """What may be chosen, as it was given, or those actions that a function says yes to."""
    if callable(eligible):
        space = problem.actions
        space.refuse_enumeration("eligible as a function is asked about every action", PREDICATE_LIMIT)
        all_actions = map(space.action, range(space.size))
        return [action for action in all_actions if _is_eligible(eligible, action.intervention)]
    if not is_iterable(eligible) or isinstance(eligible, str | Mapping):
        raise InterventionError(
            f"eligible must be a list of interventions, or a function that says yes or no to one; got {eligible!r}."
        )
    return eligible


def _is_eligible(eligible: Callable[[Intervention], bool], intervention: Intervention) -> bool:
    try:
        answer = eligible(intervention)
    except TypeError as error:
        raise InterventionError(f"eligible, a function, must take an intervention; it raised {error!r}.") from error
    if not isinstance(answer, bool | np.bool_):
        raise InterventionError(
            f"eligible, a function, must say True or False to every intervention; to {intervention} it says {answer!r}."
        )
    return bool(answer)
