"""Studies: decisions and outcomes in a database, exact whatever the order, the repetitions and the processes."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, StateError, TellError
from causalbandits.policies import situation_for
from causalbandits.study.storage.log import Log
from oracles.environments import BELIEF, seen, with_arrow
from oracles.policies import POLICIES

ENV = cb.zoo.email_campaign()
WARNS_NOT = pytest.mark.filterwarnings("ignore::UserWarning")


class Clock:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def new(tmp_path: Path, policy: Any = "c-ts(prior=beta)", env: cb.Environment = ENV, **rules: Any) -> cb.Study:
    return cb.Study.create(tmp_path / "study.db", env.problem, policy, **{"seed": 1, **rules})


def happen(study: cb.Study, decision: Any, rng: np.random.Generator, env: cb.Environment = ENV) -> dict[str, Any]:
    """What the world answers, as an outcome to tell."""
    action = study.problem.actions.find(decision.action)
    z, reward = env.draw(action.choices, rng)
    return {"id": decision.id, "observed": env.problem.decode_parents(z), "reward": reward}


def tell(study: cb.Study, told: dict[str, Any]) -> Any:
    return study.tell(told["id"], reward=told["reward"], observed=told["observed"])


def correct(study: cb.Study, told: dict[str, Any]) -> Any:
    return study.correct(told["id"], reward=told["reward"], observed=told["observed"])


def played(study: cb.Study, rounds: int, env: cb.Environment = ENV, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    with study.together():
        return [happen(study, study.ask(), rng, env) for _ in range(rounds)]


def bits(study: cb.Study) -> str:
    return json.dumps(study.statistic.to_record())


@pytest.mark.parametrize(("id", "is_read"), [("c-ts(prior=beta)", False), ("c-ts-guarded(prior=beta)", True)])
def test_telling_reads_the_chances_of_a_decision_only_where_the_policy_learns_from_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: str, is_read: bool
) -> None:
    read, own = [], Log._decode_propensities

    def decode(log: Log, text: str | None, *rest: Any) -> Any:
        read.append(text)
        return own(log, text, *rest)

    monkeypatch.setattr(Log, "_decode_propensities", decode)
    with new(tmp_path, cb.policy(id, samples=8)) as study:
        told = played(study, 20)
        assert {one.status for one in study.tell_many(told)} == {"applied"}
        assert any(text is not None for text in read) == is_read
        read.clear()
        assert len(study.chances(0)) > 1
        assert read[-1] is not None
        assert study.verify()


def test_outcomes_in_any_order_and_any_number_of_times_leave_the_same_bits(tmp_path: Path) -> None:
    found = set()
    for order in range(4):
        (tmp_path / str(order)).mkdir()
        with new(tmp_path / str(order)) as study:
            told = played(study, 120)
            again = [outcome for outcome in told for _ in range(1 + order)]
            random.Random(order).shuffle(again)
            statuses = [answer.status for answer in study.tell_many(again)]
            assert statuses.count("applied") == 120
            assert statuses.count("duplicate") == 120 * order
            assert study.verify()
            found.add(bits(study))
    assert len(found) == 1


def test_sums_of_real_rewards_are_exact_in_any_order(tmp_path: Path) -> None:
    env, found = cb.zoo.figure2(), set()
    for order in range(3):
        (tmp_path / str(order)).mkdir()
        with new(tmp_path / str(order), "c-ts(scales=given)", env) as study:
            told = played(study, 150, env)
            random.Random(order).shuffle(told)
            study.tell_many(told)
            found.add(bits(study))
    assert len(found) == 1


@WARNS_NOT
@pytest.mark.parametrize("id", sorted(POLICIES))
def test_every_policy_is_folded_as_an_agent_folds_it_and_its_decisions_come_out_again(tmp_path: Path, id: str) -> None:
    problem = ENV.problem.without_cpts() if "learned" in id else ENV.problem
    with cb.Study.create(tmp_path / "study.db", problem, id, seed=1) as study:
        policy = cb.policy(id)
        rng = np.random.default_rng(3)
        for _ in range(25):
            decision = study.ask()
            told = happen(study, decision, rng)
            study.tell(told["id"], reward=told["reward"], observed=told["observed"])
        for row in study._log.decisions():
            assert study.replay(row.number)
        statistic, situation = policy.init(study.problem), situation_for(policy, study.problem)
        for outcome in study._log.outcomes():
            policy.update(situation, statistic, outcome)
            policy.monitor(situation, statistic, outcome)
        ours, theirs = study.statistic.to_record(), statistic.to_record()
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert np.allclose(ours[name], theirs[name], rtol=1e-12, atol=1e-12), name
        assert study.verify()


def test_the_same_key_gets_the_same_answer_and_another_question_is_refused(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        first = study.ask(key="a")
        assert study.ask(key="a") == first
        assert study.n_decisions == 1
        with pytest.raises(TellError, match="another request"):
            study.ask(key="a", eligible=[{"send_time": "morning"}])
        assert study.ask(key="b", eligible=[{"send_time": "morning"}]).action == {"send_time": "morning"}
        assert study.replay("b")


def test_an_outcome_that_comes_before_its_decision_waits_for_it_on_disk(tmp_path: Path) -> None:
    eligible = [{"send_time": "morning"}]
    told = {"subject": "short", "template": "1", "send_time": "morning"}
    with new(tmp_path) as study:
        assert study.tell("later", reward=1, observed=told).status == "early"
        assert study.tell("later", reward=1, observed=told).status == "duplicate"
        with pytest.raises(TellError, match="whose decision is not made yet"):
            study.tell("later", reward=0, observed=told)
    with cb.Study.open(tmp_path / "study.db") as study:
        assert study.n_outcomes == 0
        decision = study.ask(key="later", eligible=eligible)
        assert study.n_outcomes == 1
        assert study.tell(decision.id, reward=1, observed=told).status == "duplicate"
        assert study.verify()


def test_silence_is_taken_for_the_default_only_after_the_window(tmp_path: Path) -> None:
    clock = Clock()
    with new(tmp_path, attribution_window=60, default_reward=0, clock=clock) as study:
        told = played(study, 5)
        study.tell(told[0]["id"], reward=None, observed=told[0]["observed"])  # sent, and not clicked yet
        assert study.expire() == 0
        clock.now += 61
        assert study.expire() == 5
        assert study.expire() == 0
        assert study.n_outcomes == 5
        assert study.statistic.count.sum() == 1  # where the parents are known
        late = study.tell(told[0]["id"], reward=1, observed=told[0]["observed"])
        assert late.status == "late"
        assert study.tell(told[0]["id"], reward=1, observed=told[0]["observed"]).status == "duplicate"
        assert study.statistic.total.sum() == 1
        assert study.n_outcomes == 5
        assert study.verify()


def test_late_outcomes_that_are_ignored_are_recorded_once_and_do_not_count(tmp_path: Path) -> None:
    clock = Clock()
    with new(tmp_path, attribution_window=60, default_reward=0, late_outcomes="ignore", clock=clock) as study:
        (told,) = played(study, 1)
        clock.now += 61
        study.expire()
        before = bits(study)
        assert study.tell(told["id"], reward=told["reward"], observed=told["observed"]).status == "late"
        assert study.tell(told["id"], reward=told["reward"], observed=told["observed"]).status == "duplicate"
        assert bits(study) == before
        assert study.verify()


def test_corrections_leave_the_bits_of_having_been_told_right_at_first(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with new(tmp_path / "a") as wrong, new(tmp_path / "b") as right:
        told = played(wrong, 40)
        same = played(right, 40)
        assert [{**one, "id": k} for k, one in enumerate(told)] == [{**one, "id": k} for k, one in enumerate(same)]
        right.tell_many(same)
        wrong.tell_many([{**one, "reward": 1 - one["reward"]} for one in told])
        with pytest.raises(TellError, match="correct"):
            wrong.tell(told[0]["id"], reward=told[0]["reward"], observed=told[0]["observed"])
        for one in told:
            assert wrong.correct(one["id"], reward=one["reward"], observed=one["observed"]).status == "applied"
            assert wrong.correct(one["id"], reward=one["reward"], observed=one["observed"]).status == "duplicate"
        assert bits(wrong) == bits(right)
        assert wrong.verify()
        assert all(wrong.replay(k) for k in (0, 39))


def test_what_is_taken_back_or_forgotten_never_was(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        empty = bits(study)
        told = played(study, 10)
        study.tell_many(told)
        for one in told:
            study.retract(one["id"])
        assert bits(study) == empty
        study.cancel(told[0]["id"])
        assert len(study.pending) == 9
        assert tell(study, told[0]).status == "late"  # it came all the same, and counts
        assert study.n_outcomes == 1
        assert study.verify()


def test_two_processes_on_one_file_see_each_other_and_never_decide_the_same_number(tmp_path: Path) -> None:
    with new(tmp_path) as one, cb.Study.open(tmp_path / "study.db") as two:
        rng = np.random.default_rng(0)
        ids = []
        for k in range(30):
            asker, teller = (one, two) if k % 2 else (two, one)
            decision = asker.ask()
            ids.append(decision.number)
            told = happen(one, decision, rng)
            teller.tell(told["id"], reward=told["reward"], observed=told["observed"])
        assert ids == list(range(30))
        assert bits(one) == bits(two)
        assert one.n_outcomes == two.n_outcomes == 30
        assert one.verify()


def test_a_new_policy_starts_with_all_that_was_learnt(tmp_path: Path) -> None:
    with new(tmp_path) as study, cb.Study.open(tmp_path / "study.db") as other:
        study.tell_many(played(study, 50))
        study.use("ucb")
        assert study.policy.id == other.policy.id == "ucb"
        assert study.statistic.count.sum() == 50
        decision = other.ask()
        assert study.replay(decision.id)
        assert study.replay(0)


def test_a_line_that_was_tampered_with_is_found(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.tell_many(played(study, 20))
        assert study.verify()
        raw = sqlite3.connect(tmp_path / "study.db")
        raw.execute("UPDATE statistic SET n = n + 1 WHERE rowid = 1")
        raw.commit()
        raw.close()
        found = study.verify()
        assert not found
        assert "statistic" in repr(found)


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"id": 99, "reward": 1}, "Unknown decision"),
        ({"id": True, "reward": 1}, "Unknown decision"),
        ({"id": 0, "reward": float("nan")}, "finite"),
        ({"id": 0, "reward": "1"}, "finite"),
        ({"id": 0, "reward": 2}, r"\[0, 1\]"),
        ({"id": 0, "observed": {"subject": "tiny"}, "reward": 1}, "Unknown value of 'subject'"),
        ({"id": 0, "observed": {"colour": "red"}, "reward": 1}, "Unknown variable"),
        ({"id": 0, "reward": None}, "both"),
        ({"id": "", "reward": 1}, "key"),
        ({"id": 0}, "An outcome has"),
    ],
)
def test_what_cannot_be_taken_is_refused_in_words_and_keeps_nothing_else_back(
    tmp_path: Path, told: dict[str, Any], says: str
) -> None:
    import re

    with new(tmp_path) as study:
        (good,) = played(study, 1)
        before = bits(study)
        (answer,) = study.tell_many([told])
        assert answer.status in ("refused", "unknown")
        assert re.search(says, answer.why)
        assert bits(study) == before
        assert [a.status for a in study.tell_many([told, good, told])][1] == "applied"
        assert study.verify()


def test_files_that_are_no_studies_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="no study"):
        cb.Study.open(tmp_path / "nothing.db")
    (tmp_path / "text.db").write_text("hello, this is not a database, whatever its name says" * 50)
    with pytest.raises(StateError):
        cb.Study.open(tmp_path / "text.db")
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE x (y)")
    other.commit()
    other.close()
    with pytest.raises(StateError, match="another program"):
        cb.Study.open(tmp_path / "other.db")
    with new(tmp_path):
        pass
    with pytest.raises(StateError, match="exists already"):
        new(tmp_path)


@pytest.mark.parametrize(
    "rules",
    [
        {"attribution_window": 60},
        {"attribution_window": -1, "default_reward": 0},
        {"late_outcomes": "maybe"},
        {"seed": -1},
        {"zero_probability": "?"},
    ],
)
def test_rules_that_make_no_sense_are_refused(tmp_path: Path, rules: dict[str, Any]) -> None:
    with pytest.raises(CausalBanditsError):
        new(tmp_path, **rules)


WORKER = """
import sys, numpy as np, causalbandits as cb
env, study = cb.zoo.email_campaign(), cb.Study.open(sys.argv[1])
rng = np.random.default_rng(int(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    decision = study.ask()
    action = study.problem.actions.find(decision.action)
    z, reward = env.draw(action.choices, rng)
    for _ in range(2):  # every outcome is sent twice
        study.tell(decision, reward=reward, observed=env.problem.decode_parents(z))
    print(decision.number, int(reward), flush=True)
"""


def worker(path: Path, seed: int, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORKER), str(path), str(seed), str(rounds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_processes_that_decide_at_once_lose_nothing_and_count_nothing_twice(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        workers = [worker(tmp_path / "study.db", seed, 40) for seed in range(3)]
        printed = [process.communicate(timeout=120) for process in workers]
        assert [process.returncode for process in workers] == [0, 0, 0], printed
        told = dict(line.split() for out, _ in printed for line in out.splitlines())
        assert sorted(map(int, told)) == list(range(120))
        assert study.n_outcomes == 120
        assert study.statistic.total.sum() == sum(map(int, told.values()))
        assert study.verify()


def test_what_was_acknowledged_survives_kills(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        told: dict[str, str] = {}
        chance = random.Random(0)
        for kill in range(5):
            process = worker(tmp_path / "study.db", kill, 10_000)
            assert process.stdout is not None
            for _ in range(3):
                told.update([process.stdout.readline().split()])
            time.sleep(chance.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            # Not communicate(), which loses what readline() has read ahead.
            told.update(line.split() for line in process.stdout.read().splitlines() if len(line.split()) == 2)
            process.communicate()
        assert study.verify()
        counted = {row.number: row.reward for row in study._log.decisions("reward IS NOT NULL")}
        assert {int(id) for id in told} <= set(counted)
        assert len(told) <= study.n_outcomes <= len(told) + 5  # the last of each may have been written and not printed
        assert all(study.replay(k) for k in list(counted)[-3:])


def test_evaluating_what_was_done_gives_exactly_the_logged_mean(tmp_path: Path) -> None:
    with new(tmp_path, cb.policy("c-ts", prior="beta", samples=16)) as study:
        told = played(study, 200)
        study.tell_many(told)
        assert study.evaluate("logged").estimates["logged"].mean == sum(one["reward"] for one in told) / 200


def test_estimates_of_another_action_are_unbiased(tmp_path: Path) -> None:
    target = {"product": "Adobe Stock", "purpose": "Operational", "send_time": "morning"}
    truth = float(ENV.means[ENV.problem.actions.find(target).number])
    found: dict[str, list[float]] = {}
    for run in range(30):
        (tmp_path / str(run)).mkdir()
        with new(tmp_path / str(run), cb.policy("c-ts", prior="beta", samples=16), seed=run) as study:
            rng = np.random.default_rng(run)
            with study.together():
                for _ in range(120):
                    told = happen(study, study.ask(), rng)
                    study.tell(told["id"], reward=told["reward"], observed=told["observed"])
            evaluation = study.evaluate(target)
            assert 0 < evaluation.effective <= evaluation.outcomes
            for name, estimate in evaluation.estimates.items():
                if estimate is not None:
                    found.setdefault(name, []).append(estimate.mean)
    for name in ("ips", "dr"):
        assert len(found[name]) == 30
        mean, error = np.mean(found[name]), np.std(found[name], ddof=1) / np.sqrt(30)
        assert abs(mean - truth) < 4 * error, name  # a false alarm in 10,000
    assert abs(np.mean(found["snips"]) - truth) < 0.1
    assert abs(np.mean(found["direct"]) - truth) < 0.1


def test_what_cannot_be_evaluated_is_refused_in_words(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        study.tell_many(played(study, 10))
        with pytest.raises(CausalBanditsError, match="samples="):
            study.evaluate({"send_time": "morning"})
        study.use(cb.policy("c-ts", prior="beta", samples=4))
        study.tell_many(played(study, 5))
        with pytest.raises(CausalBanditsError, match="sum to 1"):
            study.evaluate([({"send_time": "morning"}, 0.5)])


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.dsjson"])
def test_a_study_is_exported_with_a_line_for_each_decision(tmp_path: Path, name: str) -> None:
    with new(tmp_path, cb.policy("c-ts", prior="beta", samples=8)) as study:
        told = played(study, 12)
        study.tell_many(told[:9])
        exported = study.export(tmp_path / name)
        assert exported == ((9, 3, 0, 0) if name.endswith("dsjson") else (12, 0, 0, 0))
        if name.endswith("csv"):
            import csv

            lines = list(csv.DictReader((tmp_path / name).read_text().splitlines()))
            assert [line["status"] for line in lines].count("open") == 3
            assert sum(float(line["reward"]) for line in lines if line["reward"]) == sum(o["reward"] for o in told[:9])
        elif name.endswith("parquet"):
            parquet = pytest.importorskip("pyarrow.parquet")
            assert parquet.read_table(tmp_path / name).num_rows == 12
        else:
            lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
            assert len(lines) == 9
            assert all(line["p"][line["_labelIndex"]] == line["_label_probability"] for line in lines)
        with pytest.raises(StateError, match="csv"):
            study.export(tmp_path / "a.xls")


def test_an_export_says_what_was_left_out_and_why(tmp_path: Path) -> None:
    with new(tmp_path, "c-ts(prior=beta)") as study:
        study.tell_many(played(study, 5)[:4])
        study.use(cb.policy("c-ts", prior="beta", samples=8))
        study.tell_many(played(study, 3))
        exported = study.export(tmp_path / "a.dsjson")
        assert exported == (3, 1, 4, 0)
        assert len((tmp_path / "a.dsjson").read_text().splitlines()) == exported.decisions
        assert str(exported).startswith("3 decisions; left out: 1 without a reward, 4 without logged propensities (")
        assert str(study.export(tmp_path / "a.csv")) == "8 decisions"


@pytest.mark.parametrize("env", [ENV, cb.zoo.email_segments()])
def test_what_is_exported_of_an_empty_study_has_the_columns_of_any_other(tmp_path: Path, env: Any) -> None:
    with cb.Study.create(tmp_path / "a.db", env.problem, "c-ts(prior=beta)") as study:
        assert study.export(tmp_path / "empty.csv") == (0, 0, 0, 0)
        study.ask()
        study.export(tmp_path / "one.csv")
    (head,), (other, _) = ((tmp_path / name).read_text().splitlines() for name in ("empty.csv", "one.csv"))
    assert head == other


def test_an_alarm_is_heard_in_a_study(tmp_path: Path) -> None:
    """The product moves clicks past their parents, and the belief denies it; as an agent with a guard would say it."""
    env, rng = with_arrow("product", 0.3), np.random.default_rng(2)
    policy = cb.policies.GuardedThompsonSampling(prior="beta", samples=8)
    with cb.Study.create(tmp_path / "study.db", BELIEF, policy, seed=2) as study:
        decisions = [study.ask()]
        assert study.evidence().rounds == 0
        while len(decisions) < 150:
            decisions.append(study.ask())
            happened = env.pull(decisions[-1].action, rng)
            study.tell(decisions[-1].id, reward=happened.reward, observed=seen(happened.parents))
        assert study.evidence().rounds == 0  # the first is still open
        # The guard waits; a test that does not withdraws the guarantee meanwhile.
        assert all("misspecification test rejects" in caveat for caveat in study.recommend().caveats)
        assert "misspecification test rejects the model" in study.recommend().stop_reason
        study.cancel(decisions[0].id)
        found = study.evidence()
        assert found.rounds == 149
        assert found.alarms[0].variable == "product"
        assert [str(alarm) for alarm in found.alarms] == list(study.recommend().caveats)
        study.use(cb.policy("c-ts", prior="beta", samples=8))
        assert study.evidence().alarms[0].variable == "product"
        study.use("c-ucb")
        with pytest.raises(CausalBanditsError, match="needs logged propensities, and c-ucb has none"):
            study.evidence()


def test_who_only_looks_neither_waits_nor_keeps_waiting_and_changes_nothing(tmp_path: Path) -> None:
    with new(tmp_path, seed=1) as study:
        reader = study.reader()
        decision = study.ask()
        told = happen(study, decision, np.random.default_rng(0))
        assert reader.n_decisions == 1
        with study.together():  # a writer is at work
            tell(study, told)
            assert reader.report().outcomes.n == 0, "what is not on disk is not seen"
            assert reader.verify()
        assert reader.report().outcomes.n == 1
        assert reader.recommend() == study.recommend()
        other = {**told, "reward": 0.5}
        for change in (reader.ask, lambda: correct(reader, other), lambda: reader.set_mode("paused")):
            with pytest.raises(CausalBanditsError, match="is read-only"):
                change()
        assert (reader.n_outcomes, reader.n_decisions, reader.mode) == (1, 1, "online")
        reader.close()


def test_a_closed_study_says_so_in_words(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        decision = study.ask()
    for call in (
        study.ask,
        lambda: study.tell(decision.id, reward=1.0),
        lambda: study.n_outcomes,
        study.recommend,
        study.verify,
        study.modes,
        lambda: study.pending,
        lambda: study.evaluate("logged"),
        study.report,
    ):
        with pytest.raises(StateError, match=r"^This Study object is closed\. Open"):
            call()
    assert repr(study).endswith("study.db', closed)")
    study.close()  # again, which changes nothing
    with cb.Study.open(tmp_path / "study.db") as again:
        assert again.n_decisions == 1


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"There is no folder .*absent for the study\. Create it"):
        cb.Study.create(tmp_path / "absent" / "study.db", cb.zoo.email_campaign().problem)
    assert not (tmp_path / "absent").exists()
