"""Commands that look at a problem before anything is tried."""

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

Horizon = Annotated[int | None, typer.Option(min=10, help="How many rounds; if left out, the file's, else 5000.")]
DEFAULT_HORIZON = 5000


@partial(with_problem_options, inspecting=True)
def inspect(
    target: CommandTarget,
    horizon: Horizon = None,
    out: Annotated[Path | None, typer.Option(help="A folder for the report and the graph.", file_okay=False)] = None,
    picture: Annotated[
        Path | None, typer.Option(help="The graph alone, as a picture: graph.svg, .png or .pdf.", dir_okay=False)
    ] = None,
) -> None:
    """Look at a problem before anything is tried.

    Prints which manipulable variables can matter, how many means the graph saves, adjustment sets that can replace the
    reward's parents, regret bounds, and a first command. Of a graph without CPTs (a .dot file, dagitty's too): what can
    be learned with and without data. All causes of the reward are manipulable there, with two values each, unless
    options say otherwise. Options replace entries of a specification.

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
        print_plain(console, f"The picture: {picture}")


@with_problem_options
def forecast(
    target: CommandTarget,
    horizon: Horizon = None,
    prior: Annotated[
        str, typer.Option(help="Beta(a, b) for the mean of a reward that is 0 or 1: a,b. 2,50 for rates around 4%.")
    ] = "1,1",
    tolerance: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="How much worse than the best is good enough, in the reward's units; if left out, a tenth of what an "
            "action chosen blindly would lose.",
        ),
    ] = None,
    stops: Annotated[
        bool, typer.Option("--stops", help="Also say after how many rounds you may stop, and be right 19 times in 20.")
    ] = False,
    budget: Annotated[
        float | None, typer.Option(help="What may be spent in all rounds together; if left out, the file's.")
    ] = None,
    replications: Annotated[int, typer.Option(min=2, help="How many possible worlds.")] = 200,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same seed gives the same numbers; if left out, the file's, else 0.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="A policy, as often as you like; else the file's, or the default, TS and uniform."),
    ] = None,
    workers: Workers = None,
    out: Annotated[Path | None, typer.Option(help="A picture to write: forecast.png.", dir_okay=False)] = None,
) -> None:
    """How many rounds would it take, and what would be lost on the way?

    Policies are played on many worlds drawn from a prior on the reward, and compared with a uniform test of actions.
    It can take minutes: --replications 50 takes a quarter of the time, and is less precise. Options replace the
    problem, policies, horizon, seed and budget of a specification.

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
    with progress_lines("Fewer --replications take less time."):
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
        print_plain(console, f"The picture: {out}")
