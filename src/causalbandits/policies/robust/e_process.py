"""Is the model right? E-values, which hold however actions are chosen and whenever one looks.

*An arrow that is missing.* If the reward depends on what is done only through z, then given z and the past the action
is drawn from P(a | z), proportional to pi(a) P(z | a), whatever the reward turns out to be; pi are the policy's own
chances. So, for any guess q of the reward's law that is made of the past,

    e = q(y | x, z) / sum over a' of P(a' | z) q(y | x', z),        x, x': what a and a' do with one knob

has mean 1, and a product of such e's is a martingale that starts at 1. There is one for every knob, E_k. All that was
won by all of them is bet again, each time on those knobs that chance left open, in proportion to what each E_k is by
now: a martingale, too, which does not wait for knobs that are never left to chance.

*A row of a table that is wrong.* Its values are drawn from p. E is the Dirichlet-multinomial likelihood of what was
counted, averaged over three prior weights of p, divided by p's own; a row that was fitted, Dirichlet(a), is compared
with Dirichlet(1). Again a martingale, and so is the product over all rows of 3/4 + E/4: one row in four may be wrong.

A martingale that starts at 1 reaches 1/alpha with probability `alpha` at most, ever (Ville 1939): that is an alarm.

    q:  mean of z + what the knob's choice adds, over all z + what it adds in z; the first is drawn towards the mean of
        all rewards by 10 rewards, the others towards 0 by 5 and by 20
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

import numpy as np

from causalbandits._typing import Array, Codes

EFFECT_PSEUDO_COUNT = 5.0
"""What a choice adds in all strata is drawn towards nothing as if so many rewards had shown nothing."""

INTERACTION_PSEUDO_COUNT = 20.0
"""What it adds in one stratum besides is drawn towards nothing as if so many rewards had shown nothing."""

STRATUM_PSEUDO_COUNT = 10.0
"""A stratum's mean is drawn towards that of all rewards as if so many of its rewards had been like these."""

EFFECT_ITERATIONS = 3
"""So often the means of strata and what choices add are estimated in turn."""

MIN_LIKELIHOOD = 1e-3
"""No guess is surer than this: a single surprise would otherwise undo all evidence."""

ALTERNATIVE_WEIGHTS = (2.0, 20.0, 200.0)
"""How much a wrong row may still resemble the table's, in counts."""

PRIOR_ERROR_PROBABILITY = 0.25
"""The prior chance that a row is wrong."""

LOG_E_OF_IMPOSSIBLE = math.log(1e300)
"""What is seen although the table gives it probability 0 counts so much."""


def choice_effects(counts: Array, sums: Array, total: Array, starts: Codes, initial: Array) -> Array:
    """What each choice of each knob adds to the reward, in all strata alike: each knob by itself, from `so_far` on.

    `seen` and `paid` are counts and sums of rewards by stratum and choice, the knobs side by side, beginning at
    `starts`; `total` are the strata's sums, with what draws their means towards that of all rewards.
    """
    effects, count = (
        initial,
        np.add.reduce(counts[:, : starts[1] if len(starts) > 1 else None], axis=1) + STRATUM_PSEUDO_COUNT,
    )
    widths = np.diff(starts, append=counts.shape[1])
    choice_counts, choice_sums = np.add.reduce(counts) + EFFECT_PSEUDO_COUNT, np.add.reduce(sums)
    for _ in range(EFFECT_ITERATIONS):
        means = (total[:, None] - np.add.reduceat(counts * effects, starts, axis=1)) / count[:, None]
        effects = (choice_sums - np.add.reduce(counts * np.repeat(means, widths, axis=1))) / choice_counts
    return np.asarray(effects)


def predict_mean(centre: float, count: float, total: float) -> float:
    """What a choice is expected to bring in a stratum: `centre`, drawn to what it brought there so far."""
    return centre + (total - count * centre) / (count + INTERACTION_PSEUDO_COUNT)


def common_mean(count: float, total: float, *, coins: bool) -> float:
    """The mean of all rewards, towards which those of strata are drawn; a first coin is expected to be fair."""
    if coins:
        return (total + 0.5) / (count + 1.0)
    return total / count if count else 0.0


def bernoulli_likelihoods(means: list[float], reward: float) -> list[float]:
    """Of a success or a failure, for coins with these means."""
    lowest, highest = MIN_LIKELIHOOD, 1.0 - MIN_LIKELIHOOD
    probabilities = [lowest if mean < lowest else highest if mean > highest else mean for mean in means]
    return probabilities if reward == 1.0 else [1.0 - mean for mean in probabilities]


def normal_likelihoods(means: list[float], reward: float, variance: float) -> list[float]:
    """Of a number, up to a common factor, for normal variables with these means; an outlier is not believed in full."""
    exponents = [(reward - mean) ** 2 / (-2.0 * variance) for mean in means]
    largest = max(exponents)
    return [max(math.exp(exponent - largest), MIN_LIKELIHOOD) for exponent in exponents]


def e_factor(likelihoods: list[float], weights: list[float], choice: int) -> float:
    """The factor e of a knob: likelihoods q of its choices, weights in proportion to P(x | z), and which was made."""
    expected: float = sum(map(mul, likelihoods, weights)) / sum(weights)
    return likelihoods[choice] / expected


def log_betting_gain(log_stakes: list[float], factors: list[float]) -> float:
    """What a bet on several knobs at once adds to log E, if stakes are in proportion to what each has won so far.

    >>> round(math.exp(log_betting_gain([0.0, math.log(3.0)], [2.0, 1.0])), 9)
    1.25
    """
    largest = max(log_stakes)
    stakes = [math.exp(log - largest) for log in log_stakes]
    return math.log(sum(map(mul, stakes, factors)) / sum(stakes))


def row_log_factors(alternatives: Sequence[tuple[float, float]], count: float, rows: float, null: float) -> list[float]:
    """What one more value adds to log E of a row, for each alternative: its pseudo-counts of the value, and of all.

    So far it was `seen` in so many of its `rows`; `null` is its probability if the row is right.
    """
    if null == 0.0:
        return [LOG_E_OF_IMPOSSIBLE] * len(alternatives)
    return [
        math.log((pseudo_count + count) / (pseudo_total + rows) / null) for pseudo_count, pseudo_total in alternatives
    ]


def log_mean_exp(logs: list[float]) -> float:
    """The logarithm of the mean, given logarithms.

    >>> round(math.exp(log_mean_exp([math.log(1.0), math.log(5.0)])), 9)
    3.0
    """
    largest = max(logs)
    return largest + math.log(sum([math.exp(log - largest) for log in logs]) / len(logs))


def log_mixture_with_null(log_e: float) -> float:
    """The logarithm of 3/4 + E/4."""
    if log_e > 700.0:
        return log_e + math.log(PRIOR_ERROR_PROBABILITY)
    return math.log(1.0 - PRIOR_ERROR_PROBABILITY + PRIOR_ERROR_PROBABILITY * math.exp(log_e))
