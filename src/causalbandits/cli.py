"""The command line: `causalbandits`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from causalbandits import __version__
from causalbandits.errors import CausalBanditsError, unknown
from causalbandits.formats import read
from causalbandits.model.model import CausalModel
from causalbandits.problem.problem import CausalBandit

app = typer.Typer(
    name="causalbandits",
    help="Find the best intervention with the fewest tries, because the causal graph is known.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

Workers = Annotated[
    int | None, typer.Option(min=1, help="Replications played at once; as many as processors if left out.")
]


def main() -> None:
    """Run the command line; what the user did wrong is one line, with the trace only where it is asked for."""
    try:
        app()
    except CausalBanditsError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"Error: {error}", err=True)
        sys.exit(1)


@contextmanager
def _resumable() -> Iterator[None]:
    """Interrupted by the user, say that nothing is lost."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("\nInterrupted. What has been run is kept: the same command goes on from there.", err=True)
        raise typer.Exit(130) from None


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def settings(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the full trace of an error.")] = False,
) -> None:
    """Find the best intervention with the fewest tries, because the causal graph is known."""


@app.command()
def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Which experiments; all of them if none is named.")
    ] = None,
    replications: Annotated[
        int | None, typer.Option(min=2, help="Of every setting; 20, the paper's, if left out.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    workers: Workers = None,
    out: Annotated[Path, typer.Option(help="The folder for the results.", file_okay=False)] = Path("results/paper"),
    quick: Annotated[bool, typer.Option("--quick", help="Five replications, for a first look.")] = False,
) -> None:
    """Run the paper's experiments again, and judge its claims.

    The experiments are figure1, figure2, figure3, figure4, figure5, figure6, lower-bound, or all. The folder then has
    report.html, the figures, every number as CSV, and claims.json. Interrupt it as you like: the same command goes on.

    [bold]Examples[/bold]

      causalbandits reproduce --quick --out results/quick

      causalbandits reproduce figure2 figure6

      causalbandits reproduce all --replications 1000 --out results/1000
    """
    from rich.console import Console

    from causalbandits.paper.reproduce import QUICK, REPLICATIONS
    from causalbandits.paper.reproduce import reproduce as run

    if quick and replications is not None:
        raise CausalBanditsError("Give --quick or --replications, not both.")
    console = Console()
    with _resumable(), _Experiments(console) as progress:
        done = run(
            experiments or ["all"],
            folder=out,
            replications=replications or (QUICK if quick else REPLICATIONS),
            seed=seed,
            workers=workers or os.cpu_count(),
            progress=progress.advance,
        )
    if done.verdicts:
        rows = [(v.claim.text, v.claim.section, v.verdict, v.with_remedy) for v in done.verdicts]
        _print_rows(console, "The paper's claims", ("claim", "section", "verdict", "with a change"), rows)
    _print_report(console, out)


class _Experiments:
    """A progress bar per experiment; a line, where there is no terminal."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description:<12}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._console, self._bar = console, Progress(*columns, console=console)
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> _Experiments:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def advance(self, experiment: str, rounds: int, total: int) -> None:
        """So many more rounds of an experiment are done."""
        if experiment not in self._tasks:
            self._tasks[experiment] = self._bar.add_task(experiment, total=total)
            if not self._console.is_terminal:
                self._console.print(f"Running {experiment} ...")
        self._bar.advance(self._tasks[experiment], rounds)


@app.command()
def simulate(
    spec: Annotated[Path, typer.Argument(help="A TOML file that says which world, which policies, how long.")],
    workers: Workers = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The folder for the results; results/NAME for NAME.toml if left out.", file_okay=False),
    ] = None,
) -> None:
    """Compare policies on a world of yours, and write a report.

    A file has three tables. \\[environment] has zoo = "email_campaign" or another world of the zoo with its parameters,
    or model = "model.json" with manipulable and parents; a model of your own needs a table \\[reward]. \\[simulation]
    has horizon, replications and seed. \\[policies] has a line for each policy: c-ts-beta = {} or quiet = { id =
    "c-ucb", noise_scale = 0.1 }.

    [bold]Example[/bold]

      causalbandits simulate campaign.toml --out results/campaign
    """
    from rich.console import Console

    from causalbandits.planning.spec import read_spec, write_comparison

    asked = read_spec(spec)
    folder = out or Path("results") / asked.name
    with _resumable():
        run = write_comparison(asked, folder, workers or os.cpu_count())
    console = Console()
    console.print(repr(run.summary()), highlight=False, markup=False, soft_wrap=True)
    _print_report(console, folder)


ModelFile = Annotated[
    str, typer.Argument(help="A model: a file (.bif, .xml, .json), or a world of the zoo such as email_campaign.")
]
Reward = Annotated[str | None, typer.Option(help="The reward's variable in the model.")]
Manipulate = Annotated[str | None, typer.Option(help="Variables that can be set: A,B,C.")]
Parents = Annotated[str | None, typer.Option(help="What the reward depends on, where it is not in the model: A,B.")]
Observe = Annotated[
    str | None, typer.Option(help="Variables that can be observed: the cheapest set of them stands in for the parents.")
]
AtMost = Annotated[int | None, typer.Option(min=1, help="So many variables may be set at once.")]
Horizon = Annotated[int, typer.Option(min=10, help="How many rounds.")]


@app.command()
def inspect(
    model: ModelFile,
    reward: Reward = None,
    manipulate: Manipulate = None,
    parents: Parents = None,
    observe: Observe = None,
    at_most: AtMost = None,
    horizon: Horizon = 5000,
    out: Annotated[Path | None, typer.Option(help="A folder for the report and the graph.", file_okay=False)] = None,
) -> None:
    """Look at a problem before anything is tried.

    Which knobs can matter, what the graph saves, what may stand in for the reward's parents, bounds, where to start.

    [bold]Examples[/bold]

      causalbandits inspect email_campaign

      causalbandits inspect asia.bif --reward dysp --manipulate smoke,asia --out results/asia
    """
    from rich.console import Console

    from causalbandits.planning.describe import describe, write_description

    found = describe(_problem(model, reward, manipulate, parents, observe, at_most), horizon=horizon)
    console = Console()
    console.print(repr(found), highlight=False, markup=False, soft_wrap=True)
    if out is not None:
        write_description(found, out)
        _print_report(console, out)


@app.command()
def forecast(
    model: ModelFile,
    reward: Reward = None,
    manipulate: Manipulate = None,
    parents: Parents = None,
    observe: Observe = None,
    at_most: AtMost = None,
    horizon: Horizon = 5000,
    prior: Annotated[
        str, typer.Option(help="Beta(a, b) for the mean of a reward that is 0 or 1: a,b. 2,50 for rates around 4%.")
    ] = "1,1",
    epsilon: Annotated[float, typer.Option(min=0, help="How much worse than the best is good enough.")] = 0.02,
    replications: Annotated[int, typer.Option(min=2, help="How many possible worlds.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")] = 0,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy's id, as often as you like; if left out: c-ts-beta, ts-beta, uniform."),
    ] = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="A picture to write: forecast.png.", dir_okay=False)] = None,
) -> None:
    """How many rounds would it take, and what would be lost on the way?

    Policies are played on many worlds drawn from a prior on the reward, and compared with a uniform test of actions.

    [bold]Examples[/bold]

      causalbandits forecast email_campaign --prior 2,20 --out forecast.png

      causalbandits forecast asia.bif --reward dysp --manipulate smoke,asia --horizon 2000
    """
    from rich.console import Console

    from causalbandits.planning.forecast import forecast as run

    try:
        a, b = (float(part) for part in prior.split(","))
    except ValueError:
        raise CausalBanditsError(f"--prior must be two numbers, such as 2,50; got {prior!r}.") from None
    found = run(
        _problem(model, reward, manipulate, parents, observe, at_most),
        policy or None,
        horizon=horizon,
        reward_prior=(a, b),
        epsilon=epsilon,
        replications=replications,
        seed=seed,
        workers=workers or os.cpu_count(),
    )
    console = Console()
    console.print(repr(found), highlight=False, markup=False, soft_wrap=True)
    if out is not None:
        found.plot(out)
        console.print(f"The picture: {out}", highlight=False, soft_wrap=True)


def _problem(
    model: str,
    reward: str | None,
    manipulate: str | None,
    parents: str | None,
    observe: str | None,
    at_most: int | None,
) -> CausalBandit:
    """The problem that the options of a command describe."""
    from causalbandits.world import zoo

    options = {"--reward": reward, "--manipulate": manipulate, "--parents": parents, "--observe": observe}
    if model in ("email_campaign", "figure2"):
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise CausalBanditsError(f"A world of the zoo has its own; leave out {', '.join(given)}.")
        world = getattr(zoo, model)().problem
        return (
            world if at_most is None else CausalBandit(world.model, world.manipulable, world.parents, at_most=at_most)
        )
    found = read(model)
    if not isinstance(found, CausalModel):
        raise CausalBanditsError(f"{model} has a graph but no tables: fit it to data first (cb.fit).")
    if manipulate is None:
        raise CausalBanditsError(f"Say what can be set: --manipulate A,B. The variables are {', '.join(found.names)}.")
    return CausalBandit(
        found,
        _split(manipulate),
        None if parents is None else _split(parents),
        reward=reward,
        separator=None if observe is None else "cheapest",
        observable=None if observe is None else _split(observe),
        at_most=at_most,
    )


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


@app.command()
def policies() -> None:
    """List the policies with their ids and references."""
    from rich.console import Console

    from causalbandits.policies import POLICIES
    from causalbandits.results.citations import OF_POLICY, TITLES

    rows = [(id, kind.__name__, "; ".join(TITLES[key] for key in OF_POLICY[id])) for id, (kind, _) in POLICIES.items()]
    _print_rows(Console(), "Policies", ("id", "class", "reference"), rows)


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

    The tables are engine, agent, growth, drawing, threads, counting, start and memory. All of them take about three
    minutes.
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

    from causalbandits.bench import TABLES, write_tables

    chosen = tables or list(TABLES)
    for name in chosen:
        if name not in TABLES:
            raise CausalBanditsError(unknown("table", name, TABLES))
    console, found = Console(), {}
    for name in chosen:
        with console.status(f"Measuring: {name} ..."):
            table = found[name] = TABLES[name](repeats)
        _print_rows(console, table.title, table.columns, table.rows, table.remark)
    if out is not None:
        write_tables(out, found, repeats)
        console.print(f"Written: {out / 'bench.json'}, {out / 'bench.md'}", highlight=False, soft_wrap=True)


def _print_rows(console: Any, title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], remark: str = "") -> None:
    from rich.table import Table

    from causalbandits.results.report import number

    shown = Table(title=title, caption=remark, title_justify="left", caption_justify="left")
    for name, cell in zip(head, rows[0], strict=True):
        shown.add_column(name, justify="left" if isinstance(cell, str) else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(number, row))
    console.print(shown)


def _print_report(console: Any, folder: Path) -> None:
    console.print(f"The report: {folder / 'report.html'}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
