"""What the parameters of policies must be, and a clear word where they are something else."""

from __future__ import annotations

import math
from typing import Any

from causalbandits._typing import is_integer, is_real
from causalbandits.errors import PolicyError
from causalbandits.problem import Problem


def validate_positive_integer(name: str, value: object) -> None:
    """Refuse anything but a positive whole number."""
    if not is_integer(value) or value < 1:
        raise PolicyError(f"{name} must be a whole number, 1 or more; got {value!r}.")


def validate_positive(**values: Any) -> None:
    """Refuse anything but positive finite numbers."""
    for name, value in values.items():
        if not is_real(value) or not 0 < value < math.inf:
            raise PolicyError(f"{name} must be a positive finite number; got {value!r}.")
        if not 1e-100 <= value <= 1e100:
            raise PolicyError(f"{name} must lie between 1e-100 and 1e100: beyond, squares overflow; got {value!r}.")


def validate_bool(name: str, value: object) -> None:
    """Refuse anything but True and False."""
    if not isinstance(value, bool):
        raise PolicyError(f"{name} must be True or False; got {value!r}.")


def validate_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse anything but the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        raise PolicyError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


def require_context(id: str, problem: Problem) -> int:
    """The number of the context; a policy that keeps something for each of them must know which it is."""
    number = problem.context_number
    if number is None:
        raise PolicyError(
            f"The policy {id!r} keeps a number for every action in every context, so that it needs all of it "
            f"({', '.join(problem.context)}); known is {problem.contexts.format_context(problem.context_codes) or 'nothing'}. A "
            "causal policy can do with a part."
        )
    return number
