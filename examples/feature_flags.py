"""Which of 4,096 combinations of feature flags sells most, and can 2,000 visitors tell?

The script has 12 flags that can be on or off. The graph says which flags change what: findability, trust, effort and
distraction, each through three flags, and these four decide whether a visitor buys. With the graph, an agent learns
16 conversion rates and 32 rows of conditional probabilities instead of 4,096 conversion rates. The plot compares it
with an agent without a graph, for which every combination is new.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
VISITORS, WINDOW = 2000, 100
GROUPS = {
    "findable": ["search", "filters", "suggestions"],
    "trusted": ["reviews", "guarantee", "photos"],
    "effortless": ["guest_checkout", "wallet", "prefill"],
    "distracted": ["chat", "banner", "popup"],
}


def shop() -> cb.Environment:
    """The simulated shop: flags interact within their group, by numbers drawn once and for all."""
    rng = np.random.default_rng(29)
    flags = [cb.Variable(flag, ["off", "on"], table=[1, 0]) for group in GROUPS.values() for flag in group]
    moods = []
    for name, group in GROUPS.items():
        yes = rng.beta(0.7, 0.7, size=(2, 2, 2))
        moods.append(cb.Variable(name, ["no", "yes"], parents=group, table=np.stack([1 - yes, yes], axis=-1)))
    problem = cb.Problem(
        cb.CausalModel([*flags, *moods]), manipulable=[flag.name for flag in flags], reward_parents=[*GROUPS]
    )
    base = {"findable": 0.15, "trusted": 0.12, "effortless": 0.18, "distracted": -0.12}

    def conversion(findable: str, trusted: str, effortless: str, distracted: str) -> float:
        state = {"findable": findable, "trusted": trusted, "effortless": effortless, "distracted": distracted}
        bonus = 0.15 if findable == trusted == effortless == "yes" else 0.0
        return 0.16 + bonus + sum(base[name] for name, value in state.items() if value == "yes")

    return cb.Environment(problem, cb.rewards.BernoulliReward(conversion))


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    env = shop()
    flags, best = env.problem.manipulable, env.best()
    print(f"Combinations of {len(flags)} flags: {env.problem.actions.size}")
    print(f"True best combination: on = {switched_on(best.intervention)}")
    print(f"True conversion rate of the best: {best.mean:.3f}")
    print(f"True conversion rate with all flags off: {env.mean_reward(dict.fromkeys(flags, 'off')):.3f}")
    print(f"True mean over all combinations: {env.means.mean():.3f}")

    # The two agents know the flags. One knows the graph, too; neither knows any probability.
    settings = {flag: ["off", "on"] for flag in flags}
    with_graph = cb.Problem(
        "; ".join(f"{', '.join(group)} -> {name}" for name, group in GROUPS.items())
        + f"; {', '.join(GROUPS)} -> bought",
        reward="bought",
        manipulable=settings,
        values={name: ["no", "yes"] for name in GROUPS},
    )
    without_graph = cb.Problem(
        f"{', '.join(flags)} -> bought", reward="bought", manipulable=settings, reward_parents=[]
    )
    agents = {
        "with the graph": cb.Agent(with_graph, "c-ts(prior=beta, cpts=learned)", seed=seed),
        "without a graph": cb.Agent(without_graph, "ts(prior=beta)", seed=seed),
    }

    # Both serve 2,000 visitors.
    rates: dict[str, np.ndarray] = {}
    for name, agent in agents.items():
        rng, chosen = np.random.default_rng(seed), []
        for _ in range(VISITORS):
            decision = agent.ask()
            seen = env.pull(decision.action, rng)
            agent.tell(decision, reward=seen.reward, observed=seen.parents if "with the" in name else {})
            chosen.append(env.mean_reward(decision.action))
        rates[name] = np.array(chosen)
        print(f"\nAgent: {name}")
        print(f"True conversion rate of its decisions: {rates[name].mean():.3f}")
        print(f"True conversion rate of its last {WINDOW} decisions: {rates[name][-WINDOW:].mean():.3f}")
        recommendation = agent.recommend()
        print(f"Recommendation: on = {switched_on(recommendation.intervention)}")
        print(f"Estimated conversion rate: {recommendation.mean:.3f}")
        print(f"True conversion rate: {env.mean_reward(recommendation.intervention):.3f}")

    # The plot: the true conversion rate of the decisions, in windows of 100 visitors.
    figure, ax = plt.subplots(figsize=(7, 4.2), dpi=150, layout="constrained")
    ends = np.arange(WINDOW, VISITORS + 1, WINDOW)
    for (name, rate), colour in zip(rates.items(), ["#0072B2", "#D55E00"], strict=True):
        means = 100 * rate.reshape(-1, WINDOW).mean(axis=1)
        ax.plot(ends, means, color=colour, linewidth=2)
        ax.annotate(name, (VISITORS, means[-1]), (6, 0), textcoords="offset points", color=colour, va="center")
    references = {"best combination": best.mean, "mean of all combinations": env.means.mean()}
    for name, mean in references.items():
        ax.axhline(100 * mean, color="0.5", linestyle="--", linewidth=1)
        ax.annotate(name, (0, 100 * mean), (4, 3), textcoords="offset points", color="0.35", fontsize=9)
    ax.set_xlim(0, VISITORS)
    ax.set_ylim(0, 105 * best.mean + 3)
    ax.set_xlabel("visitors")
    ax.set_ylabel("conversion rate of the decisions (%)")
    ax.set_title(f"{len(flags)} flags, {env.problem.actions.size:,} combinations", loc="left", fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "feature_flags.png")
    print(f"\nPlot: {OUT / 'feature_flags.png'}")


def switched_on(action: cb.Intervention) -> str:
    return ", ".join(flag for flag, state in action.items() if state == "on") or "none"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
