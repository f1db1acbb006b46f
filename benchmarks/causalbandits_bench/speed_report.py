"""What was measured, as JSON and as Markdown."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from causalbandits._files import write_atomically
from causalbandits.results.document import Grid, Heading, Text, as_markdown, format_number
from causalbandits_bench.speed import Measurements


def write_tables(folder: Path, tables: Mapping[str, Measurements], repeats: int) -> None:
    """`bench.json` and `bench.md`."""
    machine = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        **{name: version(name) for name in ("causalbandits", "numpy", "numba", "scipy")},
    }
    rows = {name: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for name, t in tables.items()}
    content = {"machine": machine, "repeats": repeats, "tables": rows}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "bench.json", (json.dumps(content, indent=1) + "\n").encode())
    parts: list[Heading | Text | Grid] = [Heading("What `benchmarks/run.py speed` printed", 1)]
    for table in tables.values():
        grid = Grid(table.columns, [[format_number(cell) for cell in row] for row in table.rows])
        parts += [Heading(table.title), Text(table.remark), grid]
    parts.append(Text("Measured with " + ", ".join(f"{name} {value}" for name, value in machine.items()) + "."))
    write_atomically(folder / "bench.md", as_markdown(parts).encode())
