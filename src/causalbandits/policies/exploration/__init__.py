"""Best-arm identification: policies that maximise information about the best action and ignore regret."""

from causalbandits.policies.exploration.design import CausalDesign, SamplingAllocation
from causalbandits.policies.exploration.elimination import BatchedCells, CausalElimination
from causalbandits.policies.exploration.track_and_stop import (
    LEAST_GAP,
    TRACKED_WIDTH,
    UNSEEN_COUNT,
    CausalTrackAndStop,
    sharpen,
)

__all__ = [
    "LEAST_GAP",
    "TRACKED_WIDTH",
    "UNSEEN_COUNT",
    "BatchedCells",
    "CausalDesign",
    "CausalElimination",
    "CausalTrackAndStop",
    "SamplingAllocation",
    "sharpen",
]
