"""Discovery: rounds in which C-Gittins plays towards configurations whose rewards were never observed.

The index assumes that a configuration without rewards is like the others. A rare configuration with a far larger reward
is then found only by chance: the best action b may produce it once in a thousand rounds. So in a few windows of w
rounds each, the policy plays an action that produces wanted configurations:

    wanted z:  no reward of z yet,  P(z | b) max(3 w, 300) < 1,  max_a P(z | a) w >= 1
    play argmax_a P(wanted | a) / (1 + loss_a / e),   loss_a = max(0, mean_b - mean_a),   e = sd of all rewards / 10

So z is wanted if b is not expected to produce it within max(3 w, 300) rounds and some action is expected to within w.
If all of its parents' states were observed separately, z is wanted only in the first sixth of a window, because main
effects predict its mean. Nothing predicts the effect of a state that was never observed.

With a horizon T there is one window, rounds 30 to 30 + 0.03 T. Without one there are windows from round k = 30, 60,
120, ... on, of 0.3 k rounds and 36 at most: the number of such rounds grows with log t. Windows are counted in rewards,
so that a decision depends only on the rewards so far.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.posteriors import MainEffectCells

FIRST_WINDOW = 30
"""The number of rewards at which the first window begins. Without a horizon, a window begins whenever the number
has doubled.
"""

DISCOVERY_SHARE = 0.03
"""The length of the window as a share of the horizon."""

ANYTIME_FACTOR, LONGEST_ASSUMED_HORIZON = 10.0, 1200.0
"""Without a horizon, a window that begins at k is as long as for the horizon min(first factor * k, second)."""

COMBINATION_FACTOR = 1.0 / 6.0
"""The initial part of a window in which configurations are wanted even if each of their parents' states was
observed.
"""

FAVOURITE_FACTOR = 3.0
"""The number of windows within which the best action must be expected to produce a configuration that is not
wanted.
"""

MIN_FAVOURITE_ROUNDS = 300.0
"""The minimum number of rounds for the same criterion."""

LOSS_TOLERANCE = 0.1
"""e, as a multiple of the standard deviation of all rewards."""


class Window(NamedTuple):
    """The window of a round."""

    length: float = 0.0
    """w; 0 outside of all windows."""
    wants_combinations: float = 0.0
    """1 in the first part of a window, in which unseen combinations of observed states are wanted; otherwise 0."""


def discovery_window(share: float, horizon: int | None, rounds: int) -> Window:
    """The window of the round after `rounds` rewards.

    >>> discovery_window(0.03, 5000, 29), discovery_window(0.03, 5000, 30), discovery_window(0.03, 5000, 100)
    (Window(length=0.0, wants_combinations=0.0), Window(length=150.0, wants_combinations=1.0), \
Window(length=150.0, wants_combinations=0.0))
    >>> [n for n in range(500) if discovery_window(0.03, None, n).wants_combinations]
    [30, 31, 60, 61, 62, 120, 121, 122, 123, 124, 125, 240, 241, 242, 243, 244, 245, 480, 481, 482, 483, 484, 485]
    """
    if share == 0.0 or rounds < FIRST_WINDOW:
        return Window()
    if horizon is None:
        start = FIRST_WINDOW << (rounds // FIRST_WINDOW).bit_length() - 1
        length = share * min(ANYTIME_FACTOR * start, LONGEST_ASSUMED_HORIZON)
    else:
        start, length = FIRST_WINDOW, share * horizon
    elapsed = rounds - start
    if elapsed >= length:
        return Window()
    return Window(length, float(elapsed < COMBINATION_FACTOR * length))


def favourite_rounds(length: float) -> float:
    """The number of rounds within which the best action must be expected to produce a configuration that is not
    wanted.
    """
    return max(FAVOURITE_FACTOR * length, MIN_FAVOURITE_ROUNDS)


def has_unseen_state(cells: MainEffectCells) -> Array:
    """For every configuration, 1 if one of its parents' states was never observed with a reward; otherwise 0."""
    is_seen = np.zeros(cells.features.shape[1], dtype=bool)
    is_seen[cells.positions[cells.count > 0]] = True
    return np.where(is_seen[cells.positions].all(axis=1), 0.0, 1.0)


def find_wanted_configurations(rows: Array, b: int, count: Array, unseen_state: Array, window: Window) -> Array:
    """1 for each wanted configuration, 0 for the others. `rows` are P(. | a); b is the action with the largest
    posterior mean.
    """
    is_rare = rows[b] * favourite_rounds(window.length) < 1.0
    wanted = np.where((count == 0) & is_rare & (rows.max(axis=0) * window.length >= 1.0), 1.0, 0.0)
    return wanted if window.wants_combinations else wanted * unseen_state


def discovery_score(probability: Any, loss: Any, standard_deviation: float) -> Any:
    """P(wanted | a) / (1 + loss_a / e), elementwise; also compiled."""
    return probability / (1.0 + np.maximum(0.0, loss) / (LOSS_TOLERANCE * standard_deviation))


def reward_standard_deviation(pooled: Any) -> float:
    """The standard deviation of all rewards, from `MainEffectCells.pooled`; also compiled."""
    return math.sqrt(pooled[2] / max(1.0, pooled[0] - 1.0))
