"""causalbandits: find the best intervention with the fewest tries, because the causal graph is known."""

from causalbandits import theory
from causalbandits.agent import Agent, Decision, Recommendation
from causalbandits.engine import simulate
from causalbandits.errors import CausalBanditsError, ScaleWarning
from causalbandits.fitting import check, fit
from causalbandits.formats import read, write
from causalbandits.model import CausalModel, FittedModel, Intervention, Variable
from causalbandits.planning import describe, forecast
from causalbandits.policies import (
    HACUCB,
    KLUCB,
    UCB,
    CausalKLUCB,
    CausalLinearThompsonSampling,
    CausalLinearUCB,
    CausalThompsonSampling,
    CausalUCB,
    GuardedThompsonSampling,
    LinTS,
    LinUCB,
    Policy,
    ThompsonSampling,
    Uniform,
    policy,
)
from causalbandits.problem.actions import ActionSpace
from causalbandits.problem.budget import Budget
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores
from causalbandits.results.citations import citation
from causalbandits.results.run import Run
from causalbandits.study import Study, connect
from causalbandits.world import zoo
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward, CustomReward, GaussianReward, LinearReward
from causalbandits.world.stepped import StepEnvironment

__version__ = "0.1.0"

__all__ = [
    "HACUCB",
    "KLUCB",
    "UCB",
    "ActionSpace",
    "Agent",
    "BernoulliReward",
    "Budget",
    "CausalBandit",
    "CausalBanditsError",
    "CausalKLUCB",
    "CausalLinearThompsonSampling",
    "CausalLinearUCB",
    "CausalModel",
    "CausalThompsonSampling",
    "CausalUCB",
    "CustomReward",
    "Decision",
    "Environment",
    "FittedModel",
    "GaussianReward",
    "GuardedThompsonSampling",
    "Intervention",
    "LinTS",
    "LinUCB",
    "LinearReward",
    "Policy",
    "Recommendation",
    "Run",
    "ScaleWarning",
    "Scores",
    "StepEnvironment",
    "Study",
    "ThompsonSampling",
    "Uniform",
    "Variable",
    "check",
    "citation",
    "connect",
    "describe",
    "fit",
    "forecast",
    "policy",
    "read",
    "simulate",
    "theory",
    "write",
    "zoo",
]
