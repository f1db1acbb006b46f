"""Commands on a problem before the first decision."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from causalbandits._files import refuse_unwritable_folder
from causalbandits._progress import progress_lines
from causalbandits.cli.console import print_plain, print_report
from causalbandits.cli.options import CommandTarget, Workers, with_problem_options
from causalbandits.errors import CausalBanditsError

Horizon = Annotated[int | None, typer.Option(min=10, help="Number of rounds. Default: the specification's, else 5000.")]
DEFAULT_HORIZON = 5000


@partial(with_problem_options, inspecting=True)
def inspect(
    target: CommandTarget,
    horizon: Horizon = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the report and the graph.", file_okay=False)] = None,
    picture: Annotated[
        Path | None,
        typer.Option(help=("File for a picture of the graph, such as graph.svg (.svg, .png, .pdf)."), dir_okay=False),
    ] = None,
) -> None:
    """Describe a problem before the first decision.

    Prints the variables that can affect the reward, the number of means that the graph saves, adjustment sets, regret
    bounds and the recommended policy. For a graph without CPTs (.dot, also from dagitty), it prints the options for
    learning with and without data. There, every cause of the reward counts as manipulable with two values, unless
    options state something else. Options replace entries of a specification.

    [bold]Examples[/bold]

      causalbandits inspect email_campaign

      causalbandits inspect lower_bound --parameter N=5 --parameter delta=0.1

      causalbandits inspect asia.bif --reward dysp --manipulable smoke,asia --out results/asia

      causalbandits inspect graph.dot --reward sale --manipulable channel=web,mail --picture graph.svg
    """
    from rich.console import Console

    from causalbandits.planning import describe, write_description
    from causalbandits.results.plots import parse_picture_path, plot_graph

    if out is not None:
        refuse_unwritable_folder(out)
    if picture is not None:
        parse_picture_path(picture)
    description = describe(
        target.problem_or_environment, horizon=target.simulation_setting("horizon", horizon, DEFAULT_HORIZON)
    )
    console = Console()
    print_plain(console, repr(description))
    if out is not None:
        write_description(description, out)
        print_report(console, out)
    if picture is not None:
        plot_graph(description.problem, picture)
        print_plain(console, f"Picture: {picture}")


@with_problem_options
def forecast(
    target: CommandTarget,
    horizon: Horizon = None,
    prior: Annotated[
        str, typer.Option(help="Parameters a,b of the Beta prior of the mean rewards; 2,50 for rates around 4%.")
    ] = "1,1",
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help=(
                "Acceptable loss in mean reward, in the reward's units. Default: a tenth of the median loss of a "
                "random action."
            ),
        ),
    ] = None,
    stops: Annotated[
        bool,
        typer.Option(
            "--stops", help=("Also print the number of rounds until the stopping rule is met (error probability 0.05).")
        ),
    ] = False,
    budget: Annotated[
        float | None, typer.Option(help="Total budget of all rounds (requires costs). Default: the specification's.")
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="Number of simulated problem instances.")] = 200,
    seed: Annotated[int | None, typer.Option(min=0, help="Random seed. Default: the specification's, else 0.")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "A policy; repeatable. Default: the specification's, else the problem's default policy, ts and uniform."
            )
        ),
    ] = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="File for a plot, such as forecast.png.", dir_okay=False)] = None,
) -> None:
    """Estimate by simulation how many rounds a campaign needs, and its regret.

    Policies are simulated on problem instances whose mean rewards are drawn from a prior, and compared with uniform
    allocation. A run can take minutes: --replications 50 takes a quarter of the time and is less precise. Options
    replace the problem, policies, horizon, seed and budget of a specification.

    [bold]Examples[/bold]

      causalbandits forecast email_campaign --prior 2,20 --out forecast.png

      causalbandits forecast asia.bif --reward dysp --manipulable smoke,asia --horizon 2000

      causalbandits forecast email_campaign --stops --tolerance 0.05 --policy c-track-and-stop --policy c-ucb
    """
    from rich.console import Console

    from causalbandits.planning import forecast as run
    from causalbandits.results.plots import parse_picture_path

    if out is not None:
        parse_picture_path(out)
    try:
        a, b = (float(part) for part in prior.split(","))
    except ValueError:
        raise CausalBanditsError(f"--prior must be two numbers, such as 2,50; got {prior!r}.") from None
    with progress_lines("To reduce the time, lower --replications."):
        result = run(
            target.problem,
            policy or (target.file and target.file.policies) or None,
            horizon=target.simulation_setting("horizon", horizon, DEFAULT_HORIZON),
            reward_prior=(a, b),
            tolerance=tolerance,
            stops=stops,
            budget=budget if budget is not None or target.file is None else target.file.simulation.get("budget"),
            replications=replications,
            seed=target.simulation_setting("seed", seed, 0),
            workers=workers or os.cpu_count(),
        )
    console = Console()
    print_plain(console, repr(result))
    if out is not None:
        result.plot(out)
        print_plain(console, f"Picture: {out}")
