"""A policy at work, in one process."""

from causalbandits.agent.agent import Agent
from causalbandits.agent.decision import Decision
from causalbandits.agent.recommendation import Recommendation

__all__ = ["Agent", "Decision", "Recommendation"]
