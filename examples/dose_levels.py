"""Which dose helps most patients while severe side effects stay below 15 percent?

The script simulates a dose-finding study with five doses and two schedules. The limit is a chance constraint,
`max_probability=`: a dose is allowed only if all data so far make it 95% likely that the dose complies. The study is
updated after each cohort of 50 patients, so that higher doses are allowed as soon as data from lower doses support
them. A dose slightly above the limit can be allowed for a while. This is a simulation, not a design for a real trial.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import causalbandits as cb

OUT = Path("results")
COHORTS, COHORT_SIZE = 8, 50
LIMIT = 0.15
DOSES, SCHEDULES = [10, 20, 40, 60, 80], ["split", "once"]  # mg a day, in two doses or in one

# The truth of the simulation: exposure in the blood given dose and schedule, and what follows from it.
P_EXPOSURE = {
    10: [0.9, 0.1, 0.0],
    20: [0.6, 0.3, 0.1],
    40: [0.25, 0.6, 0.15],
    60: [0.1, 0.45, 0.45],
    80: [0, 0.25, 0.75],
}
P_RELIEF = {"low": 0.2, "medium": 0.55, "high": 0.7}
P_SEVERE = {"low": 0.01, "medium": 0.06, "high": 0.3}
SPLIT = 0.4  # a split dose turns so much of high exposure into medium exposure


ACTIONS = [{"dose": dose, "schedule": schedule} for dose in DOSES for schedule in SCHEDULES]


def label(action: dict) -> str:
    return f"{action['dose']} mg {action['schedule']}"


def exposure(action: dict) -> dict[str, float]:
    """P(exposure) for an action."""
    low, medium, high = P_EXPOSURE[action["dose"]]
    moved = SPLIT * high if action["schedule"] == "split" else 0.0
    return {"low": low, "medium": medium + moved, "high": high - moved}


def true_relief(action: dict) -> float:
    return sum(p * P_RELIEF[level] for level, p in exposure(action).items())


def true_severe(action: dict) -> float:
    return sum(p * P_SEVERE[level] for level, p in exposure(action).items())


def treat(action: dict, rng: np.random.Generator) -> tuple[int, dict[str, str]]:
    """A patient: relief (0 or 1), and everything else that the study observes."""
    chances = exposure(action)
    level = str(rng.choice([*chances], p=[*chances.values()]))
    severe = "yes" if rng.random() < P_SEVERE[level] else "no"
    return int(rng.random() < P_RELIEF[level]), {"exposure": level, "severe": severe}


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)

    # What is known before the study, as numbers of people: exposure was measured in 20 volunteers per dose and
    # schedule; severe side effects were rare at low and medium exposure, and nothing is known for high exposure.
    volunteers = [
        [[20 * p + 0.1 for p in exposure({"dose": dose, "schedule": schedule}).values()] for schedule in SCHEDULES]
        for dose in DOSES
    ]
    prior = {"exposure": volunteers, "severe": [[20, 1], [20, 1], [1, 1]]}
    values = {"dose": DOSES, "schedule": SCHEDULES, "exposure": ["low", "medium", "high"], "severe": ["no", "yes"]}

    print(f"Limit: P(severe) <= {LIMIT}")
    for action in ACTIONS:
        print(
            f"True probabilities, {label(action)}: relief {true_relief(action):.3f}, severe {true_severe(action):.3f}"
        )
    best = max((action for action in ACTIONS if true_severe(action) <= LIMIT), key=true_relief)
    print(f"True best dose within the limit: {label(best)}\n")

    # One cohort after the other: the allowed doses and the agent are made from all data so far.
    rows: dict[str, list] = {name: [] for name in [*values, "relief"]}
    treated = np.zeros((len(ACTIONS), COHORTS), dtype=int)
    allowed = np.zeros((len(ACTIONS), COHORTS), dtype=bool)
    for cohort in range(COHORTS):
        problem = cb.Problem(
            "dose, schedule -> exposure; exposure -> severe; exposure -> relief",
            reward="relief",
            manipulable={"dose": DOSES, "schedule": SCHEDULES},
            values=values,
            data={name: rows[name] for name in values} if cohort else None,
            prior=prior,
            max_probability={"severe": {"yes": LIMIT}},
        )
        allowed[[ACTIONS.index(dict(action)) for action in problem.actions], cohort] = True
        agent = cb.Agent(problem, "c-ts(prior=beta)", seed=100 * seed + cohort)
        if cohort:
            agent.learn(rows, reward="relief", trust_past=1.0)  # earlier cohorts were treated by the same protocol
        for _ in range(COHORT_SIZE):
            decision = agent.ask()
            relief, observed = treat(decision.action, rng)
            agent.tell(decision, reward=relief, observed=observed)
            treated[ACTIONS.index(decision.action), cohort] += 1
            for name, value in (decision.action | observed | {"relief": relief}).items():
                rows[name].append(value)
        names = [label(action) for action, may in zip(ACTIONS, allowed[:, cohort], strict=True) if may]
        print(f"Cohort {cohort + 1}, allowed: {', '.join(names)}")

    print(f"\nPatients: {treated.sum()}")
    print(f"Relief: {np.mean(rows['relief']):.3f}")
    print(f"Severe side effects: {np.mean([value == 'yes' for value in rows['severe']]):.3f}")
    print(agent.recommend())
    dose = dict(agent.recommend().intervention)
    print(f"True probabilities of this dose: relief {true_relief(dose):.3f}, severe {true_severe(dose):.3f}")

    # The plot: which doses were allowed in each cohort, and where patients were treated.
    figure, ax = plt.subplots(figsize=(7.5, 4.4), dpi=150, layout="constrained")
    ax.imshow(allowed, cmap=ListedColormap(["white", "#DCEBF5"]), vmin=0, vmax=1, aspect="auto", origin="lower")
    y, x = np.nonzero(treated)
    ax.scatter(x, y, s=7 * treated[y, x], color="#0072B2", zorder=2)
    for i, j in zip(y, x, strict=True):
        if treated[i, j] >= 10:
            ax.text(j, i, treated[i, j], color="white", ha="center", va="center", fontsize=8)
    names = [f"{label(action)}  ({true_severe(action):.0%})" for action in ACTIONS]
    ax.set_yticks(range(len(ACTIONS)), names)
    for tick, action in zip(ax.get_yticklabels(), ACTIONS, strict=True):
        tick.set_color("#B34700" if true_severe(action) > LIMIT else "black")
    ax.set_xticks(range(COHORTS), range(1, COHORTS + 1))
    ax.set_xlabel(f"cohort of {COHORT_SIZE} patients")
    ax.set_ylabel("dose (true probability of a severe side effect)")
    title = f"Shaded: allowed, P(severe) ≤ {LIMIT:.0%} with 95% probability. Circles: patients treated"
    ax.set_title(title, loc="left", fontsize=10)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)
    figure.savefig(OUT / "dose_levels.png")
    print(f"\nPlot: {OUT / 'dose_levels.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
