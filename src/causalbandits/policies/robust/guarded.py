"""C-TS that watches its own model, and mends it (the tests are those of `evidence`).

theta_z ~ posterior, 32 times; pi(a): the share of the draws for which a is best; play a ~ pi
the reward depends on knob k given z:  theta_z becomes theta_{z,x}, x what is done with k
a row of a table is wrong:             the tables are learnt from what is seen
no knob is left, or cells would be as many as actions:  the graph is given up, theta_a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from causalbandits._typing import Array, is_real
from causalbandits.errors import PolicyError, SizeError
from causalbandits.model import CausalModel
from causalbandits.model.graph import ancestors
from causalbandits.policies.base import Favourite, Policy, require_draws
from causalbandits.policies.cells import CausalThompsonSampling, favourite_of
from causalbandits.policies.feedback import Choice, Outcome, over_the_coin, pick_place
from causalbandits.policies.posteriors import Bounds, estimated_means, weighted_bounds
from causalbandits.policies.robust.evidence import Evidence, alarm_of, evidence_of
from causalbandits.policies.robust.monitor import (
    ARROW,
    BY_CONTEXT,
    GIVEN_UP,
    LEARNT,
    MENDED,
    NOTHING,
    ROW,
    TOO_LARGE,
    GuardedCells,
    MendedSearch,
    cell_of,
    ways,
)
from causalbandits.policies.validation import require_one_of
from causalbandits.problem import Action, Problem, Purse, Scores, Situation
from causalbandits.problem.candidates import EveryAction, SomeActions
from causalbandits.problem.projection import CELL_LIMIT

MENDABLE = 2**16
"""A graph is mended or given up only if there are no more actions than this, in all contexts together where they get
numbers of their own: all of them are then searched."""

AUDITED = 2**12
"""No more actions than this are audited: each of them is then part of every decision's support."""


@dataclass(frozen=True, kw_only=True)
class GuardedThompsonSampling(Policy[GuardedCells]):
    """C-TS that says when rewards or tables contradict the graph, and mends it.

    `level` is the chance of any false alarm, ever, in each run. `draws` posteriors are drawn for a decision, as for
    `CausalThompsonSampling`: without an alarm both decide the same. A share `audit` of the decisions is made at random,
    which finds what Thompson sampling would no longer try. `on_alarm="mend"` lets the knob that the reward depends on
    join its parents, or learns the tables that are wrong; "leave" gives the graph up at once, for a number per action
    (in every context, all of which must then be known); "warn" only says so.
    """

    in_order = True
    prior: Literal["beta", "gaussian"] = "gaussian"
    noise_scale: float = 1.0
    prior_scale: float = 1.0
    successes: float = 1.0
    failures: float = 1.0
    draws: int = 32
    level: float = 0.05
    audit: float = 0.0
    on_alarm: Literal["mend", "warn", "leave"] = "mend"

    def __post_init__(self) -> None:
        _ = self.inner
        require_draws(self.draws)
        if self.draws < 2:
            raise PolicyError("A guard needs chance that it knows: draws must be 2 or more; got 1.")
        if not is_real(self.level) or not 1e-9 <= self.level <= 0.5:
            raise PolicyError(f"level must lie between 1e-9 and 0.5; got {self.level!r}.")
        if not is_real(self.audit) or not 0.0 <= self.audit <= 0.5:
            raise PolicyError(f"audit must lie between 0 and 0.5; got {self.audit!r}.")
        require_one_of("on_alarm", self.on_alarm, ("mend", "warn", "leave"))

    @property
    def id(self) -> str:
        return f"c-ts-{self.prior}-guarded"

    @cached_property
    def inner(self) -> CausalThompsonSampling:
        """The policy that is guarded."""
        return CausalThompsonSampling(
            prior=self.prior,
            noise_scale=self.noise_scale,
            prior_scale=self.prior_scale,
            successes=self.successes,
            failures=self.failures,
            draws=self.draws,
        )

    @property
    def unit_rewards(self) -> bool:  # type: ignore[override]
        return self.prior == "beta"

    @property
    def needs_context(self) -> bool:  # type: ignore[override]
        return self.on_alarm == "leave"

    @property
    def counts_successes(self) -> bool:  # type: ignore[override]
        return self.prior == "beta"

    def largest_expected_reward(self, problem: Problem) -> float:
        return self.inner.largest_expected_reward(problem)

    # --- deciding -------------------------------------------------------------------------------------

    def start(self, problem: Problem) -> GuardedCells:
        self.inner.start(problem)  # which refuses what is too large
        return GuardedCells.empty(problem)

    def score(self, situation: Situation, statistic: GuardedCells, rng: np.random.Generator) -> Scores:
        scores = self._spread(situation, statistic, self.inner.index(statistic.cells, rng, 1))
        return Scores(scores.values[0], float(np.asarray(scores.scale)[0]))

    def score_each(
        self, situations: Sequence[Situation], statistic: GuardedCells, rng: np.random.Generator
    ) -> list[Scores]:
        self._number_of_context(situations[0].problem)  # which refuses a part, if all of it is needed
        index = self.inner.index(statistic.cells, rng, self.draws)
        return [self._spread(situation, statistic, index) for situation in situations]

    def decide(self, situation: Situation, statistic: GuardedCells, rng: np.random.Generator) -> Choice:
        own = self._cells_in(situation.problem, statistic)
        index = self.inner.index(statistic.cells if own is None else statistic.cells.at(own), rng, self.draws)
        mended = len(statistic.alarms) and (statistic.given_up or statistic.knobs)
        best = self._spread(situation, statistic, index).best_positions() if mended else situation.best_of_draws(index)
        choice = pick_place(best.tolist(), situation.action, rng)
        if situation.is_paced:
            return over_the_coin(choice, situation.pace, situation.action)
        return self._audited(situation, choice, rng, range(situation.size)) if self.audit else choice

    def paced(self, situation: Situation, statistic: GuardedCells, rng: np.random.Generator, purse: Purse) -> Choice:
        choice = super().paced(situation, statistic, rng, purse)
        if not self.audit:
            return choice
        field = self.permitted(situation, statistic)
        assert field.costs is not None
        return self._audited(field, choice, rng, purse.payable(field.costs).tolist())

    def _number_of_context(self, problem: Problem) -> int:
        """By which cells are kept if the graph is given up in contexts; 0 if it never is."""
        number = problem.context_number if self.needs_context else 0
        if number is None:
            raise PolicyError(
                "on_alarm='leave' may give the graph up for a number for every action in every context, so that it "
                f"needs all of it ({', '.join(problem.context)}); known is "
                f"{problem.contexts.shown(problem.known) or 'nothing'}. With on_alarm='mend' a part will do."
            )
        return number

    def _cells_in(self, problem: Problem, statistic: GuardedCells) -> slice | None:
        """The cells that matter in a context where the graph is given up; None where all do."""
        first = self._number_of_context(problem) * problem.actions.size
        return slice(first, first + problem.actions.size) if statistic.given_up else None

    def permitted(self, situation: Situation, statistic: GuardedCells) -> Situation:
        """What is searched: the situation itself, or by now all actions, or the same ones under other tables."""
        if not len(statistic.alarms):
            return situation
        problem = statistic.in_force(situation.problem)
        if not isinstance(situation.search, SomeActions):
            every = isinstance(situation.search, EveryAction) or bool(statistic.given_up or statistic.knobs)
            return problem.situation(every=every)
        if problem is situation.problem:
            return situation
        return problem.situation(eligible=[situation.action(position) for position in range(situation.size)])

    def _spread(self, field: Situation, statistic: GuardedCells, index: Array) -> Scores:
        """From numbers per cell, a row a draw, to scores of the searched actions."""
        if statistic.given_up:
            every = index.shape[-1] == field.problem.actions.size
            return field.gather(index if every else index[..., self._cells_in(field.problem, statistic)])
        knobs = statistic.knobs
        if not knobs:
            return field.project(index)
        return field.priced(field.remember(("mended", knobs), lambda: MendedSearch(field, knobs)).scores(index))

    def _audited(self, field: Situation, choice: Choice, rng: np.random.Generator, positions: Sequence[int]) -> Choice:
        """The choice, or now and then any of the actions at these positions; either way with its exact probability."""
        size = len(positions)
        if size > AUDITED:
            raise SizeError(
                f"audit= tries each of the {size} searched actions now and then; the limit is {AUDITED}. "
                "Leave audit out, or allow fewer actions."
            )
        chances = {field.action(position): self.audit / size for position in positions}
        for action, share in choice.support or ():
            chances[action] += (1.0 - self.audit) * share
        chosen = field.action(positions[int(rng.integers(size))]) if rng.random() < self.audit else choice.action
        return Choice(chosen, chances[chosen], tuple(chances.items()))

    # --- taking in ------------------------------------------------------------------------------------

    def _reward(self, outcome: Outcome) -> float:
        return outcome.successes if self.counts_successes else outcome.reward

    def update(self, situation: Situation, statistic: GuardedCells, outcome: Outcome) -> None:
        problem = situation.problem
        context = self._number_of_context(problem)
        statistic.tell(problem, outcome.action, problem.configuration(outcome.z), context, self._reward(outcome))

    def witness(self, situation: Situation, statistic: GuardedCells, outcome: Outcome) -> str:
        if statistic.given_up:
            return ""
        problem = situation.problem
        if self.prior == "beta":
            statistic.take_in(problem, outcome, outcome.successes, None)
        else:
            statistic.take_in(problem, outcome, outcome.reward, self.noise_scale)
        found = statistic.alarm(self.level)
        if found is None:
            return ""
        done = self._respond(problem, statistic, *found[:2])
        return str(alarm_of(problem, statistic.note(outcome.number, *found, done)))

    def _respond(self, problem: Problem, statistic: GuardedCells, about: int, which: int) -> int:
        """Do what is to be done about an alarm; which it is."""
        if self.on_alarm == "warn":
            return NOTHING
        if self.on_alarm == "leave":
            return self._give_up(problem, statistic)
        if about != ARROW:
            statistic.learnt, statistic.believed = 1, statistic.counted.copy()
            statistic.start_again(problem)
            return LEARNT
        if problem.actions.size > MENDABLE:
            return TOO_LARGE
        if problem.context and _hangs_on_context(problem, problem.manipulable[which]):
            return BY_CONTEXT
        statistic.joined[which] = 1
        knobs = statistic.knobs
        cells = problem.configurations * ways(problem.actions.radices, knobs)
        every = len(knobs) == len(problem.manipulable) or cells >= problem.actions.size
        if every and not problem.context:
            return self._give_up(problem, statistic)
        if cells * statistic.seen.shape[1] > CELL_LIMIT:
            statistic.joined[which] = 0
            return TOO_LARGE
        statistic.start_again(problem)
        statistic.arrange(problem, cells)
        return MENDED

    def _give_up(self, problem: Problem, statistic: GuardedCells) -> int:
        """From now on a number for every action, in every context."""
        size = problem.actions.size * problem.contexts.size
        if size > MENDABLE:
            return TOO_LARGE
        statistic.given_up = 1
        statistic.arrange(problem, size)
        return GIVEN_UP

    def concerns(self, problem: Problem, statistic: GuardedCells) -> tuple[str, ...]:
        if not problem.required or not any(ring.about == ROW for ring in statistic.rings()):
            return ()
        contradicted = {
            claim.variable for claim in self.evidence(problem, statistic).contradicted if claim.part == "tables"
        }
        wrong = contradicted & ancestors(problem.model.graph, problem.required)
        if not wrong:
            return ()
        way_out = "take .model, the learnt one" if statistic.learnt else "fit these"
        return (
            f"what is required of {', '.join(problem.required)} was judged by the tables as they were, and those of "
            f"{', '.join(sorted(wrong))} are contradicted: {way_out}, and make the problem anew",
        )

    # --- advising -------------------------------------------------------------------------------------

    def evidence(self, problem: Problem, statistic: GuardedCells) -> Evidence:
        """What the outcomes say of the model."""
        return evidence_of(problem, statistic, self.level)

    def alarms(self, problem: Problem, statistic: GuardedCells) -> tuple[str, ...]:
        return tuple(map(str, self.evidence(problem, statistic).alarms))

    def learnt_model(self, problem: Problem, statistic: GuardedCells) -> CausalModel | None:
        return statistic.in_force(problem).model if statistic.learnt else None

    def favourite(self, situation: Situation, statistic: GuardedCells) -> Favourite:
        cells = statistic.cells
        numbers = np.stack([estimated_means(self.inner.index_parameters, cells), np.minimum(1.0, cells.count)])
        scores = self._spread(situation.free, statistic, numbers)
        means = Scores(scores.values[0], float(np.asarray(scores.scale)[0]))
        return favourite_of(situation, means, scores.values[1])

    def risk(self, situation: Situation, statistic: GuardedCells, action: Action, epsilon: float) -> float | None:
        """As long as there was no alarm; afterwards the graph, and with it the rule, is another than was fixed."""
        return None if len(statistic.alarms) else self.inner.risk(situation, statistic.cells, action, epsilon)

    def drawn_values(
        self, situation: Situation, statistic: GuardedCells, rng: np.random.Generator, draws: int
    ) -> Array | None:
        return None if len(statistic.alarms) else self.inner.drawn_values(situation, statistic.cells, rng, draws)

    def interval(self, situation: Situation, statistic: GuardedCells, action: Action, level: float) -> Bounds:
        parameters, cells = self.inner.index_parameters, statistic.cells
        problem = statistic.in_force(situation.problem)
        if statistic.given_up:
            weights = np.zeros(len(cells.count))
            weights[self._number_of_context(problem) * problem.actions.size + action.number] = 1.0
            return weighted_bounds(parameters, cells, weights, level=level, cell="action")
        places = [
            cell_of(z, action.choices, problem.actions.radices, statistic.knobs) for z in range(problem.configurations)
        ]
        weights, drawn = problem.parent_distribution(action).reshape(-1), problem.parent_draws(action)
        rows = None if drawn is None else _placed(drawn, places, len(cells.count))
        placed = _placed(weights[None], places, len(cells.count))[0]
        return weighted_bounds(parameters, cells, placed, rows, level=level)


def _placed(rows: Array, places: Sequence[int], size: int) -> Array:
    """Numbers of configurations in the cells that they belong to."""
    placed = np.zeros((len(rows), size))
    placed[:, places] = rows
    return placed


def _hangs_on_context(problem: Problem, knob: str) -> bool:
    """Whether a knob that may be left alone is then what the context makes of it, or has a cause in common with it."""
    graph = problem.model.graph
    if knob in problem.actions.surely_set():
        return False
    return bool(ancestors(graph, [knob]) & ancestors(graph, problem.context))
