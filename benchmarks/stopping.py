"""When do policies stop, and how often are they wrong? python benchmarks/stopping.py [--kept] [part[:policy,...] ...]

The numbers of docs/explanation/stopping.md, into stopping.json beside it. The rule is asked at 60 moments, each some
percent later than the one before. Each part is measured alone and kept; without names, all of them are, in an hour or
two. Runs are kept in results/stopping, so that an interrupted measurement goes on: remove that folder to measure
anew. With --kept, nothing is played, and the runs that are there are summed up, however many they are.
"""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import causalbandits as cb
from causalbandits import zoo
from causalbandits.engine.compiled.driver import can_play, play_compiled
from causalbandits.engine.driver import ENVIRONMENT, play, stream
from causalbandits.policies import find_incumbent, situation_for
from causalbandits.policies.cells.policy import CellPolicy
from causalbandits.policies.stopping import WIDTHS, mixture_penalty, sub_gaussian_scale
from causalbandits.problem.optimal_design import action_distributions
from causalbandits.results.statistics import summarise_stopping

RESULT = Path(__file__).with_name("stopping.json")
RUNS = Path(__file__).parent.parent / "results" / "stopping"
BATCH = 20
DELTAS = (0.05, 0.2)
SEED = 5


def any_graph(rng: np.random.Generator) -> cb.Environment:
    """A random graph and random tables; rewards are coins."""
    return zoo.random_world(12, rng=rng)


def rare_clicks(rng: np.random.Generator) -> cb.Environment:
    """The same with a tenth of the clicks, whose variance is far smaller than Hoeffding's bound."""
    env = any_graph(rng)
    means = env.configuration_means.reshape(env.problem.shape)
    return cb.Environment(env.problem, cb.rewards.BernoulliReward(means / 10))


def line(rng: np.random.Generator) -> cb.Environment:
    """A reward that is linear in three parents: 0.1-sub-Gaussian given these, and 0.27 given the action."""
    theta = rng.standard_normal(3)
    return zoo.random_parallel(3, 3, theta / (2 * np.linalg.norm(theta)), rng=rng)


class Part(NamedTuple):
    """One world, or a way to draw one, who plays it, and how often."""

    world: cb.Environment | Callable[[np.random.Generator], cb.Environment]
    horizon: int
    policies: dict[str, cb.Policy]
    replications: int = 2000
    tolerance: float = 0.0


def known(ids: str, noise: float, **more: Any) -> dict[str, cb.Policy]:
    """Policies by their ids, where the noise is known; Beta priors and KL need not know it."""
    return {
        id: cb.policy(id) if "beta" in id or "kl" in id else cb.policy(id, noise_scale=noise, **more)
        for id in ids.split()
    }


SEEKING = "c-track-and-stop c-elimination c-design"
GAUSSIAN = "c-ts(scales=given) c-gittins(scales=given) c-screen(scales=given) c-ts-ucb(scales=given)"
BETA = "c-ucb c-kl-ucb c-ts(prior=beta) c-gittins(prior=beta) c-screen(prior=beta) c-ts-ucb(prior=beta)"
WITHOUT = "ucb uniform"

FIGURE, EMAIL = zoo.figure2(), zoo.email_campaign()
on_figure = partial(known, noise=0.1)
on_coins = partial(known, noise=0.5)

PARTS = {
    "e-mail": Part(EMAIL, 20_000, on_coins(f"{SEEKING} {BETA} {WITHOUT} kl-ucb ts(prior=beta)")),
    "e-mail, estimated prior": Part(EMAIL, 20_000, on_coins("c-ts(prior=beta, scales=estimated)")),
    "e-mail, to within 0.05": Part(EMAIL, 20_000, on_coins(f"{SEEKING} {BETA} {WITHOUT}"), tolerance=0.05),
    "Figure 2": Part(
        FIGURE,
        1000,
        on_figure(f"{SEEKING} c-ucb {WITHOUT}") | on_figure(f"{GAUSSIAN} ts(scales=given)", prior_scale=0.1),
    ),
    "random graphs": Part(any_graph, 1000, on_coins(f"{SEEKING} {BETA} {WITHOUT}")),
    "rare clicks, estimated prior": Part(rare_clicks, 5000, on_coins("c-ts(prior=beta, scales=estimated)")),
    "lines": Part(
        line,
        1000,
        known("cl-ucb(regressor=observed) cl-ts(regressor=observed)", 0.1) | known("cl-ucb cl-ts lin-ucb lin-ts", 0.27),
    ),
    "Figure 2, one by one": Part(FIGURE, 1000, on_figure("c-ids(scales=given)", prior_scale=0.1), 200),
    "random graphs, one by one": Part(any_graph, 1000, on_coins("c-ids(prior=beta) c-ts-guarded(prior=beta)"), 200),
}
"""What is played one by one is not compiled, and so less often."""


def looked_at(horizon: int) -> np.ndarray:
    """The rounds at which the rule is asked."""
    return np.unique(np.geomspace(max(10, horizon / 100), horizon, 60).astype(int))


class EnoughError(Exception):
    """The rule has said stop."""


class Quick:
    """A first look, with a tenth of the work: whether the rule says no for all deltas, whichever action is recommended.

    Only the best by the plain means can be told from all others, and it must be told from the runner-up. What passes is
    judged by the rule itself.
    """

    def __init__(self, situation: Any, policy: cb.Policy, tolerance: float) -> None:
        plain = isinstance(policy, CellPolicy) and policy.causal and not policy.traits.learns_scales
        self.applies = plain and not policy.traits.learns_cpts and tolerance == 0
        if self.applies:
            self.rows, self.noise = action_distributions(situation), sub_gaussian_scale(policy.index_parameters)

    def says_no(self, cells: Any) -> bool:
        """Whether the best by the plain means is not told from the runner-up for any c."""
        if not self.applies:
            return False
        n, values = cells.count, self.rows @ cells.means()
        first, second = np.argsort(-values, kind="stable")[:2]
        apart = self.rows[first] - self.rows[second]
        seen = np.maximum(n, 1e-9)
        gap = values[first] - values[second]
        least = min(
            mixture_penalty(n, c) - gap * gap / (2 * self.noise**2 * max(1e-300, float(apart**2 @ ((n + c) / seen**2))))
            for c in WIDTHS
        )
        return bool(least > math.log(max(DELTAS)) + 0.01)


def played(part: Part, policy: cb.Policy, replication: int) -> tuple[list[float], list[float]]:
    """The risk and the simple regret of one replication whenever the rule is asked, as `simulate` has them.

    Once the rule says stop at the smallest delta the rest does not matter: it is filled up with what was last.
    """
    drawn = not isinstance(part.world, cb.Environment)
    env = part.world(stream(SEED, replication, ENVIRONMENT)) if drawn else part.world
    problem, rounds = (
        env.problem.without_cpts() if policy.traits.learns_cpts else env.problem,
        looked_at(part.horizon),
    )
    own, risk, lost = policy.for_horizon(part.horizon), [], []
    situation = situation_for(own, problem)

    quick = Quick(situation, own, part.tolerance)

    def watch(slot: int, statistic: Any, plays: Any) -> None:
        if quick.says_no(statistic):
            risk.append(1.0)
            lost.append(0.0)
            return
        best = find_incumbent(own, situation, statistic).action
        risk.append(own.error_probability(situation, statistic, best, part.tolerance))
        lost.append(env.gap(env.problem.actions.rank(best.choices)))
        if risk[-1] <= min(DELTAS):
            raise EnoughError

    play_it = play_compiled if can_play(env, own, problem) else play
    with suppress(EnoughError):
        play_it(env, own, problem, rounds, SEED, replication, watch=watch)
    missing = len(rounds) - len(risk)
    return risk + missing * risk[-1:], lost + missing * lost[-1:]


def runs_of(part: Part, policy: cb.Policy, kept: Path, more: bool) -> tuple[np.ndarray, np.ndarray]:
    """The risk and the simple regret of every replication, from the file on; which is written after every few."""
    done: list[Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []
    while more and len(done) < part.replications:
        done += [played(part, policy, r) for r in range(len(done), min(len(done) + BATCH, part.replications))]
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(done), encoding="utf-8")
    risk, lost = np.array(done[: part.replications]).transpose(1, 0, 2)
    return risk, lost


def summary(part: Part, risk: np.ndarray, lost: np.ndarray) -> dict[str, Any]:
    """When it stopped, and how often wrongly, for each delta."""
    found: dict[str, Any] = {"replications": len(risk)}
    for delta in DELTAS:
        own = summarise_stopping("", looked_at(part.horizon), risk, lost, delta, part.tolerance)
        found[str(delta)] = {
            "stopped": own.stopped,
            "rounds": round(own.rounds, 1),
            "wrong": own.error_rate,
            "standard error": round(own.standard_error, 5),
        }
    return found


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore")
    names, more = [name for name in arguments if name != "--kept"], "--kept" not in arguments
    for asked in names or PARTS:
        name, _, some = asked.partition(":")
        part = PARTS[name]
        for id, policy in ((id, part.policies[id]) for id in (some.split(",") if some else part.policies)):
            file = RUNS / (re.sub(r"\W+", "-", f"{name} {id}") + ".json")
            if not more and not file.exists():
                continue
            found = summary(part, *runs_of(part, policy, file, more))
            kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
            own = kept.setdefault(name, {"horizon": part.horizon, "tolerance": part.tolerance, "policies": {}})
            own["policies"][id] = found
            RESULT.write_text(json.dumps({own: kept[own] for own in PARTS if own in kept}, indent=1) + "\n", "utf-8")
            print(name, id, json.dumps(found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
