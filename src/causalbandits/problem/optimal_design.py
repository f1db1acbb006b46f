"""Optimal designs: allocations of trials to actions for a given goal.

After n rounds of a mixture w the configurations have been seen n q_w(z) times, q_w(z) = sum_a w_a P(z | a), and a
weighted sum of their means, sum_z d_z mean_z, is known with variance sum_z d_z^2 s_z^2 / (n q_w(z)). A design minimises
the largest of some such variances:

    means         d = P_a for every action a. The value is Lattimore, Lattimore and Reid's m(eta): a G-optimal design.
    differences   d = P_a - P_b for every two actions.
    best          d = sqrt(2) (P_b - P_best) / (the gap of b). The value is the characteristic time T*: identifying the
    best action with confidence 1 - delta takes about T* log(1/delta) rounds, and no fewer.

Only the vertices of the hull of the P_a matter, both as trials and as actions to distinguish: the actions that can be
optimal. Without the graph, every action is its own configuration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, is_real
from causalbandits.errors import ProblemError, SizeError
from causalbandits.model import Intervention, State
from causalbandits.problem.problem import Problem
from causalbandits.problem.projection import TIE, Scores
from causalbandits.problem.separators import format_names
from causalbandits.problem.situation import Situation

# The fewest trials that distinguish the given actions: one convex problem, solved with a certificate.
#
# Action a results in configuration z with probability P(z | a), so that u_a trials of each action observe it q_z =
# sum_a u_a P(z | a) times on average. A goal b is reached when f_b = sum_z c_bz / q_z <= 1, because its variance is
# then small enough. The problem is to find
#
#     the least k.u over u >= 0 with f_b <= 1 for every b,
#
# where k_a is the price of a trial. Divided by its sum, u is the mixture w that minimises max_b sum_z c_bz / q_w(z),
# and with prices of 1 the sum is that minimum. Weights l_b >= 0 of the goals, which sum to 1, and any y_z >= 0 bound
# k.u from below, because c/q + y q is never below 2 sqrt(c y):
#
#     k.u >= (sum_z sqrt(sum_b l_b c_bz y_z))^2 / max_a (sum_z P(z | a) y_z / k_a).
#
# At the optimum y_z = sum_b l_b c_bz / q_z^2 makes the two equal. An interior-point method finds both sides: Newton
# steps for k - P y = s, f + g = 1, l g = u s = m, with m decreasing to 0. Except for the diagonal, its matrix has the
# rank of the configurations, so that a step takes O((actions + goals) configurations^2).

GAP_TOLERANCE = 1e-7
"""The relative tolerance between the value and its lower bound, as far as rounding permits."""

MAX_STEPS, MAX_IDLE_STEPS = 300, 12
"""The largest number of Newton steps, and of successive steps without progress."""

TRIM_SHARES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
"""Shares of the trials below which actions are dropped, if this costs no more than `TRIM_TOLERANCE`."""

TRIM_TOLERANCE = 1e-5


class Allocation(NamedTuple):
    """The trials of each action, their total cost, and a lower bound on the cost of every solution."""

    tries: Array
    value: float
    bound: float


def allocate(rows: Array, goals: Array, prices: Array) -> Allocation:
    """The cheapest allocation of trials: `rows` are P(z | a) of every action, `goals` the c_bz of every goal, none of
    them all 0.

    Every z with some c_bz > 0 must have positive probability under some action, and every price must be positive.

    >>> allocate(np.eye(2), np.array([[1., 4.]]), np.ones(2)).tries.round(6)  # as the square roots
    array([3., 6.])
    """
    relevant = (goals > 0).any(axis=0)
    iterate = _InteriorPoint(rows[:, relevant] / prices[:, None], goals[:, relevant])
    best, idle = iterate.scaled_allocation(), 0
    for _ in range(MAX_STEPS):
        if best.value - best.bound <= GAP_TOLERANCE * best.value or idle == MAX_IDLE_STEPS or not iterate.step():
            break
        previous, best = best, _tighten(best, iterate.scaled_allocation())
        idle = idle + 1 if best.value - best.bound == previous.value - previous.bound else 0
    tries = _trim(iterate, best.tries)
    return Allocation(tries / prices, float(tries.sum()), best.bound)


class _InteriorPoint:
    """The state of the method: trials u with their shadow prices s, and slacks g of the goals with their weights l.

    Trials are measured by their cost, and everything is in units of the first guess, so that numbers are near 1.
    """

    def __init__(self, rows: Array, goals: Array) -> None:
        self.rows = rows
        equal = np.full(len(rows), 1.0 / len(rows))
        self.unit = float((goals @ (1.0 / (equal @ rows))).max())
        self.goals = goals / self.unit
        self.u, self.g = 2.0 * equal, np.full(len(goals), 0.5)
        self.s, self.l = np.ones(len(rows)), np.full(len(goals), 1.0 / len(goals))

    def step(self) -> bool:
        """One Newton step towards a smaller m; returns whether the state changed."""
        q = self.u @ self.rows
        slopes = self.goals / (q * q)
        y = self.l @ slopes
        m = 0.1 * float(self.u @ self.s + self.l @ self.g) / (len(self.u) + len(self.g))
        infeasibility = 1.0 - self.goals @ (1.0 / q) - self.g
        pull = (m - self.l * (self.g + infeasibility)) / self.g
        du = self._newton_direction(slopes, 2.0 * y / q, pull, m / self.u - (1.0 - self.rows @ y))
        if not np.isfinite(du).all():
            return False
        dg = infeasibility + slopes @ (du @ self.rows)
        dl, ds = (m - self.l * (self.g + dg)) / self.g, (m - self.s * (self.u + du)) / self.u
        # Beyond half of q, the tangent is no good approximation of 1/q.
        length = min(1.0, 0.5 / max(1e-300, float(np.abs(du @ self.rows / q).max())))
        primal_length = min(length, *(0.95 * _largest_step(x, dx) for x, dx in ((self.u, du), (self.g, dg))))
        dual_length = min(length, *(0.95 * _largest_step(x, dx) for x, dx in ((self.s, ds), (self.l, dl))))
        self.u, self.g = self.u + primal_length * du, self.g + primal_length * dg
        self.s, self.l = self.s + dual_length * ds, self.l + dual_length * dl
        return max(primal_length, dual_length) > 1e-12

    def _newton_direction(self, slopes: Array, bend: Array, pull: Array, push: Array) -> Array:
        """The du with (diag(s/u) + P C P') du = push + P V' pull, where C = V' diag(l/g) V + diag(bend).

        It is the residual of a least-squares problem in as many unknowns as configurations, found by orthogonal steps:
        near the end s/u is tiny for actions with trials, and forming the matrix would lose all digits.
        """
        weight_roots = np.sqrt(self.l / self.g)
        turn, root = np.linalg.qr(np.vstack([slopes * weight_roots[:, None], np.diag(np.sqrt(bend))]))
        scale = np.sqrt(self.u / self.s)
        low = (self.rows * scale[:, None]) @ root.T
        basis = np.linalg.qr(np.vstack([low, np.eye(low.shape[1])]))[0]
        rest = np.concatenate([scale * push, -(pull / weight_roots) @ turn[: len(pull)]])
        for _ in range(2):
            rest = rest - basis @ (rest @ basis)
        return np.asarray(scale * rest[: len(scale)])

    def scale_to_goals(self, u: Array) -> Array:
        """Trials in these proportions that just reach every goal."""
        return np.asarray(u * float((self.goals @ (1.0 / (u @ self.rows))).max()))

    def scaled_allocation(self) -> Allocation:
        """The trials in these proportions, and the bound from the weights."""
        tries = self.unit * self.scale_to_goals(self.u)
        q = self.u @ self.rows
        combined_goal = (self.l / self.l.sum()) @ self.goals
        y = combined_goal / (q * q)
        bound = self.unit * float(np.sqrt(combined_goal * y).sum() ** 2 / (self.rows @ y).max())
        return Allocation(tries, float(tries.sum()), bound)


def _largest_step(x: Array, dx: Array) -> float:
    """The largest factor of a step before one of some positive numbers becomes 0."""
    falling = dx < 0
    return float((-x[falling] / dx[falling]).min(initial=np.inf))


def _trim(iterate: _InteriorPoint, tries: Array) -> Array:
    """The allocation without negligible shares, because the interior-point method gives every action some trials."""
    most = (1.0 + TRIM_TOLERANCE) * float(tries.sum())
    for cut in TRIM_SHARES:
        trimmed = np.where(tries < cut * tries.sum(), 0.0, tries)
        if (trimmed @ iterate.rows > 0).all():
            rescaled = iterate.unit * iterate.scale_to_goals(trimmed)
            if float(rescaled.sum()) <= most:
                return np.asarray(rescaled)
    return tries


def _tighten(first: Allocation, second: Allocation) -> Allocation:
    """The cheaper of two allocations, with the larger of their bounds."""
    cheaper = first if first.value <= second.value else second
    return cheaper._replace(bound=max(first.bound, second.bound))


Goal = Literal["means", "differences", "best"]
GOALS = ("means", "differences", "best")

DESIGN_LIMIT = 2**23
"""The largest number of entries of the matrix of contrasts."""

SMALLEST_SHOWN_SHARE = 5e-4
"""Smaller shares are not printed."""

DIFFERENCE_TOLERANCE = 1e-13
"""Probabilities that differ by no more than this count as equal."""


class Design(NamedTuple):
    """An allocation of trials to actions, the largest share first.

    Attributes:
        goal: The goal: "means", "differences" or "best".
        interventions: The actions.
        shares: The share of trials of each action.
        value: The value of the objective (see `design`).
        bound: A lower bound on the value of every allocation.
        best: The best action, if the goal is to identify it.
        priced: Whether cost is minimised instead of rounds.
    """

    goal: Goal
    interventions: tuple[Intervention, ...]
    shares: tuple[float, ...]
    value: float
    bound: float
    best: Intervention | None
    priced: bool

    def __repr__(self) -> str:
        unit = "spent" if self.priced else "rounds"
        if self.best is None:
            subject = f"every {'mean' if self.goal == 'means' else 'difference of two means'}"
            head = f"Precision: variance of {subject} at most {self.value:.5g} / n after n {unit}"
        else:
            head = (
                f"Best-arm identification: {self.best} against all others; characteristic time T* = "
                f"{self.value:.5g} (T* log(1/delta) {unit})"
            )
        tried = zip(self.shares, self.interventions, strict=True)
        lines = [f"  {share:6.1%}  {intervention}" for share, intervention in tried if share >= SMALLEST_SHOWN_SHARE]
        rest = ["  (others are below 0.05%)"] if len(lines) < len(self.shares) else []
        return "\n".join([head, *lines, *rest])


def design(
    problem: Problem,
    means: npt.ArrayLike | None = None,
    *,
    goal: Goal | None = None,
    noise_scale: npt.ArrayLike = 1.0,
    tolerance: float = 0.0,
    round_cost: float | None = None,
    graph: bool = True,
    context: Mapping[str, State] | None = None,
    eligible: Iterable[Mapping[str, State]] | None = None,
) -> Design:
    """The optimal allocation of trials to actions, to estimate all means or to identify the best action.

    Without `means`, it minimises the largest variance of an action's estimated mean: `value` is that variance after one
    round, and after n rounds it is value / n. With `means`, it identifies the best action: `value` is the
    characteristic time T*, and an error probability of delta needs about T* log(1/delta) rounds.

    >>> from causalbandits import zoo
    >>> env = zoo.email_campaign()
    >>> round(design(env.problem).value, 3)
    4.622
    >>> found = design(env.problem, env.configuration_means)
    >>> found.best, round(found.value, 1)
    (do(product=Photoshop, purpose=Promo, send_time=morning), 968.6)

    Args:
        problem: The problem.
        means: The mean reward of each configuration (of each action with `graph=False`). Default: not known.
        goal: "means" (default without `means`), "differences" of any two actions, or "best" (default with `means`).
        noise_scale: The standard deviation of rewards, in units of the reward: a number, or one number per
            configuration.
        tolerance: The acceptable loss in mean reward when identifying the best action.
        round_cost: The cost of one round, in addition to the action's cost; the allocation then minimises cost instead
            of rounds. Default: rounds are minimised.
        graph: Whether to use the graph; False gives the allocation without it.
        context: The known values of the problem's context, by variable. Default: none.
        eligible: The interventions that may be tried. Default: all actions.

    Returns:
        The allocation.

    Raises:
        ProblemError: If an argument is malformed or does not fit the problem.
        SizeError: If there are too many actions or configurations.
    """
    if not isinstance(problem, Problem):
        raise ProblemError(f"design() takes a Problem (an environment has one); got {problem!r}.")
    if not isinstance(graph, bool):
        raise ProblemError(f"graph must be True or False; got {graph!r}.")
    if graph and not problem.parents:
        raise ProblemError(
            "This problem learns a mean per action (reward_parents=[]), so actions share no outcomes. Use design(..., "
            'graph=False); goal="best" then requires a mean for each action.'
        )
    if graph and problem.unknown_cpts:
        raise ProblemError(
            f"A design requires P(z | do(a)), and the CPTs of {format_names(problem.unknown_cpts)} are unknown. "
            "Estimate the CPTs from data (cb.fit), or use the CPTs that an agent has learned: "
            "problem.with_model(agent.model)."
        )
    situation = problem.situation(context=context, every=not graph, eligible=eligible)
    rows = action_distributions(situation) if graph else np.eye(situation.size)
    validated_goal = _parse_goal(goal, means is not None)
    noise = _parse_numbers("noise_scale", noise_scale, rows.shape[1], positive=True)
    prices = _trial_prices(situation, round_cost)
    best = None
    if means is None:
        weights = rows if validated_goal == "means" else _pairwise_differences(rows)
    else:
        mean_values = _parse_numbers("means", means, rows.shape[1])
        position, weights = separation_weights(
            rows, situation.net_of_costs(Scores.of(rows @ mean_values)), _parse_tolerance(tolerance)
        )
        weights, best = math.sqrt(2.0) * weights, situation.action(position).intervention
    allocation = cheapest_allocation(rows, weights * noise, prices)
    return _build_design(situation, allocation, validated_goal, best, round_cost is not None)


def action_distributions(situation: Situation) -> Array:
    """P(z | a) of the searched actions, one row each."""
    configurations = situation.problem.configurations
    if situation.size * configurations > DESIGN_LIMIT:
        raise SizeError(
            f"A design computes {situation.size} actions x {configurations} configurations; the limit is "
            f"{DESIGN_LIMIT} numbers. Restrict the actions (eligible=, max_set=), or the parents (adjust=)."
        )
    return np.ascontiguousarray(situation.candidates.project(np.eye(configurations)).reshape(configurations, -1).T)


def separation_weights(rows: Array, values: Scores, tolerance: float) -> tuple[int, Array]:
    """The position of the best value, and the contrast of every other action, (P_b - P_best) / (its gap +
    tolerance).
    """
    best = values.best_position()
    differences = np.where(np.abs(rows - rows[best]) <= DIFFERENCE_TOLERANCE, 0.0, rows - rows[best])
    rivals = np.flatnonzero(differences.any(axis=1))
    gaps = values.values[best] - values.values[rivals] + tolerance
    if (gaps <= TIE * max(1.0, float(values.scale))).any():
        raise ProblemError(
            f"With these means, {_count_text(rivals[gaps <= TIE * max(1.0, float(values.scale))])} as good as the "
            "best, and no number of rounds can separate equal means. Set a tolerance: tolerance=0.01 accepts any "
            "action within 0.01 of the best."
        )
    return best, np.asarray(differences[rivals] / gaps[:, None])


def cheapest_allocation(rows: Array, weights: Array, prices: Array) -> Allocation:
    """The trials after which no sum of `weights` times the configurations' means has a variance above 1."""
    goals = np.unique(weights * weights, axis=0)
    goals = goals[goals.any(axis=1)]
    if not len(goals):  # a single action, or none that differ
        first = np.zeros(len(rows))
        first[int(prices.argmin())] = 1.0
        return Allocation(first, 0.0, 0.0)
    return allocate(rows, goals, prices)


def _count_text(equal: Codes) -> str:
    return "another action is" if len(equal) == 1 else f"{len(equal)} other actions are"


def _pairwise_differences(rows: Array) -> Array:
    """The differences of every two rows."""
    first, second = np.triu_indices(len(rows), 1)
    if len(first) * rows.shape[1] > DESIGN_LIMIT:
        raise SizeError(
            f"{len(rows)} actions have {len(first)} differences on {rows.shape[1]} configurations; the limit is "
            f'{DESIGN_LIMIT} numbers. Use goal="means", which bounds the variance of every difference by four times '
            "its value."
        )
    differences = rows[first] - rows[second]
    return np.where(np.abs(differences) <= DIFFERENCE_TOLERANCE, 0.0, differences)


def _parse_goal(goal: object, has_means: bool) -> Goal:
    if goal is None:
        return "best" if has_means else "means"
    if not isinstance(goal, str) or goal not in GOALS:
        raise ProblemError(f"goal must be one of {', '.join(map(repr, GOALS))}; got {goal!r}.")
    if (goal == "best") != has_means:
        raise ProblemError(
            'goal="best" requires the means: design(problem, means), a number for each configuration.'
            if goal == "best"
            else f'goal="{goal}" does not depend on the means. Leave out means, or goal=.'
        )
    return goal  # type: ignore[return-value]


def _parse_numbers(name: str, values: npt.ArrayLike, size: int, *, positive: bool = False) -> Array:
    """One number for each configuration, as a flat array; `positive` numbers may be one for all."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ProblemError(f"{name} must be numbers, one for each of {size}; got {values!r}.") from None
    flat = np.full(size, float(numbers)) if positive and numbers.ndim == 0 else numbers.reshape(-1)
    if flat.shape != (size,):
        raise ProblemError(f"{name} must be one number for each of {size}; got shape {numbers.shape}.")
    if not np.isfinite(flat).all() or (positive and not (flat > 0).all()):
        kind = "positive finite numbers" if positive else "finite numbers"
        raise ProblemError(f"{name} must be {kind}; got {values!r}.")
    return flat


def _parse_tolerance(tolerance: float) -> float:
    if not is_real(tolerance) or not 0 <= tolerance < math.inf:
        raise ProblemError(f"tolerance must be a number, 0 or more, in the reward's units; got {tolerance!r}.")
    return float(tolerance)


def _trial_prices(situation: Situation, round_cost: float | None) -> Array:
    """The price of a trial of each action; 1 if rounds are counted."""
    if round_cost is None:
        return np.ones(situation.size)
    if not is_real(round_cost) or not 0 <= round_cost < math.inf:
        raise ProblemError(f"round_cost must be a number, 0 or more, in the units of the costs; got {round_cost!r}.")
    prices = np.full(situation.size, float(round_cost)) + (0.0 if situation.costs is None else situation.costs)
    if not (prices > 0).all():
        free_action = situation.action(int(prices.argmin()))
        raise ProblemError(
            f"{free_action} costs nothing, so a design by cost would repeat it without limit. Pass the fixed cost of "
            "a round: round_cost=0.01."
        )
    return np.asarray(prices)


def _build_design(
    situation: Situation, allocation: Allocation, goal: Goal, best: Intervention | None, priced: bool
) -> Design:
    shares = allocation.tries / allocation.tries.sum()
    order = [int(a) for a in np.argsort(-shares, kind="stable") if shares[a] > 0]
    names = tuple(situation.action(a).intervention for a in order)
    return Design(goal, names, tuple(float(shares[a]) for a in order), allocation.value, allocation.bound, best, priced)
