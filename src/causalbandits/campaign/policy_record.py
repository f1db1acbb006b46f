"""A policy as JSON, and back."""

from __future__ import annotations

from typing import Any

from causalbandits.errors import StateError
from causalbandits.policies import (
    POLICIES,
    AnyPolicy,
    as_policy,
    class_name,
    identity,
    not_saved,
    parameters_of,
    plain_parameters,
    same_parameters,
)
from causalbandits.policies import policy as policy_by_id
from causalbandits.problem import Problem


def policy_record(policy: AnyPolicy, problem: Problem) -> dict[str, Any]:
    """What a file keeps of a policy."""
    return {
        "class": class_name(type(policy)),
        "id": policy.id,
        "parameters": plain_parameters(policy),
        "identity": identity(policy, problem),
    }


def policy_of(record: Any, given: AnyPolicy | str | None, problem: Problem) -> AnyPolicy:
    """The policy that a file belongs to: made again, or the one handed in, if it is the same."""
    if given is not None:
        chosen = as_policy(given)
        _check_same(record, policy_record(chosen, problem), chosen)
        return chosen
    kind, fixed = POLICIES.get(record["id"], (None, {}))
    if kind is None or class_name(kind) != record["class"]:
        raise StateError(
            f"The policy {record['id']!r} is of the class {record['class']}, which is not one of this library's: hand "
            "it in, policy=..., where you load or open it."
        )
    if objects := not_saved(record["parameters"]):
        raise StateError(
            f"The policy's {', '.join(objects)} are functions or objects, which a file cannot hold: hand the policy "
            "in, policy=..., where you load or open it."
        )
    own = {name: value for name, value in record["parameters"].items() if name not in fixed}
    return policy_by_id(record["id"], **parameters_of(own))


def _check_same(saved: dict[str, Any], given: dict[str, Any], policy: AnyPolicy) -> None:
    if saved["class"] != given["class"]:
        raise StateError(
            f"The file was written by the policy {saved['id']} of the class {saved['class']}; given is {policy} of the "
            f"class {given['class']}."
        )
    objects = [name for name, value in saved["parameters"].items() if isinstance(value, dict)]
    plain = [{name: v for name, v in own["parameters"].items() if name not in objects} for own in (saved, given)]
    if not same_parameters(*plain):
        raise StateError(f"The file was written by the policy {saved['id']} with {plain[0]}; given is {policy}.")
    if saved["identity"] != given["identity"]:
        raise StateError(
            f"The file was written by the policy {saved['id']} with other functions or objects as parameters than "
            "those given: on this problem they do something else, so what was learnt does not fit them."
        )
