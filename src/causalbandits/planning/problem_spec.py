"""The keywords of Problem as they are written in files and on the command line, and how they are refused."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from causalbandits._typing import is_real
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
from causalbandits.formats import read
from causalbandits.model import CausalGraph, FittedModel, Knowledge, State, Variable, as_causal_graph
from causalbandits.model.graph import ancestors
from causalbandits.problem import Problem
from causalbandits.problem.actions import LARGEST_PRICE

WRITABLE = tuple(
    name
    for name, parameter in inspect.signature(Problem).parameters.items()
    if name != "model" and "Callable" not in str(parameter.annotation)
)
"""The keywords that can be written down: all but functions."""

EXAMPLES = {
    "manipulable": '["A", "B"]',
    "parents": '["A", "B"]',
    "reward": '"Y"',
    "separator": '"cheapest"',
    "observable": '["A", "B"]',
    "at_most": "2",
    "always": '["A"]',
    "actions": '[{ A = "x" }, { A = "x", B = "y" }]',
    "reduce": "false",
    "costs": "{ A = 0.1, B = { x = 0.2 } }",
    "require": "{ C = { y = 0.01 } }",
    "context": '["A"]',
    "reward_range": "[0, 1]",
    "noise_scale": "0.5",
}


class Spelling(Protocol):
    """How whoever gives settings writes an entry."""

    def name(self, entry: str) -> str:
        """What it is called."""

    def example(self, entry: str) -> str:
        """How it might look."""

    def values(self, name: str) -> str:
        """How the values that a variable can be set to might look."""


class FileSpelling:
    """Entries of a file's table [environment]."""

    def name(self, entry: str) -> str:
        return f"[environment] {entry}"

    def example(self, entry: str) -> str:
        return f"{self.name(entry)} = {EXAMPLES.get(entry, '...')}"

    def values(self, name: str) -> str:
        return f'{self.name("manipulable")} = {{ {name} = ["x", "y"] }}'


def parse_keywords(entries: Mapping[str, Any], model: Knowledge, spelling: Spelling) -> dict[str, Any]:
    """The keywords for Problem; what it may refuse after this, it says in words that need no spelling."""
    arguments: dict[str, Any] = {}
    for entry, value in entries.items():
        try:
            arguments[entry] = PARSERS[entry](value, model)
        except CausalBanditsError as error:
            raise CausalBanditsError(f"{spelling.name(entry)}: {error}") from None
    _validate_actions(arguments, model, spelling)
    _validate_reward(arguments, model, spelling)
    if "observable" in arguments and "parents" not in arguments:
        arguments.setdefault("separator", "cheapest")
    return arguments


def _validate_actions(arguments: Mapping[str, Any], model: Knowledge, spelling: Spelling) -> None:
    """What can be set, and how many at once."""
    knobs, always = arguments.get("manipulable"), set(arguments.get("always", ()))
    if not knobs:
        variables = ", ".join(model.names)
        raise CausalBanditsError(
            f"Say what can be set: {spelling.example('manipulable')}. The variables are {variables}."
        )
    for name in sorted(always.difference(knobs)):
        raise CausalBanditsError(
            f"{spelling.name('always')}: {unknown_name_message('variable that can be set:', name, knobs)}"
        )
    for name in arguments.get("costs", ()):
        if name not in knobs:
            raise CausalBanditsError(
                f"{spelling.name('costs')}: {unknown_name_message('variable that can be set:', name, knobs)}"
            )
    if arguments.get("at_most", len(always)) < len(always):
        raise CausalBanditsError(
            f"{spelling.name('at_most')}: expected no less than the {len(always)} variables that are always set; "
            f"got {arguments['at_most']}."
        )


def _validate_reward(arguments: Mapping[str, Any], model: Knowledge, spelling: Spelling) -> None:
    """What the reward depends on, or where to look for it."""
    name, example = spelling.name, spelling.example
    searching = [entry for entry in ("separator", "observable") if entry in arguments]
    if arguments.get("parents") and searching == ["observable"] and isinstance(model, FittedModel):
        searching = []  # other variables are marginalised out of CPTs that are learned
    if not searching and "parents" not in arguments and "reward" not in arguments:
        raise CausalBanditsError(
            f"Say what the reward depends on: {example('parents')}; or, where the model has it, which it is: "
            f"{example('reward')}."
        )
    if arguments.get("parents") == [] and "reward" not in arguments:
        raise CausalBanditsError(
            f"{name('parents')}: without parents a number per action is learnt, of the actions worth trying by the "
            f"graph: say which variable is the reward, {example('reward')}."
        )
    if searching and "parents" in arguments:
        raise CausalBanditsError(
            f"{name(searching[0])} is to find what stands in for the reward's parents: leave out {name('parents')}."
        )
    if searching and "reward" not in arguments:
        raise CausalBanditsError(
            f"{name(searching[0])} needs to know which variable is the reward: {example('reward')}."
        )
    if arguments.get("reward") in arguments.get("observable", ()):
        raise CausalBanditsError(
            f"{name('observable')} must not have the reward {arguments['reward']!r} in it: it comes too late."
        )


def _parse_names(value: object, model: Knowledge) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise CausalBanditsError(f"expected a list of names; got {value!r}.")
    return [_parse_name(name, model) for name in value]


def _parse_manipulable(value: object, model: Knowledge) -> list[str] | dict[str, list[State] | None]:
    if not isinstance(value, dict):
        return _parse_names(value, model)
    return {name: _parse_values(name, states, model) for name, states in value.items()}


def _parse_values(name: str, states: object, model: Knowledge) -> list[State] | None:
    variable = model[_parse_name(name, model)]
    if states is None:  # all of them
        return None
    if not isinstance(states, list) or not states:
        raise CausalBanditsError(f"expected a list of the values that {name!r} may be set to; got {states!r}.")
    return [_parse_state(variable, state) for state in states]


def _parse_name(value: object, model: Knowledge) -> str:
    if not isinstance(value, str):
        raise CausalBanditsError(f"expected the name of a variable; got {value!r}.")
    if value not in model.names:
        raise CausalBanditsError(unknown_name_message("variable", value, model.names))
    return value


def _parse_reward(value: object, model: Knowledge) -> str:
    """The reward may be hidden in the data: it is told."""
    if isinstance(value, str) and value in as_causal_graph(model).parents:
        return value
    return _parse_name(value, model)


def _parse_separator(value: object, model: Knowledge) -> str:
    if value != "cheapest":
        raise CausalBanditsError(f'expected "cheapest"; got {value!r}.')
    return "cheapest"


def _parse_positive_integer(value: object, model: Knowledge) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CausalBanditsError(f"expected a whole number, 1 or more; got {value!r}.")
    return value


def _parse_boolean(value: object, model: Knowledge) -> bool:
    if not isinstance(value, bool):
        raise CausalBanditsError(f"expected true or false; got {value!r}.")
    return value


def _parse_actions(value: object, model: Knowledge) -> list[dict[str, State]]:
    if not isinstance(value, list) or not all(isinstance(action, dict) for action in value):
        raise CausalBanditsError(f"expected a list of assignments, such as {EXAMPLES['actions']}; got {value!r}.")
    return [
        {_parse_name(name, model): _parse_state(model[name], state) for name, state in action.items()}
        for action in value
    ]


def _parse_costs(value: object, model: Knowledge) -> dict[str, float | dict[State, float]]:
    if not isinstance(value, dict):
        raise CausalBanditsError(f"expected a price for each knob, such as {EXAMPLES['costs']}; got {value!r}.")
    return {_parse_name(name, model): _parse_prices(model[name], prices) for name, prices in value.items()}


def _parse_prices(variable: Variable, value: Any) -> Any:
    """One price, or one for each value."""
    if not isinstance(value, dict):
        return _parse_price(variable.name, value)
    return {
        _parse_state(variable, state): _parse_price(f"{variable.name}={state}", price) for state, price in value.items()
    }


def _parse_price(subject: str, value: object) -> float:
    if not is_real(value) or not 0 <= value <= LARGEST_PRICE:
        raise CausalBanditsError(f"expected a number from 0 to {LARGEST_PRICE:g} for {subject}; got {value!r}.")
    return float(value)


def _parse_require(value: object, model: Knowledge) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CausalBanditsError(f"expected how likely a value may be, such as {EXAMPLES['require']}; got {value!r}.")
    return {_parse_name(name, model): _parse_limits(model[name], limits) for name, limits in value.items()}


def _parse_limits(variable: Variable, value: Any) -> dict[State, float]:
    """How likely each of some values may be."""
    if not isinstance(value, dict):
        raise CausalBanditsError(f"expected how likely which value of {variable.name!r} may be; got {value!r}.")
    for state, limit in value.items():
        if not is_real(limit) or not 0 <= limit < 1:
            raise CausalBanditsError(f"expected a number from 0 to below 1 for {variable.name}={state}; got {limit!r}.")
    return {_parse_state(variable, state): float(limit) for state, limit in value.items()}


def _parse_reward_range(value: object, model: Knowledge) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2 or not all(map(is_real, value)) or not value[0] < value[1]:
        raise CausalBanditsError(
            f"expected the least and the largest possible reward, such as {EXAMPLES['reward_range']}; got {value!r}."
        )
    return float(value[0]), float(value[1])


def _parse_noise_scale(value: object, model: Knowledge) -> float:
    if not is_real(value) or not value > 0:
        raise CausalBanditsError(f"expected a positive number, such as {EXAMPLES['noise_scale']}; got {value!r}.")
    return float(value)


def _parse_state(variable: Variable, value: Any) -> State:
    """The state that is meant: itself, or else the one that is written so (the number 1 and the text "1")."""
    if value in variable.states:
        return variable.states[variable.states.index(value)]
    matches = [state for state in variable.states if str(state) == str(value)]
    return matches[0] if len(matches) == 1 else variable.states[variable.code(value)]


PARSERS: dict[str, Callable[[object, Knowledge], Any]] = {
    "manipulable": _parse_manipulable,
    "parents": _parse_names,
    "reward": _parse_reward,
    "separator": _parse_separator,
    "observable": _parse_names,
    "at_most": _parse_positive_integer,
    "always": _parse_names,
    "actions": _parse_actions,
    "reduce": _parse_boolean,
    "costs": _parse_costs,
    "require": _parse_require,
    "context": _parse_names,
    "reward_range": _parse_reward_range,
    "noise_scale": _parse_noise_scale,
}


# Worlds from plain settings: the one dialect of specifications in TOML and of the command line.
#
# A world of the zoo takes its parameters, and the keywords of Problem that narrow its actions. A model of your own
# takes all keywords that can be written down, and a table for the reward, without which it is only a problem.
#
#     settings                                                         reward
#     { zoo = "random_parallel", m = 3, n = 2, theta = [1, 0] }        its own
#     { model = "model.json", manipulable = ["x"], parents = ["z"] }   { kind = "bernoulli", mean = [0.3, 0.1] }

REWARD_KEYWORDS = ("parents", "reward", "separator", "observable")
"""Keywords that say what the reward depends on; a world of the zoo knows."""

REWARD_CLASSES: dict[str, Callable[..., Reward]] = {
    "bernoulli": BernoulliReward,
    "gaussian": GaussianReward,
    "linear": LinearReward,
    "student": StudentReward,
}


def parse_environment(
    settings: Mapping[str, Any],
    reward: object = None,
    *,
    folder: Path = Path(),
    spelling: Spelling | None = None,
    inspecting: bool = False,
) -> Problem | Environment:
    """The world that settings describe, or the problem alone where nothing says how the reward comes about.

    Files are looked for in `folder`; errors name entries in the `spelling` of whoever gave them, a file's by default.
    A graph without tables makes a problem by actions. With `inspecting`, it need not say what can be set (all
    that leads to the reward), nor to which values (two).

    >>> parse_environment({"zoo": "lower_bound", "N": 3, "delta": 0.1, "at_most": 1}).problem
    Problem(7 actions on X1, X2, X3; 2 configurations of X1)
    """
    spelling = spelling or FileSpelling()
    entries = dict(settings)
    zoo_name, path = entries.pop("zoo", None), entries.pop("model", None)
    if (zoo_name is None) == (path is None):
        raise CausalBanditsError('[environment] must name one world: zoo = "email_campaign", or model = "model.json".')
    if zoo_name is None:
        problem = _problem_from_model(path, entries, folder, spelling, inspecting)
        return problem if reward is None else _add_reward(problem, reward)
    if reward is not None:
        raise CausalBanditsError("A world of the zoo has its reward: leave [reward] out.")
    return _environment_from_zoo(zoo_name, entries, spelling)


def _environment_from_zoo(name: object, entries: Mapping[str, Any], spelling: Spelling) -> Environment:
    if not isinstance(name, str) or name not in zoo.__all__:
        raise CausalBanditsError(unknown_name_message("world of the zoo:", name, zoo.__all__))
    factory = getattr(zoo, name)
    accepted, required = _writable_parameters(factory)
    restricting = [entry for entry in WRITABLE if entry not in REWARD_KEYWORDS]
    for entry in entries:
        if entry in REWARD_KEYWORDS:
            raise CausalBanditsError(f"A world of the zoo has its reward: leave out {spelling.name(entry)}.")
        if entry not in (*accepted, *restricting):
            raise CausalBanditsError(unknown_name_message(f"parameter of {name}:", entry, [*accepted, *restricting]))
    missing = [spelling.example(entry) for entry in required if entry not in entries]
    if missing:
        raise CausalBanditsError(f"The world {name} needs more: {', '.join(missing)}.")
    defaults = {"rng": 0} if "rng" in accepted else {}  # the same settings give the same world
    env: Environment = factory(**defaults | {entry: entries[entry] for entry in accepted if entry in entries})
    restrictions = {entry: entries[entry] for entry in restricting if entry in entries}
    return _restrict_actions(env, restrictions, spelling) if restrictions else env


def _restrict_actions(env: Environment, restrictions: Mapping[str, Any], spelling: Spelling) -> Environment:
    """The same world with fewer actions."""
    defaults = {name: list(getattr(env.problem, name)) for name in ("manipulable", "parents", "context")}
    model = env.problem.model
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # a world of the zoo is as it is meant
        return Environment(Problem(model, **parse_keywords(defaults | dict(restrictions), model, spelling)), env.reward)


def _problem_from_model(
    path: object, entries: Mapping[str, Any], folder: Path, spelling: Spelling, inspecting: bool
) -> Problem:
    if not isinstance(path, str):
        raise CausalBanditsError(f"{spelling.name('model')}: expected the name of a file; got {path!r}.")
    for entry in entries:
        if entry not in WRITABLE:
            raise CausalBanditsError(
                unknown_name_message("entry of [environment]:", entry, ("zoo", "model", *WRITABLE))
            )
    model = read(folder / path)
    if isinstance(model, CausalGraph):
        if inspecting:
            entries, model = _add_inspection_defaults(entries, model)
        model = _add_knob_values(entries.get("manipulable"), model, spelling)
    return Problem(model, **parse_keywords(entries, model, spelling))


def _add_inspection_defaults(entries: Mapping[str, Any], graph: CausalGraph) -> tuple[Mapping[str, Any], CausalGraph]:
    """All that leads to the reward can be set, unless something is said, and to two values, unless these are."""
    reward = entries.get("reward")
    if not entries.get("manipulable") and isinstance(reward, str) and reward in graph.parents:
        causes = ancestors(graph.graph, [reward])
        entries = {**entries, "manipulable": [name for name in graph.names if name in causes and name != reward]}
    variables = [*entries.get("manipulable", ()), *entries.get("context", ())]
    manipulable = entries.get("manipulable")
    values = {n for n, knob_values in manipulable.items() if knob_values} if isinstance(manipulable, dict) else set()
    missing = [n for n in variables if n in graph.parents and n not in graph.states and n not in values]
    return entries, graph.with_states({name: [0, 1] for name in missing})


def _add_knob_values(manipulable: object, graph: CausalGraph, spelling: Spelling) -> CausalGraph:
    """The graph in which knobs have the values that they may be set to, where it does not say which they have."""
    values_by_knob = manipulable if isinstance(manipulable, dict) else {}
    new_states = {
        n: knob_values
        for n, knob_values in values_by_knob.items()
        if knob_values and n in graph.parents and n not in graph.states
    }
    extended = graph.with_states(new_states)
    for name in manipulable if isinstance(manipulable, list | dict) else ():
        if name in graph.parents and name not in extended.states:
            raise CausalBanditsError(
                f"{spelling.name('manipulable')}: {name!r} needs the values that it can be set to: "
                f"{spelling.values(name)}."
            )
    return extended


def _add_reward(problem: Problem, entries: object) -> Environment:
    kind = entries.get("kind") if isinstance(entries, Mapping) else None
    if not isinstance(entries, Mapping) or not isinstance(kind, str) or kind not in REWARD_CLASSES:
        kinds = ", ".join(map(repr, REWARD_CLASSES))
        raise CausalBanditsError(f"[reward] must have a kind, one of {kinds}; got {entries!r}.")
    factory = REWARD_CLASSES[kind]
    accepted, required = _writable_parameters(factory)
    parameters = {entry: value for entry, value in entries.items() if entry != "kind"}
    for entry in parameters:
        if entry not in accepted:
            raise CausalBanditsError(unknown_name_message("entry of [reward]:", entry, ["kind", *accepted]))
    for entry in required:
        if entry not in parameters:
            raise CausalBanditsError(f"[reward] of kind {kind!r} must have {entry} = [...].")
    try:
        return Environment(problem, factory(**parameters))
    except CausalBanditsError as error:
        raise type(error)(f"[reward]: {error}") from None


def _writable_parameters(factory: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """The parameters of a function that can be written down, and those of them without a default."""
    parameters = [
        parameter for parameter in inspect.signature(factory).parameters.values() if parameter.name != "features"
    ]  # these are functions
    return [parameter.name for parameter in parameters], [
        parameter.name for parameter in parameters if parameter.default is parameter.empty
    ]
