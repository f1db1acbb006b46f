"""The origin of a run in a short text, so that only compatible runs are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Origin(NamedTuple):
    """Fingerprints: of the world, and of each policy with what it believes of the world; and the policies' ids."""

    world: str
    policies: Mapping[str, str]
    ids: Mapping[str, str] | None = None
    """What was played, under whatever name; None where nobody noted it."""

    def only(self, names: Iterable[str]) -> Origin:
        """The same for some of the policies, in this order."""
        policies = list(names)
        ids = None if self.ids is None else {name: self.ids[name] for name in policies}
        return Origin(self.world, {name: self.policies[name] for name in policies}, ids)
