"""Commands that run simulations: the paper's experiments, and comparisons described in files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits._files import refuse_unwritable_folder
from causalbandits.cli.console import print_plain, print_report, print_rows
from causalbandits.cli.options import Workers
from causalbandits.errors import CausalBanditsError


def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help="Names of the experiments. Default: all.")] = None,
    replications: Annotated[
        int | None, typer.Option(min=2, help="Number of replications of every setting. Default: 20, as in the paper.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    workers: Workers = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.", file_okay=False)] = Path("results/paper"),
    quick: Annotated[bool, typer.Option("--quick", help="Run five replications instead of 20.")] = False,
) -> None:
    """Reproduce the experiments of Lu et al. (2020), and test the paper's claims.

    The experiments are figure1, figure2, figure3, figure4, figure5, figure6, lower-bound, or all. The command writes
    report.html, the figures, the data as CSV, and claims.json. After an interruption, the same command continues.

    [bold]Examples[/bold]

      causalbandits reproduce --quick --out results/quick

      causalbandits reproduce figure2 figure6

      causalbandits reproduce all --replications 1000 --out results/1000
    """
    from rich.console import Console

    from causalbandits.paper import QUICK, REPLICATIONS
    from causalbandits.paper import reproduce as run

    if quick and replications is not None:
        raise CausalBanditsError("--quick and --replications exclude each other. Pass one of them.")
    refuse_unwritable_folder(out)
    console = Console()
    with report_interruption(), ExperimentProgress(console) as progress:
        result = run(
            experiments or ["all"],
            folder=out,
            replications=replications or (QUICK if quick else REPLICATIONS),
            seed=seed,
            workers=workers or os.cpu_count(),
            progress=progress.advance,
        )
    if result.verdicts:
        rows = [
            (verdict.claim.text, verdict.claim.section, verdict.verdict, verdict.with_remedy)
            for verdict in result.verdicts
        ]
        print_rows(console, "The paper's claims", ("claim", "section", "verdict", "with a change"), rows)
    print_report(console, out)


def simulate(
    spec: Annotated[
        Path,
        typer.Argument(help="A specification (.toml or .json) with a problem, an environment, policies and a horizon."),
    ],
    workers: Workers = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the results. Default: results/NAME for NAME.toml.", file_okay=False),
    ] = None,
) -> None:
    """Simulate and compare policies on a specified environment, and write a report.

    The specification begins with the problem: graph or model, reward or reward_parents, manipulable, and any other
    entry of a problem. \\[environment] states how rewards are drawn, reward = "bernoulli" and mean = \\[...], or
    names an example environment with its parameters, zoo = "email_campaign", in place of the problem.
    \\[simulation] has horizon, replications and seed. \\[policies] has a line for each policy: c-ts = {} or
    quiet = { policy = "c-ucb", noise_scale = 0.1 }. The commands inspect, forecast and study create accept the same
    file.

    [bold]Example[/bold]

      causalbandits simulate campaign.toml --out results/campaign
    """
    from rich.console import Console

    from causalbandits.planning import read_spec, write_comparison

    experiment = read_spec(spec)
    folder = out or Path("results") / experiment.name
    refuse_unwritable_folder(folder)
    with report_interruption():
        run = write_comparison(experiment, folder, workers or os.cpu_count())
    console = Console()
    print_plain(console, repr(run.summary()))
    print_report(console, folder)


class ExperimentProgress:
    """A progress bar per experiment; without a terminal, a line."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._console, self._bar = console, Progress(*columns, console=console)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> ExperimentProgress:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def advance(self, experiment: str, rounds: int, total: int) -> None:
        """Add completed rounds of an experiment."""
        if experiment not in self._tasks:
            self._tasks[experiment] = self._bar.add_task(experiment, total=total)
            if not self._console.is_terminal:
                self._console.print(f"Running {experiment} ...")
        self._bar.advance(self._tasks[experiment], rounds)


@contextmanager
def report_interruption() -> Iterator[None]:
    """After an interruption by the user, say that finished work is kept."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\nInterrupted. Finished replications are kept. Run the same command again to continue.", err=True)
        raise typer.Exit(130) from None
