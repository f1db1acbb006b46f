"""The outcomes of an agent's decisions in the order of their reports, and the pending decisions.

The statistic is a function of the outcomes alone, so that it can be recomputed after a correction.
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from causalbandits._typing import Z
from causalbandits.errors import StateError
from causalbandits.policies import Choice, Outcome, Support
from causalbandits.problem import Action, Problem, Situation


class Pending(NamedTuple):
    """A decision without an outcome: the choice, and the information available at the time."""

    choice: Choice
    problem: Problem
    """The problem conditioned on the known part of the context."""
    situation: Situation | None = None
    """The policy's situation in that context with all actions eligible; None if it has not been needed."""

    def to_record(self) -> dict[str, Any]:
        """The decision as a JSON-ready record."""
        action, propensity, support = self.choice
        record = {"action": list(action.choices), "propensity": propensity}
        record["support"] = None if support is None else encode_support(support)
        return record if self.problem.context_codes is None else {**record, "context": list(self.problem.context_codes)}

    @classmethod
    def from_record(cls, problem: Problem, record: Any) -> Pending:
        """The decision that `to_record` describes."""
        support = (
            None if record["support"] is None else decode_support(record["support"], partial(decode_action, problem))
        )
        choice = Choice(decode_action(problem, record["action"]), record["propensity"], support)
        return cls(choice, problem.condition_codes(problem.contexts.parse_codes(record.get("context"))))


class Ledger:
    """The outcomes by the number of their decision; each can be corrected or removed.

    Most outcomes take about 32 bytes: numbers, and references to actions and configurations that are stored once.
    Outcomes with exceptional fields are stored as a whole. `usual` is the propensity that is not exceptional.
    """

    def __init__(self, usual: float | None) -> None:
        self._usual = usual
        self._number, self._reward = array("q"), array("d")
        self._action: list[Action] = []
        self._z: list[Z] = []
        self._context: list[Z | None] = []
        self._interned: dict[Z, Z] = {}
        """One object for each configuration and context."""
        self._unusual: dict[int, Outcome] = {}

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[Outcome]:
        return map(self._outcome, range(len(self)))

    def __getitem__(self, number: int) -> Outcome:
        """The outcome of a decision; raises a KeyError if there is none."""
        return self._outcome(self._row(number))

    def _row(self, number: int) -> int:
        try:
            return self._number.index(number)
        except ValueError:
            raise KeyError(number) from None

    def _outcome(self, row: int) -> Outcome:
        number, reward = self._number[row], self._reward[row]
        unusual = self._unusual.get(number)
        if unusual is not None:
            return unusual
        return Outcome(self._action[row], self._z[row], reward, reward, number, self._usual, context=self._context[row])

    def add(self, outcome: Outcome) -> int:
        """Add an outcome; returns the number of outcomes."""
        action, z, reward, successes, number, propensity, support, observed, context = outcome
        self._number.append(number)
        self._action.append(action)
        self._z.append(self._interned.setdefault(z, z))
        self._context.append(None if context is None else self._interned.setdefault(context, context))
        self._reward.append(reward)
        if successes != reward or propensity != self._usual or support is not None or observed:
            self._unusual[number] = outcome
        return len(self._number)

    def replace(self, outcome: Outcome) -> None:
        """Replace the outcome of the same decision."""
        row = self._row(outcome.number)
        self._z[row], self._reward[row] = outcome.z, outcome.reward
        self._unusual[outcome.number] = outcome

    def remove(self, number: int) -> None:
        """Remove the outcome of a decision."""
        row = self._row(number)
        for column in (self._number, self._action, self._z, self._context, self._reward):
            del column[row]
        self._unusual.pop(number, None)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready record; numbers keep full precision, and each action and configuration is listed once."""
        actions = {action: code for code, action in enumerate(dict.fromkeys(self._action))}
        configurations = {z: code for code, z in enumerate(dict.fromkeys(self._z))}
        contexts = {context: code for code, context in enumerate(dict.fromkeys(self._context))}
        outcomes = list(self)
        context_columns = {
            "contexts": [None if context is None else list(context) for context in contexts],
            "context": [contexts[context] for context in self._context],
        }
        return {
            "actions": [list(action.choices) for action in actions],
            "configurations": [list(z) for z in configurations],
            "number": self._number.tolist(),
            "action": [actions[action] for action in self._action],
            "z": [configurations[z] for z in self._z],
            "reward": self._reward.tolist(),
            "successes": [outcome.successes for outcome in outcomes],
            "propensity": [outcome.propensity for outcome in outcomes],
            "supports": {str(o.number): encode_support(o.support) for o in outcomes if o.support is not None},
            "observed": {str(o.number): dict(o.observed) for o in outcomes if o.observed},
            **(context_columns if any(context is not None for context in contexts) else {}),
        }

    def restore(self, record: Any, problem: Problem) -> None:
        """Add the outcomes in a record that `to_record` wrote."""
        try:
            actions = [decode_action(problem, choices) for choices in record["actions"]]
            configurations = [tuple(map(int, z)) for z in record["configurations"]]
            supports = {
                int(number): decode_support(entry, partial(decode_action, problem))
                for number, entry in record["supports"].items()
            }
            observed = {int(number): dict(entry) for number, entry in record["observed"].items()}
            contexts = [problem.contexts.parse_codes(context) for context in record.get("contexts", [None])]
            columns = [record[name] for name in ("number", "action", "z", "reward", "successes", "propensity")]
            columns.append(record.get("context", [0] * len(columns[0])))
            for number, action, z, reward, successes, propensity, context in zip(*columns, strict=True):
                details = propensity, supports.get(number), observed.get(number), contexts[context]
                self.add(Outcome(actions[action], configurations[z], reward, successes, number, *details))
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateError(f"The saved outcomes are corrupted: {error!r}.") from None


def decode_action(problem: Problem, choices: Any) -> Action:
    """The action with these choices, read from a file."""
    return Action(problem.actions, problem.actions.validate_choices([int(choice) for choice in choices]))


def encode_support(support: Support) -> list[Any]:
    """A support as a JSON-ready list."""
    return [[list(action.choices), probability] for action, probability in support]


def decode_support(record: Any, action: Callable[[Any], Action]) -> Support:
    """The support that `encode_support` encoded; `action` returns the action with given choices."""
    return tuple([(action(choices), float(probability)) for choices, probability in record])


def closing_limits(numbers: Sequence[int], first_pending: int) -> list[int]:
    """For each of some decisions, in the order in which they were closed, the first that was still pending then.

    Past rows, with negative numbers, are no decisions.

    >>> closing_limits([1, 0, 2, -1], first_pending=5)
    [0, 2, 5, 5]
    """
    to_come = [number if number >= 0 else first_pending for number in numbers[1:]]
    limits = itertools.accumulate([first_pending, *to_come[::-1]], min) if numbers else ()
    return list(limits)[::-1]


class Resequencer:
    """The outcomes in the order of decisions.

    An outcome waits until every earlier decision has an outcome or is cancelled.

    >>> from causalbandits import zoo
    >>> do = zoo.email_campaign().problem.actions.action(0)
    >>> order = Resequencer()
    >>> order.add(Outcome(do, (0, 0, 0), 1.0, 1.0, number=1))
    >>> list(order.ready(pending={0}, n_decisions=2))
    []
    >>> [outcome.number for outcome in order.ready(pending=(), n_decisions=2)]
    [1]
    """

    def __init__(self, outcomes: Iterable[Outcome] = (), next_number: int = 0) -> None:
        self.next_number = next_number
        """The number of the next decision in order."""
        self._waiting = {outcome.number: outcome for outcome in outcomes if outcome.number >= next_number}

    def copy(self) -> Resequencer:
        """A copy with the same outcomes."""
        return Resequencer(self._waiting.values(), self.next_number)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The decisions whose outcomes wait for those of earlier decisions."""
        return tuple(self._waiting)

    def add(self, outcome: Outcome) -> None:
        """Add an outcome; past rounds (with negative numbers) are ignored, because they have no place in the order."""
        if outcome.number >= self.next_number:
            self._waiting[outcome.number] = outcome

    def ready(self, pending: Container[int], n_decisions: int) -> Iterator[Outcome]:
        """The outcomes whose turn has come, of `n_decisions` decisions, of which some are `pending`."""
        while self.next_number < n_decisions and self.next_number not in pending:
            outcome = self._waiting.pop(self.next_number, None)
            self.next_number += 1
            if outcome is not None:
                yield outcome
