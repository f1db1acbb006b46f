"""Decisions: the request (a context, eligible actions, a batch), and the chosen action."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from causalbandits._typing import Z, is_iterable
from causalbandits.errors import InterventionError
from causalbandits.model import Intervention, State
from causalbandits.policies import AnyPolicy, randomised_rounding, situation_for
from causalbandits.problem import Action, Problem, Situation
from causalbandits.problem.actions import PREDICATE_LIMIT

Context = Mapping[str, State]

Eligible = Iterable[Mapping[str, State]] | Callable[[Intervention], bool]
"""The actions that one decision may choose: a list of interventions, or a function that returns True or False."""

BATCH_LIMIT = 2**20
"""The maximum number of decisions per request."""


def context_agrees(codes: Z | None, known: Z | None) -> bool:
    """Whether a decision's context has all values that are known (codes that are not -1).

    >>> context_agrees((0, 2), (-1, 2)), context_agrees((0, 1), (-1, 2)), context_agrees(None, (-1, 2))
    (True, False, False)
    """
    if known is None:
        return True
    return all(code < 0 or (codes is not None and codes[i] == code) for i, code in enumerate(known))


ID_DIGITS = 8
"""The number of digits of its checksum in the id of a decision or an event of a study."""

_ID = re.compile(rf"[de](\d{{1,18}})-[0-9a-f]{{{ID_DIGITS}}}", re.ASCII)


def encode_id(kind: Literal["d", "e"], number: int, checksum: str) -> str:
    """The id of a decision or an event of a study: its kind, its number and the beginning of its checksum.

    If a study is restored from a backup, numbers are reused, but ids are not: the checksum of a decision covers the
    time of the decision and all earlier decisions.
    """
    return f"{kind}{number}-{checksum[:ID_DIGITS]}"


def parse_id(kind: Literal["d", "e"], text: str) -> int | None:
    """The number in the id of a decision or an event; None if the text is not an id.

    >>> parse_id("d", "d17-6f3a9c21"), parse_id("e", "d17-6f3a9c21"), parse_id("d", "17")
    (17, None, None)
    """
    match = _ID.fullmatch(text)
    return None if match is None or text[0] != kind else int(match[1])


class DecisionSeeds:
    """Random generators of decisions, each derived from the decision's number alone, without a running state.

    Agents and studies use the same generators, so with the same seed they make the same decisions.
    """

    ASK, ROUNDING, PAST, COUNT_PAST = 0, 1, 2, 3

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        root = np.random.SeedSequence(seed) if isinstance(seed, int) else seed
        self.entropy: Any = root.entropy
        self.spawn_key = tuple(root.spawn_key)
        self._rounding_seed, self._past_seed = self._branch(self.ROUNDING), self._branch(self.PAST)

    def _branch(self, *key: int) -> np.random.SeedSequence:
        return np.random.SeedSequence(self.entropy, spawn_key=(*self.spawn_key, *key))

    def decision_rng(self, number: int) -> np.random.Generator:
        """The generator used for a decision."""
        return np.random.default_rng(self._branch(self.ASK, number))

    def past_draw(self, number: int) -> float:
        """The random number that determines whether a decision counts past rewards."""
        return float(np.random.default_rng(self._branch(self.COUNT_PAST, number)).random())

    def binarise(self, reward: float, number: int) -> float:
        """A reward between 0 and 1, replaced by a Bernoulli draw that depends on the decision's number."""
        return (
            randomised_rounding(reward, self._rounding_seed, number)
            if number >= 0
            else randomised_rounding(reward, self._past_seed, -number)
        )


class Decision(NamedTuple):
    """An action to take now; report its outcome with `tell`.

    >>> import causalbandits as cb
    >>> agent = cb.Agent(cb.zoo.email_campaign().problem, "c-ucb", seed=0)
    >>> decision = agent.ask()
    >>> decision.id, sorted(decision.action), decision.propensity
    (0, ['product', 'purpose', 'send_time'], 1.0)

    Attributes:
        id: The id: a number in an agent; a text in a study, where an id is never used again.
        action: The value of each variable to set; JSON-ready.
        propensity: The probability with which the action was chosen, if the policy can tell: 1 for deterministic
            policies, a share of the samples for Thompson sampling with `samples=` above 1; otherwise None.
    """

    id: int | str
    action: dict[str, State]
    propensity: float | None = None

    @property
    def number(self) -> int:
        """The position in the order of decisions, from 0; a study that is restored from a backup reuses numbers."""
        return self.id if isinstance(self.id, int) else parse_id("d", self.id) or 0

    @property
    def fallback(self) -> bool:
        """Whether a client chose the fallback action itself, because the service did not answer in time."""
        return False


NO_ID = -1
"""The id of a decision that was not made by the service."""


class FallbackDecision(Decision):
    """The fallback decision of a client whose service did not answer in time.

    The service does not know this decision.
    """

    __slots__ = ()

    @property
    def fallback(self) -> bool:
        """True; no outcome can be reported for it."""
        return True

    def __repr__(self) -> str:
        return f"Decision({self.action}, fallback=True)"


def restrict_to_eligible(policy: AnyPolicy, problem: Problem, eligible: Eligible) -> Situation:
    """The situation in which only the eligible actions may be chosen."""
    return situation_for(policy, problem, eligible=eligible_actions(problem, eligible))


def eligible_actions(problem: Problem, eligible: Eligible) -> list[Action] | Iterable[Mapping[str, State]]:
    """The eligible actions as given, or those for which a function returns True."""
    if callable(eligible):
        space = problem.actions
        space.refuse_enumeration("A function as eligible= is called for every action", PREDICATE_LIMIT)
        all_actions = map(space.action, range(space.size))
        return [action for action in all_actions if _is_eligible(eligible, action.intervention)]
    if not is_iterable(eligible) or isinstance(eligible, str | Mapping):
        raise InterventionError(
            "eligible must be a list of interventions, or a function from an intervention to True or False; got "
            f"{eligible!r}."
        )
    return eligible


def _is_eligible(eligible: Callable[[Intervention], bool], intervention: Intervention) -> bool:
    try:
        answer = eligible(intervention)
    except TypeError as error:
        raise InterventionError(
            f"If eligible is a function, it must accept an intervention; it raised {error!r}."
        ) from error
    if not isinstance(answer, bool | np.bool_):
        raise InterventionError(
            f"If eligible is a function, it must return True or False for every intervention; for {intervention} "
            f"it returned {answer!r}."
        )
    return bool(answer)
