"""A hash of code that is not ours: what users give as functions and classes decides about numbers, too.

It covers what runs: instructions and constants, defaults, what a function closes over, and the functions and plain
values of its own module that it names. Comments, docstrings' places and line numbers do not count. It may differ from
one version of Python to the next, which is harmless where it guards results that can be computed again.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]

LITERAL = (bool, int, float, complex, str, bytes, type(None), np.generic)


Seen = dict[int, object]
"""What was described already, by its id; held, because the id of what is gone may be given to something else."""

CONSTANT = (*LITERAL, tuple, frozenset, np.ndarray)
"""Other values of a module or a class, such as lists, may change while a program runs, and do not count."""


def code_hash(*things: object) -> str:
    """The same for things that do the same by the same code."""
    digest = hashlib.sha256()
    for text in _described(things, {}):
        digest.update(text.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()[:16]


def is_ours(thing: Any) -> bool:
    """Whether a class or a function is this library's own."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == PACKAGE


CODE = (types.FunctionType, staticmethod, classmethod, property, cached_property, partial)
LABELS = ("__module__", "__doc__", "__firstlineno__", "__qualname__", "__static_attributes__")


def _described(things: Iterable[object], seen: Seen) -> Iterator[str]:
    for thing in things:
        yield from _one(thing, seen)


def _one(thing: Any, seen: Seen) -> Iterator[str]:
    if isinstance(thing, LITERAL):
        yield repr(thing)
    elif isinstance(thing, np.ndarray):
        yield f"{thing.dtype} {thing.shape} {hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()}"
    elif id(thing) in seen:
        yield "again"
    else:
        seen[id(thing)] = thing
        yield type(thing).__name__
        yield from _parts(thing, seen)


def _parts(thing: Any, seen: Seen) -> Iterator[str]:
    if isinstance(thing, types.CodeType):
        yield thing.co_code.hex()
        yield from _described((thing.co_names, thing.co_varnames, thing.co_consts), seen)
    elif isinstance(thing, types.FunctionType):
        yield from _function(thing, seen)
    elif isinstance(thing, type):
        yield from _class(thing, seen)
    elif isinstance(thing, (staticmethod, classmethod, types.MethodType)):
        yield from _described((thing.__func__, getattr(thing, "__self__", None)), seen)
    elif isinstance(thing, property):
        yield from _described((thing.fget, thing.fset), seen)
    elif isinstance(thing, cached_property):
        yield from _one(thing.func, seen)
    elif isinstance(thing, partial):
        yield from _described((thing.func, thing.args, thing.keywords), seen)
    elif isinstance(thing, (tuple, list)):
        yield from _described(thing, seen)
    elif isinstance(thing, (set, frozenset)):
        yield from sorted("\0".join(_one(part, seen)) for part in thing)
    elif isinstance(thing, dict):
        yield from _described(thing.items(), seen)
    elif is_ours(type(thing)) or not hasattr(thing, "__dict__"):
        yield str(getattr(thing, "__qualname__", type(thing).__qualname__))
    else:
        yield from _described((type(thing), vars(thing)), seen)


def _function(function: types.FunctionType, seen: Seen) -> Iterator[str]:
    if is_ours(function):
        yield function.__qualname__
        return
    closed = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    named = [_named(function, name) for name in _names(function.__code__)]
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__, closed, named)
    yield from _described(parts, seen)


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (empty cells raise)
    except ValueError:
        return False
    return True


def _names(code: types.CodeType) -> list[str]:
    nested = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _names(part)]
    return sorted({*code.co_names, *nested})


def _named(function: types.FunctionType, name: str) -> object:
    """A global that the function may mean: followed if it is a constant, or code of the same module."""
    value = function.__globals__.get(name)
    own = isinstance(value, (types.FunctionType, type)) and value.__module__ == function.__module__
    return value if own or isinstance(value, CONSTANT) else None


def _class(kind: type, seen: Seen) -> Iterator[str]:
    yield kind.__qualname__
    for base in kind.__mro__:
        if is_ours(base) or base.__module__ in ("builtins", "abc", "typing"):
            yield base.__qualname__
            continue
        for name, value in sorted(vars(base).items()):
            if name not in LABELS and isinstance(value, (*CONSTANT, *CODE)):
                yield name
                yield from _one(value, seen)
