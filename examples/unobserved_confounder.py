"""Should a hospital prescribe one drug to everybody, or leave the choice to the doctors?

Leave it to the doctors, and change the checklist that they use: in this simulation the best action does not set the
drug at all. Doctors see how severe a case is, and no record has it. A rule for everybody throws that away. The graph
alone shows which sets of variables can be worth setting, so that 5 of 12 actions remain.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
PATIENTS = 1500
CHECKLISTS, DRUGS = ["none", "short", "full"], ["standard", "strong"]


def hospital() -> cb.Environment:
    """The simulated hospital: severity decides what doctors prescribe, and who recovers; it is not recorded."""
    model = cb.CausalModel(
        [
            cb.Variable("severity", ["mild", "severe"], table=[0.6, 0.4]),
            cb.Variable("checklist", CHECKLISTS, table=[0.6, 0.3, 0.1]),
            cb.Variable(
                "drug",
                DRUGS,
                parents=["severity", "checklist"],
                table=[[[0.7, 0.3], [0.8, 0.2], [0.9, 0.1]], [[0.4, 0.6], [0.25, 0.75], [0.1, 0.9]]],
            ),
            cb.Variable(
                "recovery",
                [0, 1],
                parents=["drug", "severity"],
                table=[[[0.1, 0.9], [0.75, 0.25]], [[0.5, 0.5], [0.35, 0.65]]],
            ),
        ]
    )
    return cb.Environment.from_model(model, manipulable=["checklist", "drug"], reward="recovery", optional=True)


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    env = hospital()

    # What is known: checklist and doctor lead to the drug; something unobserved affects drug and recovery (<->).
    graph = cb.CausalGraph.from_text("checklist -> drug -> recovery; drug <-> recovery")
    graph = graph.with_values({"checklist": CHECKLISTS, "drug": DRUGS})
    print(f"Graph: {graph}")
    print(f"Sets worth setting (POMIS): {graph.optimal_sets('recovery', manipulable=['checklist', 'drug'])}")
    known = {"manipulable": ["checklist", "drug"], "reward": "recovery", "reward_parents": []}
    free = cb.Problem(graph, optional=True, **known)  # a variable may be left unset
    fixed = cb.Problem(graph, optional=False, **known)  # both variables are set for every patient
    print(f"Actions: {env.problem.actions.size}, of which worth trying: {free.actions.size}")
    print(f"True best action: {env.best().intervention}, recovery {env.best().mean:.3f}")

    # Two agents treat 1,500 patients each. Neither knows any probability.
    agents = {"may leave the drug unset": free, "sets both variables": fixed}
    shares: dict[str, dict[cb.Intervention, float]] = {}
    for name, problem in agents.items():
        agent, rng, lost = cb.Agent(problem, "ts(prior=beta)", seed=seed), np.random.default_rng(seed), 0.0
        counts = dict.fromkeys(problem.actions, 0)
        for _ in range(PATIENTS):
            decision = agent.ask()
            agent.tell(decision, reward=env.pull(decision.action, rng).reward)
            counts[cb.Intervention(decision.action)] += 1
            lost += env.gap(decision.action)
        shares[name] = {action: count / PATIENTS for action, count in counts.items()}
        recommendation = agent.recommend()
        print(f"\nAgent: {name}")
        print(recommendation)
        print(f"True recovery under this action: {env.mean_reward(recommendation.intervention):.3f}")
        print(f"True recoveries lost against the best action: {lost:.0f} of {PATIENTS} patients")

    # The plot: the true recovery rate of the actions, and how often the first agent chose each.
    actions = sorted(free.actions, key=env.mean_reward)
    means = [100 * env.mean_reward(action) for action in actions]
    colours = ["#0072B2" if "drug" not in action else "#D55E00" for action in actions]
    figure, ax = plt.subplots(figsize=(7, 3.6), dpi=150, layout="constrained")
    ax.barh(range(len(actions)), means, color=colours, height=0.65)
    for y, (action, mean) in enumerate(zip(actions, means, strict=True)):
        share = shares["may leave the drug unset"][action]
        ax.text(mean + 1, y, f"{mean:.0f}%   ({share:.0%} of decisions)", va="center", fontsize=9)
    names = [", ".join(f"{key}: {value}" for key, value in action.items()) for action in actions]
    ax.set_yticks(range(len(actions)), names)
    ax.set(xlabel="true recovery rate (%)", xlim=(0, 105))
    ax.set_title("Blue: doctors choose the drug. Orange: one drug for everybody", loc="left", fontsize=11)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.savefig(OUT / "unobserved_confounder.png")
    print(f"\nPlot: {OUT / 'unobserved_confounder.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
