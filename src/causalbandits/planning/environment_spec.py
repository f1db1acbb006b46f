"""Environments from specifications: a problem with a reward mechanism, or an environment of the zoo.

    entries of the problem                                        environment
    {}                                                            { zoo = "random_parallel", m = 3, n = 2 }
    { max_set = 1 }                                               { zoo = "email_campaign" }
    { model = "model.json", manipulable = ["x"], reward = "y" }   { reward = "bernoulli", mean = [0.3, 0.1] }

An environment of the zoo takes its parameters, and the entries of a problem that restrict its actions.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from causalbandits.environments import (
    BernoulliReward,
    Environment,
    GaussianReward,
    LinearReward,
    Reward,
    StudentReward,
    zoo,
)
from causalbandits.errors import CausalBanditsError, ProblemWarning, unknown_name_message
from causalbandits.model import CausalGraph
from causalbandits.model.graph import ancestors
from causalbandits.problem import SPEC_ENTRIES, Problem, SpecTerms, is_path, parse_knowledge

REWARD_ENTRIES = ("graph", "model", "reward", "reward_parents", "adjust", "can_observe", "values")
"""Entries that define the reward's dependence; an environment of the zoo defines all of them itself."""

ESTIMATION_ENTRIES = ("data", "bins", "interventions", "missing", "prior")

REWARD_CLASSES: dict[str, Callable[..., Reward]] = {
    "bernoulli": BernoulliReward,
    "gaussian": GaussianReward,
    "linear": LinearReward,
    "student": StudentReward,
}


def parse_environment(
    entries: Mapping[str, Any],
    environment: object = None,
    *,
    folder: Path = Path(),
    terms: SpecTerms | None = None,
    inspecting: bool = False,
) -> Problem | Environment:
    """The environment of a specification, or its problem alone if the specification has no reward mechanism.

    Files are searched in `folder`; errors name entries in `terms`, by default those of a file. With `inspecting`, a
    graph needs neither manipulable variables (default: all that affect the reward) nor values (default: two).

    >>> parse_environment({"max_set": 1}, {"zoo": "lower_bound", "N": 3, "delta": 0.1}).problem
    Problem(7 actions on X1, X2, X3; 2 configurations of X1; observe X1)
    """
    terms = terms or SpecTerms()
    if environment is None:
        if inspecting:
            entries = _add_inspection_defaults(entries, folder)
        return Problem.from_spec(entries, folder=folder, terms=terms)
    if not isinstance(environment, Mapping):
        raise CausalBanditsError(f"[environment] must be a table; got {environment!r}.")
    if "zoo" in environment:
        return _environment_from_zoo(entries, environment, terms)
    kind = environment.get("reward")
    if not isinstance(kind, str) or kind not in REWARD_CLASSES:
        kinds = ", ".join(map(repr, REWARD_CLASSES))
        raise CausalBanditsError(
            '[environment] must name an example environment, zoo = "email_campaign", or the kind of the reward, '
            f"reward = one of {kinds}; got {dict(environment)!r}."
        )
    return _add_reward(Problem.from_spec(entries, folder=folder, terms=terms), kind, environment)


def _environment_from_zoo(entries: Mapping[str, Any], environment: Mapping[str, Any], terms: SpecTerms) -> Environment:
    name, parameters = environment["zoo"], {key: value for key, value in environment.items() if key != "zoo"}
    if not isinstance(name, str) or name not in zoo.__all__:
        raise CausalBanditsError(unknown_name_message("example environment:", name, zoo.__all__))
    factory = getattr(zoo, name)
    accepted, required = _writable_parameters(factory)
    for entry in parameters:
        if entry not in accepted:
            raise CausalBanditsError(unknown_name_message(f"parameter of {name}:", entry, accepted))
    missing = [terms.parameter_example(entry) for entry in required if entry not in parameters]
    if missing:
        raise CausalBanditsError(f"The environment {name} requires: {', '.join(missing)}")
    restricting = [entry for entry in SPEC_ENTRIES if entry not in (*REWARD_ENTRIES, *ESTIMATION_ENTRIES)]
    for entry in entries:
        if entry in (*REWARD_ENTRIES, *ESTIMATION_ENTRIES):
            raise CausalBanditsError(
                f"An example environment has its own model and reward. Leave out {terms.name(entry)}."
            )
        if entry not in restricting:
            raise CausalBanditsError(unknown_name_message("entry", entry, restricting))
    defaults = {"rng": 0} if "rng" in accepted else {}  # equal settings give equal environments
    env: Environment = factory(**defaults | parameters)
    return _restrict_actions(env, entries, terms) if entries else env


def _restrict_actions(env: Environment, restrictions: Mapping[str, Any], terms: SpecTerms) -> Environment:
    """The environment with fewer actions."""
    problem = env.problem
    defaults: dict[str, Any] = {
        "model": problem.model,
        "manipulable": list(problem.manipulable),
        "reward_parents": list(problem.parents),
        "context": list(problem.context),
    }
    if problem.actions.explicit_choices is not None:
        defaults["actions"] = [dict(intervention) for intervention in problem.actions]
    elif not problem.actions.always_set and "max_set" not in restrictions:
        defaults["optional"] = True
    # environments of the zoo are intended as they are
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):
        return Environment(Problem.from_spec(defaults | dict(restrictions), terms=terms), env.reward, shown=env.shown)


def _add_inspection_defaults(entries: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Defaults for inspection: all variables that affect the reward are manipulable, with two values each."""
    source = entries.get("graph", entries.get("model"))
    if not isinstance(source, str) or "data" in entries:
        return entries
    graph = parse_knowledge(folder / source if "model" in entries or is_path(source) else source)
    if not isinstance(graph, CausalGraph):
        return entries
    reward = entries.get("reward")
    if not entries.get("manipulable") and isinstance(reward, str) and reward in graph.parents:
        causes = ancestors(graph.graph, [reward])
        entries = {**entries, "manipulable": [name for name in graph.names if name in causes and name != reward]}
    manipulable, context = entries.get("manipulable", []), entries.get("context", [])
    if not isinstance(manipulable, list | dict) or not isinstance(context, list | dict):
        return entries
    values = dict(entries["values"]) if isinstance(entries.get("values"), dict) else {}
    with_values = {*graph.states, *values}
    for variables in (manipulable, context):
        with_values |= {name for name, domain in variables.items() if domain} if isinstance(variables, dict) else set()
    defaults = {name: [0, 1] for name in (*manipulable, *context) if name in graph.parents and name not in with_values}
    entries = {**entries, "values": {**values, **defaults}} if defaults else entries
    is_unlearnable = any(name not in with_values | {*defaults, reward} for name in graph.names)
    if reward is not None and "reward_parents" not in entries and is_unlearnable:
        entries = {**entries, "reward_parents": []}  # no CPTs can be learned without values: a mean per action is
    return entries


def _add_reward(problem: Problem, kind: str, environment: Mapping[str, Any]) -> Environment:
    factory = REWARD_CLASSES[kind]
    accepted, required = _writable_parameters(factory)
    parameters = {entry: value for entry, value in environment.items() if entry != "reward"}
    for entry in parameters:
        if entry not in accepted:
            raise CausalBanditsError(unknown_name_message("entry of [environment]:", entry, ["reward", *accepted]))
    for entry in required:
        if entry not in parameters:
            raise CausalBanditsError(f"[environment] with reward = {kind!r} must have {entry} = [...].")
    try:
        return Environment(problem, factory(**parameters))
    except CausalBanditsError as error:
        raise type(error)(f"[environment]: {error}") from None


def _writable_parameters(factory: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """The parameters of a function that can be written in a file, and those of them without a default."""
    parameters = [
        parameter for parameter in inspect.signature(factory).parameters.values() if parameter.name != "features"
    ]  # these parameters are functions
    return [parameter.name for parameter in parameters], [
        parameter.name for parameter in parameters if parameter.default is parameter.empty
    ]
