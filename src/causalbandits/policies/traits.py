"""The properties of a policy: one frozen value, which the agent, the studies and the simulator read."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from causalbandits.problem import Problem, Situation


class Traits(NamedTuple):
    """The properties of a policy that agents and simulations must know.

    Attributes:
        randomised: Whether decisions are random; if not, asking again without new outcomes gives the same action.
        unit_rewards: Whether rewards must lie in [0, 1].
        searches_all: Whether all actions are searched, not only those that can be optimal for some reward.
        searches_dominated: Whether dominated actions are searched as well, because they may be the most informative.
        audit: The share of decisions that are made uniformly at random.
        needs_parents: Whether a reward is of no use without the values of its parents.
        needs_context: Whether something is learned separately for every context, which must then be fully known.
        learns_cpts: Whether the CPTs are learned from outcomes.
        learns_scales: Whether the scales of rewards are estimated.
        counts_successes: Whether successes are counted; a reward strictly between 0 and 1 then comes with a Bernoulli
            draw, `outcome.successes`.
        sequential: Whether outcomes are also tested in the order of their decisions (`monitor`).
        follows_changes: Whether mechanisms that change start anew, so that no stopping rule is valid.
        no_budget: The reason why the policy cannot keep a budget, as the end of a sentence; empty if it can.
    """

    randomised: bool = True
    unit_rewards: bool = False
    searches_all: bool = False
    searches_dominated: bool = False
    audit: float = 0.0
    needs_parents: bool = True
    needs_context: bool = False
    learns_cpts: bool = False
    learns_scales: bool = False
    counts_successes: bool = False
    sequential: bool = False
    follows_changes: bool = False
    no_budget: str = ""


class HasTraits(Protocol):
    """The attributes of a policy that checks and messages use."""

    @property
    def id(self) -> str: ...

    @property
    def traits(self) -> Traits: ...


def situation_for(policy: HasTraits, problem: Problem, **restrictions: Any) -> Situation:
    """A problem at a decision, with the actions that the policy searches."""
    traits = policy.traits
    every = traits.searches_all or traits.searches_dominated
    return problem.situation(every=every, any_cpts=traits.learns_cpts, **restrictions)
