"""Answers as they travel: what a service says of a study, and a client makes into the same objects again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from causalbandits.campaign import Certainty, Recommendation, Recommendations
from causalbandits.model import Intervention
from causalbandits.policies import RunnerUp
from causalbandits.policies.robust import Alarm, Evidence, ModelClaim
from causalbandits.problem import Problem


def recommendation_record(found: Recommendation) -> dict[str, Any]:
    """A recommendation, JSON-ready; `stop` and `text` are for those who do not make it into one again."""
    second = found.runner_up
    return {
        **{name: _number(value) for name, value in found._asdict().items()},
        "intervention": dict(found.intervention),
        "runner_up": None if second is None else [dict(second.action.intervention), second.mean, second.cost],
        "caveats": list(found.caveats),
        "context": dict(found.context),
        "certainty": {name: _number(value) for name, value in found.certainty._asdict().items()},
        "stop": found.stop,
        "text": repr(found),
    }


def recommendation_of(problem: Problem, record: Mapping[str, Any]) -> Recommendation:
    """The recommendation that `recommendation_record` describes."""
    second = record["runner_up"]
    made: dict[str, Any] = {
        "intervention": Intervention(record["intervention"]),
        "runner_up": None if second is None else RunnerUp(problem.actions.find(second[0]), *second[1:]),
        "caveats": tuple(record["caveats"]),
        "context": MappingProxyType(record["context"]),
        "certainty": Certainty(**_numbers(record["certainty"])),
    }
    given = {name: record[name] for name in Recommendation._fields if name not in made}
    return Recommendation(**_numbers(given), **made)


def recommendations_record(found: Recommendations) -> dict[str, Any]:
    """Recommendations for contexts, JSON-ready."""
    return {
        "contexts": [{"share": share, **recommendation_record(one)} for share, one in found],
        "refused": [{"share": share, "why": why} for share, why in found.refused],
    }


def recommendations_of(problem: Problem, record: Mapping[str, Any]) -> Recommendations:
    """The recommendations that `recommendations_record` describes."""
    pairs = [(one["share"], recommendation_of(problem, one)) for one in record["contexts"]]
    return Recommendations(pairs, [(one["share"], one["why"]) for one in record["refused"]])


def evidence_record(found: Evidence) -> dict[str, Any]:
    """Evidence, JSON-ready."""
    return {
        "claims": [{name: _number(value) for name, value in one._asdict().items()} for one in found.claims],
        "alarms": [{name: _number(value) for name, value in one._asdict().items()} for one in found.alarms],
        "rounds": found.rounds,
        "level": found.level,
        "later": found.later,
        "missing": found.missing,
        "text": repr(found),
    }


def evidence_of(record: Mapping[str, Any]) -> Evidence:
    """The evidence that `evidence_record` describes."""
    return Evidence(
        claims=tuple(ModelClaim(**_numbers(one)) for one in record["claims"]),
        alarms=tuple(Alarm(**_numbers(one)) for one in record["alarms"]),
        **{name: record[name] for name in ("rounds", "level", "later", "missing")},
    )


INFINITE = ("inf", "-inf")
"""JSON has no such numbers."""


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(value) if value in INFINITE else value for name, value in record.items()}
