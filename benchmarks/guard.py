"""What the guard buys and what it costs: python benchmarks/guard.py [--guarded] [part ...], into guard.json beside it.

Worlds that the policies' belief is wrong about, in a known way, and worlds about which it is right. Each part is
measured alone and kept; without names, all of them are, with --guarded only those of the guard. Runs are kept in
results/guard, so that what was interrupted goes on: remove that folder to measure anew.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np

import causalbandits as cb
from causalbandits.engine.driver import play
from causalbandits.fitting import prior_model
from causalbandits.policies.robust.evidence import alarm_of
from causalbandits.policies.robust.monitor import ARROW, Monitor

RESULT = Path(__file__).with_name("guard.json")
RUNS = Path(__file__).parent.parent / "results" / "guard"
BATCH = 40
EMAIL = cb.zoo.email_campaign()
BELIEF = EMAIL.problem
MEANS = EMAIL.configuration_means.reshape(BELIEF.shape)


class World(NamedTuple):
    """What is true, and what is believed."""

    env: cb.Environment
    belief: cb.Problem


def right(replication: int) -> World:
    return World(EMAIL, BELIEF)


def fitted(replication: int, rows: int) -> World:
    """The tables are fitted to rows of the past."""
    model = BELIEF.model
    return World(EMAIL, BELIEF.with_model(cb.fit(model, model.sample(rows, rng=10_000 + replication))))


def heavy_tails(replication: int) -> World:
    """Rewards with noise of Student's distribution with three degrees of freedom."""

    def sample(subject: str, template: str, send_time: str, rng: np.random.Generator) -> float:
        z = BELIEF.encode_parents({"subject": subject, "template": template, "send_time": send_time})
        return float(MEANS[z] + 0.3 * rng.standard_t(3))

    return World(cb.Environment(BELIEF, cb.rewards.CustomReward(MEANS, sample)), BELIEF)


def no_tables(replication: int) -> World:
    """The graph is known, and nothing of its tables."""
    model = BELIEF.model
    states = {name: model[name].states for name in model.order}
    return World(EMAIL, BELIEF.with_model(prior_model(model, values=states)))


def rare(replication: int) -> World:
    """One click where there are twenty on the e-mail campaign."""
    return World(cb.Environment(BELIEF, cb.rewards.BernoulliReward(MEANS / 20)), BELIEF)


def any_graph(replication: int, scale: float | None) -> World:
    """A random graph and random tables; rewards are coins, or normal with this scale."""
    env = cb.zoo.random_world(12, reward_parents=3, states=3, concentration=2.0, rng=20_000 + replication)
    if scale is not None:
        env = cb.Environment(
            env.problem, cb.rewards.GaussianReward(env.configuration_means.reshape(env.problem.shape), sd=scale)
        )
    return World(env, env.problem)


def segments(replication: int) -> World:
    """Customers of three segments, which are known beforehand."""
    env = cb.zoo.email_segments()
    return World(env, env.problem)


PRICES = {"product": 0.05, "purpose": 0.08, "send_time": {"morning": 0.02}}


def priced(replication: int, inner: Callable[[int], World]) -> World:
    """The same where knobs cost something."""

    def with_costs(p: cb.Problem) -> cb.Problem:
        return cb.Problem(
            p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=PRICES, context=p.context, optional=True
        )

    env, belief = inner(replication)
    own = with_costs(env.problem)
    return World(cb.Environment(own, env.reward), own if belief is env.problem else with_costs(belief))


def arrow(replication: int, knob: str, effect: float) -> World:
    """Clicks also depend on a knob: from -effect for its first value to +effect for its last."""
    true = cb.Problem(
        BELIEF.model, manipulable=BELIEF.manipulable, reward_parents=[*BELIEF.parents, knob], optional=True
    )
    shift = np.linspace(-effect, effect, len(BELIEF.model[knob].states))
    return World(
        cb.Environment(true, cb.rewards.BernoulliReward(np.clip(MEANS[..., None] + shift, 0.01, 0.99))), BELIEF
    )


def row(replication: int, name: str, place: tuple[int, ...], believed: float, true: float) -> World:
    """The first probability in a row of a table is not what is believed."""

    def problem(p: float) -> cb.Problem:
        variables = dict(BELIEF.model.variables)
        v = variables[name]
        table = v.table.copy()
        table[place] = [p, 1 - p]
        variables[name] = cb.Variable(v.name, v.states, parents=v.parents, table=table)
        return BELIEF.with_model(cb.CausalModel(variables.values()))

    return World(cb.Environment(problem(true), EMAIL.reward), problem(believed))


def two_views(replication: int, worst: bool, horizon: int) -> World:
    """The two instances of Bilodeau, Wang and Roy (2022): twenty actions, two configurations."""
    k, half = 20, 10
    if worst:
        pz = np.repeat([6 / 8, 7 / 8], half)
        means = np.stack([np.repeat([1 - 5.5 / 6, 1 - 1 / 6], half), np.repeat([5.5 / 6, 1 / 6], half)])
    else:
        pz = np.r_[0.0005, np.full(k - 1, 1 - 0.0005)]
        means = np.repeat([[0.5 + np.sqrt(k * np.log(horizon) / horizon)], [0.5]], k, axis=1)
    model = cb.CausalModel(
        [
            cb.Variable("a", list(range(k)), table=np.full(k, 1 / k)),
            cb.Variable("z", [0, 1], parents=["a"], table=np.stack([1 - pz, pz], axis=1)),
        ]
    )
    true = cb.Problem(model, manipulable=["a"], reward_parents=["z", "a"], optional=False)
    belief = cb.Problem(model, manipulable=["a"], reward_parents=["z"], optional=False, reduce=False)
    return World(cb.Environment(true, cb.rewards.BernoulliReward(means)), belief)


class Part(NamedTuple):
    """One world, who plays it, and how often."""

    world: Callable[[int], World]
    policies: dict[str, cb.Policy]
    replications: int
    horizon: int = 5000
    wrong: str = ""
    """What an alarm should name: the knob or the variable whose table it is."""
    budget: float | None = None
    """What may be spent in all rounds together."""


BETA, TS = cb.policies.CausalThompsonSampling(prior="beta"), cb.policies.ThompsonSampling(prior="beta")
GUARD, WARNED = (cb.policies.GuardedThompsonSampling(prior="beta", on_alarm=way) for way in ("repair", "warn"))
RIVALS = {"c-ts(prior=beta)": BETA, "guarded": GUARD, "ts(prior=beta)": TS, "hac-ucb": cb.policies.HACUCB()}
LEARNT = cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", samples=32)
SOUND = cb.policies.GuardedThompsonSampling(prior="gaussian", noise_scale=0.5, on_alarm="warn")

TEMPLATE: dict[str, Any] = {"name": "template", "place": (0, 1)}
"""P(template | Photoshop, Promo)."""
SUBJECT: dict[str, Any] = {"name": "subject", "place": (1,)}
"""P(subject | Promo)."""

PARTS = {
    "false alarms, exact tables": Part(right, {"guarded": WARNED}, 1000),
    "false alarms, tables from 100 rows": Part(partial(fitted, rows=100), {"guarded": WARNED}, 200),
    "false alarms, tables from 1000 rows": Part(partial(fitted, rows=1000), {"guarded": WARNED}, 200),
    "false alarms, tables learnt from nothing": Part(no_tables, {"guarded": LEARNT}, 1000),
    "false alarms, t_3 noise": Part(heavy_tails, {"guarded": SOUND}, 1000),
    "false alarms, clicks twenty times rarer": Part(rare, {"guarded": WARNED}, 200),
    "false alarms, segments known beforehand": Part(segments, {"guarded": WARNED}, 200),
    "false alarms, random graphs": Part(partial(any_graph, scale=None), {"guarded": WARNED}, 400, 2000),
    "false alarms, random graphs, normal rewards": Part(partial(any_graph, scale=0.5), {"guarded": SOUND}, 400, 2000),
    "false alarms, within a budget": Part(partial(priced, inner=right), {"guarded": WARNED}, 300, 500, budget=25.0),
    "false alarms, segments within a budget": Part(
        partial(priced, inner=segments), {"guarded": WARNED}, 160, 200, budget=16.0
    ),
    "nothing wrong": Part(right, RIVALS, 100),
    "nothing wrong, 2% audit": Part(
        right, {"guarded": cb.policies.GuardedThompsonSampling(prior="beta", audit=0.02)}, 60
    ),
    **{
        f"{knob} {effect}": Part(partial(arrow, knob=knob, effect=effect), RIVALS, runs, wrong=knob)
        for knob, effect, runs in (
            ("product", 0.15, 100),
            ("product", 0.3, 300),
            ("purpose", 0.15, 100),
            ("purpose", 0.3, 100),
        )
    },
    "row .9, in truth .5": Part(partial(row, **TEMPLATE, believed=0.9, true=0.5), RIVALS, 32, wrong="template"),
    "row .7, in truth .6": Part(partial(row, **SUBJECT, believed=0.7, true=0.6), RIVALS, 32, wrong="subject"),
    "product 0.3 within a budget": Part(
        partial(priced, inner=partial(arrow, knob="product", effect=0.3)), RIVALS, 40, 1000, "product", 80.0
    ),
    "HAC-UCB's worst case": Part(partial(two_views, worst=True, horizon=5000), RIVALS, 32, wrong="a"),
    "HAC-UCB's benign case": Part(partial(two_views, worst=False, horizon=5000), RIVALS, 32),
}


Run = tuple[float, tuple[int, str] | None]
"""The regret of one replication, and the first alarm: which decision, and what it names."""


def played(part: Part, policy: cb.Policy, replication: int) -> Run:
    """One replication."""
    if not isinstance(policy, cb.policies.GuardedThompsonSampling) and len(part.policies) == 1:
        return asked(part, policy, replication)
    env, belief = part.world(replication)
    kept: list[Any] = []
    rounds = np.array([part.horizon])
    own = policy.for_horizon(part.horizon)
    watch = lambda slot, statistic, plays: kept.append(statistic)  # noqa: E731
    regret = play(env, own, belief, rounds, 0, replication, watch=watch, budget=part.budget)
    alarm = None
    if isinstance(kept[-1], Monitor) and kept[-1].alarm_rows():
        ring = kept[-1].alarm_rows()[0]
        name = alarm_of(belief, ring).variable
        alarm = ring.decision, f"{name}, {'arrow' if ring.about == ARROW else 'table'}"
    return float(regret.regret[-1]), alarm


def asked(part: Part, policy: cb.Policy, replication: int) -> Run:
    """The same, of a policy without a guard, from the evidence of its agent."""
    env, belief = part.world(replication)
    agent, rng, regret = cb.Agent(belief, policy, seed=replication), np.random.default_rng(replication), 0.0
    for _ in range(part.horizon):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        lost = {name: None for name in belief.must_observe if name not in {*seen.parents, *decision.action}}
        agent.tell(decision.id, reward=seen.reward, observed={**seen.parents, **lost})
        regret += env.gap(decision.action)
    alarms = agent.evidence().alarms
    return regret, (alarms[0].decision, alarms[0].variable) if alarms else None


def runs_of(part: Part, name: str, policy: cb.Policy, kept: Path) -> list[Run]:
    """All replications, from the file on; which is written after every few."""
    done: list[Run] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []
    while len(done) < part.replications:
        batch = range(len(done), min(len(done) + BATCH, part.replications))
        done += joblib.Parallel(n_jobs=2)(joblib.delayed(played)(part, policy, r) for r in batch)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(done), encoding="utf-8")
    return done[: part.replications]


def summary(part: Part, name: str, runs: list[Run]) -> dict[str, Any]:
    regrets, alarms = [regret for regret, _ in runs], [alarm for _, alarm in runs if alarm is not None]
    own: dict[str, Any] = {
        "regret": round(statistics.mean(regrets), 1),
        "standard error": round(statistics.stdev(regrets) / len(regrets) ** 0.5, 1),
    }
    if name == "guarded":
        share = len(alarms) / len(runs)
        own["alarmed"], own["error of alarmed"] = share, (share * (1 - share) / len(runs)) ** 0.5
        own["median decision"] = statistics.median(decision for decision, _ in alarms) if alarms else None
        if part.wrong and alarms:
            own["named right"] = sum(named.startswith(f"{part.wrong},") for _, named in alarms) / len(alarms)
    return {**own, "replications": len(runs)}


def main(arguments: list[str]) -> None:
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    names, only = [name for name in arguments if name != "--guarded"], "--guarded" in arguments
    for name in names or PARTS:
        part, found = PARTS[name], kept.setdefault(name, {"policies": {}})
        for id, policy in part.policies.items():
            if id == "guarded" or not only:
                slug = re.sub(r"\W+", "-", f"{name} {id}")
                found["policies"][id] = summary(part, id, runs_of(part, id, policy, RUNS / f"{slug}.json"))
        found |= {"replications": found["policies"]["guarded"]["replications"], "horizon": part.horizon}
        print(name, json.dumps(found["policies"]), flush=True)
        RESULT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
