"""What happens if an arrow is missing from the graph, and how soon does the agent notice?

The guarded policy tests the graph while it decides. When the evidence reaches a limit it names the variable with the
strongest evidence, and repairs the graph. In the simulation the product changes the click rate directly, by up to
0.3, and the graph does not know. The plot shows the evidence, and the clicks lost with and without the guard.
"""

import argparse
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
MAILS, STEP = 1500, 5


def worlds() -> tuple[cb.Problem, cb.Environment]:
    """The believed problem, and a simulated campaign in which the product has a direct effect on clicks."""
    email = cb.zoo.email_campaign()
    believed = email.problem
    true = cb.Problem(
        believed.model,
        manipulable=believed.manipulable,
        reward_parents=[*believed.parents, "product"],
        optional=True,
    )
    clicks = email.configuration_means.reshape(believed.shape)[..., None] + [-0.3, 0, 0.3]
    return believed, cb.Environment(true, cb.rewards.BernoulliReward(clicks.clip(0.01, 0.99)))


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    warnings.simplefilter("ignore", cb.CausalBanditsWarning)  # the alarm is printed below
    believed, env = worlds()
    print(f"Believed parents of the click: {', '.join(believed.parents)}")
    print(f"True parents of the click: {', '.join(env.problem.parents)}")
    print(f"True best action: {env.best().intervention}, click rate {env.best().mean:.3f}")

    # Two agents with the same wrong graph.
    policies = {"with guard": "c-ts-guarded(prior=beta)", "without guard": "c-ts(prior=beta)"}
    lost, evidence = {name: np.zeros(MAILS) for name in policies}, []
    for name, policy in policies.items():
        agent, rng = cb.Agent(believed, policy, seed=seed), np.random.default_rng(seed)
        for mail in range(MAILS):
            decision = agent.ask()
            seen = env.pull(decision.action, rng)
            observed = {parent: seen.parents[parent] for parent in believed.parents}
            agent.tell(decision, reward=seen.reward, observed=observed)
            lost[name][mail] = env.gap(decision.action)
            if name == "with guard" and mail % STEP == 0 and mail < 300:
                report = agent.evidence()
                if not report.alarms:  # an alarm repairs the graph, and the test starts again
                    evidence.append((mail + 1, {c.variable: c.e for c in report.claims if c.part == "graph"}))
        recommendation = agent.recommend()
        print(f"\nAgent: {name}")
        print(f"True clicks lost against the best action in {MAILS} mails: {lost[name].sum():.0f}")
        print(f"Recommendation: {recommendation.intervention}")
        print(f"Estimated click rate: {recommendation.mean:.3f}")
        print(f"True click rate: {env.mean_reward(recommendation.intervention):.3f}")
        if name == "with guard":
            alarms = agent.evidence().alarms
            print(f"Alarms: {len(alarms)}")
            for alarm in alarms:
                print(f"  {alarm}")

    # The plot: e-values of the arrows that the graph does not have, and clicks lost.
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9), dpi=150, layout="constrained")
    for variable, colour in {"product": "#0072B2", "purpose": "#009E73"}.items():
        values = [(mail, e[variable]) for mail, e in evidence]
        left.plot(*zip(*values, strict=True), color=colour, linewidth=2, label=f"{variable} → click")
    left.axhline(40, color="0.4", linestyle="--", linewidth=1)
    left.annotate(
        "alarm if the combined e-value reaches 40", (1, 40), (4, 4), textcoords="offset points", fontsize=9, color="0.3"
    )
    left.set(xlabel="mails sent, until the first alarm", ylabel="e-value (log scale)", yscale="log")
    left.set_ylim(0.01, 300)
    left.set_title("Evidence for each arrow that the graph lacks", loc="left", fontsize=11)
    left.legend(frameon=False, fontsize=9, loc="lower right")
    for name, colour in zip(policies, ["#0072B2", "#D55E00"], strict=True):
        right.plot(np.arange(1, MAILS + 1), lost[name].cumsum(), color=colour, linewidth=2, label=name)
    right.set(xlabel="mails sent", ylabel="clicks lost against the best action", xlim=(0, MAILS))
    right.set_ylim(bottom=0)
    right.set_title("Clicks lost", loc="left", fontsize=11)
    right.legend(frameon=False)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "wrong_graph.png")
    print(f"\nPlot: {OUT / 'wrong_graph.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
