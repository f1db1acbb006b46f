"""The command that measures the library: how fast it is on this machine, and what its policies lose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits._files import refuse_unwritable_folder
from causalbandits.cli.options import Workers
from causalbandits.cli.running import Experiments, resumable
from causalbandits.cli.show import print_plain, print_rows
from causalbandits.errors import CausalBanditsError, unknown

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

REGRET = "regret"
QUICK_REGRET = {"replications": 10, "horizon": 500}


def bench(
    tables: Annotated[
        list[str] | None, typer.Argument(help="Which tables; all those of times if none is named. Or regret.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often each thing is timed; the best time counts.")] = 9,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A folder in which to write bench.json and bench.md; for regret, results/regret if left out.",
            file_okay=False,
        ),
    ] = None,
    sets: Annotated[
        Path | None,
        typer.Option(help="regret: a TOML file with sets of worlds and policies of your own.", dir_okay=False),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="regret: a set's name, as often as you like.")] = None,
    policy: Annotated[
        list[str] | None, typer.Option(help="regret: a policy's name, as often as you like; else all.")
    ] = None,
    replications: Annotated[
        int | None, typer.Option(min=2, help="regret: how many worlds of each set; the file's, 600, if left out.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="regret: ten replications of 500 rounds, for a first look.")
    ] = False,
    played: Annotated[
        bool, typer.Option("--played", help="regret: report what has been played so far, and play nothing.")
    ] = False,
    costs: Annotated[
        bool,
        typer.Option("--costs", help="regret: time decisions only, and write what they cost into what was played."),
    ] = False,
    workers: Workers = None,
) -> None:
    """Measure how fast this library is on this machine, or what its policies lose.

    The tables are engine, agent, context, index, growth, drawing, threads, counting, start and memory, side by
    side with plain NumPy loops. All of them take about four minutes.
    Times depend on the machine, and on what else it does; ratios much less.

    regret, which is asked for alone, plays every policy on sets of worlds: mean, quantiles and worst regret, and what a
    decision costs. It takes an hour or two; interrupt it as you like, the same command goes on. Sets and policies are
    those of bench/regret.toml in the package; a file of your own, --sets my.toml, adds to them. --played writes the
    report of what there is by now; --costs times decisions, which takes some minutes, and plays nothing.

    [bold]Examples[/bold]

      causalbandits bench

      causalbandits bench engine agent --repeats 10

      causalbandits bench --out benchmarks

      causalbandits bench regret --quick

      causalbandits bench regret --only e-mail --policy c-ts-beta --policy c-ucb

      causalbandits bench regret --costs --out benchmarks
    """
    asked_for = {"sets": sets, "only": only, "policy": policy, "replications": replications, "workers": workers}
    given = [name for name, on in {**asked_for, "quick": quick, "played": played, "costs": costs}.items() if on]
    regret = REGRET in (tables or ())
    if regret and tables != [REGRET]:
        raise CausalBanditsError(f"The benchmark of regret is run alone; got {', '.join(tables or ())}.")
    if given and not regret:
        raise CausalBanditsError(f"--{given[0]} is for causalbandits bench regret.")
    if quick and replications is not None:
        raise CausalBanditsError("Give --quick or --replications, not both.")
    if costs and (of_playing := [name for name in given if name not in ("costs", "sets", "policy")]):
        raise CausalBanditsError(f"--costs times decisions and plays nothing: leave out --{of_playing[0]}.")
    if out is not None:
        refuse_unwritable_folder(out)
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        # NumPy reads these when it is loaded, and it has been.
        command = [sys.executable, "-m", "causalbandits.cli", *sys.argv[1:]]
        raise typer.Exit(subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode)
    if regret:
        chosen: dict[str, Any] = QUICK_REGRET if quick else {"replications": replications}
        folder = out or Path("results/regret-quick" if quick else "results/regret")
        if costs:
            _costs(sets, policy or [], repeats, folder)
            return
        _regret(sets, only or [], policy or [], chosen, workers or os.cpu_count(), 0 if played else repeats, folder)
    else:
        _times(tables, repeats, out)


def _times(tables: list[str] | None, repeats: int, out: Path | None) -> None:
    from rich.console import Console

    from causalbandits.bench import TABLES, write_tables

    chosen = tables or list(TABLES)
    for name in chosen:
        if name not in TABLES:
            raise CausalBanditsError(unknown("table", name, [*TABLES, REGRET]))
    console, found = Console(), {}
    for name in chosen:
        with console.status(f"Measuring: {name} ..."):
            table = found[name] = TABLES[name](repeats)
        print_rows(console, table.title, table.columns, table.rows, table.remark)
    if out is not None:
        write_tables(out, found, repeats)
        print_plain(console, f"Written: {out / 'bench.json'}, {out / 'bench.md'}")


def _regret(
    sets: Path | None,
    only: list[str],
    policies: list[str],
    simulation: dict[str, Any],
    workers: int | None,
    repeats: int,
    folder: Path,
) -> None:
    """Without repeats, nothing is played or timed."""
    from rich.console import Console

    from causalbandits.bench.costs import decision_costs
    from causalbandits.bench.regret import play_benchmark, played_so_far, read_benchmark
    from causalbandits.bench.regret_report import tails_grid, write_regret

    benchmark = read_benchmark(sets, **simulation).only(only, policies)
    refuse_unwritable_folder(folder)
    console = Console()
    if repeats == 0:
        found, costs = played_so_far(benchmark, folder / ".replications"), {}
    else:
        with resumable():
            with Experiments(console) as progress:
                found = play_benchmark(benchmark, folder / ".replications", workers, progress.advance)
            with console.status("Measuring what a decision costs ..."):
                costs = decision_costs(benchmark, repeats)
    for name, by in write_regret(folder, benchmark, found, costs).items():
        grid = tails_grid(by)
        print_rows(console, name, grid.head, grid.rows)
    print_plain(console, f"The report: {folder / 'regret.md'}")


def _costs(sets: Path | None, policies: list[str], repeats: int, folder: Path) -> None:
    """Times alone, of what was played with this horizon."""
    from rich.console import Console

    from causalbandits.bench.costs import decision_costs
    from causalbandits.bench.regret import read_benchmark
    from causalbandits.bench.regret_report import ABOUT_COSTS, costs_grid, read_regret, write_costs

    content, console = read_regret(folder), Console()
    benchmark = read_benchmark(sets, horizon=content["about"]["horizon"]).only([], policies)
    with console.status("Measuring what a decision costs ..."):
        costs = decision_costs(benchmark, repeats)
    write_costs(folder, content, costs)
    grid = costs_grid(costs)
    print_rows(console, "What a decision costs", grid.head, grid.rows, ABOUT_COSTS)
    print_plain(console, f"Written: {folder / 'regret.json'}, {folder / 'regret.md'}")
