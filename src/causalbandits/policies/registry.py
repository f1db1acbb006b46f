"""Policies by their ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from causalbandits._types import is_iterable
from causalbandits.errors import PolicyError, unknown
from causalbandits.policies.base import AnyPolicy, Policy
from causalbandits.policies.designed import CausalDesign
from causalbandits.policies.elimination import CausalElimination
from causalbandits.policies.gittins import CausalGittins, CausalScreen
from causalbandits.policies.guarded import GuardedThompsonSampling
from causalbandits.policies.hac_ucb import HACUCB
from causalbandits.policies.ids import CausalIDS
from causalbandits.policies.kl_ucb import KLUCB, CausalKLUCB
from causalbandits.policies.lin import LinTS, LinUCB
from causalbandits.policies.linear_thompson import CausalLinearThompsonSampling
from causalbandits.policies.linear_ts_ucb import CausalLinearTSUCB
from causalbandits.policies.linear_ucb import CausalLinearUCB
from causalbandits.policies.models import ModelsThompsonSampling
from causalbandits.policies.thompson import CausalThompsonSampling, ThompsonSampling
from causalbandits.policies.tracking import CausalTrackAndStop
from causalbandits.policies.ts_ucb import CausalTSUCB
from causalbandits.policies.ucb import UCB, CausalUCB
from causalbandits.policies.uniform import Uniform

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
