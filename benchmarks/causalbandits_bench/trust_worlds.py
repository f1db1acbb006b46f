"""The kinds of worlds of the trust benchmark: each draws a world from a generator, with what an agent believes of it.

Unless a kind says otherwise, the graph has two or three knobs with two or three values each and two variables, `w1`
and `w2`, through which they act on the reward: 4 to 16 configurations. Tables and mean rewards are drawn anew for every
replication, so that what is said holds on average over such worlds, not in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import causalbandits as cb
from causalbandits._typing import Array
from causalbandits.model import State

Generator = np.random.Generator

PAST_ROWS = 300
"""So many rows has the log of the confounded past."""
HIDDEN_EFFECT = 0.25
"""By so much the hidden common cause of that log raises or lowers the rate of success."""
DELAY = 100
"""So many decisions later does an outcome come, where outcomes are late."""
SCALES = (0.05, 3.0)
"""The standard deviations of heteroscedastic rewards."""


class World(NamedTuple):
    """What is true, what an agent believes, and how its campaign goes."""

    env: cb.Environment
    belief: cb.Problem
    context: Mapping[str, State] | None = None
    """The context in which statements are made; None where nothing is known beforehand."""
    delay: int = 0
    past: Mapping[str, list[Any]] | None = None
    """Rows that the agent learns before its first decision."""
    is_rare: Callable[[float], bool] | None = None
    """Whether a reward is the rare one of this world: before one was seen nothing in the data can tell of it."""


@dataclass(frozen=True)
class Kind:
    """A kind of worlds, and who plays there."""

    draw: Callable[[Generator], World]
    about: str
    players: tuple[str, ...] = ("default",)
    """Beside the default: policies whose assumptions hold, by their names in the benchmark."""
    is_binary: bool = False
    """Whether rewards are 0 or 1."""
    is_logged: bool = True
    """Whether off-policy estimates are judged: not where that would be another kind's log again."""
    is_guarded: bool = True
    """Whether a guard is played: not where its model is wrong, nor where a campaign of it takes seven seconds."""


def _draw_rows(rng: Generator, shape: tuple[int, ...]) -> Array:
    """Rows of a table, uniform among all distributions."""
    return np.asarray(rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]))


def draw_problem(rng: Generator, **arguments: Any) -> cb.Problem:
    """Two or three knobs, and two variables through which they act."""
    knobs = [f"x{i + 1}" for i in range(rng.integers(2, 4))]
    sizes = {name: int(rng.integers(2, 4)) for name in knobs}
    sizes |= {name: int(rng.integers(2, 5)) for name in ("w1", "w2")}
    causes = {"w1": knobs[:-1], "w2": knobs[1:]}
    return _draw_cpts(rng, knobs, sizes, causes, **arguments)


def _draw_cpts(
    rng: Generator,
    knobs: list[str],
    sizes: Mapping[str, int],
    causes: Mapping[str, list[str]],
    *,
    always: Sequence[str] = (),
    **arguments: Any,
) -> cb.Problem:
    variables = []
    for name, size in sizes.items():
        parents = causes.get(name, [])
        shape = (*(sizes[parent] for parent in parents), size)
        variables.append(cb.Variable(name, list(range(size)), parents=parents, table=_draw_rows(rng, shape)))
    effects = [name for name in sizes if name.startswith("w")]
    optional = [name for name in knobs if name not in always]
    return cb.Problem(
        cb.CausalModel(variables), manipulable=knobs, reward_parents=effects, optional=optional, **arguments
    )


def _simple(env: cb.Environment) -> World:
    return World(env, env.problem)


def _is_rare(reward: float) -> bool:
    """Prizes are 12 or 60, disasters -50; all other rewards are near 0.5."""
    return abs(reward) > 5.0


def draw_coins(rng: Generator) -> World:
    """Rewards are 0 or 1; rates are uniform on [0, 1]."""
    problem = draw_problem(rng)
    return _simple(cb.Environment(problem, cb.rewards.BernoulliReward(rng.uniform(size=problem.shape))))


def draw_normal(rng: Generator) -> World:
    """Standard normal means and noise."""
    problem = draw_problem(rng)
    return _simple(cb.Environment(problem, cb.rewards.GaussianReward(rng.standard_normal(problem.shape), sd=1.0)))


def draw_heteroscedastic(rng: Generator) -> World:
    """Standard normal means; the noise of each configuration is hardly there, or large."""
    problem = draw_problem(rng)
    means, scales = rng.standard_normal(problem.shape), rng.choice(SCALES, size=problem.shape)

    def sample(w1: int, w2: int, rng: Generator) -> float:
        return float(means[w1, w2] + scales[w1, w2] * rng.standard_normal())

    return _simple(cb.Environment(problem, cb.rewards.CustomReward(means, sample)))


def draw_heavy_tails(rng: Generator) -> World:
    """Standard normal means; noise of Student's t with three degrees of freedom."""
    problem = draw_problem(rng)
    return _simple(cb.Environment(problem, cb.rewards.StudentReward(rng.standard_normal(problem.shape), scale=1.0)))


def draw_rare_prize(rng: Generator, prize: float, rate: float, is_declared: bool = False) -> World:
    """One configuration pays a prize, rarely, and nothing else; the others pay 0.2 to 0.5, with little noise."""
    problem = draw_problem(rng, reward_range=(-1.0, prize + 1.0) if is_declared else None)
    means = rng.uniform(0.2, 0.5, size=problem.shape)
    lucky = _draw_configuration(rng, problem)
    means[lucky] = prize * rate

    def sample(w1: int, w2: int, rng: Generator) -> float:
        if (w1, w2) == lucky:
            return prize if rng.random() < rate else 0.0
        return float(means[w1, w2] + 0.1 * rng.standard_normal())

    return _simple(cb.Environment(problem, cb.rewards.CustomReward(means, sample)))._replace(is_rare=_is_rare)


def draw_rare_disaster(rng: Generator, is_declared: bool = False) -> World:
    """One configuration pays 1, and in two cases of a hundred loses 50; the others pay 0.3 to 0.7."""
    problem = draw_problem(rng, reward_range=(-52.0, 3.0) if is_declared else None)
    usual = rng.uniform(0.3, 0.7, size=problem.shape)
    risky = _draw_configuration(rng, problem)
    usual[risky] = 1.0
    means = usual.copy()
    means[risky] -= 0.02 * 50.0

    def sample(w1: int, w2: int, rng: Generator) -> float:
        loss = 50.0 if (w1, w2) == risky and rng.random() < 0.02 else 0.0
        return float(usual[w1, w2] - loss + 0.1 * rng.standard_normal())

    return _simple(cb.Environment(problem, cb.rewards.CustomReward(means, sample)))._replace(is_rare=_is_rare)


def draw_low_rates(rng: Generator) -> World:
    """Rewards are 0 or 1; rates are 0.1% to 1%, their logarithms uniform."""
    problem = draw_problem(rng)
    rates = np.exp(rng.uniform(np.log(0.001), np.log(0.01), size=problem.shape))
    return _simple(cb.Environment(problem, cb.rewards.BernoulliReward(rates)))


def draw_revenue(rng: Generator) -> World:
    """Most visits bring nothing; 3% to 15% of them a sum with a lognormal tail."""
    problem = draw_problem(rng)
    rates = rng.uniform(0.03, 0.15, size=problem.shape)

    def sample(w1: int, w2: int, rng: Generator) -> float:
        return float(rng.lognormal(3.0, 1.0)) if rng.random() < rates[w1, w2] else 0.0

    return _simple(cb.Environment(problem, cb.rewards.CustomReward(rates * np.exp(3.5), sample)))


def _draw_configuration(rng: Generator, problem: cb.Problem) -> tuple[int, ...]:
    return tuple(int(rng.integers(size)) for size in problem.shape)


def draw_many_configurations(rng: Generator) -> World:
    """Coins with 40 x 25 configurations, whose rates are uniform on [0, 1]."""
    knobs = ["x1", "x2"]
    problem = _draw_cpts(rng, knobs, {"x1": 3, "x2": 3, "w1": 40, "w2": 25}, {"w1": ["x1"], "w2": ["x1", "x2"]})
    return _simple(cb.Environment(problem, cb.rewards.BernoulliReward(rng.uniform(size=problem.shape))))


def draw_fitted(rng: Generator, rows: int) -> World:
    """Coins; the tables that the agent has were fitted to so many rows of the past."""
    env = draw_coins(rng).env
    model = env.problem.model
    states = {name: model[name].states for name in model.order}
    return World(env, env.problem.with_model(cb.fit(model, model.sample(rows, rng=rng), values=states)))


def draw_contexts(rng: Generator) -> World:
    """Coins; a segment, known beforehand, decides what the knobs lead to. Statements are about one segment."""
    knobs = ["x1", "x2"]
    sizes = {"segment": 3, "x1": 3, "x2": 3, "w1": int(rng.integers(2, 5)), "w2": int(rng.integers(2, 5))}
    causes = {"w1": ["x1", "segment"], "w2": ["x2", "segment"]}
    problem = _draw_cpts(rng, knobs, sizes, causes, context=["segment"])
    env = cb.Environment(problem, cb.rewards.BernoulliReward(rng.uniform(size=problem.shape)))
    return World(env, problem, context=env.draw_context(rng))


def draw_confounded_past(rng: Generator) -> World:
    """Coins; a log of the past in which a hidden cause moved both the first knob and the reward.

    The agent always sets that knob, so that its own outcomes are as its graph says: only the log is not.
    """
    problem = draw_problem(rng, always=["x1"])
    means = rng.uniform(HIDDEN_EFFECT, 1 - HIDDEN_EFFECT, size=problem.shape)
    model, values = problem.model, problem.model["x1"].states
    half = (len(values) + 1) // 2
    rows: list[dict[str, Any]] = []
    for hidden in rng.random(PAST_ROWS) < 0.5:
        choices = values[:half] if (rng.random() < 0.9) == hidden else values[half:]
        sampled = model.sample(1, do={"x1": choices[rng.integers(len(choices))]}, rng=rng)
        row = {name: int(column[0]) for name, column in sampled.items()}
        rate = means[row["w1"], row["w2"]] + (HIDDEN_EFFECT if hidden else -HIDDEN_EFFECT)
        rows.append({**row, "reward": float(rng.random() < rate)})
    past = {name: [row[name] for row in rows] for name in (*problem.parents, "reward")}
    return World(cb.Environment(problem, cb.rewards.BernoulliReward(means)), problem, past=past)


def draw_delayed(rng: Generator) -> World:
    """Coins; every outcome comes a hundred decisions later."""
    return draw_coins(rng)._replace(delay=DELAY)


KINDS: dict[str, Kind] = {
    "coins": Kind(draw_coins, "rewards are 0 or 1", ("default", "c-ts(prior=beta)"), is_binary=True),
    "normal": Kind(draw_normal, "standard normal means and noise", ("default", "c-ts(scales=given)")),
    "heteroscedastic": Kind(draw_heteroscedastic, "normal; the noise of a configuration is 0.05 or 3"),
    "heavy tails": Kind(draw_heavy_tails, "noise of Student's t with 3 degrees of freedom"),
    "rare prize, 12": Kind(
        partial(draw_rare_prize, prize=12.0, rate=0.05), "one configuration, the best, pays 12 in 5% of cases"
    ),
    "rare prize, 60": Kind(
        partial(draw_rare_prize, prize=60.0, rate=0.01), "one configuration, the best, pays 60 in 1% of cases"
    ),
    "rare disaster": Kind(draw_rare_disaster, "one configuration pays most, and loses 50 in 2% of cases"),
    "rare prize, 12, declared": Kind(
        partial(draw_rare_prize, prize=12.0, rate=0.05, is_declared=True), "the same with reward_range=(-1, 13)"
    ),
    "rare prize, 60, declared": Kind(
        partial(draw_rare_prize, prize=60.0, rate=0.01, is_declared=True), "the same with reward_range=(-1, 61)"
    ),
    "rare disaster, declared": Kind(
        partial(draw_rare_disaster, is_declared=True), "the same with reward_range=(-52, 3)"
    ),
    "low rates": Kind(
        draw_low_rates, "coins with rates of 0.1% to 1%", ("default", "c-ts(prior=beta)"), is_binary=True
    ),
    "revenue": Kind(draw_revenue, "zeros, and a lognormal sum in 3% to 15% of cases"),
    "many configurations": Kind(
        draw_many_configurations,
        "coins, 1,000 configurations",
        ("default", "c-ts(prior=beta)"),
        is_binary=True,
        is_guarded=False,
    ),
    **{
        f"CPTs from {rows:,} rows": Kind(
            partial(draw_fitted, rows=rows),
            f"coins; the tables were fitted to {rows:,} rows",
            ("default", "c-ts(prior=beta)", "c-gittins(prior=main-effects)"),
            is_binary=True,
        )
        for rows in (30, 100, 1000)
    },
    "contexts": Kind(
        draw_contexts, "coins; a segment is known beforehand", ("default", "c-ts(prior=beta)"), is_binary=True
    ),
    "confounded past": Kind(
        draw_confounded_past,
        f"coins; a log of {PAST_ROWS} rows is learnt, in which a hidden cause moved a knob and the reward",
        ("default", "c-ts(prior=beta)"),
        is_binary=True,
        is_logged=False,
        is_guarded=False,
    ),
    "delayed": Kind(
        draw_delayed,
        f"coins; outcomes come {DELAY} decisions later",
        ("default", "c-ts(prior=beta)", "c-gittins(prior=main-effects)"),
        is_binary=True,
        is_logged=False,
    ),
}
"""By name."""
