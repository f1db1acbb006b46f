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
from causalbandits.errors import CausalBanditsError, ProblemWarning, unknown
from causalbandits.formats import read
from causalbandits.model import CausalGraph, Knowledge, State, Variable, as_causal_graph
from causalbandits.model.graph import ancestors
from causalbandits.problem import Problem
from causalbandits.problem.actions import DEAREST

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
}


class Spelling(Protocol):
    """How whoever gives settings writes an entry."""

    def name(self, entry: str) -> str:
        """What it is called."""

    def example(self, entry: str) -> str:
        """How it might look."""

    def values(self, name: str) -> str:
        """How the values that a variable can be set to might look."""


class InFile:
    """Entries of a file's table [environment]."""

    def name(self, entry: str) -> str:
        return f"[environment] {entry}"

    def example(self, entry: str) -> str:
        return f"{self.name(entry)} = {EXAMPLES.get(entry, '...')}"

    def values(self, name: str) -> str:
        return f'{self.name("manipulable")} = {{ {name} = ["x", "y"] }}'


def keywords(given: Mapping[str, Any], model: Knowledge, spelling: Spelling) -> dict[str, Any]:
    """The keywords for Problem; what it may refuse after this, it says in words that need no spelling."""
    checked: dict[str, Any] = {}
    for entry, value in given.items():
        try:
            checked[entry] = RULES[entry](value, model)
        except CausalBanditsError as error:
            raise CausalBanditsError(f"{spelling.name(entry)}: {error}") from None
    _check_actions(checked, model, spelling)
    _check_reward(checked, spelling)
    if "observable" in checked:
        checked.setdefault("separator", "cheapest")
    return checked


def _check_actions(checked: Mapping[str, Any], model: Knowledge, spelling: Spelling) -> None:
    """What can be set, and how many at once."""
    knobs, always = checked.get("manipulable"), set(checked.get("always", ()))
    if not knobs:
        variables = ", ".join(model.names)
        raise CausalBanditsError(
            f"Say what can be set: {spelling.example('manipulable')}. The variables are {variables}."
        )
    for name in sorted(always.difference(knobs)):
        raise CausalBanditsError(f"{spelling.name('always')}: {unknown('variable that can be set:', name, knobs)}")
    for name in checked.get("costs", ()):
        if name not in knobs:
            raise CausalBanditsError(f"{spelling.name('costs')}: {unknown('variable that can be set:', name, knobs)}")
    if checked.get("at_most", len(always)) < len(always):
        raise CausalBanditsError(
            f"{spelling.name('at_most')}: expected no less than the {len(always)} variables that are always set; "
            f"got {checked['at_most']}."
        )


def _check_reward(checked: Mapping[str, Any], spelling: Spelling) -> None:
    """What the reward depends on, or where to look for it."""
    name, example = spelling.name, spelling.example
    searching = [entry for entry in ("separator", "observable") if entry in checked]
    if not searching and "parents" not in checked and "reward" not in checked:
        raise CausalBanditsError(
            f"Say what the reward depends on: {example('parents')}; or, where the model has it, which it is: "
            f"{example('reward')}."
        )
    if checked.get("parents") == [] and "reward" not in checked:
        raise CausalBanditsError(
            f"{name('parents')}: without parents a number per action is learnt, of the actions worth trying by the "
            f"graph: say which variable is the reward, {example('reward')}."
        )
    if searching and "parents" in checked:
        raise CausalBanditsError(
            f"{name(searching[0])} is to find what stands in for the reward's parents: leave out {name('parents')}."
        )
    if searching and "reward" not in checked:
        raise CausalBanditsError(
            f"{name(searching[0])} needs to know which variable is the reward: {example('reward')}."
        )
    if checked.get("reward") in checked.get("observable", ()):
        raise CausalBanditsError(
            f"{name('observable')} must not have the reward {checked['reward']!r} in it: it comes too late."
        )


def _names(value: object, model: Knowledge) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise CausalBanditsError(f"expected a list of names; got {value!r}.")
    return [_name(name, model) for name in value]


def _manipulable(value: object, model: Knowledge) -> list[str] | dict[str, list[State] | None]:
    if not isinstance(value, dict):
        return _names(value, model)
    return {name: _values(name, states, model) for name, states in value.items()}


def _values(name: str, states: object, model: Knowledge) -> list[State] | None:
    variable = model[_name(name, model)]
    if states is None:  # all of them
        return None
    if not isinstance(states, list) or not states:
        raise CausalBanditsError(f"expected a list of the values that {name!r} may be set to; got {states!r}.")
    return [_state(variable, state) for state in states]


def _name(value: object, model: Knowledge) -> str:
    if not isinstance(value, str):
        raise CausalBanditsError(f"expected the name of a variable; got {value!r}.")
    if value not in model.names:
        raise CausalBanditsError(unknown("variable", value, model.names))
    return value


def _reward(value: object, model: Knowledge) -> str:
    """The reward may be hidden in the data: it is told."""
    if isinstance(value, str) and value in as_causal_graph(model).parents:
        return value
    return _name(value, model)


def _cheapest(value: object, model: Knowledge) -> str:
    if value != "cheapest":
        raise CausalBanditsError(f'expected "cheapest"; got {value!r}.')
    return "cheapest"


def _whole(value: object, model: Knowledge) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CausalBanditsError(f"expected a whole number, 1 or more; got {value!r}.")
    return value


def _truth(value: object, model: Knowledge) -> bool:
    if not isinstance(value, bool):
        raise CausalBanditsError(f"expected true or false; got {value!r}.")
    return value


def _actions(value: object, model: Knowledge) -> list[dict[str, State]]:
    if not isinstance(value, list) or not all(isinstance(action, dict) for action in value):
        raise CausalBanditsError(f"expected a list of assignments, such as {EXAMPLES['actions']}; got {value!r}.")
    return [{_name(name, model): _state(model[name], state) for name, state in action.items()} for action in value]


def _costs(value: object, model: Knowledge) -> dict[str, float | dict[State, float]]:
    if not isinstance(value, dict):
        raise CausalBanditsError(f"expected a price for each knob, such as {EXAMPLES['costs']}; got {value!r}.")
    return {_name(name, model): _prices(model[name], given) for name, given in value.items()}


def _prices(variable: Variable, given: Any) -> Any:
    """One price, or one for each value."""
    if not isinstance(given, dict):
        return _price(variable.name, given)
    return {_state(variable, state): _price(f"{variable.name}={state}", price) for state, price in given.items()}


def _price(what: str, given: object) -> float:
    if not is_real(given) or not 0 <= given <= DEAREST:
        raise CausalBanditsError(f"expected a number from 0 to {DEAREST:g} for {what}; got {given!r}.")
    return float(given)


def _require(value: object, model: Knowledge) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CausalBanditsError(f"expected how likely a value may be, such as {EXAMPLES['require']}; got {value!r}.")
    return {_name(name, model): _likely(model[name], given) for name, given in value.items()}


def _likely(variable: Variable, given: Any) -> dict[State, float]:
    """How likely each of some values may be."""
    if not isinstance(given, dict):
        raise CausalBanditsError(f"expected how likely which value of {variable.name!r} may be; got {given!r}.")
    for state, limit in given.items():
        if not is_real(limit) or not 0 <= limit < 1:
            raise CausalBanditsError(f"expected a number from 0 to below 1 for {variable.name}={state}; got {limit!r}.")
    return {_state(variable, state): float(limit) for state, limit in given.items()}


def _state(variable: Variable, value: Any) -> State:
    """The state that is meant: itself, or else the one that is written so (the number 1 and the text "1")."""
    if value in variable.states:
        return variable.states[variable.states.index(value)]
    written = [state for state in variable.states if str(state) == str(value)]
    return written[0] if len(written) == 1 else variable.states[variable.code(value)]


RULES: dict[str, Callable[[object, Knowledge], Any]] = {
    "manipulable": _manipulable,
    "parents": _names,
    "reward": _reward,
    "separator": _cheapest,
    "observable": _names,
    "at_most": _whole,
    "always": _names,
    "actions": _actions,
    "reduce": _truth,
    "costs": _costs,
    "require": _require,
    "context": _names,
}


# Worlds from plain settings: the one dialect of specifications in TOML and of the command line.
#
# A world of the zoo takes its parameters, and the keywords of Problem that narrow its actions. A model of your own
# takes all keywords that can be written down, and a table for the reward, without which it is only a problem.
#
#     settings                                                         reward
#     { zoo = "random_parallel", m = 3, n = 2, theta = [1, 0] }        its own
#     { model = "model.json", manipulable = ["x"], parents = ["z"] }   { kind = "bernoulli", mean = [0.3, 0.1] }

OF_THE_REWARD = ("parents", "reward", "separator", "observable")
"""Keywords that say what the reward depends on; a world of the zoo knows."""

REWARDS: dict[str, Callable[..., Reward]] = {
    "bernoulli": BernoulliReward,
    "gaussian": GaussianReward,
    "linear": LinearReward,
    "student": StudentReward,
}


def world_of(
    settings: Mapping[str, Any],
    reward: object = None,
    *,
    folder: Path = Path(),
    spelling: Spelling | None = None,
    just_looking: bool = False,
) -> Problem | Environment:
    """The world that settings describe, or the problem alone where nothing says how the reward comes about.

    Files are looked for in `folder`; errors name entries in the `spelling` of whoever gave them, a file's by default.
    A graph without tables makes a problem by actions. Who is `just_looking` at one need not say what can be set (all
    that leads to the reward), nor to which values (two).

    >>> world_of({"zoo": "lower_bound", "N": 3, "delta": 0.1, "at_most": 1}).problem
    Problem(7 actions on X1, X2, X3; 2 configurations of X1)
    """
    spelling = spelling or InFile()
    given = dict(settings)
    world, path = given.pop("zoo", None), given.pop("model", None)
    if (world is None) == (path is None):
        raise CausalBanditsError('[environment] must name one world: zoo = "email_campaign", or model = "model.json".')
    if world is None:
        problem = _of_a_model(path, given, folder, spelling, just_looking)
        return problem if reward is None else _with_reward(problem, reward)
    if reward is not None:
        raise CausalBanditsError("A world of the zoo has its reward: leave [reward] out.")
    return _of_the_zoo(world, given, spelling)


def _of_the_zoo(name: object, given: Mapping[str, Any], spelling: Spelling) -> Environment:
    if not isinstance(name, str) or name not in zoo.__all__:
        raise CausalBanditsError(unknown("world of the zoo:", name, zoo.__all__))
    make = getattr(zoo, name)
    known, needed = _parameters(make)
    narrowing = [entry for entry in WRITABLE if entry not in OF_THE_REWARD]
    for entry in given:
        if entry in OF_THE_REWARD:
            raise CausalBanditsError(f"A world of the zoo has its reward: leave out {spelling.name(entry)}.")
        if entry not in (*known, *narrowing):
            raise CausalBanditsError(unknown(f"parameter of {name}:", entry, [*known, *narrowing]))
    missing = [spelling.example(entry) for entry in needed if entry not in given]
    if missing:
        raise CausalBanditsError(f"The world {name} needs more: {', '.join(missing)}.")
    drawn = {"rng": 0} if "rng" in known else {}  # the same settings give the same world
    env: Environment = make(**drawn | {entry: given[entry] for entry in known if entry in given})
    narrowed = {entry: given[entry] for entry in narrowing if entry in given}
    return _narrowed(env, narrowed, spelling) if narrowed else env


def _narrowed(env: Environment, given: Mapping[str, Any], spelling: Spelling) -> Environment:
    """The same world with fewer actions."""
    own = {name: list(getattr(env.problem, name)) for name in ("manipulable", "parents", "context")}
    model = env.problem.model
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # a world of the zoo is as it is meant
        return Environment(Problem(model, **keywords(own | dict(given), model, spelling)), env.reward)


def _of_a_model(
    path: object, given: Mapping[str, Any], folder: Path, spelling: Spelling, just_looking: bool
) -> Problem:
    if not isinstance(path, str):
        raise CausalBanditsError(f"{spelling.name('model')}: expected the name of a file; got {path!r}.")
    for entry in given:
        if entry not in WRITABLE:
            raise CausalBanditsError(unknown("entry of [environment]:", entry, ("zoo", "model", *WRITABLE)))
    model = read(folder / path)
    if isinstance(model, CausalGraph):
        if just_looking:
            given, model = _looked_at(given, model)
        model = _with_values(given.get("manipulable"), model, spelling)
    return Problem(model, **keywords(given, model, spelling))


def _looked_at(given: Mapping[str, Any], graph: CausalGraph) -> tuple[Mapping[str, Any], CausalGraph]:
    """All that leads to the reward can be set, unless something is said, and to two values, unless these are."""
    reward = given.get("reward")
    if not given.get("manipulable") and isinstance(reward, str) and reward in graph.parents:
        leads = ancestors(graph.graph, [reward])
        given = {**given, "manipulable": [name for name in graph.names if name in leads and name != reward]}
    named = [*given.get("manipulable", ()), *given.get("context", ())]
    chosen = given.get("manipulable")
    values = {n for n, own in chosen.items() if own} if isinstance(chosen, dict) else set()
    missing = [n for n in named if n in graph.parents and n not in graph.states and n not in values]
    return given, graph.with_states({name: [0, 1] for name in missing})


def _with_values(manipulable: object, graph: CausalGraph, spelling: Spelling) -> CausalGraph:
    """The graph in which knobs have the values that they may be set to, where it does not say which they have."""
    given = manipulable if isinstance(manipulable, dict) else {}
    told = {n: own for n, own in given.items() if own and n in graph.parents and n not in graph.states}
    found = graph.with_states(told)
    for name in manipulable if isinstance(manipulable, list | dict) else ():
        if name in graph.parents and name not in found.states:
            raise CausalBanditsError(
                f"{spelling.name('manipulable')}: {name!r} needs the values that it can be set to: "
                f"{spelling.values(name)}."
            )
    return found


def _with_reward(problem: Problem, given: object) -> Environment:
    kind = given.get("kind") if isinstance(given, Mapping) else None
    if not isinstance(given, Mapping) or not isinstance(kind, str) or kind not in REWARDS:
        kinds = ", ".join(map(repr, REWARDS))
        raise CausalBanditsError(f"[reward] must have a kind, one of {kinds}; got {given!r}.")
    make = REWARDS[kind]
    known, needed = _parameters(make)
    parameters = {entry: value for entry, value in given.items() if entry != "kind"}
    for entry in parameters:
        if entry not in known:
            raise CausalBanditsError(unknown("entry of [reward]:", entry, ["kind", *known]))
    for entry in needed:
        if entry not in parameters:
            raise CausalBanditsError(f"[reward] of kind {kind!r} must have {entry} = [...].")
    try:
        return Environment(problem, make(**parameters))
    except CausalBanditsError as error:
        raise type(error)(f"[reward]: {error}") from None


def _parameters(make: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """The parameters of a function that can be written down, and those of them without a default."""
    written = [p for p in inspect.signature(make).parameters.values() if p.name != "features"]  # these are functions
    return [p.name for p in written], [p.name for p in written if p.default is p.empty]
