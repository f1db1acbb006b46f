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
    409: "The request contradicts an earlier one, or the study's mode does not allow it.",
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
    components = {name: portable_schema(schema) for name, schema in components.items()} | VALUE_SCHEMAS
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
