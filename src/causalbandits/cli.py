"""The command line: `causalbandits`."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits import __version__
from causalbandits.errors import CausalBanditsError
from causalbandits.files import write_atomically

app = typer.Typer(
    name="causalbandits",
    help="Find the best intervention with the fewest tries, because the causal graph is known.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line; errors of the user's are one line, with the trace only where it is asked for."""
    try:
        app()
    except CausalBanditsError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"Error: {error}", err=True)
        sys.exit(1)


@app.callback()
def settings(
    show_version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the full trace of an error.")] = False,
) -> None:
    """Find the best intervention with the fewest tries, because the causal graph is known."""
    if show_version:
        typer.echo(__version__)
        raise typer.Exit


ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@app.command()
def bench(
    tables: Annotated[list[str] | None, typer.Argument(help="Which tables; all of them if none is named.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each thing is timed; the best time counts.")] = 9,
    out: Annotated[
        Path | None, typer.Option(help="A folder in which to write bench.json and bench.md.", file_okay=False)
    ] = None,
) -> None:
    """Measure how fast this library is on this machine, side by side with plain NumPy loops.

    The tables are engine, agent, growth, drawing, threads, start and memory. All of them take about two minutes.
    Times depend on the machine, and on what else it does; ratios much less.

    [bold]Examples[/bold]

      causalbandits bench

      causalbandits bench engine agent --repeats 10

      causalbandits bench --out benchmarks
    """
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        # NumPy reads these when it is loaded, and it has been.
        command = [sys.executable, "-m", "causalbandits.cli", *sys.argv[1:]]
        raise typer.Exit(subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode)

    from rich.console import Console

    from causalbandits.bench import TABLES
    from causalbandits.errors import unknown

    chosen = tables or list(TABLES)
    for name in chosen:
        if name not in TABLES:
            raise CausalBanditsError(unknown("table", name, TABLES))
    console, found = Console(), {}
    for name in chosen:
        with console.status(f"Measuring: {name} ..."):
            found[name] = TABLES[name](repeats)
        _print_table(console, found[name])
    if out is not None:
        _write_bench(out, found, repeats)
        console.print(f"Written: {out / 'bench.json'}, {out / 'bench.md'}")


def _print_table(console: Any, table: Any) -> None:
    from rich.table import Table

    shown = Table(title=table.title, caption=table.remark, title_justify="left", caption_justify="left")
    for name, cell in zip(table.columns, table.rows[0], strict=True):
        shown.add_column(name, justify="left" if isinstance(cell, str) else "right", overflow="fold")
    for row in table.rows:
        shown.add_row(*map(_cell, row))
    console.print(shown)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _write_bench(folder: Path, tables: dict[str, Any], repeats: int) -> None:
    machine = {
        "causalbandits": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "processors": os.cpu_count(),
        **{name: version(name) for name in ("numpy", "numba", "scipy")},
    }
    rows = {name: [dict(zip(t.columns, row, strict=True)) for row in t.rows] for name, t in tables.items()}
    content = {"machine": machine, "repeats": repeats, "tables": rows}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "bench.json", (json.dumps(content, indent=1) + "\n").encode())
    pages = [_markdown(table) for table in tables.values()]
    about = ", ".join(f"{name} {value}" for name, value in machine.items())
    text = "# What `causalbandits bench` printed\n\n" + "\n".join(pages) + f"\nMeasured with {about}.\n"
    write_atomically(folder / "bench.md", text.encode())


def _markdown(table: Any) -> str:
    align = ["---" if isinstance(cell, str) else "---:" for cell in table.rows[0]]
    lines = [f"## {table.title}", "", table.remark, ""]
    lines += [f"| {' | '.join(row)} |" for row in (table.columns, align, *(map(_cell, r) for r in table.rows))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
