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
    """A dataclass of parameters that can say what they do on a problem."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def parameter_defaults(self) -> Mapping[str, Any]: ...

    def parameter_fingerprint(self, problem: Problem) -> str: ...


def class_name(kind: type) -> str:
    """The class, by a name that no class of somebody else's can have if it is ours."""
    return f"causalbandits.{kind.__qualname__}" if is_ours(kind) else kind.__qualname__


def is_plain(value: object) -> bool:
    """Whether a parameter can be written to a file as it is: text, a number, or numbers in tuples."""
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
    """A parameter in words."""
    return reprlib.repr(value) if isinstance(value, tuple) else repr(value)  # a number per cell may be many


def encode_parameters(policy: FingerprintedPolicy) -> dict[str, Any]:
    """The parameters that differ from their defaults as JSON, problems too; of functions, only that there was one."""
    values = {name: v.item() if isinstance(v, np.generic) else v for name, v in nondefault_parameters(policy).items()}
    return {name: _encode_value(value) for name, value in values.items()}


def _encode_value(value: object) -> Any:
    if is_plain(value):
        return value
    if isinstance(value, tuple) and all(problem is None or isinstance(problem, Problem) for problem in value):
        return {"problems": [None if problem is None else problem.to_record() for problem in value]}
    return {"not saved": True}


def unsaved_parameters(parameters: Mapping[str, Any]) -> list[str]:
    """The names of the parameters that plain ones do not hold."""
    return [name for name, value in parameters.items() if isinstance(value, Mapping) and "problems" not in value]


def decode_parameters(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that plain ones describe, where these hold all of them."""
    return {
        name: _decode_problems(value["problems"]) if isinstance(value, Mapping) else value
        for name, value in plain.items()
    }


def _decode_problems(records: list[Any]) -> tuple[Problem | None, ...]:
    return tuple(None if record is None else Problem.from_record(record) for record in records)


def same_parameters(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether plain parameters are equal; 2 is 2.0, and a NaN is one."""
    return _canonical_json(first) == _canonical_json(second)


def _canonical_json(parts: Mapping[str, Any]) -> str:
    def normalise(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: normalise(part) for name, part in value.items()}
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    return json.dumps(normalise(parts), sort_keys=True)


def policy_fingerprint(policy: FingerprintedPolicy, problem: Problem) -> str:
    """A hash of what the policy is on this problem; functions count by what they do there (`parameter_fingerprint`)."""
    parts = {
        "class": class_name(type(policy)),
        "parameters": encode_parameters(policy),
        "effects": policy.parameter_fingerprint(problem),
    }
    return hashlib.sha256(_canonical_json(parts).encode()).hexdigest()[:16]


def policy_fingerprint_with_code(policy: FingerprintedPolicy, problem: Problem) -> str:
    """The same, and the code of a class that is not ours: for results that are only as good as the code was."""
    code = "" if is_ours(type(policy)) else code_hash(type(policy), list(nondefault_parameters(policy).values()))
    return f"{policy_fingerprint(policy, problem)} {code}"
