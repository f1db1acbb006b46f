"""Comparison of bounds: the frequentist ones and, separately, the Bayesian ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from causalbandits._tables import decimal_places, format_table, import_pandas
from causalbandits.environments import Environment
from causalbandits.errors import PolicyError
from causalbandits.policies import (
    AnyPolicy,
    Policies,
    name_policies,
    resolve_policy,
    validate_parents,
)
from causalbandits.problem import Problem
from causalbandits.theory.assumptions import Facts
from causalbandits.theory.bound import Bound, validate_horizon
from causalbandits.theory.policy_bounds import WITH_BOUND, derive_bound

if TYPE_CHECKING:
    import pandas

MEANING = {
    "frequentist": "Frequentist: in every environment that meets the assumptions",
    "Bayesian": "Bayesian: on average over environments drawn from the policy's prior",
}


class PolicyBound(NamedTuple):
    """The bound of one policy."""

    kind: str
    policy: str
    bound: float
    vacuous: bool
    broken: tuple[str, ...]
    horizon: int


class Comparison(tuple[PolicyBound, ...]):
    """A table of regret bounds, frequentist ones first; it prints as one table per kind.

    >>> from causalbandits import zoo
    >>> table = compare(zoo.email_campaign(), 100_000, policies=["c-ucb"])
    >>> table[0].policy, table[0].vacuous
    ('c-ucb', False)
    """

    def __repr__(self) -> str:
        parts = [self._group(kind) for kind in MEANING if any(row.kind == kind for row in self)]
        notes = [f"* {row.policy}: {' '.join(row.broken)}" for row in self if row.broken]
        return "\n\n".join(parts + (["\n".join(notes)] if notes else []))

    __str__ = __repr__

    def _group(self, kind: str) -> str:
        rows = [row for row in self if row.kind == kind]
        digits = decimal_places([row.bound for row in rows])
        body = [(row.policy + "*" * bool(row.broken), f"{row.bound:.{digits}f}", _format_remark(row)) for row in rows]
        return f"{MEANING[kind]}\n{format_table(('policy', f'bound at T = {rows[0].horizon}', ''), body)}"

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas DataFrame."""
        return import_pandas().DataFrame(list(self), columns=list(PolicyBound._fields))


def _format_remark(row: PolicyBound) -> str:
    return "vacuous: not below T Delta_max" if row.vacuous else ""


def compare(
    problem: Problem | Environment,
    horizon: int,
    *,
    policies: Policies | None = None,
    largest_gap: float | None = None,
) -> Comparison:
    """Compare the regret bounds of policies after `horizon` rounds.

    A bound is vacuous if it is no smaller than T Delta_max; a star marks violated assumptions.

    >>> from causalbandits import zoo
    >>> compare(zoo.email_campaign(), 100_000, policies=["c-ucb", "ucb", "c-ts(prior=beta)"])
    Frequentist: in every environment that meets the assumptions
    policy  bound at T = 100000
    ...

    Args:
        problem: The problem, or an environment, whose facts are then checked against the assumptions.
        horizon: The number of rounds, at least 2.
        policies: The policies, as for `simulate`. Default: all policies with a bound.
        largest_gap: The largest gap Delta_max of the frequentist bounds. Default: the environment's, or 1 for a
            problem.

    Returns:
        The table.

    Raises:
        CausalBanditsError: If `horizon` is out of range.
        PolicyError: If a policy has no bound.
    """
    validate_horizon(horizon)
    facts = Facts.of(problem)
    gap = 1.0 if largest_gap is None and facts.environment is None else largest_gap
    rows = []
    for name, policy in name_policies(WITH_BOUND if policies is None else policies).items():
        try:
            bound = _comparable_bound(resolve_policy(facts.problem, policy), facts, gap)
        except PolicyError:
            if policies is not None:
                raise
            continue
        value, vacuous = bound.at(horizon), bound.vacuous(horizon)
        rows.append(PolicyBound(bound.kind, name, value, vacuous, bound.broken, int(horizon)))
    return Comparison(sorted(rows, key=lambda row: list(MEANING).index(row.kind)))


def _comparable_bound(policy: AnyPolicy, facts: Facts, gap: float | None) -> Bound:
    validate_parents(policy, facts.problem)
    bound = derive_bound(policy, facts, gap)
    return bound if bound.kind == "frequentist" else derive_bound(policy, facts, None)
