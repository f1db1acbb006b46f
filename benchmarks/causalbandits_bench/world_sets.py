"""Sets of worlds for the regret benchmark, from settings in a file: each replication has a world of its own.

    [sets."Figure 2, means drawn"]
    zoo = "figure2"                                     # or a model, as in the specification of a comparison
    reward = { mean = { normal = [0, 0.25] } }          # what differs from the world's own reward
    # shuffle = false                                   # knobs and their values in the order in which they are given

A reward has a kind (bernoulli, gaussian or student), mean, sd (student: scale and degrees). `times` multiplies rewards
and `plus` is added to them; regret is then given in the old units. Numbers may be left to chance, see `random_numbers`.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from causalbandits._cache import Cached
from causalbandits._hashing import code_hash
from causalbandits._typing import is_real
from causalbandits.environments import zoo
from causalbandits.environments.environment import Environment
from causalbandits.environments.rewards import BernoulliReward, LinearReward, Reward
from causalbandits.errors import CausalBanditsError, ProblemWarning, short_repr, unknown_name_message
from causalbandits.planning.environment_spec import REWARD_CLASSES, parse_environment
from causalbandits.problem import SPEC_ENTRIES, Problem
from causalbandits.testing.permuted_environment import permute_environment
from causalbandits_bench.random_numbers import draw, is_law

TABULATED = tuple(kind for kind in REWARD_CLASSES if kind != "linear")
VARYING = ("sd", "scale", "degrees")
"""How rewards vary around their mean."""
OF_A_REWARD = ("kind", "mean", *VARYING, "times", "plus")


@dataclass(frozen=True)
class WorldSet(Cached):
    """A source of environments, as `simulate` takes it; the same random numbers bring the same world."""

    name: str
    settings: Mapping[str, Any]
    reward: Mapping[str, Any]
    shuffle: bool
    folder: Path

    remembered = 2**11  # every replication's, which many policies play

    def __call__(self, rng: np.random.Generator) -> Environment:
        return self.compute_once(str(rng.bit_generator.state), lambda: self._draw(rng))

    def _draw(self, rng: np.random.Generator) -> Environment:
        try:
            with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # random knobs may lead nowhere
                env = self._with_reward(self._world(rng), rng)
                return permute_environment(env, rng) if self.shuffle else env
        except CausalBanditsError as error:
            raise type(error)(f'[sets."{self.name}"]: {error}') from None

    @property
    def fingerprint(self) -> str:
        """What decides about its worlds; neither its name nor where its file is."""
        return code_hash(self.settings, self.reward, self.shuffle)

    @property
    def unit(self) -> float:
        """Regret is counted in multiples of this."""
        return float(self.reward.get("times", 1.0))

    def _world(self, rng: np.random.Generator) -> Environment | Problem:
        given = {entry: _as_list(draw(value, rng)) for entry, value in self.settings.items()}
        if given.get("zoo") not in zoo.__all__:
            environment = {"zoo": given.pop("zoo")} if "zoo" in given else None
            return parse_environment(given, environment, folder=self.folder)
        accepted = inspect.signature(getattr(zoo, given["zoo"])).parameters
        entries = {entry: value for entry, value in given.items() if entry in SPEC_ENTRIES and entry not in accepted}
        chance = {"rng": rng} if "rng" in accepted else {}
        parameters = {entry: value for entry, value in given.items() if entry not in entries}
        return parse_environment(entries, {**chance, **parameters}, folder=self.folder)

    def _with_reward(self, world: Environment | Problem, rng: np.random.Generator) -> Environment:
        if isinstance(world, Environment) and not self.reward:
            return world
        problem = world.problem if isinstance(world, Environment) else world
        own = _reward_settings(world) if isinstance(world, Environment) else {}
        given = {**own, **self.reward}
        if given.get("kind") not in TABULATED or "mean" not in given:
            raise CausalBanditsError(
                f"A reward must have a kind, one of {', '.join(map(repr, TABULATED))}, and a mean; "
                f"got {short_repr(given)}."
            )
        return Environment(problem, _reward(given, problem.shape, rng))


def _reward_settings(env: Environment) -> dict[str, Any]:
    """What a world's own reward would be in a file."""
    reward = env.reward
    kind = "gaussian" if isinstance(reward, LinearReward) else _kind(reward)
    varying = {name: getattr(reward, name) for name in VARYING if hasattr(reward, name)}
    return {"kind": kind, "mean": env.configuration_means.reshape(env.problem.shape), **varying}


def _kind(reward: Reward) -> str | None:
    return next((kind for kind in TABULATED if type(reward) is REWARD_CLASSES[kind]), None)


def _reward(given: Mapping[str, Any], shape: tuple[int, ...], rng: np.random.Generator) -> Reward:
    times, plus = (_number(given, name, default) for name, default in (("times", 1.0), ("plus", 0.0)))
    make = REWARD_CLASSES[given["kind"]]
    known = inspect.signature(make).parameters
    mean = draw(given["mean"], rng, shape)
    mean = plus + times * np.array(np.full(shape, mean) if np.ndim(mean) == 0 else mean, dtype=np.float64)
    varying = {name: draw(given[name], rng) for name in VARYING if name in given and name in known}
    if make is BernoulliReward and (times, plus) != (1.0, 0.0):
        raise CausalBanditsError("Rewards that are 0 or 1 have no times or plus; kind = 'gaussian' has.")
    return make(mean, **{name: value if name == "degrees" else times * value for name, value in varying.items()})


def _number(given: Mapping[str, Any], name: str, default: float) -> float:
    value = given.get(name, default)
    if not is_real(value) or not abs(value) <= 1e100 or (name == "times" and value <= 0):
        raise CausalBanditsError(f"{name} must be a finite number{', above 0' * (name == 'times')}; got {value!r}.")
    return float(value)


def _as_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def set_from(name: str, given: object, folder: Path) -> WorldSet:
    """The set that a table [sets."..."] describes; its first world is made, to see that it can be."""
    if not isinstance(given, Mapping):
        raise CausalBanditsError(f'[sets."{name}"] must be a table, such as zoo = "figure2"; got {given!r}.')
    settings, reward, shuffle = dict(given), given.get("reward", {}), given.get("shuffle", True)
    settings.pop("reward", None), settings.pop("shuffle", None)
    if not isinstance(reward, Mapping) or is_law(reward) or not isinstance(shuffle, bool):
        raise CausalBanditsError(
            f'[sets."{name}"]: reward must be a table, such as {{ sd = 0.5 }}, and shuffle true or false; got '
            f"reward = {reward!r}, shuffle = {shuffle!r}."
        )
    for entry in reward:
        if entry not in OF_A_REWARD:
            raise CausalBanditsError(f'[sets."{name}"]: {unknown_name_message("entry of reward:", entry, OF_A_REWARD)}')
    made = WorldSet(name, settings, dict(reward), shuffle, folder)
    made(np.random.default_rng(0))
    return made
