"""From a dagitty file and a CSV to decisions: a hidden cause turns the order of two channels around.

Run it: python examples/hidden_causes.py. Files go to results/hidden_causes.
"""

from __future__ import annotations

import csv
from pathlib import Path

import causalbandits as cb

FOLDER = Path("results/hidden_causes")
CAMPAIGN = """dag {
  taste [latent]
  channel [exposure]
  sale [outcome]
  taste -> { channel engagement }
  channel -> exposure -> engagement -> sale
}
"""


def world() -> cb.CausalModel:
    """Stands for the real world: what users like decides which channel they use, and whether they engage."""
    return cb.CausalModel([
        cb.Variable("taste", [0, 1], table=[.5, .5]),
        cb.Variable("channel", ["web", "mail"], parents=["taste"], table=[[.9, .1], [.1, .9]]),
        cb.Variable("exposure", ["short", "long"], parents=["channel"], table=[[.8, .2], [.2, .8]]),
        cb.Variable("engagement", [0, 1], parents=["taste", "exposure"],
                    table=[[[.8, .2], [.9, .1]], [[.2, .8], [.3, .7]]]),
        cb.Variable("sale", [0, 1], parents=["engagement"], table=[[.8, .2], [.2, .8]]),
    ])  # fmt: skip


def write_files(graph: Path, past: Path, rows: int) -> None:
    """What you would have: a graph, and rows without the column that nobody has."""
    graph.write_text(CAMPAIGN, encoding="utf-8")
    columns = world().sample(rows, rng=1)
    del columns["taste"]
    with past.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def show(problem: cb.Problem) -> None:
    """What each action leads to, and what the rows leave open."""
    for do in problem.actions:
        mean, lower, upper = problem.parent_distribution(do, interval=True)
        print(f"  {do}: P(engagement) = {mean[1]:.3f}, {lower[1]:.3f} to {upper[1]:.3f}")


def main(rows: int = 1000, users: int = 300) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    dot, past = FOLDER / "campaign.dot", FOLDER / "past.csv"
    write_files(dot, past, rows)
    graph = cb.read(dot)
    print(cb.check(graph, past))
    print("P(engagement | do(channel)) =", graph.effect(["engagement"], do=["channel"]))

    known = cb.fit(graph, past)
    problem = cb.Problem(known, manipulable=["channel"], reward="sale", adjust="smallest", optional=True)
    print("With the hidden cause in the graph:")
    show(problem)
    without = {name: [cause for cause in graph.parents[name] if cause != "taste"] for name in graph.names}
    print("As if nothing were hidden:")
    show(cb.Problem(cb.fit(without, past), manipulable=["channel"], reward="sale", optional=True))

    env = cb.Environment.from_model(world(), manipulable=["channel"], reward="sale", optional=True)
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=1)
    for user in range(users):
        decision = agent.ask()
        seen = env.pull(decision.action, rng=user)
        agent.tell(decision.id, reward=seen.reward, observed={"engagement": seen.parents["engagement"]})
    print(agent.recommend())
    agent.save(FOLDER / "agent.json", overwrite=True)


if __name__ == "__main__":
    main()
