"""causalbandits: find the best intervention with the fewest tries, because the causal graph is known."""

from causalbandits import theory
from causalbandits.agent import Agent, Decision, Recommendation
from causalbandits.engine import simulate
from causalbandits.errors import CausalBanditsError, CausalBanditsWarning, ScaleWarning
from causalbandits.fitting import check, fit
from causalbandits.formats import read, write
from causalbandits.model import (
    CausalGraph,
    CausalModel,
    FittedModel,
    FittedObservedModel,
    Intervention,
    ObservedModel,
    Variable,
)
from causalbandits.planning import describe, forecast
from causalbandits.policies import (
    HACUCB,
    KLUCB,
    UCB,
    CausalDesign,
    CausalElimination,
    CausalGittins,
    CausalIDS,
    CausalKLUCB,
    CausalLinearThompsonSampling,
    CausalLinearTSUCB,
    CausalLinearUCB,
    CausalScreen,
    CausalThompsonSampling,
    CausalTrackAndStop,
    CausalTSUCB,
    CausalUCB,
    GuardedThompsonSampling,
    LinTS,
    LinUCB,
    ModelsThompsonSampling,
    Policy,
    ThompsonSampling,
    Uniform,
    default_policy,
    policy,
)
from causalbandits.problem.actions import ActionSpace
from causalbandits.problem.budget import Budget
from causalbandits.problem.design import design
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores
from causalbandits.results.citations import citation
from causalbandits.results.run import Run
from causalbandits.study import Study, connect
from causalbandits.world import zoo
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward, CustomReward, GaussianReward, LinearReward
from causalbandits.world.stepped import StepEnvironment
from causalbandits.world.student import StudentReward

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
    "CausalBanditsWarning",
    "CausalDesign",
    "CausalElimination",
    "CausalGittins",
    "CausalGraph",
    "CausalIDS",
    "CausalKLUCB",
    "CausalLinearTSUCB",
    "CausalLinearThompsonSampling",
    "CausalLinearUCB",
    "CausalModel",
    "CausalScreen",
    "CausalTSUCB",
    "CausalThompsonSampling",
    "CausalTrackAndStop",
    "CausalUCB",
    "CustomReward",
    "Decision",
    "Environment",
    "FittedModel",
    "FittedObservedModel",
    "GaussianReward",
    "GuardedThompsonSampling",
    "Intervention",
    "LinTS",
    "LinUCB",
    "LinearReward",
    "ModelsThompsonSampling",
    "ObservedModel",
    "Policy",
    "Recommendation",
    "Run",
    "ScaleWarning",
    "Scores",
    "StepEnvironment",
    "StudentReward",
    "Study",
    "ThompsonSampling",
    "Uniform",
    "Variable",
    "check",
    "citation",
    "connect",
    "default_policy",
    "describe",
    "design",
    "fit",
    "forecast",
    "policy",
    "read",
    "simulate",
    "theory",
    "write",
    "zoo",
]
