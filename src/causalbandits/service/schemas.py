"""Schemas of requests and responses, from which bodies are decoded and encoded and the OpenAPI document is built.

Requests are decoded strictly: unknown fields and wrong types are refused before any change.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from causalbandits.study import Status

Value = str | int | float | bool


class AskRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request for a decision, or for several."""

    n: Annotated[
        int | None, Meta(description=("The number of decisions, at most 1,000. The response has them in `items`."))
    ] = None
    key: Annotated[
        str | None,
        Meta(
            description=(
                "Idempotency key, one for each exposure, such as an order or a page view. A repeated request with "
                "the same key returns the same response."
            )
        ),
    ] = None
    unit: Annotated[
        str | None,
        Meta(description="The visitor, patient or machine. Later decisions for the unit repeat its latest action."),
    ] = None
    sticky: Annotated[bool, Meta(description="Whether the action of the unit's latest decision is repeated.")] = True
    context: Annotated[dict[str, Value] | None, Meta(description="The values of context variables.")] = None
    eligible: Annotated[
        list[dict[str, Value]] | None,
        Meta(description="Assignments; the action agrees with one of them. If left out, all actions are eligible."),
    ] = None


class OutcomeItem(msgspec.Struct, forbid_unknown_fields=True):
    """An outcome of a decision. Values that become known later are sent later, with the same `id`."""

    id: Annotated[
        int | str,
        Meta(description="The decision's `id` or `key`, or its number in the current log (an integer)."),
    ]
    reward: Annotated[int | float | None, Meta(description="The reward; null if it is not known yet.")]
    observed: Annotated[
        dict[str, Value | None] | None,
        Meta(description="The values of observed variables. Variables that the decision set can be left out."),
    ] = None


class TellRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, 1,000 at most."""

    items: list[OutcomeItem]


class RawTellRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, at most 1,000. Each is decoded separately, so that an invalid one does not affect the others."""

    items: list[msgspec.Raw]


class CorrectRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The outcome that replaces the reported one."""

    reward: int | float
    observed: dict[str, Value | None] | None = None
    """If it is omitted, the values observed so far are kept; otherwise it replaces all of them."""


class CreateStudyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A new study: the specification of its problem, its policy and its rules."""

    name: Annotated[str, Meta(description="At most 64 characters from small letters, digits, - and _.")]
    problem: dict[str, Any]
    policy: Annotated[
        str | None,
        Meta(description='The policy, such as "c-ts(prior=beta)". Default: the default policy of the problem.'),
    ] = None
    parameters: Annotated[dict[str, Value], Meta(description="Further options of the policy.")] = {}
    horizon: Annotated[int | None, Meta(description="The planned number of decisions.")] = None
    seed: Annotated[int | None, Meta(description="Default: a random seed, which the study stores.")] = None
    attribution_window: Annotated[
        float | None,
        Meta(description="Outcome timeout in seconds; `expire` then assigns the default reward."),
    ] = None
    default_reward: Annotated[
        float | None, Meta(description="The reward of a decision without an outcome after the attribution window.")
    ] = None
    late_outcomes: Annotated[
        Literal["apply", "ignore"],
        Meta(
            description=(
                "Whether outcomes after the attribution window replace the default reward (apply) or are only "
                "recorded (ignore)."
            )
        ),
    ] = "apply"
    zero_probability: Annotated[
        Literal["raise", "allow"],
        Meta(
            description=(
                "Whether observed values that have probability 0 in the model are rejected (raise) or accepted (allow)."
            )
        ),
    ] = "raise"
    budget: Annotated[
        tuple[float, int] | None, Meta(description="The total budget and the number of decisions that it must last.")
    ] = None
    hold_until_window: Annotated[
        bool, Meta(description=("Whether updates are delayed until the attribution window has passed."))
    ] = False
    min_propensity: Annotated[
        float, Meta(description=("The probability that is spread uniformly over all actions."))
    ] = 0.0
    holdout: Annotated[float, Meta(description="The share of units in the control group.")] = 0.0
    baseline: Annotated[dict[str, Value] | None, Meta(description="The action of the control group.")] = None
    changes: Annotated[
        bool | float | None,
        Meta(
            description=(
                "Whether mechanisms may change: true, or the probability of a false alarm, such as 0.05. Each "
                "mechanism is then tested for a change with every outcome, and a changed one starts anew. If left out, "
                "mechanisms are assumed to stay the same."
            )
        ),
    ] = None


class ReportChangeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The mechanism that has changed."""

    mechanism: Annotated[
        str, Meta(description="The variable whose conditional probability table changed, or the reward.")
    ]


class SetPolicyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The new policy of the study."""

    policy: str
    parameters: dict[str, Value | None] = {}


class RecommendRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The best action so far: the `confidence` of its interval, and the acceptable loss in mean reward."""

    context: dict[str, Value] | None = None
    confidence: float = 0.95
    tolerance: float = 0.0


class RecommendEachRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The best action so far in each context, for at most 100 contexts, the most probable ones."""

    confidence: float = 0.95
    tolerance: float = 0.0
    limit: int | None = None


class RankActionsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """All actions, ranked; `limit` of them, at most 1,000, starting at `offset`."""

    context: dict[str, Value] | None = None
    confidence: float = 0.95
    tolerance: float = 0.0
    limit: int = 100
    offset: int = 0


class EvidenceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Anytime-valid tests of the model; the probability of any false alarm is at most `alpha`."""

    alpha: float | None = None


class SetModeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The mode of decisions: online, shadow, uniform, frozen, paused, closed."""

    mode: str
    baseline: dict[str, Value] | None = None
    why: str = ""


JSONRecord = dict[str, Any]
"""A record of the library, as returned by `to_record()` and similar methods."""


class DecisionResponse(msgspec.Struct, forbid_unknown_fields=True):
    """A decision."""

    id: Annotated[str, Meta(description="The unique id of the decision. Use it to report the outcome.")]
    action: Annotated[dict[str, Value], Meta(description="The variables to set, and their values.")]
    propensity: Annotated[
        float | None,
        Meta(
            description=("The propensity: the probability with which the action was chosen; null if it is not logged.")
        ),
    ]
    due: Annotated[
        float | None,
        Meta(
            description=(
                "The end of the attribution window, in seconds since 1970; null if the study has no attribution window."
            )
        ),
    ]


class DecisionsResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The decisions; their number is `n` of the request."""

    items: list[DecisionResponse]


class FieldError(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The error of a field or of a parameter of the request."""

    field: Annotated[
        str | None, Meta(description='A JSON pointer (RFC 6901) into the body of the request; "" is the whole body.')
    ] = None
    detail: str = ""
    parameter: Annotated[str | None, Meta(description="In place of `field`: a parameter of the path or the query.")] = (
        None
    )


class ProblemDetails(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An error (RFC 9457)."""

    type: Annotated[str, Meta(description="A URI reference to the documentation of the type.")]
    title: str
    status: int
    detail: Annotated[str, Meta(description="A description of the error.")]
    errors: Annotated[list[FieldError], Meta(description="The invalid fields, if they are known.")] = []
    request_id: Annotated[
        str | None,
        Meta(
            description=(
                "The id of the request, equal to the header X-Request-ID and to the service's log; with status 500."
            )
        ),
    ] = None


class OutcomeResponse(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The receipt of an outcome."""

    status: Status
    why: Annotated[str, Meta(description="The reason, or an empty text.")]
    missing: Annotated[list[str], Meta(description="The variables whose values are required and missing.")]
    errors: Annotated[list[FieldError], Meta(description="The invalid fields of a rejected outcome.")] = []


class ActionItem(msgspec.Struct, forbid_unknown_fields=True):
    """One action of the ranking; `lower`, `upper` and `probability` are null if they are not available."""

    rank: int
    action: dict[str, Value]
    mean: float
    lower: float | None
    upper: float | None
    probability: float | None
    times_chosen: int
    cost: float
    coverage: float | None


class ActionsResponse(msgspec.Struct, forbid_unknown_fields=True):
    """A page of the ranking of `total` actions; `note` names omitted actions, with the reason."""

    items: list[ActionItem]
    total: int
    limit: int
    offset: int
    n_actions: int
    confidence: float
    kind: str
    tolerance: float
    context: dict[str, Value]
    note: str


class OutcomesResponse(msgspec.Struct, forbid_unknown_fields=True):
    """One receipt for each outcome, in the order sent."""

    items: list[OutcomeResponse]


class StatusResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The status of a request."""

    status: str


class ReadinessResponse(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The service can decide and write."""

    status: Literal["ready"]
    unavailable: list[str] = []
    """Studies whose file could not be opened at the start of the service, or is damaged so that they cannot decide."""


class ExpireResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The number of decisions that received the default reward."""

    expired: int


class PolicyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The current policy, and the reason why it does not suit the problem, if it does not."""

    policy: str
    warnings: list[str]


class StudyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The study's name, its current policy, and warnings: parts of the problem without effect, an unsuitable policy."""

    study: str
    policy: str
    warnings: list[str]


class VerifyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """Whether the stored state equals the replay of the log; otherwise, the differences."""

    ok: bool
    decisions: int
    events: int
    differences: list[str]
