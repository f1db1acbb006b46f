"""Decision: what is to be done now, under what is known; asked for alone or in a batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from causalbandits.model import Intervention, State

Context = Mapping[str, State]

BATCH_LIMIT = 2**20
"""So many decisions may be asked for at once."""


class Decision(NamedTuple):
    """What to do now; `id` is for telling the reward, whenever it comes.

    `propensity` is the probability with which it was chosen, where the policy can tell: 1 for UCB, a share of the
    draws for Thompson sampling with `draws=` above 1.
    """

    id: int
    intervention: Intervention
    propensity: float | None = None
