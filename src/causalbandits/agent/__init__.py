"""Agents: policies applied to problems, in one process."""

from causalbandits.agent.agent import Agent
from causalbandits.campaign import Decision, Recommendation

__all__ = ["Agent", "Decision", "Recommendation"]
