"""The origin of a run as a short text, so that only compatible runs are merged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Origin(NamedTuple):
    """Fingerprints of a simulation's environment and policies.

    Attributes:
        world: The fingerprint of the environment.
        policies: The fingerprint of each policy with the problem that it assumes, by name.
        ids: The id of each policy, by name; None if they were not recorded.
    """

    world: str
    policies: Mapping[str, str]
    ids: Mapping[str, str] | None = None

    def only(self, names: Iterable[str]) -> Origin:
        """The origin for some of the policies, in this order."""
        policies = list(names)
        ids = None if self.ids is None else {name: self.ids[name] for name in policies}
        return Origin(self.world, {name: self.policies[name] for name in policies}, ids)
