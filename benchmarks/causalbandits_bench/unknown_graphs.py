"""Published algorithms for causal bandits with an unknown graph in plain NumPy, and the problems that policies assume.

The rules of Known-k UCB+, Unknown-k UCB+ and UCB are those of the code of Shahverdikondori et al. (2026), Graph
Learning is Suboptimal in Causal Bandits (github.com/ban-epfl/Unknown-Graph-Causal-Bandits), with the constants used
there. RAPS is the search of Konobeev et al. (2023), Causal Bandits without Graph Learning, for one parent of the
reward; the number of plays, the threshold and the UCB on the parent's values are those of the former code. An action is
given as the values that it sets, -1 for a variable that it does not set. The values of all variables are observed.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

import causalbandits as cb
from causalbandits._typing import Array, Codes
from causalbandits.environments.zoo.unknown_graphs import NOT_SET

EXPLORATION, RAPS_EXPLORATION = 0.1, 0.2
"""The constants of the upper confidence bounds."""

RAPS_THRESHOLD = 0.05
"""Probabilities that differ by so much show an effect."""


EMAIL_MANIPULABLE, EMAIL_OBSERVED = ("product", "purpose", "send_time"), ("subject", "template")
"""The variables of the e-mail campaign before the click."""


def values_of(env: cb.Environment, names: tuple[str, ...]) -> dict[str, list[Any]]:
    """The values of some variables."""
    return {name: list(env.problem.variable(name).states) for name in names}


def email_without_graph(env: cb.Environment, *, decoys: tuple[str, ...] = (), **arguments: Any) -> cb.Problem:
    """The e-mail campaign, told nothing but its variables and their values."""
    return cb.Problem(
        None,
        reward="click",
        manipulable=values_of(env, EMAIL_MANIPULABLE),
        values=values_of(env, (*EMAIL_OBSERVED, *decoys)),
        **arguments,
    )


class Player(Protocol):
    """An algorithm: it chooses an action by its number, and learns the outcome."""

    def choose(self) -> int:
        """The number of the next action."""

    def learn(self, action: int, values: Codes, reward: float) -> None:
        """Take in the values of all variables, and the reward."""


def settings_of(env: cb.Environment) -> Codes:
    """The value that each action (row) sets each variable (column) to; -1 if it does not set it.

    >>> settings_of(cb.zoo.random_tree(2, rng=0)).tolist()
    [[-1, -1], [0, -1], [1, -1], [-1, 0], [-1, 1]]
    """
    return np.asarray(env.problem.actions.array().astype(np.intp) - 2)


def play(env: cb.Environment, player: Player, horizon: int, rng: np.random.Generator, best: float) -> float:
    """The regret of an algorithm, relative to a mean reward `best`."""
    names, regret = env.shown, 0.0
    losses = best - env.means
    for _ in range(horizon):
        action = player.choose()
        observed, _, reward = env.draw_all(env.problem.actions.choices(action), rng)
        player.learn(action, np.array([observed[name] for name in names]), reward)
        regret += float(losses[action])
    return regret


class StandardUCB:
    """UCB over all actions; an action that was not played has the index 1."""

    def __init__(self, settings: Codes, horizon: int) -> None:
        self._bonus = EXPLORATION * max(1.0, math.log(horizon))
        self._count, self._total = np.zeros(len(settings)), np.zeros(len(settings))

    def choose(self) -> int:
        return int(np.argmax(_upper_bounds(self._count, self._total, self._bonus, unplayed=1.0)))

    def learn(self, action: int, values: Codes, reward: float) -> None:
        self._count[action] += 1.0
        self._total[action] += reward


class KnownKUCBPlus:
    """UCB over a random part of the actions that suffices for k parents; an outcome counts for all actions it fits.

    An action fits an outcome if all values that it sets were observed.
    """

    def __init__(self, settings: Codes, k: int, n_values: int, horizon: int, rng: np.random.Generator) -> None:
        n, m = settings.shape[1], int((settings[0] >= 0).sum())
        size = len(settings)
        if m >= k:
            needed = n_values**k * math.comb(n, k) / math.comb(m, k) * math.log(math.sqrt(horizon))
            size = min(size, max(1, math.ceil(needed)))
        self._actions = rng.permutation(len(settings))[:size]
        self._settings = settings[self._actions]
        self._bonus = EXPLORATION / math.comb(n, m) * math.log(horizon)
        self._count, self._total = np.zeros(size), np.zeros(size)

    def choose(self) -> int:
        bounds = _upper_bounds(self._count, self._total, self._bonus, unplayed=math.inf)
        return int(self._actions[np.argmax(bounds)])

    def learn(self, action: int, values: Codes, reward: float) -> None:
        fits = ((self._settings < 0) | (self._settings == values)).all(axis=1)
        self._count[fits] += 1.0
        self._total[fits] += reward


class UnknownKUCBPlus:
    """UCB in phases, over half as many actions in each, and over the past phases, each as a mixture of its plays."""

    def __init__(self, settings: Codes, n_values: int, horizon: int, rng: np.random.Generator) -> None:
        n, m = settings.shape[1], int((settings[0] >= 0).sum())
        self._rng, self._horizon, self._played = rng, horizon, 0
        self._bonus = EXPLORATION / math.comb(n, m)
        self._last_phase = max(1, math.ceil(math.log2(math.sqrt(horizon * m / (n_values * n)))))
        self._doublings, self._rounds_factor = math.ceil(math.log2(math.sqrt(horizon))), math.ceil(n_values * n / m)
        self._count, self._total = np.zeros(len(settings)), np.zeros(len(settings))
        self._phase, self._left = 1, self._rounds_of(1)
        self._actions = rng.permutation(len(settings))[: self._actions_of(1)]
        self._log: list[int] = []
        self._mixtures: list[list[int]] = []
        self._mixture_count, self._mixture_total = np.zeros(0), np.zeros(0)
        self._mixture: int | None = None

    def _actions_of(self, phase: int) -> int:
        return int(2 ** (self._doublings - phase + 1))

    def _rounds_of(self, phase: int) -> int:
        return int(2 ** (self._doublings + phase) * self._rounds_factor)

    def choose(self) -> int:
        self._played += 1
        count = np.concatenate([self._count[self._actions], self._mixture_count])
        total = np.concatenate([self._total[self._actions], self._mixture_total])
        bonus = self._bonus * max(1.0, math.log(self._played))
        best = int(np.argmax(_upper_bounds(count, total, bonus, unplayed=1.0)))
        self._mixture = None if best < len(self._actions) else best - len(self._actions)
        if self._mixture is None:
            return int(self._actions[best])
        plays = self._mixtures[self._mixture]
        return plays[int(self._rng.integers(len(plays)))]

    def learn(self, action: int, values: Codes, reward: float) -> None:
        self._count[action] += 1.0
        self._total[action] += reward
        if self._mixture is not None:
            self._mixture_count[self._mixture] += 1.0
            self._mixture_total[self._mixture] += reward
        self._log.append(action)
        self._left -= 1
        if self._left == 0 and self._played < self._horizon:
            self._start_phase()

    def _start_phase(self) -> None:
        self._mixtures.append(self._log)
        self._log = []
        self._mixture_count = np.append(self._mixture_count, 0.0)
        self._mixture_total = np.append(self._mixture_total, 0.0)
        self._phase += 1
        size, left = self._actions_of(min(self._phase, self._last_phase)), self._horizon - self._played
        self._left = left if self._phase > self._last_phase else min(self._rounds_of(self._phase), left)
        with np.errstate(invalid="ignore"):
            means = np.where(self._count > 0, self._total / self._count, -1.0)
        self._actions = np.argsort(-means, kind="stable")[:size]


class RAPS:
    """Randomised parent search for one parent of the reward, by actions that set one variable; then UCB on its values.

    Every value of a random candidate is played equally often. A variable whose distribution differs between two of
    these values is an effect of the candidate. If the reward is one, only effects of the candidate remain candidates;
    otherwise only the others do. The last candidate with an effect on the reward is the parent.
    """

    def __init__(self, settings: Codes, n_values: int, rng: np.random.Generator) -> None:
        self._rng, self._n_values = rng, n_values
        self._numbers = {(int(row.argmax()), int(row.max())): i for i, row in enumerate(settings) if row.max() >= 0}
        n = settings.shape[1]
        self._count, self._total = np.zeros((n, n_values)), np.zeros((n, n_values))
        self._per_value = math.ceil(math.log(10.0) / RAPS_THRESHOLD**2)
        self._candidates = set(range(n))
        self._last_cause: int | None = None
        self.parent: int | None = None
        """The variable that was found, or None."""
        self._start_test()

    def _start_test(self) -> None:
        """Choose the next candidate, or the parent: the last cause of the reward that was found."""
        if self._candidates:
            self._tested = int(self._rng.choice(sorted(self._candidates)))
            self._outcomes: list[list[Codes]] = [[] for _ in range(self._n_values)]
        else:
            n = len(self._count)
            self.parent = int(self._rng.integers(n)) if self._last_cause is None else self._last_cause

    def choose(self) -> int:
        if self.parent is None:
            value = min(range(self._n_values), key=lambda v: (len(self._outcomes[v]) >= self._per_value, v))
            return self._numbers[self._tested, value]
        count, total = self._count[self.parent], self._total[self.parent]
        bonus = 0.5 * RAPS_EXPLORATION * max(1.0, math.log(count.sum() + 1.0))
        return self._numbers[self.parent, int(np.argmax(_upper_bounds(count, total, bonus, unplayed=1.0)))]

    def learn(self, action: int, values: Codes, reward: float) -> None:
        variable = self._tested if self.parent is None else self.parent
        value = int(values[variable])
        self._count[variable, value] += 1.0
        self._total[variable, value] += reward
        if self.parent is None:
            self._outcomes[value].append(np.append(values, int(reward)))
            if all(len(outcomes) >= self._per_value for outcomes in self._outcomes):
                self._finish_test()

    def _finish_test(self) -> None:
        frequencies = np.array(
            [
                [(np.array(outcomes) == value).mean(axis=0) for value in range(self._n_values)]
                for outcomes in self._outcomes
            ]
        )
        is_effect = (frequencies.max(axis=0) - frequencies.min(axis=0)).max(axis=0) >= RAPS_THRESHOLD
        effects = {int(k) for k in np.flatnonzero(is_effect[:-1])} - {self._tested}
        if is_effect[-1]:
            self._last_cause, self._candidates = self._tested, self._candidates & effects
        else:
            self._candidates -= effects | {self._tested}
        self._start_test()


def _upper_bounds(count: Array, total: Array, bonus: float, unplayed: float) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count > 0, total / count + np.sqrt(bonus / count), unplayed)


def problem_without_graph(env: cb.Environment, max_parents: int) -> cb.Problem:
    """The problem of a learner that knows what setting a variable means, and nothing of how variables are connected."""
    problem = env.problem
    return cb.Problem(
        None,
        reward="reward",
        manipulable=_values_of(env, problem.manipulable),
        values=_values_of(env, env.shown),
        actions=_actions_of(env),
        max_parents=max_parents,
        require_edges=[(f"set_{name}", name) for name in env.shown],
        forbid_edges=[(f"set_{name}", "reward") for name in env.shown],
    )


def environment_with_graph(env: cb.Environment) -> cb.Environment:
    """The same environment for a learner that is given the graph: X1, X2, ... are manipulable themselves.

    Actions have the same numbers. A learner that is given the graph then knows that a variable that is set has this
    value, whatever its causes are.
    """
    model = env.problem.model
    variables = [
        cb.Variable(name, model[name].states, parents=model[name].parents[1:], table=model[name].table[0])
        for name in env.shown
    ]
    problem = cb.Problem(
        cb.CausalModel(variables),
        manipulable=list(env.shown),
        reward_parents=list(env.problem.parents),
        actions=[
            {name.removeprefix("set_"): value for name, value in intervention.items() if value != NOT_SET}
            for intervention in env.problem.actions
        ],
    )
    return cb.Environment(problem, cb.rewards.BernoulliReward(env.configuration_means.reshape(env.problem.shape)))


def problem_with_graph(env: cb.Environment) -> cb.Problem:
    """The problem of a learner that is given the graph of `environment_with_graph`; it learns the CPTs."""
    model = env.problem.model
    graph = {name: list(model[name].parents) for name in model.names}
    return cb.Problem(
        graph | {"reward": list(env.problem.parents)},
        reward="reward",
        manipulable=_values_of(env, env.problem.manipulable),
        actions=_actions_of(env),
    )


def _values_of(env: cb.Environment, names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: list(env.problem.variable(name).states) for name in names}


def _actions_of(env: cb.Environment) -> list[dict[str, Any]]:
    return [dict(intervention) for intervention in env.problem.actions]
