"""Changes of mechanisms as users read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from causalbandits._typing import is_real
from causalbandits.errors import PolicyError, short_repr
from causalbandits.policies.changes.tracker import ChangeRow, ChangeTracker
from causalbandits.problem import Problem

DEFAULT_FALSE_ALARM_RATE = 0.05
"""The level of `changes=True`."""


def tracker_of(statistic: Any) -> ChangeTracker | None:
    """The change tracker of a policy's statistic; None if the policy does not follow changes."""
    tracker: ChangeTracker | None = getattr(statistic, "tracker", None)
    return tracker


def require_tracker(policy_id: str, statistic: Any) -> ChangeTracker:
    """The change tracker of a policy's statistic; an error if the policy does not follow changes."""
    tracker = tracker_of(statistic)
    if tracker is None:
        raise PolicyError(
            f"The policy {policy_id!r} assumes that no mechanism changes. Create the campaign with changes=True, or "
            "use a policy with the option changes=, such as 'c-ts(cpts=learned, changes=0.05)'."
        )
    return tracker


def parse_false_alarm_rate(value: object) -> float:
    """The level of change detection: True stands for the default."""
    if value is True:
        return DEFAULT_FALSE_ALARM_RATE
    if not is_real(value) or not 1e-9 <= value <= 0.5:
        raise PolicyError(
            "changes= takes True, or the probability of a false alarm, from 1e-9 to 0.5; got "
            f"{value!r}. Leave it out to assume that nothing changes."
        )
    return float(value)


@dataclass(frozen=True)
class MechanismChange:
    """A change of a mechanism.

    Attributes:
        mechanism: The variable whose CPT changed, or the reward.
        decision: The first decision after the likeliest time of the change.
        earliest: The first decision of a range that contains the change with probability 0.9.
        latest: The last decision of that range.
        noticed: The first decision that was made with the knowledge of the change.
        bayes_factor: The Bayes factor of a change against no change; None if the change was reported.
        restarted: The number of rows with outcomes whose earlier outcomes no longer count; where parents are not known,
            rows of the likeliest parent set.
        kept: The number of such rows that keep all of their outcomes.
    """

    mechanism: str
    decision: int
    earliest: int
    latest: int
    noticed: int
    bayes_factor: float | None
    restarted: int
    kept: int

    @property
    def is_reported(self) -> bool:
        """Whether the user reported the change."""
        return self.bayes_factor is None

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready form.

        Returns:
            The attributes by name.
        """
        return dict(vars(self))


@dataclass(frozen=True)
class MechanismChanges:
    """The changes of mechanisms so far, and the evidence for further ones; it prints as text.

    Attributes:
        changes: The changes in the order in which they were noticed.
        bayes_factors: The current Bayes factor of a further change, by mechanism.
        mechanisms: The expression of each mechanism, such as "P(subject | purpose)", by name.
        alpha: The probability of a false alarm between two changes, averaged over the prior.
        threshold: The Bayes factor at which a change is reported.
        outcomes: The number of outcomes of each mechanism since its last change.
    """

    changes: tuple[MechanismChange, ...]
    bayes_factors: dict[str, float]
    mechanisms: dict[str, str]
    alpha: float
    threshold: float
    outcomes: dict[str, int]

    def of(self, mechanism: str) -> tuple[MechanismChange, ...]:
        """The changes of one mechanism.

        Args:
            mechanism: The variable whose CPT is meant, or the reward.

        Returns:
            Its changes.

        Raises:
            PolicyError: If the mechanism is not watched.
        """
        if mechanism not in self.mechanisms:
            raise PolicyError(
                f"{mechanism!r} is no mechanism that is watched for changes; these are "
                f"{', '.join(map(repr, self.mechanisms))}."
            )
        return tuple(change for change in self.changes if change.mechanism == mechanism)

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready form.

        Returns:
            The changes, and the evidence by mechanism.
        """
        return {
            "changes": [change.to_record() for change in self.changes],
            "mechanisms": [
                {
                    "mechanism": name,
                    "expression": expression,
                    "bayes_factor": self.bayes_factors[name],
                    "outcomes": self.outcomes[name],
                }
                for name, expression in self.mechanisms.items()
            ],
            "alpha": self.alpha,
            "threshold": self.threshold,
        }

    def __repr__(self) -> str:
        lines = []
        for name, expression in self.mechanisms.items():
            lines += [format_change(expression, change) for change in self.of(name)]
            since = "since then" if self.of(name) else "in"
            lines.append(
                f"{expression}: no {'further ' if self.of(name) else ''}change seen {since} "
                f"{self.outcomes[name]} outcomes (Bayes factor {_format_factor(self.bayes_factors[name])}, "
                f"alarm at {_format_factor(self.threshold)})"
            )
        return "\n".join(lines)


def _format_factor(factor: float) -> str:
    return f"{factor:.2g}" if factor < 100 else f"{factor:.0f}" if factor < 1e6 else f"{factor:.1e}"


def format_change(expression: str, change: MechanismChange) -> str:
    """A change as a sentence."""
    rows = f"{change.restarted} of {change.restarted + change.kept} rows start anew"
    if change.bayes_factor is None:
        return f"{expression} was reported as changed before decision {change.decision}; {rows}"
    return (
        f"{expression} changed near decision {change.decision} ({change.earliest} to {change.latest}), noticed at "
        f"decision {change.noticed} (Bayes factor {_format_factor(change.bayes_factor)}); {rows}"
    )


def mechanism_expressions(problem: Problem, tracker: ChangeTracker) -> dict[str, str]:
    """The expression of each watched mechanism, by name."""
    *cpts, reward = tracker.layout.mechanisms
    causes = tracker.layout.reward_causes
    if causes is None:
        return {mechanism.name: f"{mechanism.name} given its parents" for mechanism in tracker.layout.mechanisms}
    expressions = {}
    for mechanism in cpts:
        parents = problem.model[mechanism.name].parents
        condition = f" | {', '.join(parents)}" if parents else ""
        expressions[mechanism.name] = f"P({mechanism.name}{condition})"
    expressions[reward.name] = f"{reward.name} given {', '.join(causes) or 'the action'}"
    return expressions


def _change_of(tracker: ChangeTracker, row: ChangeRow) -> MechanismChange:
    factor = None if row.reported else math.exp(min(row.log_bayes_factor, 700.0))
    name = tracker.layout.mechanisms[row.mechanism].name
    return MechanismChange(name, row.decision, row.earliest, row.latest, row.noticed, factor, row.restarted, row.kept)


def describe_change(problem: Problem, tracker: ChangeTracker, row: ChangeRow) -> str:
    """The message about a change that was just noticed."""
    change = _change_of(tracker, row)
    return format_change(mechanism_expressions(problem, tracker)[change.mechanism], change)


def find_mechanism(tracker: ChangeTracker, name: object) -> int:
    """The number of a mechanism, by the name of its variable."""
    names = [mechanism.name for mechanism in tracker.layout.mechanisms]
    if not isinstance(name, str) or name not in names:
        raise PolicyError(
            f"{short_repr(name)} is no mechanism that can start anew. These can: {', '.join(map(repr, names))}."
        )
    return names.index(name)


def report_changes(problem: Problem, tracker: ChangeTracker) -> MechanismChanges:
    """All changes, and the current evidence."""
    names: Sequence[str] = [mechanism.name for mechanism in tracker.layout.mechanisms]
    logs = [tracker.detector.log_bayes_factor(mechanism) for mechanism in range(len(names))]
    factors = [math.exp(min(log, 700.0)) for log in logs]
    return MechanismChanges(
        tuple(_change_of(tracker, row) for row in tracker.change_rows),
        dict(zip(names, factors, strict=True)),
        mechanism_expressions(problem, tracker),
        tracker.alpha,
        len(names) / tracker.alpha,
        dict(zip(names, tracker.detector.outcomes.tolist(), strict=True)),
    )
