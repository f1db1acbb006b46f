"""Index functions: upper confidence bounds and posterior samples, each algorithm's definition written once.

An index maps the statistic of a cell (its count and the sum of its rewards) to one number: an upper confidence bound,
or a posterior sample. It has two steps. The first maps the statistic to two numbers, `(p, count, total, exploration) ->
(centre, width)`, where `exploration` is log(1/delta). The second adds randomness, `(p, centre, width, noise) -> index`,
with `noise` drawn in advance. So a cell whose statistic has not changed needs the second step only. Parameters are
NamedTuples; `INDEX` maps their type to the two functions and the kind of noise. The posterior of a cell, `(p, count,
total) -> Belief`, serves rules that use more than one number per cell.

Both steps are elementwise: on arrays for the agent, on scalars in compiled rounds. For both to agree in every bit, only
+ - * / sqrt, minimum and maximum are used on arrays, and logarithms are taken one by one by `math.log` (NumPy's
vectorised log may differ from it in the last bit).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.policies.posteriors import empirical_beta, empirical_gaussian, main_effects

CentreAndWidth = tuple[Array, Array]


class Belief(NamedTuple):
    """The posterior of a cell: its mean reward, the variance of that mean, and the variance of a single reward.

    `variance` is the variance of the mean, `noise` the variance of one reward around the mean.
    """

    mean: Array
    variance: Array
    noise: Array


class UpperBound(NamedTuple):
    """The rewards of a cell are `noise_scale`-sub-Gaussian; the unknown means are of size `prior_scale`."""

    noise_scale: float
    prior_scale: float


def mean_and_bonus(p: UpperBound, count: Array, total: Array, exploration: float | Array) -> CentreAndWidth:
    """The mean, and scale sqrt(2 log(1/delta) / n); an unseen cell has mean 0, n = 1 and the prior scale."""
    n = np.maximum(1.0, count)
    bonus = np.sqrt(2.0 * exploration / n)
    if p.noise_scale != 1.0:
        bonus = p.noise_scale * bonus
    if p.prior_scale != p.noise_scale:
        unseen = n - count
        bonus = bonus * (1.0 + unseen * (p.prior_scale / p.noise_scale - 1.0))
    return total / n, bonus


def upper_bound(p: UpperBound, centre: Array, width: Array, noise: Any) -> Array:
    """Mean + bonus."""
    return centre + width


class Gaussian(NamedTuple):
    """Means ~ N(0, prior_scale^2), rewards ~ N(mean, noise_scale^2)."""

    noise_scale: float
    prior_scale: float


def gaussian_posterior(p: Gaussian, count: Array, total: Array, exploration: float | Array) -> CentreAndWidth:
    """The posterior mean and standard deviation; the prior counts as (s/tau)^2 rewards of 0."""
    n = p.noise_scale * p.noise_scale / (p.prior_scale * p.prior_scale) + count
    return total / n, p.noise_scale / np.sqrt(n)


def gaussian_belief(p: Gaussian, count: Array, total: Array) -> Belief:
    """The posterior as a `Belief`, with known reward noise."""
    noise_variance = p.noise_scale * p.noise_scale
    n = noise_variance / (p.prior_scale * p.prior_scale) + count
    return Belief(total / n, noise_variance / n, noise_variance + 0.0 * n)


def gaussian_draw(p: Gaussian, centre: Array, width: Array, noise: Array) -> Array:
    """A posterior sample from a standard normal one."""
    return centre + width * noise


class Beta(NamedTuple):
    """Means ~ Beta(successes, failures) before any reward; rewards are 0 or 1. Arrays have an entry per cell."""

    successes: float | Array = 1.0
    failures: float | Array = 1.0


def beta_at_cell(p: Beta, cell: int) -> Beta:
    """The prior of one cell, for priors given per cell."""
    return Beta(p.successes[cell], p.failures[cell])  # type: ignore[index]


def beta_shapes(
    p: Beta | empirical_beta.EmpiricalBeta, count: Array, total: Array, exploration: float | Array
) -> CentreAndWidth:
    """The two parameters of the posterior."""
    return p.successes + total, p.failures + (count - total)


def beta_belief(p: Beta | empirical_beta.EmpiricalBeta, count: Array, total: Array) -> Belief:
    """The posterior mean x and its variance; a Bernoulli reward has total variance x (1 - x), which includes the
    mean's variance.
    """
    n = p.successes + p.failures + count
    mean = (p.successes + total) / n
    total_variance = mean * (1.0 - mean)
    variance = total_variance / (n + 1.0)
    return Belief(mean, variance, total_variance - variance)


def beta_draw(p: Beta | empirical_beta.EmpiricalBeta, centre: Array, width: Array, noise: Array) -> Array:
    """The noise itself, because a Beta variable is not a shifted and scaled standard one."""
    return noise


def empirical_gaussian_belief(p: empirical_gaussian.EmpiricalGaussian, count: Array, total: Array) -> Belief:
    """The posterior with estimated scales; until they are estimated, all means are equal and rewards have variance
    1.
    """
    r = p.noise / p.spread
    n = count + r
    return Belief((p.known * total + r * p.centre) / n, p.noise / n, p.noise + 0.0 * n)


def main_effects_belief(p: main_effects.MainEffects, count: Array, total: Array) -> Belief:
    """The marginal posterior of each cell with main effects."""
    mean, variance = main_effects.mean_and_variance(p, count, total)
    return Belief(mean, variance, p.noise + 0.0 * variance)


class UniformDraw(NamedTuple):
    """An index that ignores the statistic; the scales are those of the rewards and serve only the interval."""

    noise_scale: float
    prior_scale: float


def ignore_statistic(p: UniformDraw, count: Array, total: Array, exploration: float | Array) -> CentreAndWidth:
    """Zeros, because the index does not depend on the statistic."""
    return 0.0 * count, 0.0 * total


def uniform_draw(p: UniformDraw, centre: Array, width: Array, noise: Array) -> Array:
    """A number from [0, 1), independent of the statistic."""
    return noise


class KLUpperBound(NamedTuple):
    """Rewards lie in [0, 1]."""

    tolerance: float = 1e-14


def kl_bound(p: KLUpperBound, count: Array, total: Array, exploration: float) -> CentreAndWidth:
    """The largest q with n kl(mean, q) <= log(1/delta); 1 without rewards."""
    cells = zip(count.tolist(), total.tolist(), strict=True)
    return np.array([_kl_bound_cached(p, n, s, exploration) for n, s in cells]), 0.0 * count


def kl_bound_of_cell(p: KLUpperBound, count: float, total: float, exploration: float) -> tuple[float, float]:
    """The bound of one cell, by bisection."""
    if count == 0.0:
        return 1.0, 0.0
    mean = min(max(total / count, 0.0), 1.0)
    level = exploration / count
    low, high = mean, min(1.0, mean + math.sqrt(level / 2.0))
    while high - low > p.tolerance:
        middle = (low + high) / 2.0
        if bernoulli_divergence(mean, middle) > level:
            high = middle
        else:
            low = middle
    return high, 0.0


def kl_upper_bound(p: KLUpperBound, centre: Array, width: Array, noise: Any) -> Array:
    """The upper confidence bound itself."""
    return centre


@lru_cache(maxsize=2**16)
def _kl_bound_cached(p: KLUpperBound, count: float, total: float, exploration: float) -> float:
    return kl_bound_of_cell(p, count, total, exploration)[0]


def bernoulli_divergence(p: float, q: float) -> float:
    """kl(p, q) of two Bernoulli distributions, for p <= q.

    >>> round(bernoulli_divergence(0.5, 0.75), 4)
    0.1438
    """
    if q >= 1.0:
        return 0.0 if p >= 1.0 else math.inf
    divergence = 0.0
    if p > 0.0:
        divergence += p * math.log(p / q)
    if p < 1.0:
        divergence += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return divergence


IndexParameters = (
    UpperBound
    | Gaussian
    | Beta
    | empirical_beta.EmpiricalBeta
    | KLUpperBound
    | UniformDraw
    | empirical_gaussian.EmpiricalScales
    | main_effects.MainEffects
)

Noise = Literal["none", "normal", "beta", "uniform"]


class Index(NamedTuple):
    """An index: its two steps and the kind of noise that the second uses.

    `of_cell` is the first step for a single cell, if it differs from `prepare`; compiled code works cell by cell.
    `at_cell` gives a cell's own parameters, if they may be arrays. `belief` is present if the index is a posterior
    sample. `renew` estimates the parameters from the statistic, `(p, statistic) -> p`. `vary` samples the parameters
    that all cells of one posterior sample share, `(p, rng) -> p`.
    """

    prepare: Callable[..., CentreAndWidth]
    combine: Callable[..., Array]
    noise: Noise = "none"
    of_cell: Callable[..., tuple[float, float]] | None = None
    at_cell: Callable[..., Any] | None = None
    belief: Callable[..., Belief] | None = None
    renew: Callable[..., Any] | None = None
    vary: Callable[..., Any] | None = None


INDEX: dict[type, Index] = {
    UpperBound: Index(mean_and_bonus, upper_bound),
    Gaussian: Index(gaussian_posterior, gaussian_draw, "normal", belief=gaussian_belief),
    Beta: Index(beta_shapes, beta_draw, "beta", at_cell=beta_at_cell, belief=beta_belief),
    empirical_beta.EmpiricalBeta: Index(
        beta_shapes, beta_draw, "beta", belief=beta_belief, renew=empirical_beta.estimate_beta_jit
    ),
    KLUpperBound: Index(kl_bound, kl_upper_bound, of_cell=kl_bound_of_cell),
    UniformDraw: Index(ignore_statistic, uniform_draw, "uniform"),
    empirical_gaussian.EmpiricalUpperBound: Index(
        empirical_gaussian.empirical_mean_and_bonus,
        empirical_gaussian.empirical_upper_bound,
        renew=empirical_gaussian.estimate_empirical_upper_bound_jit,
    ),
    empirical_gaussian.EmpiricalGaussian: Index(
        empirical_gaussian.empirical_gaussian_posterior,
        empirical_gaussian.empirical_gaussian_draw,
        "normal",
        belief=empirical_gaussian_belief,
        renew=empirical_gaussian.estimate_empirical_gaussian_jit,
        vary=empirical_gaussian.sample_empirical_gaussian,
    ),
    main_effects.MainEffects: Index(
        main_effects.remainder_posterior,
        main_effects.main_effects_draw,
        "normal",
        at_cell=main_effects.main_effects_at_cells,
        belief=main_effects_belief,
        renew=main_effects.posterior_main_effects_jit,
        vary=main_effects.sample_main_effects,
    ),
    main_effects.MainEffectsArrays: Index(
        main_effects.remainder_posterior,
        main_effects.main_effects_draw,
        "normal",
        at_cell=main_effects.main_effects_at_cell,
        vary=main_effects.sample_main_effects_jit,
    ),
    main_effects.MainEffectsOfCell: Index(main_effects.remainder_posterior, main_effects.main_effects_draw, "normal"),
}


def parameters_at_cells(p: IndexParameters, cells: Any) -> IndexParameters:
    """The parameters of the index for some cells; unchanged unless each cell has its own."""
    if not any(isinstance(part, np.ndarray) for part in p):
        return p
    select = INDEX[type(p)].at_cell
    assert select is not None
    return select(p, cells)  # type: ignore[no-any-return]


class Sampler(NamedTuple):
    """The generator of noise: for several cells in their order, and compiled for each cell alone, with the same
    numbers.
    """

    of_cells: Callable[[np.random.Generator, Array, Array, tuple[int, ...]], Any]
    of_cell: Callable[..., float]


SAMPLERS: dict[Noise, Sampler] = {
    "none": Sampler(
        lambda rng, centre, width, shape: None,
        lambda p, centre, width, rng: 0.0,
    ),
    "normal": Sampler(
        lambda rng, centre, width, shape: rng.standard_normal(shape),
        lambda p, centre, width, rng: rng.standard_normal(),
    ),
    "beta": Sampler(
        lambda rng, centre, width, shape: rng.beta(centre, width, shape),
        lambda p, centre, width, rng: rng.beta(centre, width),
    ),
    "uniform": Sampler(
        lambda rng, centre, width, shape: rng.random(shape),
        lambda p, centre, width, rng: rng.random(),
    ),
}


def perturb(centre: Any, scale: float, noise: Any) -> Any:
    """CL-TS: the regression's rotated sums plus noise; `_qr.back_substitute` turns them into a sample of theta."""
    return centre + scale * noise


def upper_confidence_bound(mean: Any, radius: float, squared_norm: Any) -> Any:
    """CL-UCB: the mean of an action under the most favourable theta of the ellipsoid."""
    return mean + radius * np.sqrt(squared_norm)
