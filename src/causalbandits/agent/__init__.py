"""A policy at work, in one process."""

from causalbandits.agent.agent import Adviser, Agent
from causalbandits.campaign import Decision, Recommendation

__all__ = ["Adviser", "Agent", "Decision", "Recommendation"]
