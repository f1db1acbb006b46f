"""What the compiled rounds of `engine.design_kernels` read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from causalbandits._types import Array
from causalbandits.engine.tables import Priced, Ragged, ragged
from causalbandits.policies.designed import Shares


class Planned(NamedTuple):
    """In which shares actions are drawn, context by context: see `policies.designed.Shares`."""

    cdf: Ragged
    played: Ragged


class TrackingRule(NamedTuple):
    """`policies.tracking.CausalTrackAndStop`."""

    epsilon: float
    priced: Priced


def planned(shares: Sequence[Shares]) -> Planned:
    """The shares of every context."""
    return Planned(ragged([own.cdf for own in shares]), ragged([own.played for own in shares], "int64"))


def design_rows(distributions: Sequence[Array]) -> Ragged:
    """P(z | a) of every context's searched actions, a row each, end to end."""
    return ragged(distributions)
