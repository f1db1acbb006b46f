"""The e-processes of a model, the alarm rule, and the cells of a repaired graph.

Cells (z, x) of a repaired graph: x are an action's choices for the variables that were added to the reward's parents,
and score_a = sum over z of P(z | a) theta[z, x(a)]. Actions with the same choices for these variables share theta and
are projected together. The optimal action then depends on more than P(z | a), so all actions are searched.
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
from causalbandits.policies.robust.implications import CPTDraw, Implications, testable_implications
from causalbandits.policies.statistics import Cells, Statistic
from causalbandits.problem import Action, Problem, Scores, Situation
from causalbandits.problem.actions import Choices
from causalbandits.problem.candidates import project_actions
from causalbandits.problem.projection import CELL_LIMIT, Projection


class ActionGroup(NamedTuple):
    """The searched actions with the same choices for the added variables."""

    code: int
    """The number of their joint choice."""
    positions: Codes
    projection: Projection


class GroupedProjection:
    """The searched actions of a situation, grouped by their choices for the added variables."""

    def __init__(self, situation: Situation, manipulable: tuple[int, ...]) -> None:
        problem, choices = situation.problem, situation.candidates.array()
        self.size, self.choice_count = situation.size, joint_choice_count(problem.actions.radices, manipulable)
        codes = np.zeros(len(choices), dtype=np.intp)
        for variable in manipulable:
            codes = codes * problem.actions.radices[variable] + choices[:, variable]
        self.groups = []
        for code in np.unique(codes).tolist():
            positions = np.flatnonzero(codes == code)
            projection = project_actions(choices[positions], problem.blocks, problem.shape)
            self.groups.append(ActionGroup(code, positions, projection))

    def scores(self, index: Array) -> Scores:
        """Scores of the searched actions from an index per cell, for each of several posterior samples."""
        theta = index.reshape(len(index), -1, self.choice_count)
        values = np.empty((len(index), self.size))
        for code, positions, projection in self.groups:
            values[:, positions] = projection(np.ascontiguousarray(theta[:, :, code].T))
        return Scores(values, np.abs(index).max(axis=1))


def joint_choice_count(radices: tuple[int, ...], manipulable: tuple[int, ...]) -> int:
    """The number of joint choices of the added variables, including unset ones."""
    return math.prod(radices[variable] for variable in manipulable)


def repaired_cell(configuration: int, choices: Choices, radices: tuple[int, ...], manipulable: tuple[int, ...]) -> int:
    """The cell of an outcome."""
    for variable in manipulable:
        configuration = configuration * radices[variable] + choices[variable]
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
"""The responses to an alarm, by number."""
UNCHANGED, REPAIRED, GRAPH_ABANDONED, TABLES_LEARNED, TOO_LARGE, CONTEXT_DEPENDENT = range(len(RESPONSES))

ARROW, ROW = 0, 1
"""The subject of an alarm: a manipulable variable, or a row of a CPT."""

NUMBERS_PER_ALARM = 5
"""The length of an alarm's record: decision, ARROW or ROW, its number, log E, and the response."""


class AlarmRow(NamedTuple):
    """An alarm as numbers."""

    decision: int
    about: int
    which: int
    log_e: float
    done: int


Integers = npt.NDArray[np.int64]

REFIT_GROWTH = 1.1
"""Learned CPTs and choice effects are estimated again when their counts have grown by this factor."""

Contrast = tuple[int, dict[int, float]]
"""A manipulable variable whose choice was random, and the probabilities of its choices, by column."""


@dataclass(eq=False)
class Monitor(Statistic):
    """Sums by stratum and choice, evidence per manipulable variable, and counts and evidence per CPT row.

    A stratum is a configuration of the parents together with the choices for the variables that were added to them.
    """

    witnessed: int
    """The number of outcomes in the evidence, which are those before the first missing one."""
    joined: Integers
    """For each manipulable variable, whether it was added to the parents."""
    stratum_count: Array
    stratum_total: Array
    seen: Array
    """The number of rewards by stratum and choice: one row per stratum, one column for each choice of each
    variable.
    """
    paid: Array
    """The sums of these rewards."""
    added: Array
    """The estimated effect of each choice of each variable on the reward, common to all strata."""
    added_at: float
    """The number of rewards at which these effects were estimated."""
    spread: float
    """The sum of squared deviations of rewards from their predictions."""
    count_of_all: float
    total_of_all: float
    """The number of rewards in all strata, and their sum."""
    log_arrows: Array
    """log E of each manipulable variable."""
    log_graph: float
    """log E of all manipulable variables together."""
    contrasts: Integers
    """The number of outcomes that tested each variable: those whose decision left its choice random."""
    counted: Array
    """The number of draws of each value from each row of each CPT."""
    log_rows: Array
    """log E of each row, for each alternative."""
    log_suspected: Array
    """The logarithm of 3/4 + E/4 of each row."""
    log_tables: float
    """The sum of these."""
    learned: int
    """Whether CPTs are learned from the counts."""
    believed: Array
    """The counts at the last update of the CPTs."""
    alarms: Array
    """The alarms, `NUMBERS_PER_ALARM` numbers each."""

    GROWING: ClassVar[tuple[str, ...]] = ("stratum_count", "stratum_total", "seen", "paid", "alarms")
    """The fields whose sizes depend on the outcomes."""

    @staticmethod
    def empty_fields(problem: Problem) -> dict[str, Any]:
        """The initial values of all fields."""
        implications, manipulable = testable_implications(problem), len(problem.manipulable)
        size = problem.configurations * implications.columns
        if size > CELL_LIMIT:
            raise SizeError(
                f"The misspecification test stores a number for each of {problem.configurations} configurations and "
                f"{implications.columns} choices, {size} numbers; the limit is {CELL_LIMIT}. Use a smaller adjustment "
                'set (adjust="smallest").'
            )
        return {
            "witnessed": 0,
            "joined": np.zeros(manipulable, dtype=np.int64),
            **_empty_sums(problem.configurations, implications.columns, manipulable),
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
        """A monitor of a problem before the first outcome."""
        return cls(rounds=0, **cls.empty_fields(problem))

    def restore(self, record: Any) -> None:
        if isinstance(record, dict):
            for name in self.GROWING:
                if isinstance(record.get(name), list):
                    setattr(self, name, np.zeros(np.shape(record[name]), dtype=getattr(self, name).dtype))
        super().restore(record)

    @property
    def added_variables(self) -> tuple[int, ...]:
        """The manipulable variables that were added to the parents."""
        joined = self.joined.tolist()
        return tuple([variable for variable, has in enumerate(joined) if has]) if 1 in joined else ()

    def current_problem(self, problem: Problem) -> Problem:
        """The problem with the current CPTs."""
        if not self.learned:
            return problem
        key = "learned", self.believed.tobytes()
        current = problem.unconditional.compute_once(
            key, lambda: testable_implications(problem).with_learned_cpts(self.believed)
        )
        return current if problem is problem.unconditional else current.condition_codes(problem.context_codes)

    # --- one more outcome -----------------------------------------------------------------------------

    def add_outcome(self, problem: Problem, outcome: Outcome, reward: float, noise: float | None) -> None:
        """Add one outcome, in the order of decisions.

        `noise` is the scale of the rewards given z, None if they are successes and failures.
        """
        if not outcome.z:
            return
        self.witnessed += 1
        implications = testable_implications(problem)
        stratum = self._stratum(problem, outcome.action.choices, outcome.z)
        columns = implications.columns_of(outcome.action.choices)
        common = common_mean(self.count_of_all, self.total_of_all, is_binary=noise is None)
        count = self.stratum_count.item(stratum) + STRATUM_PSEUDO_COUNT
        total = self.stratum_total.item(stratum) + STRATUM_PSEUDO_COUNT * common
        contrasts = self._contrasts(problem, implications, outcome)
        if contrasts:
            variance = None if noise is None else (self.spread + noise * noise) / (self.count_of_all + 1.0)
            self._bet(implications, stratum, contrasts, columns, (count, total), reward, variance)
        # The first numeric reward sets the level, so that adding a constant to all rewards changes nothing.
        self._add_reward(stratum, columns, total / count if noise is None or self.count_of_all else reward, reward)
        if self.count_of_all >= REFIT_GROWTH * self.added_at:
            self._fit_choice_effects(implications, is_binary=noise is None)
        for value in implications.cpt_draws(outcome):
            self._count_cpt_draw(value)
        if self.learned and self.counted.sum() >= REFIT_GROWTH * self.believed.sum():
            self.believed = self.counted.copy()

    def _stratum(self, problem: Problem, choices: Choices, z: Z) -> int:
        return repaired_cell(problem.configuration(z), choices, problem.actions.radices, self.added_variables)

    def _contrasts(self, problem: Problem, implications: Implications, outcome: Outcome) -> list[Contrast]:
        """P(x | stratum) for the choices x of every variable whose choice was random."""
        support = outcome.support
        if support is None or len(support) == 1:
            return []
        current, fixed = self.current_problem(problem), self.added_variables
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
                for weights_of_variable, column in zip(chances, implications.columns_of(choices), strict=True):
                    weights_of_variable[column] = weights_of_variable.get(column, 0.0) + weight
        return [
            (variable, weights_of_variable)
            for variable, weights_of_variable in enumerate(chances)
            if len(weights_of_variable) > 1
        ]

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
        """Bet on every variable whose choice was random; `stratum_sums` are the number and the sum of the
        stratum's rewards.
        """
        counts, sums, effects = self.seen[stratum].tolist(), self.paid[stratum].tolist(), self.added.tolist()
        logs, factors = [], []
        for variable, chances in contrasts:
            first, last = implications.column_span(variable)
            mean = (stratum_sums[1] - sum(map(mul, counts[first:last], effects[first:last]))) / stratum_sums[0]
            means = [predict_mean(mean + effects[x], counts[x], sums[x]) for x in chances]
            q = (
                bernoulli_likelihoods(means, reward)
                if variance is None
                else normal_likelihoods(means, reward, variance)
            )
            factor = e_factor(q, list(chances.values()), list(chances).index(columns[variable]))
            logs.append(self.log_arrows.item(variable))
            factors.append(factor)
            self.log_arrows[variable] = logs[-1] + math.log(factor)
            self.contrasts[variable] += 1
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

    def _fit_choice_effects(self, implications: Implications, *, is_binary: bool) -> None:
        """Estimate the choice effects on the reward again."""
        visited = np.flatnonzero(self.stratum_count)
        common = common_mean(self.count_of_all, self.total_of_all, is_binary=is_binary)
        total = self.stratum_total[visited] + STRATUM_PSEUDO_COUNT * common
        self.added = choice_effects(self.seen[visited], self.paid[visited], total, implications.starts, self.added)
        self.added_at = self.count_of_all

    def _count_cpt_draw(self, draw: CPTDraw) -> None:
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

    # --- results ----------------------------------------------------------------------------------------

    def alarm_rows(self) -> list[AlarmRow]:
        """The alarms, in the order of their decisions."""
        numbers = self.alarms.reshape(-1, NUMBERS_PER_ALARM).tolist()
        return [AlarmRow(int(t), int(about), int(which), log_e, int(done)) for t, about, which, log_e, done in numbers]

    def has_open_alarm(self, about: int) -> bool:
        """Whether there was an alarm on this subject without a response since."""
        return any(row.about == about and row.done != REPAIRED for row in self.alarm_rows())

    def find_alarm(self, alpha: float) -> tuple[int, int, float] | None:
        """The subject, its number and log E, if there is an alarm; each of the two tests has error probability
        alpha/2.
        """
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
        """Record an alarm."""
        row = AlarmRow(decision, about, which, log_e, done)
        self.alarms = np.concatenate([self.alarms, np.array(row, dtype=np.float64)])
        return row

    def restart(self, problem: Problem) -> None:
        """Restart the evidence on manipulable variables with the current strata."""
        strata = problem.configurations * joint_choice_count(problem.actions.radices, self.added_variables)
        for name, value in _empty_sums(strata, self.seen.shape[1], len(self.joined)).items():
            setattr(self, name, value)


def _empty_sums(strata: int, columns: int, manipulable: int) -> dict[str, Any]:
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
        "log_arrows": np.zeros(manipulable),
        "log_graph": 0.0,
        "contrasts": np.zeros(manipulable, dtype=np.int64),
    }


@dataclass(eq=False)
class MonitoredCells(Monitor):
    """The current cells, and the rewards by action and configuration, from which other cells can be computed."""

    count: Array
    total: Array
    given_up: int
    """Whether cells are actions, in every context."""
    told_choices: Integers
    """The choices of past actions, one number per manipulable variable, row after row."""
    told_z: Integers
    told_context: Integers
    """The number of the context, if a graph may be given up in contexts; otherwise 0."""
    told_count: Array
    told_total: Array

    GROWING: ClassVar[tuple[str, ...]] = (
        *Monitor.GROWING,
        *("count", "total", "told_choices", "told_z", "told_context", "told_count", "told_total"),
    )

    @classmethod
    def empty(cls, problem: Problem) -> MonitoredCells:
        """The statistic before the first outcome."""
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
        """The statistic of the posteriors."""
        return Cells(self.rounds, self.count, self.total)

    def cell(self, problem: Problem, action: Action, z: int, context: int) -> int:
        """The cell of an outcome."""
        if self.given_up:
            return context * problem.actions.size + action.number
        return repaired_cell(z, action.choices, problem.actions.radices, self.added_variables)

    def add_reward(self, problem: Problem, action: Action, z: int, context: int, reward: float) -> None:
        """Add one reward."""
        cell = self.cell(problem, action, z, context) if len(self.alarms) else z
        self.rounds += 1
        self.count[cell] += 1.0
        self.total[cell] += reward
        row = self._row_of(action.choices, z, context)
        self.told_count[row] += 1.0
        self.told_total[row] += reward

    def _reward_keys(self) -> Iterator[tuple[Choices, int, int]]:
        """The choices, the configuration and the context of each row."""
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
        """Compute the cells of the current graph from all recorded rewards."""
        self.count, self.total = np.zeros(size), np.zeros(size)
        sums = zip(self.told_count.tolist(), self.told_total.tolist(), strict=True)
        for (choices, z, context), (count, total) in zip(self._reward_keys(), sums, strict=True):
            cell = self.cell(problem, Action(problem.actions, choices), z, context)
            self.count[cell] += count
            self.total[cell] += total
