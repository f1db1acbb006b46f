"""The invalid fields of a request, determined after its refusal by the schema or by the study.

None of this code runs for a valid request. Fields are named by JSON pointers (RFC 6901) into the body.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from causalbandits._files import find_duplicate_keys
from causalbandits.errors import CausalBanditsError, InterventionError, unknown_name_message
from causalbandits.problem import Problem
from causalbandits.service.problems import MAX_FIELD_ERRORS, FieldsError, RequestError, request_terms
from causalbandits.service.schemas import FieldError

DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of decoding: the body is not JSON, does not match its schema, or is nested too deeply."""

_JSON_TYPES: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (type(None), "null"),
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
)


def json_text(value: Any, length: int = 60) -> str:
    """A value as JSON, truncated to a length.

    >>> json_text("a"), json_text(None), json_text([1, 2, 3], 4)
    ('"a"', 'null', '[1,2...')
    """
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= length else f"{text[:length]}..."


def pointer(*parts: str | int) -> str:
    """A JSON pointer.

    >>> pointer("items", 3, "a/b")
    '/items/3/a~1b'
    """
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in parts)


def decode_error(body: bytes | msgspec.Raw, schema: Any, error: Exception) -> RequestError:
    """The error for a body that its schema refused: 400 if it is not JSON, otherwise 422 with its fields."""
    if errors := _large_number_errors(body):
        return RequestError("invalid-value", summary_of(errors), errors)
    if not isinstance(error, msgspec.ValidationError):
        return RequestError("malformed-json", _decode_message(error))
    try:
        errors = schema_errors(msgspec.json.decode(body), schema)
    except DECODE_ERRORS as inner:
        return RequestError("malformed-json", _decode_message(inner))
    errors = errors or [FieldError("", request_terms(re.sub(r" - at .*", "", str(error))))]
    return RequestError("invalid-value", summary_of(errors), errors)


def _large_number_errors(body: bytes | msgspec.Raw) -> list[FieldError]:
    """Errors for numbers of a body beyond the range of floats, such as 1e400; none if it is not JSON."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    def find(value: Any, place: str) -> Iterator[FieldError]:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for part, item in items:
            yield from find(item, place + pointer(part))
        if isinstance(value, float) and math.isinf(value):
            yield FieldError(place, "must be a number of size 1.7e308 at most.")

    try:
        return list(itertools.islice(find(json.loads(bytes(body), parse_constant=refuse), ""), MAX_FIELD_ERRORS))
    except (ValueError, RecursionError):
        return []


def duplicate_key_errors(body: bytes | msgspec.Raw) -> list[FieldError]:
    """Errors for duplicate fields of objects in a body; a decoder would use the last and ignore the others."""
    paths = itertools.islice(find_duplicate_keys(bytes(body)), MAX_FIELD_ERRORS)
    return [FieldError(pointer(*path), "occurs more than once. Send every key once.") for path in paths]


def _decode_message(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "The body is nested too deeply."
    if isinstance(error, UnicodeDecodeError):
        return "The body is not text in UTF-8."
    return f"{error}." if isinstance(error, msgspec.DecodeError) else "The body is not JSON."


def summary_of(errors: list[FieldError]) -> str:
    """The first field error as a sentence, with the number of further ones."""
    first = errors[0]
    place = f"{first.field}: " if first.field else f"{first.parameter}: " if first.parameter else ""
    more = f" {len(errors) - 1} more in errors." if len(errors) > 1 else ""
    return f"{place}{first.detail}{more}"


def schema_errors(value: Any, schema: Any, place: str = "") -> list[FieldError]:
    """All fields that do not match a schema, limited to the first `MAX_FIELD_ERRORS`."""
    found = []
    for error in _check(value, inspect.type_info(schema), place):
        found.append(error)
        if len(found) == MAX_FIELD_ERRORS:
            break
    return found


def _check(value: Any, kind: Any, place: str) -> Iterator[FieldError]:
    if isinstance(kind, inspect.Metadata):  # a description
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        if not any(next(_check(value, member, place), None) is None for member in kind.types):
            containers = [member for member in kind.types if _is_container_of(value, member)]
            if containers:
                yield from _check(value, containers[0], place)
            else:
                yield _wrong_type(value, kind, place)
    elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
        yield from _check_struct(value, kind, place)
    elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
        for name, item in value.items():
            yield from _check(item, kind.value_type, place + pointer(name))
    elif isinstance(kind, inspect.ListType) and isinstance(value, list):
        for k, item in enumerate(value):
            yield from _check(item, kind.item_type, place + pointer(k))
    elif isinstance(kind, inspect.TupleType) and isinstance(value, list):
        if len(value) != len(kind.item_types):
            yield FieldError(place, f"must be an array of {len(kind.item_types)} items; got {len(value)}.")
            return
        for k, (item, item_type) in enumerate(zip(value, kind.item_types, strict=True)):
            yield from _check(item, item_type, place + pointer(k))
    elif not _is_scalar_of(value, kind):
        yield _wrong_type(value, kind, place)


def _check_struct(value: dict[str, Any], kind: inspect.StructType, place: str) -> Iterator[FieldError]:
    fields = {field.encode_name: field for field in kind.fields}
    for name in value:
        if name not in fields:
            yield FieldError(place + pointer(name), _unknown_name("field", name, fields))
    for name, field in fields.items():
        if name in value:
            yield from _check(value[name], field.type, place + pointer(name))
        elif field.required:
            may_be_null = _is_scalar_of_any(None, field.type)
            yield FieldError(
                place + pointer(name), f"is required{'; send null if it is not known' if may_be_null else ''}."
            )


def _is_scalar_of_any(value: Any, kind: Any) -> bool:
    kind = kind.type if isinstance(kind, inspect.Metadata) else kind
    return any(_is_scalar_of(value, member) for member in getattr(kind, "types", (kind,)))


def _is_container_of(value: Any, kind: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(kind, inspect.StructType | inspect.DictType)
    return isinstance(value, list) and isinstance(kind, inspect.ListType | inspect.TupleType)


def _is_scalar_of(value: Any, kind: Any) -> bool:
    if isinstance(kind, inspect.AnyType | inspect.RawType):
        return True
    if isinstance(kind, inspect.LiteralType):
        return value in kind.values
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.IntType):
        return not isinstance(value, bool) and (
            isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        )
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str)
    return isinstance(kind, inspect.NoneType) and value is None


def _wrong_type(value: Any, kind: Any, place: str) -> FieldError:
    got = json_text(value) if not isinstance(value, dict | list) else _name_of(value)
    return FieldError(place, f"must be {_expected(kind)}; got {got}.")


def _name_of(value: Any) -> str:
    return next(name for types, name in _JSON_TYPES if isinstance(value, types))


def _expected(kind: Any) -> str:
    if isinstance(kind, inspect.UnionType):
        names = list(dict.fromkeys(_expected(member) for member in kind.types))
        if "a number" in names and "an integer" in names:
            names.remove("an integer")
        return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    if isinstance(kind, inspect.LiteralType):
        return f"one of {', '.join(json_text(value) for value in kind.values)}"
    type_names: dict[Any, str] = {
        inspect.NoneType: "null",
        inspect.BoolType: "a boolean",
        inspect.IntType: "an integer",
        inspect.FloatType: "a number",
        inspect.StrType: "a string",
        inspect.StructType: "an object",
        inspect.DictType: "an object",
    }
    return type_names.get(type(kind), "an array")


def _unknown_name(kind: str, name: str, options: Iterable[str]) -> str:
    return request_terms(unknown_name_message(kind, name, options))


# Refusals by the study of requests that match their schema.


def decision_refusal(problem: Problem, body: Any, error: CausalBanditsError) -> FieldsError:
    """A refused request for decisions, with its fields: context, eligible actions, key."""
    errors = list(_assignment_errors(problem, problem.context, body.context or {}, "/context"))
    for k, action in enumerate(body.eligible or ()):
        place = pointer("eligible", k)
        unknown = list(_assignment_errors(problem, problem.manipulable, action, place))
        errors += unknown or _action_errors(problem, action, place)
    if errors:
        return FieldsError(CausalBanditsError(summary_of(errors)), errors, "unknown-variable")
    if body.eligible is not None and not body.eligible:
        errors = [FieldError("/eligible", "is empty. List at least one action, or leave the field out.")]
        return FieldsError(CausalBanditsError(summary_of(errors)), errors, "invalid-action")
    return FieldsError(error, argument_errors(_set_fields(body), error))


def assignment_refusal(
    problem: Problem, names: Iterable[str], assignment: Mapping[str, Any], place: str, error: CausalBanditsError
) -> FieldsError:
    """A refusal that names the unknown variables of an assignment, and the invalid values."""
    errors = list(_assignment_errors(problem, names, assignment, place))
    if errors:
        return FieldsError(error, errors, "unknown-variable")
    return FieldsError(error, [FieldError(place, request_terms(str(error)))])


def outcome_errors(problem: Problem, outcome: Any, message: str, place: str = "") -> list[FieldError]:
    """The fields of an outcome that a study refused: unknown variables and values, otherwise those in the error's
    message."""
    errors, values = list[FieldError](), list[tuple[str, str]]()
    record = msgspec.structs.asdict(outcome) if isinstance(outcome, msgspec.Struct) else dict(outcome)
    for field, assignment in record.items():
        if isinstance(assignment, dict):
            names = [v for v in problem.knowledge.names if v is not None]
            present = {
                name: value for name, value in assignment.items() if value is not None and name != problem.reward
            }
            errors += _assignment_errors(problem, names, present, place + pointer(field))
            values += [(name, place + pointer(field, name)) for name in assignment]
    if errors:
        return errors[:MAX_FIELD_ERRORS]
    detail = request_terms(message) or "is not valid."
    named = [where for name, where in values if repr(name) in message or f"{name}=" in message]
    if not named and "reward" in message.lower() and "reward" in record:
        named = [f"{place}/reward"]
    if not named and re.search(r"\b(key|decision)\b", message) and "id" in record:
        named = [f"{place}/id"]
    return [FieldError(where, detail) for where in (named or [where for _, where in values] or [place])][
        :MAX_FIELD_ERRORS
    ]


def _assignment_errors(
    problem: Problem, names: Iterable[str], assignment: Mapping[str, Any], place: str
) -> Iterator[FieldError]:
    """The variables of an assignment that are not among `names`, and those with an invalid value."""
    known = list(names)
    for name, value in assignment.items():
        if name not in known:
            yield FieldError(place + pointer(name), _unknown_name("variable", name, known))
            continue
        try:
            problem.variable(name).code(value)
        except InterventionError as error:
            yield FieldError(place + pointer(name), request_terms(str(error)))


def _action_errors(problem: Problem, action: Mapping[str, Any], place: str) -> Iterator[FieldError]:
    """The error for an assignment of existing values that is not an action."""
    try:
        problem.actions.find(action)
    except CausalBanditsError as error:
        yield FieldError(place, request_terms(str(error)))


def _set_fields(body: msgspec.Struct) -> list[str]:
    return [name for name, value in msgspec.structs.asdict(body).items() if value is not None]


def argument_errors(fields: Iterable[str], error: CausalBanditsError) -> list[FieldError]:
    """The field at the error's path; without a path, the fields whose names occur in its message."""
    detail = request_terms(str(error)) or "is not valid."
    fields = list(fields)
    if error.path and error.path[0] in fields:
        return [FieldError(pointer(*error.path), detail)]
    mentioned = [field for field in fields if re.search(rf"\b{re.escape(field)}\b", str(error), re.IGNORECASE)]
    return [FieldError(pointer(field), detail) for field in mentioned]
