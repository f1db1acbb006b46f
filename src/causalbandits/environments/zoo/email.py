"""The e-mail campaign of Lu et al. (2020), and the same with customer segments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward
from causalbandits.errors import ProblemError
from causalbandits.model import CausalModel, Variable
from causalbandits.problem import Problem


def email_campaign() -> Environment:
    """The e-mail campaign of Lu et al. (2020), Figures 5 and 6.

    The manipulable variables are product, purpose and send time, all optional; the reward is a click.

    >>> env = email_campaign()
    >>> env.problem.actions.size, env.problem.configurations
    (80, 12)
    >>> env.best()
    Best(intervention=do(product=Photoshop, purpose=Promo, send_time=morning), mean=0.6222222222222222)

    Returns:
        The environment.
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
    problem = Problem(
        model,
        manipulable=["product", "purpose", "send_time"],
        reward_parents=["subject", "template", "send_time"],
        optional=True,
    )
    subject, template_, send_time = np.ix_([1, 2], [1, 2], [1, 2, 3])
    return Environment(problem, BernoulliReward(1 - (subject + template_ + send_time) / 9))


def email_segments(tastes: bool = False) -> Environment:
    """The e-mail campaign with a context: the customer's segment, of which there are three.

    >>> env = email_segments()
    >>> for segment in env.problem.model["segment"].states:
    ...     print(segment, env.best({"segment": segment}).intervention)
    new do(product=Photoshop, purpose=Promo, send_time=morning)
    regular do(product=Photoshop, purpose=Nurture, send_time=morning)
    lapsed do(product=Adobe Stock, purpose=Awareness, send_time=morning)

    Args:
        tastes: Whether the segment also affects the click directly; it is then one of the reward's parents.

    Returns:
        The environment.

    Raises:
        ProblemError: If `tastes` is not a boolean.
    """
    if not isinstance(tastes, bool):
        raise ProblemError(f"tastes must be True or False; got {tastes!r}.")
    knobs = [email_campaign().problem.model[name] for name in ("product", "purpose", "send_time")]
    short = np.array([[0.7, 0.3, 0.2], [0.7, 0.2, 0.4], [0.3, 0.9, 0.5], [0.3, 0.6, 0.8]])
    other_products = [[0.8, 0.5, 0.2], [0.9, 0.2, 0.3], [0.5, 0.8, 0.4], [0.2, 0.6, 0.5]]
    adobe_stock = [[0.6, 0.4, 0.5], [0.7, 0.3, 0.6], [0.6, 0.5, 0.7], [0.5, 0.5, 0.9]]
    first = np.array([other_products, other_products, adobe_stock])
    model = CausalModel(
        [
            Variable("segment", ["new", "regular", "lapsed"], table=[0.5, 0.3, 0.2]),
            *knobs,
            Variable("subject", ["short", "long"], parents=["purpose", "segment"], table=_binary_cpt_of_first(short)),
            Variable(
                "template", ["1", "2"], parents=["product", "purpose", "segment"], table=_binary_cpt_of_first(first)
            ),
        ]
    )
    parents = ["subject", "template", "send_time", *(["segment"] if tastes else [])]
    problem = Problem(
        model, manipulable=[v.name for v in knobs], reward_parents=parents, context=["segment"], optional=True
    )
    subject, template, send_time = np.ix_([1, 2], [1, 2], [1, 2, 3])
    clicks = 1 - (subject + template + send_time) / 9
    if tastes:  # regular customers prefer the other template, lapsed ones read in the evening
        clicks = np.stack([clicks, clicks[:, ::-1], clicks[:, :, ::-1]], axis=-1)
    return Environment(problem, BernoulliReward(clicks))


def _binary_cpt_of_first(first: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The probabilities of two states, given those of the first."""
    return np.stack([first, 1 - first], axis=-1)
