"""How do I get from a CSV file of past campaigns to decisions?

In four steps: check the graph against the data, estimate the probabilities, forecast how many mails the answer takes,
and run the campaign. The plot is the forecast: the regret, and the probability that the recommended action is good
enough, for three policies.
"""

import argparse
from pathlib import Path

import causalbandits as cb

OUT = Path("results")
GRAPH = {
    "product": [],
    "purpose": [],
    "send_time": [],
    "subject": ["purpose"],
    "template": ["product", "purpose"],
}


def write_past_campaigns(path: Path, mails: int, seed: int) -> None:
    """Stands for your export: one line per mail, with its settings, its subject line and its template."""
    columns = cb.zoo.email_campaign().problem.model.sample(mails, rng=seed)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main(seed: int, mails: int = 1000, problems: int = 30) -> None:
    OUT.mkdir(exist_ok=True)
    data = OUT / "from_past_data.csv"
    write_past_campaigns(data, 5000, seed)

    # 1. Do the data contradict the graph?
    print(cb.check(GRAPH, data))

    # 2. The conditional probabilities, from the data.
    problem = cb.Problem(
        GRAPH,
        data=data,
        values={"template": ["1", "2"]},  # names, although they look like numbers
        reward_parents=["subject", "template", "send_time"],
        manipulable=["product", "purpose", "send_time"],
    )
    print(f"\n{problem}")

    # 3. How many mails would it take? Click rates are around one half in the prior, Beta(4, 4).
    policies = ["c-ts(prior=beta)", "ts(prior=beta)", "uniform"]
    forecast = cb.forecast(
        problem, policies, horizon=mails, reward_prior=(4, 4), replications=problems, seed=seed, progress=False
    )
    print(f"\n{forecast}")
    forecast.plot(OUT / "from_past_data.png")

    # 4. The campaign.
    env = cb.zoo.email_campaign()  # stands for the real recipients
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=seed, zero_probability="allow")
    for mail in range(mails):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng=1000 * seed + mail)
        agent.tell(decision, reward=outcome.reward, observed=outcome.parents)
    agent.save(OUT / "from_past_data.json", overwrite=True)
    agent.report(OUT / "from_past_data.html")  # a page to look at and to pass on
    best = agent.recommend()
    print(f"\n{best}")
    print(f"True click rate of this action: {env.mean_reward(best.intervention):.3f}")
    print(f"True best click rate: {env.best().mean:.3f}")
    print(f"\nPlot: {OUT / 'from_past_data.png'}")
    print(f"Report: {OUT / 'from_past_data.html'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
