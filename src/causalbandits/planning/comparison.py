"""A comparison run into a folder, with its report."""

from __future__ import annotations

from pathlib import Path

from causalbandits.errors import StateError
from causalbandits.planning.spec import Spec
from causalbandits.results.citations import citation
from causalbandits.results.report import (
    Code,
    Heading,
    Picture,
    Text,
    final_regrets,
    provenance,
    versions,
    write_data,
    write_figures,
    write_page,
)
from causalbandits.results.run import Run


def write_comparison(spec: Spec, folder: Path, workers: int | None = None) -> Run:
    """Run a comparison into a folder: report, figures, data. Interrupted, the same call goes on."""
    from causalbandits.results.graphs import plot_graph
    from causalbandits.results.plots import panels

    if folder.exists() and not (folder / ".replications").exists() and any(folder.iterdir()):
        raise StateError(f"{folder} is neither empty nor a run of this kind. Choose another folder with --out.")
    run = spec.run(workers, folder / ".replications")
    about = provenance(f"causalbandits simulate {spec.name}.toml", spec.seed, spec.replications)
    figures = {"regret": panels([run], [spec.name]), "graph": plot_graph(spec.environment.problem)}
    write_figures(folder / "figures", figures)
    write_data(folder / "data", "regret", {spec.name: run}, about)
    best = spec.environment.best()
    write_page(
        folder,
        [
            Heading(spec.name, 1),
            Text(f"{run.replications} replications of {run.horizon:,} rounds, seed {run.seed}."),
            Code(f"{about['command']}\n{versions(about)}"),
            Heading("The world"),
            Text(
                f"{spec.environment.problem!r}. The best action is {best.intervention}, with mean reward "
                f"{best.mean:.4g}{_said(spec)}."
            ),
            Picture("graph", "Blue variables can be set; those with a bold rim are the reward's parents."),
            Heading("Regret"),
            Picture("regret", "Mean regret with 95% bands."),
            final_regrets({spec.name: run}),
            Text("All numbers: data/regret.csv (curves), data/regret-final.csv (replications)."),
            Heading("References"),
            Code(citation(*spec.policies.values())),
        ],
    )
    return run


def _said(spec: Spec) -> str:
    """What costs do to that."""
    if spec.environment.problem.costs is None:
        return ""
    if spec.budget is None:
        return ", its cost subtracted; regret is of the reward less the cost"
    return f", its cost subtracted; {spec.budget:g} may be spent, and regret is against the best mixture for that"
