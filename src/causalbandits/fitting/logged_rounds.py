"""Logged rounds: interventions, observations and rewards, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes
from causalbandits.errors import DataError
from causalbandits.fitting.counts import Rows
from causalbandits.fitting.interventions import Interventions
from causalbandits.fitting.sources import open_source
from causalbandits.fitting.structure import Structure
from causalbandits.model import State


class LoggedRounds(NamedTuple):
    """Rounds: codes (-1 if missing), intervention flags, and rewards (NaN if missing).

    There is a flag for each variable and for the reward.
    """

    codes: Mapping[str, Codes]
    was_set: Mapping[str, npt.NDArray[np.bool_]]
    rewards: Array


def read_logged_rounds(
    data: Any, states: Mapping[str, Sequence[State]], reward: str, interventions: Interventions = None
) -> LoggedRounds:
    """The rounds in any data that `fit` accepts: these variables with their states, and a column of rewards."""
    if reward in states:
        raise DataError(
            f"The column of rewards, {reward!r}, is one of the variables. Pass the name of another column: "
            "reward='...'."
        )
    structure = Structure(
        {**dict.fromkeys(states, ()), reward: ()}, {name: tuple(state_list) for name, state_list in states.items()}
    )
    rows = Rows(structure, open_source(data), interventions, measured=[reward])
    parts = [coded for coded, _ in rows]
    values, order = rows.books[reward].arrange()
    numbers = np.append(_parse_rewards(values, reward), np.nan)
    codes = {name: np.concatenate([part.codes[name] for part in parts]) for name in structure.names}
    rewards = codes.pop(reward)
    was_set = {
        name: np.concatenate([_mask_or_zeros(part.was_set.get(name), len(part.codes[reward])) for part in parts])
        for name in structure.names
    }
    place = np.append(order, len(values))
    return LoggedRounds(codes, was_set, numbers[place[rewards]])


def _mask_or_zeros(mask: Any, rows: int) -> npt.NDArray[np.bool_]:
    return np.zeros(rows, dtype=np.bool_) if mask is None else np.asarray(mask, dtype=np.bool_)


def _parse_rewards(values: Sequence[State], reward: str) -> Array:
    try:
        rewards = np.array([float(value) for value in values])  # type: ignore[arg-type]
    except (TypeError, ValueError):
        odd = next(value for value in values if not isinstance(value, int | float))
        raise DataError(f"The rewards in {reward!r} must be numbers; one of them is {odd!r}.") from None
    if not np.isfinite(rewards).all():
        raise DataError(f"The rewards in {reward!r} must be finite numbers.")
    return rewards
