"""`import causalbandits` loads next to nothing: the names of a lazy package are imported when they are first used."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import causalbandits as cb

SOURCE = Path(cb.__file__).parent
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def dotted(folder: Path) -> str:
    return ".".join(["causalbandits", *folder.relative_to(SOURCE).parts])


def lazy_part(folder: Path) -> ast.If | None:
    """The statement of a lazy package that has its imports, for type checkers, and its call of `lazy_exports`."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return found[0] if found else None


LAZY = [folder for folder in PACKAGES if lazy_part(folder)]


def loaded_by(code: str) -> list[str]:
    """The modules that a new process has loaded after some code."""
    program = f"{code}\nimport sys\nprint(*sys.modules, sep='\\n')"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()


def of_package(modules: list[str], package: str = "causalbandits") -> list[str]:
    return [name for name in modules if f"{name}.".startswith(f"{package}.")]


def test_importing_the_package_loads_next_to_none_of_its_modules_and_no_other_library():
    loaded = loaded_by("import causalbandits")
    assert set(of_package(loaded)) == {"causalbandits", "causalbandits._lazy"}
    assert not {"numpy", "scipy", "networkx", "opt_einsum", "numba", "matplotlib", "sqlite3"} & set(loaded)


@pytest.mark.parametrize(
    ("name", "untouched"),
    [
        ("CausalBanditsError", ["model", "problem", "policies"]),
        ("CausalModel", ["problem", "policies", "fitting", "formats"]),
        ("Problem", ["policies", "environments", "fitting", "study"]),
        ("Environment", ["policies", "engine", "study"]),
        ("Policy", ["policies.cells", "policies.registry", "fitting"]),
        ("Decision", ["campaign.report", "policies.registry", "results"]),
        ("Run", ["policies", "results.document", "engine"]),
        ("Agent", ["study", "engine", "environments", "planning", "theory"]),
        ("simulate", ["study", "campaign", "planning", "theory", "results.document"]),
        ("connect", ["study.study", "study.backup", "engine", "environments"]),
    ],
)
def test_a_name_loads_what_it_needs_and_not_whole_folders(name, untouched):
    loaded = loaded_by(f"from causalbandits import {name}")
    assert {folder: of_package(loaded, f"causalbandits.{folder}") for folder in untouched} == {
        folder: [] for folder in untouched
    }


def test_the_largest_packages_and_the_package_itself_are_lazy():
    names = {dotted(folder) for folder in LAZY}
    assert {"causalbandits", "causalbandits.campaign", "causalbandits.policies", "causalbandits.results"} <= names


@pytest.mark.parametrize("folder", LAZY, ids=dotted)
def test_a_lazy_package_imports_at_run_time_what_type_checkers_see(folder):
    statement = lazy_part(folder)
    seen = {
        (f"{node.module}.{alias.name}" if is_module(node.module, alias.name) else node.module, alias.name)
        for node in statement.body
        for alias in node.names
    }
    (assignment,) = statement.orelse
    assert ast.unparse(assignment.targets[0]) == "(__getattr__, __dir__)"
    package, names, *modules = [
        *assignment.value.args[:1],
        *map(ast.literal_eval, assignment.value.args[1:]),
        *(ast.literal_eval(keyword.value) for keyword in assignment.value.keywords),
    ]
    assert ast.unparse(package) == "__name__"
    exported = [(module, name) for module, found in names.items() for name in found]
    exported += [(module, module.rpartition(".")[2]) for found in modules for module in found]
    assert sorted(exported) == sorted(seen)
    assert set(importlib.import_module(dotted(folder)).__all__) <= {name for _, name in exported}


def is_module(package: str, name: str) -> bool:
    """Whether `from package import name` means a module; functions that are named like their own are not."""
    path = SOURCE.parent.joinpath(*package.split("."), name)
    value = getattr(importlib.import_module(package), name, None)
    return (path.with_suffix(".py").exists() or path.is_dir()) and (value is None or type(value) is type(ast))


@pytest.mark.parametrize("folder", LAZY, ids=dotted)
def test_no_lazy_name_is_that_of_another_module_of_its_package(folder):
    """Whoever imports `package.name` sets the attribute `name` of the package."""
    package = importlib.import_module(dotted(folder))
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    for name in set(package.__all__) & modules:
        assert getattr(package, name) is importlib.import_module(f"{dotted(folder)}.{name}"), name


@pytest.mark.parametrize("folder", LAZY, ids=dotted)
def test_a_lazy_package_lists_its_names_and_refuses_others(folder):
    package = importlib.import_module(dotted(folder))
    assert set(package.__all__) <= set(dir(package))
    assert dir(package) == sorted(set(dir(package)))
    with pytest.raises(AttributeError, match=rf"^module '{dotted(folder)}' has no attribute 'nothing'$"):
        _ = package.nothing


def test_a_star_import_gives_every_name():
    names = {}
    exec("from causalbandits import *", names)
    assert set(cb.__all__) <= set(names)
    assert all(names[name] is getattr(cb, name) for name in cb.__all__)


def test_a_lazy_name_is_the_object_itself_and_pickles():
    assert cb.Intervention is importlib.import_module("causalbandits.model.intervention").Intervention
    assert vars(cb)["Intervention"] is cb.Intervention
    code = "import causalbandits as cb, pickle, sys; sys.stdout.buffer.write(pickle.dumps(cb.Intervention(x=1)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert pickle.loads(done.stdout) == cb.Intervention(x=1)


FIRST = """
import importlib, os, sys
import networkx, numpy, opt_einsum, typer
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        importlib.import_module(name)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        print(name)
"""


def test_every_package_can_be_imported_first():
    """No cycle of imports is hidden by an order in which they happen to be made."""
    names = [dotted(folder) for folder in PACKAGES if folder.parent in (SOURCE, SOURCE.parent)]
    done = subprocess.run([sys.executable, "-c", FIRST, *names], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
