"""The regret benchmark: its file, its worlds, what it plays and keeps, and what it says."""

from __future__ import annotations

import csv
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.engine.driver import ENVIRONMENT, stream
from causalbandits_bench import decision_cost, policy_code, regret
from causalbandits_bench.decision_cost import Cost, decision_costs
from causalbandits_bench.oracle_policy import oracle_thompson
from causalbandits_bench.policy_code import code_of_policy
from causalbandits_bench.random_numbers import LAWS, draw
from causalbandits_bench.regret import Benchmark, Tail, play_benchmark, read_benchmark, regrets_so_far, tail_of
from causalbandits_bench.regret_report import compare_default, read_regret, tails_of, with_error, write_regret
from causalbandits_bench.world_sets import set_from
from oracles.policies import POLICIES
from run import app

SMALL = {"horizon": 60, "replications": 5}


@pytest.fixture(scope="module")
def shipped():
    return read_benchmark(**SMALL)


def worlds(given, count=5, **more):
    made = set_from("mine", {**given, **more}, Path())
    return [made(np.random.default_rng(seed)) for seed in range(count)]


def written(folder, text):
    path = folder / "my.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_was_played_so_far_is_reported_and_nothing_is_played(shipped, tmp_path, monkeypatch):
    some = shipped.only(["Figure 2", "e-mail"], ["c-ts(scales=given)", "c-ucb"])
    with pytest.raises(cb.CausalBanditsError, match="leave --played out"):
        regrets_so_far(some, tmp_path)
    monkeypatch.setattr(regret, "PLAYED_AT_ONCE", 2)
    whole = play_benchmark(some.only(["e-mail"], ["c-ucb"]), tmp_path)["e-mail"]["c-ucb"]
    *_, last = sorted(tmp_path.iterdir(), key=lambda path: int(path.stem.split("-")[-1]))
    last.unlink()
    monkeypatch.setattr(regret, "simulate", None)
    found = regrets_so_far(some, tmp_path)
    assert {name: list(by) for name, by in found.items()} == {"e-mail": ["c-ucb"]}
    assert found["e-mail"]["c-ucb"].tolist() == whole[:4].tolist()


def test_what_other_code_of_a_policy_played_is_played_again(shipped, tmp_path, monkeypatch):
    some = shipped.only(["Figure 2"], ["c-ucb"])
    play_benchmark(some, tmp_path)
    before = set(tmp_path.iterdir())
    monkeypatch.setattr(regret, "code_of_policy", lambda kind: "edited")
    play_benchmark(some, tmp_path)
    assert len(set(tmp_path.iterdir()) - before) == len(before)


def test_the_code_of_a_policy_is_its_own_and_of_what_it_imports():
    gittins, screen, thompson = (
        code_of_policy(kind) for kind in (cb.policies.CausalGittins, cb.policies.CausalScreen, cb.policies.CausalUCB)
    )
    assert gittins == screen != thompson
    assert "causalbandits.policies.cells.gittins" in policy_code.modules_of(cb.policies.CausalGittins)
    assert "causalbandits.policies.cells.gittins" not in policy_code.modules_of(cb.policies.CausalUCB)
    assert "causalbandits.policies.posteriors.index_functions" in policy_code.modules_of(cb.policies.CausalUCB)


def test_every_policy_is_in_the_benchmark(shipped):
    assert {*POLICIES, "told"} <= set(shipped.players)
    assert len(shipped.sets) >= 9


def test_every_set_makes_worlds_that_every_policy_that_fits_can_play(shipped, tmp_path):
    fast = [name for name, own in shipped.players.items() if own.most is None or own.most > 60]
    found = play_benchmark(replace(shipped.only([], fast), horizon=20), tmp_path)
    assert set(found) == set(shipped.sets)
    for by_policy in found.values():
        assert {"told", "c-ts(scales=given)", "c-ucb", "uniform"} <= set(by_policy)
        assert all(np.isfinite(own).all() and (own >= -1e-9).all() for own in by_policy.values())
    assert "c-ts(prior=beta)" in found["e-mail"]
    assert "c-ts(prior=beta)" not in found["Figure 2"]


def test_regret_is_what_simulate_says_of_the_same_worlds(shipped, tmp_path):
    found = play_benchmark(shipped.only(["e-mail"], ["c-ucb", "c-ts(prior=beta)"]), tmp_path)["e-mail"]
    run = cb.simulate(shipped.sets["e-mail"], ["c-ts(prior=beta)", "c-ucb"], seed=0, **SMALL)
    for policy in run.policies:
        assert found[policy].tolist() == run.regret(policy)[:, -1].tolist()


def test_workers_change_no_number_and_what_was_played_is_not_played_again(shipped, tmp_path, monkeypatch):
    some = shipped.only(["Figure 2", "rare prize"], ["told", "c-ts(scales=given)"])
    one, two = play_benchmark(some, tmp_path / "one", 1), play_benchmark(some, tmp_path / "two", 2)
    monkeypatch.setattr(regret, "simulate", None)
    again = play_benchmark(some, tmp_path / "one")
    for name, by in one.items():
        for policy, own in by.items():
            assert own.tolist() == two[name][policy].tolist() == again[name][policy].tolist()


def test_an_interrupted_run_goes_on_where_it_was(shipped, tmp_path, monkeypatch):
    monkeypatch.setattr(regret, "PLAYED_AT_ONCE", 2)
    some, seen, real = shipped.only(["e-mail"], ["c-ucb"]), [], cb.simulate

    def failing(*args, replications, **more):
        seen.append(replications)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(*args, replications=replications, **more)

    monkeypatch.setattr(regret, "simulate", failing)
    with pytest.raises(KeyboardInterrupt):
        play_benchmark(some, tmp_path)
    found = play_benchmark(some, tmp_path)["e-mail"]["c-ucb"]
    assert seen == [range(0, 2), range(2, 4), range(2, 4), range(4, 5)]
    assert found.tolist() == play_benchmark(some, tmp_path / "other")["e-mail"]["c-ucb"].tolist()


def test_other_settings_never_meet_old_results(tmp_path):
    base = written(tmp_path, 'alone = true\n[sets.a]\nzoo = "figure2"\n[policies]\nc-ucb = {}\n')
    first = play_benchmark(read_benchmark(base, **SMALL), tmp_path / "kept")["a"]["c-ucb"]
    written(tmp_path, 'alone = true\n[sets.a]\nzoo = "figure2"\nreward = { sd = 1 }\n[policies]\nc-ucb = {}\n')
    noisy = play_benchmark(read_benchmark(base, **SMALL), tmp_path / "kept")["a"]["c-ucb"]
    written(tmp_path, 'alone = true\n[sets.a]\nzoo = "figure2"\n[policies]\nc-ucb = { noise_scale = 0.1 }\n')
    tuned = play_benchmark(read_benchmark(base, **SMALL), tmp_path / "kept")["a"]["c-ucb"]
    assert len({tuple(own) for own in (first, noisy, tuned)}) == 3


def test_results_are_found_again_under_another_name_and_in_another_place(tmp_path):
    given = {"zoo": "figure2", "reward": {"sd": {"uniform": [0, 1]}}}
    one, two = set_from("a", given, Path()), set_from("b", given, tmp_path)
    assert one.fingerprint == two.fingerprint
    assert one.fingerprint != set_from("a", {**given, "shuffle": False}, Path()).fingerprint
    some = read_benchmark(**SMALL).only(["e-mail"], ["c-ucb", "told"])
    for policy in some.players:
        first = play_benchmark(replace(some.only([], [policy]), sets={"a": one}), tmp_path)["a"][policy]
        kept = set(tmp_path.iterdir())
        again = play_benchmark(replace(some.only([], [policy]), sets={"b": two}), tmp_path)["b"][policy]
        assert first.tolist() == again.tolist()
        assert set(tmp_path.iterdir()) == kept


def test_a_policy_may_be_played_less_often(tmp_path):
    path = written(tmp_path, 'alone = true\n[sets.a]\nzoo = "figure2"\n[policies]\nucb = { replications = 3 }\n')
    assert len(play_benchmark(read_benchmark(path, **SMALL), tmp_path)["a"]["ucb"]) == 3


def test_a_file_adds_to_what_is_shipped_or_stands_alone(tmp_path, shipped):
    text = (
        '[sets.mine]\nzoo = "figure2"\n[simulation]\nseed = 7\n[policies]\n'
        'quiet = { policy = "c-ucb", noise_scale = 1 }\n'
    )
    more = read_benchmark(written(tmp_path, text), **SMALL)
    assert list(more.sets) == [*shipped.sets, "mine"]
    assert list(more.players) == [*shipped.players, "quiet"]
    assert (more.seed, more.horizon) == (7, 60)
    alone = read_benchmark(written(tmp_path, f"alone = true\n{text}"))
    assert (list(alone.sets), list(alone.players), alone.replications) == (["mine"], ["quiet"], 600)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[set.a]", "Unknown entry of a benchmark: 'set'. Did you mean 'sets'?"),
        ("alone = 3", "alone must be true or false; got 3"),
        ("alone = true", r"needs tables \[sets\] and \[policies\]"),
        ("sets = 3", r"\[sets\] must be a table; got 3"),
        ("[sets]\na = 3", r'\[sets."a"\] must be a table'),
        (
            '[sets.a]\nzoo = "figure3"',
            r"\[sets\..a.\]: Unknown example environment: 'figure3'\. Did you mean 'figure2'\?",
        ),
        ('[sets.a]\nzoo = "figure2"\nshuffle = 1', "shuffle true or false; got"),
        ('[sets.a]\nzoo = "figure2"\nreward = { sdd = 1 }', "Unknown entry of reward: 'sdd'. Did you mean 'sd'"),
        ('[sets.a]\nzoo = "figure2"\nreward = { kind = "linear" }', "A reward must have a kind, one of 'bernoulli'"),
        ('[sets.a]\nzoo = "figure2"\nreward = { sd = -1 }', r"""\[sets."a"\]: sd must be a finite number"""),
        ('[sets.a]\nzoo = "figure2"\nreward = { times = 0 }', "times must be a finite number, above 0; got 0"),
        ('[sets.a]\nzoo = "figure2"\nreward = { plus = "x" }', "plus must be a finite number; got 'x'"),
        ('[sets.a]\nzoo = "figure2"\nreward = { mean = { normal = [0, -1] } }', "What is drawn is one of"),
        ('[sets.a]\nzoo = "figure2"\nreward = { sd = { uniform = [1, 0] } }', "What is drawn is one of"),
        ('[sets.a]\nzoo = "figure2"\nreward = { mean = [1, 2] }', "The mean reward must have axes W1"),
        ('[sets.a]\nzoo = "email_campaign"\nreward = { times = 2 }', "Rewards that are 0 or 1 have no times or plus"),
        ('[sets.a]\nzoo = "figure2"\nmax_set = 1', "Only an environment without constraints"),
        ("[policies]\nc-ucbb = {}", "Unknown policy family 'c-ucbb'"),
        ("[policies]\nc-ucb = { replications = 1 }", "replications must be a whole number, 2 or more; got 1"),
        ("[policies]\ntold = 3", r"\[policies\] told"),
        ("[simulation]\nhorizon = 0", r"\[simulation\] horizon: expected a whole number, 1 or more"),
        ("[simulation]\nbudget = 3", "Unknown entry of .simulation.: 'budget'"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_the_way_out(tmp_path, text, message):
    with pytest.raises(cb.CausalBanditsError, match=message):
        read_benchmark(written(tmp_path, text))


@pytest.mark.parametrize("name", LAWS)
def test_what_is_drawn_is_of_its_law(name):
    """Quantiles of 4000 draws against the law's own: Kolmogorov's distance, a false alarm once in 10,000."""
    from scipy import stats

    law = {
        "uniform": stats.uniform(1, 2),
        "loguniform": stats.loguniform(1, 3),
        "normal": stats.norm(1, 3),
        "beta": stats.beta(1, 3),
    }[name]
    values = draw({name: [1, 3]}, np.random.default_rng(0), (4000,))
    assert stats.kstest(values, law.cdf).pvalue > 1e-4
    assert draw({name: [1, 3], "size": 2}, np.random.default_rng(0)).shape == (2,)
    assert isinstance(draw({name: [1, 3]}, np.random.default_rng(0)), float)


def test_knobs_are_shuffled_unless_the_file_says_otherwise():
    assert len({env.problem.manipulable for env in worlds({"zoo": "figure2"}, 20)}) > 5
    assert {env.fingerprint for env in worlds({"zoo": "figure2"}, shuffle=False)} == {cb.zoo.figure2().fingerprint}


def test_scales_and_offsets_leave_gaps_as_they_were_in_their_units():
    base = worlds({"zoo": "figure2"})
    for reward, times in (({"times": 100}, 100), ({"plus": 1000}, 1), ({"sd": 0}, 1)):
        for env, other in zip(base, worlds({"zoo": "figure2", "reward": reward}), strict=True):
            assert other.gaps() / times == pytest.approx(env.gaps(), abs=1e-10)
    assert worlds({"zoo": "figure2", "reward": {"times": 100}})[0].reward.sd == pytest.approx(10)
    assert set_from("a", {"zoo": "figure2", "reward": {"times": 100}}, Path()).unit == 100


def test_drawn_rewards_differ_from_world_to_world_and_come_again_with_their_seed():
    given = {
        "zoo": "random_parallel",
        "m": 2,
        "n": 2,
        "theta": {"normal": [0, 1], "size": 2},
        "reward": {"sd": {"loguniform": [0.1, 1]}},
    }
    once, again = worlds(given), worlds(given)
    assert [env.fingerprint for env in once] == [env.fingerprint for env in again]
    assert len({env.reward.sd for env in once}) == len(once)
    assert len({tuple(env.configuration_means) for env in once}) == len(once)


def test_told_knows_noise_and_prior():
    assert oracle_thompson(cb.zoo.figure2()).noise_scale == 0.1
    noisy = cb.Environment(cb.zoo.figure2().problem, cb.rewards.StudentReward(np.ones((2,) * 4), scale=0.2, degrees=4))
    assert oracle_thompson(noisy).noise_scale == pytest.approx(0.2 * 2**0.5)
    rates = worlds({"zoo": "email_campaign", "reward": {"mean": {"beta": [2, 50]}}}, 40)
    told = [oracle_thompson(env) for env in rates]
    share = np.mean([own.successes / (own.successes + own.failures) for own in told])
    assert share == pytest.approx(2 / 52, rel=0.2)
    for env in [
        *worlds({"zoo": "figure2", "reward": {"sd": 0, "mean": 0}}),
        *worlds({"zoo": "email_campaign", "reward": {"mean": 0}}),
    ]:
        assert cb.Agent(env.problem, oracle_thompson(env), seed=0).ask().action is not None


def test_tails_are_quantiles_and_shares():
    own = tail_of(np.arange(1, 1001, dtype=float))
    assert own.mean == 500.5
    assert own.standard_error == pytest.approx(np.sqrt(1000 * 1001 / 12 / 1000))
    assert (own.q90, own.q99, own.worst, own.above) == (pytest.approx(900.1), pytest.approx(990.01), 1000, 0.8)


@pytest.mark.parametrize(
    ("mean", "error", "shown"),
    [
        (24.678, 0.34, "24.68 (0.34)"),
        (3.1, 0, "3.10 (0.00)"),
        (428.7, 3.07, "429 (3)"),
        (0.0, float("nan"), "0.00 (nan)"),
    ],
)
def test_means_have_the_digits_that_their_errors_allow(mean, error, shown):
    assert with_error(regret.Tail(mean, error, 0, 0, 0, 0, 5)) == shown


def test_the_files_say_the_same(shipped, tmp_path):
    some = shipped.only(["e-mail", "equal means"], ["c-ts(prior=beta)", "c-ucb"])
    found = play_benchmark(some, tmp_path / "parts")
    write_regret(tmp_path, some, found, {"c-ucb": Cost(1.0, 2.0, 3.0, 4.0)})
    content = json.loads((tmp_path / "regret.json").read_text(encoding="utf-8"))
    tails = tails_of(found)
    assert content["sets"]["e-mail"]["c-ts(prior=beta)"] == tails["e-mail"]["c-ts(prior=beta)"]._asdict()
    lines = (tmp_path / "regret.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    assert {(row["set"], row["policy"]) for row in rows} == {
        ("e-mail", "c-ts(prior=beta)"),
        ("e-mail", "c-ucb"),
        ("equal means", "c-ucb"),
    }
    assert float(rows[0]["mean"]) == tails["e-mail"]["c-ts(prior=beta)"].mean
    page = (tmp_path / "regret.md").read_text(encoding="utf-8")
    assert f"| c-ts(prior=beta) | {with_error(tails['e-mail']['c-ts(prior=beta)'])} |  |" in page
    assert (tmp_path / "figures/regret.svg").exists()


def run_command(*arguments):
    env = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return CliRunner().invoke(app, [*arguments], env=env)


def test_the_command_plays_prints_and_writes(tmp_path):
    done = run_command(
        "regret",
        "--quick",
        "--only",
        "e-mail",
        "--policy",
        "c-ucb",
        "--workers",
        "1",
        "--repeats",
        "1",
        "--out",
        str(tmp_path),
    )
    assert done.exit_code == 0, done.output
    content = json.loads((tmp_path / "regret.json").read_text(encoding="utf-8"))
    assert content["sets"]["e-mail"]["c-ucb"]["replications"] == 10
    assert content["about"]["horizon"] == 500
    assert content["costs"]["c-ucb"]["agent (us)"] > 0
    assert f"{content['sets']['e-mail']['c-ucb']['mean']:.2f}" in done.output


def test_the_command_plays_a_policy_of_your_own(tmp_path):
    (tmp_path / "greedy_of_mine.py").write_text(
        "from causalbandits.policies import CausalUCB\n\n\nclass Greedy(CausalUCB):\n    id = 'mine'\n",
        encoding="utf-8",
    )
    path = written(tmp_path, '[policies]\nmine = { policy = "greedy_of_mine:Greedy", noise_scale = 0.01 }\n')
    chosen = ["--sets", str(path), "--only", "e-mail", "--policy", "mine", "--policy", "c-ucb"]
    done = run_command("regret", "--quick", *chosen, "--workers", "1", "--repeats", "1", "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    played = json.loads((tmp_path / "out" / "regret.json").read_text(encoding="utf-8"))["sets"]["e-mail"]
    assert set(played) == {"mine", "c-ucb"}
    assert played["mine"]["mean"] != played["c-ucb"]["mean"]
    again = run_command("regret", "--played", "--quick", *chosen, "--out", str(tmp_path / "out"))
    assert again.exit_code == 0, again.output
    assert f"{played['mine']['mean']:.2f}" in again.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["regret", "--quick", "--replications", "5"], "Give --quick or --replications, not both"),
        (["regret", "--costs", "--quick"], "--costs times decisions and plays nothing: leave out --quick"),
        (["regret", "--only", "e-mal"], "Unknown set of the benchmark: 'e-mal'. Did you mean 'e-mail'"),
        (["regret", "--policy", "c-ubc"], "Unknown policy of the benchmark: 'c-ubc'. Did you mean 'c-ucb'"),
    ],
)
def test_the_command_refuses_what_does_not_fit_together(arguments, message):
    done = run_command(*arguments)
    assert isinstance(done.exception, cb.CausalBanditsError)
    assert re.search(message, str(done.exception))


def test_a_benchmark_names_what_it_plays(shipped):
    assert isinstance(shipped, Benchmark)
    unit = shipped.playing(shipped.sets["low rates"])
    assert "c-ts(prior=beta)" in unit
    assert shipped.sets["low rates"](stream(0, 0, ENVIRONMENT)).configuration_means.max() <= 0.05


def test_who_learns_tables_is_timed_without_them_and_who_guards_with_outcomes_that_fit(shipped):
    with warnings.catch_warnings(action="error"):
        found = decision_costs(shipped.only([], ["c-ts(prior=beta, cpts=learned)", "c-ts-guarded(prior=beta)"]), 1)
    assert all(cost.agent_us > 0 for cost in found.values())
    assert found["c-ts(prior=beta, cpts=learned)"].engine_ns > 0


def test_costs_are_those_beside_c_ts_timed_in_turn(shipped, monkeypatch):
    seconds = {"own agent": 6e-6, "agent": 3e-6, "own engine": 5e-9, "engine": 2e-9}
    monkeypatch.setattr(decision_cost, "side_by_side", lambda tasks, repeats: {name: seconds[name] for name in tasks})
    found = decision_costs(shipped.only([], ["c-ucb", "c-ids(prior=beta)"]), 1)
    assert found["c-ucb"] == pytest.approx(Cost(5.0, 6.0, 2.5, 2.0))
    assert found["c-ids(prior=beta)"] == (None, pytest.approx(6.0), None, pytest.approx(2.0))


def test_costs_are_written_into_what_was_played_before(shipped, tmp_path):
    some = shipped.only(["e-mail"], ["c-ts(prior=beta)", "c-ids(prior=beta)"])
    found = {"e-mail": {"c-ts(prior=beta)": np.arange(3.0), "c-ids(prior=beta)": np.arange(4.0)}}
    write_regret(tmp_path, some, found, {"c-ids(prior=beta)": Cost(None, 2.0, None, 4.0)})
    before = json.loads((tmp_path / "regret.json").read_text(encoding="utf-8"))
    done = run_command("regret", "--costs", "--policy", "c-ts(prior=beta)", "--repeats", "1", "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    after = json.loads((tmp_path / "regret.json").read_text(encoding="utf-8"))
    assert (after["about"], after["sets"]) == (before["about"], before["sets"])
    assert after["costs"]["c-ids(prior=beta)"] == before["costs"]["c-ids(prior=beta)"]
    assert all(number > 0 for number in after["costs"]["c-ts(prior=beta)"].values())
    page = (tmp_path / "regret.md").read_text(encoding="utf-8")
    assert "| c-ids(prior=beta) |  | 2 |  | 4.0 |" in page
    assert f"| c-ts(prior=beta) | {after['costs']['c-ts(prior=beta)']['engine (ns)']:.0f} |" in page


def test_costs_without_anything_played_are_refused_with_the_way_out(tmp_path):
    done = run_command("regret", "--costs", "--out", str(tmp_path))
    assert isinstance(done.exception, cb.CausalBanditsError)
    assert "leave --costs out to play it" in str(done.exception)


def test_an_update_keeps_the_other_policies_and_says_what_was_played_again(shipped, tmp_path):
    some = shipped.only(["Figure 2"], ["c-ts(scales=given)", "c-ucb"])
    found = {"Figure 2": {"c-ts(scales=given)": np.array([1.0, 2.0]), "c-ucb": np.array([5.0, 7.0])}}
    write_regret(tmp_path, some, found, {"c-ucb": Cost(1.0, 2.0, 3.0, 4.0)})
    before = read_regret(tmp_path)
    again = {"Figure 2": {"c-ucb": np.array([8.0, 10.0])}, "e-mail": {"c-ucb": np.array([1.0, 1.0])}}
    write_regret(tmp_path, shipped.only(["Figure 2", "e-mail"], ["c-ucb"]), again, {}, before)
    after = read_regret(tmp_path)
    assert after["sets"]["Figure 2"]["c-ts(scales=given)"] == before["sets"]["Figure 2"]["c-ts(scales=given)"]
    assert after["sets"]["Figure 2"]["c-ucb"]["mean"] == 9.0
    assert after["sets"]["e-mail"]["c-ucb"]["mean"] == 1.0
    assert list(after["about"]["updated"]) == ["c-ucb"]
    assert after["costs"] == before["costs"]
    with pytest.raises(cb.CausalBanditsError, match="--update adds to such results only"):
        write_regret(tmp_path, replace(shipped, horizon=61).only(["Figure 2"], ["c-ucb"]), found, {}, before)


@pytest.mark.parametrize(
    ("own", "uniform", "name", "holds"),
    [
        (14.0, 100.0, "e-mail", True),
        (17.0, 100.0, "e-mail", False),  # 1.7 times the better of C-TS and TS, beyond two standard errors
        (17.0, 100.0, "rare prize", True),
        (14.0, 12.0, "e-mail", False),  # more than choosing blindly
    ],
)
def test_the_default_is_compared_with_the_better_of_c_ts_and_ts(own, uniform, name, holds):
    def tail(mean):
        return Tail(mean, 0.1, mean, mean, mean, 0.0, 100)

    by = {
        "c-gittins(prior=main-effects)": tail(own),
        "c-ts(prior=beta)": tail(10.0),
        "ts(prior=beta)": tail(50.0),
        "uniform": tail(uniform),
    }
    comparison = compare_default(name, by, "c-gittins(prior=main-effects)")
    assert (comparison.reference, comparison.ratio, comparison.holds) == ("c-ts(prior=beta)", own / 10.0, holds)
    assert compare_default(name, by, "c-gittins(prior=main-effects), anytime") is None
