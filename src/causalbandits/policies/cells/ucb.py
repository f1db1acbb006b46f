"""UCB, C-UCB and their KL forms: optimism per action, or per configuration of the reward's parents.

UCB, C-UCB (Lu et al. 2020, Algorithm 1)
    UCB_z = mean_z + sqrt(2 log(1/delta) / max(1, n_z)),  delta = 1/T^2
KL-UCB, C-KL-UCB, for rewards in [0, 1] (Garivier and Cappé 2011)
    UCB_z = max {q : n_z kl(mean_z, q) <= log T},  1 without rewards
play argmax_a sum_z P(z | a) UCB_z
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.cells.policy import CellPolicy
from causalbandits.policies.posteriors import (
    EmpiricalUpperBound,
    IndexParameters,
    KLUpperBound,
    UpperBound,
    estimate_scales,
    refuse_fixed_scales,
)
from causalbandits.policies.statistics import Cells, PooledCells
from causalbandits.policies.traits import Traits
from causalbandits.policies.validation import validate_one_of, validate_positive
from causalbandits.problem import Problem


@dataclass(frozen=True, kw_only=True, repr=False)
class OptimisticPolicy(HorizonPolicy[Cells], CellPolicy):
    """The index of UCB and C-UCB. `noise_scale` is the sub-Gaussian scale of the reward given the cell; `prior_scale`
    is the size of the unknown means, the bonus of an unseen cell. Both default to 1, because confidence bounds need a
    declared scale. With `scales="estimated"` both, and the centre of the means, are estimated from the rewards (see
    `posteriors.empirical_gaussian`), and the bounds are not guaranteed:

    UCB_z = (sum_z + r m) / (n_z + r) + s sqrt(2 log(1/delta) / (n_z + r))
    """

    noise_scale: float = 1.0
    prior_scale: float = 1.0
    scales: Literal["given", "estimated"] = "given"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._resolve_changes()
        validate_positive(noise_scale=self.noise_scale, prior_scale=self.prior_scale)
        validate_one_of("scales", self.scales, ("given", "estimated"))
        if self.traits.learns_scales:
            refuse_fixed_scales(self.noise_scale, self.prior_scale)

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(randomised=False, learns_scales=self.scales == "estimated")

    def index_parameters_after(self, statistic: Cells) -> IndexParameters:
        if isinstance(statistic, PooledCells):
            return EmpiricalUpperBound(*estimate_scales(statistic))
        return self.index_parameters

    @cached_property
    def index_parameters(self) -> UpperBound:
        return UpperBound(self.noise_scale, self.prior_scale)

    def exploration(self, rounds: int) -> float:
        return 2.0 * math.log(self.clock(rounds))

    def largest_expected_reward(self, problem: Problem) -> float:
        return math.inf if self.traits.learns_scales else 3 * (self.noise_scale + self.prior_scale)


@dataclass(frozen=True, kw_only=True, repr=False)
class UCB(OptimisticPolicy):
    """Upper confidence bounds per action (UCB), without the graph.

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, UCB(noise_scale=0.5)).policy
    ucb(noise_scale=0.5)

    Args:
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        noise_scale: The sub-Gaussian scale of rewards given the action, in units of the reward.
        prior_scale: The size of the unknown means, in units of the reward; the bonus before any reward.
        scales: "given" uses `noise_scale` and `prior_scale`; "estimated" estimates both from the rewards, without a
            guarantee for the confidence bounds.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    causal = False
    family, family_label = "ucb", "UCB"


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalUCB(OptimisticPolicy):
    """Causal UCB (C-UCB; Lu et al. 2020): the action with the largest expected upper confidence bound under P(z |
    do(a)).

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalUCB(noise_scale=0.5)).policy
    c-ucb(noise_scale=0.5)

    Args:
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        noise_scale: The sub-Gaussian scale of rewards given the parents, in units of the reward.
        prior_scale: The size of the unknown means, in units of the reward; the bonus before any reward.
        scales: "given" uses `noise_scale` and `prior_scale`; "estimated" estimates both from the rewards, without a
            guarantee for the confidence bounds.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    causal = True
    family, family_label = "c-ucb", "C-UCB"


@dataclass(frozen=True, kw_only=True, repr=False)
class KLPolicy(HorizonPolicy[Cells], CellPolicy):
    """The index of KL-UCB and C-KL-UCB."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._resolve_changes()

    @cached_property
    def traits(self) -> Traits:
        return super().traits._replace(randomised=False, unit_rewards=True)

    @cached_property
    def index_parameters(self) -> KLUpperBound:
        return KLUpperBound()

    def exploration(self, rounds: int) -> float:
        return math.log(self.clock(rounds))


@dataclass(frozen=True, kw_only=True, repr=False)
class KLUCB(KLPolicy):
    """KL-UCB (Garivier and Cappé 2011) per action, without the graph; for rewards in [0, 1].

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, KLUCB(horizon=5000)).policy
    kl-ucb(horizon=5000)

    Args:
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    causal = False
    family, family_label = "kl-ucb", "KL-UCB"


@dataclass(frozen=True, kw_only=True, repr=False)
class CausalKLUCB(KLPolicy):
    """Causal KL-UCB (C-KL-UCB): the largest expected KL upper confidence bound under P(z | do(a)); for rewards in [0,
    1].

    >>> from causalbandits import Agent, zoo
    >>> Agent(zoo.email_campaign().problem, CausalKLUCB(horizon=5000)).policy
    c-kl-ucb(horizon=5000)

    Args:
        horizon: The number of rounds. Default: `simulate` passes its own; an agent uses the current round instead.
        anytime: Whether to use the current round instead of a horizon everywhere. Not together with `horizon`.
        changes: The probability of a false alarm of the tests for changed mechanisms; what changed starts anew.
            Default: mechanisms are assumed to stay the same.

    Raises:
        PolicyError: If an option is out of range, or options contradict each other.
    """

    causal = True
    family, family_label = "c-kl-ucb", "C-KL-UCB"
