"""The JSON format of responses: a service encodes the objects of a study, and a client decodes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from causalbandits import errors
from causalbandits.campaign import (
    ActionRow,
    ActionTable,
    Certainty,
    LearnedStructure,
    PastData,
    Recommendation,
    Recommendations,
)
from causalbandits.errors import CausalBanditsError
from causalbandits.model import Intervention
from causalbandits.policies import RunnerUp
from causalbandits.policies.changes import MechanismChange, MechanismChanges
from causalbandits.policies.robust import Alarm, Evidence, ModelClaim
from causalbandits.problem import Problem

SPELLINGS = (
    ("cb.forecast", "causalbandits forecast"),
    ("see check()", "see the misspecification test"),
    ("learn(rows, reward=...)", "`causalbandits study learn`"),
)
"""Texts that mention Python, and their equivalents for users of other interfaces."""

OPERATION = re.compile(r"\b(correct|retract|cancel)\((\d+)[^()]*\)")
"""A call in a message that changes the outcome of a decision; every interface has an operation with this name."""

RECOMMENDATION_FIELDS = tuple(
    part.name for part in fields(Recommendation) if part.name not in ("ranking", "intervention")
)

PROBLEM_TYPE_PREFIX = "/problems/"
"""The prefix of a problem's `type`, followed by its name; the service documents it at that path."""

ERRORS_BY_PROBLEM_TYPE: dict[str, type[CausalBanditsError]] = {
    "invalid-value": errors.CausalBanditsError,
    "not-applicable": errors.TellError,
    "invalid-outcome": errors.TellError,
    "unknown-variable": errors.InterventionError,
    "invalid-action": errors.InterventionError,
    "invalid-mode": errors.StudyModeError,
    "structure-not-learned": errors.PolicyError,
    "invalid-policy": errors.PolicyError,
    "invalid-problem": errors.ProblemError,
    "invalid-model": errors.ModelError,
    "invalid-budget": errors.BudgetError,
    "invalid-setting": errors.StateError,
    "invalid-data": errors.DataError,
    "not-identified": errors.NotIdentifiedError,
    "too-large-to-compute": errors.SizeError,
    "unknown-decision": errors.UnknownDecisionError,
    "conflict": errors.ConflictError,
    "study-mode": errors.StudyModeError,
    "budget-exhausted": errors.BudgetError,
    "storage-unavailable": errors.StorageError,
}
"""The error that a client raises for each type of problem details.

If two types have the same error, the service uses the last one.
"""


def decode_problem(status: int, body: Any) -> CausalBanditsError:
    """The error for problem details (RFC 9457); for any other body, an error with the HTTP status."""
    content = body if isinstance(body, dict) else {}
    name = str(content.get("type", "")).removeprefix(PROBLEM_TYPE_PREFIX)
    return ERRORS_BY_PROBLEM_TYPE.get(name, CausalBanditsError)(str(content.get("detail", f"HTTP {status}")))


def encode_recommendation(recommendation: Recommendation) -> dict[str, Any]:
    """A recommendation as a JSON-ready mapping.

    `stop`, `stop_reason` and `text` are for clients in other languages.
    """
    runner_up, past = recommendation.runner_up, recommendation.past
    certainty = recommendation.certainty._asdict()
    return {
        **{name: _encode_number(getattr(recommendation, name)) for name in RECOMMENDATION_FIELDS},
        "action": dict(recommendation.intervention),
        "runner_up": None
        if runner_up is None
        else {"action": dict(runner_up.action.intervention), "mean": runner_up.mean, "cost": runner_up.cost},
        "caveats": [without_python(caveat) for caveat in recommendation.caveats],
        "context": dict(recommendation.context),
        "certainty": {name: without_python(_encode_number(value)) for name, value in certainty.items()},
        "past": None if past is None else past._asdict(),
        "stop": recommendation.stop,
        "stop_reason": without_python(recommendation.stop_reason),
        "text": without_python(repr(recommendation)),
    }


def decode_recommendation(problem: Problem, record: Mapping[str, Any]) -> Recommendation:
    """The recommendation that `encode_recommendation` describes."""
    runner_up = record["runner_up"]
    certainty = _decode_numbers(record["certainty"])
    decoded: dict[str, Any] = {
        "intervention": Intervention(record["action"]),
        "runner_up": None
        if runner_up is None
        else RunnerUp(**{**runner_up, "action": problem.actions.find(runner_up["action"])}),
        "caveats": tuple(map(_with_python, record["caveats"])),
        "context": MappingProxyType(record["context"]),
        "certainty": Certainty(**{**certainty, "obstacle": _with_python(certainty["obstacle"])}),
        "past": None if record["past"] is None else PastData(**record["past"]),
    }
    plain_fields = {name: record[name] for name in RECOMMENDATION_FIELDS if name not in decoded}
    return Recommendation(**_decode_numbers(plain_fields), **decoded)


def without_python(value: Any) -> Any:
    """A text without Python expressions; other values are returned unchanged."""
    for python, plain in SPELLINGS:
        value = value.replace(python, plain) if isinstance(value, str) else value
    return value


def _with_python(text: str) -> str:
    for python, plain in SPELLINGS:
        text = text.replace(plain, python)
    return text


def encode_action_table(table: ActionTable) -> dict[str, Any]:
    """The ranking of all actions, or a page of it, as a JSON-ready mapping."""
    return {
        "items": table.to_dicts(),
        "total": table.n_ranked,
        "n_actions": table.n_actions,
        "confidence": table.confidence,
        "kind": table.kind,
        "tolerance": table.tolerance,
        "context": dict(table.context),
        "note": without_python(table.note),
    }


def decode_action_table(record: Mapping[str, Any]) -> ActionTable:
    """The table that `encode_action_table` describes."""
    rows = [ActionRow(**{**item, "action": Intervention(item["action"])}) for item in record["items"]]
    plain_fields = {name: record[name] for name in ("n_actions", "confidence", "kind", "tolerance", "note")}
    return ActionTable(
        rows=tuple(rows), n_ranked=record["total"], context=MappingProxyType(record["context"]), **plain_fields
    )


def encode_recommendations(recommendations: Recommendations) -> dict[str, Any]:
    """Recommendations for contexts as a JSON-ready mapping."""
    return {
        "contexts": [
            {"share": share, **encode_recommendation(recommendation)} for share, recommendation in recommendations
        ],
        "refused": [{"share": share, "why": why} for share, why in recommendations.refused],
    }


def encode_evidence(evidence: Evidence) -> dict[str, Any]:
    """Evidence as a JSON-ready mapping."""
    return {
        "claims": [{name: _encode_number(value) for name, value in item._asdict().items()} for item in evidence.claims],
        "alarms": [{name: _encode_number(value) for name, value in item._asdict().items()} for item in evidence.alarms],
        "rounds": evidence.rounds,
        "alpha": evidence.alpha,
        "later": evidence.later,
        "missing": evidence.missing,
        "text": repr(evidence),
    }


def decode_evidence(record: Mapping[str, Any]) -> Evidence:
    """The evidence that `encode_evidence` describes."""
    return Evidence(
        claims=tuple(ModelClaim(**_decode_numbers(item)) for item in record["claims"]),
        alarms=tuple(Alarm(**_decode_numbers(item)) for item in record["alarms"]),
        **{name: record[name] for name in ("rounds", "alpha", "later", "missing")},
    )


def encode_structure(structure: LearnedStructure) -> dict[str, Any]:
    """A learned structure as a JSON-ready mapping, which `LearnedStructure.from_record` reads."""
    return {**structure.to_record(), "text": repr(structure)}


def encode_changes(changes: MechanismChanges) -> dict[str, Any]:
    """Changes of mechanisms as a JSON-ready mapping."""
    return {**changes.to_record(), "text": repr(changes)}


def decode_changes(record: Mapping[str, Any]) -> MechanismChanges:
    """The changes that `encode_changes` describes."""
    mechanisms = {item["mechanism"]: item for item in record["mechanisms"]}
    return MechanismChanges(
        tuple(MechanismChange(**change) for change in record["changes"]),
        {name: item["bayes_factor"] for name, item in mechanisms.items()},
        {name: item["expression"] for name, item in mechanisms.items()},
        record["alpha"],
        record["threshold"],
        {name: item["outcomes"] for name, item in mechanisms.items()},
    )


INFINITE = ("inf", "-inf")
"""JSON does not have these numbers."""


def _encode_number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _decode_numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(value) if value in INFINITE else value for name, value in record.items()}
