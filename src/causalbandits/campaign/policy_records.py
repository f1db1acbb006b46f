"""Policies as JSON-ready records."""

from __future__ import annotations

from typing import Any

from causalbandits.errors import StateError
from causalbandits.policies import (
    FAMILIES,
    AnyPolicy,
    class_name,
    decode_parameters,
    encode_parameters,
    policy_fingerprint,
    resolve_policy,
    same_parameters,
    unsaved_parameters,
)
from causalbandits.problem import Problem


def policy_record(policy: AnyPolicy, problem: Problem) -> dict[str, Any]:
    """The record of a policy in a file."""
    return {
        "class": class_name(type(policy)),
        "id": policy.id,
        "parameters": encode_parameters(policy),
        "identity": policy_fingerprint(policy, problem),
    }


def restore_policy(record: Any, policy: AnyPolicy | str | None, problem: Problem) -> AnyPolicy:
    """The policy of a file: recreated from its record, or the given one after a check that it is the same."""
    if policy is not None:
        current = resolve_policy(problem, policy)
        _validate_same_policy(record, policy_record(current, problem), current)
        return current
    kind = next((kind for kind in FAMILIES.values() if class_name(kind) == record["class"]), None)
    if kind is None:
        raise StateError(
            f"The policy {record['id']!r} is of the class {record['class']}, which is not part of this library: "
            "pass the policy, policy=..., when you load or open the file."
        )
    if objects := unsaved_parameters(record["parameters"]):
        raise StateError(
            f"The policy's {', '.join(objects)} are functions or objects, which a file cannot hold: pass the "
            "policy, policy=..., when you load or open the file."
        )
    return kind(**decode_parameters(record["parameters"]))


def _validate_same_policy(saved: dict[str, Any], current: dict[str, Any], policy: AnyPolicy) -> None:
    if saved["class"] != current["class"]:
        raise StateError(
            f"The file was written by the policy {saved['id']} of the class {saved['class']}; you passed {policy} "
            f"of the class {current['class']}."
        )
    objects = [name for name, value in saved["parameters"].items() if isinstance(value, dict)]
    plain = [
        {name: v for name, v in record["parameters"].items() if name not in objects} for record in (saved, current)
    ]
    if not same_parameters(*plain):
        raise StateError(f"The file was written by the policy {saved['id']} with {plain[0]}; you passed {policy}.")
    if saved["identity"] != current["identity"]:
        raise StateError(
            f"The file was written by the policy {saved['id']} with other functions or objects as parameters than "
            "those you passed. The parameters differ in their results on this problem, so the saved statistic does "
            "not fit."
        )
