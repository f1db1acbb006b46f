"""Policies of your own in a specification: `id = "my_module:MyPolicy"`, beside the file or installed."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from causalbandits.errors import CausalBanditsError, PolicyError, unknown
from causalbandits.policies import AnyPolicy, Policy


def own_policy(place: str, parameters: Mapping[str, Any], folder: Path) -> AnyPolicy:
    """The policy that `module:Class` and its parameters make; modules are looked for in `folder`, too."""
    module_name, _, class_name = place.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise PolicyError(
            f'A policy of your own is written "module:Class", such as "my_module:MyPolicy"; got {place!r}.'
        )
    kind = _class(_module(module_name, folder), class_name)
    known = list(inspect.signature(kind).parameters)
    for name in parameters:
        if name not in known:
            raise PolicyError(unknown(f"parameter of {class_name}:", name, known))
    try:
        return kind(**parameters)
    except CausalBanditsError:
        raise
    except Exception as error:
        raise PolicyError(f"{class_name} raised {type(error).__name__}: {error}") from error


def _class(module: ModuleType, name: str) -> type[AnyPolicy]:
    kind = getattr(module, name, None)
    if isinstance(kind, type) and issubclass(kind, Policy):
        return kind
    policies = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Policy)]
    if kind is not None:
        raise PolicyError(f"{name} in {module.__file__} must be a subclass of causalbandits.Policy; it is {kind!r}.")
    raise PolicyError(unknown(f"policy of {module.__file__}:", name, policies))


def _module(name: str, folder: Path) -> ModuleType:
    """The module, from the folder or from wherever Python finds it.

    The folder stays on Python's path, because worker processes have to import the module, too; at its end, because
    files that happen to lie beside a specification must not take the place of installed modules.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise PolicyError(f"The module {name!r} needs {error.name!r}, which is not installed.") from error
        raise PolicyError(f"There is no module {name!r}, neither in {place} nor installed.") from None
    except Exception as error:
        raise PolicyError(f"The module {name!r} raised {type(error).__name__} when imported: {error}") from error
    _check_place(module, name, Path(place))
    return module


def _check_place(module: ModuleType, name: str, folder: Path) -> None:
    """A module in the folder is the one that is meant; another of its name must not be taken for it."""
    meant = folder.joinpath(*name.split(".")).with_suffix(".py")
    found = getattr(module, "__file__", None)
    if meant.exists() and (found is None or Path(found).resolve() != meant):
        raise PolicyError(f"{meant} cannot be imported: {name!r} is another module, {found}. Rename it.")
