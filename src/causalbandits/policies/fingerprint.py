"""The identity of a policy: its class, its parameters, and their effect on a problem. An id is only a display name."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING
from typing import Any, ClassVar, Protocol

import numpy as np

from causalbandits._hashing import code_hash, is_ours
from causalbandits.problem import Problem


class FingerprintedPolicy(Protocol):
    """A dataclass of parameters with a fingerprint of their effect on a problem."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def parameter_defaults(self) -> Mapping[str, Any]: ...

    def parameter_fingerprint(self, problem: Problem) -> str: ...


def class_name(kind: type) -> str:
    """The name of the class; names of this library's classes cannot coincide with those of other classes."""
    return f"causalbandits.{kind.__qualname__}" if is_ours(kind) else kind.__qualname__


def is_plain(value: object) -> bool:
    """Whether a parameter can be written to a file unchanged: text, a number, or tuples of numbers."""
    if isinstance(value, tuple):
        return all(isinstance(part, float | tuple) and is_plain(part) for part in value)
    return isinstance(value, str | int | float | bool | np.generic | None)


def nondefault_parameters(policy: FingerprintedPolicy) -> dict[str, Any]:
    """The parameters that differ from their defaults."""
    values = {name: (getattr(policy, name), default) for name, default in policy.parameter_defaults().items()}
    return {name: value for name, (value, default) in values.items() if default is MISSING or _differ(value, default)}


def _differ(value: object, default: object) -> bool:
    try:
        return bool(value != default)
    except ValueError:  # arrays
        return True


def format_parameter(value: object) -> str:
    """A parameter as text."""
    return reprlib.repr(value) if isinstance(value, tuple) else repr(value)  # one number per cell may be many numbers


def encode_parameters(policy: FingerprintedPolicy) -> dict[str, Any]:
    """The parameters that differ from their defaults as JSON, including problems; functions only by a placeholder."""
    values = {name: v.item() if isinstance(v, np.generic) else v for name, v in nondefault_parameters(policy).items()}
    return {name: _encode_value(value) for name, value in values.items()}


def _encode_value(value: object) -> Any:
    if is_plain(value):
        return value
    if isinstance(value, tuple) and all(problem is None or isinstance(problem, Problem) for problem in value):
        return {"problems": [None if problem is None else problem.to_record() for problem in value]}
    return {"not saved": True}


def unsaved_parameters(parameters: Mapping[str, Any]) -> list[str]:
    """The names of the parameters that the JSON form does not contain."""
    return [name for name, value in parameters.items() if isinstance(value, Mapping) and "problems" not in value]


def decode_parameters(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters from their JSON form, for parameters that it contains."""
    return {
        name: _decode_problems(value["problems"]) if isinstance(value, Mapping) else value
        for name, value in plain.items()
    }


def _decode_problems(records: list[Any]) -> tuple[Problem | None, ...]:
    return tuple(None if record is None else Problem.from_record(record) for record in records)


def same_parameters(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two JSON forms are equal; 2 equals 2.0, and NaN equals NaN."""
    return _canonical_json(first) == _canonical_json(second)


def _canonical_json(parts: Mapping[str, Any]) -> str:
    def normalise(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: normalise(part) for name, part in value.items()}
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    return json.dumps(normalise(parts), sort_keys=True)


def policy_fingerprint(policy: FingerprintedPolicy, problem: Problem) -> str:
    """A hash of the policy on this problem; functions count by their effect there (`parameter_fingerprint`)."""
    parts = {
        "class": class_name(type(policy)),
        "parameters": encode_parameters(policy),
        "effects": policy.parameter_fingerprint(problem),
    }
    return hashlib.sha256(_canonical_json(parts).encode()).hexdigest()[:16]


def policy_fingerprint_with_code(policy: FingerprintedPolicy, problem: Problem) -> str:
    """Like `policy_fingerprint`, including the code of a class outside this library, for results that depend on
    that code.
    """
    code = "" if is_ours(type(policy)) else code_hash(type(policy), list(nondefault_parameters(policy).values()))
    return f"{policy_fingerprint(policy, problem)} {code}"
