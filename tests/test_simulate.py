"""The simulator: whose randomness is whose, what is refused, what comes out."""

from __future__ import annotations

import csv
import time

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.engine import progress
from causalbandits.engine.simulate import checkpoints
from causalbandits.errors import PolicyError


@pytest.fixture(scope="module")
def env():
    return cb.zoo.email_campaign()


@pytest.fixture(scope="module")
def run(env):
    return cb.simulate(env, ["c-ts-beta", "ucb"], horizon=200, replications=4, seed=3)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_changes_no_number(env, run, workers):
    other = cb.simulate(env, ["c-ts-beta", "ucb"], horizon=200, replications=4, seed=3, workers=workers)
    for policy in run.policies:
        assert np.array_equal(run.regret(policy), other.regret(policy))


def test_more_replications_extend_fewer(env, run):
    fewer = cb.simulate(env, ["c-ts-beta", "ucb"], horizon=200, replications=2, seed=3)
    for policy in run.policies:
        assert np.array_equal(run.regret(policy)[:2], fewer.regret(policy))


def test_adding_a_policy_changes_no_others_numbers(env, run):
    alone = cb.simulate(env, "ucb", horizon=200, replications=4, seed=3)
    assert np.array_equal(run.regret("ucb"), alone.regret("ucb"))


def test_another_seed_gives_other_numbers_and_replications_differ(env, run):
    other = cb.simulate(env, ["c-ts-beta"], horizon=200, replications=4, seed=4)
    assert not np.array_equal(run.regret("c-ts-beta"), other.regret("c-ts-beta"))
    assert len({float(r) for r in run.regret("c-ts-beta")[:, -1]}) > 1


def test_functions_of_the_users_go_to_other_processes(env):
    """Rewards and features given as lambdas."""
    mean = cb.BernoulliReward(lambda subject, template, send_time: 0.6 if send_time == "morning" else 0.3)
    policy = cb.CausalLinearUCB(features=lambda subject, template, send_time: [1.0, send_time == "morning"])
    own = cb.Environment(env.problem, mean)
    one, two = (cb.simulate(own, [policy], horizon=60, replications=3, workers=w) for w in (1, 2))
    assert np.array_equal(one.regret("cl-ucb"), two.regret("cl-ucb"))


def test_regret_is_what_the_environments_gaps_say(env):
    """A policy that always plays one action has exactly linear regret."""

    class Stubborn(cb.Uniform):
        id = "stubborn"

        def score(self, situation, statistic, rng):
            values = np.zeros(situation.size)
            values[42] = 1.0
            return cb.Scores.of(values)

    run = cb.simulate(env, [Stubborn()], horizon=50, replications=2)
    assert run.regret("stubborn") == pytest.approx(np.outer([1, 1], np.arange(1, 51)) * env.gaps()[42])
    assert np.array_equal(run.rounds, np.arange(1, 51))


def test_checkpoints_are_all_rounds_or_about_500_and_end_at_the_horizon():
    assert checkpoints(1).tolist() == [1]
    assert checkpoints(1000).tolist() == list(range(1, 1001))
    for horizon in (1001, 4999, 5000, 10**6 + 7):
        rounds = checkpoints(horizon)
        assert len(rounds) == 500
        assert rounds[-1] == horizon
        assert (np.diff(rounds) > 0).all()
        assert rounds[0] >= 1


def test_policies_are_named_by_id_by_parameters_or_by_you(env):
    policies = [cb.CausalUCB(), cb.CausalUCB(noise_scale=0.5), cb.UCB()]
    run = cb.simulate(env, policies, horizon=5, replications=1)
    assert run.policies == ("c-ucb", "c-ucb(noise_scale=0.5)", "ucb")
    named = cb.simulate(env, {"mine": "c-ucb", "yours": cb.UCB()}, horizon=5, replications=1)
    assert named.policies == ("mine", "yours")
    with pytest.raises(PolicyError, match="Two policies are both ucb"):
        cb.simulate(env, ["ucb", cb.UCB()], horizon=5)
    with pytest.raises(cb.CausalBanditsError, match="Did you mean 'mine'"):
        named.regret("min")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"horizon": 0}, "horizon must be a whole number, 1 or more; got 0"),
        ({"horizon": 10.5}, "horizon must be"),
        ({"replications": 0}, "replications must be"),
        ({"workers": 0}, "workers must be"),
        ({"seed": -1}, "seed must be a whole number, 0 or more; got -1"),
        ({"seed": None}, "seed must be"),
        ({"policies": []}, "at least one policy"),
        ({"policies": ["c-ucbb"]}, "Did you mean"),
        ({"policies": [cb.UCB]}, "such as CausalUCB"),
        ({"env": 3}, "needs an Environment"),
    ],
)
def test_bad_settings_are_refused(env, change, complaint):
    settings = {"env": env, "policies": ["ucb"], "horizon": 5, "replications": 1, **change}
    with pytest.raises(cb.CausalBanditsError, match=complaint):
        cb.simulate(settings.pop("env"), settings.pop("policies"), **settings)


def test_a_beta_prior_refuses_gaussian_rewards_before_anything_runs():
    with pytest.raises(PolicyError, match=r"'c-ts-beta' needs rewards in \[0, 1\]; LinearReward"):
        cb.simulate(cb.zoo.figure2(), ["c-ucb", "c-ts-beta"], horizon=10**9, replications=1000)


def test_a_sampler_that_leaves_the_unit_interval_is_caught_when_it_does(env):
    own = cb.Environment(env.problem, cb.CustomReward(lambda *z: 0.5, lambda *z_rng: 1.5))
    with pytest.raises(PolicyError, match=r"got 1\.5"):
        cb.simulate(own, ["c-ts-beta"], horizon=5, replications=1)


def test_rewards_off_the_scale_warn_before_the_run(env):
    large = cb.Environment(env.problem, cb.GaussianReward(np.full(env.problem.shape, 50.0), sd=1.0))
    with pytest.warns(cb.ScaleWarning, match="reaches 50, and c-ucb"):
        cb.simulate(large, [cb.CausalUCB()], horizon=5, replications=1)


def test_the_summary_is_mean_standard_error_and_t_interval(run):
    from scipy import stats

    for row in run.summary():
        final = run.regret(row.policy)[:, -1]
        assert row.mean == pytest.approx(final.mean())
        assert row.standard_error == pytest.approx(stats.sem(final))
        assert (row.lower, row.upper) == pytest.approx(
            stats.t.interval(0.95, 3, loc=final.mean(), scale=stats.sem(final))
        )
    assert "c-ts-beta" in str(run.summary())
    assert run.summary().to_pandas().shape == (2, 6)


def test_one_replication_has_no_interval_and_says_so_with_a_dash(env):
    run = cb.simulate(env, ["ucb"], horizon=20, replications=1)
    assert str(run.summary()).splitlines()[-1].split() == ["ucb", f"{run.summary()[0].mean:.1f}", "-", "-"]
    run.plot()


def test_csv_parquet_and_pandas_hold_the_same_table(run, tmp_path):
    import pandas

    run.to_csv(tmp_path / "run.csv")
    run.to_parquet(tmp_path / "run.parquet")
    table = run.to_pandas()
    assert len(table) == 2 * 4 * 200
    with open(tmp_path / "run.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(r["regret"]) for r in rows] == table["regret"].tolist()
    assert [r["policy"] for r in rows] == table["policy"].tolist()
    assert [(int(r["replication"]), int(r["round"])) for r in rows] == list(
        zip(table["replication"], table["round"], strict=True)
    )
    stored = pandas.read_parquet(tmp_path / "run.parquet")
    assert {name: stored[name].tolist() for name in stored} == {name: table[name].tolist() for name in table}
    mine = table[(table.policy == "ucb") & (table.replication == 2)]["regret"].to_numpy()
    assert np.array_equal(mine, run.regret("ucb")[2])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_plot_is_saved_in_the_format_of_its_ending(run, tmp_path, ending):
    figure = run.plot(tmp_path / f"regret.{ending}")
    assert (tmp_path / f"regret.{ending}").stat().st_size > 5000
    labels = [text.get_text() for text in figure.axes[0].texts]
    assert sorted(labels) == ["c-ts-beta", "ucb"]
    assert len(figure.axes[0].lines) == 2
    assert len(figure.axes[0].collections) == 2


def test_the_progress_bar_appears_only_after_its_patience(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "PATIENCE", 0.05)
    monkeypatch.setattr(progress.Progress, "_show", lambda self: shown.append(self))
    with progress.Progress(10, "quick"):
        pass
    assert not shown
    with progress.Progress(10, "slow") as bar:
        deadline = time.monotonic() + 10
        while not shown and time.monotonic() < deadline:
            bar.advance(0)
    assert shown


def test_the_progress_bar_counts_on_a_terminal(monkeypatch):
    import io

    from rich import console

    screen = io.StringIO()
    real = console.Console
    monkeypatch.setattr(console, "Console", lambda **_: real(file=screen, force_terminal=True, width=80))
    bar = progress.Progress(200, "Simulating")
    bar._show()
    bar.advance(100)
    bar._bar.refresh()
    with bar:
        pass
    assert "Simulating" in screen.getvalue()
    assert "50%" in screen.getvalue()


def test_small_regrets_are_not_rounded_away(env):
    rare = cb.Environment(env.problem, cb.BernoulliReward(np.linspace(0, 0.002, 12).reshape(env.problem.shape)))
    line = str(cb.simulate(rare, ["c-ts-beta"], horizon=50, replications=3).summary()).splitlines()[-1]
    assert float(line.split()[1]) > 0
    assert float(line.split()[2]) > 0


def test_names_with_dollars_and_many_close_lines_are_labelled_beside_the_axes(env, tmp_path):
    policies = {f"price ${i} vs $\\frac$ {i}": cb.CausalUCB(noise_scale=1 + i / 1000) for i in range(9)}
    run = cb.simulate(env, policies, horizon=30, replications=2)
    axes = run.plot(tmp_path / "p.png", title="cost $x vs $y").axes[0]
    places = sorted(text.xy[1] for text in axes.texts)  # in parts of the axes' height
    assert places[0] >= 0
    assert places[-1] <= 1
    assert min(np.diff(places)) > 0.05


@pytest.mark.parametrize("path", [3, "", None])
def test_a_path_that_is_none_is_refused(run, path):
    with pytest.raises(cb.CausalBanditsError, match="A path must be text"):
        run.to_csv(path)


def test_a_result_too_large_to_hold_is_refused_before_it_runs(env):
    with pytest.raises(cb.CausalBanditsError, match="replications x 500 checkpoints"):
        cb.simulate(env, ["ucb"], horizon=10**6, replications=10**9)


@pytest.mark.parametrize("policies", [None, 3])
def test_policies_that_are_none_are_refused(env, policies):
    with pytest.raises(PolicyError, match="such as CausalUCB"):
        cb.simulate(env, policies, horizon=5)
