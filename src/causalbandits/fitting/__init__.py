"""Models from data, and data against models."""

from causalbandits.fitting.checks import Check, Claim, check
from causalbandits.fitting.fit import fit

__all__ = ["Check", "Claim", "check", "fit"]
