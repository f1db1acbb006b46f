"""Write campaigns.csv, the data of the tutorial "from a CSV to decisions". python docs/tutorials/data/make_campaigns.py

The rows come from a known mechanism, so that answers can be compared with the truth, `true_means`. Two campaigns of a
mail-order shop: in "spring" a manager chose the offer, mostly a discount for customers whose last order was long ago;
in "autumn" offer, subject and hour were chosen at random. Customers with a recent order visit the shop more often.
"""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import numpy as np

OFFERS, SUBJECTS, HOURS = ("full price", "shipping", "discount"), ("plain", "personal"), ("morning", "evening")
ROWS = {"spring": 2400, "autumn": 1600}

MEAN_DAYS = 60.0
"""The days since the last order are exponentially distributed."""

RECENT, LAPSED = 30, 90
"""The edges, in days, between customers with a recent, a less recent and an old order."""

P_OPENED = {("plain", "morning"): 0.30, ("plain", "evening"): 0.38, ("personal", "morning"): 0.46}
P_OPENED["personal", "evening"] = 0.60

P_VISITED = {("no", 0): 0.30, ("no", 1): 0.10, ("no", 2): 0.03, ("yes", 0): 0.80, ("yes", 1): 0.50, ("yes", 2): 0.20}
"""By whether the mail was opened and the group of the days since the last order."""

P_BOUGHT = {("no", offer): 0.02 for offer in OFFERS}
P_BOUGHT |= {("yes", "full price"): 0.15, ("yes", "shipping"): 0.22, ("yes", "discount"): 0.34}

MISSING_DAYS, MISSING_VISITED = 0.06, 0.04
"""Shares of lost values, whatever the value was."""


def group_of(days: float) -> int:
    """0, 1 or 2: a recent, a less recent or an old order."""
    return int(days >= RECENT) + int(days >= LAPSED)


def true_means() -> dict[tuple[str, str, str], float]:
    """The probability of a purchase under each action: offer, subject, hour."""
    at_edges = [1.0, *(np.exp(-(edge - 0.5) / MEAN_DAYS) for edge in (RECENT, LAPSED)), 0.0]  # days are rounded
    groups = [before - after for before, after in itertools.pairwise(at_edges)]
    means = {}
    for offer, subject, hour in itertools.product(OFFERS, SUBJECTS, HOURS):
        opened = P_OPENED[subject, hour]
        visited = sum(
            share * (opened * P_VISITED["yes", group] + (1 - opened) * P_VISITED["no", group])
            for group, share in enumerate(groups)
        )
        means[offer, subject, hour] = visited * P_BOUGHT["yes", offer] + (1 - visited) * P_BOUGHT["no", offer]
    return means


def choose_offer(group: int, rng: np.random.Generator) -> str:
    """The manager's choice: discounts to win back customers with an old order."""
    shares = ([0.80, 0.16, 0.04], [0.25, 0.55, 0.20], [0.03, 0.12, 0.85])[group]
    return OFFERS[rng.choice(3, p=shares)]


def draw_rows(seed: int) -> list[dict[str, object]]:
    """The rows of both campaigns."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, object]] = []
    for campaign, n in ROWS.items():
        for _ in range(n):
            days = round(rng.exponential(MEAN_DAYS))
            group = group_of(days)
            if campaign == "autumn":
                offer, subject, hour = (str(rng.choice(values)) for values in (OFFERS, SUBJECTS, HOURS))
            else:
                offer = choose_offer(group, rng)
                subject, hour = str(rng.choice(SUBJECTS, p=[0.8, 0.2])), str(rng.choice(HOURS, p=[0.7, 0.3]))
            opened = "yes" if rng.random() < P_OPENED[subject, hour] else "no"
            visited = "yes" if rng.random() < P_VISITED[opened, group] else "no"
            bought = int(rng.random() < P_BOUGHT[visited, offer])
            rows.append(
                {
                    "customer": len(rows) + 10_001,
                    "campaign": campaign,
                    "days": "" if rng.random() < MISSING_DAYS else days,
                    "offer": offer,
                    "subject": subject,
                    "hour": hour,
                    "opened": opened,
                    "visited": "" if rng.random() < MISSING_VISITED else visited,
                    "bought": bought,
                    "randomised": "offer,subject,hour" if campaign == "autumn" else "",
                }
            )
    return rows


def write_csv(path: Path, seed: int = 1) -> None:
    """Write the rows."""
    rows = draw_rows(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    write_csv(Path(__file__).with_name("campaigns.csv"))
