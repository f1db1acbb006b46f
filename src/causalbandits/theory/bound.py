"""Regret bounds: a curve over rounds, its kind, and its assumptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, is_integer
from causalbandits.errors import CausalBanditsError

Curve = Callable[[Array, Array], Array]
"""A function of rounds and the policy's horizon that bounds the regret up to each of these rounds."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A bound on a policy's expected regret, with its assumptions.

    >>> from causalbandits import theory, zoo
    >>> b = theory.bound("c-ts(prior=beta)", zoo.email_campaign())
    >>> b.kind, round(b.at(5000), 1), b.vacuous(5000), b.vacuous(500)
    ('Bayesian', 2907.5, False, True)

    Attributes:
        policy: The policy's name.
        kind: "frequentist" (holds in every environment that meets the assumptions) or "Bayesian" (holds on average over
            the policy's prior).
        formula: The formula of the bound.
        assumptions: The assumptions.
        broken: The assumptions that the environment is known to violate, with the facts.
        largest_gap: The largest gap Delta_max; for a Bayesian bound, a bound on its prior mean.
        curve: The function that computes the bound.
    """

    policy: str
    kind: Literal["frequentist", "Bayesian"]
    formula: str
    assumptions: tuple[str, ...] = field(repr=False)
    broken: tuple[str, ...] = ()
    """The assumptions that the environment is known to violate, with the facts."""
    largest_gap: float
    """Delta_max; for a Bayesian bound, a bound on its prior mean."""
    curve: Curve = field(repr=False, compare=False)

    @overload
    def at(self, rounds: float, *, horizon: int | None = None) -> float: ...
    @overload
    def at(self, rounds: Sequence[float] | npt.NDArray[Any], *, horizon: int | None = None) -> Array: ...
    def at(self, rounds: Any, *, horizon: int | None = None) -> float | Array:
        """The bound on the regret up to these rounds; never more than T Delta_max.

        Args:
            rounds: A number of rounds, at least 2, or an array of them.
            horizon: The horizon that the policy was given, as along the curve of a single run. Default: each number of
                rounds is its own horizon.

        Returns:
            The bound; an array if `rounds` is one.

        Raises:
            CausalBanditsError: If a number of rounds is out of range.
        """
        t, value = self._values(rounds, horizon)
        least = np.minimum(value, t * self.largest_gap)
        return least if least.ndim else float(least)

    @overload
    def vacuous(self, rounds: float, *, horizon: int | None = None) -> bool: ...
    @overload
    def vacuous(
        self, rounds: Sequence[float] | npt.NDArray[Any], *, horizon: int | None = None
    ) -> npt.NDArray[np.bool_]: ...
    def vacuous(self, rounds: Any, *, horizon: int | None = None) -> bool | npt.NDArray[np.bool_]:
        """Whether the bound is vacuous: no smaller than T Delta_max, which no policy can exceed.

        Args:
            rounds: A number of rounds, at least 2, or an array of them.
            horizon: The horizon that the policy was given, as for `at`.

        Returns:
            Whether it is vacuous; an array if `rounds` is one.

        Raises:
            CausalBanditsError: If a number of rounds is out of range.
        """
        t, value = self._values(rounds, horizon)
        is_vacuous = np.asarray(value >= t * self.largest_gap)
        return is_vacuous if is_vacuous.ndim else bool(is_vacuous)

    def _values(self, rounds: Any, horizon: int | None) -> tuple[Array, Array]:
        t = parse_rounds("Rounds", rounds)
        horizons = t if horizon is None else np.broadcast_to(parse_rounds("The horizon", horizon), t.shape)
        return t, self.curve(t, horizons)


def parse_rounds(subject: str, rounds: Any, least: int = 2) -> Array:
    """Numbers of rounds, none below `least`."""
    try:
        t = np.asarray(rounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        t = np.array(np.nan)
    # NumPy would convert text to numbers.
    if not (np.isfinite(t) & (t >= least)).all() or np.asarray(rounds).dtype.kind in "US":
        raise CausalBanditsError(f"{subject} must be {least} or more for this bound, in numbers; got {rounds!r}.")
    return t


def validate_horizon(horizon: object) -> None:
    """Raise unless the value is a number of rounds for which bounds are defined."""
    if not is_integer(horizon) or horizon < 2:
        raise CausalBanditsError(f"horizon must be a whole number, 2 or more; got {horizon!r}.")
