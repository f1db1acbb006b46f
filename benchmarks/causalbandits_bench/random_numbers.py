"""Numbers that a file leaves to chance: `{ uniform = [0, 1] }` wherever it might say `0.5`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import CausalBanditsError

Draws = Callable[[np.random.Generator, float, float, Any], Array]

LAWS: dict[str, Draws] = {
    "uniform": lambda rng, a, b, size: np.asarray(rng.uniform(a, b, size)),
    "loguniform": lambda rng, a, b, size: np.exp(rng.uniform(np.log(a), np.log(b), size)),
    "normal": lambda rng, a, b, size: np.asarray(rng.normal(a, b, size)),
    "beta": lambda rng, a, b, size: np.asarray(rng.beta(a, b, size)),
}
"""Each has two parameters: ends, mean and standard deviation, or successes and failures."""

POSITIVE = {"loguniform": (True, True), "normal": (False, True), "beta": (True, True), "uniform": (False, False)}


def is_law(given: object) -> bool:
    """Whether something is left to chance."""
    return isinstance(given, Mapping) and bool({*given} & {*LAWS})


def draw(given: Any, rng: np.random.Generator, size: tuple[int, ...] | None = None) -> Any:
    """The value itself, or what chance makes of it: so many numbers, or as many as its own `size` says.

    >>> draw(3, np.random.default_rng(0)), draw({"uniform": [2, 2]}, np.random.default_rng(0), (2,))
    (3, array([2., 2.]))
    """
    if not is_law(given):
        return given
    name, (a, b), own = _parse(given)
    values = LAWS[name](rng, a, b, own if size is None else size)
    return float(values) if values.ndim == 0 else values


def _parse(given: Mapping[str, Any]) -> tuple[str, tuple[float, float], int | None]:
    names, size = [name for name in given if name != "size"], given.get("size")
    pair = given[names[0]] if len(names) == 1 else None
    whole = size is None or (isinstance(size, int) and not isinstance(size, bool) and 1 <= size <= 10**6)
    if len(names) != 1 or names[0] not in LAWS or not _is_pair(names[0], pair) or not whole:
        raise CausalBanditsError(
            "What is drawn is one of { uniform = [0, 1] }, { loguniform = [0.01, 1] }, { normal = [0, 1] } and "
            f"{{ beta = [2, 50] }}, perhaps with size = 3 for so many numbers; got {dict(given)!r}."
        )
    return names[0], (float(pair[0]), float(pair[1])), size  # type: ignore[index]


def _is_pair(name: str, pair: object) -> bool:
    if not isinstance(pair, list) or len(pair) != 2 or not all(is_real(x) and abs(x) <= 1e100 for x in pair):
        return False
    if any(must and x <= 0 for must, x in zip(POSITIVE[name], pair, strict=True)):
        return False
    return "uniform" not in name or pair[0] <= pair[1]
