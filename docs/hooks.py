"""What MkDocs does besides rendering pages: it adds the pages that are made from the code and from files of the
repository, and sets pictures and formulas into the page, where they take on its colours and need no script.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FILES = {
    "project/benchmarks.md": "benchmarks/bench.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/contributing.md": "CONTRIBUTING.md",
}
"""Pages that are files of the repository."""


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not in docs/."""
    from mkdocs.structure.files import File

    pages = {page: (DOCS.parent / path).read_text(encoding="utf-8") for page, path in FILES.items()}
    pages["reference/command-line.md"] = command_line_page()
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fences as the highlighter knows them, formulas as Markdown leaves them alone; a page alone needs no menu."""
    if page.parent is None:
        page.meta["hide"] = ["navigation"]
    plain = markdown.replace("```python no-run\n", "```python\n").replace("```output\n", "```text\n")
    return FORMULA.sub(_packed, plain)


FORMULA = re.compile(
    r"^```.*?^```|`[^`]*`|\$\$(?P<block>.+?)\$\$|\$(?P<inline>[^\s$][^$]*)\$", re.DOTALL | re.MULTILINE
)
"""LaTeX between dollars; or code, in which dollars are dollars."""


def _packed(found: re.Match[str]) -> str:
    """A formula in letters that mean nothing to Markdown."""
    if found["block"] is None and found["inline"] is None:
        return found[0]
    kind = "block" if found["block"] else "inline"
    return f'<span class="latex-{kind}">{base64.b64encode(found[kind].encode()).decode()}</span>'


def _formula(found: re.Match[str]) -> str:
    """The formula as MathML, which browsers know by themselves."""
    from latex2mathml.converter import convert

    return str(convert(" ".join(base64.b64decode(found[2]).decode().split()), display=found[1]))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Set formulas and our drawings into the page itself: as images they would not follow its colours."""
    html = re.sub(r'<span class="latex-(block|inline)">(.*?)</span>', _formula, html)
    drawn = re.compile(r'<p><img alt="[^"]*" src="[^"]*images/(\w+)\.svg"\s*/?></p>')
    return drawn.sub(lambda found: _drawing(found[1]), html)


def _drawing(name: str) -> str:
    content = (DOCS / "images" / f"{name}.svg").read_text(encoding="utf-8")
    return f'<figure class="drawing {name}">{content}</figure>'


def command_line_page() -> str:
    """Every command with its arguments and options, as the program itself knows them."""
    from typer.main import get_command

    from causalbandits.cli import app

    return page_of("causalbandits", get_command(app))


def page_of(name: str, program: Any) -> str:
    """The page of a program: itself, then its commands."""
    parts = ["# Command line", _help(program.help), "This page is made from the program itself."]
    parts += [f"## {name}", *_command(name, program, "")]
    for path, command in commands(program, name):
        parts += [f"## {path}", *_command(path, command, _help(command.help))]
    return "\n\n".join(part for part in parts if part) + "\n"


def commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All commands below a group, with what is typed to reach them."""
    for name, command in group.commands.items():
        if not command.hidden:
            yield f"{path} {name}", command
            if hasattr(command, "commands"):
                yield from commands(command, f"{path} {name}")


def _command(path: str, command: Any, about: str) -> list[str]:
    shown = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    arguments = [parameter for parameter in shown if not hasattr(parameter, "is_flag")]
    options = [parameter for parameter in shown if hasattr(parameter, "is_flag")]
    words = [path, *(["[OPTIONS]"] if options else []), *map(placeholder, arguments)]
    if hasattr(command, "commands"):
        words.append("COMMAND [ARGS]...")
    parts = [f"```text\n{' '.join(words)}\n```", about]
    if arguments:
        parts.append(_table("argument", [(placeholder(p), p) for p in arguments]))
    if options:
        parts.append(_table("option", [(_written(p), p) for p in options]))
    return parts


def placeholder(argument: Any) -> str:
    """How an argument is shown where a command is typed."""
    name = str(argument.metavar or argument.name).upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _written(option: Any) -> str:
    """How an option is typed, with an example of its value where it has one."""
    return " ".join([", ".join([*option.opts, *option.secondary_opts]), *filter(None, [option.metavar])])


def _table(kind: str, rows: list[tuple[str, Any]]) -> str:
    cells = [(f"`{name}`", escaped(p.help), _default(p)) for name, p in rows]
    columns = 3 if any(default for *_, default in cells) else 2
    lines = [(kind, "what it does", "default"), ("---",) * 3, *cells]
    return "\n".join(f"| {' | '.join(line[:columns])} |" for line in lines)


def _default(parameter: Any) -> str:
    value = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    if parameter.required:
        return "required"
    values = value if isinstance(value, list | tuple) else [value]
    told = [str(one) for one in values if isinstance(one, str | int | float | Path) and one is not False]
    return f"`{' '.join(told)}`" if told else ""


def _help(text: str | None) -> str:
    """A command's help as Markdown, lines of examples as code."""
    parts: list[str] = []
    for part in (text or "").split("\n\n"):
        if not part.startswith(" "):
            parts.append(escaped(part.strip("\n")))
        elif parts and parts[-1].startswith("```"):
            parts[-1] = parts[-1].removesuffix("```") + f"{part.strip()}\n```"
        else:
            parts.append(f"```shell\n{part.strip()}\n```")
    return "\n\n".join(parts)


def escaped(text: str | None) -> str:
    """Without Rich's markup, and with signs that Markdown would take for its own."""
    plain = re.sub(r"\[/?(bold|italic|dim|cyan|green|yellow|red)\]", "", text or "")
    return plain.replace("<", "&lt;").replace("|", "\\|")
