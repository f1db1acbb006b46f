"""causalbandits: find the best intervention with the fewest tries, because the causal graph is known."""

from causalbandits import theory, zoo
from causalbandits.actions import ActionSpace
from causalbandits.agent import Agent, Decision, Recommendation
from causalbandits.citations import citation
from causalbandits.describe import describe
from causalbandits.engine import simulate
from causalbandits.environment import Environment, Outcome
from causalbandits.errors import CausalBanditsError, ScaleWarning
from causalbandits.fitting import FittedModel, check, fit
from causalbandits.forecast import forecast
from causalbandits.formats import read, write
from causalbandits.intervention import Intervention
from causalbandits.model import CausalModel
from causalbandits.policies import (
    KLUCB,
    UCB,
    CausalKLUCB,
    CausalLinearThompsonSampling,
    CausalLinearUCB,
    CausalThompsonSampling,
    CausalUCB,
    Policy,
    ThompsonSampling,
    Uniform,
    policy,
)
from causalbandits.problem import CausalBandit
from causalbandits.results import Run
from causalbandits.rewards import BernoulliReward, CustomReward, GaussianReward, LinearReward
from causalbandits.scores import Scores
from causalbandits.variable import Variable

__version__ = "0.1.0"

__all__ = [
    "KLUCB",
    "UCB",
    "ActionSpace",
    "Agent",
    "BernoulliReward",
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
    "Intervention",
    "LinearReward",
    "Outcome",
    "Policy",
    "Recommendation",
    "Run",
    "ScaleWarning",
    "Scores",
    "ThompsonSampling",
    "Uniform",
    "Variable",
    "check",
    "citation",
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
