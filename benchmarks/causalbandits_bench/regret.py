"""The regret benchmark: every policy on every set of worlds, part by part, so that it can be interrupted.

Finished parts are files, named by a hash of all that decides about their numbers, the policy's own code included: other
policies or sets may come and go, and what was played is not played again unless the policy has been edited since. Seeds
are the replications', as in `simulate`: the same for any number of workers, and a policy's numbers do not depend on
which others are there.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from causalbandits._files import open_atomically, read_arrays
from causalbandits._hashing import code_hash
from causalbandits._typing import Array
from causalbandits.engine.driver import ENVIRONMENT, stream
from causalbandits.engine.plan import Plan
from causalbandits.engine.simulation import simulate
from causalbandits.errors import CausalBanditsError, ScaleWarning, unknown_name_message
from causalbandits.planning.experiment_spec import (
    parse_policy,
    parse_simulation,
    require_table,
    validate_names,
)
from causalbandits.policies.base import AnyPolicy
from causalbandits.policies.cells.thompson import CausalThompsonSampling
from causalbandits.problem import read_spec_content
from causalbandits_bench.oracle_policy import oracle_thompson
from causalbandits_bench.policy_code import code_of_policy
from causalbandits_bench.world_sets import WorldSet, set_from

SHIPPED = Path(__file__).with_name("regret.toml")
PLAYED_AT_ONCE = 60
"""So many replications are played, and kept, at a time."""
TOLD = "told"
"""The name of `oracle_thompson`, which is another policy in each world."""
BAD = 200.0
"""Replications with more regret than this are counted."""

Tick = Callable[[str, int, int], None]
"""Called with a set's name, how many rounds more are done, and how many there are in all."""


class Player(NamedTuple):
    """A policy, None for the one that is told; and how often it is played at most."""

    policy: AnyPolicy | None
    most: int | None


@dataclass(frozen=True)
class Benchmark:
    """What is played: sets of worlds, policies, and how long."""

    sets: Mapping[str, WorldSet]
    players: Mapping[str, Player]
    horizon: int
    replications: int
    seed: int

    def only(self, sets: list[str], policies: list[str]) -> Benchmark:
        """Some of the sets and policies; all, where none is named."""
        for kind, names, known in (("set", sets, self.sets), ("policy", policies, self.players)):
            for name in names:
                if name not in known:
                    raise CausalBanditsError(unknown_name_message(f"{kind} of the benchmark:", name, known))
        return Benchmark(
            {name: own for name, own in self.sets.items() if name in (sets or self.sets)},
            {name: own for name, own in self.players.items() if name in (policies or self.players)},
            self.horizon,
            self.replications,
            self.seed,
        )

    def playing(self, world: WorldSet) -> dict[str, Player]:
        """The policies that can be played on a set: some need rewards in [0, 1]."""
        unit = world(stream(self.seed, 0, ENVIRONMENT)).reward.bounded is True
        return {
            name: own
            for name, own in self.players.items()
            if unit or own.policy is None or not own.policy.traits.unit_rewards
        }

    def count(self, player: Player) -> int:
        """How often a policy is played."""
        return self.replications if player.most is None else min(self.replications, player.most)


def read_benchmark(path: Path | None = None, **simulation: int | None) -> Benchmark:
    """The benchmark that is shipped, with what a file adds to it; horizon, replications and seed may be given."""
    content = _read(SHIPPED)
    if path is not None:
        own = _read(path)
        content = own if own.pop("alone", False) else {name: {**content[name], **own[name]} for name in content}
    told = parse_simulation({**content["simulation"], **{k: v for k, v in simulation.items() if v is not None}})
    if not content["sets"] or not content["policies"]:
        raise CausalBanditsError("A benchmark needs tables [sets] and [policies] with an entry each, at least.")
    return Benchmark(content["sets"], content["policies"], **{"replications": 600, "seed": 0, "horizon": 5000, **told})


def _read(path: Path) -> dict[str, Any]:
    content = read_spec_content(path)
    validate_names(content, ("alone", "simulation", "policies", "sets"), "entry of a benchmark:")
    alone = content.pop("alone", False)
    if not isinstance(alone, bool):
        raise CausalBanditsError(f"alone must be true or false; got {alone!r}.")
    tables = {
        name: require_table(content, name) if name in content else {} for name in ("simulation", "policies", "sets")
    }
    validate_names(tables["simulation"], ("horizon", "replications", "seed"), "entry of [simulation]:")
    return {
        "simulation": tables["simulation"],
        "policies": {name: _player(name, given, path.parent) for name, given in tables["policies"].items()},
        "sets": {name: set_from(name, given, path.parent) for name, given in tables["sets"].items()},
        **({"alone": True} if alone else {}),
    }


def _player(name: str, given: Any, folder: Path) -> Player:
    most = given.get("replications") if isinstance(given, dict) else None
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 2):
        raise CausalBanditsError(f"[policies] {name}: replications must be a whole number, 2 or more; got {most!r}.")
    if name == TOLD and isinstance(given, dict) and set(given) <= {"replications"}:
        return Player(None, most)
    rest = {key: value for key, value in given.items() if key != "replications"} if isinstance(given, dict) else given
    return Player(parse_policy(name, rest, folder), most)


def play_benchmark(
    benchmark: Benchmark, folder: Path, workers: int | None = None, tick: Tick = lambda name, done, total: None
) -> dict[str, dict[str, Array]]:
    """By set, then policy: the final regret of each replication, in the set's units."""
    found: dict[str, dict[str, Array]] = {}
    with warnings.catch_warnings(action="ignore", category=ScaleWarning):  # what becomes of it is what is measured
        for name, world in benchmark.sets.items():
            playing = benchmark.playing(world)
            total = benchmark.horizon * sum(map(benchmark.count, playing.values()))
            found[name] = {}
            for policy, player in playing.items():
                parts = []
                for numbers in _parts(benchmark.count(player)):
                    parts.append(_part(benchmark, world, player, numbers, folder, workers))
                    tick(name, benchmark.horizon * len(numbers), total)
                found[name][policy] = np.concatenate(parts) / world.unit
    return found


def regrets_so_far(benchmark: Benchmark, folder: Path) -> dict[str, dict[str, Array]]:
    """The same of an interrupted benchmark: as many replications of each cell as are kept; none is played."""
    found: dict[str, dict[str, Array]] = {}
    for name, world in benchmark.sets.items():
        for policy, player in benchmark.playing(world).items():
            paths = [_part_file(benchmark, world, player, own, folder) for own in _parts(benchmark.count(player))]
            parts = [read_arrays(path)["regret"] for path in itertools.takewhile(Path.exists, paths)]
            if parts:
                found.setdefault(name, {})[policy] = np.concatenate(parts) / world.unit
    if not found:
        raise CausalBanditsError(
            f"Nothing of this benchmark has been played in {folder}: leave --played out to play it."
        )
    return found


def _parts(replications: int) -> Iterator[range]:
    for start in range(0, replications, PLAYED_AT_ONCE):
        yield range(start, min(start + PLAYED_AT_ONCE, replications))


def _part(
    benchmark: Benchmark, world: WorldSet, player: Player, numbers: range, folder: Path, workers: int | None
) -> Array:
    """The final regrets of some replications; played, if they are not kept."""
    path = _part_file(benchmark, world, player, numbers, folder)
    if path.exists():
        return np.asarray(read_arrays(path)["regret"])
    regret = _play(benchmark, world, player, numbers, workers)
    folder.mkdir(parents=True, exist_ok=True)
    with open_atomically(path) as file:
        np.savez(file, regret=regret)
    return regret


def _part_file(benchmark: Benchmark, world: WorldSet, player: Player, numbers: range, folder: Path) -> Path:
    return folder / f"{_fingerprint(benchmark, world, player)}-{numbers.start}-{numbers.stop}.npz"


def _fingerprint(benchmark: Benchmark, world: WorldSet, player: Player) -> str:
    rounds = np.array([benchmark.horizon])
    if player.policy is None:
        own = code_of_policy(CausalThompsonSampling)
        return f"{code_hash(world.fingerprint, TOLD, benchmark.horizon, benchmark.seed)}-{own}"
    first = world(stream(benchmark.seed, 0, ENVIRONMENT))
    plan = Plan(first, {"": player.policy.for_horizon(benchmark.horizon)}, None, rounds, benchmark.seed)
    return f"{code_hash(plan.fingerprint, world.fingerprint)}-{code_of_policy(type(player.policy))}"


def _play(benchmark: Benchmark, world: WorldSet, player: Player, numbers: range, workers: int | None) -> Array:
    settings: dict[str, Any] = {
        "horizon": benchmark.horizon,
        "rounds": [benchmark.horizon],
        "seed": benchmark.seed,
        "progress": False,
    }
    if player.policy is not None:
        run = simulate(world, {"": player.policy}, replications=numbers, workers=workers, **settings)
        return np.array(run.regret("")[:, -1])
    from causalbandits.engine.compiled import primitives  # noqa: F401  (a replication alone would not be worth loading them)

    finals = []
    for number in numbers:
        env = world(stream(benchmark.seed, number, ENVIRONMENT))
        run = simulate(env, {"": oracle_thompson(env)}, replications=range(number, number + 1), **settings)
        finals.append(float(run.regret("")[0, -1]))
    return np.array(finals)


class Tail(NamedTuple):
    """Where the replications of a policy ended."""

    mean: float
    standard_error: float
    q90: float
    q99: float
    worst: float
    above: float
    """The share of replications with a regret above `BAD`."""
    replications: int


def tail_of(regret: Array) -> Tail:
    """Mean, and what the mean does not tell.

    >>> tail_of(np.array([1.0, 3.0]))
    Tail(mean=2.0, standard_error=1.0, q90=2.8, q99=2.98, worst=3.0, above=0.0, replications=2)
    """
    error = float(regret.std(ddof=1) / np.sqrt(len(regret))) if len(regret) > 1 else float("nan")
    q90, q99 = (float(q) for q in np.quantile(regret, [0.9, 0.99]))
    return Tail(float(regret.mean()), error, q90, q99, float(regret.max()), float(np.mean(regret > BAD)), len(regret))
