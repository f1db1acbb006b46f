"""Tables learnt while running: counts of what was observed, and tables drawn from their posterior.

Every row of every table is Dirichlet(a + n) distributed: a is what the problem's FittedModel knows, n is counted. A
round counts for a variable that was not set, if it and all its causes were seen (what was set is seen). Given that,
tables and mean rewards are independent, and are drawn independently: Thompson sampling of the whole model.

Drawn tables are kept until the data disagree, or until it is time for those rows that nobody visits: they are drawn
anew as soon as one row's a + n has grown by `GROWTH`, or the rounds by `DELAY`, and after `AT_THE_LATEST` rounds at the
latest: a good value that had bad luck early is tried again only if a draw favours it. They are not plugged in: under
mean tables a value that was never tried looks like nothing in particular for ever. Nor is one draw kept until
everything has doubled: a bad one would be played for so long.

With trust t below 1, a row is as the past says only with probability t, beforehand; otherwise nothing is known of it,
Dirichlet(1). By how well each explains what was counted since, a row's past is kept or forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from causalbandits._cache import Memory
from causalbandits._typing import Array
from causalbandits.errors import PolicyError
from causalbandits.model import FittedModel, log_gammas
from causalbandits.policies.feedback import Outcome
from causalbandits.policies.posteriors import Spread, log_rising
from causalbandits.policies.statistics import Cells, ScaledCells
from causalbandits.policies.tables.counts import TableRows
from causalbandits.problem import Action, Problem, Situation
from causalbandits.problem.candidates import SearchSet
from causalbandits.problem.inference import DRAWS_AT_ONCE

GROWTH, DELAY, AT_THE_LATEST = 1.1, 1.02, 10
"""Tables are drawn anew when a row's weight, or the number of rounds, has grown by this factor; or after so many."""

ENOUGH_ROUNDS = 100
"""After so many rounds something should have been learnt of every table."""

DRAWS_KEPT, SETS_DRAWN = 2, 2**9
"""So many draws of the tables are remembered, and so many sets of actions under each."""

LEAST_ENTRY = 1e-12
"""Where there is a context, no entry that is possible is drawn smaller than this."""

Tables = dict[str, Array]


class DrawnTables:
    """Tables as they were drawn, the same in all contexts, and actions under them."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._sets: Memory[SearchSet, SearchSet] = Memory(SETS_DRAWN)

    def under(self, search: SearchSet) -> SearchSet:
        """The same actions, if the tables are these."""
        found = self._sets.get(search)
        return self._sets.keep(search, search.with_tables(self._tables)) if found is None else found


@dataclass(eq=False)
class LearntCells(Cells):
    """Count and sum of rewards per configuration; and how often each entry of each table was seen.

    `seen_at_draw` and `rounds_at_draw` are what was known when tables were last drawn, for the `draw`-th time.
    """

    seen: Array
    seen_at_draw: Array
    rounds_at_draw: int
    draw: int

    def __post_init__(self) -> None:
        self.drawn: Memory[Any, DrawnTables] = Memory(DRAWS_KEPT)
        """The tables that were drawn last; not saved, since they can be drawn again."""
        self.complying: Memory[SearchSet, Any] = Memory(SETS_DRAWN)
        """Which actions keep to what is required, by what was known when tables were last drawn."""
        self.schedule: Schedule | None = None
        """When they are to be drawn anew; found when it is asked for."""


@dataclass(eq=False)
class ScaledLearntCells(ScaledCells, LearntCells):
    """The same, and what says how rewards vary."""


class Schedule:
    """How often each row was seen, and from which count, or round, on tables are drawn anew."""

    def __init__(self, tables: LearntTables, cells: LearntCells) -> None:
        prior = tables.prior_totals
        self.counts: list[float] = tables.totals(cells.seen).tolist()
        self.limits: list[float] = (GROWTH * (prior + tables.totals(cells.seen_at_draw)) - prior).tolist()
        self.rounds = min(DELAY * cells.rounds_at_draw, cells.rounds_at_draw + AT_THE_LATEST)


class LearntTables(TableRows):
    """What is known of the tables that decide about P(z | a), and how they are drawn."""

    def __init__(self, problem: Problem) -> None:
        if not isinstance(problem.model, FittedModel):
            raise PolicyError(
                "tables='learnt' starts from what is known of the tables, and this model's are known exactly. Fit them "
                "to data, or say that nothing is known: fit(graph, None, states=...)."
            )
        super().__init__(problem)
        self.fitted = problem.model
        self.prior = self.joined(problem.model.concentrations)
        self.prior_totals = self.totals(self.prior)

    @property
    def usual_trust(self) -> float:
        """1/2 where the past holds rounds in which nothing was set: hidden causes may have chosen there."""
        return 0.5 if self.fitted.observational else 1.0

    def belief_in_past(self, seen: Array, trust: float) -> Array:
        """For every row, the probability that it is as the past says."""
        if trust == 1.0:
            return np.ones(len(self.row_starts))
        odds = self._log_likelihood(seen, self.prior) - self._log_likelihood(seen, np.ones(self.size))
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + (1.0 - trust) / trust * np.exp(-odds)))

    def _log_likelihood(self, seen: Array, a: Array) -> Array:
        """Of each row's counts, in some order, under Dirichlet(a)."""
        return np.asarray(self.totals(log_rising(a, seen)) - log_rising(self.totals(a), self.totals(seen)))

    def mean(self, seen: Array, trust: float) -> Array:
        """The entries' posterior means."""
        kept = self.belief_in_past(seen, trust)[self.row_of]
        return np.asarray(kept * self._mean(self.prior + seen) + (1.0 - kept) * self._mean(1.0 + seen))

    def _mean(self, concentrations: Array) -> Array:
        return np.asarray(concentrations / self.totals(concentrations)[self.row_of])

    def drawn(self, seen: Array, trust: float, rng: np.random.Generator, n: int) -> Array:
        """The entries drawn from their posterior, n times: a row each."""
        a = self.prior
        if trust < 1.0:
            kept = self.belief_in_past(seen, trust)
            a = np.where((rng.random((n, len(kept))) < kept)[:, self.row_of], a, 1.0)
        concentrations = np.empty((n, self.size))
        concentrations[:] = a + seen
        if concentrations.min() >= 1.0:
            weights = rng.standard_gamma(concentrations)
        else:  # these may underflow, all of a row's
            logs = log_gammas(concentrations, rng)
            weights = np.exp(logs - np.maximum.reduceat(logs, self.row_starts, axis=1)[:, self.row_of])
        if self.context:  # no draw says that a context which may come never does
            least = LEAST_ENTRY * np.add.reduceat(weights, self.row_starts, axis=1)[:, self.row_of]
            weights = np.where(concentrations > 0.0, np.maximum(weights, least), weights)
        return np.asarray(weights / np.add.reduceat(weights, self.row_starts, axis=1)[:, self.row_of])

    def distribution(self, problem: Problem, cells: LearntCells, trust: float, action: Action) -> Spread:
        """What is known of P(z | do(a)). The draws are the same every time, so that an interval made of them is."""
        n = max(2, min(400, DRAWS_AT_ONCE // problem.configurations))
        drawn = self.by_name(self.drawn(cells.seen, trust, np.random.default_rng(0), n))
        mean = self.by_name(self.mean(cells.seen, trust)[None])
        expected, draws = (
            problem.joint([block.under(tables, [action.choices[k] for k in block.knobs]) for block in problem.blocks])
            for tables in (mean, drawn)
        )
        return Spread(expected.reshape(-1), draws.reshape(n, -1))

    def never_seen(self, cells: LearntCells) -> tuple[str, ...]:
        """Which tables nothing has been learnt of in many rounds, and what to do about it."""
        if cells.rounds < ENOUGH_ROUNDS:
            return ()
        counts = self.by_name(cells.seen)
        unseen = [name for name in self.names if name not in self.knobs and not counts[name].any()]
        if not unseen:
            return ()
        needed = dict.fromkeys(axis for name in unseen for axis in (*self.model[name].parents, name))
        told = {*self.parents, *(name for name in self.context if counts[name].any())}
        missing = ", ".join(repr(name) for name in needed if name not in told)
        return (
            f"nothing is learnt of the tables of {', '.join(map(repr, unseen))}, because a variable counts only where "
            f"it and all its causes are seen. Tell more, tell(..., observed={{...}}), of {missing}; or leave what "
            "cannot be observed out of the graph, and draw arrows from its causes to its effects",
        )

    def learnt_model(self, cells: LearntCells, trust: float) -> FittedModel:
        """What is known of the tables by now. Where the past is doubted, tables are what is expected of them."""
        model, seen = self.fitted, self.by_name(cells.seen)
        pseudo, counts = dict(model.prior), dict(model.counts)
        if trust == 1.0:
            counts |= {name: model.counts[name] + seen[name] for name in self.names}
        else:
            pseudo |= self.by_name(self._doubted(cells.seen, trust))
            counts |= seen
        states = {name: v.states for name, v in model.variables.items()}
        parents = {name: v.parents for name, v in model.variables.items()}
        rows = model.rows + cells.rounds
        return FittedModel(states, parents, counts, pseudo, rows, model.filled, model.observational)

    def _doubted(self, seen: Array, trust: float) -> Array:
        """Pseudo-counts that together with what was seen have the expected tables as their mean."""
        mean, kept = self.mean(seen, trust), self.belief_in_past(seen, trust)
        past, nothing = self.totals(self.prior), self.totals(np.ones(self.size))
        weight = kept * past + (1.0 - kept) * nothing + self.totals(seen)
        # No less than what was seen can be left to explain.
        needed = np.maximum.reduceat(seen / np.maximum(mean, 1e-300), self.row_starts)
        return np.asarray(np.maximum(0.0, np.maximum(weight, needed)[self.row_of] * mean - seen))


def learnt_tables(problem: Problem) -> LearntTables:
    """The tables that are learnt on a problem, the same in all contexts."""
    return problem.whole.remember("learnt tables", lambda: LearntTables(problem.whole))


def nothing_learnt(problem: Problem, cells: Cells) -> LearntCells:
    """Before the first round: cells of which nothing was seen, and nothing of the tables either."""
    size = learnt_tables(problem).size
    seen = np.zeros(size), np.zeros(size), 0, 0
    if isinstance(cells, ScaledCells):
        return ScaledLearntCells(0, cells.count, cells.total, *seen, cells.pooled)
    return LearntCells(0, cells.count, cells.total, *seen)


def count_tables(tables: LearntTables, cells: LearntCells, outcome: Outcome) -> None:
    """Take in what an outcome, whose reward is counted already, says of the tables."""
    schedule = cells.schedule = cells.schedule or Schedule(tables, cells)
    due = cells.rounds >= schedule.rounds
    for entry, row in tables.entries(outcome):
        cells.seen[entry] += 1.0
        schedule.counts[row] += 1.0
        due = due or schedule.counts[row] >= schedule.limits[row]
    if due:
        draw_anew(cells)


def draw_anew(cells: LearntCells) -> None:
    """From now on tables are drawn from what is known now."""
    cells.seen_at_draw[:], cells.rounds_at_draw = cells.seen, cells.rounds
    cells.draw += 1
    cells.schedule = None
    cells.drawn.clear()
    cells.complying.clear()


def under_drawn_tables(situation: Situation, cells: LearntCells, trust: float, rng: np.random.Generator) -> Situation:
    """The situation if the tables are as they were last drawn.

    The draw belongs to the learner and its number: it comes from the seed of `rng`, and takes nothing from it.
    """
    seed = rng.bit_generator.seed_seq
    drawn = cells.drawn.get((seed, cells.draw))
    if drawn is None:
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, cells.draw, 1))  # type: ignore[attr-defined]
        tables = learnt_tables(situation.problem)
        entries = tables.drawn(cells.seen_at_draw, trust, np.random.default_rng(own), 1)[0]
        drawn = cells.drawn.keep((seed, cells.draw), DrawnTables(tables.by_name(entries)))
    return situation.searching(drawn.under(situation.search))


def under_mean_tables(situation: Situation, cells: LearntCells, trust: float) -> Situation:
    """The situation if the tables are as expected: P(z | a) is then what is expected of it."""
    tables = learnt_tables(situation.problem)
    return situation.searching(situation.search.with_tables(tables.by_name(tables.mean(cells.seen, trust))))
