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
from causalbandits.model.model import CausalModel
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
    settings: Mapping[str, Any], reward: object = None, *, folder: Path = Path(), spelling: Spelling | None = None
) -> CausalBandit | Environment:
    """The world that settings describe, or the problem alone where nothing says how the reward comes about.

    Files are looked for in `folder`; errors name entries in the `spelling` of whoever gave them, a file's by default.

    >>> world_of({"zoo": "lower_bound", "N": 3, "delta": 0.1, "at_most": 1}).problem
    CausalBandit(7 actions on X1, X2, X3; 2 configurations of X1)
    """
    spelling = spelling or InFile()
    given = dict(settings)
    world, path = given.pop("zoo", None), given.pop("model", None)
    if (world is None) == (path is None):
        raise CausalBanditsError('[environment] must name one world: zoo = "email_campaign", or model = "model.json".')
    if world is None:
        problem = _of_a_model(path, given, folder, spelling)
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


def _of_a_model(path: object, given: Mapping[str, Any], folder: Path, spelling: Spelling) -> CausalBandit:
    if not isinstance(path, str):
        raise CausalBanditsError(f"{spelling.name('model')}: expected the name of a file; got {path!r}.")
    for entry in given:
        if entry not in WRITABLE:
            raise CausalBanditsError(unknown("entry of [environment]:", entry, ("zoo", "model", *WRITABLE)))
    model = read(folder / path)
    if not isinstance(model, CausalModel):
        raise CausalBanditsError(f"{path} has a graph but no tables: fit it to data first (cb.fit).")
    return CausalBandit(model, **keywords(given, model, spelling))


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
