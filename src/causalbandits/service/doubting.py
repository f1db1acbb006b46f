"""The warning light of a study's page: do outcomes contradict the graph, or its tables?"""

from __future__ import annotations

from typing import NamedTuple

from causalbandits.study import Study


class Doubts(NamedTuple):
    """What speaks against the model: in words, and the variables that are named; of how many claims and outcomes."""

    found: list[str]
    variables: frozenset[str]
    claims: int
    outcomes: int


def doubts_of(study: Study) -> Doubts | None:
    """By now; None where there is no model to doubt: where a number is learnt for each action."""
    if not study.problem.parents:
        return None
    check = study.quick_check()
    wrong = check.contradicted
    named = frozenset(name for one in wrong for name in one.variables)
    words = [f"{one.claim} (p = {one.p:.2g}, strength {one.strength:.2g})" for one in wrong]
    return Doubts(words, named, len(check.findings) - len(check.thin), check.rows)
