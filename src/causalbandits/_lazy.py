"""Packages whose names are imported when they are first used (PEP 562).

A package exports lazily as follows. Type checkers and other readers of the source see ordinary imports and report
missing names; at run time the same imports are made one by one.

    if TYPE_CHECKING:
        from causalbandits.engine.plan import Source
        from causalbandits.engine.simulation import simulate
    else:
        __getattr__, __dir__ = lazy_exports(
            __name__,
            {
                "causalbandits.engine.plan": ["Source"],
                "causalbandits.engine.simulation": ["simulate"],
            },
        )

    __all__ = ["Source", "simulate"]

An exported name must not equal the name of another module of the package, because importing that module would overwrite
it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, names: Mapping[str, Iterable[str]], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package; `names` maps modules to exported names, or lists whole modules.

    A module is exported under the last part of its name. Imported names become attributes of the package.
    """
    module_of_name = {name: module for module, exported in names.items() for name in exported}
    module_by_name = {module.rpartition(".")[2]: module for module in modules}

    def get(name: str) -> Any:
        if name in module_by_name:
            value: Any = import_module(module_by_name[name])
        elif name in module_of_name:
            value = getattr(import_module(module_of_name[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
        setattr(sys.modules[package], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of_name, *module_by_name})

    return get, list_names
