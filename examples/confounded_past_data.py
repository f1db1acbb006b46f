"""Past customers who came by mail bought more often: should more customers be sent to the mail channel?

No: in this simulation the web is the better channel, although users of the mail engage more often. A taste that no
column records decides both which channel people choose and whether they engage. With the confounder in the graph, the
library computes the effect of the channel from the same rows. The plot compares both estimates with the truth.
"""

import argparse
import csv
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
DAGITTY = """dag {
  taste [latent]
  channel [exposure]
  sale [outcome]
  taste -> { channel engagement }
  channel -> exposure -> engagement -> sale
}
"""


def world() -> cb.CausalModel:
    """The simulated customers: taste decides the channel that they choose, and whether they engage."""
    return cb.CausalModel([
        cb.Variable("taste", [0, 1], table=[.5, .5]),
        cb.Variable("channel", ["web", "mail"], parents=["taste"], table=[[.9, .1], [.1, .9]]),
        cb.Variable("exposure", ["short", "long"], parents=["channel"], table=[[.8, .2], [.2, .8]]),
        cb.Variable("engagement", [0, 1], parents=["taste", "exposure"],
                    table=[[[.8, .2], [.9, .1]], [[.2, .8], [.3, .7]]]),
        cb.Variable("sale", [0, 1], parents=["engagement"], table=[[.8, .2], [.2, .8]]),
    ])  # fmt: skip


def write_files(graph: Path, past: Path, rows: int, seed: int) -> None:
    """What you would have: a graph, and rows without the column that nobody recorded."""
    graph.write_text(DAGITTY, encoding="utf-8")
    columns = world().sample(rows, rng=seed)
    del columns["taste"]
    with past.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def engagement(problem: cb.Problem) -> dict[str, tuple[float, float, float]]:
    """P(engagement | do(channel)) with its 95% interval, for both channels."""
    estimates = {}
    for channel in ("web", "mail"):
        mean, lower, upper = problem.parent_distribution({"channel": channel}, interval=True)
        estimates[channel] = (mean[1], lower[1], upper[1])
    return estimates


def main(seed: int, rows: int = 2000, users: int = 300) -> None:
    OUT.mkdir(exist_ok=True)
    dot, past = OUT / "confounded_past_data.dot", OUT / "confounded_past_data.csv"
    write_files(dot, past, rows, seed)
    env = cb.Environment.from_model(world(), manipulable=["channel"], reward="sale", optional=False)

    # Does anything in the data contradict the graph, and by which formula is the effect computed?
    graph = cb.read(dot)
    print(cb.check(graph, past))
    print(f"P(engagement | do(channel)): {graph.effect(['engagement'], do=['channel'])}")

    # Two estimates from the same rows: with the confounder in the graph, and without it.
    without = {name: [cause for cause in graph.parents[name] if cause != "taste"] for name in graph.names}
    known = cb.Problem(cb.fit(graph, past), manipulable=["channel"], reward="sale", adjust="smallest", optional=False)
    ignored = cb.Problem(cb.fit(without, past), manipulable=["channel"], reward="sale", optional=False)
    truth = {channel: env.problem.parent_distribution({"channel": channel})[1] for channel in ("web", "mail")}
    naive = "confounder ignored"
    estimates = {"confounder in the graph": engagement(known), naive: engagement(ignored)}
    for channel, true in truth.items():
        print(f"\nTrue P(engagement | do(channel={channel})): {true:.3f}")
        for name, found in estimates.items():
            mean, lower, upper = found[channel]
            print(f"Estimate, {name}: {mean:.3f}, 95% interval [{lower:.3f}, {upper:.3f}]")

    # Decisions for new customers, from the first estimate on.
    agent, rng = cb.Agent(known, "c-ts(prior=beta)", seed=seed), np.random.default_rng(seed)
    for _ in range(users):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        agent.tell(decision, reward=seen.reward, observed={"engagement": seen.parents["engagement"]})
    recommendation = agent.recommend()
    print(f"\n{recommendation}")
    for channel in truth:
        print(f"True sales rate, {channel}: {env.mean_reward({'channel': channel}):.3f}")

    # The plot: both estimates and the truth.
    figure, ax = plt.subplots(figsize=(7, 3.6), dpi=150, layout="constrained")
    for shift, (name, found), colour in zip((0.14, -0.14), estimates.items(), ["#0072B2", "#D55E00"], strict=True):
        for y, channel in enumerate(truth):
            mean, lower, upper = (100 * value for value in found[channel])
            ax.plot([lower, upper], [y + shift] * 2, color=colour, linewidth=3, alpha=0.4, solid_capstyle="round")
            ax.plot(mean, y + shift, "o", color=colour, markersize=7, label=name if y == 0 else None)
    for y, (_channel, true) in enumerate(truth.items()):
        ax.plot([100 * true] * 2, [y - 0.3, y + 0.3], color="black", linewidth=1.5, label="truth" if y == 0 else None)
    ax.set_yticks(range(len(truth)), [f"everybody: {channel}" for channel in truth])
    ax.set(xlabel="customers who engage (%), with 95% intervals", ylim=(-0.5, len(truth) - 0.5))
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.legend(frameon=False, loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(OUT / "confounded_past_data.png")
    print(f"\nPlot: {OUT / 'confounded_past_data.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
