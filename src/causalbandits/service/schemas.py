"""Schemas of requests and responses, from which bodies are decoded and encoded and the OpenAPI document is built.

Requests are decoded strictly: unknown fields and wrong types are refused before anything happens.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from causalbandits.study import Status

Value = str | int | float | bool


class AskRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request for a decision, or for several."""

    n: Annotated[int | None, Meta(description="The number of decisions, 1,000 at most; they come in `items`.")] = None
    key: Annotated[
        str | None,
        Meta(
            description="An idempotency key, one for each exposure, such as an order or a page view: the same request "
            "with the same key has the same response."
        ),
    ] = None
    unit: Annotated[
        str | None,
        Meta(description="The visitor, patient or machine; later decisions for it repeat its latest action."),
    ] = None
    sticky: Annotated[bool, Meta(description="Whether the action of the unit's latest decision is repeated.")] = True
    context: Annotated[dict[str, Value] | None, Meta(description="The values of context variables.")] = None
    eligible: Annotated[
        list[dict[str, Value]] | None,
        Meta(description="Assignments; the action agrees with one of them. If left out, all actions are eligible."),
    ] = None


class OutcomeItem(msgspec.Struct, forbid_unknown_fields=True):
    """An outcome of a decision. Parts that are known later are sent later, by the same `id`."""

    id: Annotated[
        int | str,
        Meta(description="The decision's `id` or its `key`; or its number, a whole number, in the log as it is now."),
    ]
    reward: Annotated[int | float | None, Meta(description="null: not known yet.")]
    observed: Annotated[
        dict[str, Value | None] | None,
        Meta(description="The values of variables that were observed; those that the decision set may be left out."),
    ] = None


class TellRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Outcomes, 1,000 at most."""

    items: list[OutcomeItem]


class RawTellRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The same as they came: each is read for itself, so that one that cannot be does not keep back the others."""

    items: list[msgspec.Raw]


class CorrectRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Another outcome than the one that was told."""

    reward: int | float
    observed: dict[str, Value | None] | None = None
    """Left out, the values observed so far stay; given, it replaces all of them."""


class CreateStudyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A study that is to be created: the specification of its problem, its policy and its rules."""

    name: Annotated[str, Meta(description="Small letters, digits, - and _, 64 at most.")]
    problem: dict[str, Any]
    policy: Annotated[
        str | None,
        Meta(description='The policy, such as "c-ts(prior=beta)". If left out, it is chosen for the problem.'),
    ] = None
    parameters: Annotated[dict[str, Value], Meta(description="Further options of the policy.")] = {}
    horizon: Annotated[int | None, Meta(description="The planned number of decisions.")] = None
    seed: Annotated[int | None, Meta(description="If left out, a random one is drawn and stored.")] = None
    attribution_window: Annotated[
        float | None,
        Meta(description="Seconds after which a decision without an outcome may be given the default reward."),
    ] = None
    default_reward: Annotated[
        float | None, Meta(description="The reward of a decision without an outcome after the attribution window.")
    ] = None
    late_outcomes: Annotated[
        Literal["apply", "ignore"],
        Meta(description="Whether outcomes after the window replace the default reward, or are only recorded."),
    ] = "apply"
    zero_probability: Annotated[
        Literal["raise", "allow"],
        Meta(description="Whether observed values to which the model gives probability 0 are refused."),
    ] = "raise"
    budget: Annotated[
        tuple[float, int] | None, Meta(description="The total budget and the number of decisions that it is for.")
    ] = None
    hold_until_window: Annotated[bool, Meta(description="Whether outcomes count only after the window.")] = False
    min_propensity: Annotated[float, Meta(description="The probability that is spread over all actions.")] = 0.0
    holdout: Annotated[float, Meta(description="The share of units in the control group.")] = 0.0
    baseline: Annotated[dict[str, Value] | None, Meta(description="The action of the control group.")] = None


class SetPolicyRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Who is to decide from now on."""

    policy: str
    parameters: dict[str, Value | None] = {}


class RecommendRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The best action so far: `confidence` of its interval, and how much worse than the best is good enough."""

    context: dict[str, Value] | None = None
    confidence: float = 0.95
    tolerance: float = 0.0


class RecommendEachRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The best action so far in each context, in the likeliest 100 at most."""

    confidence: float = 0.95
    tolerance: float = 0.0
    limit: int | None = None


class RankActionsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """All actions, ranked; `limit` of them, 1,000 at most, from `offset` on."""

    context: dict[str, Value] | None = None
    confidence: float = 0.95
    tolerance: float = 0.0
    limit: int = 100
    offset: int = 0


class EvidenceRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Anytime-valid tests of the model; the probability of any false alarm is at most `alpha`."""

    alpha: float | None = None


class SetModeRequest(msgspec.Struct, forbid_unknown_fields=True):
    """How decisions are to come about: online, shadow, uniform, frozen, paused, closed."""

    mode: str
    baseline: dict[str, Value] | None = None
    why: str = ""


JSONRecord = dict[str, Any]
"""A record of the library's, as `to_record()` and the like return it."""


class DecisionResponse(msgspec.Struct, forbid_unknown_fields=True):
    """A decision."""

    id: Annotated[str, Meta(description="Its name, which no other decision ever gets: report outcomes by it.")]
    action: Annotated[dict[str, Value], Meta(description="The variables to set, and their values.")]
    propensity: Annotated[
        float | None, Meta(description="The probability with which the action was chosen; null where it is not known.")
    ]
    due: Annotated[
        float | None, Meta(description="The end of the attribution window, in seconds since 1970; null without one.")
    ]


class DecisionsResponse(msgspec.Struct, forbid_unknown_fields=True):
    """As many as were asked for with `n`."""

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

    type: Annotated[str, Meta(description="A URI reference, at which the service documents the type.")]
    title: str
    status: int
    detail: Annotated[str, Meta(description="The error in words, for people.")]
    errors: Annotated[list[FieldError], Meta(description="The fields that are wrong, where they are known.")] = []
    request_id: Annotated[
        str | None, Meta(description="As in the header X-Request-ID and in the service's log; with status 500.")
    ] = None


class OutcomeResponse(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The receipt of an outcome."""

    status: Status
    why: Annotated[str, Meta(description="The reason, in words; empty where there is nothing to say.")]
    missing: Annotated[list[str], Meta(description="The variables whose values the policy needs and lacks.")]
    errors: Annotated[list[FieldError], Meta(description="The fields of an outcome that was refused.")] = []


class ActionItem(msgspec.Struct, forbid_unknown_fields=True):
    """One action of the ranking; `lower`, `upper` and `probability` are null where they are not available."""

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
    """A page of the ranking of all actions; `total` are ranked, and `note` says what is left out, and why."""

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
    """One for each, in the order sent."""

    items: list[OutcomeResponse]


class StatusResponse(msgspec.Struct, forbid_unknown_fields=True):
    """What became of it."""

    status: str


class ReadinessResponse(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """It can decide and write."""

    status: Literal["ready"]
    unavailable: list[str] = []
    """Studies whose file could not be opened when the service was started, or is damaged so that they cannot decide."""


class ExpireResponse(msgspec.Struct, forbid_unknown_fields=True):
    """How many decisions."""

    expired: int


class PolicyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The policy that decides, and why it does not suit the problem, if it does not."""

    policy: str
    warnings: list[str]


class StudyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """The study's name, the policy that decides, and warnings: parts of the problem without effect, a policy that does
    not suit it.
    """

    study: str
    policy: str
    warnings: list[str]


class VerifyResponse(msgspec.Struct, forbid_unknown_fields=True):
    """Whether all is as its log says; if not, where it differs."""

    ok: bool
    decisions: int
    events: int
    differences: list[str]
