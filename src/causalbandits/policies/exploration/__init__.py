"""Best-arm identification: policies that only look for the best action."""

from causalbandits.policies.exploration.design import CausalDesign, Shares
from causalbandits.policies.exploration.elimination import BatchedCells, CausalElimination
from causalbandits.policies.exploration.track_and_stop import LEAST_GAP, TRACKED, UNSEEN, CausalTrackAndStop, sharpened

__all__ = [
    "LEAST_GAP",
    "TRACKED",
    "UNSEEN",
    "BatchedCells",
    "CausalDesign",
    "CausalElimination",
    "CausalTrackAndStop",
    "Shares",
    "sharpened",
]
