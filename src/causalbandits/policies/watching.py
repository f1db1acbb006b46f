"""The evidence against a model, taken in decision by decision, and whether there is reason for an alarm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from causalbandits._types import Array, Z
from causalbandits.errors import SizeError
from causalbandits.policies.alarms import ARROW, MENDED, PER_ALARM, ROW, Ring
from causalbandits.policies.evidence import (
    arrow_factors,
    coin_likelihoods,
    guessed_means,
    log_mean_exp,
    normal_likelihoods,
    row_gain,
    steady_mean,
    suspected,
)
from causalbandits.policies.mended import cell_of, ways
from causalbandits.policies.outcome import Outcome
from causalbandits.policies.statistics import Statistic
from causalbandits.policies.watched import Drawn, Watched, watched
from causalbandits.problem.actions import Choices
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.projection import CELL_LIMIT

Whole = npt.NDArray[np.int64]

MADE_ANEW = 1.1
"""Learnt tables are made anew when so many times more has been counted."""


@dataclass(eq=False)
class Watching(Statistic):
    """Sums by stratum and choice, evidence per knob, counts and evidence per row of the tables.

    A stratum is a configuration of the parents, together with the choices of those knobs that have joined them.
    """

    witnessed: int
    """How many outcomes are part of the evidence: those before which none is missing."""
    joined: Whole
    """For each knob whether its choice has joined the parents."""
    stratum_count: Array
    stratum_total: Array
    seen: Array
    """Rewards by stratum and choice: a row a stratum, a column for each choice of each knob."""
    paid: Array
    """Their sums."""
    choice_count: Array
    """Rewards by choice, over all strata."""
    pooled: Array
    """By how much the rewards of each choice exceeded what was expected in their strata."""
    spread: float
    """The squares of these distances."""
    count_of_all: float
    total_of_all: float
    """The rewards of all strata: how many, and their sum."""
    log_arrows: Array
    """log E of each knob."""
    counted: Array
    """How often each value was drawn from each row of each table."""
    log_rows: Array
    """log E of each row, for each alternative."""
    log_suspected: Array
    """log of 3/4 + E/4 of each row."""
    log_tables: float
    """The sum of these."""
    learnt: int
    """Whether tables are learnt from what was counted."""
    believed: Array
    """The counts from which they were last made."""
    alarms: Array
    """`PER_ALARM` each."""

    GROWING: ClassVar[tuple[str, ...]] = ("stratum_count", "stratum_total", "seen", "paid", "alarms")
    """These have sizes that hang on what happened."""

    @staticmethod
    def empty_fields(problem: CausalBandit) -> dict[str, Any]:
        """Nothing seen yet."""
        claims, knobs = watched(problem), len(problem.manipulable)
        size = problem.configurations * claims.columns
        if size > CELL_LIMIT:
            raise SizeError(
                f"Evidence needs a number for each of {problem.configurations} configurations and {claims.columns} "
                f"choices, {size} of them; the limit is {CELL_LIMIT}. Let a smaller set stand in for the parents."
            )
        return {
            "witnessed": 0,
            "joined": np.zeros(knobs, dtype=np.int64),
            **_no_sums(problem.configurations, claims.columns, knobs),
            "counted": np.zeros(claims.size),
            "log_rows": np.zeros((claims.rows, len(claims.alternatives))),
            "log_suspected": np.zeros(claims.rows),
            "log_tables": 0.0,
            "learnt": 0,
            "believed": np.zeros(claims.size),
            "alarms": np.zeros(0),
        }

    @classmethod
    def begin(cls, problem: CausalBandit) -> Watching:
        """A watch on a problem."""
        return cls(rounds=0, **cls.empty_fields(problem))

    def restore(self, record: Any) -> None:
        if isinstance(record, dict):
            for name in self.GROWING:
                if isinstance(record.get(name), list):
                    setattr(self, name, np.zeros(np.shape(record[name]), dtype=getattr(self, name).dtype))
        super().restore(record)

    @property
    def knobs(self) -> tuple[int, ...]:
        """Those that have joined the parents."""
        return tuple([knob for knob, joined in enumerate(self.joined.tolist()) if joined])

    def in_force(self, problem: CausalBandit) -> CausalBandit:
        """The problem with the tables that are believed by now."""
        if not self.learnt:
            return problem
        key = "learnt", self.believed.tobytes()
        learnt = problem.whole.remember(key, lambda: watched(problem).learnt(self.believed))
        return learnt if problem is problem.whole else learnt.in_context(problem.known)

    # --- one more outcome -----------------------------------------------------------------------------

    def take_in(self, problem: CausalBandit, outcome: Outcome, reward: float, noise: float | None) -> None:
        """One more outcome, in the order of decisions.

        `noise` is the scale of the rewards given z, None if they are successes and failures.
        """
        if not outcome.z:
            return
        self.witnessed += 1
        claims = watched(problem)
        stratum = self._stratum(problem, outcome.action.choices, outcome.z)
        own = claims.columns_of(outcome.action.choices)
        # Of numbers the first says where they lie, so that a constant added to all changes nothing.
        first = noise is not None and self.count_of_all == 0.0
        mean = reward if first else self._expected(stratum, coins=noise is None)
        chances = self._chances(problem, outcome)
        if chances is not None:
            q = self._likelihoods(stratum, mean, reward, noise)
            self.log_arrows += np.log(arrow_factors(q, chances, claims.starts, np.array(own)))
        self._add(stratum, own, mean, reward)
        for value in claims.drawn(outcome):
            self._count(claims, value)
        if self.learnt and self.counted.sum() >= MADE_ANEW * self.believed.sum():
            self.believed = self.counted.copy()

    def _stratum(self, problem: CausalBandit, choices: Choices, z: Z) -> int:
        return cell_of(problem.configuration(z), choices, problem.actions.radices, self.knobs)

    def _chances(self, problem: CausalBandit, outcome: Outcome) -> Array | None:
        """P(x | stratum) for every choice x of every knob; None where nothing was left to chance."""
        if outcome.support is None or len(outcome.support) == 1:
            return None
        claims, in_force = watched(problem), self.in_force(problem)
        known = watched(in_force)
        fixed = self.knobs
        done, z = outcome.action.choices, outcome.z
        chances, whole = [0.0] * claims.columns, 0.0
        for action, share in outcome.support:
            choices = action.choices
            if fixed and any(choices[k] != done[k] for k in fixed):
                continue
            weight = share * known.chance(in_force, choices, z)
            whole += weight
            for column in claims.columns_of(choices):
                chances[column] += weight
        own = (outcome.propensity or 0.0) * known.chance(in_force, done, z)
        return None if own == 0.0 or own == whole else np.array(chances) / whole

    def _expected(self, stratum: int, *, coins: bool) -> float:
        """The reward of a stratum, as far as it can be told now."""
        own = float(self.stratum_count[stratum]), float(self.stratum_total[stratum])
        return steady_mean(*own, self.count_of_all, self.total_of_all, coins=coins)

    def _likelihoods(self, stratum: int, mean: float, reward: float, noise: float | None) -> Array:
        means = guessed_means(mean, self.seen[stratum], self.paid[stratum], self.pooled, self.choice_count)
        if noise is None:
            return coin_likelihoods(means, reward)
        return normal_likelihoods(means, reward, (self.spread + noise * noise) / (self.count_of_all + 1.0))

    def _add(self, stratum: int, own: tuple[int, ...], mean: float, reward: float) -> None:
        self.spread += (reward - mean) ** 2
        self.count_of_all += 1.0
        self.total_of_all += reward
        self.stratum_count[stratum] += 1.0
        self.stratum_total[stratum] += reward
        seen, paid, pooled, count = self.seen[stratum], self.paid[stratum], self.pooled, self.choice_count
        for column in own:  # a few numbers: faster one by one
            pooled[column] += reward - mean
            count[column] += 1.0
            seen[column] += 1.0
            paid[column] += reward

    def _count(self, claims: Watched, value: Drawn) -> None:
        row, place, start, stop = value
        logs, seen, rows = (
            self.log_rows[row].tolist(),
            float(self.counted[place]),
            sum(self.counted[start:stop].tolist()),
        )
        null = claims.null(value, seen, rows)
        for j, (own, whole) in enumerate(claims.pseudo_counts(value)):
            logs[j] += row_gain(own, whole, seen, rows, null)
        self.log_rows[row] = logs
        after = suspected(log_mean_exp(logs))
        self.log_tables += after - float(self.log_suspected[row])
        self.log_suspected[row] = after
        self.counted[place] += 1.0

    # --- what it says ---------------------------------------------------------------------------------

    def rings(self) -> list[Ring]:
        """The alarms, the first first."""
        numbers = self.alarms.reshape(-1, PER_ALARM).tolist()
        return [Ring(int(t), int(about), int(which), log_e, int(done)) for t, about, which, log_e, done in numbers]

    def rung(self, about: int) -> bool:
        """Whether it has been said already, and nothing was done about it since."""
        return any(ring.about == about and ring.done != MENDED for ring in self.rings())

    def alarm(self, level: float) -> tuple[int, int, float] | None:
        """What it is about, which one, log E, if there is reason for one. Each of the two tests may err in level/2."""
        limit = math.log(2.0 / level)
        if self.log_tables >= limit and not self.rung(ROW):
            rows = [log_mean_exp(logs) for logs in self.log_rows.tolist()]
            worst = max(range(len(rows)), key=rows.__getitem__)
            return ROW, worst, rows[worst]
        logs = self.log_arrows.tolist()
        if max(logs) >= limit and not self.rung(ARROW):
            tested = np.flatnonzero(self.joined == 0).tolist()
            if log_mean_exp([logs[knob] for knob in tested]) >= limit:
                worst = max(tested, key=logs.__getitem__)
                return ARROW, worst, logs[worst]
        return None

    def note(self, decision: int, about: int, which: int, log_e: float, done: int) -> Ring:
        """Keep an alarm."""
        ring = Ring(decision, about, which, log_e, done)
        self.alarms = np.concatenate([self.alarms, np.array(ring, dtype=np.float64)])
        return ring

    def start_again(self, problem: CausalBandit) -> None:
        """The evidence on knobs begins anew, in the strata that there are now."""
        strata = problem.configurations * ways(problem.actions.radices, self.knobs)
        for name, value in _no_sums(strata, self.seen.shape[1], len(self.joined)).items():
            setattr(self, name, value)


def _no_sums(strata: int, columns: int, knobs: int) -> dict[str, Any]:
    return {
        "stratum_count": np.zeros(strata),
        "stratum_total": np.zeros(strata),
        "seen": np.zeros((strata, columns)),
        "paid": np.zeros((strata, columns)),
        "choice_count": np.zeros(columns),
        "pooled": np.zeros(columns),
        "spread": 0.0,
        "count_of_all": 0.0,
        "total_of_all": 0.0,
        "log_arrows": np.zeros(knobs),
    }
