"""The OpenAPI document, built from the routes and the schemas of their requests and responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from causalbandits.service.routes import HTTPRoute
from causalbandits.service.schemas import ErrorResponse

QUERY_DESCRIPTIONS = {
    "after": "The number of an event: those that came later are given.",
    "key": "The decision's key, whatever the path says.",
    "number": "The decision's number, whatever the path says.",
}
INTEGER_PARAMETERS = ("after", "number")


def build_document(routes: Sequence[HTTPRoute]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    from causalbandits import __version__

    schema_types = [
        ErrorResponse,
        *(
            schema_type
            for route in routes
            for schema_type in (route.request_schema, *route.response_schemas)
            if schema_type is not None
        ),
    ]
    schemas, components = msgspec.json.schema_components(schema_types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(str, schema_types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "causalbandits", "version": __version__, "description": "Decisions and their outcomes."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: HTTPRoute, schema_of: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": {
            str(route.status): _response(route, schema_of),
            "default": {
                "description": "Refused; `error` says why.",
                "content": _json_content(schema_of[str(ErrorResponse)]),
            },
        },
    }
    if route.request_schema is not None:
        operation["requestBody"] = {"required": True, "content": _json_content(schema_of[str(route.request_schema)])}
    if route.role is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Needs a key with the role {route.role}."
    return operation


def _parameters(route: HTTPRoute) -> list[dict[str, Any]]:
    parameters = [(name, "path") for name in re.findall(r"{(\w+)}", route.path)] + [
        (name, "query") for name in route.query_parameters
    ]
    return [
        {
            "name": name,
            "in": place,
            "required": place == "path",
            "schema": {"type": "string"} if name not in INTEGER_PARAMETERS else {"type": "integer", "minimum": 0},
            **({"description": QUERY_DESCRIPTIONS[name]} if place == "query" else {}),
        }
        for name, place in parameters
    ]


def _response(route: HTTPRoute, schema_of: dict[str, Any]) -> dict[str, Any]:
    response_schemas = [schema_of[str(schema_type)] for schema_type in route.response_schemas]
    if route.response_schemas == (str,):
        return {"description": "Text.", "content": {"text/plain": {"schema": response_schemas[0]}}}
    return {
        "description": "Done.",
        "content": _json_content(response_schemas[0] if len(response_schemas) == 1 else {"anyOf": response_schemas}),
    }


def _json_content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
