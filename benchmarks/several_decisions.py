"""Lost purchases if several e-mails precede one reward: python benchmarks/several_decisions.py [length ...]

A customer gets e-mails in sequence, and answers each one: ignored, opened or clicked. The answer depends on the
variant of the e-mail and on the previous answer; the purchase depends on the last answer. One bandit per e-mail decides
its variant and is told the purchase. It is compared with bandits that ignore the previous answer, with one bandit over
all sequences, with uniform decisions, and with a planner that knows how answers follow each other: it draws the CPTs
from their posterior for every customer, and finds the best policy for them by dynamic programming (posterior sampling,
PSRL). Every replication draws a world of its own. Writes several_decisions.json.

The loss of a decision is the best achievable purchase probability minus that of the decision, both with optimal later
decisions. Its sum over the decisions has the expectation of the purchases lost against the optimal policy.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import causalbandits as cb

RESULT = Path(__file__).with_name("several_decisions.json")
CUSTOMERS, REPLICATIONS = 5000, 60
LENGTHS = (2, 3, 5)
VARIANTS, ANSWERS = ("offer", "news", "survey"), ("ignored", "opened", "clicked")
PURCHASE = np.array([0.02, 0.1, 0.4])
"""The probability of a purchase by the last answer."""
FAMILY = "c-ts(prior=beta, cpts=learned)"


class World(NamedTuple):
    """How customers answer, and the optimal policy."""

    answers: np.ndarray
    """P(answer | e-mail, previous answer, variant); before the first e-mail the previous answer is the first one."""
    gaps: np.ndarray
    """The loss of a variant, by e-mail and previous answer."""


def plan(answers: np.ndarray, purchase: np.ndarray) -> np.ndarray:
    """The purchase probability by e-mail, previous answer and variant, with optimal later decisions."""
    values, value = np.empty(answers.shape[:3]), purchase
    for k in reversed(range(len(answers))):
        values[k] = answers[k] @ value
        value = values[k].max(axis=1)
    return values


def draw_world(length: int, replication: int) -> World:
    rng = np.random.default_rng([length, replication])
    answers = rng.dirichlet(np.ones(len(ANSWERS)), (length, len(ANSWERS), len(VARIANTS)))
    values = plan(answers, PURCHASE)
    return World(answers, values.max(axis=2, keepdims=True) - values)


class Uniform:
    """Every variant with the same probability."""

    def __init__(self, length: int, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 1])

    def decide(self, k: int, last: int) -> int:
        return int(self._rng.integers(len(VARIANTS)))

    def learn(self, path: list[tuple[int, int, int]], purchase: bool) -> None:
        pass


class PerStep:
    """One agent per e-mail, told the purchase."""

    with_context = True

    def __init__(self, length: int, seed: int) -> None:
        declared: dict[str, Any] = {
            "reward": "purchase",
            "manipulable": {"variant": list(VARIANTS)},
            "values": {"answer": list(ANSWERS)},
        }
        first = cb.Problem("variant -> answer -> purchase", **declared)
        later = first
        if self.with_context:
            later = cb.Problem("{variant, last} -> answer -> purchase", context={"last": list(ANSWERS)}, **declared)
        self._agents = [cb.Agent(later if k else first, FAMILY, seed=seed * 100 + k) for k in range(length)]
        self._open: dict[int, Any] = {}

    def decide(self, k: int, last: int) -> int:
        context = {"last": ANSWERS[last]} if self.with_context and k else None
        self._open[k] = self._agents[k].ask(context=context)
        return VARIANTS.index(self._open[k].action["variant"])

    def learn(self, path: list[tuple[int, int, int]], purchase: bool) -> None:
        for k, decision in self._open.items():
            self._agents[k].tell(decision, reward=int(purchase), observed={"answer": ANSWERS[path[k][2]]})
        self._open = {}


class PerStepWithoutContext(PerStep):
    """One agent per e-mail that ignores the previous answer."""

    with_context = False


class Sequences:
    """One bandit over all sequences of variants, which are fixed before the first answer."""

    def __init__(self, length: int, seed: int) -> None:
        names = [f"variant_{k}" for k in range(length)]
        problem = cb.Problem(None, reward="purchase", manipulable={name: list(VARIANTS) for name in names})
        self._names, self._agent = names, cb.Agent(problem, "ts(prior=beta)", seed=seed)

    def decide(self, k: int, last: int) -> int:
        if k == 0:
            self._decision = self._agent.ask()
        return VARIANTS.index(self._decision.action[self._names[k]])

    def learn(self, path: list[tuple[int, int, int]], purchase: bool) -> None:
        self._agent.tell(self._decision, reward=int(purchase))


class Planner:
    """Posterior sampling that knows the structure: draws all CPTs for a customer and plans all e-mails jointly."""

    def __init__(self, length: int, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 2])
        self._counts = np.ones((length, len(ANSWERS), len(VARIANTS), len(ANSWERS)))
        self._purchases = np.ones((2, len(ANSWERS)))

    def decide(self, k: int, last: int) -> int:
        if k == 0:
            drawn = self._rng.standard_gamma(self._counts)
            purchase = self._rng.beta(self._purchases[1], self._purchases[0])
            self._plan = plan(drawn / drawn.sum(axis=-1, keepdims=True), purchase).argmax(axis=2)
        return int(self._plan[k, last])

    def learn(self, path: list[tuple[int, int, int]], purchase: bool) -> None:
        for k, (last, variant, answer) in enumerate(path):
            self._counts[k, last, variant, answer] += 1
        self._purchases[int(purchase), path[-1][2]] += 1


POLICIES: dict[str, Any] = {
    "planner along the graph (reference, not in the library)": Planner,
    "one agent per e-mail": PerStep,
    "one agent per e-mail, without context": PerStepWithoutContext,
    "one bandit over all sequences": Sequences,
    "uniform": Uniform,
}
ALONE = "one agent per e-mail, each measured with optimal decisions at all others"


def losses(world: World, policy: Any, replication: int, only: int | None = None) -> np.ndarray:
    """The purchases lost by e-mail; with `only`, that e-mail is decided by the policy, all others optimally."""
    rng = np.random.default_rng([len(world.answers), replication, 3])
    cumulative, best = world.answers.cumsum(axis=-1), world.gaps.argmin(axis=2)
    lost = np.zeros(len(world.answers))
    for _ in range(CUSTOMERS):
        last, path = 0, []
        uniforms = rng.random(len(world.answers) + 1)
        for k in range(len(world.answers)):
            variant = policy.decide(k, last) if only in (None, k) else int(best[k, last])
            lost[k] += world.gaps[k, last, variant]
            answer = min(int(np.searchsorted(cumulative[k, last, variant], uniforms[k])), len(ANSWERS) - 1)
            path.append((last, variant, answer))
            last = answer
        policy.learn(path, bool(uniforms[-1] < PURCHASE[last]))
    return lost


def measure(length: int, replications: int) -> dict[str, Any]:
    """The rows of one number of e-mails: the mean of lost purchases, its standard error, and the means by e-mail."""
    found: dict[str, list[np.ndarray]] = {name: [] for name in (*POLICIES, ALONE)}
    for replication in range(replications):
        world = draw_world(length, replication)
        for name, policy in POLICIES.items():
            found[name].append(losses(world, policy(length, replication), replication))
        alone = [losses(world, PerStep(length, replication), replication, k)[k] for k in range(length)]
        found[ALONE].append(np.array(alone))
        print(f"\r{length} e-mails: {replication + 1} of {replications}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return {
        name: {
            "lost": float(np.sum(own, axis=1).mean()),
            "standard_error": float(np.sum(own, axis=1).std(ddof=1) / replications**0.5),
            "worst": float(np.sum(own, axis=1).max()),
            "by e-mail": np.mean(own, axis=0).tolist(),
        }
        for name, own in found.items()
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths", nargs="*", type=int, choices=LENGTHS, default=list(LENGTHS), metavar="length")
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    chosen = parser.parse_args(arguments)
    for length in chosen.lengths:
        rows = measure(length, chosen.replications)
        results = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
        results[str(length)] = {"customers": CUSTOMERS, "replications": chosen.replications, "rows": rows}
        for name, row in rows.items():
            print(
                f"{length} | {name} | {row['lost']:.1f} ({row['standard_error']:.1f}) | {np.round(row['by e-mail'], 1)}"
            )
        ordered = {str(n): results[str(n)] for n in LENGTHS if str(n) in results}
        RESULT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
