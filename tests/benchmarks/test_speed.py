"""The yardsticks are honest, and `benchmarks/run.py speed` prints and writes what it measured."""

from __future__ import annotations

import json
from unittest import mock

import numpy as np
import pytest

import causalbandits as cb
from causalbandits_bench import index_cost, plain_loops, workloads
from causalbandits_bench.speed import TABLES
from causalbandits_bench.timing import megabytes_in_new_process, side_by_side
from commands import run
from oracles.policies import POLICIES
from run import ONE_THREAD, app


@pytest.mark.parametrize("id", plain_loops.LOOPS)
def test_the_loops_play_the_algorithms(id):
    """Mean regrets agree within four joint standard errors: a false alarm once in 16,000."""
    env = cb.zoo.email_campaign() if "beta" in id else cb.zoo.figure2()
    matrices, replications, horizon = plain_loops.matrices(env), 16, 500
    plain = np.array([plain_loops.play(id, matrices, horizon, seed)[-1] for seed in range(replications)])
    ours = cb.simulate(env, id, horizon=horizon, replications=40, seed=1).regret(id)[:, -1]
    error = np.hypot(plain.std(ddof=1) / len(plain) ** 0.5, ours.std(ddof=1) / len(ours) ** 0.5)
    assert abs(plain.mean() - ours.mean()) < 4 * error


def test_every_policy_of_the_paper_has_its_loop():
    missing = set(POLICIES) - set(plain_loops.LOOPS)
    later = (
        "guarded",
        "effects",
        "gittins",
        "screen",
        "ts-ucb",
        "ids",
        "track",
        "design",
        "elimination",
        "models",
    )
    traits = {id: cb.policy(id).traits for id in missing}
    own = {id for id in missing if traits[id].learns_cpts or traits[id].learns_scales or any(w in id for w in later)}
    assert missing - own == {"c-kl-ucb", "kl-ucb", "uniform", "hac-ucb", "lin-ts", "lin-ucb"}


def test_the_index_is_measured_on_few_actions_and_on_many():
    sizes = [world.size for world in index_cost.worlds().values()]
    assert sizes == ["12 x 12", "16 x 16", "500 x 100", *["5,000 x 1,000"] * 3]


def test_the_index_is_measured_against_thompson_sampling(monkeypatch):
    small = index_cost.Timed(index_cost.one_knob(5, (2, 2)), 20, 5)
    monkeypatch.setattr(index_cost, "worlds", lambda: {"small": small})
    monkeypatch.setattr(index_cost, "GROUPS", (("c-ts(prior=beta)", "c-gittins(prior=beta)"),))
    first, second = index_cost.against_thompson(1)
    assert first[:3] == ["small", "5 x 4", "c-ts(prior=beta)"]
    assert first[5:] == [1.0, 1.0]
    assert second[2] == "c-gittins(prior=beta)"
    assert all(number > 0 for number in second[3:])


def test_things_are_timed_in_turn():
    order = []

    def task(name):
        def run():
            order.append(name)
            return 10

        return run

    best = side_by_side({"a": task("a"), "b": task("b")}, repeats=2)
    assert order == ["a", "b"] * 3
    assert all(0 < seconds < 1 for seconds in best.values())


def test_peak_memory_is_the_new_processes_own():
    """Not that of this one, which is larger."""
    touched = "x = bytearray({})\nx[::4096] = b'1' * len(x[::4096])"
    small, large = (megabytes_in_new_process(touched.format(size)) for size in (1, 10**8))
    assert 95 < large - small < 105
    assert small < 60


def test_agents_are_timed_on_outcomes_of_what_they_decide(monkeypatch):
    """The rehearsal and every campaign that is timed decide the same, and what was set is among what happened."""
    campaigns = []

    class Watched(cb.Agent):
        def __init__(self, *arguments, **keywords):
            super().__init__(*arguments, **keywords)
            campaigns.append([])

        def tell(self, decision, *, reward, observed=None):
            action = self.pending[decision]
            assert all(action.get(name, value) == value for name, value in observed.items())
            campaigns[-1].append((action, observed["send_time"], reward))
            super().tell(decision, reward=reward, observed=observed)

    monkeypatch.setattr(workloads, "Agent", Watched)
    run = workloads.agent_task(cb.zoo.email_campaign(), "c-ts(prior=beta)", 50)
    assert [run(), run()] == [50, 50]
    assert campaigns[0] == campaigns[1] == campaigns[2]
    assert len({action for action, *_ in campaigns[0]}) > 5


@pytest.mark.parametrize(
    ("make", "id"), [(cb.zoo.figure2, "c-ts-guarded"), (cb.zoo.email_campaign, "c-ts-guarded(prior=beta)")]
)
def test_guards_are_timed_at_rest(make, id):
    """An alarm would warn, and be an error."""
    assert workloads.agent_task(make(), id)() == 1000


def bench(*arguments):
    with mock.patch.dict("os.environ", ONE_THREAD):  # else it would start again
        return run(*arguments, columns=120, program=app)


def test_the_command_prints_tables_and_writes_them(tmp_path):
    done = bench("speed", "agent", "drawing", "--repeats", "1", "--out", str(tmp_path / "new"))
    assert done.returncode == 0, done.stderr
    assert "One decision and one reward" in done.stdout
    content = json.loads((tmp_path / "new" / "bench.json").read_text(encoding="utf-8"))
    assert set(content["tables"]) == {"agent", "drawing"}
    assert content["machine"]["causalbandits"] == cb.__version__
    assert all(row["ratio"] > 0 for rows in content["tables"].values() for row in rows)
    page = (tmp_path / "new" / "bench.md").read_text(encoding="utf-8")
    assert "## One decision and one reward" in page
    assert "| Figure 2 | c-ucb |" in page


def test_an_unknown_table_is_one_line_with_the_way_out():
    done = bench("speed", "engin")
    assert done.returncode == 1
    assert (
        done.stderr == f"Error: Unknown table 'engin'. Did you mean 'engine'? Known: {', '.join(map(repr, TABLES))}.\n"
    )


def test_help_names_every_table():
    done = bench("speed", "--help")
    assert all(name in done.stdout for name in TABLES)
