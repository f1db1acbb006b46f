"""The paper's worlds (Lu et al. 2020, Sections 4 and 5), each an Environment."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from causalbandits._random import Seed, random_generator
from causalbandits.errors import ProblemError, ProblemWarning
from causalbandits.model.model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.problem.problem import CausalBandit
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward, LinearReward

__all__ = ["email_campaign", "figure2", "lower_bound", "parallel", "random_parallel"]


def email_campaign() -> Environment:
    """The e-mail campaign of Figures 5 and 6: product, purpose and send time may be chosen; a click is the reward.

    >>> env = email_campaign()
    >>> env.problem.actions.size, env.problem.configurations
    (80, 12)
    >>> env.best()
    Best(intervention=do(product=Photoshop, purpose=Promo, send_time=morning), mean=0.6222222222222222)
    """
    adobe_stock = [0.6, 0.7, 0.6, 0.5]
    other_products = [0.8, 0.9, 0.5, 0.2]
    template = [[[p, 1 - p] for p in row] for row in (other_products, other_products, adobe_stock)]
    model = CausalModel(
        [
            Variable("product", ["Photoshop", "Acrobat XI Pro", "Adobe Stock"], table=[0.2, 0.2, 0.6]),
            Variable("purpose", ["Operational", "Promo", "Nurture", "Awareness"], table=[0.05, 0.6, 0.3, 0.05]),
            Variable("send_time", ["morning", "afternoon", "evening"], table=[0.5, 0.2, 0.3]),
            Variable(
                "subject",
                ["short", "long"],
                parents=["purpose"],
                table=[[p, 1 - p] for p in (0.7, 0.7, 0.3, 0.3)],
            ),
            Variable("template", ["1", "2"], parents=["product", "purpose"], table=template),
        ]
    )
    problem = CausalBandit(
        model, manipulable=["product", "purpose", "send_time"], parents=["subject", "template", "send_time"]
    )
    subject, template_, send_time = np.ix_([1, 2], [1, 2], [1, 2, 3])
    return Environment(problem, BernoulliReward(1 - (subject + template_ + send_time) / 9))


def parallel(
    px: Sequence[npt.ArrayLike], pw: Sequence[npt.ArrayLike], theta: npt.ArrayLike, sd: float = 0.1
) -> Environment:
    """The parallel model of Figure 1: pairs X_i -> W_i -> Y with W_i in {1, 2} and Y = <theta, W> + N(0, sd^2).

    `px[i]` is the distribution of X_i over 1..m, `pw[i][j]` the probability of W_i = 1 when X_i is its j-th value.
    """
    if not all(isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) for given in (px, pw)):
        raise ProblemError(f"px and pw must be lists with an entry per pair; got px={px!r}, pw={pw!r}.")
    if len(px) != len(pw) or len(px) == 0:
        raise ProblemError(f"px and pw need one entry per pair, and at least one; they have {len(px)} and {len(pw)}.")
    variables = []
    for i, (x, w) in enumerate(zip(px, pw, strict=True), start=1):
        try:
            ones = np.asarray(w, dtype=np.float64)
        except (TypeError, ValueError):
            raise ProblemError(f"pw must hold probabilities of W_i = 1; for pair {i} it is {w!r}.") from None
        values = list(range(1, np.size(x) + 1))
        variables.append(Variable(f"X{i}", values, table=x))
        variables.append(Variable(f"W{i}", [1, 2], parents=[f"X{i}"], table=np.stack([ones, 1 - ones], axis=-1)))
    names = range(1, len(px) + 1)
    problem = CausalBandit(
        CausalModel(variables), manipulable=[f"X{i}" for i in names], parents=[f"W{i}" for i in names]
    )
    return Environment(problem, LinearReward(theta, sd=sd))


def figure2() -> Environment:
    """The instance of Figure 2: four pairs, three values each, 256 actions, 16 configurations."""
    return parallel(
        px=[[0.3, 0.4, 0.3], [0.3, 0.3, 0.4], [0.5, 0.3, 0.2], [0.25, 0.25, 0.5]],
        pw=[[0.2, 0.5, 0.8], [0.3, 0.2, 0.8], [0.4, 0.6, 0.5], [0.3, 0.5, 0.6]],
        theta=[0.25, 0.25, -0.25, -0.25],
    )


def random_parallel(m: int, n: int, theta: npt.ArrayLike, rng: Seed = None) -> Environment:
    """A parallel model drawn as for Figures 3 and 4: P(X_i) ~ Dirichlet(1), P(W_i = 1 | X_i = j) ~ U[0, 1].

    >>> random_parallel(3, 5, theta=[1, 0, 0, 0, 0], rng=0).problem.actions.size
    1024
    """
    for name, value in (("m", m), ("n", n)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ProblemError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    generator = random_generator(rng)
    px = generator.dirichlet(np.ones(m), size=n)
    pw = generator.random((n, m))
    return parallel(list(px), list(pw), theta)


def lower_bound(N: int, delta: float, p1: float = 0.5) -> Environment:
    """Section 4's environment: X_1..X_N in {1, 2}, only X_1 matters, Y = delta X_1 + N(0, 1), 3^N actions.

    >>> lower_bound(14, delta=0.1).problem.actions.size
    4782969
    """
    if not isinstance(N, int | np.integer) or N < 1:
        raise ProblemError(f"N must be a whole number, 1 or more; got {N!r}.")
    if not (_is_number(p1) and 0 <= p1 <= 1 and _is_number(delta)):
        raise ProblemError(f"p1 must be a probability and delta a finite number; got p1={p1!r}, delta={delta!r}.")
    variables = [Variable(f"X{i}", [1, 2], table=[p1, 1 - p1] if i == 1 else [0.5, 0.5]) for i in range(1, int(N) + 1)]
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # that the others lead nowhere is the point
        problem = CausalBandit(CausalModel(variables), manipulable=[v.name for v in variables], parents=["X1"])
    return Environment(problem, LinearReward([delta], sd=1.0))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)
