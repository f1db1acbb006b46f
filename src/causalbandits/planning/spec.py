"""A comparison described in a file: which world, which policies, how long.

[environment]
zoo = "email_campaign"            # or a model of your own:
# model = "model.json"            # JSON, BIF or XMLBIF, relative to this file
# manipulable = ["purpose"]
# parents = ["subject"]

# [reward]                        # with a model of your own
# kind = "bernoulli"              # bernoulli, gaussian or linear
# mean = [0.3, 0.1]               # one axis per parent (linear: theta = [...]; gaussian and linear: sd = ...)

[simulation]
horizon = 5000
replications = 20
seed = 0

[policies]
c-ts-beta = {}                    # ids, or names of your own with id = "..."; the rest are parameters
ucb = { noise_scale = 0.5 }
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from causalbandits.engine import simulate
from causalbandits.errors import CausalBanditsError, StateError, unknown
from causalbandits.formats import read
from causalbandits.model.model import CausalModel
from causalbandits.policies import AnyPolicy, policy
from causalbandits.problem.problem import CausalBandit
from causalbandits.results.citations import citation
from causalbandits.results.plots import panels, plot_graph
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
from causalbandits.world import zoo
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward, GaussianReward, LinearReward, Reward

REWARDS: dict[str, Callable[..., Reward]] = {
    "bernoulli": BernoulliReward,
    "gaussian": GaussianReward,
    "linear": LinearReward,
}
SIMULATION = ("horizon", "replications", "seed")


@dataclass(frozen=True)
class Spec:
    """What a file asks for."""

    name: str
    environment: Environment
    policies: dict[str, AnyPolicy]
    horizon: int
    replications: int = 20
    seed: int = 0

    def run(self, workers: int | None = None, checkpoint: Path | None = None) -> Run:
        """The simulation."""
        return simulate(
            self.environment,
            self.policies,
            horizon=self.horizon,
            replications=self.replications,
            seed=self.seed,
            workers=workers,
            checkpoint=checkpoint,
        )


def read_spec(path: Path) -> Spec:
    """What a file asks for; an error names the line or the entry that is wrong."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CausalBanditsError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CausalBanditsError(f"{path} is no TOML file: {error}.") from None
    _known(content, ("environment", "reward", "simulation", "policies"), "table")
    env = _environment(dict(_table(content, "environment")), content.get("reward"), path.parent)
    settings = _table(content, "simulation")
    _known(settings, SIMULATION, "entry of [simulation]:")
    if "horizon" not in settings:
        raise CausalBanditsError("[simulation] must say for how many rounds: horizon = 5000, say.")
    chosen = {name: _policy(name, given) for name, given in _table(content, "policies").items()}
    return Spec(path.stem, env, chosen, **settings)


def _environment(given: dict[str, Any], reward: Any, folder: Path) -> Environment:
    if "zoo" in given:
        name = given.pop("zoo")
        if name not in zoo.__all__:
            raise CausalBanditsError(unknown("world of the zoo:", name, zoo.__all__))
        make = getattr(zoo, name)
        _known(given, list(inspect.signature(make).parameters), f"parameter of {name}:")
        try:
            env = make(**given)
        except TypeError as error:
            raise CausalBanditsError(f"[environment] does not fit {name}: {error}.") from None
        if reward is not None:
            raise CausalBanditsError("A world of the zoo has its reward: leave [reward] out.")
        return env  # type: ignore[no-any-return]
    if "model" not in given:
        raise CausalBanditsError('[environment] must name a world: zoo = "email_campaign", or model = "model.json".')
    path = folder / str(given.pop("model"))
    model = read(path)
    if not isinstance(model, CausalModel):
        raise CausalBanditsError(f"{path} has a graph but no tables: fit it to data first (cb.fit).")
    _known(given, ("manipulable", "parents", "reward", "at_most", "always", "actions"), "entry of [environment]:")
    if not isinstance(reward, dict) or reward.get("kind") not in REWARDS:
        kinds = ", ".join(map(repr, REWARDS))
        raise CausalBanditsError(f"With a model of your own, [reward] must have a kind, one of {kinds}.")
    parameters = {name: value for name, value in reward.items() if name != "kind"}
    try:
        problem, mechanism = CausalBandit(model, **given), REWARDS[reward["kind"]](**parameters)
    except TypeError as error:
        raise CausalBanditsError(f"[environment] or [reward] is incomplete: {error}.") from None
    return Environment(problem, mechanism)


def _policy(name: str, given: Any) -> AnyPolicy:
    if not isinstance(given, dict):
        raise CausalBanditsError(f"[policies] must give parameters for {name!r}, {{}} for none; got {given!r}.")
    return policy(given.get("id", name), **{key: value for key, value in given.items() if key != "id"})


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    found = content.get(name)
    if not isinstance(found, dict) or not found:
        raise CausalBanditsError(f"The file must have a table [{name}].")
    return found


def _known(given: dict[str, Any], names: Any, what: str) -> None:
    for name in given:
        if name not in names:
            raise CausalBanditsError(unknown(what, name, names))


def write_comparison(spec: Spec, folder: Path, workers: int | None = None) -> Run:
    """Run a comparison into a folder: report, figures, data. Interrupted, the same call goes on."""
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
                f"{best.mean:.4g}."
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
