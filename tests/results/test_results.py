"""What a simulation leaves: its measures, tables and pictures; kept in files, put together, compared pair by pair."""

from __future__ import annotations

import csv
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import causalbandits as cb
from causalbandits.errors import StateError
from causalbandits.results.origin import Origin
from causalbandits.results.statistics import holm


@pytest.fixture(scope="module")
def env():
    return cb.zoo.email_campaign()


@pytest.fixture(scope="module")
def run(env):
    return cb.simulate(env, ["c-ts(prior=beta)", "ucb"], horizon=200, replications=4, seed=3)


def made(replications=3, rounds=(1, 5, 20), actions=4, policies=("a", "b"), first=0, **changes):
    """A run by hand, with every measure."""
    rng = np.random.default_rng(7)
    shape = (replications, len(rounds))
    measures = {
        "regret": {policy: rng.random(shape).cumsum(axis=1) for policy in policies},
        "plays": {policy: rng.integers(0, 9, (*shape, actions)).cumsum(axis=1) for policy in policies},
        "reward": {policy: rng.normal(size=shape).cumsum(axis=1) for policy in policies},
        "simple regret": {policy: rng.random(shape) for policy in policies},
    }
    origin = Origin("w", {policy: f"p-{policy}" for policy in policies})
    told = {"seed": 5, "environment": "made up", "first": first, "origin": origin}
    return cb.Run(rounds=np.array(rounds), measures=measures, **{**told, **changes})


def test_every_measure_is_found_by_name_and_policy():
    full = made()
    assert tuple(full.measures) == ("regret", "simple regret", "reward", "plays")
    assert (full.policies, full.horizon, full.replications, full.numbers) == (("a", "b"), 20, 3, range(3))
    assert full.regret("a") is full.measure("regret", "a")
    assert full.plays("b") is full.measure("plays", "b")
    assert full.plays("b").shape == (3, 3, 4)
    assert full.plays("b").dtype == np.int64
    assert full.only(["b"]).measure("reward", "b") is not None
    assert full.only(["b"]).origin == Origin("w", {"b": "p-b"})
    played = replace(full, origin=full.origin._replace(ids={"a": "ucb", "b": "c-ucb"}))
    assert played.only(["b"]).origin == Origin("w", {"b": "p-b"}, {"b": "c-ucb"})


def test_what_was_played_is_cited_whatever_it_is_called(tmp_path):
    named = {"ucb": "c-ucb", "quiet": "ts(prior=beta)"}
    run = made(policies=("ucb", "quiet"))
    played = replace(run, origin=run.origin._replace(ids=named))
    assert cb.citation(played) == cb.citation("c-ucb", "ts(prior=beta)")
    played.save(tmp_path / "run.npz")
    assert cb.Run.load(tmp_path / "run.npz") == played
    parts = [replace(played, first=first) for first in (0, 3)]
    assert cb.Run.merged(parts).origin.ids == named
    assert cb.Run.merged([played.only(["quiet"]), played.only(["ucb"])]).origin.ids == named
    assert cb.Run.merged([parts[0], replace(run, first=3)]).origin.ids == named


def test_names_that_say_nothing_are_not_cited_as_nothing():
    with pytest.raises(cb.CausalBanditsError, match="does not record the policy of 'a'"):
        cb.citation(made())
    assert cb.citation(made(policies=("c-ucb(noise_scale=0.5)",))) == cb.citation("c-ucb")


def test_a_name_that_is_not_there_is_refused_with_the_nearest_one(run):
    with pytest.raises(cb.CausalBanditsError, match="Did you mean 'simple regret'"):
        made().measure("simpel regret", "a")
    with pytest.raises(cb.CausalBanditsError, match=r"no 'reward', only 'regret'. Simulate again with measures="):
        run.measure("reward", "ucb")
    with pytest.raises(cb.CausalBanditsError, match="Did you mean 'ucb'"):
        run.measure("regret", "ubc")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"measures": {}}, "must have the regret of a policy"),
        ({"measures": {"reward": {"a": np.zeros((2, 3))}}}, "must have the regret of a policy"),
        ({"measures": {"regret": {}}}, "must have the regret of a policy"),
        ({"measures": {"regret": {"a": np.zeros((2, 4))}}}, r"replications x checkpoints.*\(2, 3\).*got \[\(2, 4\)\]"),
        ({"measures": {"regret": {"a": np.zeros((0, 3))}}}, "one replication at least"),
        ({"measures": {"regret": {"a": np.zeros((2, 3)), "b": np.zeros((1, 3))}}}, r"got \[\(1, 3\), \(2, 3\)\]"),
        (
            {"measures": {"regret": {"a": np.zeros((2, 3))}, "reward": {"b": np.zeros((2, 3))}}},
            "the policies of regret,",
        ),
        ({"measures": {"regret": {"a": np.zeros((2, 3))}, "plays": {"a": np.zeros((2, 3))}}}, "x actions"),
        (
            {"measures": {"regret": {"a": np.zeros((2, 3))}, "regrets": {"a": np.zeros((2, 3))}}},
            "Did you mean 'regret'",
        ),
        ({"rounds": [1, 1, 2]}, "that increase"),
        ({"rounds": [0, 1, 2]}, "1 or more"),
        ({"rounds": []}, "whole numbers"),
        ({"first": -1}, "0 or more; got -1"),
        ({"origin": Origin("w", {"a": "p-a"})}, "origin must be of the policies"),
        ({"origin": made().origin._replace(ids={"a": "ucb"})}, "origin must be of the policies"),
    ],
)
def test_parts_that_do_not_fit_together_are_no_run(change, complaint):
    with pytest.raises(cb.CausalBanditsError, match=complaint):
        replace(made(), **change)


def test_what_was_measured_cannot_be_changed(run):
    for values in (run.regret("ucb"), run.rounds):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0


def test_a_run_says_in_a_line_what_it_is(run):
    assert repr(run) == "Run(c-ts(prior=beta), ucb; replications 0 to 3 of 200 rounds, seed 3; regret)"
    assert repr(made(1, policies=tuple("abcdefghi"), first=7)).startswith("Run(9 policies; replication 7 of 20 rounds")


def test_the_summary_and_the_interval_are_of_the_measure_asked_for():
    full = made()
    for measure in ("regret", "simple regret", "reward"):
        summary = full.summary(measure)
        assert f"mean final {measure}" in str(summary)
        for final in summary:
            values = full.measure(measure, final.policy)
            assert final.mean == pytest.approx(values[:, -1].mean())
            mean, lower, upper = full.interval(final.policy, measure=measure)
            assert mean == pytest.approx(values.mean(axis=0))
            assert (final.lower, final.upper) == (lower[-1], upper[-1])


def test_plays_have_no_single_number_and_say_where_they_are():
    full = made()
    for ask in (full.summary, lambda m: full.interval("a", measure=m), lambda m: full.plot(measure=m)):
        with pytest.raises(cb.CausalBanditsError, match=r"run\.plays\(policy\)"):
            ask("plays")
    with pytest.raises(cb.CausalBanditsError, match=r"run\.plays\(policy\)"):
        full.compare("a", "b", measure="plays")


def test_the_summary_is_mean_standard_error_and_t_interval(run):
    from scipy import stats

    for row in run.summary():
        final = run.regret(row.policy)[:, -1]
        assert row.mean == pytest.approx(final.mean())
        assert row.standard_error == pytest.approx(stats.sem(final))
        assert (row.lower, row.upper) == pytest.approx(
            stats.t.interval(0.95, 3, loc=final.mean(), scale=stats.sem(final))
        )
    assert "c-ts(prior=beta)" in str(run.summary())
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
    assert sorted(labels) == ["C-TS (Beta prior)", "UCB"]
    assert len(figure.axes[0].lines) == 2
    assert len(figure.axes[0].collections) == 2


def test_small_regrets_are_not_rounded_away(env):
    rare = cb.Environment(env.problem, cb.rewards.BernoulliReward(np.linspace(0, 0.002, 12).reshape(env.problem.shape)))
    line = str(cb.simulate(rare, ["c-ts(prior=beta)"], horizon=50, replications=3).summary()).splitlines()[-1]
    assert float(line.split()[1]) > 0
    assert float(line.split()[2]) > 0


def test_names_with_dollars_and_many_close_lines_are_labelled_beside_the_axes(env, tmp_path):
    policies = {f"price ${i} vs $\\frac$ {i}": cb.policies.CausalUCB(noise_scale=1 + i / 1000) for i in range(9)}
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


def test_tables_have_a_column_per_measure_and_the_true_numbers_of_replications(tmp_path):
    full = made(first=100)
    table = full.to_pandas()
    assert list(table) == ["policy", "replication", "round", "regret", "simple regret", "reward"]
    assert table["replication"].unique().tolist() == [100, 101, 102]
    one = table[(table.policy == "b") & (table.replication == 101)]
    assert one["round"].tolist() == [1, 5, 20]
    assert one["reward"].tolist() == full.measure("reward", "b")[1].tolist()
    assert list(full.to_pandas("reward")) == ["policy", "replication", "round", "reward"]
    full.to_csv(tmp_path / "run.csv")
    with open(tmp_path / "run.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(table)
    assert [[row[0], *map(float, row[1:])] for row in rows[1:]] == [list(row) for row in table.itertuples(index=False)]


def test_plays_have_a_table_of_their_own_with_a_row_per_action(tmp_path):
    import pandas

    full = made(first=2)
    table = full.to_pandas(measure="plays")
    assert list(table) == ["policy", "replication", "round", "action", "plays"]
    assert len(table) == 2 * 3 * 3 * 4
    for row in table.itertuples():
        slot = full.rounds.tolist().index(row.round)
        assert row.plays == full.plays(row.policy)[row.replication - 2, slot, row.action]
    full.to_csv(tmp_path / "plays.csv", "plays")
    full.to_parquet(tmp_path / "plays.parquet", "plays")
    pandas.testing.assert_frame_equal(pandas.read_csv(tmp_path / "plays.csv"), table)
    pandas.testing.assert_frame_equal(pandas.read_parquet(tmp_path / "plays.parquet"), table)


@pytest.mark.parametrize(("name", "method"), [("run.csv", "to_csv"), ("run.Parquet", "to_parquet")])
def test_a_run_is_not_saved_as_if_it_were_a_table(tmp_path, name, method):
    with pytest.raises(StateError, match=rf"save\(\) writes a \.npz file; for a table, use {method}\(\.\.\.\); got"):
        made().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_plot_is_of_the_measure_asked_for(run):
    axes = made().plot(measure="reward").axes[0]
    assert axes.get_ylabel() == "reward"
    assert axes.get_ylim()[0] < made().interval("a", measure="reward")[0].min()
    with pytest.raises(cb.CausalBanditsError, match="bounds apply to the regret"):
        made().plot(measure="reward", bounds=[cb.theory.bound("ucb", cb.zoo.email_campaign())])


WRITERS = {"plot": "run.png", "to_csv": "run.csv", "to_parquet": "run.parquet", "save": "run.npz"}


@pytest.mark.parametrize(("method", "name"), WRITERS.items())
def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left_there(run, tmp_path, method, name):
    write = getattr(run, method)
    with pytest.raises(StateError, match=f"Cannot save to .*nowhere/{name}: .*(No such file|does not exist)"):
        write(tmp_path / "nowhere" / name)
    (tmp_path / name).mkdir()
    with pytest.raises(StateError, match=f"Cannot save to .*{name}: it is a folder, not a regular file"):
        write(tmp_path / name)
    (tmp_path / "file").touch()
    with pytest.raises(StateError, match=r"Not a directory|does not exist"):
        write(tmp_path / "file" / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", name]


def test_no_saved_agent_or_other_file_is_overwritten_by_results(run, tmp_path):
    agent = cb.Agent(cb.zoo.email_campaign().problem, "c-ucb")
    for method, name in (("save", "a.npz"), ("to_csv", "a.csv"), ("to_parquet", "a.parquet"), ("plot", "a.png")):
        agent.save(tmp_path / name)
        with pytest.raises(
            StateError, match="would overwrite another file: a file of the format 'causalbandits-agent'"
        ):
            getattr(run, method)(tmp_path / name)
        cb.Agent.load(tmp_path / name)
    (tmp_path / "notes.txt").write_text("years of work")
    with pytest.raises(StateError, match="would overwrite another file"):
        run.save(tmp_path / "notes.txt")
    run.save(tmp_path / "run.npz")
    run.save(tmp_path / "run.npz")


def test_a_picture_without_a_known_format_is_refused(run, tmp_path):
    for name in ("regret", "regret.doc"):
        with pytest.raises(StateError, match=r"must end in its format, one of .*png.*; got"):
            run.plot(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_saved_run_comes_back_in_every_bit(run, env, tmp_path):
    odd = made(policies=("a/b", "ü.npy", "rounds", "$x$"), seed=2**70)
    values = np.array([[np.nan, -0.0, 0.0], [5e-324, np.inf, 1 / 3], [1, 2, 3]])
    odd = replace(odd, measures={**odd.measures, "reward": dict.fromkeys(odd.policies, values)})
    drawn = cb.simulate(lambda rng: cb.zoo.random_parallel(3, 3, [1, 0, 0], rng), "ucb", horizon=9, replications=2)
    for one in (run, odd, drawn, replace(odd, origin=None)):
        one.save(tmp_path / "run.npz")
        assert cb.Run.load(tmp_path / "run.npz") == one
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_a_saved_run_can_be_looked_into_with_numpy_alone(tmp_path):
    made().save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        assert file["simple regret"].shape == (2, 3, 3)
        assert file["plays"].shape == (2, 3, 3, 4)
    assert (about["format"], about["policies"], about["first"]) == ("causalbandits-run", ["a", "b"], 0)


def test_a_file_that_is_damaged_anywhere_is_refused_or_still_the_same(tmp_path):
    """A bit of each byte is flipped in turn; where nothing of the run depends on it, it may be read."""
    full, path = made(), tmp_path / "run.npz"
    full.save(path)
    content, read = path.read_bytes(), 0
    for i in range(len(content)):
        path.write_bytes(content[:i] + bytes([content[i] ^ 1 << i % 8]) + content[i + 1 :])
        try:
            assert cb.Run.load(path) == full
            read += 1
        except StateError:
            continue
    assert read < len(content) / 5
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        with pytest.raises(StateError, match="corrupted"):
            cb.Run.load(path)


def forged(path, **changes):
    """The saved run with other things said about it, and its old checksum."""
    made().save(path)
    with np.load(path) as file:
        arrays = dict(file)
    about = {**json.loads(str(arrays.pop("about"))), **changes}
    np.savez(path, about=np.array(json.dumps(about)), **arrays)


def test_files_that_are_no_saved_runs_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    with pytest.raises(StateError, match=r"Cannot read .*: No such file"):
        cb.Run.load(path)
    with pytest.raises(StateError, match=r"Cannot read .*: Is a directory"):
        cb.Run.load(tmp_path)
    for content in (b"", b"years of work", json.dumps({"format": "causalbandits-run"}).encode()):
        path.write_bytes(content)
        with pytest.raises(StateError, match="is corrupted"):
            cb.Run.load(path)
    np.savez(path, regret=np.zeros(3))
    with pytest.raises(StateError, match="no saved run"):
        cb.Run.load(path)
    np.savez(path, about=np.array([{"format": "causalbandits-run"}], dtype=object))
    with pytest.raises(StateError, match="corrupted: Object arrays cannot be loaded"):
        cb.Run.load(path)
    forged(path, version=1)
    with pytest.raises(StateError, match="another version: 1, not 2"):
        cb.Run.load(path)
    forged(path, seed=6)
    with pytest.raises(StateError, match="checksum"):
        cb.Run.load(path)
    with pytest.raises(StateError, match="A path must be text"):
        cb.Run.load(3)


def test_runs_are_equal_by_content_and_cannot_be_keys():
    one = made()
    assert one == made()
    assert one == pickle.loads(pickle.dumps(one))
    assert one != "a run"
    nudged = {
        **one.measures,
        "reward": {"a": one.measure("reward", "a"), "b": one.measure("reward", "b") * (1 + 2**-52)},
    }
    others = [
        made(seed=6), made(first=1), made(environment="other"), made(origin=None), made(policies=("a", "c")),
        made(rounds=(1, 5, 21)), made(replications=2), made(actions=5), one.only(["b", "a"]), one.only(["a"]),
        replace(one, measures=nudged), replace(one, measures={"regret": one.measures["regret"]}),
        replace(one, origin=Origin("v", one.origin.policies)),
    ]  # fmt: skip
    assert all(one != other for other in others)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def draw(rng):
    return cb.zoo.random_parallel(3, 3, theta=[0.25, 0.25, -0.25], rng=rng)


SETTINGS = {"horizon": 60, "seed": 2, "measures": "simple regret", "rounds": [5, 30, 60]}


@pytest.mark.parametrize("source", [cb.zoo.email_campaign(), draw], ids=["fixed", "drawn"])
def test_parts_put_together_are_the_whole_run(source):
    whole = cb.simulate(source, ["c-ucb", "ucb", "uniform"], replications=6, **SETTINGS)

    def part(policies, first, last):
        return cb.simulate(source, policies, replications=range(first, last), **SETTINGS)

    every = whole.policies
    assert cb.Run.merged([part(every, 0, 2), part(every, 2, 6)]) == whole
    assert cb.Run.merged([part(every, 4, 6), part(every, 0, 1), part(every, 1, 4)]) == whole
    assert cb.Run.merged([part("c-ucb", 0, 6), part(["ucb", "uniform"], 0, 6)]) == whole
    rectangle = [
        part("c-ucb", 0, 6),
        part(["ucb"], 3, 6),
        part("uniform", 0, 5),
        part("ucb", 0, 3),
        part("uniform", 5, 6),
    ]
    assert cb.Run.merged(rectangle).only(every) == whole
    assert cb.Run.merged([whole]) == whole
    assert cb.Run.merged(iter([part(every, 2, 4), part(every, 4, 6)])) == part(every, 2, 6)


def test_a_policy_that_believes_otherwise_is_merged_under_another_name(env):
    """Both met the same worlds, so that they can be compared pair by pair."""
    p = env.problem
    narrow = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, max_set=1)
    settings = {"horizon": 30, "replications": 3, "seed": 1}
    knows = cb.simulate(env, {"knows": "ucb"}, **settings)
    believes = cb.simulate(env, {"believes": "ucb"}, believed=narrow, **settings)
    assert cb.Run.merged([knows, believes]).policies == ("knows", "believes")
    first, second = (
        cb.simulate(env, "ucb", believed=belief, horizon=30, seed=1, replications=numbers)
        for belief, numbers in ((None, range(3)), (narrow, range(3, 6)))
    )
    with pytest.raises(cb.CausalBanditsError, match="'ucb' is not the same policy in all runs"):
        cb.Run.merged([first, second])


def test_runs_that_do_not_belong_together_are_refused_with_what_differs(env):
    one_way, other_way = (
        cb.Environment(env.problem, cb.rewards.BernoulliReward(np.full(env.problem.shape, mean))) for mean in (0.4, 0.5)
    )
    assert repr(one_way) == repr(other_way)

    def part(source=one_way, policy="ucb", numbers=range(2), **changes):
        return cb.simulate(source, policy, replications=numbers, **{**SETTINGS, **changes})

    half = part(numbers=range(2, 4))
    for other, complaint in (
        (part(other_way), "same environment; one has .*, with other numbers in it"),
        (part(seed=3), "same seed; one has 2, another 3. Simulate one of them again with the other's seed"),
        (part(horizon=61, rounds=[5, 30, 61]), "same horizon; one has 60, another 61"),
        (part(rounds=[5, 31, 60]), "same rounds"),
        (part(measures=()), r"same measures; one has \['regret', 'simple regret'\], another \['regret'\]"),
        (part(policy={"ucb": cb.policies.UCB(noise_scale=0.5)}), "'ucb' is not the same policy in all runs"),
        (
            part(numbers=range(3)),
            r"is in two runs\. For further replications use simulate\(\.\.\., replications=range\(4, 6\)\)",
        ),
        (part(numbers=range(1)), r"'ucb' lacks 1 to 1\. .*range\(1, 2\)"),
        (part(policy="uniform"), r"'ucb' lacks 0 to 1\. .*range\(0, 2\)"),
        (replace(part(), origin=None), r"Only runs of simulate\(\) can be merged;"),
    ):
        with pytest.raises(cb.CausalBanditsError, match=complaint):
            cb.Run.merged([half, other])
    for nothing in ([], [half, 3]):
        with pytest.raises(cb.CausalBanditsError, match="a list of runs, one at least"):
            cb.Run.merged(nothing)


def test_a_comparison_is_the_paired_t_test():
    full = made(replications=12)
    for measure in ("regret", "simple regret", "reward"):
        a, b = (full.measure(measure, policy)[:, -1] for policy in "ab")
        found, expected = full.compare("a", "b", measure=measure), stats.ttest_rel(a, b)
        interval = expected.confidence_interval(0.95)
        assert found[:3] == ("a", "b", measure)
        assert found.mean == pytest.approx((a - b).mean())
        assert (found.lower, found.upper) == pytest.approx((interval.low, interval.high))
        assert found.p_value == pytest.approx(expected.pvalue)
        assert (found.times_lower, found.times_equal, found.replications) == ((a < b).sum(), 0, 12)
        turned = full.compare("b", "a", measure=measure)
        assert (turned.mean, turned.p_value, turned.times_lower) == (-found.mean, found.p_value, (b < a).sum())
        assert f"Final {measure} of a minus b" in str(found)


def ended(**finals):
    """A run whose policies end with this regret, one a replication."""
    regrets = {policy: np.array([values], dtype=float).T for policy, values in finals.items()}
    return cb.Run(rounds=np.array([10]), measures={"regret": regrets}, seed=0, environment="made up")


def test_a_single_replication_allows_no_test_and_says_so():
    one = ended(a=[3], b=[5]).compare("a", "b")
    assert one.mean == -2
    assert all(map(np.isnan, (one.lower, one.upper, one.p_value)))
    assert str(one).endswith("-2.0 in a single replication (no interval and no test).")
    assert str(ended(a=[3], b=[5]).compare("a")).endswith("Final regret, a single replication. No test is possible.")


def test_where_the_difference_never_varies_there_is_nothing_to_test():
    """Not even where rounding would make a tiny standard error of equal differences: 0.1 has no exact mean."""
    run = ended(a=[0.1] * 3, b=[0.0] * 3, same=[0.1] * 3)
    constant, same = run.compare("a", "b"), run.compare("a", "same")
    assert np.isnan(constant.p_value)
    assert np.isnan(constant.lower)
    assert str(constant) == ("Final regret of a minus b: 0.10 in each of 3 replications (no variation, so no test).")
    assert same.times_equal == 3
    assert str(same) == "Final regret of a and same: equal in each of 3 replications."


def test_ties_are_told_apart_from_wins():
    found = ended(a=[0, 0, 1, 2], b=[0, 0, 2, 1.5]).compare("a", "b")
    assert (found.times_lower, found.times_equal) == (1, 2)
    assert "lower in 1 of 4 replications, equal in 2." in str(found)


def test_one_against_all_others_is_corrected_by_holm_over_what_was_tested():
    rng = np.random.default_rng(0)
    a = rng.normal(size=9)
    run = ended(a=a, b=a + rng.normal(0.5, 1, 9), c=a + rng.normal(2, 1, 9), d=a, e=a + rng.normal(1, 1, 9))
    found, alone = run.compare("a"), {name: run.compare("a", name).p_value for name in "bce"}
    assert [d.other for d in found] == ["b", "c", "d", "e"]
    assert np.isnan(found[2].p_value)
    assert [found[i].p_value for i in (0, 1, 3)] == holm(list(alone.values()))
    assert "Holm's correction for 3" in str(found)
    assert found.to_pandas().shape == (4, 10)


def test_there_must_be_something_to_compare_with():
    run = ended(a=[1, 2], b=[2, 3])
    with pytest.raises(cb.CausalBanditsError, match="no other policy to compare 'a' with"):
        run.only(["a"]).compare("a")
    for pair in (("x", "a"), ("a", "x"), ("x",)):
        with pytest.raises(cb.CausalBanditsError, match="Unknown policy of this run: 'x'"):
            run.compare(*pair)


def test_heads_stand_on_the_side_of_their_columns():
    from causalbandits.results.document import Grid, as_html, as_markdown

    grid = Grid(("policy", "final regret", "95% interval"), [("ucb", "12.5", "10 to 15"), ("c-ucb", "1.5", "1 to 2")])
    page = as_html([grid], Path())
    assert '<th>policy</th><th class="number">final regret</th><th>95% interval</th>' in page
    assert '<td>ucb</td><td class="number">12.5</td><td>10 to 15</td>' in page
    assert "| --- | ---: | --- |" in as_markdown([grid])
