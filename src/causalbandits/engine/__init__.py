"""Simulation: many rounds, many replications, every policy on the same worlds."""

from causalbandits.engine.simulate import simulate

__all__ = ["simulate"]
