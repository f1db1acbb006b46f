"""E-values for misspecification tests, valid under adaptive sampling and at every stopping time.

*A missing edge.* If actions affect the reward only through z, then given z and the past the action has the distribution
P(a | z), proportional to pi(a) P(z | a), independently of the reward; pi are the policy's propensities. So, for any
estimate q of the reward's distribution from past rounds,

    e = q(y | x, z) / sum over a' of P(a' | z) q(y | x', z),        x, x': the choices of a and a' for one variable

has mean 1, and a product of such e's is a martingale that starts at 1. There is one for every manipulable variable,
E_k. The combined test bets its whole capital in each round on the variables whose choice was random, in proportion to
the current E_k. This is a martingale, too, and does not wait for variables whose choice is never random.

*A wrong row of a CPT.* Its values are drawn from p. E is the Dirichlet-multinomial likelihood of the counts, averaged
over three prior weights of p, divided by p's own likelihood. A fitted row, Dirichlet(a), is compared with Dirichlet(1).
Again this is a martingale, and so is the product over all rows of 3/4 + E/4: the prior error probability is 1/4.

A martingale that starts at 1 ever reaches 1/alpha with probability at most `alpha` (Ville 1939); then there is an
alarm.

    q:  mean of z + effect of the choice in all z + its interaction with z; the first is shrunk towards the mean of all
        rewards by 10 pseudo-rewards, the others towards 0 by 5 and by 20
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

import numpy as np

from causalbandits._typing import Array, Codes

EFFECT_PSEUDO_COUNT = 5.0
"""The pseudo-rewards that shrink the effect of a choice in all strata towards 0."""

INTERACTION_PSEUDO_COUNT = 20.0
"""The pseudo-rewards that shrink the interaction of a choice with one stratum towards 0."""

STRATUM_PSEUDO_COUNT = 10.0
"""The pseudo-rewards that shrink the mean of a stratum towards the mean of all rewards."""

EFFECT_ITERATIONS = 3
"""The number of alternating estimates of the strata's means and the choices' effects."""

MIN_LIKELIHOOD = 1e-3
"""The smallest likelihood of an outcome, so that a single surprising reward does not cancel all evidence."""

ALTERNATIVE_WEIGHTS = (2.0, 20.0, 200.0)
"""The pseudo-counts by which the alternative distribution of a wrong row resembles the CPT."""

PRIOR_ERROR_PROBABILITY = 0.25
"""The prior probability that a row is wrong."""

LOG_E_OF_IMPOSSIBLE = math.log(1e300)
"""The log e-value of an observation that has probability 0 in the CPT."""


def choice_effects(counts: Array, sums: Array, total: Array, starts: Codes, initial: Array) -> Array:
    """The effect of each choice of each manipulable variable on the reward, common to all strata; iterated from
    `initial`.

    `counts` and `sums` are the numbers and sums of rewards by stratum and choice. The columns of the variables stand
    side by side and begin at `starts`. `total` are the strata's sums, including the pseudo-rewards that shrink their
    means.
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
    """The predicted mean reward of a choice in a stratum: `centre`, shrunk towards its mean so far."""
    return centre + (total - count * centre) / (count + INTERACTION_PSEUDO_COUNT)


def common_mean(count: float, total: float, *, is_binary: bool) -> float:
    """The mean of all rewards, towards which those of strata are shrunk; for binary rewards, the prior mean is
    1/2.
    """
    if is_binary:
        return (total + 0.5) / (count + 1.0)
    return total / count if count else 0.0


def bernoulli_likelihoods(means: list[float], reward: float) -> list[float]:
    """The likelihood of a success or a failure under each of these means."""
    lowest, highest = MIN_LIKELIHOOD, 1.0 - MIN_LIKELIHOOD
    probabilities = [lowest if mean < lowest else highest if mean > highest else mean for mean in means]
    return probabilities if reward == 1.0 else [1.0 - mean for mean in probabilities]


def normal_likelihoods(means: list[float], reward: float, variance: float) -> list[float]:
    """The likelihood of a number, up to a common factor, under normal distributions with these means; bounded
    below for outliers.
    """
    exponents = [(reward - mean) ** 2 / (-2.0 * variance) for mean in means]
    largest = max(exponents)
    return [max(math.exp(exponent - largest), MIN_LIKELIHOOD) for exponent in exponents]


def e_factor(likelihoods: list[float], weights: list[float], choice: int) -> float:
    """The factor e of a variable, from the likelihoods q of its choices, weights in proportion to P(x | z), and
    the choice made.
    """
    expected: float = sum(map(mul, likelihoods, weights)) / sum(weights)
    return likelihoods[choice] / expected


def log_betting_gain(log_stakes: list[float], factors: list[float]) -> float:
    """The increase of log E by a bet on several variables at once, with stakes in proportion to their e-values so far.

    >>> round(math.exp(log_betting_gain([0.0, math.log(3.0)], [2.0, 1.0])), 9)
    1.25
    """
    largest = max(log_stakes)
    stakes = [math.exp(log - largest) for log in log_stakes]
    return math.log(sum(map(mul, stakes, factors)) / sum(stakes))


def row_log_factors(alternatives: Sequence[tuple[float, float]], count: float, rows: float, null: float) -> list[float]:
    """The increase of a row's log E by one more value, for each alternative, given as pseudo-counts of the value and
    of the row.

    `count` and `rows` are the counts of the value and of its row so far; `null` is the probability under the model.
    """
    if null == 0.0:
        return [LOG_E_OF_IMPOSSIBLE] * len(alternatives)
    return [
        math.log((pseudo_count + count) / (pseudo_total + rows) / null) for pseudo_count, pseudo_total in alternatives
    ]


def log_mean_exp(logs: list[float]) -> float:
    """The logarithm of the mean of numbers that are given by their logarithms.

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
