"""Commands about the library itself: its policies, and its speed on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from causalbandits._files import refuse_unwritable_folder
from causalbandits.cli.show import print_plain, print_rows
from causalbandits.errors import CausalBanditsError, unknown


def policies() -> None:
    """List the policies with their ids and references."""
    from rich.console import Console

    from causalbandits.policies import POLICIES
    from causalbandits.results.citations import OF_POLICY, TITLES

    rows = [(id, kind.__name__, "; ".join(TITLES[key] for key in OF_POLICY[id])) for id, (kind, _) in POLICIES.items()]
    print_rows(Console(), "Policies", ("id", "class", "reference"), rows)


ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def bench(
    tables: Annotated[list[str] | None, typer.Argument(help="Which tables; all of them if none is named.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each thing is timed; the best time counts.")] = 9,
    out: Annotated[
        Path | None, typer.Option(help="A folder in which to write bench.json and bench.md.", file_okay=False)
    ] = None,
) -> None:
    """Measure how fast this library is on this machine, side by side with plain NumPy loops.

    The tables are engine, agent, context, learnt, growth, drawing, threads, counting, start and memory. All of them
    take about three minutes.
    Times depend on the machine, and on what else it does; ratios much less.

    [bold]Examples[/bold]

      causalbandits bench

      causalbandits bench engine agent --repeats 10

      causalbandits bench --out benchmarks
    """
    if out is not None:
        refuse_unwritable_folder(out)
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        # NumPy reads these when it is loaded, and it has been.
        command = [sys.executable, "-m", "causalbandits.cli", *sys.argv[1:]]
        raise typer.Exit(subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode)

    from rich.console import Console

    from causalbandits.bench import TABLES, write_tables

    chosen = tables or list(TABLES)
    for name in chosen:
        if name not in TABLES:
            raise CausalBanditsError(unknown("table", name, TABLES))
    console, found = Console(), {}
    for name in chosen:
        with console.status(f"Measuring: {name} ..."):
            table = found[name] = TABLES[name](repeats)
        print_rows(console, table.title, table.columns, table.rows, table.remark)
    if out is not None:
        write_tables(out, found, repeats)
        print_plain(console, f"Written: {out / 'bench.json'}, {out / 'bench.md'}")
