"""Reports as offline pages and Markdown, figures in three formats, and tables with their provenance."""

from __future__ import annotations

import base64
import csv
import html
import io
import platform
import re
import subprocess
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from causalbandits._files import write_atomically
from causalbandits._tables import format_table
from causalbandits.results.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Heading:
    """The title of a section."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Code:
    """Preformatted lines."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A figure in the report's folder, by name."""

    name: str
    caption: str


@dataclass(frozen=True)
class Grid:
    """A table; the first column is text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Drawing:
    """An inline SVG picture."""

    svg: bytes
    caption: str


Part = Heading | Text | Code | Picture | Drawing | Grid


def write_page(folder: str | Path, parts: Sequence[Part]) -> None:
    """Write `report.html` and `report.md`; the first part is the title."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "report.html", as_html(parts, folder).encode())
    write_atomically(folder / "report.md", as_markdown(parts).encode())


def format_number(value: object) -> str:
    """The text of a cell: numbers with three digits, or whole from 100 on.

    >>> format_number(0.12345), format_number(1234.5), format_number(1234), format_number("ucb")
    ('0.123', '1,234', '1,234', 'ucb')
    """
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def final_regret_grid(runs: Mapping[str, Run]) -> Grid:
    """The final regret of every setting and policy."""
    rows = [
        (setting, row.policy, f"{row.mean:.1f}", f"{row.standard_error:.1f}", f"{row.lower:.1f} to {row.upper:.1f}")
        for setting, run in runs.items()
        for row in run.summary()
    ]
    return Grid(("setting", "policy", "final regret", "standard error", "95% interval"), rows)


def provenance(command: str, seed: int, replications: int) -> dict[str, Any]:
    """The origin of the numbers, without anything that differs between identical runs."""
    return {
        "command": command,
        "seed": seed,
        "replications": replications,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("causalbandits", "numpy", "numba", "scipy")},
        },
        "commit": _commit(),
    }


def format_versions(about: Mapping[str, Any]) -> str:
    """Commit and versions, in one line."""
    numbers = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return f"commit {about['commit']}; {numbers}"


def _commit() -> str:
    """The commit of the repository of this source, marked if files differ from it; "unknown" outside of a
    repository."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return "unknown"
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return completed.stdout.strip() if completed.returncode == 0 else "unknown"


def write_data(folder: Path, name: str, runs: Mapping[str, Run], about: Mapping[str, Any]) -> None:
    """Write the curves, and the final regrets of every replication."""
    folder.mkdir(parents=True, exist_ok=True)
    curves: list[tuple[Any, ...]] = []
    finals: list[tuple[Any, ...]] = []
    for setting, run in runs.items():
        for policy in run.policies:
            columns = zip(run.rounds.tolist(), *(values.tolist() for values in run.interval(policy)), strict=True)
            curves += [(setting, policy, *values) for values in columns]
            final = run.regret(policy)[:, -1].tolist()
            finals += [
                (setting, policy, replication, regret) for replication, regret in zip(run.numbers, final, strict=True)
            ]
    write_csv(folder / f"{name}.csv", about, ("setting", "policy", "round", "mean", "lower", "upper"), curves)
    write_csv(folder / f"{name}-final.csv", about, ("setting", "policy", "replication", "regret"), finals)


def write_csv(path: Path, about: Mapping[str, Any], head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    """Write comma-separated values after `#` lines with the provenance."""
    text = io.StringIO(newline="")
    for line in (about["command"], f"seed {about['seed']}, {format_versions(about)}"):
        text.write(f"# {line}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    write_atomically(path, text.getvalue().encode())


def write_figures(folder: str | Path, figures: Mapping[str, Figure]) -> None:
    """Write each figure as SVG, PDF and PNG, by name."""
    import matplotlib

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Identical pictures give identical files: no dates, no random ids.
    fixed: Any = {"svg.hashsalt": "causalbandits", "pdf.fonttype": 42}
    for name, figure in figures.items():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout is computed once for all three
        for ending, metadata in (("svg", {"Date": None}), ("pdf", {"CreationDate": None}), ("png", None)):
            picture = io.BytesIO()
            with matplotlib.rc_context(fixed):
                figure.savefig(picture, format=ending, metadata=metadata, dpi=200)
            write_atomically(folder / f"{name}.{ending}", picture.getvalue())


def as_markdown(parts: Iterable[Part]) -> str:
    """The parts as Markdown; figures are links into the folder."""
    lines: list[str] = []
    for part in parts:
        match part:
            case Heading(text, level):
                lines += [f"{'#' * level} {text}", ""]
            case Text(text):
                lines += [text, ""]
            case Code(text):
                lines += ["```", text, "```", ""]
            case Picture(name, caption):
                lines += [f"![{caption}](figures/{name}.svg)", "", f"*{caption}*", ""]
            case Drawing(_, caption):
                lines += [f"*{caption}*", ""]
            case Grid(head, rows):
                align = ["---:" if right else "---" for right in _numeric_columns(head, rows)]
                table = [head, align, *rows]
                lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in table]
                lines.append("")
    return "\n".join(lines)


def as_html(parts: Sequence[Part], folder: Path) -> str:
    """The parts as one page, figures included."""
    body = "\n".join(_part_html(part, folder) for part in parts)
    return PAGE.format(
        title=html.escape(parts[0].text if isinstance(parts[0], Heading) else "Report"), style=STYLE, body=body
    )


def _part_html(part: Part, folder: Path) -> str:
    match part:
        case Heading(text, level):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Text(text):
            return f"<p>{html.escape(text)}</p>"
        case Code(text):
            return f"<pre>{html.escape(text)}</pre>"
        case Picture(name, caption):
            return _figure_html((folder / "figures" / f"{name}.svg").read_bytes(), caption)
        case Drawing(svg, caption):
            return _figure_html(svg, caption)
        case Grid(head, rows):
            kinds = [' class="number"' * right for right in _numeric_columns(head, rows)]
            top = "".join(f"<th{kind}>{html.escape(cell)}</th>" for cell, kind in zip(head, kinds, strict=True))
            lines = "".join(f"<tr>{''.join(map(_cell_html, row))}</tr>" for row in rows)
            kind = "table long" if len(rows) > LONG else "table"
            return f'<div class="{kind}"><table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table></div>'


def _figure_html(svg: bytes, caption: str) -> str:
    picture, escaped_caption = base64.b64encode(svg).decode(), html.escape(caption)
    return (
        f'<figure><img src="data:image/svg+xml;base64,{picture}" alt="{escaped_caption}">'
        f"<figcaption>{escaped_caption}</figcaption></figure>"
    )


def as_html_body(parts: Iterable[Part]) -> str:
    """The parts as an HTML fragment, for notebooks."""
    return "\n".join(_part_html(part, Path()) for part in parts)


def as_text(parts: Iterable[Part]) -> str:
    """The parts as plain text, without pictures."""
    lines: list[str] = []
    for part in parts:
        match part:
            case Heading(text, _):
                lines += [text, "-" * len(text)]
            case Text(text):
                lines += [*textwrap.wrap(text, 100, break_on_hyphens=False), ""]
            case Code(text):
                lines += [text, ""]
            case Grid(head, rows):
                lines += [format_table(tuple(head), [tuple(row) for row in rows]), ""]
    return "\n".join(lines).rstrip()


def _cell_html(cell: str) -> str:
    kind = KINDS.get(cell.split(":")[0], "number" if _is_number(cell) else "")
    return f'<td class="{kind}">{html.escape(cell)}</td>' if kind else f"<td>{html.escape(cell)}</td>"


def _numeric_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """The columns that are aligned right, headers included: those of numbers."""
    return [_is_number(cell) for cell in (rows[0] if rows else head)]


def _is_number(cell: str) -> bool:
    return re.fullmatch(r"(< )?-?[0-9][0-9,.e+-]*", cell) is not None


LONG = 30
"""Tables with more rows scroll in an area of their own."""

KINDS = {
    "holds": "yes",
    "fails": "no",
    "open": "open",
    "holds in part": "part",
    "does not hold as printed": "no",
    "inconclusive at these replications": "open",
}

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --soft: #555; --paper: #fff; --line: #ddd; --shade: #f5f5f3;
  --yes: #006d4c; --no: #b03a00; --part: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e6; --soft: #aaa; --paper: #161615; --line: #3a3a38;
  --shade: #222220; --yes: #55d0a5; --no: #ff9a6b; --part: #f0c060; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 4rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { margin-top: 2.6rem; border-bottom: 1px solid var(--line); }
h3 { margin-top: 1.8rem; font-size: 1.05rem; }
pre { background: var(--shade); padding: .7rem .9rem; overflow-x: auto; white-space: pre-wrap; border-radius: .4rem;
  font-size: .85rem; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; height: auto; background: #fff; border-radius: .4rem;
  padding: .5rem; }
figcaption { color: var(--soft); font-size: .9rem; }
.table { overflow-x: auto; margin: 1rem 0; border: 1px solid var(--line); border-radius: .4rem; }
.long { max-height: 34rem; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th { position: sticky; top: 0; background: var(--shade); text-align: left; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
.number { text-align: right; font-variant-numeric: tabular-nums; } td.number { white-space: nowrap; }
td.yes { color: var(--yes); } td.no { color: var(--no); } td.part { color: var(--part); }
td.open { color: var(--soft); }
td.yes, td.no, td.part { font-weight: 600; }
@media print { body { max-width: none; } .table, .long { max-height: none; overflow: visible; }
  figure, tr { break-inside: avoid; } figure img { max-width: 100%; } }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""
