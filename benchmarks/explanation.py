"""The measurements of the explanation pages: python benchmarks/explanation.py [part ...], about fifteen minutes.

Writes explanation.json, from which `python docs/tables.py` makes the tables on the pages. Without names, all parts are
measured; the others keep their values. Each part has rows and columns of means with standard errors.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb
from causalbandits.fitting import prior_model
from causalbandits.testing.permuted_environment import permute_environment

RESULT = Path(__file__).with_name("explanation.json")
PICTURE = Path(__file__).parents[1] / "docs/images/learned_cpts.png"
HORIZON, DECISIONS, ROUNDS = 5000, 3000, 1000
"""Rounds of simulations, of campaigns with delayed outcomes, and of all others."""
KNOWN = "taken as known"
Cells = dict[str, dict[str, list[float]]]
"""By row and column, a mean and its standard error."""


def cell(values: Any) -> list[float]:
    """The mean and the standard error of independent values."""
    values = np.asarray(values, dtype=float)
    return [round(float(values.mean()), 3), round(float(values.std(ddof=1) / len(values) ** 0.5), 3)]


def final(run: cb.Run, policy: str) -> list[float]:
    """The mean final regret of a policy, and its standard error."""
    return cell(run.regret(policy)[:, -1])


POLICIES = {
    "c-ts(prior=beta)": cb.policies.CausalThompsonSampling(prior="beta"),
    "c-ts(prior=beta, cpts=learned)": cb.policies.CausalThompsonSampling(prior="beta", cpts="learned"),
    "ts(prior=beta)": cb.policies.ThompsonSampling(prior="beta"),
}


def learned_cpts(replications: int) -> Cells:
    """CPTs known, learned online, and no graph, with one manipulable variable of ten values."""
    run = cb.simulate(ten_values, POLICIES, horizon=HORIZON, replications=replications, seed=1, progress=False)
    return {policy: {"one variable, ten values": final(run, policy)} for policy in POLICIES}


def ten_values(rng: np.random.Generator) -> cb.Environment:
    """One manipulable variable of ten values, and a binary variable that determines the mean reward."""
    x = cb.Variable("x", range(10), table=[0.1] * 10)
    z = cb.Variable("z", [0, 1], parents=["x"], table=rng.dirichlet([1, 1], size=10))
    problem = cb.Problem(cb.CausalModel([x, z]), manipulable=["x"], reward_parents=["z"], optional=False)
    return cb.Environment(problem, cb.rewards.BernoulliReward(np.array([0.2, 0.8])))


def past_data(replications: int) -> Cells:
    """CPTs from past rows, taken as known or learned further, with full trust and with the default trust of 1/2.

    Unconfounded rows that are taken as known are measured in `wrong_cpts`.
    """
    every = {
        KNOWN: POLICIES["c-ts(prior=beta)"],
        "learned online, `trust_past=1`": cb.policies.CausalThompsonSampling(
            prior="beta", cpts="learned", trust_past=1.0
        ),
        "learned online, `trust_past=0.5`": POLICIES["c-ts(prior=beta, cpts=learned)"],
    }
    env, cells = cb.zoo.email_campaign(), {}
    model = env.problem.model
    for is_confounded, rows in ((False, 100), (False, 1000), (True, 1000), (True, 10_000)):
        policies = every if is_confounded else {name: policy for name, policy in every.items() if name != KNOWN}
        found: dict[str, list[float]] = {name: [] for name in policies}
        for r in range(replications):
            rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(rows, r)))
            data = confounded(model, rows, rng) if is_confounded else model.sample(rows, rng=rng)
            run = cb.simulate(
                env, policies, horizon=HORIZON, replications=range(r, r + 1), seed=1, progress=False,
                believed=env.problem.with_model(cb.fit(model, data)),
            )  # fmt: skip
            for name in policies:
                found[name].append(run.regret(name)[0, -1])
        kind = "confounded" if is_confounded else "unconfounded"
        cells[f"{rows:,} {kind} rows"] = {name: cell(values) for name, values in found.items()}
    return cells


def confounded(model: cb.CausalModel, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Rows in which an unobserved season affects all variables. Averaged over seasons the mediators' CPTs are right."""
    season, codes = 2 * rng.integers(2, size=rows) - 1, {}
    for name in model.order:
        v, lean = model[name], np.linspace(-1, 1, len(model[name].states))
        if v.parents:
            table = v.table[tuple(codes[parent] for parent in v.parents)]
            # The largest shift between the first and the last states that keeps all probabilities non-negative.
            tilted = table * (1 + season[:, None] * (lean - (table * lean).sum(axis=1, keepdims=True)) / 2)
        else:
            tilted = v.table * np.exp(3 * season[:, None] * lean)
            tilted /= tilted.sum(axis=1, keepdims=True)
        codes[name] = (tilted.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    return {name: [model[name].states[code] for code in codes[name]] for name in model.names}


def wrong_cpts(datasets: int) -> Cells:
    """CPTs that were estimated from few rows; five replications of each data set, which are one observation."""
    env, policies = cb.zoo.email_campaign(), ("c-ts(prior=beta)", "c-ucb")
    truth, cells = env.problem, {}
    for rows in (100, 1000, 10_000):
        found: dict[str, list[float]] = {policy: [] for policy in policies}
        for dataset in range(datasets):
            believed = truth.with_model(cb.fit(truth.model, truth.model.sample(rows, rng=dataset)))
            run = cb.simulate(
                env, policies, horizon=HORIZON, replications=5, seed=dataset, believed=believed, progress=False
            )
            for policy in policies:
                found[policy].append(run.regret(policy)[:, -1].mean())
        cells[f"{rows:,} rows"] = {policy: cell(values) for policy, values in found.items()}
    return cells


REPORTED, DECLARED, OMITTED, UNDECLARED, UNIFORM = WAYS = (
    "u is reported",
    "`can_observe=` lists the other variables",
    "u is left out of the graph",
    "nothing is declared",
    "`uniform`",
)
GRAPHS: dict[str, dict[str, list[str]]] = {
    "one child: k -> m <- u": {"k": [], "u": [], "m": ["k", "u"]},
    "two children: k -> m <- u -> n": {"k": [], "u": [], "m": ["k", "u"], "n": ["u"]},
}
"""In the first the reward depends on m, in the second on whether m and n agree. The variable k is always set."""


def unobserved_variables(replications: int) -> Cells:
    """Random CPTs that are learned online, and a variable u that is never observed unless the row says so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cb.CausalBanditsWarning)
        return {
            way: {graph: cell([_unobserved_regret(graph, way, r) for r in range(replications)]) for graph in GRAPHS}
            for way in WAYS
        }


def _unobserved_regret(graph: str, way: str, replication: int) -> float:
    """The pseudo-regret of a campaign of 1,000 decisions."""
    env, rng = _random_environment(graph, replication), np.random.default_rng([replication, 1])
    policy = "uniform" if way == UNIFORM else None
    agent = cb.Agent(_believed_problem(env, way), policy, seed=replication)
    total = 0.0
    for _ in range(ROUNDS):
        decision = agent.ask()
        codes, z, reward = env.draw_all(env.problem.choices(decision.action), rng)
        observed = env.problem.decode_parents(z)
        if "u" in agent.problem.must_observe:
            observed = {**observed, "u": codes["u"] if way == REPORTED else None}
        agent.tell(decision.id, reward=reward, observed=observed)
        total += env.best().mean - env.mean_reward(decision.action)
    return total


def _random_environment(graph: str, replication: int) -> cb.Environment:
    rng, sizes = np.random.default_rng([replication, len(GRAPHS[graph])]), {"k": 5, "u": 2, "m": 2, "n": 2}
    model = cb.CausalModel(
        cb.Variable(
            name,
            range(sizes[name]),
            parents=causes,
            table=[0.2] * 5 if name == "k" else rng.dirichlet([1, 1], [sizes[c] for c in causes]),
        )
        for name, causes in GRAPHS[graph].items()
    )
    parents = ["m", "n"] if "n" in GRAPHS[graph] else ["m"]
    mean = [[0.8, 0.2], [0.2, 0.8]] if "n" in GRAPHS[graph] else [0.2, 0.8]
    problem = cb.Problem(model, manipulable=["k"], reward_parents=parents, optional=False)
    return cb.Environment(problem, cb.rewards.BernoulliReward(mean))


def _believed_problem(env: cb.Environment, way: str) -> cb.Problem:
    model, left_out = env.problem.model, {"u"} if way == OMITTED else set()
    graph = {n: [c for c in v.parents if c not in left_out] for n, v in model.variables.items() if n not in left_out}
    flat = prior_model(graph, values={name: model[name].states for name in graph})
    declared: dict[str, Any] = {"can_observe": env.problem.parents} if way == DECLARED else {}
    return cb.Problem(flat, manipulable=["k"], reward_parents=env.problem.parents, optional=False, **declared)


def intervention_sets(replications: int) -> Cells:
    """Thompson sampling with a mean per action, by the actions that it may choose."""
    env = cb.zoo.coins()
    names = ("A", "B", "C")
    graph = env.problem.model.causal_graph.with_hidden(cb.zoo.HIDDEN["coins"])
    combinations = {
        names_set: [dict(zip(names_set, map(int, values), strict=True)) for values in np.ndindex(*[2] * len(names_set))]
        for names_set in graph.minimal_sets("Y", manipulable=names)
    }
    minimal = [action for own in combinations.values() for action in own]
    ways: dict[str, dict[str, Any]] = {
        "sets of the POMIS": {"optional": True},
        "minimal intervention sets": {"optional": True, "actions": minimal, "reduce": False},
        "all sets": {"optional": True, "reduce": False},
        "all three variables, always": {"optional": False},
    }
    cells: Cells = {}
    for way, given in ways.items():
        problem = cb.Problem(graph, manipulable=names, reward="Y", reward_parents=[], **given)
        run = cb.simulate(
            env,
            ["ts(prior=beta)"],
            believed=problem,
            horizon=HORIZON,
            replications=replications,
            seed=0,
            progress=False,
        )
        cells[f"{way}: {problem.actions.size} actions"] = {"regret": final(run, "ts(prior=beta)")}
    return cells


def intent(replications: int) -> Cells:
    """The casino of Bareinboim, Forney and Pearl (2015), with the intent as context and without."""
    env = cb.zoo.confounded_casino()
    known = cb.LatentModel.from_model(env.problem.model, hidden=cb.zoo.HIDDEN["confounded_casino"])
    problem = cb.Problem(
        known, manipulable=["machine"], reward_parents=["intent", "machine"], reward="payout", context=["intent"],
        optional=True,
    )  # fmt: skip
    blind = cb.Problem(
        known.causal_graph.with_values({"machine": [0, 1]}), manipulable=["machine"], reward="payout",
        reward_parents=[], optional=True,
    )  # fmt: skip
    given: dict[str, Any] = {"horizon": ROUNDS, "replications": replications, "seed": 0, "progress": False}
    seen = cb.simulate(env, ["c-ts(prior=beta)"], believed=problem, **given)
    unseen = cb.simulate(env, ["ts(prior=beta)"], believed=blind, **given)
    return {
        "`c-ts(prior=beta)`, intent as context": {"regret": final(seen, "c-ts(prior=beta)")},
        "`ts(prior=beta)`, intent ignored": {"regret": final(unseen, "ts(prior=beta)")},
    }


def delayed(replications: int) -> Cells:
    """Delayed outcomes: 3,000 decisions, each outcome known after the given number of further decisions."""
    environments = {"e-mail": cb.zoo.email_campaign(), "Figure 2": cb.zoo.figure2()}
    policies = {
        "c-ts(prior=main-effects)": dict.fromkeys(environments, "c-ts(prior=main-effects)"),
        "c-screen": dict.fromkeys(environments, "c-screen"),
        "C-TS of the paper": {"e-mail": "c-ts(prior=beta)", "Figure 2": "c-ts(scales=given)"},
    }
    cells: Cells = {policy: {} for policy in policies}
    for policy, by_environment in policies.items():
        for name, env in environments.items():
            for delay in (50, 500):
                found = [
                    _delayed_regret(env, by_environment[name], delay, replication)
                    for replication in range(replications)
                ]
                cells[policy][f"{name}, {delay}"] = cell(found)
    return cells


def _delayed_regret(env: cb.Environment, policy: str, delay: int, replication: int) -> float:
    """The pseudo-regret of a campaign of 3,000 decisions."""
    rng = np.random.default_rng([replication, delay])
    env = permute_environment(env, rng)  # so that no policy profits from the place of the best action
    agent, pending = cb.Agent(env.problem, policy, seed=replication), deque[tuple[int, Any]]()
    best, total = env.best().mean, 0.0
    for _ in range(DECISIONS):
        decision = agent.ask()
        pending.append((decision.id, env.pull(decision.action, rng)))
        total += best - env.mean_reward(decision.action)
        if len(pending) > delay:
            number, seen = pending.popleft()
            agent.tell(number, reward=seen.reward, observed=seen.parents)
    return total


PARTS: dict[str, tuple[Callable[[int], Cells], int]] = {
    "learned CPTs": (learned_cpts, 60),
    "past data": (past_data, 60),
    "wrong CPTs": (wrong_cpts, 40),
    "unobserved variables": (unobserved_variables, 20),
    "intervention sets": (intervention_sets, 200),
    "intent": (intent, 100),
    "delayed outcomes": (delayed, 12),
}
"""Each part with its number of replications."""


def draw(past: Cells) -> None:
    """The picture of docs/explanation/learned-cpts.md: without CPTs, and with CPTs from past data."""
    email = json.loads(Path(__file__).with_name("regret.json").read_text(encoding="utf-8"))["sets"]["e-mail"]
    shown = dict(zip(("known CPTs", "learned CPTs", "no graph (TS)"), POLICIES, strict=True))
    means = [email[policy]["mean"] for policy in shown.values()]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(1, 1.9), layout="constrained")
    bars = left.barh(list(shown), means, color=["#0072b2", "#009e73", "#9aa5b1"])
    left.bar_label(bars, fmt="%.0f", padding=4)
    left.invert_yaxis()
    left.set(title="Without past data", xlabel="regret after 5,000 rounds", xlim=(0, 1.12 * max(means)))
    for i, name in enumerate(next(iter(past.values()))):
        values, errors = zip(*(cells[name] for cells in past.values()), strict=True)
        places, colour = np.arange(len(past)) + (i - 1) * 0.27, ["#9aa5b1", "#56b4e9", "#009e73"][i]
        bars = right.bar(places, values, 0.25, yerr=errors, color=colour, label=name.replace("`", ""))
        right.bar_label(bars, fmt="%.0f", padding=2)
    right.set_xticks(range(len(past)), [label.replace(" rows", "\nrows") for label in past])
    right.set(title="With CPTs from past data", ylabel="regret")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=150)


def main(names: list[str]) -> None:
    """Measure parts, or all, and write them."""
    found = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    for name in names or list(PARTS):
        part, replications = PARTS[name]
        found[name] = {"replications": replications, "rows": part(replications)}
        if "past data" in found and "wrong CPTs" in found:
            for rows in ("100", "1,000"):
                cells = found["past data"]["rows"][f"{rows} unconfounded rows"]
                known = found["wrong CPTs"]["rows"][f"{rows} rows"]["c-ts(prior=beta)"]
                found["past data"]["rows"][f"{rows} unconfounded rows"] = {KNOWN: known} | cells | {KNOWN: known}
        text = json.dumps({known: found[known] for known in PARTS if known in found}, indent=1, ensure_ascii=False)
        RESULT.write_text(text + "\n", encoding="utf-8")
        sys.stdout.write(f"{name}: {found[name]['rows']}\n")
        sys.stdout.flush()
    if "past data" in found:
        draw(found["past data"]["rows"])


if __name__ == "__main__":
    main(sys.argv[1:])
