"""An e-mail campaign, end to end: the environment, the comparison before launch, the live agent.

Product, purpose and send time are manipulable. Clicks depend on the subject line's length, the template and the send
time. The CPTs from the manipulable variables to these parents are known from past campaigns. The mean clicks given the
parents are unknown: the agent learns them with few mails.
"""

from pathlib import Path

import causalbandits as cb

OUT = Path("results")


def main() -> None:
    env = cb.zoo.email_campaign()
    problem = env.problem
    print(f"Actions: {problem.actions.size}")
    print(f"Configurations of the reward's parents: {problem.configurations}")
    print(f"Best action: {env.best().intervention}, click rate {env.best().mean:.1%}")
    print(f"Without an intervention: click rate {env.mean_reward({}):.1%}\n")

    print(
        "1. Comparison before launch: four policies, 20 simulated campaigns of 5000 mails each (takes some seconds) ..."
    )
    policies = ["ucb", "c-ucb", "ts(prior=beta)", "c-ts(prior=beta)"]
    run = cb.simulate(env, policies, horizon=5000, replications=20, seed=0, workers=2)
    print(run.summary(), "\n")
    OUT.mkdir(exist_ok=True)
    run.plot(OUT / "email_regret.png", title="E-mail campaign: regret in clicks")
    run.to_csv(OUT / "email_regret.csv")
    print(f"Plot: {OUT / 'email_regret.png'}\nData: {OUT / 'email_regret.csv'}\n")

    print("2. Live campaign: an agent decides 1000 mails one by one.")
    agent = cb.Agent(problem, cb.policies.CausalThompsonSampling(prior="beta"), seed=7)
    clicks = 0.0
    for mail in range(1000):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng=mail)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
        clicks += outcome.reward
    agent.save(OUT / "email_agent.json", overwrite=True)
    best = agent.recommend()
    print(f"Clicks: {clicks:.0f} of 1000 mails")
    print(f"Recommended action: {best.intervention}")
    interval = f"{best.confidence:.0%} {best.kind} interval {best.lower:.1%} to {best.upper:.1%}"
    print(f"Click rate: {best.mean:.1%}, {interval}")
    print(f"Agent: {OUT / 'email_agent.json'} (continue with cb.Agent.load)")


if __name__ == "__main__":
    main()
