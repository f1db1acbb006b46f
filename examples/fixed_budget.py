"""How should a campaign spend a fixed budget when better settings cost more?

Over all rounds, and each euro where it brings most: on a mixture of cheap and expensive actions. The script sends
3,000 mails with a budget of 120 euros. It compares an agent that is given the budget with one that plays the best
action for as long as the money lasts and a free action afterwards.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
MAILS, BUDGET = 3000, 120.0
PRICES = {"product": 0.05, "purpose": 0.08, "send_time": {"morning": 0.02}}  # euros for setting a variable


def campaign(costs: dict | None) -> cb.Environment:
    """The e-mail campaign of the zoo, with or without prices; each variable may also be left unset, free of charge."""
    zoo = cb.zoo.email_campaign()
    problem = cb.Problem(
        zoo.problem.model,
        manipulable=zoo.problem.manipulable,
        reward_parents=zoo.problem.parents,
        costs=costs,
        optional=True,
    )
    return cb.Environment(problem, zoo.reward)


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    env = campaign(PRICES)
    free = [action for action in env.problem.actions if not env.problem.cost(action)]
    richest = campaign(None).best()
    print(f"Budget: {BUDGET:.0f} euros for {MAILS} mails, {BUDGET / MAILS:.3f} per mail")
    print(f"True best action, whatever it costs: {richest.intervention}, click rate {richest.mean:.3f}")
    print(f"Cost of this action: {env.problem.cost(richest.intervention):.2f} euros per mail")
    print(f"True click rate without any intervention: {env.mean_reward({}):.3f}")

    # The agent with a budget: it plans for the money and the rounds that are left.
    paced = cb.Agent(env.problem, "c-ts(prior=beta)", seed=seed, budget=cb.Budget(BUDGET, rounds=MAILS))
    rng, spent, clicks = np.random.default_rng(seed), np.zeros((2, MAILS)), np.zeros((2, MAILS))
    for mail in range(MAILS):
        decision = paced.ask()
        seen = env.pull(decision.action, rng)
        paced.tell(decision, reward=seen.reward, observed=seen.parents)
        spent[0, mail] = env.problem.cost(decision.action)
        clicks[0, mail] = env.mean_reward(decision.action)

    # The rival: the best action while there is money, then the free actions.
    greedy, rng = cb.Agent(campaign(None).problem, "c-ts(prior=beta)", seed=seed), np.random.default_rng(seed)
    for mail in range(MAILS):
        affordable = BUDGET - spent[1].sum() >= 0.15  # the most expensive action
        decision = greedy.ask() if affordable else greedy.ask(eligible=free)
        seen = env.pull(decision.action, rng)
        greedy.tell(decision, reward=seen.reward, observed=seen.parents)
        spent[1, mail] = env.problem.cost(decision.action)
        clicks[1, mail] = env.mean_reward(decision.action)

    names = ["with the budget", "until the money is gone"]
    for name, costs, means in zip(names, spent, clicks, strict=True):
        print(f"\nAgent: {name}")
        print(f"Spent: {costs.sum():.2f} euros")
        print(f"True mean clicks of its decisions: {means.sum():.0f}")
    status = paced.budget
    print(f"\nBudget of the first agent: {status.left:.2f} euros left for {status.rounds_left} mails")

    # The plot: the money left, and the click rate of the decisions.
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), dpi=150, layout="constrained")
    rounds = np.arange(1, MAILS + 1)
    for name, costs, means, colour in zip(names, spent, clicks, ["#0072B2", "#D55E00"], strict=True):
        left.plot(rounds, BUDGET - costs.cumsum(), color=colour, linewidth=2, label=name)
        window = 100 * means.reshape(-1, 100).mean(axis=1)
        right.plot(rounds[99::100], window, color=colour, linewidth=2, label=name)
    left.set(xlabel="mails sent", ylabel="money left (€)", xlim=(0, MAILS), ylim=(0, 1.03 * BUDGET))
    left.set_title("Money left", loc="left", fontsize=11)
    right.set(xlabel="mails sent", ylabel="click rate of the decisions (%)", xlim=(0, MAILS))
    right.set_title("Click rate, in windows of 100 mails", loc="left", fontsize=11)
    right.legend(frameon=False)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(axis="y", color="0.9")
        ax.set_axisbelow(True)
    figure.savefig(OUT / "fixed_budget.png")
    print(f"Plot: {OUT / 'fixed_budget.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
