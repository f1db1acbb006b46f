"""Which prices should a product with two tiers have, if a lower price wins customers but earns less?

In this simulated shop, 14 euros for Basic and 24 for Pro, with Pro highlighted and a long product tour. The agent has
36 combinations to choose from, and revenue depends on them only through the price that the visitor pays and the tour.
A visitor who pays 29 euros therefore informs about every combination in which somebody pays 29 euros. The plot shows
how close the estimates are to the truth after 3,000 visitors.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
VISITORS = 3000
PAID = [0, 7, 10, 14, 19, 24, 29]  # euros a month; 0: the visitor does not buy


def choice_probabilities(action: dict) -> dict[int, float]:
    """P(price paid): the visitor chooses no tier, Basic or Pro (a logit model; the shop does not know it)."""
    basic = 2.5 - 0.3 * action["basic_price"] + 1.0 * (action["highlight"] == "basic")
    pro = 2.4 - 0.1 * action["pro_price"] + 1.0 * (action["highlight"] == "pro")
    weights = np.exp([0.0, basic, pro])
    return dict(zip([0, action["basic_price"], action["pro_price"]], weights / weights.sum(), strict=True))


def renewal_probability(paid: int, tour: str) -> float:
    """P(the customer stays another month): lower for high prices; the tour helps customers of the Pro tier only."""
    return 0.93 - 0.003 * paid + (0.03 if paid > 14 else -0.04) * (tour == "long")


def true_revenue(action: dict) -> float:
    """The exact mean revenue of a visitor in the first year, in euros."""
    mean = 0.0
    for paid, probability in choice_probabilities(action).items():
        stay = renewal_probability(paid, action["tour"])
        mean += probability * paid * sum(stay**month for month in range(12))
    return mean


def visit(action: dict, rng: np.random.Generator) -> tuple[int, float]:
    """A visitor: the price paid, and the revenue of the first year."""
    probabilities = choice_probabilities(action)
    paid = int(rng.choice([*probabilities], p=[*probabilities.values()]))
    months = min(12, rng.geometric(1 - renewal_probability(paid, action["tour"])))
    return paid, float(paid * months)


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)

    # What is known: the graph and the settings. How strong each effect is, the agent learns.
    problem = cb.Problem(
        "basic_price, pro_price, highlight -> paid; paid, tour -> revenue",
        reward="revenue",
        manipulable={
            "basic_price": [7, 10, 14],
            "pro_price": [19, 24, 29],
            "highlight": ["basic", "pro"],
            "tour": ["short", "long"],
        },
        values={"paid": PAID},
    )
    print(problem)
    actions = [dict(action) for action in problem.actions]
    best = max(actions, key=true_revenue)
    print(f"True best action: {cb.Intervention(best)}, {true_revenue(best):.2f} euros per visitor")
    print(f"True mean over all actions: {np.mean([true_revenue(action) for action in actions]):.2f} euros per visitor")

    # Ask for prices, watch the visitor, report the revenue.
    agent, rng = cb.Agent(problem, seed=seed), np.random.default_rng(seed)
    revenue, expected = 0.0, 0.0
    for _ in range(VISITORS):
        decision = agent.ask()
        paid, earned = visit(decision.action, rng)
        agent.tell(decision, reward=earned, observed={"paid": paid})
        revenue += earned
        expected += true_revenue(decision.action)
    print(f"\nVisitors: {VISITORS}")
    print(f"Revenue: {revenue / VISITORS:.2f} euros per visitor")
    print(f"True mean of the prices shown: {expected / VISITORS:.2f} euros per visitor")
    recommendation = agent.recommend()
    print(f"\n{recommendation}")
    print(f"True mean revenue of this action: {true_revenue(dict(recommendation.intervention)):.2f}")

    # The plot: the ten best-ranked actions, estimated and true.
    rows = recommendation.table(limit=10)
    figure, ax = plt.subplots(figsize=(7.5, 4.4), dpi=150, layout="constrained")
    for y, row in enumerate(rows):
        ax.plot([row.lower, row.upper], [y, y], color="#0072B2", linewidth=2.5, alpha=0.4, solid_capstyle="round")
        ax.plot(row.mean, y, "o", color="#0072B2", label="estimate, 95% credible interval" if y == 0 else None)
        truth = true_revenue(dict(row.action))
        ax.plot(truth, y, "D", color="white", markeredgecolor="#D55E00", label="true mean" if y == 0 else None)
    labels = [
        f"€{row.action['basic_price']} / €{row.action['pro_price']}, {row.action['highlight']} highlighted, "
        f"{row.action['tour']} tour"
        for row in rows
    ]
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()
    ax.set_xlabel("revenue per visitor in the first year (€)")
    ax.set_title(f"The ten best-ranked price lists after {VISITORS:,} visitors", loc="left", fontsize=11)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.legend(frameon=False, loc="outside lower center", ncols=2, fontsize=9)
    figure.savefig(OUT / "pricing_tiers.png")
    print(f"\nPlot: {OUT / 'pricing_tiers.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
