"""JSON types of the library's records, derived from the record classes.

They document responses (OpenAPI) and are never used for decoding, so that new fields of a class are documented
automatically.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from causalbandits.campaign import Certainty, Recommendation
from causalbandits.model import Intervention, Variable
from causalbandits.policies.changes import MechanismChange
from causalbandits.policies.robust import Evidence
from causalbandits.study import EarlyOutcome, OutcomeSummary, RemovedOutcome, Rules, StudyReport
from causalbandits.study.storage import ModeRecord

State = str | int | float | bool | list[Any] | None
"""A variable's value."""

Assignment = dict[str, State]
Number = float | Literal["inf", "-inf"]
"""JSON has no infinite numbers."""

NOT_ENCODED = ("ranking", "intervention")
"""Fields of the library's records that are not sent, or have another name in JSON: `action`."""

_Field = tuple[str, Any]


def struct(name: str, description: str, /, **fields: Any) -> Any:
    """A struct class for the documentation."""
    kind = msgspec.defstruct(name, list(fields.items()), forbid_unknown_fields=True)
    kind.__doc__ = description
    return kind


def record_struct(name: str, kind: Any, description: str, /, **changes: Any) -> Any:
    """A struct with the fields of a named tuple or data class as in JSON; `changes` add fields or replace types."""
    hints = get_type_hints(kind)
    names = kind._fields if hasattr(kind, "_fields") else [field.name for field in dataclasses.fields(kind)]
    names = [name for name in names if name not in NOT_ENCODED]
    fields = {field: changes[field] if field in changes else json_type(hints[field]) for field in names}
    return struct(name, description, **{**fields, **changes})


def json_type(hint: Any) -> Any:
    """The type of a value in JSON.

    >>> json_type(tuple[str, ...]), json_type(tuple[int, ...] | None)
    (list[str], typing.Optional[list[int]])
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Intervention or origin is Mapping or hint is Mapping or origin is dict:
        of_values = json_type(arguments[1]) if arguments else Any
        return Assignment if hint is Intervention or of_values is Any else dict[str, of_values]  # type: ignore[valid-type]
    if hint is float:
        return Number
    if hint == get_type_hints(Variable.code)["state"]:
        return State
    if origin in (UnionType, typing.Union):
        return typing.Union[tuple(json_type(argument) for argument in arguments)]  # noqa: UP007
    if origin in (tuple, list):
        of_items = json_type(arguments[0])
        return list[of_items]  # type: ignore[valid-type]
    return _nested_struct(hint) if hasattr(hint, "_fields") or dataclasses.is_dataclass(hint) else hint


@functools.cache
def _nested_struct(kind: Any) -> Any:
    """The struct of a nested record: one per class, because OpenAPI names it once."""
    return record_struct(kind.__name__, kind, " ".join((kind.__doc__ or "").split("\n\n")[0].split()))


ProblemRecord = dict[str, Any]

PolicyRecord = struct(
    "PolicyRecord",
    "A policy: its id and parameters. Policies with equal `identity` make equal decisions.",
    **{"class": str, "id": str, "parameters": dict[str, Any], "identity": str},
)
StudyDescription = struct(
    "StudyDescription",
    "A study: its problem, the policy that decides, its rules.",
    problem=ProblemRecord,
    policy=PolicyRecord,
    rules=record_struct("Rules", Rules, "The rules of a study, fixed when it was created."),
)
SummaryRecord = record_struct(
    "OutcomeSummary", OutcomeSummary, "The number of outcomes, their mean and its standard error."
)
_SUMMARY_FIELDS: dict[str, Any] = {"n": int, "mean": float | None, "standard_error": float | None}
ReportRecord = record_struct(
    "StudyReport",
    StudyReport,
    "Counts and means of a study.",
    outcomes=SummaryRecord,
    actions=list[struct("ActionSummary", "The outcomes of an action.", action=Assignment, **_SUMMARY_FIELDS)],  # type: ignore[misc]
    configurations=list[  # type: ignore[misc]
        struct("ConfigurationSummary", "The outcomes with these values.", parents=Assignment, **_SUMMARY_FIELDS)
    ],
    incomplete=record_struct(
        "IncompleteOutcomes",
        get_type_hints(StudyReport)["incomplete"],
        "Incomplete outcomes: values that the policy requires are missing.",
        text=str,
    ),
)
_RECOMMENDATION_FIELDS: dict[str, Any] = {
    "action": Assignment,
    "runner_up": struct(
        "RunnerUp",
        "The second best action so far, its mean reward (costs not subtracted), and its cost.",
        action=Assignment,
        mean=Number,
        cost=Number,
    )
    | None,
    "certainty": record_struct(
        "Certainty", Certainty, ("Probability that the action is the best, expected loss and stopping rule.")
    ),
    "stop": bool | None,
    "stop_reason": str,
    "text": str,
}
RecommendationRecord = record_struct(
    "Recommendation",
    Recommendation,
    "The best action so far, its mean reward and an interval.",
    **_RECOMMENDATION_FIELDS,
)
RecommendationsRecord = struct(
    "Recommendations",
    "The recommendation in each context, the most probable contexts first.",
    contexts=list[  # type: ignore[misc]
        record_struct(
            "ContextRecommendation",
            Recommendation,
            "A context, its probability and the recommendation there.",
            share=float,
            **_RECOMMENDATION_FIELDS,
        )
    ],
    refused=list[struct("ContextWithoutAction", "A context without an allowed action.", share=float, why=str)],  # type: ignore[misc]
)
EvidenceRecord = record_struct("Evidence", Evidence, "The evidence against each claim of the model.", text=str)
StructureRecord = struct(
    "Structure",
    "The causal structure learned so far. An edge says that its cause is in the parent set of its effect. The parent "
    "set of the reward separates the actions from the reward. Its variables need not cause the reward.",
    reward=str,
    outcomes=int,
    unused=int,
    must_observe=list[str],
    variables=list[  # type: ignore[misc]
        struct(
            "StructureVariable",
            "A variable before the reward.",
            variable=str,
            role=Literal["context", "manipulable", "observed"],
            values=list[State],
        )
    ],
    edges=list[struct("StructureEdge", "A possible edge.", cause=str, effect=str, probability=float)],  # type: ignore[misc]
    parent_sets=list[  # type: ignore[misc]
        struct(
            "ParentSets",
            "The likeliest parent sets of a variable.",
            variable=str,
            likeliest=list[struct("ParentSet", "A candidate parent set.", parents=list[str], probability=float)],  # type: ignore[misc]
        )
    ],
    text=str,
)
ChangesRecord = struct(
    "MechanismChanges",
    "The changes of mechanisms so far, and the evidence for further ones.",
    changes=list[record_struct("MechanismChange", MechanismChange, "A change of a mechanism.")],  # type: ignore[misc]
    mechanisms=list[  # type: ignore[misc]
        struct(
            "WatchedMechanism",
            "A mechanism, its Bayes factor of a further change, and its number of outcomes since the last change.",
            mechanism=str,
            expression=str,
            bayes_factor=float,
            outcomes=int,
        )
    ],
    alpha=float,
    threshold=float,
    text=str,
)
EventRecord = struct(
    "Event",
    "An event in the log: an outcome, a correction, an expiry and so on. `mechanism` is the changed one of a report.",
    id=str,
    number=int,
    decision=int,
    kind=str,
    z=list[int] | None,
    reward=float | None,
    observed=dict[str, int] | None,
    mechanism=str | None,
    at=float,
    by=str | None,
)
PolicyItem = struct(
    "PolicyChange",
    "A policy, its first decision and event, and the name of the person or key that chose it.",
    version=int,
    policy=str,
    record=PolicyRecord,
    since_decision=int,
    since_event=int,
    at=float,
    by=str,
)
EarlyOutcomeItem = record_struct(
    "EarlyOutcome", EarlyOutcome, "A stored outcome that was reported before its decision."
)
RemovedOutcomeItem = record_struct(
    "RemovedOutcome", RemovedOutcome, "An outcome that was removed before its decision was made."
)
ModeItem = record_struct(
    "Mode",
    ModeRecord,
    ("A mode, its start, the name of the person or key that set it, and the reason."),
    baseline=Assignment | None,
)
StatisticRecord = struct(
    "StatisticLine",
    "The outcomes of a context, an action and a configuration.",
    context=Assignment,
    action=Assignment,
    parents=Assignment | None,
    **_SUMMARY_FIELDS,
)
ExplanationRecord = struct(
    "Explanation",
    "A decision: the request, the action, the outcome so far, and the result of its recomputation.",
    id=str,
    number=int,
    key=str | None,
    context=Assignment,
    eligible=list[Assignment] | None,
    action=Assignment,
    propensity=float | None,
    support=list[tuple[Assignment, float | None]] | None,
    policy=PolicyRecord,
    asked=float,
    due=float | None,
    status=str,
    parents=Assignment | None,
    reward=float | None,
    missing=list[str],
    from_events=int,
    events=list[EventRecord],  # type: ignore[valid-type]
    mode=str,
    unit=str | None,
    arm=str | None,
    repeats=int | None,
    would=Assignment | None,
    leads_to=list[  # type: ignore[misc]
        struct(
            "PredictedConfiguration",
            "Predicted values of the reward's parents under the action.",
            parents=Assignment,
            probability=float,
            n=int,
            mean=float | None,
        )
    ],
    comes_out_again=bool,
    stranded=str | None,
)
OpenAPIDocument = struct(
    "OpenAPIDocument",
    "An OpenAPI 3.1 document.",
    openapi=str,
    info=dict[str, Any],
    paths=dict[str, Any],
    components=dict[str, Any],
    servers=list[dict[str, Any]],
    tags=list[dict[str, Any]],
)


def page_struct(name: str, item: Any) -> Any:
    """A page of a list: `items`, and the address of the next page, relative to that of the list."""
    return struct(name, "A page of a list; `next` is null on the last one.", items=list[item], next=str | None)


StudyItem = struct("StudyItem", "A study that is served.", study=str)
StudyPage = page_struct("StudyPage", StudyItem)
EventPage = page_struct("EventPage", EventRecord)
StatisticPage = page_struct("StatisticPage", StatisticRecord)
EarlyOutcomePage = page_struct("EarlyOutcomePage", EarlyOutcomeItem)
RemovedOutcomePage = page_struct("RemovedOutcomePage", RemovedOutcomeItem)
PolicyPage = page_struct("PolicyPage", PolicyItem)
ModePage = page_struct("ModePage", ModeItem)
