"""Do different customer segments need different e-mails, and can they share what is learned?

Yes to both in this simulation: the best e-mail differs between segments, and the graph lets a click of one segment
inform about the others. The script compares an agent that knows the segment before each decision with one that does
not, and with one that learns each segment separately, without a graph.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
MAILS, REPLICATIONS = 2500, 6


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    env = cb.zoo.email_segments()
    p = env.problem
    segments = p.model["segment"].states
    for segment in segments:
        best = env.best({"segment": segment})
        print(f"True best e-mail, {segment}: {best.intervention}, click rate {best.mean:.3f}")

    # The comparison: the segment known, not known, and each segment on its own.
    blind = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, optional=True)
    runs = {
        "segment known": ("c-ts(prior=beta)", p),
        "segment not known": ("c-ts(prior=beta)", blind),
        "each segment alone, no graph": ("ts(prior=beta)", p),
    }
    curves = {}
    print(f"\nTrue clicks lost in {MAILS} mails, mean of {REPLICATIONS} simulations:")
    for name, (policy, believed) in runs.items():
        run = cb.simulate(
            env, [policy], believed=believed, horizon=MAILS, replications=REPLICATIONS, seed=seed, progress=False
        )
        curves[name] = (run.rounds, *run.interval(policy))
        final = run.regret(policy)[:, -1]
        print(f"  {name}: {final.mean():.0f}, standard error {final.std(ddof=1) / np.sqrt(REPLICATIONS):.1f}")

    # A live campaign: the segment is known before each decision.
    agent, rng = cb.Agent(p, "c-ts(prior=beta)", seed=seed), np.random.default_rng(seed)
    for _ in range(MAILS):
        customer = env.draw_context(rng)
        decision = agent.ask(context=customer)
        seen = env.pull(decision.action, rng, context=customer)
        agent.tell(decision, reward=seen.reward, observed=seen.parents)
    found = {}
    for segment in segments:
        found[segment] = best = agent.recommend(context={"segment": segment})
        truth = env.mean_reward(best.intervention, {"segment": segment})
        print(f"\nSegment: {segment}")
        print(f"Recommendation: {best.intervention}")
        print(f"Estimated click rate: {best.mean:.3f}, 95% credible interval [{best.lower:.3f}, {best.upper:.3f}]")
        print(f"True click rate: {truth:.3f}")

    # The plot: clicks lost; and, for each segment, the recommended e-mail against the best single e-mail for all.
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.8, 3.9), dpi=150, layout="constrained", width_ratios=(1.2, 1))
    for (name, (rounds, mean, lower, upper)), colour in zip(
        curves.items(), ["#0072B2", "#009E73", "#D55E00"], strict=True
    ):
        left.plot(rounds, mean, color=colour, linewidth=2, label=name)
        left.fill_between(rounds, lower, upper, color=colour, alpha=0.2, linewidth=0)
    left.set(xlabel="mails sent", ylabel="clicks lost against the best e-mails", xlim=(0, MAILS))
    left.set_ylim(bottom=0)
    left.set_title(f"Mean of {REPLICATIONS} simulations, 95% bands", loc="left", fontsize=11)
    left.legend(frameon=False, fontsize=9)
    common = env.best().intervention
    x = np.arange(len(segments))
    for shift, action, colour, name in (
        (-0.2, lambda segment: common, "0.75", "best e-mail for all"),
        (0.2, lambda segment: found[segment].intervention, "#0072B2", "recommended for the segment"),
    ):
        rates = [100 * env.mean_reward(action(segment), {"segment": segment}) for segment in segments]
        bars = right.bar(x + shift, rates, 0.38, color=colour, label=name)
        right.bar_label(bars, fmt="%.0f", padding=2, fontsize=9)
    right.set_xticks(x, segments)
    right.set(xlabel="segment", ylabel="true click rate (%)")
    right.set_ylim(top=1.3 * right.get_ylim()[1])
    right.set_title("True click rates", loc="left", fontsize=11)
    right.legend(frameon=False, fontsize=9, loc="upper left")
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "customer_segments.png")
    print(f"\nPlot: {OUT / 'customer_segments.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
