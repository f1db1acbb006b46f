"""Hashes of user-defined functions and classes, which affect results as parameters do.

A hash covers the executed code: instructions, constants, defaults, closures, the functions, classes and values that the
code names in its own module or in other user modules, and the source of user modules that it names. Comments, line
numbers and the contents of class-level lists and dictionaries (which change at run time) are excluded. The hash may
differ between versions of Python, which is harmless because it only guards results that can be recomputed.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

PACKAGE = __name__.partition(".")[0]

LITERAL = (bool, int, float, complex, str, bytes, type(None), np.generic)


Seen = dict[int, object]
"""Objects described already, by id; they are kept alive so that no id is reused."""

CONSTANT = (*LITERAL, tuple, frozenset, np.ndarray)
"""Types of class attributes that are hashed; others, such as lists, may change at run time."""

INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
"""The folders of the standard library and of installed packages."""


def code_hash(*things: object) -> str:
    """A hash that is equal for objects with the same behaviour and the same code."""
    digest = hashlib.sha256()
    for text in _describe_all(things, {}):
        digest.update(text.encode("utf-8", "backslashreplace") + b"\0")
    return digest.hexdigest()[:16]


def is_ours(thing: Any) -> bool:
    """Whether a class or a function belongs to this library."""
    return str(getattr(thing, "__module__", "")).partition(".")[0] == PACKAGE


CODE = (types.FunctionType, staticmethod, classmethod, property, cached_property, partial)
LABELS = ("__module__", "__doc__", "__firstlineno__", "__qualname__", "__static_attributes__")


def _describe_all(things: Iterable[object], seen: Seen) -> Iterator[str]:
    for thing in things:
        yield from _describe(thing, seen)


def _describe(thing: Any, seen: Seen) -> Iterator[str]:
    if isinstance(thing, LITERAL):
        yield repr(thing)
    elif isinstance(thing, np.ndarray):
        yield f"{thing.dtype} {thing.shape} {hashlib.sha256(np.ascontiguousarray(thing).tobytes()).hexdigest()}"
    elif id(thing) in seen:
        yield "again"
    else:
        seen[id(thing)] = thing
        yield type(thing).__name__
        yield from _describe_parts(thing, seen)


def _describe_parts(thing: Any, seen: Seen) -> Iterator[str]:
    if isinstance(thing, types.CodeType):
        yield thing.co_code.hex()
        yield from _describe_all((thing.co_names, thing.co_varnames, thing.co_consts), seen)
    elif isinstance(thing, types.FunctionType):
        yield from _describe_function(thing, seen)
    elif isinstance(thing, type):
        yield from _describe_class(thing, seen)
    elif isinstance(thing, (staticmethod, classmethod, types.MethodType)):
        yield from _describe_all((thing.__func__, getattr(thing, "__self__", None)), seen)
    elif isinstance(thing, property):
        yield from _describe_all((thing.fget, thing.fset), seen)
    elif isinstance(thing, cached_property):
        yield from _describe(thing.func, seen)
    elif isinstance(thing, partial):
        yield from _describe_all((thing.func, thing.args, thing.keywords), seen)
    elif isinstance(thing, (tuple, list)):
        yield from _describe_all(thing, seen)
    elif isinstance(thing, (set, frozenset)):
        yield from sorted("\0".join(_describe(part, seen)) for part in thing)
    elif isinstance(thing, dict):
        yield from _describe_all(thing.items(), seen)
    elif isinstance(thing, types.ModuleType):
        yield _module_hash(thing)
    elif is_ours(type(thing)) and hasattr(thing, "fingerprint"):
        yield str(thing.fingerprint)
    elif is_dataclass(thing):
        yield from _describe_all((type(thing), *(getattr(thing, part.name) for part in fields(thing))), seen)
    elif hasattr(thing, "__next__"):
        yield from _describe_all(list(thing), seen)
    elif callable(thing) and hasattr(thing, "__qualname__"):
        yield f"{thing.__module__}.{thing.__qualname__}"
    else:
        yield from _describe_all(_pickled_state(thing), seen)


def _pickled_state(thing: Any) -> tuple[object, ...]:
    """The state that a pickle of the object would hold, without cached values."""
    try:
        reduced = thing.__reduce_ex__(4)
    except TypeError:  # it cannot be pickled: locks, files, ...
        return (type(thing),)
    if isinstance(reduced, str):
        return (reduced,)
    derived = {name for base in type(thing).__mro__ for name, v in vars(base).items() if isinstance(v, cached_property)}
    return tuple({k: v for k, v in p.items() if k not in derived} if isinstance(p, dict) else p for p in reduced)


def _module_hash(module: types.ModuleType) -> str:
    """A user module is described by its source, any other module by its name."""
    path = getattr(module, "__file__", None)
    if not path or not _is_user_module(module.__name__):
        return module.__name__
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return module.__name__


def _is_user_module(module: str) -> bool:
    """Whether a module belongs neither to this library, nor to Python, nor to an installed package."""
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return module.partition(".")[0] != PACKAGE and not path.startswith(INSTALLED)


def _describe_function(function: types.FunctionType, seen: Seen) -> Iterator[str]:
    if str(function.__globals__.get("__name__", "")).partition(".")[0] == PACKAGE:
        # this library's validation wrapper around a user's method
        function = getattr(function, "__wrapped__", function)
    if is_ours(function):
        yield function.__qualname__
        return
    closed = [cell.cell_contents for cell in function.__closure__ or () if _has_content(cell)]
    named = [_resolve_global(function, name) for name in _global_names(function.__code__)]
    parts = (function.__code__, function.__defaults__, function.__kwdefaults__, closed, named)
    yield from _describe_all(parts, seen)


def _has_content(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (empty cells raise)
    except ValueError:
        return False
    return True


def _global_names(code: types.CodeType) -> list[str]:
    nested = [name for part in code.co_consts if isinstance(part, types.CodeType) for name in _global_names(part)]
    return sorted({*code.co_names, *nested})


def _resolve_global(function: types.FunctionType, name: str) -> object:
    """The global that the function may refer to: described if it is a value or user code."""
    value = function.__globals__.get(name)
    if isinstance(value, (types.FunctionType, type)):
        return value if _is_user_module(value.__module__) else None
    return value if isinstance(value, (*CONSTANT, list, dict, types.ModuleType)) else None


def _describe_class(kind: type, seen: Seen) -> Iterator[str]:
    yield kind.__qualname__
    for base in kind.__mro__:
        if is_ours(base) or base.__module__ in ("builtins", "abc", "typing"):
            yield base.__qualname__
            continue
        for name, value in sorted(vars(base).items()):
            if name not in LABELS and isinstance(value, (*CONSTANT, *CODE)):
                yield name
                yield from _describe(value, seen)
