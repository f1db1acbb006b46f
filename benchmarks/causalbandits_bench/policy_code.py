"""A hash of the library's own code that a policy is made of: what was played by other code is played again."""

from __future__ import annotations

import ast
import hashlib
import sys
from functools import cache
from pathlib import Path

ROOM = "causalbandits.policies"


def code_of_policy(kind: type) -> str:
    """Of the modules in which its class and the bases are defined, and of those of the policies that they import.

    >>> from causalbandits.policies import CausalGittins, CausalUCB
    >>> code_of_policy(CausalUCB) == code_of_policy(CausalGittins)
    False
    """
    return hashlib.sha256("".join(map(_source, sorted(modules_of(kind)))).encode()).hexdigest()[:16]


def modules_of(kind: type) -> set[str]:
    """Their names."""
    found: set[str] = set()
    left = {base.__module__ for base in kind.__mro__ if base.__module__.startswith(ROOM)}
    while left:
        name = left.pop()
        found.add(name)
        left |= _imported(name) - found
    return found


def _source(name: str) -> str:
    return Path(str(sys.modules[name].__file__)).read_text(encoding="utf-8")


@cache
def _imported(name: str) -> frozenset[str]:
    """Modules of the room that a module imports; `from room import module`, too."""
    names = set()
    for node in ast.walk(ast.parse(_source(name))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(ROOM):
            names |= {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
    return frozenset(one for one in names if one != ROOM and one in sys.modules)
