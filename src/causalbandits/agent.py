"""Agent: a policy at work on a problem. Ask it what to do, tell it what happened, save it, go on tomorrow."""

from __future__ import annotations

import hashlib
import json
import math
import numbers
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from causalbandits._files import checked_path, write_atomically
from causalbandits.errors import (
    CausalBanditsError,
    InterventionError,
    StateError,
    TellError,
)
from causalbandits.model.intervention import Intervention, State
from causalbandits.policies import POLICIES, Policy, as_policy
from causalbandits.policies import policy as policy_by_id
from causalbandits.problem.actions import PREDICATE_LIMIT
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.scores import Scores

FORMAT, VERSION = "causalbandits-agent", 2

Eligible = Iterable[Mapping[str, State]] | Callable[[Intervention], bool]

BATCH_LIMIT = 2**20
"""So many decisions may be asked for at once."""


class Decision(NamedTuple):
    """What to do now; `id` is for telling the reward, whenever it comes."""

    id: int
    intervention: Intervention


class Recommendation(NamedTuple):
    """The best action so far. `kind` says what the interval is: "confidence" or "posterior".

    `seen` is the probability that the action leads to a configuration whose rewards have been seen; None where
    that has no meaning (linear policies).
    """

    intervention: Intervention
    mean: float
    lower: float
    upper: float
    level: float
    kind: str
    seen: float | None


class Agent:
    """A policy at work: `ask` for decisions, `tell` rewards in any order, `save` and `load` without losing a bit.

    >>> import causalbandits as cb
    >>> agent = cb.Agent(cb.zoo.email_campaign().problem, cb.CausalThompsonSampling(prior="beta"), seed=7)
    >>> decision = agent.ask()
    >>> decision
    Decision(id=0, intervention=do(product=Photoshop, purpose=Awareness, send_time=morning))
    >>> agent.tell(decision.id, parents={"subject": "short", "template": "1", "send_time": "morning"}, reward=1)
    >>> agent.rounds, agent.pending
    (1, {})

    `impossible="accept"` takes in configurations that the model gives probability 0 under the action; the default
    refuses them, because they mean that the model is wrong or the data mixed up.
    """

    def __init__(
        self,
        problem: CausalBandit,
        policy: Policy | str,
        *,
        seed: int | np.random.SeedSequence | None = None,
        impossible: Literal["refuse", "accept"] = "refuse",
    ) -> None:
        if not isinstance(problem, CausalBandit):
            raise CausalBanditsError(f"An Agent works on a CausalBandit; got {problem!r}.")
        chosen = as_policy(policy)
        if impossible not in ("refuse", "accept"):
            raise CausalBanditsError(f"impossible must be 'refuse' or 'accept'; got {impossible!r}.")
        self.problem = problem
        self.policy = chosen
        self.impossible = impossible
        self._statistic = chosen.begin(problem)
        try:
            self._rng = np.random.Generator(np.random.PCG64(seed))
        except (TypeError, ValueError):
            raise CausalBanditsError(f"seed must be a whole number, 0 or more, or None; got {seed!r}.") from None
        self._pending: dict[int, int] = {}
        self._next_id = 0
        self._expected = chosen.largest_expected_reward(problem)
        """Rewards beyond it bring one warning."""

    def __repr__(self) -> str:
        return f"Agent({self.policy}, {self.rounds} rewards, {len(self._pending)} pending)"

    @property
    def rounds(self) -> int:
        """How many rewards have been told."""
        return int(self._statistic.rounds)

    @property
    def pending(self) -> dict[int, Intervention]:
        """Decisions whose reward has not come (yet), by id."""
        return {id: self.problem.actions[action] for id, action in self._pending.items()}

    @overload
    def ask(self, n: None = None, *, eligible: Eligible | None = None) -> Decision: ...
    @overload
    def ask(self, n: int, *, eligible: Eligible | None = None) -> list[Decision]: ...
    def ask(self, n: int | None = None, *, eligible: Eligible | None = None) -> Decision | list[Decision]:
        """The next decision, or `n` of them at once.

        A batch is chosen from what is known now: a randomised policy (Thompson sampling) draws anew for each of
        the n; a deterministic one (UCB) gives the same action n times. `eligible` narrows this decision to some
        interventions: a list of them, or a function that says yes or no.
        """
        if n is not None and (type(n) is bool or not isinstance(n, int | np.integer) or not 1 <= n <= BATCH_LIMIT):
            raise CausalBanditsError(f"ask(n) needs a whole number from 1 to {BATCH_LIMIT}; got {n!r}.")
        among = None if eligible is None else self._eligible(eligible)
        problem = self.problem if among is None or self.policy.keeps_actions else self.problem.only(among)
        if n is None:
            return self._decide(problem, among)
        return [self._decide(problem, among) for _ in range(n)]

    def _decide(self, problem: CausalBandit, among: list[int] | None) -> Decision:
        if among is None:
            action = self.policy.decide(problem, self._statistic, self._rng)
        elif self.policy.keeps_actions:
            scores = self.policy.scored(problem, self._statistic, self._rng)
            action = among[Scores(scores.values[among], scores.scale).first_best()]
        else:
            action = among[self.policy.decide(problem, self._statistic, self._rng)]
        decision = Decision(self._next_id, self.problem.actions[action])
        self._pending[decision.id] = action
        self._next_id += 1
        return decision

    def _eligible(self, given: Eligible) -> list[int]:
        space = self.problem.actions
        if callable(given):
            space.refuse_enumeration("eligible as a function is asked about every action", PREDICATE_LIMIT)
            actions = [i for i, action in enumerate(space) if given(action)]
        elif isinstance(given, Iterable) and not isinstance(given, str | Mapping):
            actions = sorted({space.index(action) for action in given})
        else:
            raise InterventionError(
                f"eligible must be a list of interventions, or a function that says yes or no to one; got {given!r}."
            )
        if not actions:
            raise InterventionError("No action is eligible: the list is empty, or the function says no to all.")
        return actions

    def tell(self, id: int, parents: Mapping[str, State], reward: float) -> None:
        """The outcome of a decision: the values of the reward's parents, and the reward. Once per id, in any order."""
        action = self._action_of(id)
        z, value = self._check_outcome(action, parents, reward)
        self.policy.update(self.problem, self._statistic, action, z, value, self._rng)
        del self._pending[id]

    def forget(self, id: int) -> None:
        """Stop waiting for the reward of a decision: it was not carried out, or its reward will never be known."""
        self._action_of(id)
        del self._pending[id]

    def _action_of(self, id: int) -> int:
        if isinstance(id, bool) or not isinstance(id, int | np.integer) or not 0 <= id < self._next_id:
            raise TellError(
                f"Unknown decision {id!r}: {self._next_id} have been made, with ids from 0. Use decision.id."
            )
        if id not in self._pending:
            raise TellError(f"The reward of decision {id} has been told already (or forgotten); each counts once.")
        return self._pending[id]

    def _check_outcome(self, action: int, parents: Mapping[str, State], reward: float) -> tuple[tuple[int, ...], float]:
        if not isinstance(parents, Mapping):
            raise TellError(f"parents must map each of {list(self.problem.parents)} to its value; got {parents!r}.")
        if not isinstance(reward, float | numbers.Real | np.bool_) or not math.isfinite(float(reward)):
            raise TellError(f"A reward must be a finite number; got {reward!r}.")
        value = float(reward)
        try:
            z = self.problem.encode_parents(parents)
            self.policy.check_reward(value)
        except CausalBanditsError as error:
            raise TellError(f"{error} Nothing was changed.") from None
        if self.impossible == "refuse" and not self.problem.possible(action, z):
            raise TellError(
                f"{dict(parents)} is impossible under {self.problem.actions[action]}, says the model. If the model is "
                'an estimate, make the agent with impossible="accept". Nothing was changed.'
            )
        if abs(value) > self._expected:
            self.policy.warn_of_scale("A reward is of size", abs(value), self.problem, stacklevel=3)
            self._expected = math.inf
        return z, value

    def recommend(self, *, level: float = 0.95) -> Recommendation:
        """The action with the largest estimated mean so far, and an interval for that mean.

        Thompson sampling gives its posterior's credible interval. UCB, KL-UCB and uniform give confidence bounds
        that hold for all configurations (actions, for the baselines) at all times together, CL-UCB its ellipsoid:
        both stay valid however the actions were chosen and whenever you look. Configurations without rewards widen
        the interval by the prior's scale. Only actions that mostly lead to configurations seen before are candidates.
        """
        if not isinstance(level, float) or not 0 < level < 1:
            raise CausalBanditsError(f"level must be a number between 0 and 1, such as 0.95; got {level!r}.")
        best = self.policy.favourite(self.problem, self._statistic)
        interval = self.policy.interval(self.problem, self._statistic, best.action, level)
        intervention = self.problem.actions[best.action]
        return Recommendation(intervention, best.mean, interval.lower, interval.upper, level, interval.kind, best.seen)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything, random state included, to a JSON file; never leaves half a file behind."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "problem": self.problem.to_record(),
            "policy": {"id": self.policy.id, "parameters": self.policy.plain_parameters()},
            "impossible": self.impossible,
            "statistic": self._statistic.to_record(),
            "random_state": self._rng.bit_generator.state,
            "pending": {str(id): action for id, action in self._pending.items()},
            "next_id": self._next_id,
        }
        content["checksum"] = _checksum(content)
        write_atomically(checked_path(path, "agent.json"), json.dumps(content).encode())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        problem: CausalBandit | None = None,
        policy: Policy | str | None = None,
    ) -> Agent:
        """The agent that `save` wrote, as if it had never stopped.

        With `problem`, a file that belongs to another one is refused. A policy that a file cannot hold (your own
        class, features given as functions) must be handed in as `policy`.
        """
        content = _read(checked_path(path, "agent.json"))
        saved = CausalBandit.from_record(content["problem"])
        if problem is not None and not isinstance(problem, CausalBandit):
            raise CausalBanditsError(f"problem must be a CausalBandit (an environment has one); got {problem!r}.")
        if problem is not None and problem.fingerprint != saved.fingerprint:
            raise StateError(f"{path} belongs to another problem: it was made for {saved!r}, not for {problem!r}.")
        agent = cls(problem or saved, _policy_of(content["policy"], policy), impossible=content["impossible"])
        agent._statistic.restore(content["statistic"])
        try:
            agent._rng.bit_generator.state = content["random_state"]
            agent._pending = {int(id): int(action) for id, action in content["pending"].items()}
            agent._next_id = int(content["next_id"])
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise StateError(f"{path} is corrupted: {error!r}.") from None
        return agent


def _policy_of(record: Any, given: Policy | str | None) -> Policy:
    id, parameters = record["id"], record["parameters"]
    if given is not None:
        chosen = as_policy(given)
        if (chosen.id, chosen.plain_parameters()) != (id, parameters):
            raise StateError(f"The file was written by the policy {id} with {parameters}; given is {chosen}.")
        return chosen
    if id not in POLICIES:
        raise StateError(f"The policy {id!r} is not one of this library's: hand it in, Agent.load(path, policy=...).")
    if any(isinstance(value, dict) for value in parameters.values()):
        raise StateError("The policy's features are functions, which a file cannot hold: Agent.load(path, policy=...).")
    fixed = POLICIES[id][1]
    return policy_by_id(id, **{name: value for name, value in parameters.items() if name not in fixed})


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StateError(f"Cannot read {path}: {error.strerror}.") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StateError(f"{path} is corrupted or no saved agent: {error}.") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StateError(f"{path} is no saved agent: its 'format' must be {FORMAT!r}.")
    if content.get("version") != VERSION:
        raise StateError(f"{path} was written by another version: {content.get('version')!r}, not {VERSION}.")
    checksum = content.pop("checksum", None)
    if checksum != _checksum(content):
        raise StateError(f"{path} is corrupted: its checksum does not match its content.")
    return content
