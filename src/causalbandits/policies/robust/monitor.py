"""The e-processes of a model as outcomes come in, whether there is reason for an alarm, and cells of a repaired graph.

Cells (z, x) of a repaired graph: x is what an action does with the knobs that have joined the reward's parents, and
score_a = sum over z of P(z | a) theta[z, x(a)]. Actions that do the same with these knobs share their theta, and are
projected together. Which of them can be the best is no longer a matter of P(z | a) alone, so all of them are searched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import add, mul
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, Z
from causalbandits.errors import SizeError
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.robust.e_process import (
    STRATUM_PSEUDO_COUNT,
    bernoulli_likelihoods,
    choice_effects,
    common_mean,
    e_factor,
    log_betting_gain,
    log_mean_exp,
    log_mixture_with_null,
    normal_likelihoods,
    predict_mean,
    row_log_factors,
)
from causalbandits.policies.robust.implications import Implications, TableDraw, testable_implications
from causalbandits.policies.statistics import Cells, Statistic
from causalbandits.problem import Action, Problem, Scores, Situation
from causalbandits.problem.actions import Choices
from causalbandits.problem.candidates import project_actions
from causalbandits.problem.projection import CELL_LIMIT, Projection


class ActionGroup(NamedTuple):
    """The searched actions that do the same with the joined knobs."""

    code: int
    """What they do, as a number."""
    positions: Codes
    projection: Projection


class GroupedProjection:
    """The searched actions of a situation, by what they do with the joined knobs."""

    def __init__(self, situation: Situation, knobs: tuple[int, ...]) -> None:
        problem, choices = situation.problem, situation.candidates.array()
        self.size, self.choice_count = situation.size, joint_choice_count(problem.actions.radices, knobs)
        codes = np.zeros(len(choices), dtype=np.intp)
        for knob in knobs:
            codes = codes * problem.actions.radices[knob] + choices[:, knob]
        self.groups = []
        for code in np.unique(codes).tolist():
            positions = np.flatnonzero(codes == code)
            projection = project_actions(choices[positions], problem.blocks, problem.shape)
            self.groups.append(ActionGroup(code, positions, projection))

    def scores(self, index: Array) -> Scores:
        """From a number per cell, for each of several draws, to a score per searched action."""
        theta = index.reshape(len(index), -1, self.choice_count)
        values = np.empty((len(index), self.size))
        for code, positions, projection in self.groups:
            values[:, positions] = projection(np.ascontiguousarray(theta[:, :, code].T))
        return Scores(values, np.abs(index).max(axis=1))


def joint_choice_count(radices: tuple[int, ...], knobs: tuple[int, ...]) -> int:
    """In how many ways the joined knobs can be set or left alone."""
    return math.prod(radices[knob] for knob in knobs)


def joined_cell(configuration: int, choices: Choices, radices: tuple[int, ...], knobs: tuple[int, ...]) -> int:
    """The cell in which an outcome counts."""
    for knob in knobs:
        configuration = configuration * radices[knob] + choices[knob]
    return configuration


RESPONSES = (
    "nothing was changed",
    "the policy added the variable to the reward's parents",
    "the policy no longer uses the graph: it learns a mean for every action",
    "the policy estimates the CPTs from outcomes",
    "nothing was changed: the repaired model would be too large",
    "nothing was changed: without an intervention the variable depends on the context, so its choice cannot replace "
    "its value",
)
"""What can be done about an alarm, by number."""
UNCHANGED, REPAIRED, GRAPH_ABANDONED, TABLES_LEARNED, TOO_LARGE, CONTEXT_DEPENDENT = range(len(RESPONSES))

ARROW, ROW = 0, 1
"""What an alarm is about: a knob, or a row of a table."""

NUMBERS_PER_ALARM = 5
"""An alarm is kept as so many numbers: decision, ARROW or ROW, which one, log E, what was done."""


class AlarmRow(NamedTuple):
    """An alarm in numbers."""

    decision: int
    about: int
    which: int
    log_e: float
    done: int


Integers = npt.NDArray[np.int64]

REFIT_GROWTH = 1.1
"""Learnt tables, and what choices add, are estimated anew when so many times more has been counted."""

Contrast = tuple[int, dict[int, float]]
"""A knob that was left to chance, and the chances of its choices, by their columns."""


@dataclass(eq=False)
class Monitor(Statistic):
    """Sums by stratum and choice, evidence per knob, counts and evidence per row of the tables.

    A stratum is a configuration of the parents, together with the choices of those knobs that have joined them.
    """

    witnessed: int
    """How many outcomes are part of the evidence: those before which none is missing."""
    joined: Integers
    """For each knob whether its choice has joined the parents."""
    stratum_count: Array
    stratum_total: Array
    seen: Array
    """Rewards by stratum and choice: a row a stratum, a column for each choice of each knob."""
    paid: Array
    """Their sums."""
    added: Array
    """What each choice of each knob seems to add to the reward, in all strata alike."""
    added_at: float
    """After how many rewards this was estimated."""
    spread: float
    """The squares of the distances of rewards from what was expected in their strata."""
    count_of_all: float
    total_of_all: float
    """The rewards of all strata: how many, and their sum."""
    log_arrows: Array
    """log E of each knob."""
    log_graph: float
    """log E of all knobs together."""
    contrasts: Integers
    """How many outcomes tested each knob: those before which chance had left open what would be done with it."""
    counted: Array
    """How often each value was drawn from each row of each table."""
    log_rows: Array
    """log E of each row, for each alternative."""
    log_suspected: Array
    """log of 3/4 + E/4 of each row."""
    log_tables: float
    """The sum of these."""
    learned: int
    """Whether tables are learnt from what was counted."""
    believed: Array
    """The counts from which they were last made."""
    alarms: Array
    """`NUMBERS_PER_ALARM` each."""

    GROWING: ClassVar[tuple[str, ...]] = ("stratum_count", "stratum_total", "seen", "paid", "alarms")
    """These have sizes that hang on what happened."""

    @staticmethod
    def empty_fields(problem: Problem) -> dict[str, Any]:
        """Nothing seen yet."""
        implications, knobs = testable_implications(problem), len(problem.manipulable)
        size = problem.configurations * implications.columns
        if size > CELL_LIMIT:
            raise SizeError(
                f"The misspecification test stores a number for each of {problem.configurations} configurations and "
                f"{implications.columns} choices, {size} numbers; the limit is {CELL_LIMIT}. Use a smaller adjustment "
                'set (adjust="smallest").'
            )
        return {
            "witnessed": 0,
            "joined": np.zeros(knobs, dtype=np.int64),
            **_empty_sums(problem.configurations, implications.columns, knobs),
            "counted": np.zeros(implications.size),
            "log_rows": np.zeros((implications.rows, len(implications.alternatives))),
            "log_suspected": np.zeros(implications.rows),
            "log_tables": 0.0,
            "learned": 0,
            "believed": np.zeros(implications.size),
            "alarms": np.zeros(0),
        }

    @classmethod
    def start(cls, problem: Problem) -> Monitor:
        """A watch on a problem."""
        return cls(rounds=0, **cls.empty_fields(problem))

    def restore(self, record: Any) -> None:
        if isinstance(record, dict):
            for name in self.GROWING:
                if isinstance(record.get(name), list):
                    setattr(self, name, np.zeros(np.shape(record[name]), dtype=getattr(self, name).dtype))
        super().restore(record)

    @property
    def joined_knobs(self) -> tuple[int, ...]:
        """Those that have joined the parents."""
        joined = self.joined.tolist()
        return tuple([knob for knob, has in enumerate(joined) if has]) if 1 in joined else ()

    def current_problem(self, problem: Problem) -> Problem:
        """The problem with the tables that are believed by now."""
        if not self.learned:
            return problem
        key = "learned", self.believed.tobytes()
        current = problem.unconditional.compute_once(
            key, lambda: testable_implications(problem).with_learned_cpts(self.believed)
        )
        return current if problem is problem.unconditional else current.condition_codes(problem.context_codes)

    # --- one more outcome -----------------------------------------------------------------------------

    def add_outcome(self, problem: Problem, outcome: Outcome, reward: float, noise: float | None) -> None:
        """One more outcome, in the order of decisions.

        `noise` is the scale of the rewards given z, None if they are successes and failures.
        """
        if not outcome.z:
            return
        self.witnessed += 1
        implications = testable_implications(problem)
        stratum = self._stratum(problem, outcome.action.choices, outcome.z)
        columns = implications.columns_of(outcome.action.choices)
        common = common_mean(self.count_of_all, self.total_of_all, coins=noise is None)
        count = self.stratum_count.item(stratum) + STRATUM_PSEUDO_COUNT
        total = self.stratum_total.item(stratum) + STRATUM_PSEUDO_COUNT * common
        contrasts = self._contrasts(problem, implications, outcome)
        if contrasts:
            variance = None if noise is None else (self.spread + noise * noise) / (self.count_of_all + 1.0)
            self._bet(implications, stratum, contrasts, columns, (count, total), reward, variance)
        # Of numbers the first says where they lie, so that a constant added to all changes nothing.
        self._add_reward(stratum, columns, total / count if noise is None or self.count_of_all else reward, reward)
        if self.count_of_all >= REFIT_GROWTH * self.added_at:
            self._fit_choice_effects(implications, coins=noise is None)
        for value in implications.cpt_draws(outcome):
            self._count_table_draw(value)
        if self.learned and self.counted.sum() >= REFIT_GROWTH * self.believed.sum():
            self.believed = self.counted.copy()

    def _stratum(self, problem: Problem, choices: Choices, z: Z) -> int:
        return joined_cell(problem.configuration(z), choices, problem.actions.radices, self.joined_knobs)

    def _contrasts(self, problem: Problem, implications: Implications, outcome: Outcome) -> list[Contrast]:
        """P(x | stratum) for the choices x of every knob that was left to chance."""
        support = outcome.support
        if support is None or len(support) == 1:
            return []
        current, fixed = self.current_problem(problem), self.joined_knobs
        current_implications = implications if current is problem else testable_implications(current)
        choices_made, z = outcome.action.choices, outcome.z
        if current_implications.probability(current, choices_made, z) == 0.0:
            return []
        chances: list[dict[int, float]] = [{} for _ in choices_made]
        for action, share in support:
            choices = action.choices
            if fixed and any(choices[k] != choices_made[k] for k in fixed):
                continue
            weight = share * current_implications.probability(current, choices, z)
            if weight:
                for weights_of_knob, column in zip(chances, implications.columns_of(choices), strict=True):
                    weights_of_knob[column] = weights_of_knob.get(column, 0.0) + weight
        return [(knob, weights_of_knob) for knob, weights_of_knob in enumerate(chances) if len(weights_of_knob) > 1]

    def _bet(
        self,
        implications: Implications,
        stratum: int,
        contrasts: list[Contrast],
        columns: tuple[int, ...],
        stratum_sums: tuple[float, float],
        reward: float,
        variance: float | None,
    ) -> None:
        """Bet on every knob that was left to chance; `stratum_sums` are the number and the sum of its rewards."""
        counts, sums, effects = self.seen[stratum].tolist(), self.paid[stratum].tolist(), self.added.tolist()
        logs, factors = [], []
        for knob, chances in contrasts:
            first, last = implications.column_span(knob)
            mean = (stratum_sums[1] - sum(map(mul, counts[first:last], effects[first:last]))) / stratum_sums[0]
            means = [predict_mean(mean + effects[x], counts[x], sums[x]) for x in chances]
            q = (
                bernoulli_likelihoods(means, reward)
                if variance is None
                else normal_likelihoods(means, reward, variance)
            )
            factor = e_factor(q, list(chances.values()), list(chances).index(columns[knob]))
            logs.append(self.log_arrows.item(knob))
            factors.append(factor)
            self.log_arrows[knob] = logs[-1] + math.log(factor)
            self.contrasts[knob] += 1
        self.log_graph += log_betting_gain(logs, factors)

    def _add_reward(self, stratum: int, columns: tuple[int, ...], mean: float, reward: float) -> None:
        self.spread += (reward - mean) ** 2
        self.count_of_all += 1.0
        self.total_of_all += reward
        self.stratum_count[stratum] += 1.0
        self.stratum_total[stratum] += reward
        counts, sums = self.seen[stratum], self.paid[stratum]
        for column in columns:  # a few numbers: faster one by one
            counts[column] += 1.0
            sums[column] += reward

    def _fit_choice_effects(self, implications: Implications, *, coins: bool) -> None:
        """Find out anew what choices add to the reward."""
        visited = np.flatnonzero(self.stratum_count)
        common = common_mean(self.count_of_all, self.total_of_all, coins=coins)
        total = self.stratum_total[visited] + STRATUM_PSEUDO_COUNT * common
        self.added = choice_effects(self.seen[visited], self.paid[visited], total, implications.starts, self.added)
        self.added_at = self.count_of_all

    def _count_table_draw(self, draw: TableDraw) -> None:
        row, place, start, stop, alternatives, prior, prior_total = draw
        row_counts = self.counted[start:stop].tolist()
        count, rows = row_counts[place - start], sum(row_counts)
        gains = row_log_factors(
            alternatives, count, rows, (prior + count) / (prior_total + rows) if prior_total else prior
        )
        of_row = self.log_rows[row]
        logs = list(map(add, of_row.tolist(), gains))
        of_row[:] = logs
        log_mixture = log_mixture_with_null(log_mean_exp(logs))
        self.log_tables += log_mixture - self.log_suspected.item(row)
        self.log_suspected[row] = log_mixture
        self.counted[place] = count + 1.0

    # --- what it says ---------------------------------------------------------------------------------

    def alarm_rows(self) -> list[AlarmRow]:
        """The alarms, the first first."""
        numbers = self.alarms.reshape(-1, NUMBERS_PER_ALARM).tolist()
        return [AlarmRow(int(t), int(about), int(which), log_e, int(done)) for t, about, which, log_e, done in numbers]

    def has_open_alarm(self, about: int) -> bool:
        """Whether it has been said already, and nothing was done about it since."""
        return any(row.about == about and row.done != REPAIRED for row in self.alarm_rows())

    def find_alarm(self, alpha: float) -> tuple[int, int, float] | None:
        """What it is about, which one, log E, if there is reason for one. Each of the two tests may err in alpha/2."""
        limit = math.log(2.0 / alpha)
        if self.log_tables >= limit and not self.has_open_alarm(ROW):
            rows = [log_mean_exp(logs) for logs in self.log_rows.tolist()]
            worst = max(range(len(rows)), key=rows.__getitem__)
            return ROW, worst, rows[worst]
        if self.log_graph >= limit and not self.has_open_alarm(ARROW):
            logs = self.log_arrows.tolist()
            worst = max(np.flatnonzero(self.joined == 0).tolist(), key=logs.__getitem__)
            return ARROW, worst, logs[worst]
        return None

    def record_alarm(self, decision: int, about: int, which: int, log_e: float, done: int) -> AlarmRow:
        """Keep an alarm."""
        row = AlarmRow(decision, about, which, log_e, done)
        self.alarms = np.concatenate([self.alarms, np.array(row, dtype=np.float64)])
        return row

    def restart(self, problem: Problem) -> None:
        """The evidence on knobs begins anew, in the strata that there are now."""
        strata = problem.configurations * joint_choice_count(problem.actions.radices, self.joined_knobs)
        for name, value in _empty_sums(strata, self.seen.shape[1], len(self.joined)).items():
            setattr(self, name, value)


def _empty_sums(strata: int, columns: int, knobs: int) -> dict[str, Any]:
    return {
        "stratum_count": np.zeros(strata),
        "stratum_total": np.zeros(strata),
        "seen": np.zeros((strata, columns)),
        "paid": np.zeros((strata, columns)),
        "added": np.zeros(columns),
        "added_at": 0.0,
        "spread": 0.0,
        "count_of_all": 0.0,
        "total_of_all": 0.0,
        "log_arrows": np.zeros(knobs),
        "log_graph": 0.0,
        "contrasts": np.zeros(knobs, dtype=np.int64),
    }


@dataclass(eq=False)
class MonitoredCells(Monitor):
    """Cells as they are at present, and rewards by action and configuration, from which other cells can be made."""

    count: Array
    total: Array
    given_up: int
    """Whether cells are actions, in every context."""
    told_choices: Integers
    """What was done, a number for each knob, row after row."""
    told_z: Integers
    told_context: Integers
    """The number of the context, where a graph may be given up in contexts; 0 elsewhere."""
    told_count: Array
    told_total: Array

    GROWING: ClassVar[tuple[str, ...]] = (
        *Monitor.GROWING,
        *("count", "total", "told_choices", "told_z", "told_context", "told_count", "told_total"),
    )

    @classmethod
    def empty(cls, problem: Problem) -> MonitoredCells:
        """Nothing seen yet."""
        cells, no_codes = Cells.empty(problem.configurations), np.zeros(0, dtype=np.int64)
        cell_fields: dict[str, Any] = {"count": cells.count, "total": cells.total, "given_up": 0}
        reward_fields: dict[str, Any] = {
            "told_choices": no_codes,
            "told_z": no_codes,
            "told_context": no_codes,
            "told_count": np.zeros(0),
            "told_total": np.zeros(0),
        }
        return cls(rounds=0, **cls.empty_fields(problem), **cell_fields, **reward_fields)

    def __post_init__(self) -> None:
        self._row_by_key: dict[tuple[Choices, int, int], int] = {}

    @property
    def cells(self) -> Cells:
        """What posteriors are made of."""
        return Cells(self.rounds, self.count, self.total)

    def cell(self, problem: Problem, action: Action, z: int, context: int) -> int:
        """Where an outcome counts."""
        if self.given_up:
            return context * problem.actions.size + action.number
        return joined_cell(z, action.choices, problem.actions.radices, self.joined_knobs)

    def add_reward(self, problem: Problem, action: Action, z: int, context: int, reward: float) -> None:
        """One more reward."""
        cell = self.cell(problem, action, z, context) if len(self.alarms) else z
        self.rounds += 1
        self.count[cell] += 1.0
        self.total[cell] += reward
        row = self._row_of(action.choices, z, context)
        self.told_count[row] += 1.0
        self.told_total[row] += reward

    def _reward_keys(self) -> Iterator[tuple[Choices, int, int]]:
        """What was done, what came of it, and in which context; row by row."""
        choices = map(tuple, self.told_choices.reshape(len(self.told_z), -1).tolist())
        return zip(choices, self.told_z.tolist(), self.told_context.tolist(), strict=True)

    def _row_of(self, choices: Choices, z: int, context: int) -> int:
        key = choices, z, context
        if len(self._row_by_key) != len(self.told_z):
            self._row_by_key = {stored_key: row for row, stored_key in enumerate(self._reward_keys())}
        row = self._row_by_key.get(key)
        if row is None:
            row = self._row_by_key[key] = len(self.told_z)
            self.told_choices = np.concatenate([self.told_choices, np.array(choices, dtype=np.int64)])
            self.told_z, self.told_context = np.append(self.told_z, z), np.append(self.told_context, context)
            self.told_count, self.told_total = np.append(self.told_count, 0.0), np.append(self.told_total, 0.0)
        return row

    def rebuild_cells(self, problem: Problem, size: int) -> None:
        """Make the cells that there are to be now, from all that was told."""
        self.count, self.total = np.zeros(size), np.zeros(size)
        sums = zip(self.told_count.tolist(), self.told_total.tolist(), strict=True)
        for (choices, z, context), (count, total) in zip(self._reward_keys(), sums, strict=True):
            cell = self.cell(problem, Action(problem.actions, choices), z, context)
            self.count[cell] += count
            self.total[cell] += total
