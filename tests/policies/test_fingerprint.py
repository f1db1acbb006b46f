"""What a policy is: its class, its parameters, what they do; code that is not ours counts where results are kept."""

from __future__ import annotations

import operator
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import causalbandits as cb
from causalbandits._hashing import code_hash
from causalbandits.errors import StateError
from causalbandits.policies.fingerprint import class_name, policy_fingerprint, policy_fingerprint_with_code
from causalbandits.policies.statistics import Cells
from causalbandits.policies.traits import Traits


@dataclass(frozen=True, kw_only=True)
class Timid(cb.policies.CausalUCB):
    """C-UCB with a `score` of its own, and so another policy."""

    def score(self, situation, statistic, rng):
        return situation.project(statistic.means())


@pytest.fixture
def problem():
    return cb.zoo.email_campaign().problem


def test_a_subclass_is_never_taken_for_its_parent(problem, tmp_path):
    assert class_name(Timid) == "Timid"
    assert class_name(cb.policies.CausalUCB) == "causalbandits.CausalUCB"
    assert policy_fingerprint(Timid(), problem) != policy_fingerprint(cb.policies.CausalUCB(), problem)
    cb.Agent(problem, Timid()).save(tmp_path / "a.json")
    with pytest.raises(StateError, match="'c-ucb' is of the class Timid, which is not part of this library"):
        cb.Agent.load(tmp_path / "a.json")
    with pytest.raises(StateError, match=r"of the class Timid; you passed c-ucb of the class causalbandits\.CausalUCB"):
        cb.Agent.load(tmp_path / "a.json", policy="c-ucb")
    assert type(cb.Agent.load(tmp_path / "a.json", policy=Timid()).policy) is Timid
    cb.Agent(problem, "c-ucb").save(tmp_path / "b.json")
    with pytest.raises(StateError, match="you passed c-ucb of the class Timid"):
        cb.Agent.load(tmp_path / "b.json", policy=Timid())


def test_a_checkpoint_of_one_is_not_served_as_the_others(tmp_path):
    env = cb.zoo.email_campaign()
    settings = {"horizon": 20, "replications": 2, "checkpoint": tmp_path / "run"}
    cb.simulate(env, {"it": Timid()}, **settings)
    with pytest.raises(StateError, match="checkpoint of another run"):
        cb.simulate(env, {"it": cb.policies.CausalUCB()}, **settings)
    cb.simulate(env, {"it": Timid()}, **settings)


def test_functions_that_do_the_same_are_the_same_and_others_are_refused(problem, tmp_path):
    def linear(weight):
        return cb.policies.CausalLinearUCB(
            features=lambda subject, template, send_time: [1.0, weight * (subject == "short")]
        )

    cb.Agent(problem, linear(2.0)).save(tmp_path / "a.json")
    again = cb.policies.CausalLinearUCB(features=lambda s, t, w: np.array([1.0, 2.0 if s == "short" else 0.0]))
    assert cb.Agent.load(tmp_path / "a.json", policy=again).policy is again
    with pytest.raises(StateError, match="other functions or objects as parameters than those you passed"):
        cb.Agent.load(tmp_path / "a.json", policy=linear(3.0))


PROGRAM = """
import dataclasses
import causalbandits as cb
from causalbandits.policies.statistics import Cells

BONUS = {bonus}

def optimistic(cells):
    return cells.means() + BONUS / (1 + cells.count)

@dataclasses.dataclass(frozen=True, kw_only=True)
class Mine(cb.Policy):
    id = "mine"
    def init(self, problem):
        return Cells.empty(problem.configurations)
    def score(self, situation, cells, rng):
        {comment}
        return situation.project(optimistic(cells))
    def update(self, situation, cells, outcome):
        cells.add(situation.problem.configuration(outcome.z), outcome.reward)

def sample(subject, template, send_time, rng):
    return float(rng.random() {comparison} 0.5)

env = cb.zoo.email_campaign()
env = cb.Environment(env.problem, cb.rewards.CustomReward(lambda *z: 0.5, sample))
print(cb.simulate(env, [Mine()], horizon=10, replications=1, checkpoint="run").regret("mine")[0, -1])
"""


def test_edited_code_is_not_served_stale(tmp_path):
    """Of a policy, of a constant and a function that it uses, of a reward's sampler; comments may change."""

    def run(bonus="1.0", comment="# one", comparison="<"):
        program = PROGRAM.format(bonus=bonus, comment=comment, comparison=comparison)
        return subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)

    assert run().returncode == 0
    again = run(comment="# another\n        # and one more")
    assert again.returncode == 0, again.stderr
    for edited in (run(bonus="2.0"), run(comment="cells = cells"), run(comparison=">")):
        assert "checkpoint of another run" in edited.stderr


def test_the_hash_of_code_follows_what_runs():
    def made(n):
        return lambda x: x + n

    assert code_hash(made(1)) == code_hash(made(1)) != code_hash(made(2))
    assert code_hash(lambda x, y=1: x) != code_hash(lambda x, y=2: x)
    assert code_hash(Timid) == code_hash(Timid) != code_hash(Cells)

    class Counting:
        seen: list = []  # noqa: RUF012 (it changes while the program runs, and must not count)

        def go(self):
            self.seen.append(1)

    before = code_hash(Counting)
    Counting().go()
    assert code_hash(Counting) == before

    def recursive(n):
        return recursive(n - 1) if n else made(0)

    assert code_hash(recursive) == code_hash(recursive)


@dataclass(frozen=True, kw_only=True)
class Wrapping(cb.Policy):
    """A policy with another object as its parameter."""

    base: object = None
    id = "wrapping"
    traits = Traits(randomised=False)

    def init(self, problem):
        return Cells.empty(problem.configurations)

    def score(self, situation, cells, rng):
        return situation.project(cells.means())

    def update(self, situation, cells, outcome):
        cells.add(situation.problem.configuration(outcome.z), outcome.reward)


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    ("one", "same", "other"),
    [
        (
            cb.policies.CausalUCB(noise_scale=0.1),
            cb.policies.CausalUCB(noise_scale=0.1),
            cb.policies.CausalUCB(noise_scale=3.0),
        ),
        (Fraction(1, 2), Fraction(1, 2), Fraction(1, 3)),
        (Decimal("0.1"), Decimal("0.1"), Decimal("0.2")),
        (date(2026, 1, 1), date(2026, 1, 1), date(2026, 1, 2)),
        (range(3), range(3), range(4)),
        (operator.itemgetter(1), operator.itemgetter(1), operator.itemgetter(2)),
        (Slotted(1), Slotted(1), Slotted(2)),
        (np.arange(3), np.arange(3), np.arange(1, 4)),
        ([1, {"a": 2}], [1, {"a": 2}], [1, {"a": 3}]),
        (len, len, max),
    ],
)
def test_objects_as_parameters_count_by_what_they_hold(one, same, other, problem, tmp_path):
    policies = [Wrapping(base=base) for base in (one, same, other)]
    policies[0].__dict__.setdefault("cached", 1)  # what is derived, or put there by others, is no parameter
    assert (
        policy_fingerprint(policies[0], problem)
        == policy_fingerprint(policies[1], problem)
        != policy_fingerprint(policies[2], problem)
    )
    agent = cb.Agent(problem, policies[0])
    assert "wrapping" in repr(agent)
    agent.save(tmp_path / "a.json")
    cb.Agent.load(tmp_path / "a.json", policy=policies[1])
    with pytest.raises(StateError, match="other functions or objects"):
        cb.Agent.load(tmp_path / "a.json", policy=policies[2])


def test_a_policy_that_was_used_is_the_same_policy(problem):
    used = cb.policies.CausalUCB()
    cb.Agent(problem, used).ask()
    assert code_hash(used) == code_hash(cb.policies.CausalUCB())


def test_numbers_are_compared_as_numbers(problem, tmp_path):
    cb.Agent(problem, cb.policies.CausalUCB(noise_scale=2)).save(tmp_path / "a.json")
    assert cb.Agent.load(tmp_path / "a.json", policy=cb.policies.CausalUCB(noise_scale=2.0)).policy.noise_scale == 2
    cb.Agent(problem, Wrapping(base=float("nan"))).save(tmp_path / "b.json")
    cb.Agent.load(tmp_path / "b.json", policy=Wrapping(base=float("nan")))


def test_worlds_drawn_by_another_function_are_another_run(tmp_path, problem):
    def worlds(cap):
        return lambda rng: cb.Environment(
            problem, cb.rewards.BernoulliReward(np.minimum(cap, rng.random(problem.shape)))
        )

    settings = {"horizon": 10, "seed": 0}
    cb.simulate(worlds(0.99), "c-ucb", replications=2, checkpoint=tmp_path / "run", **settings)
    cb.simulate(worlds(0.99), "c-ucb", replications=3, checkpoint=tmp_path / "run", **settings)
    with pytest.raises(StateError, match="checkpoint of another run"):
        cb.simulate(worlds(0.5), "c-ucb", replications=2, checkpoint=tmp_path / "run", **settings)
    halves = [
        cb.simulate(worlds(c), "c-ucb", replications=range(2 * i, 2 * i + 2), **settings)
        for i, c in enumerate((0.99, 0.5))
    ]
    with pytest.raises(cb.CausalBanditsError, match="environment"):
        cb.Run.merged(halves)


def test_code_in_other_modules_of_the_users_counts(tmp_path):
    program = (
        "import causalbandits as cb, sys\nsys.path.insert(0, '.')\nimport helper\nfrom helper import also\n"
        "def sample(s, t, w, rng):\n    return helper.draw(rng) * also()\n"
        "env = cb.Environment(cb.zoo.email_campaign().problem, cb.rewards.CustomReward(lambda *z: 0.5, sample))\n"
        "cb.simulate(env, 'c-ucb', horizon=5, replications=1, checkpoint='run')\n"
    )

    def run(low, factor):
        text = f"def draw(rng):\n    return max({low}, rng.random())\n\n\ndef also():\n    return {factor}\n"
        (tmp_path / "helper.py").write_text(text)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        return subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)

    assert run(0.1, 1).returncode == 0
    assert run(0.1, 1).returncode == 0
    assert "checkpoint of another run" in run(0.2, 1).stderr
    assert "checkpoint of another run" in run(0.1, 2).stderr


def test_own_parameters_count_by_their_code(problem):
    @dataclass(frozen=True, kw_only=True)
    class Own(cb.policies.Uniform):
        weigh: object = None

    one, other = Own(weigh=lambda x: x), Own(weigh=lambda x: 2 * x)
    assert policy_fingerprint(one, problem) != policy_fingerprint(other, problem)
    assert policy_fingerprint(one, problem) == policy_fingerprint(Own(weigh=lambda x: x), problem)
    assert policy_fingerprint_with_code(cb.policies.CausalUCB(), problem).endswith(" ")
