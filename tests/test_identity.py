"""What a policy is: its class, its parameters, what they do; code that is not ours counts where results are kept."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import causalbandits as cb
from causalbandits._code import code_hash
from causalbandits.errors import StateError
from causalbandits.policies.identity import class_name, identity, identity_with_code
from causalbandits.policies.statistics import Cells


@dataclass(frozen=True, kw_only=True)
class Timid(cb.CausalUCB):
    """C-UCB with a `score` of its own, and so another policy."""

    def score(self, situation, statistic, rng):
        return situation.project(statistic.means())


@pytest.fixture
def problem():
    return cb.zoo.email_campaign().problem


def test_a_subclass_is_never_taken_for_its_parent(problem, tmp_path):
    assert class_name(Timid) == "Timid"
    assert class_name(cb.CausalUCB) == "causalbandits.CausalUCB"
    assert identity(Timid(), problem) != identity(cb.CausalUCB(), problem)
    cb.Agent(problem, Timid()).save(tmp_path / "a.json")
    with pytest.raises(StateError, match="'c-ucb' is of the class Timid, which is not one of this library's"):
        cb.Agent.load(tmp_path / "a.json")
    with pytest.raises(StateError, match=r"of the class Timid; given is c-ucb of the class causalbandits\.CausalUCB"):
        cb.Agent.load(tmp_path / "a.json", policy="c-ucb")
    assert type(cb.Agent.load(tmp_path / "a.json", policy=Timid()).policy) is Timid
    cb.Agent(problem, "c-ucb").save(tmp_path / "b.json")
    with pytest.raises(StateError, match="given is c-ucb of the class Timid"):
        cb.Agent.load(tmp_path / "b.json", policy=Timid())


def test_a_checkpoint_of_one_is_not_served_as_the_others(tmp_path):
    env = cb.zoo.email_campaign()
    settings = {"horizon": 20, "replications": 2, "checkpoint": tmp_path / "run"}
    cb.simulate(env, {"it": Timid()}, **settings)
    with pytest.raises(StateError, match="checkpoint of another run"):
        cb.simulate(env, {"it": cb.CausalUCB()}, **settings)
    cb.simulate(env, {"it": Timid()}, **settings)


def test_functions_that_do_the_same_are_the_same_and_others_are_refused(problem, tmp_path):
    def linear(weight):
        return cb.CausalLinearUCB(features=lambda subject, template, send_time: [1.0, weight * (subject == "short")])

    cb.Agent(problem, linear(2.0)).save(tmp_path / "a.json")
    again = cb.CausalLinearUCB(features=lambda s, t, w: np.array([1.0, 2.0 if s == "short" else 0.0]))
    assert cb.Agent.load(tmp_path / "a.json", policy=again).policy is again
    with pytest.raises(StateError, match="other functions than those given"):
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
    def start(self, problem):
        return Cells.empty(problem.configurations)
    def score(self, situation, cells, rng):
        {comment}
        return situation.project(optimistic(cells))
    def update(self, situation, cells, outcome):
        cells.add(situation.problem.configuration(outcome.z), outcome.reward)

def sample(subject, template, send_time, rng):
    return float(rng.random() {comparison} 0.5)

env = cb.zoo.email_campaign()
env = cb.Environment(env.problem, cb.CustomReward(lambda *z: 0.5, sample))
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


def test_own_parameters_count_by_their_code(problem):
    @dataclass(frozen=True, kw_only=True)
    class Own(cb.Uniform):
        weigh: object = None

    one, other = Own(weigh=lambda x: x), Own(weigh=lambda x: 2 * x)
    assert identity(one, problem) != identity(other, problem)
    assert identity(one, problem) == identity(Own(weigh=lambda x: x), problem)
    assert identity_with_code(cb.CausalUCB(), problem).endswith(" ")
