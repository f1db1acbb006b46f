"""Simulation: many rounds, many replications, every policy in the same environments."""

from causalbandits.engine.driver import ENVIRONMENT, WORLD, stream
from causalbandits.engine.plan import Source
from causalbandits.engine.simulation import HORIZON_LIMIT, simulate

__all__ = ["ENVIRONMENT", "HORIZON_LIMIT", "WORLD", "Source", "simulate", "stream"]
