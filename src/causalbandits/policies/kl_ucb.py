"""KL-UCB and C-KL-UCB: optimism with the bound that fits rewards in [0, 1] (Garivier and Cappé 2011).

UCB_z = max {q : n_z kl(mean_z, q) <= log T},  1 where nothing was seen
play argmax_a sum_z P(z | a) UCB_z
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from causalbandits.policies.base import HorizonPolicy
from causalbandits.policies.cells import CellPolicy
from causalbandits.policies.indices import KLUpperBound
from causalbandits.policies.statistics import Cells


@dataclass(frozen=True, kw_only=True)
class KLPolicy(HorizonPolicy[Cells], CellPolicy):
    """What the two share: the index."""

    randomised = False
    unit_rewards = True

    @cached_property
    def index_parameters(self) -> KLUpperBound:
        return KLUpperBound()

    def exploration(self, rounds: int) -> float:
        return math.log(self.clock(rounds))


@dataclass(frozen=True, kw_only=True)
class KLUCB(KLPolicy):
    """Play the action with the largest optimistic mean; what the graph says is not used."""

    causal = False
    id = "kl-ucb"


@dataclass(frozen=True, kw_only=True)
class CausalKLUCB(KLPolicy):
    """Play the action with the largest expected optimistic reward under P(z | a)."""

    causal = True
    id = "c-kl-ucb"
