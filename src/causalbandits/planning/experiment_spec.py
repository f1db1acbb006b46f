"""A specification in a file: which world, which policies, how long.

[environment]
zoo = "email_campaign"            # with its parameters; or a model of your own:
# model = "model.json"            # JSON, BIF or XMLBIF, relative to this file
# manipulable = ["purpose"]
# parents = ["subject"]           # or reward = "click", perhaps with separator = "cheapest" and observable = [...]
# at_most = 2                     # with either: at_most, always, actions, reduce, require, as of Problem

# [costs]                         # with either: what it costs to set a knob, or to set it to a value
# product = 0.02
# send_time = { morning = 0.01 }

# [reward]                        # with a model of your own
# kind = "bernoulli"              # bernoulli, gaussian, linear or student
# mean = [0.3, 0.1]               # one axis per parent (linear: theta = [...]); sd = ..., student: scale, degrees

[simulation]
horizon = 5000
replications = 20
seed = 0
# budget = 250                    # with costs: what may be spent in all rounds together

[policies]
c-ts-beta = {}                    # ids, or names of your own with id = "..."; the rest are parameters
ucb = { noise_scale = 0.5 }
# mine = { id = "my_module:MyPolicy", epsilon = 0.1 }     # a class of your own, in my_module.py beside this file

A comparison needs all of it, a look at the problem only [environment].
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from causalbandits._typing import is_real
from causalbandits.engine import simulate
from causalbandits.environments import Environment
from causalbandits.errors import CausalBanditsError, PolicyError, StateError, unknown
from causalbandits.planning.problem_spec import REWARDS, Spelling, world_of
from causalbandits.policies import AnyPolicy, Policy, policy
from causalbandits.problem import Problem
from causalbandits.results import (
    Code,
    Heading,
    Picture,
    Run,
    Text,
    citation,
    final_regrets,
    provenance,
    versions,
    write_data,
    write_figures,
    write_page,
)

# Policies of your own in a specification: `id = "my_module:MyPolicy"`, beside the file or installed.


def own_policy(place: str, parameters: Mapping[str, Any], folder: Path) -> AnyPolicy:
    """The policy that `module:Class` and its parameters make; modules are looked for in `folder`, too."""
    module_name, _, class_name = place.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise PolicyError(
            f'A policy of your own is written "module:Class", such as "my_module:MyPolicy"; got {place!r}.'
        )
    kind = _class(_module(module_name, folder), class_name)
    known = list(inspect.signature(kind).parameters)
    for name in parameters:
        if name not in known:
            raise PolicyError(unknown(f"parameter of {class_name}:", name, known))
    try:
        return kind(**parameters)
    except CausalBanditsError:
        raise
    except Exception as error:
        raise PolicyError(f"{class_name} raised {type(error).__name__}: {error}") from error


def _class(module: ModuleType, name: str) -> type[AnyPolicy]:
    kind = getattr(module, name, None)
    if isinstance(kind, type) and issubclass(kind, Policy):
        return kind
    policies = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Policy)]
    if kind is not None:
        raise PolicyError(f"{name} in {module.__file__} must be a subclass of causalbandits.Policy; it is {kind!r}.")
    raise PolicyError(unknown(f"policy of {module.__file__}:", name, policies))


def _module(name: str, folder: Path) -> ModuleType:
    """The module, from the folder or from wherever Python finds it.

    The folder stays on Python's path, because worker processes have to import the module, too; at its end, because
    files that happen to lie beside a specification must not take the place of installed modules.
    """
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise PolicyError(f"The module {name!r} needs {error.name!r}, which is not installed.") from error
        raise PolicyError(f"There is no module {name!r}, neither in {place} nor installed.") from None
    except Exception as error:
        raise PolicyError(f"The module {name!r} raised {type(error).__name__} when imported: {error}") from error
    _check_place(module, name, Path(place))
    return module


def _check_place(module: ModuleType, name: str, folder: Path) -> None:
    """A module in the folder is the one that is meant; another of its name must not be taken for it."""
    meant = folder.joinpath(*name.split(".")).with_suffix(".py")
    found = getattr(module, "__file__", None)
    if meant.exists() and (found is None or Path(found).resolve() != meant):
        raise PolicyError(f"{meant} cannot be imported: {name!r} is another module, {found}. Rename it.")


LEAST = {"horizon": 1, "replications": 1, "seed": 0}
"""The entries of [simulation] that are whole numbers, with the least that each may be."""


@dataclass(frozen=True)
class Spec:
    """A comparison that a file asks for."""

    name: str
    environment: Environment
    policies: Mapping[str, AnyPolicy]
    horizon: int
    replications: int = 20
    seed: int = 0
    budget: float | None = None

    def run(self, workers: int | None = None, checkpoint: Path | None = None) -> Run:
        """The simulation."""
        return simulate(
            self.environment,
            self.policies,
            horizon=self.horizon,
            replications=self.replications,
            seed=self.seed,
            budget=self.budget,
            workers=workers,
            checkpoint=checkpoint,
        )


@dataclass(frozen=True)
class SpecFile:
    """What a file says, its tables one by one; those that are not there are empty."""

    path: Path
    settings: Mapping[str, Any]
    reward: Mapping[str, Any] | None
    simulation: Mapping[str, Any]
    policies: Mapping[str, AnyPolicy]

    def world(self, more: Mapping[str, Any] | None = None, spelling: Spelling | None = None) -> Problem | Environment:
        """The world of [environment] and [reward], with `more` entries or other ones."""
        settings = {**self.settings, **(more or {})}
        return world_of(settings, self.reward, folder=self.path.parent, spelling=spelling)

    def spec(self) -> Spec:
        """The comparison, for which nothing may be missing."""
        env = self.world()
        if not isinstance(env, Environment):
            kinds = ", ".join(map(repr, REWARDS))
            raise CausalBanditsError(f"With a model of your own, [reward] must say its kind, one of {kinds}.")
        if "horizon" not in self.simulation:
            raise CausalBanditsError("[simulation] must say for how many rounds: horizon = 5000, say.")
        if not self.policies:
            raise CausalBanditsError("The file must have a table [policies] with a line for each: c-ts-beta = {}, say.")
        return Spec(self.path.stem, env, self.policies, **self.simulation)


def read_spec(path: Path) -> Spec:
    """The comparison that a file asks for."""
    return read_file(path).spec()


def read_file(path: Path) -> SpecFile:
    """What a file says; an error names the line or the entry that is wrong."""
    content = read_toml(path)
    refuse_unknown(content, ("environment", "costs", "reward", "simulation", "policies"), "table")
    tables = {name: table_of(content, name) for name in content}
    if "environment" not in tables:
        raise CausalBanditsError('The file must have a table [environment]: zoo = "email_campaign", say.')
    chosen = {name: policy_from(name, given, path.parent) for name, given in tables.get("policies", {}).items()}
    simulation = simulation_from(tables.get("simulation", {}))
    return SpecFile(path, _settings(tables), tables.get("reward"), simulation, chosen)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a file, or what is wrong with it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CausalBanditsError(f"Cannot read {path}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CausalBanditsError(f"{path} is no TOML file: {error}.") from None


def _settings(tables: Mapping[str, Any]) -> dict[str, Any]:
    """[environment], and in it what [costs] says: they may be written in either."""
    if "costs" not in tables:
        return dict(tables["environment"])
    if "costs" in tables["environment"]:
        raise CausalBanditsError(
            "Costs must be said once: in the table [costs], or in [environment] costs, not in both."
        )
    return {**tables["environment"], "costs": tables["costs"]}


def table_of(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table of a file, by its name."""
    if not isinstance(content[name], dict):
        raise CausalBanditsError(f"[{name}] must be a table; got {content[name]!r}.")
    return dict(content[name])


def simulation_from(given: Mapping[str, Any]) -> dict[str, Any]:
    """What [simulation] says, checked."""
    refuse_unknown(given, (*LEAST, "budget"), "entry of [simulation]:")
    for name, value in given.items():
        if name == "budget":
            if not is_real(value) or not 0 < value < math.inf:
                raise CausalBanditsError(f"[simulation] budget: expected a positive number; got {value!r}.")
        elif not isinstance(value, int) or isinstance(value, bool) or value < LEAST[name]:
            raise CausalBanditsError(
                f"[simulation] {name}: expected a whole number, {LEAST[name]} or more; got {value!r}."
            )
    return dict(given)


def policy_from(name: str, given: Any, folder: Path) -> AnyPolicy:
    """The policy that a line of [policies] describes."""
    if not isinstance(given, dict) or not isinstance(given.get("id", name), str):
        raise CausalBanditsError(
            f'[policies] {name}: expected parameters, {{}} for none, and perhaps id = "c-ucb"; got {given!r}.'
        )
    id, parameters = given.get("id", name), {key: value for key, value in given.items() if key != "id"}
    try:
        return own_policy(id, parameters, folder) if ":" in id else policy(id, **parameters)
    except CausalBanditsError as error:
        raise type(error)(f"[policies] {name}: {error}") from None


def refuse_unknown(given: Mapping[str, Any], names: Iterable[str], what: str) -> None:
    """Raise if there is an entry that nobody knows."""
    for name in given:
        if name not in names:
            raise CausalBanditsError(unknown(what, name, names))


# A comparison run into a folder, with its report.


def write_comparison(spec: Spec, folder: Path, workers: int | None = None) -> Run:
    """Run a comparison into a folder: report, figures, data. Interrupted, the same call goes on."""
    from causalbandits.results.plots import panels, plot_graph

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
