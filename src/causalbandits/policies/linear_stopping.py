"""When to stop by a line: the rule of `policies.stopping` where the mean reward is linear in features x.

G = sum of x x', g = sum of x Y, theta_hat = G^-1 g (no ridge), S = sum of x (Y - <theta, x>). If rewards are
s-sub-Gaussian around the line, then, however actions are chosen,

    det(I + G/c)^(-1/2) exp(S'(G + c I)^-1 S / (2 s^2))

is a supermartingale that starts at 1 (Abbasi-Yadkori et al. 2011), and with probability 1 - delta, at all times, for k
values of c and for all directions d at once,

    |<d, theta_hat - theta>| <= s sqrt(2 beta_c d' G^-1 (G + c I) G^-1 d),
    beta_c = log(k/delta) + 1/2 log det(I + G/c).

With an indicator of each configuration for features it is that rule itself. How large theta is need not be known.
Directions in which nothing was seen are not known at all. c is counted in the largest |x|^2: units do not matter.

Where actions are made of the choices of blocks, which may be too many to be listed, it is enough to look at changes of
one block: if each loses more than its width, so do all combinations, by the triangle inequality. They share epsilon.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from causalbandits._types import Array
from causalbandits.policies.statistics import Regression
from causalbandits.policies.stopping import WIDTHS, doubts, risk_of

SEEN = 1e-9
"""A direction has been seen if its share of the largest sum of squares, or of the ridge, is above this: what is smaller
is what rounding leaves of nothing."""

SAME_FEATURES = 1e-13
"""Features that differ by a smaller share than this of the largest are the same."""


class SeenAlong(NamedTuple):
    """What was seen, along the principal directions of G: their sums of squares, and theta_hat; 0 where nothing was."""

    directions: Array
    """A column each."""
    squares: Array
    theta: Array


def seen_by(statistic: Regression, ridge: float, size: float) -> SeenAlong:
    """G and theta_hat from what a ridge regression keeps, in units of the largest length of x."""
    unit = size or 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        kept = statistic.R / unit
        whole, before = kept.T @ kept, ridge / unit / unit
    if not np.isfinite(whole).all():  # features so small that what is before the first reward is all there is
        return SeenAlong(np.eye(len(whole)), np.zeros(len(whole)), np.zeros(len(whole)))
    squares, directions = np.linalg.eigh(whole)
    squares = squares - before
    squares = np.where(squares > SEEN * max(before, float(squares.max())), squares, 0.0)
    along = (kept.T @ statistic.u) @ directions
    return SeenAlong(directions, squares, np.divide(along, squares, out=np.zeros(len(along)), where=squares > 0))


class Lead(NamedTuple):
    """How an action differs from its rivals: in features, a row each, and in what they cost more."""

    apart: Array
    saved: Array


def lead_of(row: Array, rows: Array, size: float, cost: float, costs: Array | None) -> Lead:
    """An action's lead over some, itself among them or not, in units of the largest length of x."""
    row, rows = row / (size or 1.0), rows / (size or 1.0)
    apart = row - rows
    largest = max(float(np.abs(rows).max(initial=0.0)), float(np.abs(row).max(initial=0.0)))
    return Lead(
        np.where(np.abs(apart) <= SAME_FEATURES * largest, 0.0, apart),
        np.zeros(len(rows)) if costs is None else costs - cost,
    )


def doubts_by_line(seen: SeenAlong, lead: Lead, epsilon: float, noise: float) -> list[Array]:
    """The logarithm of the least delta, for every rival, by each c."""
    along = lead.apart @ seen.directions
    known = seen.squares > 0
    lengths = np.sqrt((lead.apart**2).sum(axis=1))
    hidden = (np.abs(along) * ~known > SEEN * lengths[:, None]).any(axis=1)
    gaps, found = along @ seen.theta + lead.saved + epsilon, []
    for c in WIDTHS:
        spread = np.divide(seen.squares + c, seen.squares**2, out=np.zeros(len(known)), where=known)
        price = math.log(len(WIDTHS)) + 0.5 * float(np.log1p(seen.squares / c).sum())
        found.append(doubts(gaps, np.where(hidden, np.inf, along**2 @ spread), price, noise))
    return found


def risk_of_listed(seen: SeenAlong, lead: Lead, epsilon: float, noise: float) -> float:
    """The risk of an action whose lead over all others is given."""
    return risk_of(doubts_by_line(seen, lead, epsilon, noise))


def risk_by_block(seen: SeenAlong, leads: list[Lead], epsilon: float, noise: float) -> float:
    """The same where the leads are over actions that differ in one block: for combinations, one c must serve all."""
    each = [doubts_by_line(seen, lead, epsilon / len(leads), noise) for lead in leads]
    return risk_of([np.array([max(float(own[i].max()) for own in each)]) for i in range(len(WIDTHS))])
