"""The interface as OpenAPI describes it, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from causalbandits.service.routes import HTTPRoute


def document(routes: Sequence[HTTPRoute]) -> dict[str, Any]:
    """An OpenAPI 3.1 document."""
    from causalbandits import __version__

    takes = [route.takes for route in routes if route.takes is not None]
    schemas, components = msgspec.json.schema_components(takes, ref_template="#/components/schemas/{name}")
    bodies = dict(zip(takes, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, bodies)
    return {
        "openapi": "3.1.0",
        "info": {"title": "causalbandits", "version": __version__, "description": "Decisions and their outcomes."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: HTTPRoute, bodies: dict[Any, Any]) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", route.path)
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.says,
        "parameters": [{"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in names],
        "responses": {"default": {"description": "JSON; where it is refused, `error` says why."}},
    }
    if route.takes is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": bodies[route.takes]}},
        }
    if route.role is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = f"Needs a key with the role {route.role}."
    return operation
