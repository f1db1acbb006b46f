"""Three analysts draw three graphs: which one should the campaign use?

All of them at once. The policy `c-ts-models` starts with the same probability for each candidate, plays by candidates
in proportion to their probabilities, and updates these with every mail. The plot shows the probabilities over 1,500
mails, among them that of having no graph at all. In the simulation the third analyst is right: subject line, template
and send time all matter.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
MAILS, STEP = 1500, 25
SETTINGS = ["product", "purpose", "send_time"]


def click_rate(subject: str, template: str, send_time: str) -> float:
    """The truth of the simulation: a short subject line helps with template 1, and hurts with template 2."""
    morning = 0.2 if send_time == "morning" else 0.0
    return 0.2 + morning + (0.25 if (subject == "short") == (template == "1") else 0.0)


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    problem, rng = cb.zoo.email_campaign().problem, np.random.default_rng(seed)
    env = cb.Environment(problem, cb.rewards.BernoulliReward(click_rate))

    # The candidates: CPTs from the same 1,000 past mails, and three opinions on what makes people click.
    past = env.problem.model.sample(1000, rng=rng)
    opinions = {
        "subject, template": ["subject", "template"],
        "subject, send time": ["subject", "send_time"],
        "all three": ["subject", "template", "send_time"],
    }
    graph = "purpose -> subject; product, purpose -> template; send_time"
    # By each of the first two graphs one setting has no effect, of which the library warns.
    warnings.simplefilter("ignore", cb.CausalBanditsWarning)
    model = cb.fit(cb.CausalGraph.from_text(graph), past, values={"template": ["1", "2"]})
    problems = {
        name: cb.Problem(model, manipulable=SETTINGS, reward="click", reward_parents=parents)
        for name, parents in opinions.items()
    }
    names = [*problems, "no graph"]
    policy = cb.policy("c-ts-models", problems=[*problems.values(), None])

    # One study with all candidates. Its statistic gives their probabilities.
    weights, lost = [], {"all candidates": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        study = cb.Study.create(Path(folder) / "mails.db", problems["all three"], policy, seed=seed)
        with study, study.together():
            for mail in range(MAILS):
                if mail % STEP == 0:
                    weights.append(policy.posterior_weights(problems["all three"], study.statistic))
                decision = study.ask()
                seen = env.pull(decision.action, rng)
                study.tell(decision.id, reward=seen.reward, observed=seen.parents)
                lost["all candidates"] += env.gap(decision.action)
            weights.append(policy.posterior_weights(problems["all three"], study.statistic))
            recommendation = study.recommend()
    print("Probability of each candidate:")
    for name, first, last in zip(names, weights[0], weights[-1], strict=True):
        print(f"  {name}: {first:.3f} before the first mail, {last:.3f} after {MAILS}")
    print(recommendation)
    print(f"True click rate of this action: {env.mean_reward(recommendation.intervention):.3f}")
    print(f"True best click rate: {env.best().mean:.3f}")

    # For comparison: each graph alone, and no graph.
    rivals = {name: (problem, "c-ts(prior=beta)") for name, problem in problems.items()}
    for name, (problem, alone) in {**rivals, "no graph": (problems["all three"], "ts(prior=beta)")}.items():
        agent, lost[name] = cb.Agent(problem, alone, seed=seed), 0.0
        for _ in range(MAILS):
            decision = agent.ask()
            seen = env.pull(decision.action, rng)
            observed = {parent: seen.parents[parent] for parent in problem.parents}
            agent.tell(decision, reward=seen.reward, observed=observed)
            lost[name] += env.gap(decision.action)
    print(f"\nTrue clicks lost against the best action in {MAILS} mails:")
    for name, clicks in lost.items():
        print(f"  {name}: {clicks:.0f}")

    # The plot: the probabilities of the candidates.
    figure, ax = plt.subplots(figsize=(7, 4.2), dpi=150, layout="constrained")
    colours, dashes = ["#D55E00", "#009E73", "#0072B2", "0.5"], ["--", ":", "-", "-."]
    mails = np.arange(0, MAILS + 1, STEP)
    for name, series, colour, dash in zip(names, np.transpose(weights), colours, dashes, strict=True):
        ax.plot(mails, series, color=colour, linestyle=dash, linewidth=2.2, label=name)
    ax.set(xlabel="mails sent", ylabel="probability of the candidate", xlim=(0, MAILS), ylim=(-0.02, 1.02))
    ax.set_title("What do clicks depend on?", loc="left", fontsize=11)
    ax.legend(frameon=False, loc="center right")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9")
    figure.savefig(OUT / "candidate_graphs.png")
    print(f"\nPlot: {OUT / 'candidate_graphs.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
