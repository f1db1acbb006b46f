"""Models from data, and data against models."""

from causalbandits.fitting.checks import Check, Claim, check
from causalbandits.fitting.fit import fit
from causalbandits.fitting.fitted import FittedModel

__all__ = ["Check", "Claim", "FittedModel", "check", "fit"]
