"""What an agent was told, in the order of telling: its state is a fold of these outcomes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from causalbandits._types import Z
from causalbandits.errors import StateError
from causalbandits.policies.outcome import NOTHING, Outcome, Support
from causalbandits.problem.actions import Action
from causalbandits.problem.problem import CausalBandit


class Ledger:
    """Outcomes by the number of their decision; what one of them was can be corrected or taken back.

    Columns take 48 bytes an outcome. Actions and configurations are kept once, and referred to by their place.
    """

    def __init__(self) -> None:
        self._number, self._action, self._z = (array("q") for _ in range(3))
        self._reward, self._successes, self._propensity = (array("d") for _ in range(3))
        self._actions: dict[Action, int] = {}
        self._configurations: dict[Z, int] = {}
        self._supports: dict[int, Support] = {}
        self._observed: dict[int, Mapping[str, int]] = {}

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[Outcome]:
        actions, configurations = list(self._actions), list(self._configurations)
        for row in range(len(self)):
            yield self._outcome(row, actions, configurations)

    def __getitem__(self, number: int) -> Outcome:
        """What was told of a decision; a KeyError if nothing was."""
        return self._outcome(self._row(number), list(self._actions), list(self._configurations))

    def _row(self, number: int) -> int:
        try:
            return self._number.index(number)
        except ValueError:
            raise KeyError(number) from None

    def _outcome(self, row: int, actions: list[Action], configurations: list[Z]) -> Outcome:
        number, propensity = self._number[row], self._propensity[row]
        return Outcome(
            actions[self._action[row]],
            configurations[self._z[row]],
            self._reward[row],
            self._successes[row],
            number,
            None if math.isnan(propensity) else propensity,
            self._supports.get(number),
            self._observed.get(number, NOTHING),
        )

    def add(self, outcome: Outcome) -> None:
        """One more outcome."""
        self._number.append(outcome.number)
        self._action.append(self._actions.setdefault(outcome.action, len(self._actions)))
        self._z.append(self._configurations.setdefault(outcome.z, len(self._configurations)))
        self._reward.append(outcome.reward)
        self._successes.append(outcome.successes)
        self._propensity.append(math.nan if outcome.propensity is None else outcome.propensity)
        if outcome.support is not None:
            self._supports[outcome.number] = outcome.support
        if outcome.observed:
            self._observed[outcome.number] = outcome.observed

    def replace(self, outcome: Outcome) -> None:
        """Another outcome of the same decision, in the place of the one that was told."""
        row = self._row(outcome.number)
        self._z[row] = self._configurations.setdefault(outcome.z, len(self._configurations))
        self._reward[row], self._successes[row] = outcome.reward, outcome.successes
        self._observed.pop(outcome.number, None)
        if outcome.observed:
            self._observed[outcome.number] = outcome.observed

    def remove(self, number: int) -> None:
        """As if the outcome of this decision had never been told."""
        row = self._row(number)
        for column in (self._number, self._action, self._z, self._reward, self._successes, self._propensity):
            del column[row]
        self._supports.pop(number, None)
        self._observed.pop(number, None)

    def to_record(self) -> dict[str, Any]:
        """JSON-ready; every number keeps all its bits."""
        return {
            "number": self._number.tolist(),
            "action": self._action.tolist(),
            "z": self._z.tolist(),
            "reward": self._reward.tolist(),
            "successes": self._successes.tolist(),
            "propensity": [None if math.isnan(p) else p for p in self._propensity],
            "actions": [list(action.choices) for action in self._actions],
            "configurations": [list(z) for z in self._configurations],
            "supports": {str(number): support_record(support) for number, support in self._supports.items()},
            "observed": {str(number): dict(observed) for number, observed in self._observed.items()},
        }

    @classmethod
    def from_record(cls, record: Any, problem: CausalBandit) -> Ledger:
        """The ledger that `to_record` describes."""
        ledger = cls()
        try:
            actions = [action_at(problem, choices) for choices in record["actions"]]
            configurations = [tuple(map(int, z)) for z in record["configurations"]]
            supports = {int(number): support_of(problem, given) for number, given in record["supports"].items()}
            observed = {int(number): dict(given) for number, given in record["observed"].items()}
            columns = (record[name] for name in ("number", "action", "z", "reward", "successes", "propensity"))
            for number, action, z, reward, successes, propensity in zip(*columns, strict=True):
                outcome = Outcome(actions[action], configurations[z], reward, successes, number, propensity)
                more = supports.get(number), observed.get(number, NOTHING)
                ledger.add(outcome._replace(support=more[0], observed=more[1]))
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise StateError(f"The saved outcomes are corrupted: {error!r}.") from None
        return ledger


def action_at(problem: CausalBandit, choices: Any) -> Action:
    """The action with these choices, from a file."""
    return problem.actions.action(problem.actions.rank([int(choice) for choice in choices]))


def support_record(support: Support) -> list[Any]:
    """A support, JSON-ready."""
    return [[list(action.choices), probability] for action, probability in support]


def support_of(problem: CausalBandit, record: Any) -> Support:
    """The support that `support_record` describes."""
    return tuple((action_at(problem, choices), float(probability)) for choices, probability in record)
