"""Models from data, and data against models."""

from causalbandits.fitting.checks import Check, Finding, check
from causalbandits.fitting.fit import fit

__all__ = ["Check", "Finding", "check", "fit"]
