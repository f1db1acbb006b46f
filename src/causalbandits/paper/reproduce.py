"""Run the paper's experiments into a folder, and write a report. After an interruption, the same call continues.

folder/run.json            the seed, replications and experiments of the run
folder/report.html, .md    the report
folder/claims.json         each claim of the paper with its verdict
folder/figures/*.svg, .pdf, .png
folder/data/*.csv          every number of the figures, with seed, versions and the command that makes it again
folder/.replications/      finished replications
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
from causalbandits.errors import CausalBanditsError, StateError, unknown_name_message
from causalbandits.paper.claims import StatementVerdict, Verdict, judge
from causalbandits.paper.experiment import AllRuns, Experiment, Setting
from causalbandits.paper.registry import EXPERIMENTS
from causalbandits.paper.report import report_parts
from causalbandits.results import Run, provenance, write_data, write_figures, write_page

FOLDER_FORMAT, FOLDER_VERSION = "causalbandits-reproduction", 1
QUICK = 5
"""The number of replications of a quick run."""
REPLICATIONS = 20
"""The number of replications in the paper."""

OnProgress = Callable[[str, int, int], None]
"""Called with the experiment, the rounds since the last call, and the total number of its rounds."""


@dataclass(frozen=True)
class Reproduction:
    """The results, figures and verdicts of a reproduction."""

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
    """Run some or all of the experiments into a folder; existing results of the same run are kept and used."""
    if replications < 2:
        raise CausalBanditsError(
            f"replications must be 2 or more, so that uncertainty can be estimated; got {replications}."
        )
    experiments = _claim_folder(folder, _parse_names(names), replications, seed)
    about = provenance(_format_command(experiments, replications, seed), seed, replications)
    runs = {}
    for experiment in experiments:
        runs[experiment.name] = _run_experiment(experiment, folder, replications, seed, workers, progress)
        if runs[experiment.name]:
            provenance_of_experiment = {**about, "command": _format_command([experiment], replications, seed)}
            write_data(folder / "data", experiment.name, runs[experiment.name], provenance_of_experiment)
        write_figures(folder / "figures", experiment.figures(runs[experiment.name]))
    verdicts = judge(runs)
    claims = {"about": about, "claims": [_verdict_record(verdict) for verdict in verdicts]}
    write_atomically(folder / "claims.json", (json.dumps(claims, indent=1) + "\n").encode())
    write_page(folder, list(report_parts(experiments, runs, verdicts, about)))
    return Reproduction(folder, runs, verdicts, about)


def _parse_names(names: Iterable[str]) -> list[str]:
    requested = list(names) or ["all"]
    for name in requested:
        if name not in (*EXPERIMENTS, "all"):
            raise CausalBanditsError(unknown_name_message("experiment", name, [*EXPERIMENTS, "all"]))
    return [name for name in EXPERIMENTS if name in requested or "all" in requested]


def _claim_folder(folder: Path, names: list[str], replications: int, seed: int) -> list[Experiment]:
    """Assign the folder to this run, or check that it belongs to it; return all experiments requested so far."""
    path = folder / "run.json"
    before: list[str] = []
    if path.exists():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            stored_settings = (stored["format"], stored["version"], stored["seed"], stored["replications"])
            before = list(stored["experiments"])
        except (ValueError, KeyError, TypeError):
            raise StateError(f"{path} does not describe a reproduction. Choose another folder.") from None
        if stored_settings != (FOLDER_FORMAT, FOLDER_VERSION, seed, replications):
            raise StateError(
                f"{folder} holds another run (seed {stored['seed']}, {stored['replications']} replications), and "
                "reproduce does not overwrite runs. Choose another folder with --out, or delete it."
            )
    elif folder.exists() and any((folder / name).exists() for name in ("report.html", "claims.json", "data")):
        raise StateError(f"{folder} holds other results. Choose another folder with --out.")
    all_names = [name for name in EXPERIMENTS if name in names or name in before]
    about = {"format": FOLDER_FORMAT, "version": FOLDER_VERSION, "seed": seed, "replications": replications}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, (json.dumps({**about, "experiments": all_names}, indent=1) + "\n").encode())
    return [EXPERIMENTS[name] for name in all_names]


def _run_experiment(
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


def _format_command(experiments: list[Experiment], replications: int, seed: int) -> str:
    is_everything = [experiment.name for experiment in experiments] == list(EXPERIMENTS)
    names = "all" if is_everything else " ".join(experiment.name for experiment in experiments)
    return f"causalbandits reproduce {names} --replications {replications} --seed {seed}"


def _verdict_record(verdict: Verdict) -> dict[str, Any]:
    claim = verdict.claim
    return {
        "id": claim.id,
        "section": claim.section,
        "claim": claim.text,
        "experiment": claim.experiment,
        "verdict": verdict.verdict,
        "statements": [_statement_record(statement) for statement in verdict.statements],
        "change": claim.remedy,
        "verdict with the change": verdict.with_remedy,
        "statements with the change": [_statement_record(statement) for statement in verdict.remedy_statements],
    }


def _statement_record(verdict: StatementVerdict) -> dict[str, Any]:
    return {
        "statement": verdict.statement,
        "verdict": verdict.verdict,
        **asdict(verdict.test),
        "adjusted p_for": verdict.p_for,
        "adjusted p_against": verdict.p_against,
    }


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
