"""Environments that change over time: the e-mail campaign, and the arms of Besson et al. (2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from causalbandits._random import Seed, random_generator
from causalbandits._typing import Array, is_integer
from causalbandits.environments.changing import ChangingEnvironment
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward
from causalbandits.environments.zoo.email import email_campaign
from causalbandits.errors import ProblemError, short_repr, unknown_name_message
from causalbandits.model import CausalModel, Variable
from causalbandits.problem import Problem

REDRAWN = ("subject", "template", "click", "subject")
"""The mechanisms that are redrawn in turn."""

WANDERING_SEGMENTS = 100
"""The number of environments of a campaign whose click rates are random walks."""

WANDERING_SD = 0.035
"""The standard deviation of a step of a click rate, from one of these environments to the next."""

LOWEST_RATE, HIGHEST_RATE = 0.02, 0.98
"""The click rates at which a random walk is reflected."""

RAISED_CELL, RAISED_RATE = (1, 1, 2), 0.95
"""The configuration whose click rate rises (subject long, template 2, evening; the lowest of all), and its new rate."""


class Campaign:
    """The e-mail campaign in which every manipulable variable is set, with CPTs and click rates that can be changed."""

    def __init__(self, problem: Problem, rates: Array) -> None:
        self.problem, self.rates = problem, rates

    @classmethod
    def unchanged(cls) -> Campaign:
        """The campaign of Lu et al. (2020), with 36 actions."""
        env = email_campaign()
        problem = Problem(env.problem.model, manipulable=env.problem.manipulable, reward_parents=env.problem.parents)
        return cls(problem, env.configuration_means.reshape(problem.shape))

    def with_cpt(self, name: str, table: Array) -> Campaign:
        """The campaign with another CPT of one variable."""
        model = self.problem.model
        changed = Variable(name, model[name].states, parents=model[name].parents, table=table)
        variables = [changed if other == name else model[other] for other in model.order]
        return Campaign(self.problem.with_model(CausalModel(variables)), self.rates)

    def with_rates(self, rates: Array) -> Campaign:
        """The campaign with other click rates, by subject, template and send time."""
        return Campaign(self.problem, rates)

    def environment(self) -> Environment:
        """The environment of this campaign."""
        return Environment(self.problem, BernoulliReward(self.rates))


Changes = Callable[[Campaign, np.random.Generator], Iterator[Campaign]]
"""The later campaigns, given the first."""


def _keep(campaign: Campaign, rng: np.random.Generator) -> Iterator[Campaign]:
    return iter(())


def _reverse_subject(campaign: Campaign, rng: np.random.Generator) -> Iterator[Campaign]:
    yield campaign.with_cpt("subject", campaign.problem.model["subject"].table[..., ::-1])


def _reverse_template(campaign: Campaign, rng: np.random.Generator) -> Iterator[Campaign]:
    yield campaign.with_cpt("template", campaign.problem.model["template"].table[..., ::-1])


def _reverse_send_times(campaign: Campaign, rng: np.random.Generator) -> Iterator[Campaign]:
    yield campaign.with_rates(campaign.rates[..., ::-1])


def _raise_one_cell(campaign: Campaign, rng: np.random.Generator) -> Iterator[Campaign]:
    rates = campaign.rates.copy()
    rates[RAISED_CELL] = RAISED_RATE
    yield campaign.with_rates(rates)


def _redraw_mechanisms(campaign: Campaign, rng: np.random.Generator) -> Iterator[Campaign]:
    for name in REDRAWN:
        if name == "click":
            campaign = campaign.with_rates(rng.random(campaign.rates.shape))
        else:
            *rows, states = campaign.problem.model[name].table.shape
            campaign = campaign.with_cpt(name, rng.dirichlet(np.ones(states), size=rows))
        yield campaign


def _wander(campaign: Campaign, rng: np.random.Generator) -> Iterator[Campaign]:
    for _ in range(WANDERING_SEGMENTS - 1):
        campaign = campaign.with_rates(reflect(campaign.rates + rng.normal(0.0, WANDERING_SD, campaign.rates.shape)))
        yield campaign


def reflect(rates: Array) -> Array:
    """Move a rate beyond one of the limits to the same distance on the other side of the limit."""
    width = HIGHEST_RATE - LOWEST_RATE
    return LOWEST_RATE + width - np.abs((rates - LOWEST_RATE) % (2 * width) - width)


CHANGES: dict[str, Changes] = {
    "none": _keep,
    "subject": _reverse_subject,
    "template": _reverse_template,
    "evening": _reverse_send_times,
    "several": _redraw_mechanisms,
    "one cell": _raise_one_cell,
    "wandering": _wander,
}


def email_changes(change: str, rng: Seed = None, *, horizon: int = 5000) -> ChangingEnvironment:
    """The e-mail campaign of Lu et al. (2020) with mechanisms that change over time.

    Product, purpose and send time are set in every decision: 36 actions. With the default horizon, the changes are:

    - "none": nothing changes.
    - "subject": after 2,500 rounds, the probabilities of the two subjects are exchanged in each row of the CPT.
    - "template": after 2,500 rounds, the probabilities of the two templates are exchanged in each row of the CPT.
    - "evening": after 2,500 rounds, morning and evening exchange their click rates.
    - "several": one mechanism is drawn anew (uniformly) after each 1,000 rounds: the CPT of subject, that of template,
      the click rates, and the CPT of subject again.
    - "one cell": after 2,500 rounds, the click rate of one configuration rises from 0.22 to 0.95: a long subject with
      template 2 in the evening. The best action before the change sends in the morning and never reaches it; the best
      action after the change aims at it.
    - "wandering": all click rates are random walks. They take a normal step with a standard deviation of 0.035 after
      each 50 rounds, and are reflected at 0.02 and 0.98.

    Only "several" and "wandering" are random. For a new draw in each replication, pass a function to `simulate`:
    `simulate(lambda rng: zoo.email_changes("wandering", rng), ...)`.

    >>> env = email_changes("evening")
    >>> for decision in (2500, 2501):
    ...     print(env.at(decision).best().intervention)
    do(product=Photoshop, purpose=Promo, send_time=morning)
    do(product=Photoshop, purpose=Promo, send_time=evening)

    Args:
        change: The kind of change: "none", "subject", "template", "evening", "several", "one cell" or "wandering".
        rng: The seed or generator. Default: a random seed.
        horizon: The number of rounds that the environments share in equal parts; of 1 environment for "none", 5 for
            "several", 100 for "wandering" and 2 otherwise.

    Returns:
        The environment.

    Raises:
        ProblemError: If the kind is unknown, or the horizon is not a number of rounds that suffices for the changes.
    """
    if not isinstance(change, str) or change not in CHANGES:
        raise ProblemError(unknown_name_message("change", change, CHANGES))
    first = Campaign.unchanged()
    later = CHANGES[change](first, random_generator(rng))
    return _share_rounds([campaign.environment() for campaign in (first, *later)], horizon)


ARM_MEANS = {
    1: [(0.9, 0.5, 0.3), (0.9, 0.2, 0.3), (0.1, 0.2, 0.3), (0.1, 0.7, 0.3), (0.1, 0.7, 0.5)],
    2: [(0.9, 0.5, 0.4), (0.7, 0.4, 0.5), (0.5, 0.3, 0.6), (0.3, 0.2, 0.7), (0.1, 0.1, 0.8)],
}
"""The mean reward of each arm in each part, by problem; as in the code of the paper's experiments,
https://github.com/EmilieKaufmann/PiecewiseStationaryBandits (Benchmarks.jl)."""


def changing_arms(number: int, *, horizon: int = 5000) -> ChangingEnvironment:
    """Three independent arms whose means change four times: Problems 1 and 2 of Besson et al. (2020).

    Rewards are 0 or 1. In Problem 1, one arm changes at a time; in Problem 2, all three change together. The arm is the
    reward's only parent, so a policy with the graph has no advantage over one without it. The paper is "Efficient
    Change-Point Detection for Tackling Piecewise-Stationary Bandits" by Besson, Kaufmann, Maillard and Seznec.

    >>> env = changing_arms(1)
    >>> [env.at(decision).means.tolist() for decision in (1000, 1001)]
    [[0.9, 0.5, 0.3], [0.9, 0.2, 0.3]]

    Args:
        number: The number of the problem: 1 or 2.
        horizon: The number of rounds that the five environments share in equal parts.

    Returns:
        The environment.

    Raises:
        ProblemError: If the number is neither 1 nor 2, or the horizon is not a number of rounds of at least 5.
    """
    if not is_integer(number) or number not in ARM_MEANS:
        raise ProblemError(f"The paper's problems with three arms have the numbers 1 and 2; got {short_repr(number)}.")
    arms = CausalModel([Variable("arm", [1, 2, 3], table=[1 / 3] * 3)])
    problem = Problem(arms, manipulable=["arm"], reward_parents=["arm"])
    return _share_rounds([Environment(problem, BernoulliReward(means)) for means in ARM_MEANS[int(number)]], horizon)


def _share_rounds(environments: Sequence[Environment], horizon: int) -> ChangingEnvironment:
    """The environments one after the other, with equal numbers of rounds."""
    parts = len(environments)
    if not is_integer(horizon) or horizon < parts:
        raise ProblemError(
            f"horizon must be a whole number of rounds, {parts} or more for {parts} environments; got "
            f"{short_repr(horizon)}."
        )
    starts = [int(horizon) * part // parts + 1 for part in range(parts)]
    return ChangingEnvironment(environments[0], dict(zip(starts[1:], environments[1:], strict=True)))
