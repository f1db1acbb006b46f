"""An e-mail campaign, end to end: the world, the comparison before launch, the live agent.

Product, purpose and send time may be chosen. What makes people click is the subject line's length, the template
and the send time; how the first three lead to these is known from past campaigns. How the clicks depend on them
is not: that is what has to be learnt, with as few wasted mails as possible.
"""

from pathlib import Path

import causalbandits as cb

OUT = Path("results")


def main() -> None:
    env = cb.zoo.email_campaign()
    problem = env.problem
    print(f"{problem.actions.size} actions; {problem.configurations} configurations of what makes people click.")
    print(f"Best: {env.best().intervention}, {env.best().mean:.1%} clicks; doing nothing: {env.mean_reward({}):.1%}.\n")

    print("1. Before launch: four policies, 20 campaigns of 5000 mails each (some seconds) ...")
    policies = ["ucb", "c-ucb", "ts(prior=beta)", "c-ts(prior=beta)"]
    run = cb.simulate(env, policies, horizon=5000, replications=20, seed=0, workers=2)
    print(run.summary(), "\n")
    OUT.mkdir(exist_ok=True)
    run.plot(OUT / "email_regret.png", title="E-mail campaign: clicks lost against the best action")
    run.to_csv(OUT / "email_regret.csv")
    print(f"The plot is {OUT / 'email_regret.png'}, the numbers are {OUT / 'email_regret.csv'}.\n")

    print("2. Live: an agent decides about 1000 mails, one by one.")
    agent = cb.Agent(problem, cb.policies.CausalThompsonSampling(prior="beta"), seed=7)
    clicks = 0.0
    for mail in range(1000):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng=mail)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
        clicks += outcome.reward
    agent.save(OUT / "email_agent.json", overwrite=True)
    best = agent.recommend()
    print(f"{clicks:.0f} clicks. Its advice: {best.intervention}.")
    interval = f"{best.confidence:.0%} {best.kind} interval {best.lower:.1%} to {best.upper:.1%}"
    print(f"It expects {best.mean:.1%} clicks ({interval}).")
    print(f"It is saved in {OUT / 'email_agent.json'}; cb.Agent.load goes on from there.")


if __name__ == "__main__":
    main()
