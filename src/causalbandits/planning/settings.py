"""Worlds from plain settings: the one dialect of specifications in TOML and of the command line.

A world of the zoo takes its parameters, and the keywords of CausalBandit that narrow its actions. A model of your own
takes all keywords that can be written down, and a table for the reward, without which it is only a problem.

    settings                                                         reward
    { zoo = "random_parallel", m = 3, n = 2, theta = [1, 0] }        its own
    { model = "model.json", manipulable = ["x"], parents = ["z"] }   { kind = "bernoulli", mean = [0.3, 0.1] }
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from causalbandits.errors import CausalBanditsError, ProblemWarning, unknown
from causalbandits.formats import read
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.graph import ancestors
from causalbandits.planning.keywords import WRITABLE, InFile, Spelling, keywords
from causalbandits.problem.problem import CausalBandit
from causalbandits.world import zoo
from causalbandits.world.environment import Environment
from causalbandits.world.rewards import BernoulliReward, GaussianReward, LinearReward, Reward
from causalbandits.world.student import StudentReward

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
) -> CausalBandit | Environment:
    """The world that settings describe, or the problem alone where nothing says how the reward comes about.

    Files are looked for in `folder`; errors name entries in the `spelling` of whoever gave them, a file's by default.
    A graph without tables makes a problem by actions. Who is `just_looking` at one need not say what can be set (all
    that leads to the reward), nor to which values (two).

    >>> world_of({"zoo": "lower_bound", "N": 3, "delta": 0.1, "at_most": 1}).problem
    CausalBandit(7 actions on X1, X2, X3; 2 configurations of X1)
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
        return Environment(CausalBandit(model, **keywords(own | dict(given), model, spelling)), env.reward)


def _of_a_model(
    path: object, given: Mapping[str, Any], folder: Path, spelling: Spelling, just_looking: bool
) -> CausalBandit:
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
    return CausalBandit(model, **keywords(given, model, spelling))


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


def _with_reward(problem: CausalBandit, given: object) -> Environment:
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
