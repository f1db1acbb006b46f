"""The docstrings of the public names: Google style, a line for every parameter, and examples."""

from __future__ import annotations

import inspect
import logging
import re
import types
from functools import cached_property
from pathlib import Path

import pytest

import causalbandits as cb
from causalbandits.policies import FAMILIES
from causalbandits.study import RemoteStudy

MODULES = ["errors", "policies", "rewards", "testing", "theory", "zoo"]
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SECTIONS = ["Args", "Attributes", "Raises", "Returns", "Warns", "Yields"]
DESCRIPTORS = property | cached_property


def public_names(module):
    """The names of a module that users may import."""
    if module is cb.policies:
        return [kind.__name__ for kind in FAMILIES.values()]
    if module is cb.errors:
        return [name for name, entry in vars(cb.errors).items() if is_error(entry)]
    return module.__all__


def is_error(entry):
    return isinstance(entry, type) and issubclass(entry, cb.CausalBanditsError | cb.CausalBanditsWarning)


def top_level():
    """The public classes and functions: at the top of the package, then in its modules."""
    names = {name: getattr(cb, name) for name in cb.__all__} | {"study.RemoteStudy": RemoteStudy}
    for module in MODULES:
        names |= {f"{module}.{name}": getattr(getattr(cb, module), name) for name in public_names(getattr(cb, module))}
    return {name: entry for name, entry in names.items() if callable(entry)}


def shown(kind):
    """The public attributes that `dir` shows of an object of this class."""
    concrete = kind
    while inspect.isabstract(concrete):
        concrete = concrete.__subclasses__()[0]
    names = dir(kind) if kind.__dir__ is object.__dir__ else kind.__dir__(object.__new__(concrete))
    return [name for name in names if not name.startswith("_")]


def members(kind):
    """The public methods and properties of a class that this library defines."""
    for name in shown(kind):
        owner = next((base for base in kind.__mro__ if name in vars(base)), None)
        if owner is None or not owner.__module__.startswith("causalbandits"):
            continue
        entry = vars(owner)[name]
        if isinstance(entry, classmethod | staticmethod):
            entry = entry.__func__
        if isinstance(entry, DESCRIPTORS) or inspect.isfunction(entry):
            yield name, entry


def documented():
    """What needs a docstring: classes and functions, and the public methods and properties of the classes."""
    entries = {}
    for name, entry in top_level().items():
        entries[name] = entry
        if isinstance(entry, type) and entry not in FAMILIES.values():
            entries |= {f"{name}.{member}": function for member, function in members(entry)}
    return entries


TOP_LEVEL, DOCUMENTED = top_level(), documented()


def docstring_of(name):
    """The docstring of an entry; a method without one has that of the method that it overrides."""
    entry = DOCUMENTED[name]
    if isinstance(entry, type):
        return inspect.cleandoc(entry.__doc__ or "")
    text = entry.__doc__
    if not text and "." in name:
        kind = DOCUMENTED[name.rpartition(".")[0]]
        found = [vars(base)[entry_name(entry)] for base in kind.__mro__ if entry_name(entry) in vars(base)]
        text = next((base.__doc__ for base in found if base.__doc__), None)
    return inspect.cleandoc(text or "")


def entry_name(entry):
    function = entry.fget if isinstance(entry, property) else getattr(entry, "func", entry)
    return function.__name__


def sections(docstring):
    """The sections of a docstring in Google style, by their titles."""
    parts = re.split(r"^(\w+):\n(?= )", docstring, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(section):
    """The names that a section lists."""
    return re.findall(r"^ {4}\*{0,2}(\w+): +\S", section, flags=re.MULTILINE)


def own_bases(kind):
    """The class and its bases, as far as they are this library's; an error's parameters are those of its base."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("causalbandits")]
    return bases[:1] if is_error(kind) else bases


def parameters(entry):
    """The names of an entry's parameters, but for `self` and `cls`."""
    if isinstance(entry, DESCRIPTORS):
        return []
    if isinstance(entry, type) and not any({"__init__", "__new__"} & set(vars(base)) for base in own_bases(entry)):
        return []  # those of a built-in class
    return [
        name
        for name, parameter in inspect.signature(entry).parameters.items()
        if name not in ("self", "cls") and not name.startswith("_")
    ]


def fields(kind):
    """The fields of a class that is one record: its instances are returned, and their fields read."""
    return list(getattr(kind, "_fields", ()) or getattr(kind, "__dataclass_fields__", ()))


def paragraphs(docstring):
    """The paragraphs of a docstring that are neither an example nor a section."""
    prose = re.split(r"^\w+:\n(?= )", docstring, maxsplit=1, flags=re.MULTILINE)[0]
    return [part for part in prose.split("\n\n") if part.strip() and not part.lstrip().startswith(">>>")]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_name_has_a_docstring(name):
    docstring = docstring_of(name)
    assert docstring, f"{name} has no docstring."
    summary = docstring.split("\n\n")[0]
    assert re.search(r"[.:]$", summary), f"The summary of {name} is no sentence: {summary!r}."
    unknown = set(re.findall(r"^(\w+):$", docstring, flags=re.MULTILINE)) - set(SECTIONS)
    assert not unknown, f"{name} has sections that are not among {SECTIONS}: {unknown}."


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_arguments_are_those_of_the_signature(name):
    entry, found = DOCUMENTED[name], sections(docstring_of(name))
    if isinstance(entry, type) and "Attributes" in found and "Args" not in found:
        expected = [field for field in fields(entry) if not field.startswith("_")] or parameters(entry)
        assert set(expected) <= set(listed(found["Attributes"])), name
    else:
        names = parameters(entry)
        if name.startswith("policies.") and "changes" in names:  # inherited, and described last
            names = [*(other for other in names if other != "changes"), "changes"]
        refuses = not getattr(entry, "follows_changes", True)
        assert listed(found.get("Args", "")) == [other for other in names if other != "changes" or not refuses], name


@pytest.mark.parametrize("name", [name for name, entry in DOCUMENTED.items() if not isinstance(entry, type)])
def test_what_is_returned_is_documented(name):
    entry, docstring = DOCUMENTED[name], docstring_of(name)
    if isinstance(entry, DESCRIPTORS):
        return_type = "a value"
    else:
        return_type = inspect.signature(entry).return_annotation
    found = sections(docstring)
    if return_type in (None, "None", "NoReturn"):
        assert "Returns" not in found, f"{name} returns nothing."
    else:
        is_one_sentence = not parameters(entry) and len(paragraphs(docstring)) == 1
        assert {"Returns", "Yields"} & set(found) or is_one_sentence or isinstance(entry, DESCRIPTORS), name


@pytest.mark.parametrize("name", [name for name, entry in TOP_LEVEL.items() if not is_error(entry)])
def test_a_public_name_has_an_example(name):
    examples = [docstring_of(entry) for entry in DOCUMENTED if entry == name or entry.startswith(f"{name}.")]
    assert any(">>> " in docstring for docstring in examples), name


@pytest.mark.parametrize("name", [name for name, entry in DOCUMENTED.items() if not isinstance(entry, DESCRIPTORS)])
def test_arguments_do_not_repeat_their_types(name):
    """The signature has them; the reference shows both side by side."""
    found = sections(docstring_of(name))
    assert not re.search(r"^ {4}\w+ \([^)]*\):", found.get("Args", "") + found.get("Attributes", ""), re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_a_public_module_has_a_docstring(module):
    assert isinstance(getattr(cb, module), types.ModuleType)
    assert getattr(cb, module).__doc__


def test_the_reference_reads_the_sections(caplog):
    """Griffe, which reads docstrings for the pages, finds the parameters that the text lists, and has no complaint."""
    griffe = pytest.importorskip("griffe")
    package = griffe.load("causalbandits", search_paths=[SOURCE], resolve_aliases=True)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for name, entry in DOCUMENTED.items():
            function = entry.fget if isinstance(entry, property) else getattr(entry, "func", entry)
            path = f"{function.__module__}.{function.__qualname__}".removeprefix("causalbandits.")
            docstring = package[path].docstring
            if docstring is None:
                continue  # that of the method that it overrides
            parsed = docstring.parse("google", returns_multiple_items=False)
            found = [
                parameter.name.lstrip("*")
                for part in parsed
                if part.kind.value == "parameters"
                for parameter in part.value
            ]
            assert found == listed(sections(docstring_of(name)).get("Args", "")), name
            titles = {"Attributes": "attributes", "Raises": "raises", "Returns": "returns", "Yields": "yields"}
            expected = {kind for title, kind in titles.items() if title in sections(docstring_of(name))}
            assert expected <= {part.kind.value for part in parsed}, name
    assert not caplog.records, "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("kind", [cb.Problem, cb.Study])
def test_the_reference_shows_the_attributes_for_users(kind):
    page = (ROOT / f"docs/reference/api/{kind.__name__.lower()}.md").read_text(encoding="utf-8")
    listed_members = re.search(
        rf"^::: causalbandits\.{kind.__name__}\n.*?members: \[(.*?)\]", page, re.DOTALL | re.MULTILINE
    )
    assert listed_members is not None
    assert sorted(re.findall(r"\w+", listed_members[1])) == sorted(shown(kind))


def test_the_reference_shows_functions_and_not_modules_of_the_same_name():
    """`theory.bound` is a function, and `theory/bound.py` a module; examples become code wherever they stand."""
    griffe = pytest.importorskip("griffe")
    extensions = griffe.load_extensions(str(ROOT / "docs/docstrings.py"))
    package = griffe.load("causalbandits", search_paths=[SOURCE], resolve_aliases=True, extensions=extensions)
    for name, entry in TOP_LEVEL.items():
        found = package[name]
        assert found.is_class if isinstance(entry, type) else found.is_function, name
        assert not found.docstring or not re.search(r"(?:^|\n\n)>>>", found.docstring.value), name
    assert "```pycon\n>>> " in package["fit"].docstring.value
    assert package["agent.agent"].resolve("PolicyError") == "causalbandits.errors.PolicyError"
