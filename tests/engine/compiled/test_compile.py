"""Every file that compiled rounds are made of is part of their cache's key."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import causalbandits
from causalbandits.engine.compiled import argmax, gittins, primitives
from causalbandits.engine.compiled.kernel_cache import KERNELS, SOURCES
from causalbandits.policies.posteriors import INDEX, SAMPLERS


def global_names(code):
    nested = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(global_names, nested))


def add_reachable(function, functions):
    """Add a function of the library, and those that it calls by a global name."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType) or function in functions:
        return
    if function.__module__.startswith("causalbandits."):
        functions.add(function)
        for name in global_names(function.__code__):
            add_reachable(function.__globals__.get(name), functions)


def test_sources_name_each_file_of_the_kernels_once():
    functions = set()
    for kernel in KERNELS.values():
        add_reachable(kernel, functions)
    for module in (argmax, gittins, primitives):  # where functions are registered with the compiler
        for value in vars(module).values():
            add_reachable(value, functions)
    for index in (*INDEX.values(), *SAMPLERS.values()):
        for value in index if isinstance(index, tuple) else vars(index).values():
            add_reachable(value, functions)
    package = Path(causalbandits.__file__).parent
    files = {Path(sys.modules[f.__module__].__file__).relative_to(package).as_posix() for f in functions}
    assert "policies/posteriors/index_functions.py" in files
    assert files <= set(SOURCES)
    assert len(set(SOURCES)) == len(SOURCES)
    assert all((package / source).is_file() for source in SOURCES)
