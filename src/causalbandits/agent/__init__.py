"""A policy at work, in one process."""

from causalbandits.agent.agent import Agent, Decision
from causalbandits.agent.recommendation import Recommendation

__all__ = ["Agent", "Decision", "Recommendation"]
