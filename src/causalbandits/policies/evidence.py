"""Is the model right? E-values, which hold however actions are chosen and whenever one looks.

*An arrow that is missing.* If the reward depends on what is done only through z, then given z and the past the action
is drawn from P(a | z), proportional to pi(a) P(z | a), whatever the reward turns out to be; pi are the policy's own
chances. So, for any guess q of the reward's law that is made of the past,

    e = q(y | x, z) / sum over a' of P(a' | z) q(y | x', z),        x, x': what a and a' do with one knob

has mean 1, and a product of such e's is a martingale that starts at 1. There is one for every knob, E_k; their mean is
one, too.

*A row of a table that is wrong.* Its values are drawn from p. E is the Dirichlet-multinomial likelihood of what was
counted, averaged over three prior weights of p, divided by p's own; a row that was fitted, Dirichlet(a), is compared
with Dirichlet(1). Again a martingale, and so is the product over all rows of 3/4 + E/4: one row in four may be wrong.

A martingale that starts at 1 reaches 1/level with probability `level` at most, ever (Ville 1939): that is an alarm.

    q:  mean of z + what the knob's choice adds, over all z + what it adds in z; the first is drawn towards the mean of
        all rewards by 10 rewards, the others towards 0 by 20
"""

from __future__ import annotations

import math

import numpy as np

from causalbandits._types import Array, Codes

SHRINKAGE = 20.0
"""A guess is drawn towards "no difference" as if so many rewards had shown none."""

STEADINESS = 10.0
"""A stratum's mean is drawn towards that of all rewards as if so many of its rewards had been like these."""

SUREST_GUESS = 1e-3
"""No guess is surer than this: a single surprise would otherwise undo all evidence."""

WEIGHTS = (2.0, 20.0, 200.0)
"""How much a wrong row may still resemble the table's, in counts."""

SUSPICION = 0.25
"""The prior chance that a row is wrong."""

IMPOSSIBLE = math.log(1e300)
"""What is seen although the table gives it probability 0 counts so much."""


def guessed_means(mean: float, count: Array, total: Array, pooled: Array, rounds: Array) -> Array:
    """What is expected in one stratum, for every choice of every knob.

    `mean` is the stratum's; `count` and `total` are its rewards by choice; `pooled` is by how much the rewards of each
    choice exceeded what was expected in their strata, summed over all of these, and `rounds` how many they were.
    """
    around = mean + pooled / (rounds + SHRINKAGE)
    return np.asarray(around + (total - count * around) / (count + SHRINKAGE))


def steady_mean(count: float, total: float, all_count: float, all_total: float, *, coins: bool) -> float:
    """What is expected in a stratum, whatever is done; a first coin is expected to be fair."""
    if coins:
        common = (all_total + 0.5) / (all_count + 1.0)
    else:
        common = all_total / all_count if all_count else 0.0
    return (total + STEADINESS * common) / (count + STEADINESS)


def coin_likelihoods(means: Array, reward: float) -> Array:
    """Of a success or a failure, for coins with these means."""
    inside = np.minimum(np.maximum(means, SUREST_GUESS), 1.0 - SUREST_GUESS)
    return inside if reward == 1.0 else 1.0 - inside


def normal_likelihoods(means: Array, reward: float, variance: float) -> Array:
    """Of a number, up to a common factor, for normal variables with these means; an outlier is not believed in full."""
    exponents = (reward - means) ** 2 / (-2.0 * variance)
    return np.asarray(np.maximum(np.exp(exponents - exponents.max()), SUREST_GUESS))


def arrow_factors(likelihoods: Array, chances: Array, starts: Codes, chosen: Codes) -> Array:
    """The factor e of every knob.

    Likelihoods q and chances P(x | z) stand knob after knob, one for each choice; `starts` is where each knob begins
    and `chosen` where the choice is that was made.
    """
    expected = np.add.reduceat(likelihoods * chances, starts)
    return np.asarray(likelihoods[chosen] / expected)


def row_gain(own: float, whole: float, seen: float, rows: float, null: float) -> float:
    """What one more value adds to log E of a row whose alternative has pseudo-counts `own`, of `whole`, for this value.

    So far it was `seen` in so many of its `rows`; `null` is its probability if the row is right.
    """
    return IMPOSSIBLE if null == 0.0 else math.log((own + seen) / (whole + rows) / null)


def log_mean_exp(logs: list[float]) -> float:
    """The logarithm of the mean, given logarithms.

    >>> round(math.exp(log_mean_exp([math.log(1.0), math.log(5.0)])), 9)
    3.0
    """
    largest = max(logs)
    return largest + math.log(sum([math.exp(log - largest) for log in logs]) / len(logs))


def suspected(log_e: float) -> float:
    """The logarithm of 3/4 + E/4."""
    if log_e > 700.0:
        return log_e + math.log(SUSPICION)
    return math.log(1.0 - SUSPICION + SUSPICION * math.exp(log_e))
