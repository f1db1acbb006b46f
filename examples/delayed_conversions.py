"""How do I learn from conversions that arrive hours later, or never?

With a study that has an attribution window. A visitor without a conversion counts as a failure 24 hours after the
decision. Conversions count at that time, too, so that successes and failures arrive together. The script runs three
simulated days. The plot shows the error of the study's conversion rate, and that of the plain ratio of conversions to
visitors so far. The plain ratio is too low on average while conversions are on their way.
"""

import argparse
import heapq
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import causalbandits as cb

OUT = Path("results")
HOUR, HOURS, PER_HOUR = 3600.0, 72, 50
WINDOW = 24 * HOUR
MEAN_DELAY = 6 * HOUR


def conversion_rate(subject: str, landing_page: str) -> float:
    """The truth of the simulation: the share of visitors who convert sooner or later."""
    return {("plain", "short"): 0.12, ("plain", "long"): 0.22, ("personal", "short"): 0.38, ("personal", "long"): 0.3}[
        subject, landing_page
    ]


def world() -> cb.Environment:
    """The simulated campaign: the offer and the send time lead to a subject line, the landing page is set directly."""
    model = cb.CausalModel(
        [
            cb.Variable("offer", ["discount", "trial", "none"], table=[0.3, 0.3, 0.4]),
            cb.Variable("tone", ["formal", "casual"], table=[0.5, 0.5]),
            cb.Variable("landing_page", ["short", "long"], table=[0.5, 0.5]),
            cb.Variable(
                "subject",
                ["plain", "personal"],
                parents=["offer", "tone"],
                table=[[[0.5, 0.5], [0.3, 0.7]], [[0.6, 0.4], [0.1, 0.9]], [[0.9, 0.1], [0.6, 0.4]]],
            ),
        ]
    )
    problem = cb.Problem(
        model, manipulable=["offer", "tone", "landing_page"], reward_parents=["subject", "landing_page"]
    )
    return cb.Environment(problem, cb.rewards.BernoulliReward(conversion_rate))


def main(seed: int) -> None:
    OUT.mkdir(exist_ok=True)
    env, rng = world(), np.random.default_rng(seed)
    print(f"True best action: {env.best().intervention}, conversion rate {env.best().mean:.3f}")
    print(f"True mean over all actions: {env.means.mean():.3f}")

    # A study in a database file. The clock of this example is simulated; yours is the computer's.
    now = [0.0]
    folder = tempfile.TemporaryDirectory()
    study = cb.Study.create(
        Path(folder.name) / "campaign.db",
        env.problem,
        "c-ts(prior=beta, samples=32)",
        seed=seed,
        attribution_window=WINDOW,
        default_reward=0,
        hold_until_window=True,  # a conversion counts when its window has passed, as a missing one does
        clock=lambda: now[0],
    )

    arriving: list[tuple[float, str]] = []  # conversions on their way: time, decision
    true_rates: list[float] = []
    statuses, errors = [], []
    conversions = 0
    with study:
        for hour in range(HOURS + 24):
            with study.together():  # one transaction for an hour
                for minute in np.linspace(0, HOUR, PER_HOUR, endpoint=False):
                    now[0] = hour * HOUR + minute
                    while arriving and arriving[0][0] <= now[0]:
                        study.tell(heapq.heappop(arriving)[1], reward=1)
                        conversions += 1
                    if hour >= HOURS:
                        continue  # the campaign is over; conversions still arrive
                    decision = study.ask()
                    seen = env.pull(decision.action, rng)
                    study.tell(decision.id, reward=None, observed=seen.parents)  # the reward is not known yet
                    true_rates.append(env.mean_reward(decision.action))
                    if seen.reward:
                        heapq.heappush(arriving, (now[0] + rng.exponential(MEAN_DELAY), decision.id))
            study.expire()  # a scheduled job: closes the windows that have passed
            report = study.report()
            number = report.decisions
            statuses.append([number["expired"], number["told"], number["held"], number["open"]])
            closed = number["expired"] + number["told"]  # the decisions whose windows have passed, the first ones
            plain, mean = conversions / len(true_rates), report.outcomes.mean
            errors.append(
                [
                    100 * (plain - np.mean(true_rates)),
                    np.nan if mean is None else 100 * (mean - np.mean(true_rates[:closed])),
                ]
            )
            if (hour + 1) % 24 == 0:
                print(f"\nHour: {hour + 1}")
                print(f"Decisions: {sum(number.values())}, of which open {number['open']}, held {number['held']}")
                print(f"Conversions so far per decision: {plain:.3f}, true rate {np.mean(true_rates):.3f}")
                if mean is not None:
                    true = np.mean(true_rates[:closed])
                    print(f"Study, decisions older than 24 hours: {mean:.3f}, true rate {true:.3f}")
        recommendation = study.recommend()
        print(f"\n{recommendation}")
        print(f"True conversion rate of this action: {env.mean_reward(recommendation.intervention):.3f}")
    folder.cleanup()

    # The plot: the state of all decisions, and three conversion rates.
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.9), dpi=150, layout="constrained")
    hours = np.arange(1, HOURS + 25)
    labels = ["no conversion in 24 hours", "conversion, counted", "conversion, held until the window closes", "open"]
    colours = ["#7F8C99", "#009E73", "#8FD3BE", "#E3E7EB"]
    left.stackplot(hours, np.transpose(statuses), labels=labels, colors=colours)
    handles, names = left.get_legend_handles_labels()
    left.legend(handles[::-1], names[::-1], frameon=False, loc="upper left", fontsize=8.5)
    left.set(xlabel="hour", ylabel="decisions", xlim=(1, HOURS + 24), ylim=(0, 1.25 * HOURS * PER_HOUR))
    left.set_title("Decisions by status", loc="left", fontsize=11)
    plain, counted = np.transpose(errors)
    right.axhline(0, color="black", linewidth=1)
    right.plot(hours, plain, color="#D55E00", linewidth=2, label="conversions so far per decision")
    right.plot(hours, counted, color="#0072B2", linewidth=2, label="study, decisions older than 24 hours")
    right.set(xlabel="hour", ylabel="estimated minus true rate (percentage points)", xlim=(1, HOURS + 24))
    right.set_title("Error of the conversion rate", loc="left", fontsize=11)
    right.legend(frameon=False, loc="lower right", fontsize=8.5)
    for ax in (left, right):
        ax.set_xticks(range(0, HOURS + 25, 24))
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(OUT / "delayed_conversions.png")
    print(f"\nPlot: {OUT / 'delayed_conversions.png'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of all random numbers")
    main(parser.parse_args().seed)
