"""How many clicks does the causal graph save in an e-mail campaign?

Most of those that a bandit without the graph loses. The campaign has 80 actions, but clicks depend on only 12
combinations of subject line, template and send time. The script compares four policies before launch, and then lets
an agent decide about 1,000 mails, one by one.
"""

import argparse
from pathlib import Path

import causalbandits as cb

OUT = Path("results")


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    env = cb.zoo.email_campaign()  # simulates the recipients; no policy sees its click rates
    problem = env.problem
    print(f"Actions: {problem.actions.size}")
    print(f"Combinations of the reward's parents: {problem.configurations}")
    print(f"True best action: {env.best().intervention}, click rate {env.best().mean:.3f}")
    print(f"True click rate without any intervention: {env.mean_reward({}):.3f}")

    # Before launch: four policies, 10 simulated campaigns of 5,000 mails each.
    policies = ["ucb", "c-ucb", "ts(prior=beta)", "c-ts(prior=beta)"]
    run = cb.simulate(env, policies, horizon=5000, replications=10, seed=seed, progress=False)
    print("\nClicks lost against the best action in 5,000 mails:")
    for row in run.summary():
        print(f"  {row.policy}: {row.mean:.0f}, standard error {row.standard_error:.1f}")
    run.to_csv(OUT / "email_campaign.csv")

    # The plot: clicks lost so far.
    figure = run.plot(title="E-mail campaign, mean of 10 simulations with 95% bands")
    figure.axes[0].set(xlabel="mails sent", ylabel="clicks lost against the best action")
    figure.savefig(OUT / "email_campaign.png")

    # Live: an agent decides about each mail and learns from each click.
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=seed)
    clicks = 0.0
    for mail in range(1000):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng=1000 * seed + mail)
        agent.tell(decision, reward=outcome.reward, observed=outcome.parents)
        clicks += outcome.reward
    agent.save(OUT / "email_campaign.json", overwrite=True)  # cb.Agent.load continues from there
    best = agent.recommend()
    print(f"\nClicks in 1,000 live mails: {clicks:.0f}")
    print(best)
    print(f"True click rate of this action: {env.mean_reward(best.intervention):.3f}")
    print(f"\nPlot: {OUT / 'email_campaign.png'}")
    print(f"Numbers: {OUT / 'email_campaign.csv'}")
    print(f"Agent: {OUT / 'email_campaign.json'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
