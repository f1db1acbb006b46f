"""What a policy is: its class, its parameters, and what they do on a problem. An id is only a name for people."""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from causalbandits._hashing import code_hash, is_ours
from causalbandits.problem import Problem

if TYPE_CHECKING:
    from causalbandits.policies.base import AnyPolicy


def class_name(kind: type) -> str:
    """The class, by a name that no class of somebody else's can have if it is ours."""
    return f"causalbandits.{kind.__qualname__}" if is_ours(kind) else kind.__qualname__


def is_plain(value: object) -> bool:
    """Whether a parameter can be written to a file as it is: text, a number, or numbers in tuples."""
    if isinstance(value, tuple):
        return all(isinstance(part, float | tuple) and is_plain(part) for part in value)
    return isinstance(value, str | int | float | bool | np.generic | None)


def given_parameters(policy: AnyPolicy) -> dict[str, Any]:
    """The parameters that differ from their defaults."""
    given = {f.name: (getattr(policy, f.name), f.default) for f in fields(policy)}
    return {name: value for name, (value, default) in given.items() if default is MISSING or _differ(value, default)}


def _differ(value: object, default: object) -> bool:
    try:
        return bool(value != default)
    except ValueError:  # arrays
        return True


def shown_parameter(value: object) -> str:
    """A parameter in words."""
    return reprlib.repr(value) if isinstance(value, tuple) else repr(value)  # a number per cell may be many


def plain_parameters(policy: AnyPolicy) -> dict[str, Any]:
    """The parameters that differ from their defaults as JSON, problems too; of functions, only that there was one."""
    values = {name: v.item() if isinstance(v, np.generic) else v for name, v in policy.parameters().items()}
    return {name: _kept(value) for name, value in values.items()}


def _kept(value: object) -> Any:
    if is_plain(value):
        return value
    if isinstance(value, tuple) and all(own is None or isinstance(own, Problem) for own in value):
        return {"problems": [None if own is None else own.to_record() for own in value]}
    return {"not saved": True}


def not_saved(parameters: Mapping[str, Any]) -> list[str]:
    """The names of the parameters that plain ones do not hold."""
    return [name for name, value in parameters.items() if isinstance(value, Mapping) and "problems" not in value]


def parameters_of(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that plain ones describe, where these hold all of them."""
    return {
        name: _problems(value["problems"]) if isinstance(value, Mapping) else value for name, value in plain.items()
    }


def _problems(records: list[Any]) -> tuple[Problem | None, ...]:
    return tuple(None if own is None else Problem.from_record(own) for own in records)


def same_parameters(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether plain parameters are equal; 2 is 2.0, and a NaN is one."""
    return _text(one) == _text(other)


def _text(parts: Mapping[str, Any]) -> str:
    def number(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: number(own) for name, own in value.items()}
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value

    return json.dumps(number(parts), sort_keys=True)


def identity(policy: AnyPolicy, problem: Problem) -> str:
    """A hash of what the policy is on this problem; functions count by what they do there (see `Policy.effects`)."""
    parts = {
        "class": class_name(type(policy)),
        "parameters": plain_parameters(policy),
        "effects": policy.effects(problem),
    }
    return hashlib.sha256(_text(parts).encode()).hexdigest()[:16]


def identity_with_code(policy: AnyPolicy, problem: Problem) -> str:
    """The same, and the code of a class that is not ours: for results that are only as good as the code was."""
    own = "" if is_ours(type(policy)) else code_hash(type(policy), list(policy.parameters().values()))
    return f"{identity(policy, problem)} {own}"
