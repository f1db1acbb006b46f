"""What it costs to learn the tables while running, from nothing, from past data, and from past data that mislead.

`python benchmarks/learned_cpts.py` prints the tables of docs/explanation/learned-cpts.md and draws its picture.

Past mails are of two kinds. In the first, nothing was set and the graph is right. In the second, somebody who knew the
season chose product and purpose by it, and the season also changes subject lines and templates: P(subject | purpose) in
those mails is not P(subject | do(purpose)), and no number of them makes it so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

HORIZON = 5000
PICTURE = Path(__file__).parent.parent / "docs" / "images" / "learned_cpts.png"
KNOWN = cb.policies.CausalThompsonSampling(prior="beta")
LEARNT = cb.policies.CausalThompsonSampling(prior="beta", cpts="learned")
BELIEVING = cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", trust_past=1.0)


def confounded(model: cb.CausalModel, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Past mails of somebody who chose by the season. Averaged over seasons every mediator's table is the model's."""
    season, codes = 2 * rng.integers(2, size=rows) - 1, {}
    for name in model.order:
        v, lean = model[name], np.linspace(-1, 1, len(model[name].states))
        if v.parents:
            table = v.table[tuple(codes[parent] for parent in v.parents)]
            # As far as weight can move between the first states and the last, and no probability become negative.
            tilted = table * (1 + season[:, None] * (lean - (table * lean).sum(axis=1, keepdims=True)) / 2)
        else:
            tilted = v.table * np.exp(3 * season[:, None] * lean)
            tilted /= tilted.sum(axis=1, keepdims=True)
        codes[name] = (tilted.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1)
    return {name: [model[name].states[code] for code in codes[name]] for name in model.names}


def ten_settings(rng: np.random.Generator) -> cb.Environment:
    """One knob of ten values and a coin that it turns: nothing but tables is to be learnt."""
    knob = cb.Variable("x", range(10), table=[0.1] * 10)
    coin = cb.Variable("z", [0, 1], parents=["x"], table=rng.dirichlet([1, 1], size=10))
    problem = cb.Problem(cb.CausalModel([knob, coin]), manipulable=["x"], reward_parents=["z"], optional=False)
    return cb.Environment(problem, cb.rewards.BernoulliReward(np.array([0.2, 0.8])))


def final(env: Any, policies: Any, replications: int, **given: Any) -> dict[str, tuple[float, float]]:
    """Mean and standard error of each policy's regret at the end."""
    run = cb.simulate(env, policies, horizon=HORIZON, replications=replications, seed=1, **given)
    return {row.policy: (row.mean, row.standard_error) for row in run.summary()}


def from_past(kind: str, rows: int, policies: dict[str, Any], replications: int) -> dict[str, tuple[float, float]]:
    """The same where the tables come from past mails, other ones in each replication."""
    env = cb.zoo.email_campaign()
    found: dict[str, list[float]] = {name: [] for name in policies}
    for r in range(replications):
        rng = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(rows, r)))
        model = env.problem.model
        data = model.sample(rows, rng=rng) if kind == "right" else confounded(model, rows, rng)
        problem = env.problem.with_model(cb.fit(model, data))
        run = cb.simulate(env, policies, horizon=HORIZON, replications=range(r, r + 1), seed=1, believed=problem)
        for name in policies:
            found[name].append(run.regret(name)[0, -1])
    return {name: (np.mean(v), np.std(v, ddof=1) / np.sqrt(len(v))) for name, v in found.items()}


def shown(found: dict[str, tuple[float, float]]) -> str:
    """Means with their standard errors."""
    return "  ".join(f"{name}: {m:.1f} ({se:.1f})" for name, (m, se) in found.items())


def main(replications: int = 40) -> None:
    """Print the table and draw the picture."""
    email = final(
        cb.zoo.email_campaign(),
        {
            "exact tables": KNOWN,
            "no tables, learnt": LEARNT,
            "no graph (TS)": cb.policies.ThompsonSampling(prior="beta"),
        },
        replications,
    )
    ten = final(
        ten_settings, {"exact": KNOWN, "learnt": LEARNT, "TS": cb.policies.ThompsonSampling(prior="beta")}, replications
    )
    past = {"taken as they are": KNOWN, "learnt on": BELIEVING, "learned on, trust_past=0.5": LEARNT}
    rows = {
        f"{n:,} {kind} mails": from_past(kind, n, past, replications)
        for kind, n in (("right", 100), ("right", 1000), ("confounded", 1000), ("confounded", 10_000))
    }
    print(f"Final regret after {HORIZON} rounds, {replications} replications (standard error).\n")
    print("e-mail campaign:     ", shown(email))
    print("one knob, ten values:", shown(ten))
    for label, found in rows.items():
        print(f"{label:<22}", shown(found))
    draw(email, rows)


def draw(email: dict[str, tuple[float, float]], rows: dict[str, dict[str, tuple[float, float]]]) -> None:
    """Two panels: nothing known beforehand; and past data, right or not."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(1, 1.9), layout="constrained")
    bars = left.barh(list(email), [m for m, _ in email.values()], color=["#0072b2", "#009e73", "#9aa5b1"])
    left.bar_label(bars, fmt="%.0f", padding=4)
    left.invert_yaxis()
    left.set(title="Without any table", xlabel=f"regret after {HORIZON:,} mails")
    names, colours = list(next(iter(rows.values()))), ["#9aa5b1", "#56b4e9", "#009e73"]
    for i, (name, colour) in enumerate(zip(names, colours, strict=True)):
        means, errors = zip(*(found[name] for found in rows.values()), strict=True)
        at = np.arange(len(rows)) + (i - 1) * 0.27
        right.bar_label(right.bar(at, means, 0.25, yerr=errors, color=colour, label=name), fmt="%.0f", padding=2)
    right.set_xticks(range(len(rows)), [label.replace(" mails", "\nmails") for label in rows])
    right.set(title="With tables from past data", ylabel="regret")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    left.set_xlim(0, 1.12 * max(m for m, _ in email.values()))
    figure.savefig(PICTURE, dpi=150)
    print(f"Written: {PICTURE}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
