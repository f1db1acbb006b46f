"""Environments drawn anew, mistaken beliefs, and runs that are killed and go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import ClassVar

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import ProblemError, StateError

THETA = [0.25, 0.25, -0.25]


def draw(rng):
    return cb.zoo.random_parallel(3, 3, theta=THETA, rng=rng)


def same(one, other):
    assert one.policies == other.policies
    for policy in one.policies:
        assert np.array_equal(one.regret(policy), other.regret(policy))


def test_each_replication_has_an_environment_of_its_own_the_same_for_every_policy():
    seen = []

    def recorded(rng):
        seen.append(draw(rng))
        return seen[-1]

    twice = {"one": "uniform", "two": "uniform"}
    run = cb.simulate(recorded, twice, horizon=20, replications=3)
    assert np.array_equal(run.regret("one"), run.regret("two"))
    means = {env.fingerprint for env in seen}
    assert len(means) == 3


def test_drawn_environments_do_not_depend_on_workers_replications_or_other_policies():
    settings = {"horizon": 40, "seed": 5}
    run = cb.simulate(draw, ["c-ucb", "uniform"], replications=4, **settings)
    same(run, cb.simulate(draw, ["c-ucb", "uniform"], replications=4, workers=2, **settings))
    fewer = cb.simulate(draw, ["uniform"], replications=2, **settings)
    assert np.array_equal(run.regret("uniform")[:2], fewer.regret("uniform"))


def test_a_function_that_draws_something_else_is_refused():
    with pytest.raises(cb.CausalBanditsError, match="must return an Environment; for replication 0 it returned 3"):
        cb.simulate(lambda rng: 3, ["c-ucb"], horizon=5)


def believed(problem, **tables):
    """The same problem with other tables for some variables."""
    variables = [
        cb.Variable(v.name, v.states, parents=v.parents, table=tables.get(v.name, v.table))
        for v in problem.model.variables.values()
    ]
    return cb.Problem(
        cb.CausalModel(variables), manipulable=problem.manipulable, reward_parents=problem.parents, optional=True
    )


def test_believing_the_truth_changes_nothing():
    env = cb.zoo.email_campaign()
    runs = [
        cb.simulate(env, ["c-ts(prior=beta)", "ucb"], horizon=100, replications=2, believed=problem)
        for problem in (None, believed(env.problem))
    ]
    same(*runs)


def test_a_wrong_belief_costs_regret_and_a_baseline_does_not_care():
    """Belief: the purpose has the opposite effect on subject and template."""
    env = cb.zoo.email_campaign()
    model = env.problem.model
    wrong = believed(env.problem, subject=model["subject"].table[:, ::-1], template=model["template"].table[:, :, ::-1])
    runs = {
        what: cb.simulate(env, ["c-ts(prior=beta)", "ts(prior=beta)"], horizon=800, replications=4, believed=problem)
        for what, problem in (("true", None), ("wrong", wrong))
    }
    final = {what: {row.policy: row.mean for row in run.summary()} for what, run in runs.items()}
    assert final["wrong"]["c-ts(prior=beta)"] > 3 * final["true"]["c-ts(prior=beta)"]
    assert final["wrong"]["ts(prior=beta)"] == final["true"]["ts(prior=beta)"]


def test_a_belief_may_have_fewer_actions():
    env = cb.zoo.email_campaign()
    p = env.problem
    narrow = cb.Problem(
        p.model, manipulable=p.manipulable, reward_parents=p.parents, actions=[{"purpose": "Awareness"}]
    )
    run = cb.simulate(env, ["c-ucb"], horizon=30, replications=1, believed=narrow)
    gap = env.gap(p.actions.index({"purpose": "Awareness"}))
    assert run.regret("c-ucb")[0] == pytest.approx(gap * np.arange(1, 31))


def test_a_belief_about_something_else_is_refused():
    env = cb.zoo.email_campaign()
    p = env.problem
    with pytest.raises(ProblemError, match="must be among the environment's"):
        cb.simulate(
            env,
            ["c-ucb"],
            horizon=5,
            believed=cb.Problem(
                p.model, manipulable=p.manipulable, reward_parents=[*p.parents, "product"], optional=True
            ),
        )
    with pytest.raises(ProblemError, match="must have the environment's manipulable variables"):
        cb.simulate(
            env,
            ["c-ucb"],
            horizon=5,
            believed=cb.Problem(p.model, manipulable=["product"], reward_parents=p.parents, optional=True),
        )
    with pytest.raises(cb.CausalBanditsError, match="must be a Problem"):
        cb.simulate(env, ["c-ucb"], horizon=5, believed=env)


SETTINGS = {"horizon": 60, "seed": 2}


def test_a_checkpoint_resumes_extends_and_changes_no_number(tmp_path):
    env = cb.zoo.email_campaign()
    plain = cb.simulate(env, ["c-ts(prior=beta)", "ucb"], replications=5, **SETTINGS)
    cb.simulate(env, ["c-ts(prior=beta)", "ucb"], replications=2, checkpoint=tmp_path / "run", **SETTINGS)
    same(plain, cb.simulate(env, ["c-ts(prior=beta)", "ucb"], replications=5, checkpoint=tmp_path / "run", **SETTINGS))
    same(plain, cb.simulate(env, ["c-ts(prior=beta)", "ucb"], replications=5, checkpoint=tmp_path / "run", **SETTINGS))


def test_a_checkpoint_keeps_every_measure_and_replications_by_their_numbers(tmp_path):
    env, policies = cb.zoo.email_campaign(), ["c-ts(prior=beta)", "ucb"]
    settings = {**SETTINGS, "measures": ["simple regret"], "rounds": [7, 60]}
    whole = cb.simulate(env, policies, replications=5, **settings)
    part = cb.simulate(env, policies, replications=range(3, 5), checkpoint=tmp_path / "run", **settings)
    assert sorted(path.name for path in (tmp_path / "run").glob("*.npz")) == [
        f"replication-000000{i}.npz" for i in (3, 4)
    ]
    assert cb.simulate(env, policies, replications=range(3, 5), checkpoint=tmp_path / "run", **settings) == part
    assert cb.simulate(env, policies, replications=5, checkpoint=tmp_path / "run", workers=2, **settings) == whole


def test_finished_replications_are_not_run_again(tmp_path):
    class Counted(cb.policies.Uniform):
        id = "counted"
        played: ClassVar[list[int]] = []

        def score(self, situation, statistic, rng):
            self.played.append(1)
            return super().score(situation, statistic, rng)

    env = cb.zoo.email_campaign()
    for replications, total in ((2, 2), (2, 2), (3, 3)):
        cb.simulate(env, [Counted()], horizon=10, replications=replications, checkpoint=tmp_path / "run")
        assert len(Counted.played) == 10 * total


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 3},
        {"horizon": 61},
        {"policies": ["c-ts(prior=beta)"]},
        {"env": cb.zoo.figure2()},
        {"rounds": [1, 60]},
        {"measures": "simple regret"},
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change):
    arguments = {"env": cb.zoo.email_campaign(), "policies": ["c-ucb"], "replications": 2, **SETTINGS}
    arguments["checkpoint"] = tmp_path / "run"
    cb.simulate(**arguments)
    with pytest.raises(StateError, match="checkpoint of another run"):
        cb.simulate(**{**arguments, **change})


def test_a_checkpoint_of_other_policies_says_which_it_has(tmp_path):
    arguments = {"replications": 2, "checkpoint": tmp_path / "run", **SETTINGS}
    cb.simulate(cb.zoo.email_campaign(), {"mine": "c-ucb"}, **arguments)
    with pytest.raises(
        StateError, match=r"another run: it has the policies 'mine', and this run 'mine', 'ucb'\. .*Run"
    ):
        cb.simulate(cb.zoo.email_campaign(), {"mine": "c-ucb", "ucb": "ucb"}, **arguments)
    with pytest.raises(StateError, match=r"another run \(other environment, options of policies, rounds"):
        cb.simulate(cb.zoo.email_campaign(), {"mine": "ucb"}, **arguments)


def test_a_folder_with_something_else_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(StateError, match="empty and is not a checkpoint"):
        cb.simulate(cb.zoo.email_campaign(), ["c-ucb"], replications=2, checkpoint=tmp_path, **SETTINGS)
    with pytest.raises(StateError, match=r"Cannot use .*thesis\.tex as a checkpoint"):
        cb.simulate(cb.zoo.email_campaign(), ["c-ucb"], checkpoint=tmp_path / "thesis.tex", **SETTINGS)


def test_a_damaged_replication_is_named(tmp_path):
    env = cb.zoo.email_campaign()
    cb.simulate(env, ["c-ucb"], replications=2, checkpoint=tmp_path / "run", **SETTINGS)
    file = tmp_path / "run" / "replication-0000001.npz"
    file.write_bytes(file.read_bytes()[:50])
    with pytest.raises(StateError, match=r"replication-0000001\.npz is corrupted.* Delete the file"):
        cb.simulate(env, ["c-ucb"], replications=2, checkpoint=tmp_path / "run", **SETTINGS)
    np.savez(file, regret=np.zeros((1, 59)))
    with pytest.raises(StateError, match=r"it holds \{'regret': \(1, 59\)\}\. Delete the file"):
        cb.simulate(env, ["c-ucb"], replications=2, checkpoint=tmp_path / "run", **SETTINGS)


def test_features_given_as_functions_resume_in_another_process_and_others_are_refused(tmp_path):
    program = (
        "import causalbandits as cb, sys\n"
        "p = cb.policies.CausalLinearUCB(features=lambda s, t, w: [1.0, (s == 'short') * float(sys.argv[2])])\n"
        "cb.simulate(cb.zoo.email_campaign(), [p], horizon=10, replications=2, checkpoint=sys.argv[1])\n"
    )

    def run(weight):
        command = [sys.executable, "-c", program, str(tmp_path / "run"), weight]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert run("1").returncode == 0
    again = run("1")
    assert again.returncode == 0, again.stderr
    assert "checkpoint of another run" in run("2").stderr


def test_a_run_that_is_killed_ends_with_the_same_numbers(tmp_path):
    """kill -9 in the middle, several times, then once more to the end."""
    program = (
        "import causalbandits as cb, sys\n"
        "cb.simulate(cb.zoo.email_campaign(), ['c-ts(prior=beta)', 'ucb'], horizon=400, replications=12, seed=9, "
        "checkpoint=sys.argv[1], workers=int(sys.argv[2]))\n"
    )
    folder = tmp_path / "run"

    def finished():
        return len(list(folder.glob("replication-*.npz"))) if folder.exists() else 0

    for workers in (1, 2):
        before = finished()
        process = subprocess.Popen([sys.executable, "-c", program, str(folder), str(workers)], start_new_session=True)
        deadline = time.monotonic() + 60
        while finished() < before + 2 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert finished() > before
    resumed = cb.simulate(
        cb.zoo.email_campaign(), ["c-ts(prior=beta)", "ucb"], horizon=400, replications=12, seed=9, checkpoint=folder
    )
    same(
        resumed, cb.simulate(cb.zoo.email_campaign(), ["c-ts(prior=beta)", "ucb"], horizon=400, replications=12, seed=9)
    )
