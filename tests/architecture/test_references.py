"""Names in backquotes that look like modules of the package are modules of the package, or something in them."""

import ast
import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import causalbandits as cb

ROOT = Path(cb.__file__).parent
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
OBJECTS = {"agent": cb.Agent, "problem": cb.Problem, "study": cb.Study, "model": cb.CausalModel}
"""`agent.ask` is a method of any agent, not something of the folder `agent`."""
REFERENCE = re.compile(r"`(?:causalbandits[./])?(\w+(?:[./]\w+)+)(?:\.py)?`")


def docstrings_and_comments(text):
    for node in ast.walk(ast.parse(text)):
        for child in getattr(node, "body", []) if isinstance(getattr(node, "body", []), list) else []:
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant) and type(child.value.value) is str:
                yield child.lineno, child.value.value
    for number, line in enumerate(text.splitlines(), 1):
        if "#" in line:
            yield number, line.partition("#")[2]


def resolves(parts):
    """Whether `policies.base.Policy.decide` or `policies.base` is there."""
    owner = OBJECTS.get(parts[0])
    if hasattr(owner, parts[1]) or parts[1] in getattr(owner, "__annotations__", {}):
        return True
    module, rest = importlib.import_module("causalbandits"), list(parts)
    while rest:
        name = f"{module.__name__}.{rest[0]}"
        if not importlib.util.find_spec(name) if hasattr(module, "__path__") else True:
            break
        module, rest = importlib.import_module(name), rest[1:]
    thing = module
    for name in rest:
        fields = {**getattr(thing, "__annotations__", {}), **getattr(thing, "__dataclass_fields__", {})}
        if name in fields:
            return True
        if not hasattr(thing, name):
            return False
        thing = getattr(thing, name)
    return True


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_references_to_modules_resolve(path):
    stale = []
    for line, text in docstrings_and_comments(path.read_text()):
        for reference in REFERENCE.findall(text):
            parts = re.split(r"[./]", reference)
            if parts[0] in FOLDERS and not resolves(parts):
                stale.append(f"{path.relative_to(ROOT)}:{line}: {reference}")
    assert not stale, "\n".join(stale)
