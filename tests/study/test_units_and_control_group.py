"""Units, whose decisions repeat their action, and the control group, which always gets the baseline."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.test_service import Served
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import BudgetError, CausalBanditsError, ConflictError, InterventionError, StateError
from causalbandits.problem.budget import Budget
from causalbandits.service.server import build_service
from causalbandits.study.arms import Arms, compare_arms
from causalbandits.study.storage import to_fixed_point
from specs import spec_of

ENV = cb.zoo.email_campaign()
PROBLEM = ENV.problem
BASELINE = {"purpose": "Promo", "send_time": "morning"}
POLICY = cb.policy("c-ts", prior="beta", samples=8)


def new(folder: Path, policy: Any = POLICY, problem: cb.Problem = PROBLEM, **rules: Any) -> cb.Study:
    return cb.Study.create(folder / "study.db", problem, policy, seed=1, **rules)


def tell(study: Any, decision: cb.Decision, rng: np.random.Generator) -> float:
    seen = ENV.pull(decision.action, rng)
    study.tell(decision.id, reward=seen.reward, observed=seen.parents)
    return seen.reward


def all_is_well(study: cb.Study) -> None:
    assert study.verify()
    assert all(study.replay(k) for k in range(study.n_decisions))


def test_a_unit_gets_its_action_again_in_decisions_of_its_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with new(tmp_path) as study:
        first = {f"v{k}": study.ask(unit=f"v{k}", key=f"v{k}/0") for k in range(12)}
        assert len({cb.Intervention(decision.action) for decision in first.values()}) > 5
        for exposure in (1, 2):
            for unit, decision in first.items():
                again = study.ask(unit=unit, key=f"{unit}/{exposure}")
                assert again.action == decision.action
                assert again.propensity == 1.0
                assert again.id != decision.id
                tell(study, again, rng)
        assert (study.n_decisions, study.n_outcomes) == (36, 24)
        assert study.explain("v3/2")["repeats"] == study.explain("v3/1")["number"]
        assert (study.explain("v3/0")["unit"], study.explain("v3/0")["repeats"]) == ("v3", None)
        all_is_well(study)


def test_a_repeated_outcome_teaches_as_any_other(tmp_path: Path) -> None:
    with new(tmp_path) as study, cb.Study.create(tmp_path / "plain.db", PROBLEM, POLICY, seed=1) as plain:
        decision = study.ask(unit="v")
        again = study.ask(unit="v")
        for here, ids in ((study, (decision.number, again.number)), (plain, (plain.ask().number, None))):
            seen = {"subject": "short", "template": "1", "send_time": decision.action.get("send_time", "morning")}
            here.tell(ids[0], reward=1, observed=seen)
            if ids[1] is None:
                ids = (0, plain.ask(eligible=[decision.action]).number)
            here.tell(ids[1], reward=0, observed=seen)
        assert study.state_hash() == plain.state_hash()


def test_a_unit_is_decided_anew_where_its_action_may_not_be_chosen(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        morning, evening = {"send_time": "morning"}, {"send_time": "evening"}
        assert study.ask(unit="v", eligible=[morning]).action == morning
        moved = study.ask(unit="v", eligible=[evening, {"purpose": "Promo"}])
        assert moved.action != morning
        assert study.explain(moved.id)["repeats"] is None
        assert study.ask(unit="v").action == moved.action  # the latest action is the unit's
        assert study.ask(unit="w", eligible=[morning]).action == morning
        all_is_well(study)


def test_a_constraint_that_binds_in_a_context_is_kept_for_units_too(tmp_path: Path) -> None:
    model = cb.CausalModel(
        [
            cb.Variable("segment", ["new", "old"], table=[0.5, 0.5]),
            cb.Variable("offer", ["none", "big"], table=[0.5, 0.5]),
            cb.Variable(
                "complaint", ["no", "yes"], parents=["segment", "offer"], table=[[[1, 0], [1, 0]], [[1, 0], [0.5, 0.5]]]
            ),
        ]
    )
    limits = {"complaint": {"yes": 0.1}}
    problem = cb.Problem(
        model,
        manipulable=["offer"],
        reward_parents=["complaint", "offer"],
        context=["segment"],
        optional=False,
        max_probability=limits,
    )
    with cb.Study.create(tmp_path / "c.db", problem, "uniform", seed=1) as study:
        units = [f"v{k}" for k in range(10)]
        offers = {unit: study.ask(unit=unit, context={"segment": "new"}).action for unit in units}
        assert {"offer": "big"} in offers.values()
        for unit in units:
            assert study.ask(unit=unit, context={"segment": "old"}).action == {"offer": "none"}
        all_is_well(study)


def test_what_a_unit_never_saw_is_not_repeated(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        morning = [{"send_time": "morning"}]
        seen = study.ask(unit="v", eligible=[{"send_time": "evening"}])
        cancelled = study.ask(unit="v", eligible=morning)
        assert cancelled.action == morning[0]
        study.cancel(cancelled.id)
        assert study.ask(unit="v").action == seen.action
        study.set_mode("shadow", baseline={"send_time": "afternoon"})
        assert study.ask(unit="v").action == study.ask(unit="w").action == {"send_time": "afternoon"}
        study.set_mode("online")
        assert study.ask(unit="v").action == seen.action
        assert study.explain(study.ask(unit="w").id)["repeats"] is None
        all_is_well(study)


def test_without_stickiness_every_decision_of_a_unit_is_drawn(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        drawn = [study.ask(unit="v", sticky=False) for _ in range(20)]
        assert len({cb.Intervention(decision.action) for decision in drawn}) > 3
        assert study.ask(unit="v").action == drawn[-1].action
        all_is_well(study)


def test_keys_and_units_keep_apart(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        decision = study.ask(unit="v", key="a")
        assert study.ask(unit="v", key="a") == decision
        for other in ({"unit": "w"}, {}, {"unit": "v", "sticky": False}):
            with pytest.raises(ConflictError, match="idempotency key"):
                study.ask(key="a", **other)
        with pytest.raises(CausalBanditsError, match="A unit receives one decision"):
            study.ask(3, unit="v")
        for wrong in ("", "x" * 201, "a\nb", 5):
            with pytest.raises(StateError, match="A unit must be printable text"):
                study.ask(unit=wrong)  # type: ignore[call-overload]
        with pytest.raises(StateError, match="sticky must be True or False"):
            study.ask(unit="v", sticky="no")  # type: ignore[call-overload]
        assert study.n_decisions == 1


def test_a_second_outcome_for_one_key_explains_what_a_key_is(tmp_path: Path) -> None:
    with new(tmp_path) as study:
        seen = {"subject": "short", "template": "1", "send_time": "morning"}
        study.ask(key="visitor-17", eligible=[{"send_time": "morning"}])
        study.tell("visitor-17", reward=1, observed=seen)
        with pytest.raises(ConflictError, match="one idempotency key for each exposure, and unit"):
            study.tell("visitor-17", reward=0, observed=seen)
        (receipt,) = study.tell_many([{"id": "visitor-17", "observed": seen, "reward": 0}])
        assert (receipt.status, "one idempotency key for each exposure" in receipt.why) == ("conflict", True)


def test_many_processes_and_threads_agree_on_a_units_action(tmp_path: Path) -> None:
    new(tmp_path, holdout=0.3, baseline=BASELINE).close()
    script = (
        "import sys, json, causalbandits as cb\n"
        "study = cb.Study.open(sys.argv[1])\n"
        "print(json.dumps([[f'v{k}', dict(study.ask(unit=f'v{k}', key=f'{sys.argv[2]}/{k}').action)]"
        " for k in range(15)]))"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "study.db")]
    running = [subprocess.Popen([*command, str(k)], stdout=subprocess.PIPE, text=True) for k in range(2)]
    found: list[Any] = []

    def ask() -> None:
        with cb.Study.open(tmp_path / "study.db") as study:
            found.extend([f"v{k}", dict(study.ask(unit=f"v{k}").action)] for k in range(15))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for process in running:
        found += json.loads(process.communicate(timeout=60)[0])
    assert len(found) == 75
    by_unit = {
        unit: {json.dumps(action, sort_keys=True) for name, action in found if name == unit} for unit, _ in found
    }
    assert all(len(actions) == 1 for actions in by_unit.values())
    with cb.Study.open(tmp_path / "study.db") as study:
        assert study.n_decisions == 75
        all_is_well(study)


def test_evaluation_leaves_repeated_decisions_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with new(tmp_path, "uniform") as study, study.together():
        study.set_mode("uniform")
        for k in range(400):
            reward = tell(study, study.ask(unit=f"v{k}"), rng)
            for _ in range(4 if reward else 0):  # those who were pleased come back, with their action
                tell(study, study.ask(unit=f"v{k}"), rng)
        repeats = study.n_outcomes - 400
        assert repeats > 300
        for by in ("configurations", "actions"):
            found = study.evaluate(BASELINE, by=by)  # type: ignore[arg-type]
            assert found.outcomes + found.left_out == study.n_outcomes
            assert found.left_out == repeats
        assert study.evaluate("logged").outcomes == study.n_outcomes
        exported = study.export(tmp_path / "log.dsjson")
        assert (exported.decisions, exported.repeated) == (400, repeats)
        assert "that repeat an earlier decision of the unit" in str(exported)


def test_a_share_of_units_is_the_control_group_in_every_process(tmp_path: Path) -> None:
    with new(tmp_path, holdout=0.2, baseline=BASELINE) as study, study.together():
        for k in range(300):
            study.ask(unit=f"v{k}")
        explained = list(study._log.decisions())
    arms = {row.unit: row.arm for row in explained}
    assert 35 < Counter(arms.values())["control"] < 90
    for row in explained:
        assert (row.arm == "control") <= (dict(row.choice.action.intervention) == BASELINE)
    other = cb.Study.create(tmp_path / "other.db", PROBLEM, POLICY, seed=1, holdout=0.2, baseline=BASELINE)
    with other, cb.Study.open(tmp_path / "study.db") as study:
        for k in reversed(range(300)):
            if k % 10 == 0:
                assert study.explain(study.ask(unit=f"v{k}").id)["arm"] == arms[f"v{k}"]
                assert other.explain(other.ask(unit=f"v{k}").id)["arm"] == arms[f"v{k}"]
        assert study.explain(0)["unit"] == "v0"
        assert study.verify()
        assert all(study.replay(k) for k in range(280, 330))
    differ = cb.Study.create(tmp_path / "differ.db", PROBLEM, POLICY, seed=2, holdout=0.2, baseline=BASELINE)
    with differ, differ.together():
        for k in range(50):
            differ.ask(unit=f"v{k}")
        assert {row.unit: row.arm for row in differ._log.decisions()} != {f"v{k}": arms[f"v{k}"] for k in range(50)}


def test_keys_and_decisions_are_assigned_where_there_is_no_unit(tmp_path: Path) -> None:
    with new(tmp_path, holdout=0.5, baseline=BASELINE) as study:
        study.ask(40)
        study.ask(40, key="batch")
        arms = [row.arm for row in study._log.decisions()]
        assert 8 < arms[:40].count("control") < 32
        assert 8 < arms[40:].count("control") < 32
        assert study.ask(40, key="batch")[0].number == 40
        all_is_well(study)


def test_propensities_of_both_arms_are_those_of_the_mixture(tmp_path: Path) -> None:
    share, floor = 0.25, 0.2
    with new(tmp_path, holdout=share, baseline=BASELINE, min_propensity=floor) as study:
        baseline = study.problem.actions.find(BASELINE)
        size, counts, weights = study.problem.actions.size, Counter[str](), []
        with study.together():
            study.ask(600)
        for row in study._log.decisions():
            assert row.mixture is not None
            propensities = dict(row.mixture.support())
            assert len(propensities) == size
            assert sum(propensities.values()) == pytest.approx(1)
            inner = row.mixture._replace(holdout=0.0, baseline=None).support()
            for action, inner_share in inner:
                expected = (1 - share) * inner_share + share * (action == baseline)
                assert propensities[action] == pytest.approx(expected)
            assert row.choice.propensity == propensities[row.choice.action]
            weights.append(row.choice.propensity and 1 / (size * row.choice.propensity))
            counts[str(row.arm)] += 1
        assert 100 < counts["control"] < 200
        # The mean of q(a) / p(a) is 1 for every q, here the uniform one, if the logged p are true.
        error = np.std(weights) / np.sqrt(len(weights))
        assert abs(np.mean(weights) - 1) < 4 * error
        assert error < 0.2
        assert all(study.replay(k) for k in range(0, 600, 20))


def test_a_unit_whose_arm_is_known_is_not_drawn_again(tmp_path: Path) -> None:
    with new(tmp_path, holdout=0.5, baseline=BASELINE) as study:
        for k in range(10):
            study.ask(unit=f"v{k}")
        for k in range(10):
            study.ask(unit=f"v{k}", sticky=False)
        rows = list(study._log.decisions())
        for first, again in zip(rows[:10], rows[10:], strict=True):
            assert first.arm == again.arm
            assert first.mixture is not None
            assert first.mixture.holdout == 0.5
            if again.arm == "control":
                assert (again.repeats, again.choice.propensity) == (first.number, 1.0)
                assert first.would is not None
            else:
                assert (again.repeats, again.mixture) == (None, None)  # the policy alone
                assert again.choice.propensity in {k / 8 for k in range(1, 9)}
        all_is_well(study)


def test_evaluation_uses_both_arms_and_finds_the_truth(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    with new(tmp_path, "c-ucb", holdout=0.5, baseline=BASELINE) as study, study.together():
        for k in range(400):
            tell(study, study.ask(key=f"e{k}"), rng)
        found = study.evaluate(BASELINE)
        truth = ENV.value(BASELINE)
        estimate = found.estimates["ips"]
        assert estimate is not None
        assert found.outcomes == 400
        assert estimate.low < truth < estimate.high
        assert estimate.high - estimate.low < 0.5


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({"holdout": 0.1}, StateError, "holdout and baseline belong together"),
        ({"baseline": BASELINE}, StateError, "holdout and baseline belong together"),
        ({"holdout": 1.0, "baseline": BASELINE}, StateError, "less than 1; got 1.0"),
        ({"holdout": -0.1, "baseline": BASELINE}, StateError, "0 or more"),
        ({"holdout": 0.1, "baseline": {"send_time": "noon"}}, CausalBanditsError, "noon"),
        ({"holdout": 0.1, "baseline": BASELINE, "budget": Budget(1, 10)}, BudgetError, "holdout= and budget= exclude"),
    ],
)
def test_a_control_group_that_cannot_be_is_refused(
    tmp_path: Path, rules: dict[str, Any], error: type[Exception], message: str
) -> None:
    problem = cb.Problem(
        PROBLEM.model,
        manipulable=PROBLEM.manipulable,
        reward_parents=PROBLEM.parents,
        costs={"product": 0.1},
        optional=True,
    )
    with pytest.raises(error, match=message):
        new(tmp_path, problem=problem, **rules)
    assert not (tmp_path / "study.db").exists()


def test_a_question_without_the_baseline_is_refused_in_both_arms(tmp_path: Path) -> None:
    with new(tmp_path, holdout=0.5, baseline=BASELINE) as study:
        for k in range(12):
            with pytest.raises(InterventionError, match="Add the action to the eligible actions"):
                study.ask(unit=f"v{k}", eligible=[{"send_time": "morning"}])
        assert study.n_decisions == 0


def test_in_the_shadow_nobody_is_in_an_arm(tmp_path: Path) -> None:
    with new(tmp_path, holdout=0.5, baseline=BASELINE) as study:
        study.set_mode("shadow", baseline={"send_time": "evening"})
        for k in range(6):
            assert study.ask(unit=f"v{k}").action == {"send_time": "evening"}
        assert {row.arm for row in study._log.decisions()} == {None}
        for mode in ("uniform", "frozen"):
            study.set_mode(mode)  # type: ignore[arg-type]
            for k in range(6):
                study.ask(unit=f"v{k}{mode}")
        assert {row.arm for row in study._log.decisions("number >= 6")} == {"control", "treated"}
        all_is_well(study)


def cluster_interval(values: dict[str, list[float]]) -> tuple[float, float]:
    """The mean and its standard error, from residuals, unit by unit."""
    rewards = np.concatenate([np.array(own) for own in values.values()])
    residuals = np.array([sum(own) - rewards.mean() * len(own) for own in values.values()])
    size = len(values)
    return float(rewards.mean()), float(np.sqrt(size / (size - 1) * (residuals**2).sum()) / len(rewards))


def test_the_report_compares_the_arms_and_follows_corrections(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    with new(tmp_path, holdout=0.4, baseline=BASELINE) as study, cb.Study.open(tmp_path / "study.db") as other:
        empty = study.report().holdout
        assert empty is not None
        assert (empty.difference, empty.control.n) == (None, 0)
        assert "fewer than two units of the arm 'control' have an outcome" in repr(study.report())
        rewards: dict[str, dict[str, list[float]]] = {"control": {}, "treated": {}}
        for k in range(90):
            decision = (study, other)[k % 2].ask(unit=f"v{k % 50}")
            seen = ENV.pull(decision.action, rng)
            study.tell(decision.id, reward=1 - seen.reward if k % 7 == 0 else seen.reward, observed=seen.parents)
            if k % 7 == 0:
                other.correct(decision.id, reward=seen.reward, observed=seen.parents)
            if k == 20:
                study.report()
            if k % 11 == 0:
                other.retract(decision.id)
                continue
            rewards[study.explain(decision.id)["arm"]].setdefault(f"v{k % 50}", []).append(seen.reward)
        found = study.report().holdout
        assert found is not None
        assert found == other.report().holdout
        with cb.Study.open(tmp_path / "study.db") as fresh:
            assert fresh.report().holdout == found
        errors = []
        for arm, summary in (("control", found.control), ("treated", found.treated)):
            mean, error = cluster_interval(rewards[arm])
            errors.append(error)
            assert summary.n == sum(map(len, rewards[arm].values()))
            assert summary.units == len(rewards[arm])
            assert summary.mean == pytest.approx(mean)
            assert summary.lower is not None
            assert summary.upper is not None
            assert summary.lower < mean - 1.96 * error < mean + 1.96 * error < summary.upper
        assert found.difference is not None
        assert found.control.mean is not None
        assert found.treated.mean is not None
        assert found.difference.mean == pytest.approx(found.treated.mean - found.control.mean)
        assert found.difference.upper - found.difference.lower > 2 * 1.96 * np.hypot(*errors)
        assert "clustered by unit" in repr(study.report())
        assert json.loads(json.dumps(study.report().to_record()))["holdout"]["control"]["n"] == found.control.n
        counts = study.counts()
        assert counts["control_outcomes"] == found.control.n
        assert counts["treated_reward_sum"] == pytest.approx(found.treated.n * found.treated.mean)


def test_arms_are_compared_by_reward_less_cost(tmp_path: Path) -> None:
    costs = {"product": {"Photoshop": 0.5}}
    problem = cb.Problem(
        PROBLEM.model, manipulable=PROBLEM.manipulable, reward_parents=PROBLEM.parents, costs=costs, optional=True
    )
    baseline = {"product": "Photoshop", "send_time": "morning"}
    rng = np.random.default_rng(5)
    with new(tmp_path, problem=problem, holdout=0.5, baseline=baseline) as study, study.together():
        study.report()  # from here on the sums are kept up to date, and not read from the log
        net: dict[str, list[float]] = {"control": [], "treated": []}
        rewards: dict[str, list[float]] = {"control": [], "treated": []}
        for _ in range(300):
            decision = study.ask()
            arm = study.explain(decision.id)["arm"]
            reward = tell(study, decision, rng) if rng.random() < 0.9 else 0.0
            study.correct(decision.id, reward=reward) if study.status(decision.id) == "told" else study.tell(
                decision.id, reward=reward
            )
            rewards[arm].append(reward)
            net[arm].append(reward - problem.cost(decision.action))
        found = study.report().holdout
        assert found is not None
        assert (found.measure, found.difference is not None) == ("reward less cost", True)
        assert found.control.mean == pytest.approx(np.mean(net["control"]))
        assert found.treated.mean == pytest.approx(np.mean(net["treated"]))
        assert found.difference is not None
        assert found.difference.mean == pytest.approx(np.mean(net["treated"]) - np.mean(net["control"]))
        assert found.rewards is not None
        assert found.rewards.treated.mean == pytest.approx(np.mean(rewards["treated"]))
        counts = study.counts()
        assert counts["control_cost_sum"] == pytest.approx(0.5 * len(net["control"]))
        assert "difference of reward less cost: " in str(found)
        assert "without costs, difference: " in str(found)
    with cb.Study.open(tmp_path / "study.db") as again:
        assert again.report().holdout == found


def test_rewards_that_are_all_the_same_have_no_interval() -> None:
    arms = Arms(has_costs=False)
    for k in range(50):
        arms.change("control", f"v{k}", 0, 0.0, 1)
        arms.change("treated", None, to_fixed_point(k % 2), 0.0, 1)
    found = compare_arms(arms, 0.5, BASELINE)
    assert (found.control.mean, found.control.lower, found.difference) == (0.0, None, None)
    assert "all units of the arm 'control' have the same mean reward so far" in str(found)


def test_the_interval_covers_the_difference_where_units_differ() -> None:
    covered, naive, rng, replications = 0, 0, np.random.default_rng(0), 400
    for _ in range(replications):
        arms = Arms(has_costs=False)
        rewards: dict[str, list[float]] = {"control": [], "treated": []}
        for name, level in (("control", 0.3), ("treated", 0.4)):
            for unit in range(40):
                mean = level + rng.uniform(-0.3, 0.3)  # the unit's own
                for _ in range(int(rng.integers(1, 12))):
                    reward = float(rng.random() < mean)
                    rewards[name].append(reward)
                    arms.change(name, f"{unit}", to_fixed_point(reward), 0.0, 1)
        found = compare_arms(arms, 0.5, BASELINE).difference
        assert found is not None
        covered += found.lower <= 0.1 <= found.upper
        width = 1.96 * np.sqrt(sum(np.var(own) / len(own) for own in rewards.values()))
        naive += abs(found.mean - 0.1) <= width
    assert covered / replications > 0.925
    assert naive < covered  # outcomes of a unit are not independent


def test_the_policy_learns_from_both_arms(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with new(tmp_path, holdout=0.5, baseline=BASELINE) as study:
        for k in range(20):
            tell(study, study.ask(key=f"e{k}"), rng)
        assert sum(line["n"] for line in study.lines()) == 20 == study.n_outcomes
        assert int(study.statistic.count.sum()) == 20


def test_over_http_from_a_client_and_on_the_command_line(tmp_path: Path) -> None:
    running = Served(build_service([], directory=tmp_path))
    try:
        body = {"name": "shop", "problem": spec_of(PROBLEM), "seed": 1, "holdout": 0.5, "baseline": BASELINE}
        assert running.send("POST", "/v1/studies", body)[0] == 201
        assert running.send("POST", "/v1/studies", {**body, "name": "b", "baseline": None})[0] == 422
        status, first = running.send("POST", "/v1/studies/shop/decisions", {"unit": "v1", "key": "a"})
        assert status == 201
        status, again = running.send("POST", "/v1/studies/shop/decisions", {"unit": "v1", "key": "b"})
        assert (again["action"], again["propensity"]) == (first["action"], 1.0)
        assert running.send("POST", "/v1/studies/shop/decisions", {"unit": "v2", "key": "a"})[0] == 409
        rng = np.random.default_rng(0)
        with cb.connect(f"http://127.0.0.1:{running.port}/shop") as client:
            assert client.ask(unit="v1").action == first["action"]
            assert client.ask(unit="v1", sticky=False).number == 3
            for k in range(40):
                tell(client, client.ask(unit=f"w{k}"), rng)
            compared = client.report()["holdout"]
            assert compared["control"]["n"] + compared["treated"]["n"] == 40
            assert compared["difference"]["lower"] < compared["difference"]["mean"]
        text = running.fetch("GET", "/metrics")[2]
        assert f'causalbandits_control_outcomes{{study="shop"}} {float(compared["control"]["n"])}' in text
        page = running.fetch("GET", "/shop")[2]
        assert "Control group" in page
        assert "Difference of reward (treated − control)" in page
    finally:
        running.stop()

    def run(*arguments: str) -> Any:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, done.output
        return done.output

    file = str(tmp_path / "cli.db")
    options = ["--holdout", "0.5", "--baseline", "purpose=Promo", "--baseline", "send_time=morning", "--seed", "1"]
    run("study", "create", "email_campaign", "--to", file, *options)
    first = json.loads(run("ask", file, "--unit", "v1", "--key", "a"))
    assert json.loads(run("ask", file, "--unit", "v1"))["action"] == first["action"]
    assert json.loads(run("ask", file, "--unit", "v1", "--no-sticky"))["id"].startswith("d2-")
    assert "control: 0 outcomes" in run("study", "report", file)
