"""The policy where none is chosen: by what is known of the tables, and by how outcomes come.

| tables | outcomes | policy | why |
|---|---|---|---|
| known, few actions and configurations | one after another | `PROMPT` | the least regret of all that need no telling |
| known, many of them | one after another | `MANY` | the same without main effects, which take long there |
| known | late, or by batches | `LATE` | the same idea, drawn anew for each decision |
| fitted to data, or not known | any | `TABLES_LEARNT` | draws the tables, too |
| known, more configurations than rounds | any | `LINEAR` | a number per feature of the parents |
| none: a number per action is learnt | any | `BY_ACTIONS` | nothing else is there to learn |

What rewards are like, 0 or 1 or any number, a problem does not know: the scales are learnt. docs/regret.md has the
measurements.
"""

from __future__ import annotations

from typing import NamedTuple

from causalbandits._types import is_whole
from causalbandits.errors import PolicyError, brief
from causalbandits.model.fitted import FittedModel
from causalbandits.policies.base import AnyPolicy
from causalbandits.policies.registry import as_policy, policy
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import CELL_LIMIT
from causalbandits.problem.reachable import reachable_configurations

PROMPT = policy("c-gittins-effects")
MANY = policy("c-gittins-scaled")
LATE = policy("c-screen-scaled")
TABLES_LEARNT = policy("c-ts-gaussian-learnt-scaled")
LINEAR = policy("cl-ts-observed")
BY_ACTIONS = policy("ts-gaussian-scaled")

FEW_PAIRS, FEW_STATES = 2**18, 64
"""Where actions times configurations, and the parents' states, are no more, comparing all of them in every round is
quick, and so is learning effects."""


class Default(NamedTuple):
    """A policy, and why it is the one to start with."""

    policy: AnyPolicy
    reason: str


def default_policy(problem: CausalBandit, *, horizon: int | None = None, late: bool = False) -> AnyPolicy:
    """The policy for a problem, where nothing is known of the reward.

    `horizon` is how many rounds there will be, if that is known; `late` says that decisions are made before the
    outcomes of earlier ones are known: by batches, by several processes, or because outcomes take their time.

    >>> from causalbandits import zoo
    >>> default_policy(zoo.email_campaign().problem).id, default_policy(zoo.email_campaign().problem, late=True).id
    ('c-gittins-effects', 'c-screen-scaled')
    """
    return default_with_reason(problem, horizon=horizon, late=late).policy


def chosen_policy(
    problem: CausalBandit, given: AnyPolicy | str | None, *, horizon: int | None = None, late: bool = False
) -> AnyPolicy:
    """A policy that was given, told for how many rounds; or the default."""
    if given is None:
        return default_policy(problem, horizon=horizon, late=late)
    if late is not False:
        raise PolicyError(f"late= chooses among the policies that are used by default; leave it out with {given!r}.")
    _check_horizon(horizon)
    return as_policy(given) if horizon is None else as_policy(given).for_horizon(int(horizon))


def default_with_reason(problem: CausalBandit, *, horizon: int | None = None, late: bool = False) -> Default:
    """The same, with the reason."""
    if not isinstance(problem, CausalBandit):
        raise PolicyError(f"A policy is chosen for a CausalBandit; got {brief(problem)}.")
    _check_horizon(horizon)
    if not isinstance(late, bool):
        raise PolicyError(f"late must be True or False; got {late!r}.")
    chosen = _default(problem, horizon, late)
    return chosen if horizon is None else chosen._replace(policy=chosen.policy.for_horizon(int(horizon)))


def _default(problem: CausalBandit, horizon: int | None, late: bool) -> Default:
    if problem.learns == "actions":
        return Default(BY_ACTIONS, "a number per action is learnt, and there is nothing else to go by")
    if isinstance(problem.knowledge, FittedModel) and problem.configurations <= CELL_LIMIT:
        return Default(TABLES_LEARNT, "the tables are not known for sure, and it learns them")
    if reachable_configurations(problem) > (CELL_LIMIT if horizon is None else min(CELL_LIMIT, horizon)):
        return Default(LINEAR, "there are more configurations than rounds")
    if late:
        return Default(LATE, "it draws anew for each decision while outcomes are late")
    if _few(problem):
        return Default(PROMPT, "it loses least of those that need not be told anything of the reward")
    return Default(MANY, "it loses least of those that are quick with so many actions and configurations")


def _few(problem: CausalBandit) -> bool:
    return problem.actions.size * problem.configurations <= FEW_PAIRS and sum(problem.shape) <= FEW_STATES


def _check_horizon(horizon: object) -> None:
    if horizon is not None and (not is_whole(horizon) or horizon < 1):
        raise PolicyError(f"horizon, the number of rounds, must be a whole number, 1 or more; got {horizon!r}.")
