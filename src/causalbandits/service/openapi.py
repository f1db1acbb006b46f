"""The interface as OpenAPI describes it, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from causalbandits.service.schemas import Refused

if TYPE_CHECKING:
    from causalbandits.service.routes import HTTPRoute


QUERIES = {
    "after": "The number of an event: those that came later are given.",
    "key": "The decision's key, whatever the path says.",
    "number": "The decision's number, whatever the path says.",
}
WHOLE_NUMBERS = ("after", "number")


def document(routes: Sequence[HTTPRoute]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    from causalbandits import __version__

    kinds = [Refused, *(one for route in routes for one in (route.takes, *route.gives) if one is not None)]
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(str, kinds), schemas, strict=True))
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
        "summary": route.says,
        "parameters": _parameters(route),
        "responses": {
            str(route.status): _response(route, schema_of),
            "default": {"description": "Refused; `error` says why.", "content": _json(schema_of[str(Refused)])},
        },
    }
    if route.takes is not None:
        operation["requestBody"] = {"required": True, "content": _json(schema_of[str(route.takes)])}
    if route.role is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Needs a key with the role {route.role}."
    return operation


def _parameters(route: HTTPRoute) -> list[dict[str, Any]]:
    named = [(name, "path") for name in re.findall(r"{(\w+)}", route.path)] + [
        (name, "query") for name in route.queries
    ]
    return [
        {
            "name": name,
            "in": place,
            "required": place == "path",
            "schema": {"type": "string"} if name not in WHOLE_NUMBERS else {"type": "integer", "minimum": 0},
            **({"description": QUERIES[name]} if place == "query" else {}),
        }
        for name, place in named
    ]


def _response(route: HTTPRoute, schema_of: dict[str, Any]) -> dict[str, Any]:
    given = [schema_of[str(one)] for one in route.gives]
    if route.gives == (str,):
        return {"description": "Text.", "content": {"text/plain": {"schema": given[0]}}}
    return {"description": "Done.", "content": _json(given[0] if len(given) == 1 else {"anyOf": given})}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
