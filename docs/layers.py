"""The diagram of the layers on docs/project/architecture.md, made from the contracts of import-linter.

    python docs/layers.py        writes it into the page

What a room holds is the first sentence of its docstring.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs/project/architecture.md"
START, END = "<!-- made by docs/layers.py -->\n", "<!-- until here -->\n"


def page() -> str:
    """The page with its diagram as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(START)
    return before + START + diagrams() + END + rest.split(END)[1]


def diagrams() -> str:
    """A diagram for each contract of layers, the package's own first."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [c for c in content["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    return "".join(f"\n{contract['name']}:\n\n```text\n{diagram(contract)}\n```\n" for contract in contracts) + "\n"


def diagram(contract: dict[str, Any]) -> str:
    """Every module of a contract with what it is for; a line between layers."""
    (container,) = contract["containers"]
    layers = [list(modules(layer)) for layer in contract["layers"]]
    width = max(len(name) for layer in layers for name, _ in layer)
    blocks = [[f"{name:<{width}} {sign} {about(container, name)}" for name, sign in layer] for layer in layers]
    rule = "─" * max(len(line) for block in blocks for line in block)
    return f"\n{rule}\n".join("\n".join(block) for block in blocks)


def modules(layer: str) -> Iterator[tuple[str, str]]:
    """The modules of a layer, with the sign that joins them: "|" never import each other, ":" may."""
    sign = "|" if "|" in layer else ":" if ":" in layer else " "
    for name in re.split(r"\s*[|:]\s*", layer):
        yield name, sign


def about(container: str, name: str) -> str:
    """The first sentence of a module's docstring."""
    path = ROOT / "src" / Path(*container.split("."), name)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    words = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.?])\s", words)[0]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
