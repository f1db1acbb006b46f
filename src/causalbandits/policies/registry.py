"""The policies by their ids, and the default policy of a problem.

The default follows from what is known of the tables, and from how outcomes come:

| tables | outcomes | policy | why |
|---|---|---|---|
| known, few actions and configurations | one after another | `IMMEDIATE_FEEDBACK` | least regret without known scales |
| known, many of them | one after another | `MANY_ACTIONS` | the same without main effects, which take long there |
| known | late, or by batches | `DELAYED_FEEDBACK` | the same idea, drawn anew for each decision |
| fitted to data, or not known | any | `ESTIMATED_TABLES` | draws the tables, too |
| known, more configurations than rounds | any | `MANY_CONFIGURATIONS` | a number per feature of them |
| none: a number per action is learnt | any | `PER_ACTION` | nothing else is there to learn |

A problem does not know what rewards are like, 0 or 1 or any number: the scales are estimated. docs/regret.md has the
measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from causalbandits._typing import is_integer, is_iterable
from causalbandits.errors import PolicyError, short_repr, unknown_name_message
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
from causalbandits.policies.posteriors import can_store_main_effects
from causalbandits.policies.robust import HACUCB, GuardedThompsonSampling, ModelsThompsonSampling
from causalbandits.problem import Problem, count_reachable_configurations
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
    "cl-ts-observed-scaled": (CausalLinearThompsonSampling, {"regressor": "observed", "scales": "learnt"}),
    "cl-ts-scaled": (CausalLinearThompsonSampling, {"regressor": "expected", "scales": "learnt"}),
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


def as_policy(policy_or_id: object) -> AnyPolicy:
    """A policy, given as itself or by its id."""
    if isinstance(policy_or_id, str):
        return policy(policy_or_id)
    if isinstance(policy_or_id, Policy):
        if not isinstance(policy_or_id.id, str):
            raise PolicyError(f"A policy's id must be text, such as 'my-policy'; got {policy_or_id.id!r}.")
        return policy_or_id
    raise PolicyError(f"A policy is an object such as CausalUCB() or an id such as 'c-ucb'; got {policy_or_id!r}.")


def policy(id: str, **parameters: Any) -> AnyPolicy:
    """The policy with this id, with parameters of your own.

    >>> policy("c-ts-beta")
    CausalThompsonSampling(prior='beta', noise_scale=1.0, prior_scale=1.0, successes=1.0, failures=1.0, \
scales='given', draws=1, tables='known', trust=None)
    >>> policy("c-ucb", noise_scale=0.1).noise_scale
    0.1
    """
    if not isinstance(id, str) or id not in POLICIES:
        raise PolicyError(unknown_name_message("policy", id, POLICIES))
    kind, fixed = POLICIES[id]
    clash = sorted(set(fixed) & set(parameters))
    if clash:
        raise PolicyError(f"The id {id!r} already fixes {', '.join(clash)}.")
    try:
        return kind(**fixed, **parameters)
    except TypeError:
        allowed = [field.name for field in fields(kind) if field.name not in fixed]
        unknown_names = [name for name in parameters if name not in allowed]
        raise PolicyError(
            unknown_name_message(f"parameter of {id!r}:", unknown_names[0] if unknown_names else parameters, allowed)
        ) from None


Policies = AnyPolicy | str | Iterable[AnyPolicy | str] | Mapping[str, AnyPolicy | str]
"""One or more, as objects or ids, under names of your own if you like."""


def name_policies(policies: Policies) -> dict[str, AnyPolicy]:
    """Policies by the names under which their results are kept: ids, with parameters where ids repeat."""
    if isinstance(policies, Mapping):
        by_name = {str(name): as_policy(policy_or_id) for name, policy_or_id in policies.items()}
    else:
        is_single = isinstance(policies, Policy | str) or not is_iterable(policies)
        instances = [as_policy(policy_or_id) for policy_or_id in ([policies] if is_single else policies)]  # type: ignore[union-attr]
        ids = [p.id for p in instances]
        by_name = {}
        for p in instances:
            name = p.id if ids.count(p.id) == 1 else str(p)
            if name in by_name:
                raise PolicyError(f"Two policies are both {name}. Give them names: {{'name': policy, ...}}.")
            by_name[name] = p
    if not by_name:
        raise PolicyError("There must be at least one policy.")
    return by_name


IMMEDIATE_FEEDBACK = policy("c-gittins-effects")
MANY_ACTIONS = DELAYED_FEEDBACK = policy("c-ts-effects")
MANY_STATES = policy("c-gittins-scaled")
MANY_STATES_DELAYED = policy("c-ts-gaussian-scaled")
ESTIMATED_TABLES = policy("c-ts-gaussian-learnt-scaled")
MANY_CONFIGURATIONS = policy("cl-ts-observed-scaled")
PER_ACTION = policy("ts-gaussian-scaled")

PAIRS_LIMIT = 2**18
"""Where actions times configurations are no more, comparing all of them in every round is quick."""

STATES_LIMIT = 64
"""Where the parents' states are no more, learning the effect of each is quick; with 128 a round takes 0.1 s."""


class DefaultChoice(NamedTuple):
    """A policy, and why it is the one to start with."""

    policy: AnyPolicy
    reason: str


def default_policy(problem: Problem, *, horizon: int | None = None, late: bool = False) -> AnyPolicy:
    """The policy for a problem, where nothing is known of the reward.

    `horizon` is how many rounds there will be, if that is known; `late` says that decisions are made before the
    outcomes of earlier ones are known: by batches, by several processes, or because outcomes take their time. The
    policy is then one that draws anew for every decision, from the first on; a study's default is always such a one.

    >>> from causalbandits import zoo
    >>> default_policy(zoo.email_campaign().problem).id, default_policy(zoo.email_campaign().problem, late=True).id
    ('c-gittins-effects', 'c-ts-effects')
    """
    return default_with_reason(problem, horizon=horizon, late=late).policy


def resolve_policy(
    problem: Problem, policy_or_id: AnyPolicy | str | None, *, horizon: int | None = None, late: bool = False
) -> AnyPolicy:
    """A policy that was given, told for how many rounds; or the default."""
    if policy_or_id is None:
        return default_policy(problem, horizon=horizon, late=late)
    if late is not False:
        raise PolicyError(
            f"late= chooses among the policies that are used by default; leave it out with {policy_or_id!r}."
        )
    _validate_horizon(horizon)
    return as_policy(policy_or_id) if horizon is None else as_policy(policy_or_id).for_horizon(int(horizon))


def default_with_reason(problem: Problem, *, horizon: int | None = None, late: bool = False) -> DefaultChoice:
    """The same, with the reason."""
    if not isinstance(problem, Problem):
        raise PolicyError(f"A policy is chosen for a Problem; got {short_repr(problem)}.")
    _validate_horizon(horizon)
    if not isinstance(late, bool):
        raise PolicyError(f"late must be True or False; got {late!r}.")
    default = _choose_default(problem, horizon, late)
    return default if horizon is None else default._replace(policy=default.policy.for_horizon(int(horizon)))


def _choose_default(problem: Problem, horizon: int | None, late: bool) -> DefaultChoice:
    if problem.unit == "actions":
        return DefaultChoice(PER_ACTION, "a number per action is learnt, and there is nothing else to go by")
    if isinstance(problem.knowledge, FittedModel) and problem.configurations <= CELL_LIMIT:
        return DefaultChoice(ESTIMATED_TABLES, "the tables are not known for sure, and it learns them")
    if count_reachable_configurations(problem) > (CELL_LIMIT if horizon is None else min(CELL_LIMIT, horizon)):
        return DefaultChoice(MANY_CONFIGURATIONS, "there are more configurations than rounds")
    if sum(problem.shape) > STATES_LIMIT:
        if late:
            return DefaultChoice(MANY_STATES_DELAYED, "it draws anew for each decision while outcomes are late")
        return DefaultChoice(MANY_STATES, "it loses least of those that are quick where parents have so many values")
    if not can_store_main_effects(problem.shape):
        return DefaultChoice(MANY_CONFIGURATIONS, "there are more configurations than can be kept with their effects")
    if late:
        return DefaultChoice(DELAYED_FEEDBACK, "it draws anew for each decision while outcomes are late")
    if problem.actions.size * problem.configurations > PAIRS_LIMIT:
        return DefaultChoice(MANY_ACTIONS, "it loses least of those that are quick with so many actions")
    return DefaultChoice(IMMEDIATE_FEEDBACK, "it loses least of those that need not be told anything of the reward")


def _validate_horizon(horizon: object) -> None:
    if horizon is not None and (not is_integer(horizon) or horizon < 1):
        raise PolicyError(f"horizon, the number of rounds, must be a whole number, 1 or more; got {horizon!r}.")
