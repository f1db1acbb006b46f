"""One word for one thing: arguments, attributes, options and fields have the names of the glossary, and no others."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("msgspec")

import typer.main

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.policies import FAMILIES
from causalbandits.problem import SPEC_ENTRIES
from causalbandits.service.openapi import build_document
from causalbandits.service.routes import ROUTES
from causalbandits.study.remote import RemoteStudy

ROOT = Path(__file__).parents[2]

REPLACED = {
    "always": "optional, for the exception",
    "at_most": "max_set, or limit",
    "draws": "samples",
    "epsilon": "tolerance",
    "floor": "min_propensity",
    "forget": "cancel",
    "hold": "hold_until_window",
    "impossible": "zero_probability",
    "late": "delayed, or late_outcomes",
    "learnt": "learned, or estimated",
    "level": "confidence, or alpha",
    "loss": "expected_loss",
    "observable": "can_observe",
    "require": "max_probability",
    "risk": "error_probability",
    "separator": "adjust",
    "tables": "cpts",
    "trust": "trust_past",
    "window": "attribution_window",
}
"""Names that mean several things or one of several, and the name that the library uses."""

GONE = ["ObservedModel", "FittedModel", "FittedObservedModel", "StepEnvironment", "CausalBandit"]


def doors() -> Iterator[tuple[str, Any]]:
    """Every name that a package exports."""
    for path in sorted((ROOT / "src/causalbandits").rglob("__init__.py")):
        package = ".".join(path.parent.relative_to(ROOT / "src").parts)
        module = importlib.import_module(package)
        for name in getattr(module, "__all__", ()):
            yield f"{package}.{name}", getattr(module, name)


def parameters(name: str, thing: Any) -> Iterator[str]:
    """The arguments of a function, or of a class and its public methods."""
    if inspect.isclass(thing) and thing.__module__.startswith("causalbandits"):
        for method, function in inspect.getmembers(thing, inspect.isroutine):
            if method == "__init__" or not method.startswith("_"):
                yield from parameters(f"{name}.{method}", function)
    elif inspect.isroutine(thing) and (getattr(thing, "__module__", None) or "").startswith("causalbandits"):
        yield from (f"{name}({parameter})" for parameter in inspect.signature(thing).parameters)


TOP = {name: getattr(cb, name) for name in cb.__all__ if not inspect.ismodule(getattr(cb, name))}


def test_the_arguments_are_found() -> None:
    found = [entry for name, thing in TOP.items() for entry in parameters(name, thing)]
    assert {"fit(data)", "Problem.__init__(optional)", "Study.expire(limit)", "Agent.learn(trust_past)"} <= {*found}


@pytest.mark.parametrize("name", [*TOP, "RemoteStudy", *FAMILIES, "problem.ActionSpace", "problem.Situation"])
def test_no_argument_has_a_name_that_was_replaced(name: str) -> None:
    thing = {**TOP, **FAMILIES, "RemoteStudy": RemoteStudy}.get(name) or getattr(cb.problem, name.partition(".")[2])
    found = [(entry, entry.rpartition("(")[2].rstrip(")")) for entry in parameters(name, thing)]
    names = set(REPLACED) - ({"window"} if name in FAMILIES else set())  # a policy's own, of rounds and no seconds
    assert [entry for entry, parameter in found if parameter in names] == []


@pytest.mark.parametrize("name", [*TOP, "RemoteStudy", *FAMILIES])
def test_no_attribute_has_a_name_that_was_replaced(name: str) -> None:
    thing = {**TOP, **FAMILIES, "RemoteStudy": RemoteStudy}[name]
    listed = {*dir(thing), *(field.name for field in (fields(thing) if is_dataclass(thing) else ()))}
    assert listed & {*REPLACED, "rounds" if name == "Agent" else "forget"} == set()


def test_no_package_exports_a_name_that_was_replaced() -> None:
    names = [name for name, _ in doors()]
    assert len(names) > 200
    assert [name for name in names if name.rpartition(".")[2] in {*REPLACED, *GONE}] == []


def test_no_option_has_a_name_that_was_replaced() -> None:
    def options(command: Any) -> Iterator[str]:
        for parameter in command.params:
            yield from (f"{command.name} {flag}" for flag in parameter.opts)
        for inner in getattr(command, "commands", {}).values():
            yield from options(inner)

    found = list(options(typer.main.get_command(app)))
    assert len(found) > 100
    flags = {f"--{name.replace('_', '-')}" for name in REPLACED}
    assert [option for option in found if option.rpartition(" ")[2] in flags] == []


def test_no_field_over_http_and_no_entry_has_a_name_that_was_replaced() -> None:
    def names(schema: Any) -> Iterator[str]:
        if isinstance(schema, dict):
            yield from schema.get("properties", {})
            for part in schema.values():
                yield from names(part)
        for part in schema if isinstance(schema, list) else ():
            yield from names(part)

    found = {*names(build_document(ROUTES)), *SPEC_ENTRIES}
    assert len(found) > 100
    assert found & set(REPLACED) == set()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_passes_an_argument_that_was_replaced(page: Path) -> None:
    """A policy of one's own may have parameters of its own: the example is epsilon-greedy."""
    text = page.read_text(encoding="utf-8")
    names = set(REPLACED) - ({"epsilon"} if page.stem in ("own_policy", "own-policy", "write-a-policy") else set())
    assert re.findall(rf"(?<![\w.-])(?:{'|'.join(sorted(names))})=(?!=)", text) == []
    assert re.findall(rf"\b(?:{'|'.join(GONE)})\b|\bagent\.rounds\b|\.forget\(", text) == []
