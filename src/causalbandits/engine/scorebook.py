"""What compiled rounds write down, round by round, and the sums that are kept of it after some of them."""

from __future__ import annotations

import numpy as np

from causalbandits.engine.driver import Played, Rounds
from causalbandits.engine.tables import Ints, Record


class Scorebook:
    """Rounds are played in parts; there is room for the longest of them."""

    def __init__(self, rounds: Rounds, longest: int) -> None:
        self.sums = Played(np.empty(len(rounds)), np.empty(len(rounds)))
        """After each of the rounds that are asked for."""
        self._rounds, self._so_far = rounds, [0.0, 0.0]
        self._written = Record(0, np.empty(longest), np.empty(longest), np.empty(longest, dtype=np.int64))

    def record(self, rounds: int) -> Record:
        """Where so many rounds are written down."""
        return self._written._replace(last=rounds)

    def add_up(self, start: int, end: int, plays: Ints) -> None:
        """Keep the sums of a part; and count what was played, unless there is no room for that."""
        first, last = np.searchsorted(self._rounds, (start, end), side="right")
        of_part, asked = slice(0, end - start), self._rounds[first:last] - start - 1
        for i, written in enumerate((self._written.gaps, self._written.rewards)):
            own = written[of_part]
            own[0] += self._so_far[i]
            np.cumsum(own, out=own)  # one after another, as the plain driver adds
            self.sums[i][first:last], self._so_far[i] = own[asked], own[-1]
        if len(plays):
            plays += np.bincount(self._written.played[of_part], minlength=len(plays))
