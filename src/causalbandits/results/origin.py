"""What a run was made of, in a few letters, so that runs can be put together that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Origin(NamedTuple):
    """Fingerprints: of the world, and of each policy with what it believes of the world."""

    world: str
    policies: Mapping[str, str]
