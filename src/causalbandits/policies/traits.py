"""The properties of a policy: one frozen value, which the agent, the studies and the simulator read."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from causalbandits.problem import Problem, Situation


class Traits(NamedTuple):
    """What a policy needs and does, resolved once per policy object from its class and its parameters."""

    randomised: bool = True
    """Scores are drawn; if not, asking again without telling gives the same action."""
    unit_rewards: bool = False
    """Rewards must lie in [0, 1]."""
    searches_all: bool = False
    """All actions are searched, not only those that can be the best for some reward."""
    searches_dominated: bool = False
    """Actions that can never be the best are searched as well, because they may be the most informative."""
    audit: float = 0.0
    """The share of the decisions that are made uniformly at random, whatever the scores."""
    needs_parents: bool = True
    """Nothing can be learnt from a reward without the values of its parents."""
    needs_context: bool = False
    """Besides, something is kept for every context by itself, so that all of it must be known."""
    learns_cpts: bool = False
    """The model's tables are learnt from all that is observed: nothing may then be searched by them."""
    learns_scales: bool = False
    """The rewards' scales are estimated from the rewards."""
    counts_successes: bool = False
    """Successes are counted: a reward between 0 and 1 then comes with a coin's flip, `outcome.successes`."""
    sequential: bool = False
    """Outcomes are also looked at in the order of their decisions: `monitor`."""
    no_budget: str = ""
    """Why no budget can be kept, and what to use instead, as the end of a sentence; empty where one can."""


class HasTraits(Protocol):
    """What checks and messages need of a policy."""

    @property
    def id(self) -> str: ...

    @property
    def traits(self) -> Traits: ...


def situation_for(policy: HasTraits, problem: Problem, **restrictions: Any) -> Situation:
    """A problem at a decision, with the actions that the policy searches."""
    traits = policy.traits
    every = traits.searches_all or traits.searches_dominated
    return problem.situation(every=every, any_tables=traits.learns_cpts, **restrictions)
