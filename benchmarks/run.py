"""How fast this library is, how much regret its policies have, and whether what it says is true: run.py --help.

Run it from a clone of the repository, with the Python of the environment in which the library is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits._files import refuse_unwritable_folder
from causalbandits.cli import run
from causalbandits.cli.console import print_plain, print_rows
from causalbandits.cli.options import Workers
from causalbandits.cli.simulate import ExperimentProgress, report_interruption
from causalbandits.errors import CausalBanditsError, unknown_name_message

ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")

QUICK_REGRET = {"replications": 10, "horizon": 500}

Repeats = Annotated[int, typer.Option(min=1, help="How often each thing is timed; the best time counts.")]

app = typer.Typer(
    name="benchmarks/run.py",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


@app.callback()
def settings(debug: Annotated[bool, typer.Option("--debug", help="Show the full trace of an error.")] = False) -> None:
    """Measure how fast this library is here, how much regret its policies have, or whether what it says is true.

    [bold]Examples[/bold]

      python benchmarks/run.py speed

      python benchmarks/run.py speed engine agent --repeats 10

      python benchmarks/run.py regret --quick

      python benchmarks/run.py regret --sets my.toml --policy mine --policy "c-ts(prior=beta)"

      python benchmarks/run.py trust --only coins --only "rare prize, 60"
    """


@app.command()
def speed(
    tables: Annotated[list[str] | None, typer.Argument(help="Which tables; all of them if none is named.")] = None,
    repeats: Repeats = 9,
    out: Annotated[
        Path | None, typer.Option(help="A folder in which to write bench.json and bench.md.", file_okay=False)
    ] = None,
) -> None:
    """Time the library side by side with plain NumPy loops.

    The tables are engine, agent, context, index, growth, drawing, threads, counting, start and memory. All of them take
    about four minutes. Times depend on the machine, and on what else it does; ratios much less.

    [bold]Examples[/bold]

      python benchmarks/run.py speed

      python benchmarks/run.py speed engine agent --repeats 10

      python benchmarks/run.py speed --out benchmarks
    """
    if out is not None:
        refuse_unwritable_folder(out)
    _restart_with_one_thread()
    from rich.console import Console

    from causalbandits_bench.speed import TABLES
    from causalbandits_bench.speed_report import write_tables

    names = tables or list(TABLES)
    for name in names:
        if name not in TABLES:
            raise CausalBanditsError(unknown_name_message("table", name, TABLES))
    console, measurements = Console(), {}
    for name in names:
        with console.status(f"Measuring: {name} ..."):
            table = measurements[name] = TABLES[name](repeats)
        print_rows(console, table.title, table.columns, table.rows, table.remark)
    if out is not None:
        write_tables(out, measurements, repeats)
        print_plain(console, f"Written: {out / 'bench.json'}, {out / 'bench.md'}")


@app.command()
def regret(
    sets: Annotated[
        Path | None,
        typer.Option(help="A TOML file with sets of environments and policies of your own.", dir_okay=False),
    ] = None,
    only: Annotated[list[str] | None, typer.Option(help="A set's name, as often as you like; else all.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="A policy's name, as often as you like; else all.")] = None,
    replications: Annotated[
        int | None, typer.Option(min=2, help="Number of environments per set. Default: that of the file, 600.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Ten replications of 500 rounds, for a first look.")] = False,
    played: Annotated[
        bool, typer.Option("--played", help="Report what has been played so far, and play nothing.")
    ] = False,
    costs: Annotated[
        bool, typer.Option("--costs", help="Time decisions only, and write what they cost into what was played.")
    ] = False,
    update: Annotated[
        bool, typer.Option("--update", help="Keep the other policies' numbers of the results in the folder.")
    ] = False,
    workers: Workers = None,
    repeats: Repeats = 9,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for the results; results/regret if left out.", file_okay=False),
    ] = None,
) -> None:
    """Play every policy on sets of environments: mean, quantiles and worst regret, and what a decision costs.

    It takes an hour or two; interrupt it as you like, the same command goes on. Sets and policies are those of
    benchmarks/causalbandits_bench/regret.toml; a file of your own, --sets my.toml, adds to them. --played writes the
    report of what there is by now; --costs times decisions, which takes some minutes, and plays nothing.

    [bold]A policy of your own[/bold], class MyPolicy in my_policy.py beside my.toml, is two lines of my.toml:

      \\[policies]
      mine = { policy = "my_policy:MyPolicy" }

    [bold]Examples[/bold]

      python benchmarks/run.py regret --quick

      python benchmarks/run.py regret --only e-mail --policy "c-ts(prior=beta)" --policy c-ucb

      python benchmarks/run.py regret --sets my.toml --policy mine --policy "c-ts(prior=beta)"

      python benchmarks/run.py regret --costs --out benchmarks

      python benchmarks/run.py regret --policy "c-ts(prior=main-effects)" --update --out benchmarks
    """
    if quick and replications is not None:
        raise CausalBanditsError("Give --quick or --replications, not both.")
    playing = {
        "only": only,
        "replications": replications,
        "workers": workers,
        "quick": quick,
        "played": played,
        "update": update,
    }
    if costs and (refused := [name for name, value in playing.items() if value]):
        raise CausalBanditsError(f"--costs times decisions and plays nothing: leave out --{refused[0]}.")
    folder = out or Path("results/regret-quick" if quick else "results/regret")
    refuse_unwritable_folder(folder)
    _restart_with_one_thread()
    if costs:
        _time_decisions(sets, policy or [], repeats, folder)
        return
    simulation: dict[str, Any] = QUICK_REGRET if quick else {"replications": replications}
    repeats = 0 if played else repeats
    _play(sets, only or [], policy or [], simulation, workers or os.cpu_count(), repeats, folder, update=update)


@app.command()
def trust(
    only: Annotated[
        list[str] | None, typer.Option(help="Name of a kind of environments; repeatable. Default: all.")
    ] = None,
    replications: Annotated[
        int | None, typer.Option(min=2, help="Number of environments per kind. Default: 100, with --quick 4.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Campaigns of 100 rounds, for a first look.")] = False,
    workers: Workers = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for the results; results/trust if left out.", file_okay=False),
    ] = None,
) -> None:
    """Measure what the library says against the truth; exit with code 1 if something is outside of what is allowed.

    Worlds of many kinds are drawn (coins, heavy tails, rare prizes, fitted tables, ...) and campaigns of 2,000 rounds
    played there. Measured are the coverage of the intervals of recommend(), how far the probability of being the best
    is overstated, how often stopping at delta 0.05 is wrong, the coverage of off-policy estimates, and false alarms.
    What is not said (None) cannot be wrong. A replication of all kinds takes about 40 seconds of a processor; interrupt
    it as you like, the same command goes on. trust.md and trust.json have the results.

    [bold]Examples[/bold]

      python benchmarks/run.py trust --quick

      python benchmarks/run.py trust --only coins --only "rare prize, 60" --replications 200

      python benchmarks/run.py trust --out benchmarks
    """
    folder = out or Path("results/trust-quick" if quick else "results/trust")
    refuse_unwritable_folder(folder)
    _restart_with_one_thread()
    from rich.console import Console

    from causalbandits.results.document import Grid, Text, as_text
    from causalbandits_bench.trust import FULL, OUTSIDE, QUICK, measure_trust, select_kinds
    from causalbandits_bench.trust_report import write_trust

    kinds, schedule, console = select_kinds(only or []), QUICK if quick else FULL, Console()
    count = replications or (4 if quick else 100)
    kept = folder / ".replications"
    with report_interruption(), ExperimentProgress(console) as progress:
        cells = measure_trust(kinds, count, kept, schedule, workers or os.cpu_count(), progress.advance)
    for part in write_trust(folder, cells, count, schedule):
        if isinstance(part, Grid | Text):
            print_plain(console, as_text([part]))
    print_plain(console, f"The report: {folder / 'trust.md'}")
    if any(cell.verdict == OUTSIDE for cell in cells):
        raise typer.Exit(1)


def _restart_with_one_thread() -> None:
    """NumPy reads these settings when it is loaded, and it has been."""
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):
        command = [sys.executable, __file__, *sys.argv[1:]]
        raise typer.Exit(subprocess.run(command, env=os.environ | ONE_THREAD, check=False).returncode)


def _play(
    sets: Path | None,
    only: list[str],
    policies: list[str],
    simulation: dict[str, Any],
    workers: int | None,
    repeats: int,
    folder: Path,
    *,
    update: bool,
) -> None:
    """Without repeats, nothing is played or timed."""
    from rich.console import Console

    from causalbandits_bench.decision_cost import decision_costs
    from causalbandits_bench.regret import play_benchmark, read_benchmark, regrets_so_far
    from causalbandits_bench.regret_report import read_regret, tails_grid, write_regret

    previous = read_regret(folder) if update else None
    benchmark = read_benchmark(sets, **simulation).only(only, policies)
    console = Console()
    if repeats == 0:
        regrets, costs = regrets_so_far(benchmark, folder / ".replications"), {}
    else:
        with report_interruption():
            with ExperimentProgress(console) as progress:
                regrets = play_benchmark(benchmark, folder / ".replications", workers, progress.advance)
            with console.status("Measuring what a decision costs ..."):
                costs = decision_costs(benchmark, repeats)
    for name, by_policy in write_regret(folder, benchmark, regrets, costs, previous).items():
        grid = tails_grid(by_policy)
        print_rows(console, name, grid.head, grid.rows)
    print_plain(console, f"The report: {folder / 'regret.md'}")


def _time_decisions(sets: Path | None, policies: list[str], repeats: int, folder: Path) -> None:
    """Times alone, of what was played with this horizon."""
    from rich.console import Console

    from causalbandits_bench.decision_cost import decision_costs
    from causalbandits_bench.regret import read_benchmark
    from causalbandits_bench.regret_report import ABOUT_COSTS, costs_grid, read_regret, write_costs

    content, console = read_regret(folder), Console()
    benchmark = read_benchmark(sets, horizon=content["about"]["horizon"]).only([], policies)
    with console.status("Measuring what a decision costs ..."):
        costs = decision_costs(benchmark, repeats)
    write_costs(folder, content, costs)
    grid = costs_grid(costs)
    print_rows(console, "What a decision costs", grid.head, grid.rows, ABOUT_COSTS)
    print_plain(console, f"Written: {folder / 'regret.json'}, {folder / 'regret.md'}")


if __name__ == "__main__":
    run(app)
