"""The layout of the package: folders with doors, names of the field, and no private name used elsewhere.

The order of the folders is a matter of import-linter's contracts in pyproject.toml (`make check`).
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.conftest import SLOW

SOURCE = Path(__file__).parents[2] / "src/causalbandits"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module's syntax tree, by its path in the package."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def folder(module: str) -> str:
    return module.rpartition("/")[0]


def is_inside(inner: str, outer: str) -> bool:
    return outer == "" or inner == outer or inner.startswith(f"{outer}/")


def imports(tree: ast.Module):
    """(path in the package, imported name) of every import from this package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, "relative imports hide what is imported"
            if (node.module or "").split(".")[0] == "causalbandits":
                for alias in node.names:
                    yield "/".join(node.module.split(".")[1:]), alias.name
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith("causalbandits") for alias in node.names)


def past_a_door(importer: str, path: str, name: str) -> bool:
    """Whether an import names a file of a folder that the importing module is not in."""
    target = f"{path}/{name}" if f"{path}/{name}.py" in modules() and f"{path}/__init__.py" in modules() else path
    if f"{target}.py" not in modules():
        return False  # a folder's door, or a name that it exports
    exported = name in door_names(path) if target != path else False
    return not exported and not is_inside(folder(importer), folder(f"{target}.py"))


def door_imports(tree: ast.Module):
    """The imports of a door, of which a lazy one has those that are seen by type checkers only."""
    for node in tree.body:
        lazy = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        yield from (part for part in (node.body if lazy else [node]) if isinstance(part, ast.ImportFrom))


@cache
def door_names(path: str) -> frozenset[str]:
    tree = modules()[f"{path}/__init__.py"]
    return frozenset(alias.asname or alias.name for node in door_imports(tree) for alias in node.names)


def test_other_folders_import_a_folder_and_never_a_file_in_it():
    found = [
        f"{importer} imports {path.replace('/', '.')}.{name}"
        for importer, tree in modules().items()
        for path, name in imports(tree)
        if past_a_door(importer, path, name)
    ]
    assert found == []


def test_a_door_exports_only_what_is_behind_it_and_says_what_that_is():
    for module, tree in modules().items():
        if module.endswith("/__init__.py"):
            assert ast.get_docstring(tree), module


def test_folders_are_small_enough_to_be_taken_in():
    """At most 18 files in a folder, and 330 in all."""
    files: dict[str, int] = {}
    for module in modules():
        if not module.endswith("__init__.py"):
            files[folder(module)] = files.get(folder(module), 0) + 1
    assert {name: n for name, n in files.items() if n > 18} == {}
    assert len(modules()) <= 330


PARTICIPLES = re.compile(
    r"_?(allowed|asked|chosen|checked|counted|decided|described|drawn|estimated|favoured|filled|found|given|"
    r"held|imagined|joined|judged|kept|known|laid|learnt|left|listed|made|measured|mended|merged|named|narrowed|needed|"
    r"opened|paced|permitted|planned|played|priced|projected|promised|put|rationed|recommended|reduced|refused|"
    r"renewed|said|scored|screened|searched|seen|sent|settled|shared|shown|solved|spent|stated|stopped|stored|summed|"
    r"taken|tested|told|typed|used|varied|wanted|watched|weighed|whitened|written)(_.*)?"
)


def test_functions_are_named_by_a_verb_or_by_the_noun_they_return():
    """Not by a participle, which names neither; a few adjectives of a state are left."""
    found = [
        f"{module}: {node.name}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and PARTICIPLES.fullmatch(node.name)
    ]
    assert len(found) < 20, found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_what_is_private_to_a_folder_is_imported_only_there():
    for module, tree in modules().items():
        for path, name in imports(tree):
            inside = is_inside(folder(module), path if f"{path}/__init__.py" in modules() else folder(f"{path}.py"))
            private = [part for part in (*path.split("/")[1:], name) if is_private(part)]
            assert inside or not private, f"{module}: {path}.{name}"


def room(module: str) -> str:
    return module.split("/")[0].removesuffix(".py")


OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


def test_private_attributes_are_used_only_in_the_package_that_defines_them():
    own: dict[str, set[str]] = {}
    for module, tree in modules().items():
        names = own.setdefault(room(module), set(OF_NAMED_TUPLES))
        for node in ast.walk(tree):
            match node:
                case ast.Attribute(ast.Name("self"), name, ast.Store()) | ast.Name(name, ast.Store()):
                    names.add(name)
                case ast.FunctionDef(name) | ast.ClassDef(name):
                    names.add(name)
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr):
                inherited = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                assert inherited or node.attr in own[room(module)], f"{module}, line {node.lineno}: {node.attr}"


def test_public_names_have_one_meaning():
    """A name that one package exports is exported by no other, unless it is the same thing."""
    places: dict[str, set[str]] = {}
    for module, tree in modules().items():
        if not module.endswith("/__init__.py") or room(module) == "cli":
            continue  # commands are named like the functions that they call
        for node in door_imports(tree):
            if (node.module or "").startswith("causalbandits."):
                for alias in node.names:
                    places.setdefault(alias.asname or alias.name, set()).add(defined_in(node.module, alias.name))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def defined_in(module: str, name: str) -> str:
    """The module that defines a name, found through the doors that pass it on."""
    path = "/".join(module.split(".")[1:])
    door = f"{path}/__init__.py"
    if door in modules() and f"{path}/{name}.py" not in modules():
        for node in door_imports(modules()[door]):
            if any((alias.asname or alias.name) == name for alias in node.names):
                return defined_in(node.module, name)
    return module


def test_slow_tests_are_where_their_markers_say():
    tests = Path(__file__).parents[1]
    assert all((tests / file).exists() for files in SLOW.values() for file in files)
