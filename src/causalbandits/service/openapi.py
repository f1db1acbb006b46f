"""The OpenAPI document, built from the routes and the schemas of their requests and responses.

Its version is 3.1.0, and its schemas are limited to keywords that client generators support (`portable_schema`).
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from causalbandits.problem import problem_schema
from causalbandits.service.http import DEFAULT_LIMIT, MAX_LIMIT, PROBLEM_MEDIA_TYPE
from causalbandits.service.problems import PROBLEM_TYPES
from causalbandits.service.routes import HTTPRoute
from causalbandits.service.schemas import ProblemDetails

PROBLEM_SCHEMA = problem_schema()

QUERY_PARAMETERS: dict[str, tuple[dict[str, Any], str]] = {
    "limit": (
        {"type": "integer", "format": "int64", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
        "The maximum number of items on a page.",
    ),
    "cursor": (
        {"type": "string"},
        "The position after which the page begins: `next` of the previous page. For events and modes, a number.",
    ),
    "key": ({"type": "string"}, "The decision's key, in place of the decision in the path."),
    "number": (
        {"type": "integer", "format": "int64", "minimum": 0},
        ("The decision's number, in place of the decision in the path."),
    ),
}

STATUS_DESCRIPTIONS = {
    400: "The body is not JSON.",
    401: "The request has no valid key.",
    403: "The key does not allow this.",
    404: "The study or decision does not exist.",
    409: "The request contradicts an earlier one, or the study does not allow it.",
    413: "The request is too large.",
    415: "The body must be JSON.",
    422: "A value is not valid; `errors` names the fields.",
    429: "The queue is full, or this address sends too many requests without a key.",
    500: "An internal error occurred.",
    503: "The database is not available, or the service is not ready.",
}

HEADERS = {
    "RequestID": {
        "description": (
            "The id of the request: the header X-Request-ID of the request, else the trace id of the header "
            "traceparent, else a new id."
        ),
        "schema": {"type": "string"},
    },
    "RetryAfter": {
        "description": ("The number of seconds to wait before the next attempt."),
        "schema": {"type": "integer"},
    },
    "WWWAuthenticate": {"description": "How to authenticate: Bearer.", "schema": {"type": "string"}},
}
REQUEST_ID_HEADER = {"X-Request-ID": {"$ref": "#/components/headers/RequestID"}}


def build_document(routes: Sequence[HTTPRoute]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    from causalbandits import __version__

    schema_types = [
        ProblemDetails,
        *(
            schema_type
            for route in routes
            for schema_type in (route.request_schema, *route.response_schemas)
            if schema_type is not None
        ),
    ]
    schemas, components = msgspec.json.schema_components(schema_types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(id, schema_types), schemas, strict=True))
    # Client generators create no types for conditions on several entries (anyOf, not), so the conditions are also
    # described.
    components[PROBLEM_SCHEMA["title"]] = {
        name: own for name, own in PROBLEM_SCHEMA.items() if name[0] != "$" and name not in ("anyOf", "not")
    }
    components["CreateStudyRequest"]["properties"]["problem"] = {
        "$ref": f"#/components/schemas/{PROBLEM_SCHEMA['title']}"
    }
    components = {
        name: portable_schema(describe_fields(name, schema)) for name, schema in components.items()
    } | VALUE_SCHEMAS
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "causalbandits",
            "version": __version__,
            "description": "Decisions and outcomes. Errors are problem details (RFC 9457); their `type` is one of "
            + ", ".join(f"`{kind.uri}`" for kind in PROBLEM_TYPES.values())
            + ".",
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": "studies", "description": "Studies: their decisions, outcomes and reports."},
            {"name": "operations", "description": "For operators of the service."},
        ],
        "paths": paths,
        "components": {
            "schemas": components,
            "headers": HEADERS,
            "responses": {str(status): _problem_response(status, schema_of) for status in STATUS_DESCRIPTIONS},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


FORMATS = {"number": "double", "integer": "int64"}
"""Formats of numbers; without a format, generators use 32 bits, which is insufficient for times and rewards."""

_VALUE_TYPES = ({"type": "string"}, {"type": "number", "format": "double"}, {"type": "boolean"})
VALUE_SCHEMAS: dict[str, dict[str, Any]] = {
    "Value": {"description": "A variable's value.", "anyOf": [*_VALUE_TYPES]},
    "ObservedValue": {
        "description": "The value of a variable; null if it is unknown.",
        "anyOf": [*_VALUE_TYPES, {"type": "null"}],
    },
    "State": {
        "description": (
            "The value of a variable as recorded; a list or null occurs only in models created with the Python library."
        ),
        "anyOf": [*_VALUE_TYPES, {"type": "array", "items": {}}, {"type": "null"}],
    },
}
"""Unions that occur in many places; generators create one type for each named one."""


def portable_schema(schema: Any) -> Any:
    """An equivalent JSON schema in the forms that client generators support.

    A field with a default becomes an optional field, with the default in its description. Generators interpret a
    schema's `default` as a guarantee that the field is present, and then require it in requests and responses.

    >>> portable_schema({"type": "integer", "default": 100})
    {'type': 'integer', 'format': 'int64', 'description': 'Default: 100.'}
    >>> portable_schema({"anyOf": [{"type": "integer"}, {"type": "number"}], "default": None})
    {'type': 'number', 'format': 'double'}
    >>> portable_schema({"type": ["string", "number", "boolean"]})
    {'$ref': '#/components/schemas/Value'}
    """
    if not isinstance(schema, dict):
        return schema
    result = {key: value for key, value in schema.items() if key not in ("default", "const")}
    if isinstance(schema.get("type"), list):
        result["anyOf"] = [{"type": kind} for kind in result.pop("type")]
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if all(isinstance(value, str) for value in result.get("enum", [0])):
        result["type"] = "string"
    if result.get("type") in FORMATS:
        result["format"] = FORMATS[result["type"]]
    if result.get("type") == "object" and not {"properties", "additionalProperties"} & set(result):
        result["additionalProperties"] = True
    if result.get("type") == "array":
        # For tuples, some generators reject `items: false`; minItems and maxItems are equivalent.
        positions = schema.get("prefixItems")
        result["items"] = portable_schema({"anyOf": positions} if positions else result.get("items", {}))
        result |= {"prefixItems": [portable_schema(position) for position in positions]} if positions else {}
    if "properties" in result:
        result["properties"] = {name: portable_schema(own) for name, own in result["properties"].items()}
    if isinstance(result.get("additionalProperties"), dict):
        result["additionalProperties"] = portable_schema(result["additionalProperties"])
    if "anyOf" in result:
        result |= _portable_union(result.pop("anyOf"))
    description = [inspect.cleandoc(result["description"])] if "description" in result else []
    if schema.get("default") not in (None, "", [], {}):
        description.append(f"Default: {json.dumps(schema['default'])}.")
    return {**result, **({"description": " ".join(description)} if description else {})}


def _portable_union(schemas: list[Any]) -> dict[str, Any]:
    """A union without repetitions, and without integers if it has numbers; a union of one type is that type."""
    members = []
    for schema in map(portable_schema, schemas):
        if schema not in members:
            members.append(schema)
    if any(member.get("type") == "number" for member in members):
        members = [member for member in members if member != {"type": "integer", "format": "int64"}]
    for name, value_schema in VALUE_SCHEMAS.items():
        if members == value_schema["anyOf"]:
            return {"$ref": f"#/components/schemas/{name}"}
    return members[0] if len(members) == 1 else {"anyOf": members}


def _problem_response(status: int, schema_of: dict[int, Any]) -> dict[str, Any]:
    headers: dict[str, Any] = dict(REQUEST_ID_HEADER)
    if status in (429, 503):
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    if status == 401:
        headers["WWW-Authenticate"] = {"$ref": "#/components/headers/WWWAuthenticate"}
    return {
        "description": STATUS_DESCRIPTIONS[status],
        "headers": headers,
        "content": {PROBLEM_MEDIA_TYPE: {"schema": schema_of[id(ProblemDetails)]}},
    }


def error_statuses(route: HTTPRoute) -> tuple[int, ...]:
    """The status codes of the errors that a route can have."""
    statuses = {500}
    if route.role is not None:
        statuses |= {401, 403, 422, 429, 503}  # 422: a query parameter that the route does not have
    if "{study}" in route.path:
        statuses.add(404)
    if route.request_schema is not None:
        statuses |= {400, 413, 415}
    if route.method == "POST" and route.role is not None:
        statuses.add(409)
    if route.path.endswith("/structure"):
        statuses.add(409)
    if route.path == "/readyz":
        statuses.add(503)
    if route.path == "/openapi.json":
        statuses.add(429)
    return tuple(sorted(statuses))


def _operation(route: HTTPRoute, schema_of: dict[int, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "tags": ["studies" if route.path.startswith("/v1") else "operations"],
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": {
            str(route.status): _response(route, schema_of),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in error_statuses(route)},
        },
        "security": [],
    }
    if route.request_schema is not None:
        is_required = any(field.required for field in msgspec.structs.fields(route.request_schema))
        operation["requestBody"] = {
            "required": is_required,
            "content": _json_content(schema_of[id(route.request_schema)]),
        }
    if route.role is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Requires a key with the role {route.role}."
    return operation


def _parameters(route: HTTPRoute) -> list[dict[str, Any]]:
    path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    query = [
        {"name": name, "in": "query", "required": False, "schema": schema, "description": description}
        for name, (schema, description) in QUERY_PARAMETERS.items()
        if name in route.query_parameters
    ]
    return path + query


def _response(route: HTTPRoute, schema_of: dict[int, Any]) -> dict[str, Any]:
    schemas = [schema_of[id(schema_type)] for schema_type in route.response_schemas]
    content = _json_content(schemas[0] if len(schemas) == 1 else {"anyOf": schemas})
    if route.response_schemas == (str,):
        content = {"text/plain": {"schema": schemas[0]}}
    return {"description": "Done.", "headers": REQUEST_ID_HEADER, "content": content}


def _json_content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def describe_fields(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of an object with a description of every field; references have that of their own schema."""
    if "properties" not in schema:
        return schema
    texts = FIELD_DESCRIPTIONS | SCHEMA_DESCRIPTIONS.get(name, {})
    properties = {
        field: own if "$ref" in own or field not in texts else {"description": texts[field], **own}
        for field, own in schema["properties"].items()
    }
    return {**schema, "properties": properties}


_MEAN = "The estimated mean reward; costs are not subtracted."
_OUTCOME_MEAN = "The mean reward of the outcomes; null without outcomes."

FIELD_DESCRIPTIONS = {
    "action": "The variables that the action sets, and their values.",
    "alpha": "The limit of the probability of any false alarm.",
    "at": "The time, in seconds since 1970.",
    "by": "The name of the API key, person or program that made the change.",
    "confidence": "The probability of the interval.",
    "context": "The values of context variables.",
    "cost": "The cost of the action.",
    "decision": "The number of the decision.",
    "id": "The unique id.",
    "key": "The idempotency key of the decision; null if the request had none.",
    "limit": "The maximum number of items.",
    "lower": "The lower end of the interval; null if no interval is available.",
    "mean": _OUTCOME_MEAN,
    "mechanism": "The variable whose conditional probability table is meant, or the reward.",
    "mode": "The mode: online, shadow, uniform, frozen, paused or closed.",
    "n": "The number of outcomes.",
    "number": "The position in the log.",
    "observed": "The observed values by variable.",
    "parents": "The values of the reward's parents.",
    "policy": "The policy with its options.",
    "probability": "The probability.",
    "reward": "The reward; null if there is none.",
    "since_decision": "The number of the first decision to which it applies.",
    "since_event": "The number of events in the log at its start.",
    "standard_error": "The standard error of the mean; null if it cannot be estimated.",
    "study": "The name of the study.",
    "text": "The same in words.",
    "tolerance": "The acceptable loss in mean reward.",
    "trust_past": "The prior probability that past rewards have the same means as those of the study's own decisions.",
    "upper": "The upper end of the interval; null if no interval is available.",
    "variable": "The manipulable variable, or the variable of the conditional probability table.",
    "version": "The position in the list, from 1.",
    "warnings": "Parts of the problem without effect, and reasons why the policy does not suit the problem.",
    "items": "The items, in order.",
    "next": "The address of the next page, relative to that of the list; null on the last page.",
}
"""By the name of the field, where it means the same in several schemas."""

_RECOMMENDATION = {
    "mean": _MEAN,
    "confidence": "The probability of the interval, and of the stopping rule.",
    "kind": "The kind of the interval: credible (of a posterior) or confidence.",
    "seen": "The probability, under this action, of a configuration with observed rewards; null for linear policies.",
    "runner_up": "The second-best action; null if there is none.",
    "assumes": "The assumptions of the interval.",
    "caveats": "Warnings: incomplete outcomes, and contradictions between the outcomes and the assumptions.",
    "allowance": "The amount that the budget has for each decision; null without a budget.",
    "context": "The values of the context variables for which the action is recommended; empty: averaged over them.",
    "past": "The past rows that are not trusted fully; null if there are none.",
    "stop": "Whether the stopping rule is met; null if no stopping rule is valid, see stop_reason.",
    "stop_reason": "The error bound and its limit; if no stopping rule is valid, the reason and the remedy.",
    "text": "The recommendation as lines of text, each with a label and a value.",
    "share": "The probability of the context: the share of decisions made in it.",
}

SCHEMA_DESCRIPTIONS: dict[str, dict[str, str]] = {
    "ProblemDetails": {"title": "The type in words.", "status": "The status code of the response."},
    "FieldError": {"detail": "A description of the error."},
    "StatusResponse": {"status": "ok: the process runs. applied: the request was executed."},
    "ReadinessResponse": {
        "status": "ready: the service can decide and write.",
        "unavailable": "Studies that could not be opened when the service was started, or whose file is damaged.",
    },
    "OpenAPIDocument": {
        "openapi": "The version of OpenAPI.",
        "info": "Title, version and description of the interface.",
        "paths": "The routes.",
        "components": "Schemas, headers and responses.",
        "servers": "The addresses of the service.",
        "tags": "Groups of routes.",
    },
    "StudyResponse": {"policy": "The policy that decides."},
    "PolicyResponse": {"policy": "The policy that decides."},
    "StudyDescription": {"problem": "The problem: graph or model, reward, manipulable variables and their values."},
    "PolicyRecord": {
        "class": "The name of the policy's class in the Python library.",
        "id": "The policy with its options, as in the list of policies.",
        "parameters": "The options of the policy.",
        "identity": "A fingerprint: policies with equal fingerprints make equal decisions.",
    },
    "Rules": {
        "attribution_window": "Outcome timeout in seconds; null: decisions never expire.",
        "default_reward": "The reward of a decision without an outcome after the attribution window.",
        "late_outcomes": "apply: outcomes after the window replace the default reward. ignore: they are only recorded.",
        "zero_probability": "raise: observed values with probability 0 in the model are refused. allow: they are not.",
        "hold_until_window": "Whether outcomes count only after the attribution window has passed.",
        "min_propensity": "The probability that is spread uniformly over all actions.",
        "holdout": "The share of units in the control group.",
        "baseline": "The action of the control group; null without one.",
    },
    "TellRequest": {"items": "The outcomes, 1,000 at most; each is executed by itself."},
    "CorrectRequest": {
        "reward": "The reward that replaces the reported one.",
        "observed": "All observed values that replace the reported ones. If left out, the reported ones stay.",
    },
    "CreateStudyRequest": {"problem": "The specification of the problem."},
    "DecisionsResponse": {"items": "The decisions, as many as `n`."},
    "OutcomesResponse": {"items": "A receipt for each outcome, in the order of the request."},
    "OutcomeResponse": {
        "status": "applied, incomplete, held, duplicate, early, late, conflict, unknown or refused.",
    },
    "StudyReport": {
        "policy": "The policy that decides.",
        "decisions": "The number of decisions by status: open, held (if outcomes are held), told, expired, cancelled.",
        "events": "The number of events in the log.",
        "early": "The number of outcomes that wait for their decision.",
        "actions": "The outcomes by action, the most frequent action first.",
        "configurations": "The outcomes by joint values of the reward's parents.",
        "budget": "The state of the budget; null without a budget.",
        "past": "The number of past rounds among the outcomes.",
        "stranded": "Early outcomes that contradict their decision, with the reasons; 100 at most.",
        "trust_past": "The smallest prior probability with which past rounds are trusted; null without past rounds.",
        "holdout": "The comparison of the control group with the treated units; null without a control group.",
        "parent_set": "The likeliest parent set of the reward, if the structure is learned; null without outcomes.",
    },
    "LikeliestParentSet": {
        "parents": "The variables of the set; they separate the actions from the reward.",
        "probability": "The posterior probability of the set.",
    },
    "BudgetStatus": {
        "spent": "The amount spent, in units of the costs.",
        "left": "The amount left.",
        "rounds_left": "The number of decisions that the budget must still last.",
    },
    "Stranded": {"why": "The reason why the decision could not take the outcome."},
    "IncompleteOutcomes": {
        "n": "The number of incomplete outcomes.",
        "of": "The number of outcomes that count, incomplete ones included.",
        "without_parents": (
            "The number of outcomes that teach nothing, because they lack a parent of the reward, or an observed "
            "variable if the structure is learned."
        ),
        "missing": "The variables that are missing.",
        "first": "The first incomplete outcomes.",
        "text": "The same in a sentence.",
    },
    "IncompleteOutcome": {
        "id": "The id of the decision.",
        "missing": "The variables to send as observed, with this id.",
    },
    "HoldoutReport": {
        "holdout": "The share of units in the control group.",
        "baseline": "The action of the control group.",
        "measure": "The compared quantity: reward, or reward less cost if actions have costs.",
        "difference": "Treated less control; null if it is not available.",
        "reason": "The reason why the difference is not available, or an empty text.",
        "rewards": "The comparison by reward alone, if actions have costs; null otherwise.",
        "confidence": "The probability of each interval.",
        "method": "The method of the intervals.",
    },
    "MechanismChanges": {
        "changes": "The changes in the order in which they were noticed.",
        "mechanisms": "The watched mechanisms.",
        "alpha": "The probability of a false alarm between two changes, averaged over the prior.",
        "threshold": "The Bayes factor at which a change is detected.",
    },
    "MechanismChange": {
        "decision": "The first decision after the likeliest time of the change.",
        "earliest": "The first decision of a range that contains the change with probability 0.9.",
        "latest": "The last decision of that range.",
        "noticed": "The first decision that was made with the knowledge of the change.",
        "bayes_factor": "The Bayes factor of a change against no change; null if the change was reported.",
        "restarted": "The number of rows whose earlier outcomes no longer count.",
        "kept": "The number of rows that keep all of their outcomes.",
    },
    "WatchedMechanism": {
        "expression": "The mechanism in words, such as P(subject | purpose).",
        "bayes_factor": "The current Bayes factor of a further change.",
        "outcomes": "The number of outcomes since the last change.",
    },
    "ArmSummary": {"units": "The number of units with an outcome."},
    "ArmDifference": {
        "mean": "The mean of the treated units less that of the control group.",
        "lower": "The lower end of its interval.",
        "upper": "The upper end of its interval.",
    },
    "ArmComparison": {
        "measure": "The compared quantity.",
        "difference": "Treated less control; null if it is not available.",
        "reason": "The reason why the difference is not available, or an empty text.",
    },
    "RecommendRequest": {"context": "The values of context variables. If left out, the recommendation is an average."},
    "RankActionsRequest": {
        "context": "The values of context variables. If left out, the ranking is for the average over them.",
        "limit": "The number of actions on the page, 1,000 at most.",
        "offset": "The number of actions to skip.",
    },
    "RecommendEachRequest": {"limit": "The maximum number of contexts, 100 at most."},
    "EvidenceRequest": {
        "alpha": "The limit of the probability of any false alarm. If left out, 0.05, or that of a guarded policy."
    },
    "Recommendation": _RECOMMENDATION,
    "ContextRecommendation": _RECOMMENDATION,
    "RunnerUp": {"mean": _MEAN},
    "Certainty": {
        "probability": "The posterior probability of being the best, to within the tolerance; null: not available.",
        "expected_loss": "The posterior expected loss per decision if the action is not the best; null: not available.",
        "error_probability": (
            "A bound, valid at all times together, on the probability that another action is better by more than the "
            "tolerance; null: not available."
        ),
        "obstacle": "The reason why no stopping rule is available, and the remedy; empty if one is.",
        "unavailable": "The reason why probability and expected loss are not available; empty if they are.",
    },
    "PastData": {
        "rows": "The number of past rows.",
        "weight": "The posterior probability that past rewards have the same means, which is the weight of the rows.",
        "is_counted": "Whether the rows are used.",
    },
    "ActionsResponse": {
        "total": "The number of ranked actions.",
        "offset": "The number of actions that were skipped.",
        "n_actions": "The number of actions of the problem.",
        "confidence": "The probability of the intervals.",
        "kind": "The kind of the intervals: credible (of a posterior) or confidence.",
        "note": "Actions that are not listed, fields that are not available, and warnings, with the reasons.",
    },
    "ActionItem": {
        "rank": "1 for the recommended action.",
        "mean": _MEAN,
        "probability": "The posterior probability of being the best, to within the tolerance; null: not available.",
        "times_chosen": "The number of decisions for the action, without cancelled ones.",
        "coverage": "The probability of a configuration with observed rewards; null for linear policies.",
    },
    "Recommendations": {
        "contexts": "A recommendation for each context, the most probable context first.",
        "refused": "Contexts without an allowed action.",
    },
    "ContextWithoutAction": {"share": "The probability of the context.", "why": "The reason."},
    "Evidence": {
        "claims": "The claims of the graph and of the conditional probability tables, the most contradicted first.",
        "alarms": "The rejections by a guarded policy.",
        "rounds": "The number of outcomes that count, which are those before the first pending decision.",
        "later": "The number of outcomes that do not count yet, because an earlier one is missing.",
        "missing": "The number of the decision whose outcome is missing; null if no outcome waits for it.",
    },
    "ModelClaim": {
        "part": "The part of the model: graph, tables (conditional probabilities) or past (past rewards).",
        "claim": "The claim in words.",
        "log_e": "The logarithm of the e-value; 0 is no evidence against the claim.",
        "contradicted": "Whether the claim is rejected.",
        "outcomes": "The number of outcomes that tested it.",
        "untested": "The reason why no outcome tested it, or an empty text.",
    },
    "Alarm": {
        "claim": "The claim in words.",
        "log_e": "The logarithm of the e-value.",
        "done": "The reaction of the policy in words.",
    },
    "Structure": {
        "reward": "The name of the reward.",
        "outcomes": "The number of outcomes that were learned from.",
        "unused": "The number of outcomes that were not learned from, because an observed variable is missing.",
        "must_observe": "The variables whose values must be sent with every outcome.",
        "variables": "The variables before the reward, in order; edges lead from earlier variables to later ones.",
        "edges": "All possible edges with their probabilities.",
        "parent_sets": "The likeliest parent sets of each observed variable and of the reward.",
        "text": "The structure as lines of text.",
    },
    "StructureVariable": {
        "variable": "The name of the variable.",
        "role": "context, manipulable (set by decisions) or observed (after the decision).",
        "values": "The values of the variable.",
    },
    "StructureEdge": {
        "cause": "The variable that the edge leaves.",
        "effect": "The variable that the edge enters.",
        "probability": "The posterior probability that the parent set of the effect contains the cause.",
    },
    "ParentSets": {
        "variable": "An observed variable, or the reward.",
        "likeliest": "The candidate parent sets, the likeliest first; 100 at most.",
    },
    "ParentSet": {
        "parents": "The variables of the set.",
        "probability": "The posterior probability of the set.",
    },
    "Event": {
        "kind": "outcome, parents (a part without the reward), held, late, expire, correct, retract, cancel, past or "
        "changed (a reported change of a mechanism).",
        "z": "The reward's parents: the position of each value among the variable's values, from 0; null if unknown.",
        "reward": "The reward; null if the event has none.",
        "observed": "The other observed variables: the position of each value among the variable's values, from 0.",
        "decision": "The number of the decision; of a reported change, the first decision that counts.",
        "mechanism": "The mechanism whose change is reported; null for events of other kinds.",
        "by": "The author of a correction, retraction, cancellation or report; null if it has none.",
    },
    "EarlyOutcome": {
        "decision": "The id of the decision that could not take the outcome; null while the outcome waits for it.",
        "why": "The reason why the decision could not take it, or an empty text.",
        "key": "The key by which it was reported.",
    },
    "RemovedOutcome": {"number": "The position in the order of removals.", "key": "The key by which it was reported."},
    "Mode": {"baseline": "The action in shadow mode; null without one.", "why": "The reason that was given."},
    "SetModeRequest": {
        "baseline": "The action in shadow mode.",
        "why": "The reason, for the log.",
    },
    "SetPolicyRequest": {"parameters": "Further options of the policy."},
    "ExpireResponse": {"expired": "The number of decisions."},
    "VerifyResponse": {
        "ok": "Whether the replayed log agrees with the stored state.",
        "decisions": "The number of decisions.",
        "events": "The number of events.",
        "differences": "The differences in words.",
    },
    "Explanation": {
        "number": "The number of the decision.",
        "eligible": "The actions that the request allowed; null: all.",
        "propensity": "The probability with which the action was chosen; null if it is not logged.",
        "support": "Every action that could be chosen, with its probability; null if propensities are not logged.",
        "asked": "The time of the request, in seconds since 1970.",
        "due": "The end of the attribution window, in seconds since 1970; null without one.",
        "status": "open, held, told, expired or cancelled.",
        "parents": "The observed values of the reward's parents; null if they are not known.",
        "missing": "The variables that the policy needs and the outcome lacks.",
        "from_events": "The number of events in the log when the decision was made.",
        "events": "The events of the decision.",
        "unit": "The visitor, patient or machine; null if the request had none.",
        "arm": "control or treated; null without a control group.",
        "repeats": "The number of the unit's earlier decision whose action this one repeats; null if it does not.",
        "would": "The action that the policy would have chosen, if another was carried out; null otherwise.",
        "leads_to": "The most probable values of the reward's parents; empty while CPTs are learned online.",
        "comes_out_again": "Whether the decision is the same when it is derived again from the outcomes known then.",
        "stranded": "The reason why an early outcome contradicts the decision; null if there is none.",
    },
    "PredictedConfiguration": {
        "probability": "The probability of these values under the action.",
        "n": "The number of outcomes with these values when the decision was made.",
        "mean": "The mean reward of these outcomes; null without outcomes.",
    },
}
"""By the name of the schema; these have precedence."""
