"""A specification in a file: a problem, its reward mechanism, policies, and the horizon.

model = "model.json"              # the entries of a problem: model or graph, reward, manipulable, values, costs, ...
reward = "click"                  # (cb.problem.problem_schema() has all of them)

[manipulable]
purpose = ["promo", "news"]

[costs]
purpose = { promo = 0.02 }

[environment]                     # the reward mechanism of the simulation
reward = "bernoulli"              # bernoulli, gaussian, linear or student
mean = [0.3, 0.1]                 # one axis per parent (linear: theta = [...]); sd = ..., student: scale, degrees
# zoo = "email_campaign"          # or an environment of the zoo with its parameters, without model, graph and reward

[simulation]
horizon = 5000
replications = 20
seed = 0
# budget = 250                    # with costs: the total cost of all rounds that may be spent

[policies]
c-ts = { prior = "beta" }         # families, or custom names with policy = "..."; the rest are options
"c-ts(cpts=learned)" = {}
narrow = { policy = "ucb", noise_scale = 0.5 }
# mine = { policy = "my_module:MyPolicy", epsilon = 0.1 }     # a custom class, in my_module.py beside this file

A comparison needs all tables; a study or an inspection needs only the problem. JSON files have the same entries.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from causalbandits._typing import is_real
from causalbandits.engine import simulate
from causalbandits.environments import Environment
from causalbandits.errors import CausalBanditsError, PolicyError, StateError, unknown_name_message
from causalbandits.planning.environment_spec import REWARD_CLASSES, parse_environment
from causalbandits.policies import AnyPolicy, Policy, policy
from causalbandits.problem import EXPERIMENT_TABLES, SPEC_ENTRIES, Problem, SpecTerms, read_spec_content
from causalbandits.results import (
    Code,
    Heading,
    Picture,
    Run,
    Text,
    citation,
    final_regret_grid,
    format_versions,
    provenance,
    write_data,
    write_figures,
    write_page,
)

# Custom policies in a specification: `policy = "my_module:MyPolicy"`, beside the file or installed.


def load_custom_policy(place: str, parameters: Mapping[str, Any], folder: Path) -> AnyPolicy:
    """The policy given by `module:Class` and its parameters; modules are also searched in `folder`."""
    module_name, _, class_name = place.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), class_name)):
        raise PolicyError(f'A custom policy is written "module:Class", such as "my_module:MyPolicy"; got {place!r}.')
    kind = _find_policy_class(_import_module(module_name, folder), class_name)
    accepted = list(inspect.signature(kind).parameters)
    for name in parameters:
        if name not in accepted:
            raise PolicyError(unknown_name_message(f"parameter of {class_name}:", name, accepted))
    try:
        return kind(**parameters)
    except CausalBanditsError:
        raise
    except Exception as error:
        raise PolicyError(f"{class_name} raised {type(error).__name__}: {error}") from error


def _find_policy_class(module: ModuleType, name: str) -> type[AnyPolicy]:
    kind = getattr(module, name, None)
    if isinstance(kind, type) and issubclass(kind, Policy):
        return kind
    policies = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Policy)]
    if kind is not None:
        raise PolicyError(f"{name} in {module.__file__} must be a subclass of causalbandits.Policy; it is {kind!r}.")
    raise PolicyError(unknown_name_message(f"policy of {module.__file__}:", name, policies))


def _import_module(name: str, folder: Path) -> ModuleType:
    """The module, from the folder or from Python's path.

    The folder stays on Python's path, because worker processes have to import the module, too. It is appended, so that
    files beside a specification cannot shadow installed modules.
    """
    folder_path = str(folder.resolve())
    if folder_path not in sys.path:
        sys.path.append(folder_path)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0] and error.name != name:
            raise PolicyError(f"The module {name!r} needs {error.name!r}, which is not installed.") from error
        raise PolicyError(f"There is no module {name!r}, neither in {folder_path} nor installed.") from None
    except Exception as error:
        raise PolicyError(f"The module {name!r} raised {type(error).__name__} when imported: {error}") from error
    _validate_module_file(module, name, Path(folder_path))
    return module


def _validate_module_file(module: ModuleType, name: str, folder: Path) -> None:
    """Check that a module in the folder is the imported one, and not shadowed by another module of that name."""
    expected_file = folder.joinpath(*name.split(".")).with_suffix(".py")
    module_file = getattr(module, "__file__", None)
    if expected_file.exists() and (module_file is None or Path(module_file).resolve() != expected_file):
        raise PolicyError(f"{expected_file} cannot be imported: {name!r} is another module, {module_file}. Rename it.")


MINIMUMS = {"horizon": 1, "replications": 1, "seed": 0}
"""The integer entries of [simulation], with their minimum."""


@dataclass(frozen=True)
class ExperimentSpec:
    """A comparison that a file specifies."""

    name: str
    environment: Environment
    policies: Mapping[str, AnyPolicy]
    horizon: int
    replications: int = 20
    seed: int = 0
    budget: float | None = None

    def run(self, workers: int | None = None, checkpoint: Path | None = None) -> Run:
        """Run the simulation."""
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
    """The content of a file: the entries of its problem, and its tables; missing tables are empty."""

    path: Path
    entries: Mapping[str, Any]
    environment: Mapping[str, Any] | None
    simulation: Mapping[str, Any]
    policies: Mapping[str, AnyPolicy]

    def parse_environment(
        self, overrides: Mapping[str, Any] | None = None, terms: SpecTerms | None = None
    ) -> Problem | Environment:
        """The environment or problem, with some entries replaced."""
        entries = {**self.entries, **(overrides or {})}
        return parse_environment(entries, self.environment, folder=self.path.parent, terms=terms)

    def build_spec(self) -> ExperimentSpec:
        """The comparison; raise if a required part is missing."""
        env = self.parse_environment()
        if not isinstance(env, Environment):
            kinds = ", ".join(map(repr, REWARD_CLASSES))
            raise CausalBanditsError(
                f"A simulation needs a model of the reward: a table [environment] with reward = one of {kinds}, or "
                'with an example environment, zoo = "email_campaign".'
            )
        if "horizon" not in self.simulation:
            raise CausalBanditsError("[simulation] must have a number of rounds, for example horizon = 5000.")
        if not self.policies:
            raise CausalBanditsError(
                "The file must have a table [policies] with a line for each policy, for example c-ts = {}."
            )
        return ExperimentSpec(self.path.stem, env, self.policies, **self.simulation)


def read_spec(path: Path) -> ExperimentSpec:
    """The comparison that a file specifies."""
    return read_spec_file(path).build_spec()


def read_spec_file(path: Path) -> SpecFile:
    """The content of a file; errors name the offending line or entry."""
    content = read_spec_content(path)
    validate_names(content, (*SPEC_ENTRIES, *EXPERIMENT_TABLES), "entry")
    tables = {name: require_table(content, name) for name in EXPERIMENT_TABLES if name in content}
    policies = {
        name: parse_policy(name, parameters, path.parent) for name, parameters in tables.get("policies", {}).items()
    }
    simulation = parse_simulation(tables.get("simulation", {}))
    entries = {name: value for name, value in content.items() if name not in EXPERIMENT_TABLES}
    return SpecFile(path, entries, tables.get("environment"), simulation, policies)


def require_table(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table of a file, by its name."""
    if not isinstance(content[name], dict):
        raise CausalBanditsError(f"[{name}] must be a table; got {content[name]!r}.")
    return dict(content[name])


def parse_simulation(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The validated table [simulation]."""
    validate_names(entries, (*MINIMUMS, "budget"), "entry of [simulation]:")
    for name, value in entries.items():
        if name == "budget":
            if not is_real(value) or not 0 < value < math.inf:
                raise CausalBanditsError(f"[simulation] budget: expected a positive number; got {value!r}.")
        elif not isinstance(value, int) or isinstance(value, bool) or value < MINIMUMS[name]:
            raise CausalBanditsError(
                f"[simulation] {name}: expected a whole number, {MINIMUMS[name]} or more; got {value!r}."
            )
    return dict(entries)


def parse_policy(name: str, entries: Any, folder: Path) -> AnyPolicy:
    """The policy of a line of [policies]."""
    if not isinstance(entries, dict) or not isinstance(entries.get("policy", name), str):
        raise CausalBanditsError(
            f'[policies] {name}: expected a table of options ({{}} for none), optionally with policy = "c-ucb"; got '
            f"{entries!r}."
        )
    text, options = entries.get("policy", name), {key: value for key, value in entries.items() if key != "policy"}
    try:
        return load_custom_policy(text, options, folder) if ":" in text else policy(text, **options)
    except CausalBanditsError as error:
        raise type(error)(f"[policies] {name}: {error}") from None


def validate_names(entries: Mapping[str, Any], names: Iterable[str], kind: str) -> None:
    """Raise if an entry is unknown."""
    for name in entries:
        if name not in names:
            raise CausalBanditsError(unknown_name_message(kind, name, names))


# Run a comparison into a folder, with its report.


def write_comparison(spec: ExperimentSpec, folder: Path, workers: int | None = None) -> Run:
    """Run a comparison into a folder: report, figures, data. After an interruption, the same call continues."""
    from causalbandits.results.plots import plot_graph, plot_panels

    if folder.exists() and not (folder / ".replications").exists() and any(folder.iterdir()):
        raise StateError(
            f"{folder} is not empty and does not hold a run of this specification. Choose another folder with --out."
        )
    run = spec.run(workers, folder / ".replications")
    provenance_record = provenance(f"causalbandits simulate {spec.name}.toml", spec.seed, spec.replications)
    figures = {"regret": plot_panels([run], [spec.name]), "graph": plot_graph(spec.environment.problem)}
    write_figures(folder / "figures", figures)
    write_data(folder / "data", "regret", {spec.name: run}, provenance_record)
    best = spec.environment.best()
    write_page(
        folder,
        [
            Heading(spec.name, 1),
            Text(f"{run.replications} replications of {run.horizon:,} rounds, seed {run.seed}."),
            Code(f"{provenance_record['command']}\n{format_versions(provenance_record)}"),
            Heading("The environment"),
            Text(
                f"{spec.environment.problem!r}. The best action is {best.intervention}, with mean reward "
                f"{best.mean:.4g}{_format_cost_note(spec)}."
            ),
            Picture("graph", "Blue: manipulable variables. Bold outline: parents of the reward."),
            Heading("Regret"),
            Picture("regret", "Mean regret with 95% bands."),
            final_regret_grid({spec.name: run}),
            Text("All numbers: data/regret.csv (curves), data/regret-final.csv (replications)."),
            Heading("References"),
            Code(citation(*spec.policies.values())),
        ],
    )
    return run


def _format_cost_note(spec: ExperimentSpec) -> str:
    """A note on the effect of costs."""
    if spec.environment.problem.costs is None:
        return ""
    if spec.budget is None:
        return " after subtracting its cost; regret is measured on the reward minus the cost"
    return (
        f" after subtracting its cost; the budget is {spec.budget:g}, and regret is measured against the best "
        "mixture within it"
    )
