"""Policies by their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from causalbandits._typing import is_iterable, is_whole
from causalbandits.errors import PolicyError, brief, unknown
from causalbandits.model import FittedModel
from causalbandits.policies.base import AnyPolicy, Policy
from causalbandits.policies.cells import (
    KLUCB,
    UCB,
    CausalGittins,
    CausalIDS,
    CausalKLUCB,
    CausalScreen,
    CausalThompsonSampling,
    CausalTSUCB,
    CausalUCB,
    ThompsonSampling,
    Uniform,
)
from causalbandits.policies.exploration import CausalDesign, CausalElimination, CausalTrackAndStop
from causalbandits.policies.linear import (
    CausalLinearThompsonSampling,
    CausalLinearTSUCB,
    CausalLinearUCB,
    LinTS,
    LinUCB,
)
from causalbandits.policies.robust import HACUCB, GuardedThompsonSampling, ModelsThompsonSampling
from causalbandits.problem import Problem, reachable_configurations
from causalbandits.problem.projection import CELL_LIMIT

POLICIES: dict[str, tuple[type[AnyPolicy], dict[str, Any]]] = {
    "c-design": (CausalDesign, {}),
    "c-elimination": (CausalElimination, {}),
    "c-gittins-beta": (CausalGittins, {"prior": "beta"}),
    "c-gittins-effects": (CausalGittins, {"prior": "main effects"}),
    "c-gittins-gaussian": (CausalGittins, {"prior": "gaussian"}),
    "c-gittins-scaled": (CausalGittins, {"scales": "learnt"}),
    "c-ids-beta": (CausalIDS, {"prior": "beta"}),
    "c-ids-gaussian": (CausalIDS, {"prior": "gaussian"}),
    "c-ids-scaled": (CausalIDS, {"scales": "learnt"}),
    "c-kl-ucb": (CausalKLUCB, {}),
    "c-screen-beta": (CausalScreen, {"prior": "beta"}),
    "c-screen-gaussian": (CausalScreen, {"prior": "gaussian"}),
    "c-screen-scaled": (CausalScreen, {"scales": "learnt"}),
    "c-track-and-stop": (CausalTrackAndStop, {}),
    "c-ts-beta": (CausalThompsonSampling, {"prior": "beta"}),
    "c-ts-beta-guarded": (GuardedThompsonSampling, {"prior": "beta"}),
    "c-ts-beta-learnt": (CausalThompsonSampling, {"prior": "beta", "tables": "learnt"}),
    "c-ts-beta-scaled": (CausalThompsonSampling, {"prior": "beta", "scales": "learnt"}),
    "c-ts-effects": (CausalThompsonSampling, {"prior": "main effects"}),
    "c-ts-gaussian": (CausalThompsonSampling, {"prior": "gaussian"}),
    "c-ts-gaussian-guarded": (GuardedThompsonSampling, {"prior": "gaussian"}),
    "c-ts-gaussian-learnt": (CausalThompsonSampling, {"prior": "gaussian", "tables": "learnt"}),
    "c-ts-gaussian-learnt-scaled": (
        CausalThompsonSampling,
        {"prior": "gaussian", "tables": "learnt", "scales": "learnt"},
    ),
    "c-ts-gaussian-scaled": (CausalThompsonSampling, {"prior": "gaussian", "scales": "learnt"}),
    "c-ts-models": (ModelsThompsonSampling, {}),
    "c-ts-ucb-beta": (CausalTSUCB, {"prior": "beta"}),
    "c-ts-ucb-gaussian": (CausalTSUCB, {"prior": "gaussian"}),
    "c-ts-ucb-scaled": (CausalTSUCB, {"scales": "learnt"}),
    "c-ucb": (CausalUCB, {}),
    "c-ucb-scaled": (CausalUCB, {"scales": "learnt"}),
    "cl-ts": (CausalLinearThompsonSampling, {"regressor": "expected"}),
    "cl-ts-observed": (CausalLinearThompsonSampling, {"regressor": "observed"}),
    "cl-ts-ucb": (CausalLinearTSUCB, {"regressor": "expected"}),
    "cl-ts-ucb-observed": (CausalLinearTSUCB, {"regressor": "observed"}),
    "cl-ucb": (CausalLinearUCB, {"regressor": "expected"}),
    "cl-ucb-observed": (CausalLinearUCB, {"regressor": "observed"}),
    "hac-ucb": (HACUCB, {}),
    "kl-ucb": (KLUCB, {}),
    "lin-ts": (LinTS, {}),
    "lin-ucb": (LinUCB, {}),
    "ts-beta": (ThompsonSampling, {"prior": "beta"}),
    "ts-beta-scaled": (ThompsonSampling, {"prior": "beta", "scales": "learnt"}),
    "ts-gaussian": (ThompsonSampling, {"prior": "gaussian"}),
    "ts-gaussian-scaled": (ThompsonSampling, {"prior": "gaussian", "scales": "learnt"}),
    "ucb": (UCB, {}),
    "ucb-scaled": (UCB, {"scales": "learnt"}),
    "uniform": (Uniform, {}),
}


def as_policy(given: object) -> AnyPolicy:
    """A policy, given as itself or by its id."""
    if isinstance(given, str):
        return policy(given)
    if isinstance(given, Policy):
        return given
    raise PolicyError(f"A policy is an object such as CausalUCB() or an id such as 'c-ucb'; got {given!r}.")


def policy(id: str, **parameters: Any) -> AnyPolicy:
    """The policy with this id, with parameters of your own.

    >>> policy("c-ts-beta")
    CausalThompsonSampling(prior='beta', noise_scale=1.0, prior_scale=1.0, successes=1.0, failures=1.0, \
scales='given', draws=1, tables='known', trust=None)
    >>> policy("c-ucb", noise_scale=0.1).noise_scale
    0.1
    """
    if not isinstance(id, str) or id not in POLICIES:
        raise PolicyError(unknown("policy", id, POLICIES))
    kind, fixed = POLICIES[id]
    clash = sorted(set(fixed) & set(parameters))
    if clash:
        raise PolicyError(f"The id {id!r} already fixes {', '.join(clash)}.")
    try:
        return kind(**fixed, **parameters)
    except TypeError:
        known = [field.name for field in fields(kind) if field.name not in fixed]
        wrong = [name for name in parameters if name not in known]
        raise PolicyError(unknown(f"parameter of {id!r}:", wrong[0] if wrong else parameters, known)) from None


Policies = AnyPolicy | str | Iterable[AnyPolicy | str] | Mapping[str, AnyPolicy | str]
"""One or more, as objects or ids, under names of your own if you like."""


def named(policies: Policies) -> dict[str, AnyPolicy]:
    """Policies by the names under which their results are kept: ids, with parameters where ids repeat."""
    if isinstance(policies, Mapping):
        found = {str(name): as_policy(given) for name, given in policies.items()}
    else:
        single = isinstance(policies, Policy | str) or not is_iterable(policies)
        listed = [as_policy(given) for given in ([policies] if single else policies)]  # type: ignore[union-attr]
        ids = [p.id for p in listed]
        found = {}
        for p in listed:
            name = p.id if ids.count(p.id) == 1 else str(p)
            if name in found:
                raise PolicyError(f"Two policies are both {name}. Give them names: {{'name': policy, ...}}.")
            found[name] = p
    if not found:
        raise PolicyError("There must be at least one policy.")
    return found


# The policy where none is chosen: by what is known of the tables, and by how outcomes come.
#
# | tables | outcomes | policy | why |
# |---|---|---|---|
# | known, few actions and configurations | one after another | `PROMPT` | the least regret of all that need no
# telling |
# | known, many of them | one after another | `MANY` | the same without main effects, which take long there |
# | known | late, or by batches | `LATE` | the same idea, drawn anew for each decision |
# | fitted to data, or not known | any | `TABLES_LEARNT` | draws the tables, too |
# | known, more configurations than rounds | any | `LINEAR` | a number per feature of the parents |
# | none: a number per action is learnt | any | `BY_ACTIONS` | nothing else is there to learn |
#
# What rewards are like, 0 or 1 or any number, a problem does not know: the scales are learnt. docs/regret.md has the
# measurements.

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


def default_policy(problem: Problem, *, horizon: int | None = None, late: bool = False) -> AnyPolicy:
    """The policy for a problem, where nothing is known of the reward.

    `horizon` is how many rounds there will be, if that is known; `late` says that decisions are made before the
    outcomes of earlier ones are known: by batches, by several processes, or because outcomes take their time.

    >>> from causalbandits import zoo
    >>> default_policy(zoo.email_campaign().problem).id, default_policy(zoo.email_campaign().problem, late=True).id
    ('c-gittins-effects', 'c-screen-scaled')
    """
    return default_with_reason(problem, horizon=horizon, late=late).policy


def chosen_policy(
    problem: Problem, given: AnyPolicy | str | None, *, horizon: int | None = None, late: bool = False
) -> AnyPolicy:
    """A policy that was given, told for how many rounds; or the default."""
    if given is None:
        return default_policy(problem, horizon=horizon, late=late)
    if late is not False:
        raise PolicyError(f"late= chooses among the policies that are used by default; leave it out with {given!r}.")
    _check_horizon(horizon)
    return as_policy(given) if horizon is None else as_policy(given).for_horizon(int(horizon))


def default_with_reason(problem: Problem, *, horizon: int | None = None, late: bool = False) -> Default:
    """The same, with the reason."""
    if not isinstance(problem, Problem):
        raise PolicyError(f"A policy is chosen for a Problem; got {brief(problem)}.")
    _check_horizon(horizon)
    if not isinstance(late, bool):
        raise PolicyError(f"late must be True or False; got {late!r}.")
    chosen = _default(problem, horizon, late)
    return chosen if horizon is None else chosen._replace(policy=chosen.policy.for_horizon(int(horizon)))


def _default(problem: Problem, horizon: int | None, late: bool) -> Default:
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


def _few(problem: Problem) -> bool:
    return problem.actions.size * problem.configurations <= FEW_PAIRS and sum(problem.shape) <= FEW_STATES


def _check_horizon(horizon: object) -> None:
    if horizon is not None and (not is_whole(horizon) or horizon < 1):
        raise PolicyError(f"horizon, the number of rounds, must be a whole number, 1 or more; got {horizon!r}.")
