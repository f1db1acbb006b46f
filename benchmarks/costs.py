"""What costs and a budget do to the e-mail campaign, and what it costs to treat them otherwise.

Regret is of the reward less the cost; under a budget, it is what the best mixture of actions for that money would have
brought more. Rows marked by hand are played by a loop around an agent, because no policy does them.
"""

import sys
from collections.abc import Callable

import numpy as np

import causalbandits as cb
from causalbandits.environments import BudgetedRegret

HORIZON = 5000
PRICES = {"product": 0.05, "purpose": 0.08, "send_time": {"morning": 0.02}}
BUDGETS = (100, 250, 400)

Values = np.ndarray


def campaign(costs: dict | None = PRICES) -> cb.Environment:
    """The e-mail campaign of the zoo, with prices."""
    env = cb.zoo.email_campaign()
    p = env.problem
    return cb.Environment(
        cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=costs, optional=True), env.reward
    )


def segments() -> cb.Environment:
    """The same for customers of three segments, known beforehand."""
    env = cb.zoo.email_segments()
    p = env.problem
    return cb.Environment(
        cb.Problem(
            p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=PRICES, context=p.context, optional=True
        ),
        env.reward,
    )


def played(policy: str, replications: int, env: cb.Environment | None = None, **keywords) -> Values:
    """Final regrets."""
    run = cb.simulate(env or campaign(), [policy], horizon=HORIZON, replications=replications, seed=1, **keywords)
    return run.regret(policy)[:, -1]


def told_the_difference(replications: int) -> Values:
    """By hand: rewards are told less the cost of the action, and nothing costs anything."""
    env, found = campaign(), []
    for replication in range(replications):
        agent, rng = (
            cb.Agent(campaign(None).problem, "c-ts(scales=given)", seed=replication),
            np.random.default_rng(replication),
        )
        lost = 0.0
        for _ in range(HORIZON):
            decision = agent.ask()
            seen = env.pull(decision.action, rng)
            agent.tell(decision.id, reward=seen.reward - env.problem.cost(decision.action), observed=seen.parents)
            lost += env.gap(decision.action)
        found.append(lost)
    return np.array(found)


def unpaced(total: float, replications: int) -> Values:
    """By hand: what is best, until the money is gone, and then what is free."""
    env = campaign()
    free = [do for do in env.problem.actions if not env.problem.cost(do)]
    best, found = BudgetedRegret(env, total / HORIZON).best, []
    for replication in range(replications):
        agent, rng = (
            cb.Agent(campaign(None).problem, "c-ts(prior=beta)", seed=replication),
            np.random.default_rng(replication),
        )
        left, brought = total, 0.0
        for _ in range(HORIZON):
            decision = agent.ask() if left > env.problem.costs.largest else agent.ask(eligible=free)
            seen = env.pull(decision.action, rng)
            agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
            left -= env.problem.cost(decision.action)
            brought += env.mean_reward(decision.action)
        found.append(HORIZON * best - brought)
    return np.array(found)


def main(replications: int = 40) -> None:
    few = max(2, replications // 4)
    rows: dict[str, Callable[[], Values]] = {
        "c-ts(prior=beta)": lambda: played("c-ts(prior=beta)", replications),
        "c-ts(scales=given)": lambda: played("c-ts(scales=given)", replications),
        "c-ts(scales=given), told reward less cost": lambda: told_the_difference(few),
        "c-ts(prior=beta) that ignores costs": lambda: played(
            "c-ts(prior=beta)", replications, believed=campaign(None).problem
        ),
        "ts(prior=beta)": lambda: played("ts(prior=beta)", replications),
    }
    print(f"Regret of reward less cost after {HORIZON} mails (standard error).\n")
    for name, regret in rows.items():
        print(f"{name:<44}{shown(regret())}")
    print("\nRegret against the best mixture for the money, which is:" + "".join(f"{total:>16}" for total in BUDGETS))
    paced: dict[str, Callable[[float], Values]] = {
        "c-ts(prior=beta), paced": lambda total: played("c-ts(prior=beta)", few, budget=total),
        "c-ts(prior=beta), until the money is gone": lambda total: unpaced(total, few),
        "ts(prior=beta), paced": lambda total: played("ts(prior=beta)", few, budget=total),
    }
    for name, under in paced.items():
        print(f"{name:<56}" + "".join(f"{shown(under(total)):>16}" for total in BUDGETS))
    print("\nWith segments, against the best that all of them together can do for the money:")
    p = segments().problem
    blind = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=PRICES, optional=True)
    shared: dict[str, Callable[[float], Values]] = {
        "c-ts(prior=beta), told the segment": lambda total: played("c-ts(prior=beta)", few, segments(), budget=total),
        "c-ts(prior=beta) that does not look": lambda total: played(
            "c-ts(prior=beta)", few, segments(), believed=blind, budget=total
        ),
        "ts(prior=beta), told the segment": lambda total: played("ts(prior=beta)", few, segments(), budget=total),
    }
    for name, under in shared.items():
        print(f"{name:<56}" + "".join(f"{shown(under(total)):>16}" for total in BUDGETS))


def shown(values: Values) -> str:
    return f"{values.mean():.1f} ({values.std(ddof=1) / np.sqrt(len(values)):.1f})"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
