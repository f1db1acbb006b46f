"""Causal bandits: find the best intervention with few trials by using a causal graph."""

from typing import TYPE_CHECKING

from causalbandits._lazy import lazy_exports

if TYPE_CHECKING:
    from causalbandits import errors, policies, rewards, testing, theory
    from causalbandits.agent import Agent
    from causalbandits.campaign import Decision, Recommendation
    from causalbandits.engine import simulate
    from causalbandits.environments import BlackBoxEnvironment, ChangingEnvironment, Environment, zoo
    from causalbandits.errors import CausalBanditsError, CausalBanditsWarning
    from causalbandits.fitting import check, fit
    from causalbandits.formats import read, write
    from causalbandits.model import CausalGraph, CausalModel, Intervention, LatentModel, Variable
    from causalbandits.planning import describe, forecast
    from causalbandits.policies import Policy, default_policy, policy
    from causalbandits.problem import Budget, Problem, design
    from causalbandits.results import Run, citation
    from causalbandits.study import Study, connect
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "causalbandits.agent": ["Agent"],
            "causalbandits.campaign": ["Decision", "Recommendation"],
            "causalbandits.engine": ["simulate"],
            "causalbandits.environments": ["BlackBoxEnvironment", "ChangingEnvironment", "Environment"],
            "causalbandits.errors": ["CausalBanditsError", "CausalBanditsWarning"],
            "causalbandits.fitting": ["check", "fit"],
            "causalbandits.formats": ["read", "write"],
            "causalbandits.model": ["CausalGraph", "CausalModel", "Intervention", "LatentModel", "Variable"],
            "causalbandits.planning": ["describe", "forecast"],
            "causalbandits.policies": ["Policy", "default_policy", "policy"],
            "causalbandits.problem": ["Budget", "Problem", "design"],
            "causalbandits.results": ["Run", "citation"],
            "causalbandits.study": ["Study", "connect"],
        },
        modules=[
            "causalbandits.environments.zoo",
            "causalbandits.errors",
            "causalbandits.policies",
            "causalbandits.rewards",
            "causalbandits.testing",
            "causalbandits.theory",
        ],
    )

__version__ = "0.3.0"

__all__ = [
    "Agent",
    "BlackBoxEnvironment",
    "Budget",
    "CausalBanditsError",
    "CausalBanditsWarning",
    "CausalGraph",
    "CausalModel",
    "ChangingEnvironment",
    "Decision",
    "Environment",
    "Intervention",
    "LatentModel",
    "Policy",
    "Problem",
    "Recommendation",
    "Run",
    "Study",
    "Variable",
    "check",
    "citation",
    "connect",
    "default_policy",
    "describe",
    "design",
    "errors",
    "fit",
    "forecast",
    "policies",
    "policy",
    "read",
    "rewards",
    "simulate",
    "testing",
    "theory",
    "write",
    "zoo",
]
