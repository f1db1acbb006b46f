"""Run the paper's experiments into a folder, and leave a report there. Interrupted, the same call goes on.

folder/run.json            what this folder is a run of
folder/report.html, .md    the report
folder/claims.json         each claim of the paper with its verdict
folder/figures/*.svg, .pdf, .png
folder/data/*.csv          every number of the figures, with seed, versions and the command that makes it again
folder/.replications/      what has been run so far
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from causalbandits._files import write_atomically
from causalbandits.engine import simulate
from causalbandits.errors import CausalBanditsError, StateError, unknown
from causalbandits.paper.claims import Judged, Verdict, judge
from causalbandits.paper.experiment import AllRuns, Experiment, Setting
from causalbandits.paper.experiments import EXPERIMENTS
from causalbandits.paper.report import parts
from causalbandits.results import Run, provenance, write_data, write_figures, write_page

FOLDER_FORMAT, FOLDER_VERSION = "causalbandits-reproduction", 1
QUICK = 5
"""Replications of a quick look."""
REPLICATIONS = 20
"""The paper's."""

OnProgress = Callable[[str, int, int], None]
"""Called with the experiment, the rounds done since the last call, and all of its rounds."""


@dataclass(frozen=True)
class Reproduction:
    """What was run, drawn and judged."""

    folder: Path
    runs: AllRuns
    verdicts: list[Verdict]
    about: Mapping[str, Any]


def reproduce(
    names: Iterable[str] = ("all",),
    *,
    folder: Path,
    replications: int = REPLICATIONS,
    seed: int = 0,
    workers: int | None = None,
    progress: OnProgress = lambda experiment, rounds, total: None,
) -> Reproduction:
    """Run some of the experiments, or all, into a folder; what is there already of the same run is kept and used."""
    if replications < 2:
        raise CausalBanditsError(f"Two replications at least, so that uncertainty can be told; got {replications}.")
    chosen = _open(folder, _chosen(names), replications, seed)
    about = provenance(_command(chosen, replications, seed), seed, replications)
    runs = {}
    for experiment in chosen:
        runs[experiment.name] = _run(experiment, folder, replications, seed, workers, progress)
        if runs[experiment.name]:
            own = {**about, "command": _command([experiment], replications, seed)}
            write_data(folder / "data", experiment.name, runs[experiment.name], own)
        write_figures(folder / "figures", experiment.figures(runs[experiment.name]))
    verdicts = judge(runs)
    claims = {"about": about, "claims": [_record(verdict) for verdict in verdicts]}
    write_atomically(folder / "claims.json", (json.dumps(claims, indent=1) + "\n").encode())
    write_page(folder, list(parts(chosen, runs, verdicts, about)))
    return Reproduction(folder, runs, verdicts, about)


def _chosen(names: Iterable[str]) -> list[str]:
    asked = list(names) or ["all"]
    for name in asked:
        if name not in (*EXPERIMENTS, "all"):
            raise CausalBanditsError(unknown("experiment", name, [*EXPERIMENTS, "all"]))
    return [name for name in EXPERIMENTS if name in asked or "all" in asked]


def _open(folder: Path, names: list[str], replications: int, seed: int) -> list[Experiment]:
    """Make the folder this run's, or find that it is; the experiments asked for now and before."""
    path = folder / "run.json"
    before: list[str] = []
    if path.exists():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            theirs = (found["format"], found["version"], found["seed"], found["replications"])
            before = list(found["experiments"])
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{path} is no description of a reproduction. Choose another folder.") from None
        if theirs != (FOLDER_FORMAT, FOLDER_VERSION, seed, replications):
            raise StateError(
                f"{folder} holds another run (seed {found['seed']}, {found['replications']} replications), which is "
                "not overwritten. Choose another folder with --out, or delete it."
            )
    elif folder.exists() and any((folder / name).exists() for name in ("report.html", "claims.json", "data")):
        raise StateError(f"{folder} holds results of something else. Choose another folder with --out.")
    together = [name for name in EXPERIMENTS if name in names or name in before]
    about = {"format": FOLDER_FORMAT, "version": FOLDER_VERSION, "seed": seed, "replications": replications}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps({**about, "experiments": together}, indent=1) + "\n").encode())
    return [EXPERIMENTS[name] for name in together]


def _run(
    experiment: Experiment, folder: Path, replications: int, seed: int, workers: int | None, progress: OnProgress
) -> dict[str, Run]:
    settings = experiment.settings()
    total = sum(replications * len(setting.policies) * setting.horizon for setting in settings)

    def run(setting: Setting) -> Run:
        return simulate(
            setting.source,
            setting.policies,
            horizon=setting.horizon,
            replications=replications,
            seed=seed,
            workers=workers,
            checkpoint=folder / ".replications" / experiment.name / _slug(setting.name),
            progress=lambda rounds: progress(experiment.name, rounds, total),
        )

    return {setting.name: run(setting) for setting in settings}


def _command(experiments: list[Experiment], replications: int, seed: int) -> str:
    every = [experiment.name for experiment in experiments] == list(EXPERIMENTS)
    names = "all" if every else " ".join(experiment.name for experiment in experiments)
    return f"causalbandits reproduce {names} --replications {replications} --seed {seed}"


def _record(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    return {
        "id": claim.id,
        "section": claim.section,
        "claim": claim.text,
        "experiment": claim.experiment,
        "verdict": verdict.verdict,
        "statements": [_judged(judged) for judged in verdict.statements],
        "change": claim.remedy,
        "verdict with the change": verdict.with_remedy,
        "statements with the change": [_judged(judged) for judged in verdict.remedy_statements],
    }


def _judged(judged: Judged) -> dict[str, Any]:
    return {
        "statement": judged.statement,
        "verdict": judged.verdict,
        **asdict(judged.test),
        "adjusted p_for": judged.p_for,
        "adjusted p_against": judged.p_against,
    }


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
