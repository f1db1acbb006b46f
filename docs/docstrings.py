"""Docstrings as Markdown, for the reference: examples and drawings become code, signs stay signs."""

from __future__ import annotations

import re
from typing import Any

import griffe


class DocstringsAsMarkdown(griffe.Extension):
    """Rewrites every docstring that Griffe finds."""

    def on_package(self, *, pkg: Any, **kwargs: Any) -> None:
        prefer_imports_to_modules(pkg)
        import_errors(pkg)

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        rewrite(obj)


def rewrite(found: Any) -> None:
    """Turn the docstring of an object, if it has one, into Markdown."""
    if found.docstring is not None:
        found.docstring.value = as_markdown(found.docstring.value)


def rewrite_all(found: Any) -> None:
    """Turn the docstrings of an object and of everything in it into Markdown."""
    rewrite(found)
    for member in found.members.values():
        if not member.is_alias:
            rewrite_all(member)


def prefer_imports_to_modules(package: Any) -> None:
    """A name that a package imports stands for what is imported, as in Python, and not for a module of that name.

    `theory.bound` is a function from `theory/policy_bounds.py`; Griffe takes it for the module `theory/bound.py`.
    """
    shadowed = []
    for module in all_modules(package):
        for name, path in module.imports.items():
            member, inside = module.members.get(name), path.startswith(f"{package.path}.")
            if inside and member is not None and not member.is_alias and member.is_module and path != member.path:
                shadowed.append((module, name, member, package[path.removeprefix(f"{package.path}.")]))
    for module in all_modules(package):
        for name, member in list(module.members.items()):
            for _, _, hidden, _ in shadowed:
                if member.is_alias and member.target_path.startswith(f"{hidden.path}."):
                    target = hidden[member.target_path.removeprefix(f"{hidden.path}.")]
                    module.set_member(name, griffe.Alias(name, target, parent=module))
    for module, name, hidden, target in shadowed:
        module.set_member(name, griffe.Alias(name, target, parent=module))
        rewrite_all(hidden)  # Griffe does not find it any more


def import_errors(package: Any) -> None:
    """Let every module know the names of errors, so that they are links wherever a docstring says what is raised."""
    errors = [name for name in package["errors"].members if name.endswith(("Error", "Warning"))]
    for module in all_modules(package):
        for name in errors:
            if name not in module.members:
                module.imports[name] = f"{package.path}.errors.{name}"
                module.set_member(name, griffe.Alias(name, module.imports[name], parent=module))


def all_modules(module: Any) -> list[Any]:
    """A module, and those within it."""
    inner = [member for member in module.members.values() if not member.is_alias and member.is_module]
    return [module, *(found for member in inner for found in all_modules(member))]


def as_markdown(docstring: str) -> str:
    """Paragraph by paragraph; sections in Google style (Args, Returns, ...) stay as Griffe reads them."""
    return "\n\n".join(_paragraph(part) for part in docstring.split("\n\n"))


def _paragraph(text: str) -> str:
    if text.lstrip().startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if "├" in text:
        return f"```text\n{text}\n```"
    if text.startswith("    "):
        return text
    # <theta, W> is no HTML, and neither is P(z | a).
    return re.sub(r"<(?=\w)", "&lt;", text)
