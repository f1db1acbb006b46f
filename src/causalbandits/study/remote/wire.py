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


def encode_recommendation(recommendation: Recommendation) -> dict[str, Any]:
    """A recommendation, JSON-ready; `stop` and `text` are for those who do not make it into one again."""
    runner_up = recommendation.runner_up
    return {
        **{name: _encode_number(value) for name, value in recommendation._asdict().items()},
        "intervention": dict(recommendation.intervention),
        "runner_up": None
        if runner_up is None
        else [dict(runner_up.action.intervention), runner_up.mean, runner_up.cost],
        "caveats": list(recommendation.caveats),
        "context": dict(recommendation.context),
        "certainty": {name: _encode_number(value) for name, value in recommendation.certainty._asdict().items()},
        "stop": recommendation.stop,
        "text": repr(recommendation),
    }


def decode_recommendation(problem: Problem, record: Mapping[str, Any]) -> Recommendation:
    """The recommendation that `encode_recommendation` describes."""
    runner_up = record["runner_up"]
    decoded: dict[str, Any] = {
        "intervention": Intervention(record["intervention"]),
        "runner_up": None if runner_up is None else RunnerUp(problem.actions.find(runner_up[0]), *runner_up[1:]),
        "caveats": tuple(record["caveats"]),
        "context": MappingProxyType(record["context"]),
        "certainty": Certainty(**_decode_numbers(record["certainty"])),
    }
    plain_fields = {name: record[name] for name in Recommendation._fields if name not in decoded}
    return Recommendation(**_decode_numbers(plain_fields), **decoded)


def encode_recommendations(recommendations: Recommendations) -> dict[str, Any]:
    """Recommendations for contexts, JSON-ready."""
    return {
        "contexts": [
            {"share": share, **encode_recommendation(recommendation)} for share, recommendation in recommendations
        ],
        "refused": [{"share": share, "why": why} for share, why in recommendations.refused],
    }


def decode_recommendations(problem: Problem, record: Mapping[str, Any]) -> Recommendations:
    """The recommendations that `encode_recommendations` describes."""
    pairs = [(item["share"], decode_recommendation(problem, item)) for item in record["contexts"]]
    return Recommendations(pairs, [(item["share"], item["why"]) for item in record["refused"]])


def encode_evidence(evidence: Evidence) -> dict[str, Any]:
    """Evidence, JSON-ready."""
    return {
        "claims": [{name: _encode_number(value) for name, value in item._asdict().items()} for item in evidence.claims],
        "alarms": [{name: _encode_number(value) for name, value in item._asdict().items()} for item in evidence.alarms],
        "rounds": evidence.rounds,
        "level": evidence.level,
        "later": evidence.later,
        "missing": evidence.missing,
        "text": repr(evidence),
    }


def decode_evidence(record: Mapping[str, Any]) -> Evidence:
    """The evidence that `encode_evidence` describes."""
    return Evidence(
        claims=tuple(ModelClaim(**_decode_numbers(item)) for item in record["claims"]),
        alarms=tuple(Alarm(**_decode_numbers(item)) for item in record["alarms"]),
        **{name: record[name] for name in ("rounds", "level", "later", "missing")},
    )


INFINITE = ("inf", "-inf")
"""JSON has no such numbers."""


def _encode_number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _decode_numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(value) if value in INFINITE else value for name, value in record.items()}
