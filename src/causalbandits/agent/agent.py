"""Agent: a policy at work on a problem. Ask it what to do, tell it what happened, save it, go on tomorrow."""

from __future__ import annotations

import os
import secrets
from dataclasses import astuple
from pathlib import Path
from typing import Literal, overload

import numpy as np

from causalbandits._files import checked_path
from causalbandits._types import is_whole
from causalbandits.agent import saving
from causalbandits.agent.adviser import Adviser
from causalbandits.agent.decision import BATCH_LIMIT, Context, Decision
from causalbandits.agent.eligible import Eligible
from causalbandits.agent.ledger import Pending
from causalbandits.agent.listener import Listener
from causalbandits.agent.order import InOrder
from causalbandits.agent.policy_record import policy_of, policy_record
from causalbandits.errors import BudgetError, CausalBanditsError, StateError
from causalbandits.policies import AnyPolicy
from causalbandits.policies.default import chosen_policy
from causalbandits.policies.rationing import situations_to_come
from causalbandits.problem.budget import Budget
from causalbandits.problem.differing import difference
from causalbandits.problem.problem import CausalBandit
from causalbandits.problem.situation import Situation, opened


class Agent(Listener, Adviser):
    """A policy at work: `ask` for decisions, `tell` rewards in any order, `save` and `load` without losing a bit.

    >>> import causalbandits as cb
    >>> agent = cb.Agent(cb.zoo.email_campaign().problem, cb.CausalThompsonSampling(prior="beta"), seed=7)
    >>> decision = agent.ask()
    >>> decision
    Decision(id=0, intervention=do(product=Photoshop, purpose=Awareness, send_time=morning), propensity=None)
    >>> agent.tell(decision.id, parents={"subject": "short", "template": "1", "send_time": "morning"}, reward=1)
    >>> agent.rounds, agent.pending
    (1, {})

    Without a policy, the one is taken that loses least where nothing is known of the reward (see `default_policy`):
    `Agent(problem)`, or `Agent(problem, horizon=5000)` where the number of rounds is known, and with `late=True` where
    decisions are made before the outcomes of earlier ones are known. A policy of yours is told the `horizon`, too.

    With `budget=Budget(250, rounds=5000)` what actions cost is money, and only limits: scores are of the reward alone,
    and each decision keeps to the budget. It is charged when asked, and given back by `forget`; see `agent.budget`.

    `impossible="accept"` takes in values, of the parents or observed, that the model gives probability 0 under the
    action; the default refuses them, because they mean that the model is wrong or the data mixed up.
    """

    def __init__(
        self,
        problem: CausalBandit,
        policy: AnyPolicy | str | None = None,
        *,
        horizon: int | None = None,
        late: bool = False,
        seed: int | np.random.SeedSequence | None = None,
        impossible: Literal["refuse", "accept"] = "refuse",
        budget: Budget | None = None,
    ) -> None:
        if not isinstance(problem, CausalBandit):
            raise CausalBanditsError(f"An Agent works on a CausalBandit; got {problem!r}.")
        chosen = chosen_policy(problem, policy, horizon=horizon, late=late)
        if not isinstance(impossible, str) or impossible not in ("refuse", "accept"):
            raise CausalBanditsError(f"impossible must be 'refuse' or 'accept'; got {impossible!r}.")
        super().__init__(problem, chosen, impossible)
        chosen.warn_of_unknown_tables(problem, stacklevel=2)
        if budget is not None:
            chosen.refuse_budget()
        if not problem.context:  # with one it need never be made, and may be too large
            chosen.situation(problem)
        self._purse = None if budget is None else opened(budget, situations_to_come(chosen, problem), stacklevel=2)
        self._seed = _seed_sequence(seed)
        self._rng = np.random.Generator(np.random.PCG64(self._seed))
        self._flips = chosen.counts_successes
        self._learnt = 0
        self._expected = chosen.largest_expected_reward(problem)
        self._name = secrets.token_hex(8)
        self._editions: dict[Path, saving.Edition] = {}
        """What this agent last read from or wrote to each file."""

    def __repr__(self) -> str:
        return f"Agent({self.policy}, {self.rounds} rewards, {len(self._pending)} pending)"

    @overload
    def ask(self, n: None = None, *, context: Context | None = None, eligible: Eligible | None = None) -> Decision: ...
    @overload
    def ask(self, n: int, *, context: Context | None = None, eligible: Eligible | None = None) -> list[Decision]: ...
    def ask(
        self, n: int | None = None, *, context: Context | None = None, eligible: Eligible | None = None
    ) -> Decision | list[Decision]:
        """The next decision, or `n` of them at once.

        `context` has the values of what is known beforehand, by variable, as far as they are known; without any, the
        decision is that of one who does not look. A batch is chosen from what is known now: a randomised policy
        (Thompson sampling) draws anew for each of the n; a deterministic one (UCB) gives the same action n times.
        `eligible` narrows this decision to some interventions: a list of them, or a function that says yes or no.
        Where a budget does not allow for all of a batch, none of it is decided.
        """
        if n is not None and (not is_whole(n) or not 1 <= n <= BATCH_LIMIT):
            raise CausalBanditsError(f"ask(n) needs a whole number from 1 to {BATCH_LIMIT}; got {n!r}.")
        situation = self._whole if context is None and eligible is None else self._situation(context, eligible)
        if n is None:
            return self._decide(situation)
        if self._purse is not None and n > self._purse.spent.rounds_left:
            left = self._purse.spent.rounds_left
            raise BudgetError(f"The budget is for {left} more rounds; ask({n}) wants {n}. Nothing was decided.")
        made: list[Decision] = []
        try:
            for _ in range(n):
                made.append(self._decide(situation))  # noqa: PERF401 (needed if a later one is refused)
        except BudgetError:
            for decision in made:
                self.forget(decision.id)
            raise
        return made

    def _decide(self, situation: Situation) -> Decision:
        statistic = self._folded() if self._must_fold else self._statistic
        if self._purse is None:
            choice = self.policy.chosen(situation, statistic, self._rng)
        else:
            choice = self.policy.paced(situation, statistic, self._rng, self._purse)
            self._purse.pay(self.problem.cost(choice.action), situation.known)
        id = self._next_id
        self._pending[id] = Pending(choice, situation.problem)
        self._next_id += 1
        return Decision(id, choice.action.intervention, choice.propensity)

    def _charge_again(self) -> None:
        """Charge the budget for all decisions that were not forgotten."""
        if self._purse is not None:
            told = [(outcome.action, outcome.context) for outcome in self._told if outcome.number >= 0]
            waiting = [(asked.choice.action, asked.problem.known) for asked in self._pending.values()]
            for action, known in (*told, *waiting):
                self._purse.pay(self.problem.cost(action), known)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything, random state included, to a JSON file; never leaves half a file behind.

        A file that another process has saved since, or that holds another agent, is not overwritten unless you say so.
        """
        where = checked_path(path, "agent.json")
        content = {
            "problem": self.problem.to_record(),
            "policy": policy_record(self.policy, self.problem),
            "impossible": self.impossible,
            "statistic": self._folded().to_record(),
            "outcomes": self._told.to_record(),
            "seed": {"entropy": self._seed.entropy, "spawn_key": list(self._seed.spawn_key)},
            "random_state": self._rng.bit_generator.state,
            "pending": {str(id): asked.to_record() for id, asked in self._pending.items()},
            "next_id": self._next_id,
            **({} if self._purse is None else {"budget": astuple(self._purse.budget)}),
            "witnessed": self._order.next_one,
        }
        before = self._editions.get(where)
        after = saving.Edition.after(before, self._name)
        saving.write(where, content, before, after, overwrite=overwrite)
        self._editions[where] = after

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        problem: CausalBandit | None = None,
        policy: AnyPolicy | str | None = None,
    ) -> Agent:
        """The agent that `save` wrote, as if it had never stopped.

        With `problem`, a file that belongs to another one is refused; but it may have other tables than the saved one,
        better ones by now: what was told is then taken in anew, under these. A policy that a file cannot hold (your own
        class, features given as functions) must be handed in as `policy`.
        """
        where = checked_path(path, "agent.json")
        content = saving.read(where)
        saved = CausalBandit.from_record(content["problem"])
        if problem is not None and not isinstance(problem, CausalBandit):
            raise CausalBanditsError(f"problem must be a CausalBandit (an environment has one); got {problem!r}.")
        if problem is not None and (differs := difference(problem, saved)):
            raise StateError(
                f"{path} belongs to another problem: {differs}. It was made for {saved!r}, not for {problem!r}."
            )
        known = problem or saved
        try:
            seed = np.random.SeedSequence(content["seed"]["entropy"], spawn_key=content["seed"]["spawn_key"])
            chosen = policy_of(content["policy"], policy, known)
            budget = Budget(*content["budget"]) if "budget" in content else None
            agent = cls(known, chosen, seed=seed, impossible=content["impossible"], budget=budget)
            agent._statistic.restore(content["statistic"])
            agent._told.restore(content["outcomes"], known)
            agent._must_fold = known.fingerprint != saved.fingerprint
            agent._rng.bit_generator.state = content["random_state"]
            agent._pending = {int(id): Pending.of_record(known, record) for id, record in content["pending"].items()}
            agent._next_id = int(content["next_id"])
            agent._order = InOrder(agent._told, int(content.get("witnessed", 0)))
            agent._learnt = sum(outcome.number < 0 for outcome in agent._told)
            agent._charge_again()
            edition = saving.edition_of(content)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            if isinstance(error, CausalBanditsError):
                raise
            raise StateError(f"{path} is corrupted: {error!r}.") from None
        agent._name, agent._editions = edition.agent, {where: edition}
        return agent


def _seed_sequence(seed: int | np.random.SeedSequence | None) -> np.random.SeedSequence:
    try:
        own = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        # Plain numbers, which a file can hold.
        entropy = np.asarray(own.entropy, dtype=object).tolist()
        plain = [int(part) for part in entropy] if isinstance(entropy, list) else int(entropy)
        return np.random.SeedSequence(plain, spawn_key=tuple(map(int, own.spawn_key)))
    except (TypeError, ValueError):
        raise CausalBanditsError(f"seed must be a whole number, 0 or more, or None; got {seed!r}.") from None
