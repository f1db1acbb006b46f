"""Numeric columns: above 20 distinct values they are put into bins, or refused with the way to do so."""

import itertools
import json
import warnings

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, DataError, DataWarning
from causalbandits.fitting import prior_model
from causalbandits.model import Intervals

RNG = np.random.default_rng(0)
AGES = RNG.integers(18, 81, size=400)
BOUGHT = (RNG.random(400) < AGES / 100).astype(int)
DATA = {"age": AGES, "bought": BOUGHT}
GRAPH = {"age": [], "bought": ["age"]}
EDGES = [0, 30, 45, 60, 90]
LABELS = ("[0, 30)", "[30, 45)", "[45, 60)", "[60, 90]")


def sources(folder):
    pandas, pyarrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(DATA)
    frame.to_csv(folder / "rows.csv", index=False)
    frame.to_parquet(folder / "rows.parquet")
    return {
        "arrays": DATA,
        "lists": {name: values.tolist() for name, values in DATA.items()},
        "objects": {name: values.astype(object) for name, values in DATA.items()},
        "pandas": frame,
        "nullable pandas": frame.astype({"age": "Int64"}),
        "floats": frame.astype({"age": float}),
        "arrow": pyarrow.table(DATA),
        "csv": folder / "rows.csv",
        "parquet": folder / "rows.parquet",
    }


def source_of(name, folder):
    """The data from one source; the test is skipped where its library is not installed."""
    return pytest.importorskip("polars").DataFrame(DATA) if name == "polars" else sources(folder)[name]


SOURCES = ["arrays", "lists", "objects", "pandas", "nullable pandas", "floats", "polars", "arrow", "csv", "parquet"]


@pytest.mark.parametrize("source", SOURCES)
def test_more_than_20_distinct_numbers_are_refused_with_both_ways_out(source, tmp_path):
    with pytest.raises(DataError) as error:
        cb.fit(GRAPH, source_of(source, tmp_path))
    distinct = len(set(AGES.tolist()))
    assert f"'age' is a column of numbers with {distinct} distinct values in 400 rows, from 18 to 80" in str(
        error.value
    )
    assert "bins={'age': [18, 38.7, 59.3, 80]}" in str(error.value)
    assert "bins={'age': 4}" in str(error.value)
    assert "values={'age': [...]}" in str(error.value)
    with pytest.raises(DataError, match="column of numbers"):
        cb.check(GRAPH, source_of(source, tmp_path))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("bins", [EDGES, 4])
def test_every_source_gives_the_same_binned_model(source, bins, tmp_path):
    model = cb.fit(GRAPH, source_of(source, tmp_path), bins={"age": bins})
    assert model == cb.fit(GRAPH, DATA, bins={"age": bins})
    if bins == EDGES:
        assert model["age"].states == LABELS
        assert model.posterior.counts["age"].tolist() == [
            np.count_nonzero((a <= AGES) & (b > AGES)) for a, b in itertools.pairwise(EDGES)
        ]
    else:
        assert len(model["age"].states) == 4
        assert min(model.posterior.counts["age"]) >= 80
        assert model["age"].states[0].startswith("(-inf, ")
        assert model["age"].states[-1].endswith(", inf)")


def test_what_the_number_suggests_in_the_error_can_be_given():
    cb.fit(GRAPH, DATA, bins={"age": [18, 38.7, 59.3, 80]})


def test_20_numbers_declared_states_and_declared_categories_stay_categories():
    import pandas

    twenty = cb.fit({"x": []}, {"x": np.arange(20)})
    assert twenty["x"].states == tuple(range(20))
    assert len(cb.fit({"x": []}, {"x": np.arange(50)}, values={"x": range(50)})["x"].states) == 50
    assert len(cb.fit({"x": []}, {"x": [f"id {i}" for i in range(50)]})["x"].states) == 50
    categories = pandas.DataFrame({"x": pandas.Categorical(np.arange(50))})
    assert len(cb.fit({"x": []}, categories)["x"].states) == 50


def test_text_with_one_word_among_numbers_is_text(tmp_path):
    path = tmp_path / "codes.csv"
    path.write_text("\n".join(["code", *map(str, range(100, 140)), "10A"]) + "\n")
    with warnings.catch_warnings(action="ignore"):
        assert len(cb.fit({"code": []}, path)["code"].states) == 41


def test_thousands_of_distinct_numbers_are_refused_as_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(str, RNG.random(6000))) + "\n")
    for data in ({"x": RNG.random(6000)}, tmp_path / "x.csv"):
        with pytest.raises(DataError, match=r"column of numbers with more than 4096 distinct values.*bins="):
            cb.fit({"x": []}, data)


def test_intervals_are_closed_on_the_left_and_the_last_on_both_sides():
    model = cb.fit({"x": []}, {"x": [0, 29.9, 30, 45, 60]}, bins={"x": [0, 30, 45, 60]}, prior=0)
    assert model.posterior.counts["x"].tolist() == [2, 1, 2]
    open_ended = cb.fit({"x": []}, {"x": [-1e9, 0, 1e9]}, bins={"x": [-np.inf, 0, np.inf]})
    assert open_ended["x"].states == ("(-inf, 0)", "[0, inf)")
    assert open_ended.posterior.counts["x"].tolist() == [1, 2]


@pytest.mark.parametrize(("value", "shown"), [(75, "75"), (-0.5, "-0.5"), (np.inf, "inf")])
def test_a_value_outside_of_the_edges_is_refused_with_its_row(value, shown):
    with pytest.raises(DataError, match=rf"'x' in row 2 must be a number from 0 to 60.*it is {shown}"):
        cb.fit({"x": []}, {"x": [0.0, 1.0, value]}, bins={"x": [0, 30, 60]})


@pytest.mark.parametrize(
    "bins", [[0], [0, 0, 1], [1, 0], [0, np.nan], [0, np.inf, 2], ["a", "b"], "0,1", 1, 21, True, 2.5]
)
def test_bins_that_are_none_are_refused(bins):
    with pytest.raises(DataError, match=r"bins|edges"):
        cb.fit(GRAPH, DATA, bins={"age": bins})


def test_bins_of_no_variable_or_of_text_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"bins: .*'agee'"):
        cb.fit(GRAPH, DATA, bins={"agee": 4})
    with pytest.raises(DataError, match=r"'bought'.*'yes'|in row 0 'bought' is 'yes'"):
        cb.fit(GRAPH, {"age": [1, 2], "bought": ["yes", "no"]}, bins={"bought": 2})
    (tmp_path / "x.csv").write_text("x\n1\n2\nmany\n")
    with pytest.raises(DataError, match="line 4"):
        cb.fit({"x": []}, tmp_path / "x.csv", bins={"x": 2})
    with pytest.raises(DataError, match="in line 4 must be a number from 0 to 9"):
        cb.fit({"x": []}, tmp_path / "x.csv", bins={"x": [0, 9]})


def test_states_and_bins_that_differ_are_refused():
    with pytest.raises(DataError, match="Leave age out of bins= or out of values="):
        cb.fit(GRAPH, DATA, values={"age": ["young", "old"]}, bins={"age": EDGES})
    with pytest.raises(DataError, match="quantiles"):
        cb.fit(GRAPH, DATA, values={"age": LABELS}, bins={"age": 4})


def test_equal_values_merge_quantiles_with_a_warning_and_one_bin_is_refused():
    values = [0] * 6 + [1, 2, 3, 4]
    with pytest.warns(DataWarning, match="'x' has 2 bins instead of 4"):
        model = cb.fit({"x": []}, {"x": values}, bins={"x": 4})
    assert model["x"].states == ("(-inf, 2)", "[2, inf)")
    with pytest.raises(DataError, match="60% of the values of 'x' are 0"):
        cb.fit({"x": []}, {"x": values}, bins={"x": 2})


def test_missing_values_stay_missing_and_count_for_no_quantile(tmp_path):
    values = [None, *range(40), -999]
    (tmp_path / "x.csv").write_text("x\n" + "\n".join("NA" if v is None else str(v) for v in values) + "\n")
    floats = np.array([np.nan, *range(40), -999])
    for data in ({"x": values}, {"x": floats}, tmp_path / "x.csv"):
        for bins in (4, [0, 20, 39]):
            model = cb.fit({"x": []}, data, bins={"x": bins}, missing="drop", na_values=[-999])
            assert model.posterior.rows == 40
        with pytest.raises(DataError, match="missing in 2 of 42 rows"):
            cb.fit({"x": []}, data, bins={"x": 4}, na_values=[-999])
    states = cb.fit({"x": []}, {"x": values}, bins={"x": 4}, missing="drop", na_values=[-999])["x"].states
    assert states == ("(-inf, 10)", "[10, 20)", "[20, 30)", "[30, inf)")


def test_a_stream_has_bins_by_edges_and_no_quantiles():
    import pyarrow

    def stream():
        return pyarrow.RecordBatchReader.from_batches(pyarrow.table(DATA).schema, pyarrow.table(DATA).to_batches())

    assert cb.fit(GRAPH, stream(), bins={"age": EDGES}) == cb.fit(GRAPH, DATA, bins={"age": EDGES})
    with pytest.raises(DataError, match=r"read only once\. Pass the edges,"):
        cb.fit(GRAPH, stream(), bins={"age": 4})


def test_without_data_edges_are_states_and_quantiles_are_refused():
    model = prior_model({"age": []}, bins={"age": EDGES})
    assert model["age"].states == LABELS
    with pytest.raises(DataError, match=r"Quantiles require data\. Without"):
        prior_model({"age": []}, bins={"age": 4})


def test_a_model_keeps_its_bins_for_later_data(tmp_path):
    model = cb.fit(GRAPH, DATA, bins={"age": 4})
    cb.write(model, tmp_path / "model.json")
    again = cb.read(tmp_path / "model.json")
    later = {"age": [3, 40, 200], "bought": [0, 1, 1]}  # beyond what was seen before
    more = cb.fit(again, later, prior=again)
    assert more.posterior.counts["age"].sum() == 3
    assert more["age"].states == model["age"].states
    assert cb.check(again, DATA).rows == 400
    assert cb.fit(GRAPH, later, bins={"age": [*EDGES[:-1], 300]}, prior=1).posterior.rows == 3


def test_check_takes_bins_and_fits_with_hidden_causes_too():
    assert cb.check({"age": [], "bought": []}, DATA, bins={"age": 4}).contradicted
    graph = cb.CausalGraph(GRAPH, hidden=[("age", "bought")])
    assert cb.fit(graph, DATA, bins={"age": EDGES})["age"].states == LABELS


def test_numbers_stand_for_their_intervals_in_contexts_outcomes_and_past_rounds():
    data = {**DATA, "mail": RNG.choice(["a", "b"], size=400)}
    model = cb.fit({"age": [], "mail": [], "opened": ["age", "mail"]}, {**data, "opened": BOUGHT}, bins={"age": EDGES})
    problem = cb.Problem(model, manipulable=["mail"], reward_parents=["opened", "age"], context=["age"], optional=True)
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=0)
    decision = agent.ask(context={"age": 33})
    agent.tell(decision.id, reward=1, observed={"opened": 1, "age": 44})
    assert [outcome.z for outcome in agent._outcomes] == [(1, 1)]
    with pytest.raises(
        CausalBanditsError, match=r"'age' must be a number from 0 to 90, or one of its intervals.*got 95"
    ):
        agent.ask(context={"age": 95})
    with pytest.raises(CausalBanditsError, match=r"'age' must be a number from 0 to 90.*got '33', which is a text"):
        agent.ask(context={"age": "33"})
    past = {"age": [20, 50.5], "opened": [1, 0], "clicked": [1, 0]}
    assert agent.learn(past, reward="clicked").used == 2
    assert sorted(outcome.z for outcome in agent._outcomes) == [(0, 2), (1, 0), (1, 1)]


def test_past_rewards_may_have_any_number_of_values():
    env = cb.zoo.figure2()
    rows = env.problem.model.sample(6000, rng=0)
    agent = cb.Agent(env.problem, "c-ts(scales=given)", seed=0)
    assert agent.learn({**rows, "y": RNG.normal(size=6000)}, reward="y").used == 6000


def test_labels_give_back_their_edges():
    for edges in ([0, 30, 45, 60], [-np.inf, 0.1, 1 / 3, np.inf], [-1e300, 1e-300, 1e15 + 2], [-0.0, 1]):
        found = Intervals.from_labels(Intervals(edges).labels)
        assert found is not None
        assert found.edges.tolist() == [float(edge) for edge in edges]
    for labels in (("a", "b"), ("[0, 30)", "[31, 45]"), ("[0, 30)", "[30, 45)"), ("(0, 30]", "(30, 45]"), (1, 2)):
        assert Intervals.from_labels(labels) is None
    assert json.dumps(Intervals([0, 1]).labels) == '["[0, 1]"]'
