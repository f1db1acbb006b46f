"""From data to tables and back: every count, source, posterior, missing value and refusal; and data against graphs."""

from __future__ import annotations

import array
import csv
import datetime
import decimal
import gzip
import importlib
import itertools
import math
import pickle
import sys
import time
import warnings
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

import causalbandits as cb
from causalbandits.errors import DataError, DataWarning, ModelError, ProblemError, SizeError
from causalbandits.fitting import batches, codebook, em, prior_model, sources
from causalbandits.fitting import chi_square as pearson
from causalbandits.fitting import counts as counting
from causalbandits.fitting import csv as csv_files
from causalbandits.fitting.check import find_independencies
from causalbandits.fitting.structure import parse_structure
from causalbandits.model import DirichletPosterior
from oracles import cases, distribution, models, patient

pandas = pytest.importorskip("pandas")
arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

GRAPH = {"purpose": [], "subject": ["purpose"]}
DATA = {
    "purpose": ["Promo", "Promo", "Nurture", "Promo", "Nurture"],
    "subject": ["short", "short", "long", "long", "long"],
}


def graph_of(model):
    return {name: v.parents for name, v in model.variables.items()}


def states_of(model):
    return {name: v.states for name, v in model.variables.items()}


def counted_by_hand(model, columns, was_set):
    """Row by row, variable by variable."""
    counts = {name: np.zeros(v.table.shape) for name, v in model.variables.items()}
    for i in range(len(next(iter(columns.values())))):
        for name, v in model.variables.items():
            if name not in was_set[i]:
                counts[name][tuple(model[axis].code(columns[axis][i]) for axis in (*v.parents, name))] += 1
    return counts


# --- counting -----------------------------------------------------------------------------------------


@patient
@given(models(), st.integers(1, 60), st.integers(1, 70), st.integers(0, 99), st.sampled_from([1, 30, 2**14]))
def test_counts_are_those_of_a_plain_loop_over_the_rows(model, n, batch, seed, joint):
    """Whatever the batches, with or without joint counting, and rows in which variables were set."""
    rng = np.random.default_rng(seed)
    columns = {name: column.tolist() for name, column in model.sample(n, rng=rng).items()}
    was_set = [frozenset(name for name in model.names if rng.random() < 0.2) for _ in range(n)]
    by_hand = counted_by_hand(model, columns, was_set)
    data = columns | {"what": [",".join(sorted(names)) for names in was_set]}
    flags = {name: np.array([name in names for names in was_set]) for name in model.names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH", batch)
        patch.setattr(counting, "JOINT_LIMIT", joint)
        named = cb.fit(model, data, interventions="what")
        flagged = cb.fit(model, data, interventions=flags)
    assert named == flagged
    for name in model.names:
        assert np.array_equal(named.posterior.counts[name], by_hand[name])
        mean = (by_hand[name] + 1) / (by_hand[name] + 1).sum(axis=-1, keepdims=True)
        assert np.allclose(named[name].table, mean, rtol=1e-15)


@patient
@given(models(), st.integers(1, 40), st.integers(1, 50), st.integers(0, 99))
def test_states_that_are_found_are_those_in_the_data_sorted(model, n, batch, seed):
    columns = model.sample(n, rng=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "BATCH", batch)
        found = cb.fit(graph_of(model), columns)
    for name in model.names:
        assert found[name].states == tuple(sorted(set(columns[name].tolist())))
    given_ = cb.fit(graph_of(model), columns, values=states_of(found))
    assert found == given_


def test_ten_million_rows_would_not_overflow_and_large_numbers_are_looked_up():
    values = np.array([2**40, -5, 2**40, 7])
    fitted = cb.fit({"x": []}, {"x": values}, prior=0)
    assert fitted["x"].states == (-5, 7, 2**40)
    assert fitted["x"].table.tolist() == [0.25, 0.25, 0.5]


# --- sources ------------------------------------------------------------------------------------------


def mixed_rows(n=500):
    """Text, whole numbers, fractions and truth values, in every kind of column."""
    rng = np.random.default_rng(4)
    return {
        "text": np.array(["b", "a", 'ä,"c"'])[rng.integers(3, size=n)].tolist(),
        "whole": rng.integers(-2, 12, size=n).tolist(),
        "real": np.array([0.5, 1.0, 2.25])[rng.integers(3, size=n)].tolist(),
        "truth": (rng.random(n) < 0.5).tolist(),
        "id": list(range(n)),
    }


MIXED = {"text": [], "whole": ["text"], "real": ["whole"], "truth": ["text", "real"]}


def every_source(rows, folder):
    table = arrow.table(rows)
    frame = pandas.DataFrame(rows)
    parquet.write_table(table, folder / "rows.parquet", row_group_size=97)
    frame.to_csv(folder / "rows.csv", index=False)
    (folder / "parts").mkdir()
    parquet.write_table(table.slice(0, 200), folder / "parts" / "0.parquet")
    parquet.write_table(table.slice(200), folder / "parts" / "1.parquet")
    yield from {
        "lists": rows,
        "arrays": {name: np.array(column) for name, column in rows.items()},
        "objects": {name: np.array(column, dtype=object) for name, column in rows.items()},
        "pandas": frame,
        "pandas, categories": frame.astype({"text": "category", "whole": "category"}),
        "pandas, extension types": frame.convert_dtypes(),
        "pandas, arrow types": frame.astype({"text": pandas.ArrowDtype(arrow.string())}),
        "pandas, odd index": frame.set_index(np.zeros(len(frame))),
        "series": {name: frame[name] for name in frame},
        "table": table,
        "batch": table.combine_chunks().to_batches()[0],
        "reader": table.to_reader(max_chunksize=83),
        "dictionary": table.set_column(0, "text", table["text"].dictionary_encode()),
        "dataset": __import__("pyarrow.dataset").dataset.dataset(folder / "parts"),
        "folder": folder / "parts",
        "parquet": folder / "rows.parquet",
        "csv": str(folder / "rows.csv"),
    }.items()


def test_each_distinct_value_is_looked_up_once(monkeypatch):
    """In the first part of a column as in later ones; missing values among texts, too."""
    looked_up, plain = [], codebook.Codebook._code
    monkeypatch.setattr(codebook.Codebook, "_code", lambda book, value: looked_up.append(value) or plain(book, value))
    book = codebook.Codebook("x")
    for column in (["b", "a", None, "b"] * 500, ["b", "c", None] * 500):
        codes = book.encode(column, 0)
        assert looked_up == list(dict.fromkeys(column))
        assert [None if code < 0 else book.values[code] for code in codes] == column
        looked_up.clear()


def test_missing_values_that_a_sequence_makes_anew_are_missing():
    book = codebook.Codebook("x")
    assert book.encode(array.array("d", [math.nan, 0.5, math.nan]), 0).tolist() == [-1, 0, -1]


@pytest.mark.parametrize("batch", [1, 7, 2**14])
def test_every_source_gives_the_same_model_bit_for_bit(tmp_path, monkeypatch, batch):
    rows = mixed_rows(500 if batch > 1 else 60)
    monkeypatch.setattr(batches, "BATCH", batch)
    monkeypatch.setattr(csv_files, "BLOCK", 1000)
    models_ = {name: cb.fit(MIXED, source) for name, source in every_source(rows, tmp_path)}
    first = models_["lists"]
    assert first["whole"].states == tuple(sorted(set(rows["whole"])))
    assert {name: type(state) for name, state in zip(MIXED, (first[n].states[0] for n in MIXED), strict=True)} == {
        "text": str, "whole": int, "real": float, "truth": bool,
    }  # fmt: skip
    for name, model in models_.items():
        assert model == first, name
        assert [type(s) for v in model.variables.values() for s in v.states] == [
            type(s) for v in first.variables.values() for s in v.states
        ], name


def test_polars_gives_the_same_model(monkeypatch):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    monkeypatch.setattr(batches, "BATCH", 99)
    frame = polars.DataFrame(mixed_rows())
    expected = cb.fit(MIXED, mixed_rows())
    assert cb.fit(MIXED, frame) == expected
    assert cb.fit(MIXED, frame.with_columns(polars.col("text").cast(polars.Categorical))) == expected
    gaps = frame.with_columns(
        polars.when(polars.col("whole") > 3).then(None).otherwise(polars.col("text")).alias("text")
    )
    kept = gaps.filter(polars.col("text").is_not_null())
    assert cb.fit(expected, gaps, missing="drop") == cb.fit(expected, kept)
    with pytest.raises(DataError, match=r"has not been computed yet\. Pass data\.collect\(\)"):
        cb.fit(MIXED, frame.lazy())


def test_csv_without_pyarrow_gives_the_same_model(tmp_path, monkeypatch):
    rows = mixed_rows()
    pandas.DataFrame(rows).to_csv(tmp_path / "rows.csv", index=False)
    expected = cb.fit(MIXED, tmp_path / "rows.csv")
    for module in ("pyarrow", "pyarrow.csv", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    assert cb.fit(MIXED, tmp_path / "rows.csv") == expected
    parquet_file = tmp_path / "x.parquet"
    parquet_file.write_bytes(b"")
    with pytest.raises(DataError, match=r"Reading Parquet requires pyarrow: pip install 'causalbandits\[data\]',"):
        cb.fit(MIXED, parquet_file)


def test_the_kind_of_a_csv_column_is_that_of_all_its_values(tmp_path):
    """Not of those in the first block; 007 is no number, and a state may be spelt NA if it is given."""
    path = tmp_path / "rows.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = [["1", "007", "1.0", "NA"]] * 5000 + [["x", "08", "2", "b"]]
        csv.writer(file).writerows([["a", "b", "c", "d"], *rows])
    model = cb.fit({"a": [], "b": [], "c": [], "d": []}, path, values={"d": ["b", "NA"]})
    assert [model[name].states for name in "abcd"] == [("1", "x"), ("007", "08"), (1, 2), ("b", "NA")]
    assert model.posterior.counts["d"].tolist() == [1, 5000]
    assert cb.fit({"c": []}, path, values={"c": [2.0, 1.0]}).posterior.counts["c"].tolist() == [1, 5000]


def test_a_file_is_read_by_batches(tmp_path, monkeypatch):
    parquet.write_table(arrow.table({"x": np.arange(10_000) % 3}), tmp_path / "x.parquet")
    monkeypatch.setattr(batches, "BATCH", 1000)
    sizes = [batch.rows for batch in sources.open_source(tmp_path / "x.parquet").batches(["x"])]
    assert sum(sizes) == 10_000
    assert max(sizes) <= 1000


# --- graphs -------------------------------------------------------------------------------------------


def test_a_graph_may_be_a_mapping_a_networkx_graph_or_a_model():
    expected = cb.fit(GRAPH, DATA)
    assert cb.fit({"subject": ["purpose"]}, DATA) == expected
    assert cb.fit(nx.DiGraph([("purpose", "subject")]), DATA) == expected
    assert cb.fit(expected, DATA) == expected
    assert cb.fit(expected.graph, DATA) == expected
    assert cb.fit(GRAPH, DATA, values={"subject": ["short", "long", "none"]}).posterior.counts["subject"].tolist() == [
        [0, 2, 0],
        [2, 1, 0],
    ]


# --- interventions ------------------------------------------------------------------------------------


def confounded(n, rng):
    """Half of the rows set x at random; in the others x follows u."""
    u = rng.random(n) < 0.5
    chosen = rng.random(n) < 0.5
    x = np.where(chosen, rng.random(n) < 0.9, rng.random(n) < np.where(u, 0.8, 0.2))
    y = rng.random(n) < np.where(x, 0.7, 0.3)
    return {"u": u, "x": x, "y": y, "set": np.where(chosen, "x", "")}


def test_rows_in_which_a_variable_was_set_would_bias_its_table_and_serve_its_children():
    """Four standard errors of a proportion from 40,000 or more rows: each of the four cells fails once in 16,000."""
    data = confounded(160_000, np.random.default_rng(0))
    graph = {"u": [], "x": ["u"], "y": ["x"]}
    right, wrong = cb.fit(graph, data, interventions="set"), cb.fit(graph, data)
    tolerance = 4 * math.sqrt(0.25 / 39_000)
    assert np.abs(right["x"].table[:, 1] - [0.2, 0.8]).max() < tolerance
    assert np.abs(wrong["x"].table[:, 1] - [0.55, 0.85]).max() < tolerance
    assert right["y"] == wrong["y"]
    assert right.posterior.counts["y"].sum() == 160_000
    assert right.posterior.counts["x"].sum() == (data["set"] == "").sum()


def test_what_was_set_is_told_in_several_ways(tmp_path):
    data = confounded(300, np.random.default_rng(1))
    graph = {"u": [], "x": ["u"], "y": ["x"]}
    expected = cb.fit(graph, data, interventions="set")
    frame = pandas.DataFrame(data).assign(flag=data["set"] == "x")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    for how in ("set", {"x": "flag"}, {"x": (data["set"] == "x")}):
        assert cb.fit(graph, frame, interventions=how) == expected
        assert cb.fit(graph, tmp_path / "rows.csv", interventions=how) == expected
    several = frame.assign(set=[" u, x" if i % 2 else None for i in range(300)])
    assert cb.fit(graph, several, interventions="set").posterior.counts["u"].sum() == 150


# --- the prior and the posterior ----------------------------------------------------------------------


def test_yesterdays_posterior_is_todays_prior():
    rows = cb.zoo.email_campaign().problem.model.sample(1000, rng=0)
    model = cb.zoo.email_campaign().problem.model
    first = cb.fit(model, {name: column[:300] for name, column in rows.items()})
    both = cb.fit(graph_of(model), {name: column[300:] for name, column in rows.items()}, prior=first)
    whole = cb.fit(model, rows)
    assert all(np.array_equal(both.posterior.concentrations[n], whole.posterior.concentrations[n]) for n in model.names)
    with pytest.raises(ModelError, match="must have the same variables, parents"):
        cb.fit({"product": []}, rows, prior=first)


def test_the_prior_is_a_number_for_every_cell_or_one_per_variable():
    assert cb.fit(GRAPH, DATA, prior=0)["subject"].table.tolist() == [[1, 0], [1 / 3, 2 / 3]]
    fitted = cb.fit(GRAPH, DATA, prior={"purpose": 2, "subject": [[1, 0], [3, 4]]})
    assert fitted["purpose"].table.tolist() == [4 / 9, 5 / 9]
    assert fitted.posterior.concentrations["subject"].tolist() == [[3, 0], [4, 6]]


def test_fitted_tables_converge_like_one_over_the_root_of_the_rows():
    """The root mean square error times sqrt(n), from 20 fits each, is that of proportions within a factor of 1.25.

    Each mean of 20 x 18 squared errors has a relative deviation of about 0.08: a failure is beyond four of these.
    """
    model = cb.zoo.email_campaign().problem.model
    v = model["template"]
    weight = np.multiply.outer(model["product"].table, model["purpose"].table)[..., None]
    exact = math.sqrt((v.table * (1 - v.table) / weight).mean())
    for n in (2000, 8000, 32_000):
        errors = [cb.fit(model, model.sample(n, rng=s))["template"].table - v.table for s in range(20)]
        assert exact / 1.25 < math.sqrt(n * np.mean(np.square(errors))) < exact * 1.25


def test_a_prior_must_have_a_posterior():
    given = cb.CausalModel(cb.fit(GRAPH, DATA).variables.values())
    for estimate in (lambda: cb.fit(GRAPH, DATA, prior=given), lambda: prior_model(GRAPH, prior=given)):
        with pytest.raises(ModelError, match="the prior must have a posterior; the CPTs of"):
            estimate()
    with pytest.raises(ModelError, match=r"CPTs, or a fitted model \(with a posterior\);"):
        cb.fit(GRAPH, DATA, prior=cb.fit(GRAPH, DATA).posterior)


def test_drawn_tables_have_the_posteriors_mean_and_variance():
    """20,000 draws: within five standard errors everywhere; a false alarm once in 10,000."""
    model = cb.fit(GRAPH, DATA, prior={"purpose": 0.01, "subject": 1})
    drawn = model.posterior.draw_cpts(20_000, rng=0)
    for name in model.names:
        a = model.posterior.concentrations[name]
        total = a.sum(axis=-1, keepdims=True)
        mean, variance = a / total, a * (total - a) / total**2 / (total + 1)
        assert np.allclose(drawn[name].sum(axis=-1), 1)
        assert (np.abs(drawn[name].mean(axis=0) - mean) < 5 * np.sqrt(variance / 20_000)).all()
        spread = np.square(drawn[name] - mean)
        assert (np.abs(spread.mean(axis=0) - variance) < 5 * spread.std(axis=0) / math.sqrt(20_000)).all()


def test_draws_with_tiny_pseudo_counts_are_distributions_and_what_has_none_stays_impossible():
    model = cb.fit({"x": []}, {"x": [1]}, values={"x": [0, 1, 2]}, prior={"x": [1e-4, 0, 1e-4]})
    tables = model.posterior.draw_cpts(1000, rng=1)["x"]
    assert np.isfinite(tables).all()
    only_tiny = DirichletPosterior({"x": [0, 0]}, {"x": [1e-5, 1e-5]}, rows=0)
    drawn = only_tiny.draw_cpts(2000, rng=1)["x"]
    assert np.allclose(drawn.sum(axis=1), 1)
    assert 0.4 < drawn[:, 0].mean() < 0.6
    sure = cb.fit({"x": []}, {"x": [1]}, values={"x": [0, 1]}, prior=0).draw(rng=0)
    assert sure["x"].table.tolist() == [0, 1]


def test_draw_is_a_model_and_depends_on_the_seed_only():
    model = cb.fit(GRAPH, DATA)
    one, again, other = model.draw(rng=1), model.draw(rng=1), model.draw(rng=2)
    assert type(one) is cb.CausalModel
    assert one == again != other
    assert graph_of(one) == graph_of(model)


@patient
@given(cases(most=4), st.integers(1, 30), st.data())
def test_drawn_distributions_are_those_of_the_drawn_models(case, n, data):
    """One contraction for all draws against the plain joint of each drawn model; and the mean is the mean tables'."""
    model, manipulable, parents = case
    fitted = cb.fit(model, model.sample(n, rng=0))
    problem = cb.Problem(fitted, manipulable=manipulable, reward_parents=parents, optional=True)
    action = problem.actions[data.draw(st.integers(0, problem.actions.size - 1))]
    mean, lower, upper = problem.parent_distribution(action, interval=True, samples=3, confidence=1 - 1e-12, rng=5)
    tables = fitted.posterior.draw_cpts(3, rng=5)
    each = []
    for i in range(3):
        drawn = cb.CausalModel(
            cb.Variable(v.name, v.states, parents=v.parents, table=tables[v.name][i]) for v in fitted.variables.values()
        )
        each.append(distribution(drawn, action, parents))
    assert np.allclose(lower, np.min(each, axis=0), atol=1e-9)
    assert np.allclose(upper, np.max(each, axis=0), atol=1e-9)
    assert np.array_equal(mean, problem.parent_distribution(action))
    assert np.allclose(mean, distribution(fitted, action, parents))


def test_intervals_cover_what_the_prior_may_draw_at_their_level():
    """300 models drawn from the prior, 4 cells each: a cell is covered with probability 0.9.

    The share of all covered has a standard deviation of at most 0.3 / sqrt(300) = 0.017; we allow four, as
    happens by chance once in 16,000 times.
    """
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(300):
        model = cb.CausalModel(
            [
                cb.Variable("u", [0, 1], table=rng.dirichlet([1, 1])),
                cb.Variable("x", [0, 1, 2], parents=["u"], table=rng.dirichlet([1, 1, 1], 2)),
                cb.Variable("w", [0, 1], parents=["x"], table=rng.dirichlet([1, 1], 3)),
                cb.Variable("v", [0, 1], parents=["x", "u"], table=rng.dirichlet([1, 1], (3, 2))),
            ]
        )
        fitted = cb.fit(model, model.sample(30, rng=rng))
        believed, true = (
            cb.Problem(m, manipulable=["x"], reward_parents=["w", "v"], optional=True) for m in (fitted, model)
        )
        action = true.actions[int(rng.integers(true.actions.size))]
        _, lower, upper = believed.parent_distribution(action, interval=True, confidence=0.9, samples=400, rng=rng)
        exact = true.parent_distribution(action)
        covered.append(((lower <= exact) & (exact <= upper)).mean())
    assert abs(np.mean(covered) - 0.9) < 0.07


def test_only_a_fitted_model_has_intervals():
    problem = cb.zoo.email_campaign().problem
    with pytest.raises(ProblemError, match="Intervals require a model fitted to data;"):
        problem.parent_distribution({}, interval=True)
    fitted = cb.Problem(cb.fit(GRAPH, DATA), manipulable=["purpose"], reward_parents=["subject"], optional=True)
    with pytest.raises(ProblemError, match="confidence must lie between 0 and 1; got 95"):
        fitted.parent_distribution({}, interval=True, confidence=95)
    with pytest.raises(ProblemError, match=r"samples must be a whole number, 2 or more, and .*; got 1"):
        fitted.parent_distribution({}, interval=True, samples=1)


def test_a_fitted_model_comes_back_from_pickle_and_json():
    model = cb.fit(GRAPH, DATA, prior=0.3)
    assert pickle.loads(pickle.dumps(model)) == model
    assert cb.CausalModel.from_json(model.to_json()) == model
    plain = cb.CausalModel(model.variables.values())
    assert plain.variables == model.variables
    assert plain != model
    assert model != plain
    assert hash(model) == hash(cb.fit(GRAPH, DATA, prior=0.3))
    assert model != cb.fit(GRAPH, DATA, prior=0.4)
    assert repr(model) == "CausalModel(2 variables, 1 edges, from 5 rows)"
    with pytest.raises(ValueError, match="read-only"):
        model.posterior.counts["subject"][0, 0] = 1
    assert (
        pickle.loads(
            pickle.dumps(cb.Problem(model, manipulable=["purpose"], reward_parents=["subject"], optional=True))
        ).model
        == model
    )


# --- missing values -----------------------------------------------------------------------------------


def with_gaps(columns, share, rng):
    gaps = {}
    for name, column in columns.items():
        values = np.array(column, dtype=object)
        values[rng.random(len(values)) < share] = None
        gaps[name] = values
    return gaps


def test_missing_values_are_refused_with_their_number_in_each_column(tmp_path):
    data = {"purpose": ["a", None, "b", math.nan], "subject": ["x", "y", None, None], "note": [None] * 4}
    message = r"missing in 3 of 4 rows; by column: 'purpose' 2, 'subject' 2. Use missing='drop'.* or missing='em'"
    pandas.DataFrame(data).to_csv(tmp_path / "rows.csv", index=False)
    for source in (
        data,
        pandas.DataFrame(data),
        arrow.Table.from_pandas(pandas.DataFrame(data)),
        tmp_path / "rows.csv",
    ):
        with pytest.raises(DataError, match=message):
            cb.fit(GRAPH, source)
    with pytest.raises(DataError, match=r"missing in 3 of 4 rows.*Use missing='drop' to leave these rows out\."):
        cb.check(GRAPH, data)
    numbers = {"purpose": np.array([1.0, np.nan, 2.0, 1.0]), "subject": [1, 2, 1, 2]}
    kept = cb.fit(GRAPH, numbers, missing="drop")
    assert kept["purpose"].states == (1, 2)
    assert kept.posterior.rows == 3
    masked = {"purpose": np.ma.array([1, 9, 2, 1], mask=[0, 1, 0, 0]), "subject": [1, 2, 1, 2]}
    nullable = pandas.DataFrame({"purpose": pandas.array([1, None, 2, 1], dtype="Int64"), "subject": [1, 2, 1, 2]})
    assert cb.fit(GRAPH, masked, missing="drop") == kept == cb.fit(GRAPH, nullable, missing="drop")


def test_values_in_dropped_rows_are_still_states():
    model = cb.fit(GRAPH, {"purpose": ["a", "b", "c"], "subject": [1, 1, None]}, missing="drop")
    assert model["purpose"].states == ("a", "b", "c")
    assert model.posterior.counts["purpose"].tolist() == [1, 1, 0]


def test_none_is_a_state_where_it_is_given_as_one():
    for column in ([None, "a", None], np.array([None, "a", None]), pandas.Series([None, "a", None], dtype=object)):
        model = cb.fit({"x": []}, pandas.DataFrame({"x": column}), values={"x": ["a", None]})
        assert model.posterior.counts["x"].tolist() == [1, 2]


@patient
@given(models(most=4), st.integers(1, 30), st.integers(0, 99))
def test_em_equals_the_plain_fit_where_nothing_is_missing_and_drop_that_of_the_complete_rows(model, n, seed):
    rng = np.random.default_rng(seed)
    columns = {name: column.tolist() for name, column in model.sample(n, rng=rng).items()}
    assert cb.fit(model, columns, missing="em") == cb.fit(model, columns)
    gaps = with_gaps(columns, 0.2, rng)
    whole = [i for i in range(n) if all(column[i] is not None for column in gaps.values())]
    if whole:
        kept = cb.fit(model, {name: [column[i] for i in whole] for name, column in columns.items()})
        assert cb.fit(model, gaps, missing="drop") == kept


def em_input(model, columns):
    structure = parse_structure(model)
    rows = counting.Rows(structure, sources.open_source(columns))
    gaps = em.IncompleteRows(structure.names)
    for coded, complete in rows:
        gaps.add(coded.select(~complete) if complete is not None else coded.select(np.zeros(rows.count, dtype=bool)))
    shapes = {name: v.table.shape for name, v in model.variables.items()}
    zeros = {name: np.zeros(shape) for name, shape in shapes.items()}
    orders = {name: np.arange(len(v.states)) for name, v in model.variables.items()}
    return structure, shapes, zeros, gaps.reorder(orders)


@patient
@given(models(most=4), st.integers(1, 25), st.integers(0, 99), st.sampled_from([0.0, 0.5, 1.0]))
def test_every_step_of_em_raises_the_likelihood_of_what_was_observed(model, n, seed, prior):
    rng = np.random.default_rng(seed)
    gaps = with_gaps(model.sample(n, rng=rng), 0.4, rng)
    structure, shapes, zeros, incomplete = em_input(model, gaps)
    pseudo = {name: np.full(shape, prior) for name, shape in shapes.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(em, "TOLERANCE", 1e-4)
        _, objective = em.maximise(structure, shapes, zeros, pseudo, incomplete)
    steps = np.diff(objective)
    assert (steps >= -1e-9 * (1 + np.abs(objective[:-1]))).all()


def test_the_observed_likelihood_is_that_of_the_joint():
    """The first objective of EM, by summing the joint over what is missing."""
    model = cb.zoo.email_campaign().problem.model
    rng = np.random.default_rng(0)
    gaps = with_gaps(model.sample(20, rng=rng), 0.3, rng)
    structure, shapes, zeros, incomplete = em_input(model, gaps)
    _, (first, *_) = em.maximise(structure, shapes, zeros, zeros, incomplete)
    uniform = cb.CausalModel(
        cb.Variable(v.name, v.states, parents=v.parents, table=np.full(v.table.shape, 1 / len(v.states)))
        for v in model.variables.values()
    )
    joint = distribution(uniform, {}, model.names)
    total = 0.0
    for row in zip(*gaps.values(), strict=True):
        if None in row:
            at = tuple(slice(None) if s is None else model[n].code(s) for n, s in zip(model.names, row, strict=True))
            total += math.log(joint[at].sum())
    assert first == pytest.approx(total)


def test_em_finds_the_tables_where_dropping_rows_is_biased():
    """y is missing more often where w, its effect, is 0. The full data set's answer is the yardstick: EM from 40,000
    rows must be within 0.03 of the truth everywhere (over six standard errors), and dropping off by more than 0.1."""
    model = cb.CausalModel(
        [
            cb.Variable("y", [0, 1], table=[0.5, 0.5]),
            cb.Variable("w", [0, 1], parents=["y"], table=[[0.8, 0.2], [0.3, 0.7]]),
        ]
    )
    rng = np.random.default_rng(2)
    data = model.sample(40_000, rng=rng)
    y = data["y"].astype(float)
    y[(data["w"] == 0) & (rng.random(len(y)) < 0.7)] = np.nan
    gaps = {"y": y, "w": data["w"]}
    fitted, dropped = (cb.fit(model, gaps, missing=how) for how in ("em", "drop"))
    assert all(np.abs(fitted[name].table - model[name].table).max() < 0.03 for name in model.names)
    assert np.abs(dropped["y"].table - model["y"].table).max() > 0.1
    assert fitted.posterior.rows == 40_000
    assert fitted.posterior.counts["w"].sum() == pytest.approx(40_000)


def test_em_does_not_depend_on_batches_or_the_order_of_rows(monkeypatch):
    model = cb.zoo.email_campaign().problem.model
    rng = np.random.default_rng(0)
    gaps = with_gaps(model.sample(300, rng=rng), 0.1, rng)
    whole = cb.fit(graph_of(model), gaps, missing="em")
    monkeypatch.setattr(batches, "BATCH", 7)
    order = rng.permutation(300)
    assert cb.fit(graph_of(model), {name: column[order] for name, column in gaps.items()}, missing="em") == whole


def test_em_leaves_out_the_tables_of_what_was_set():
    data = confounded(4000, np.random.default_rng(0))
    data["y"] = np.where(np.arange(4000) % 3, data["y"], None)
    fitted = cb.fit({"u": [], "x": ["u"], "y": ["x"]}, data, interventions="set", missing="em")
    assert fitted.posterior.counts["x"].sum() == (data["set"] == "").sum()
    assert fitted.posterior.counts["y"].sum() == pytest.approx(4000)
    data["x"] = np.where(np.arange(4000) % 5, data["x"], None)
    with pytest.raises(DataError, match="must be known; in some rows 'x' was set and its value"):
        cb.fit({"u": [], "x": ["u"], "y": ["x"]}, data, interventions="set", missing="em")


def test_em_has_its_limits_and_says_so(monkeypatch):
    gaps = {"a": [0, 1, None, 1], "b": [None, 1, 0, 0]}
    monkeypatch.setattr(em, "ITERATIONS", 2)
    with pytest.raises(DataError, match="has not converged after 2 steps: probabilities still change by"):
        cb.fit({"a": [], "b": ["a"]}, gaps, missing="em")
    monkeypatch.setattr(em, "COMPLETION_LIMIT", 3)
    with pytest.raises(SizeError, match="2 different ones, have 4 completions; the limit is 3"):
        cb.fit({"a": [], "b": ["a"]}, gaps, missing="em")
    with pytest.raises(DataError, match="No value of 'a' was observed, so"):
        cb.fit({"a": []}, {"a": [None, None]}, values={"a": [0, 1]}, missing="em")


def test_a_fit_that_filled_in_missing_values_says_so_wherever_it_is_used():
    """Its intervals take guesses for observed: they are too narrow, and nobody may see them without that word."""
    model = cb.zoo.email_campaign().problem.model
    rng = np.random.default_rng(0)
    gaps = with_gaps(model.sample(300, rng=rng), 0.3, rng)
    missing = sum(value is None for column in gaps.values() for value in column)
    fitted = cb.fit(model, gaps, missing="em")
    assert fitted.posterior.filled == missing > 300
    assert repr(fitted) == f"CausalModel(5 variables, 3 edges, from 300 rows, {missing} missing values imputed)"
    for back in (cb.CausalModel.from_json(fitted.to_json()), pickle.loads(pickle.dumps(fitted))):
        assert back == fitted
        assert back.posterior.filled == missing
    problem = cb.Problem(fitted, manipulable=["purpose"], reward_parents=["subject"], optional=True)
    said = f"The fit imputed {missing} missing values and treats them as observed. "
    with pytest.warns(DataWarning, match=f"{said}Intervals are too narrow."):
        problem.parent_distribution({}, interval=True)
    with pytest.warns(DataWarning, match=said):
        fitted.draw(rng=0)
    assert f"{said}The p-values of its CPTs are too small." in str(cb.check(fitted, model.sample(300, rng=1)))
    later = cb.fit(model, model.sample(300, rng=2), prior=fitted)
    assert later.posterior.filled == missing, "the guesses are in the prior"
    assert later != cb.CausalModel.from_posterior(later.causal_graph, later.posterior.replace(filled=0))


def test_a_fit_that_filled_in_nothing_says_nothing():
    model = cb.zoo.email_campaign().problem.model
    for how in ("refuse", "drop", "em"):
        fitted = cb.fit(model, model.sample(300, rng=0), missing=how)
        assert fitted.posterior.filled == 0
        assert fitted.to_record()["posterior"]["filled"] == 0
        fitted.draw(rng=0)
        assert not cb.check(fitted, model.sample(300, rng=1)).remark
    with pytest.raises(ModelError, match="filled must be a whole number, 0 or more; got -1"):
        DirichletPosterior({"x": [1]}, {"x": [1]}, rows=1, filled=-1)


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": 3}, r"Data must be a pandas or polars DataFrame.* a .csv, .csv.gz or .parquet file; got int"),
        ({"data": "rows.xlsx"}, "There is no file 'rows.xlsx'"),
        ({"data": {}}, "The data need a column for every variable; they have no columns"),
        ({"data": {"purpose": [], "subject": []}}, "must have at least one row; they have none"),
        ({"data": {"purpos": [1], "subject": [1]}}, r"'purpose' has none. .*Did you mean 'purpos'\? Known: 'purpos'"),
        ({"data": {"purpose": [1, 2], "subject": [1]}}, "same number of rows; they have: 'purpose' 2, 'subject' 1"),
        ({"data": {"purpose": [[1], [2]], "subject": [1, 2]}}, r"of 'purpose' must be text .*; in row 0 it is \[1\]"),
        ({"data": {"purpose": np.ones((2, 2)), "subject": [1, 2]}}, "'purpose' must be .* an array of one dimension"),
        ({"data": {"purpose": [1, "a"], "subject": [1, 2]}}, r"no common order: int \(1\), str \('a'\)"),
        ({"data": {"purpose": [math.inf], "subject": [1]}}, "of 'purpose' must be .*finite.*; in row 0 it is inf"),
        ({"data": {"purpose": np.array([-np.inf]), "subject": [1]}}, "must be text .*finite .*; in row 0 it is -inf"),
        ({"data": {"purpose": np.array(["2024"], dtype="M8[D]"), "subject": [1]}}, r"must be text.*holds datetime64"),
        ({"data": {"purpose": [None], "subject": [1]}, "missing": "drop"}, "Every one of the 1 rows has a missing"),
        ({"data": {"purpose": np.random.default_rng(0).random(5000), "subject": np.ones(5000)}},
         "'purpose' is a column of numbers with more than 4096 distinct values"),
        ({"data": {"purpose": [f"id {i}" for i in range(5000)], "subject": np.ones(5000)}},
         "'purpose' has more than 4096 different values"),
        ({"values": {"subject": ["short", "lang"]}}, r"value of 'subject' in row 2: 'long'. Did you mean 'lang'\?"),
        ({"values": {"subjekt": ["short"]}}, "values: Unknown variable 'subjekt'. Did you mean 'subject'"),
        ({"values": ["short"]}, r"values must map variables to lists of values.*got \['short'\]"),
        ({"values": {"subject": "short"}}, "states of 'subject' must be a list of values"),
        ({"missing": "ignore"}, "Unknown way to treat missing values: 'ignore'.* Known: 'refuse', 'drop', 'em'"),
        ({"prior": -1}, r"prior must be a pseudo-count for every cell, 0 or more: .* for 'purpose' .*it is -1"),
        ({"prior": "one"}, "prior must be a pseudo-count .* it is 'one'"),
        ({"prior": math.nan}, "prior must be a pseudo-count .* it is nan"),
        ({"prior": {"subject": [1, 2, 3]}}, r"for 'subject' \(shape \(2, 2\)\) it is \[1, 2, 3\]"),
        ({"prior": {"sbject": 1}}, "prior: Unknown variable 'sbject'. Did you mean 'subject'"),
        ({"prior": 0, "values": {"purpose": ["Promo", "Nurture", "Other"]}},
         r"1 of the 3 rows of the CPT of 'subject' do not occur in the data, .*: P\(subject \| purpose='Other'\)"),
        ({"interventions": "was_set"}, "The data need a column for every intervention indicator; 'was_set' has none"),
        (
            {"interventions": "subject"},
            "The column 'subject' must name the variables that were set. Unknown variable 'short'",
        ),
        ({"interventions": 3}, "interventions must be the name of a column .*; got 3"),
        ({"interventions": {"subjct": "x"}}, "interventions: Unknown variable 'subjct'. Did you mean 'subject'"),
        ({"interventions": {"subject": "purpose"}}, "Unknown value of 'purpose' in row 0: 'Promo'.*Known: False, True"),
        ({"interventions": {"subject": [True]}}, "'subject' has 1 entries; the data have at least 5 rows"),
        ({"interventions": {"subject": [True] * 6}}, "'subject' has 6 entries; the data have 5 rows"),
        ({"interventions": {"subject": [1, 0, 1, 0, 1]}}, "needs the name of a column, or an array of True and False"),
        ({"graph": 3}, "The graph must be a text such as .*, a mapping .*; got 3"),
        ({"graph": {}}, "The graph needs at least one variable"),
        ({"graph": {"purpose": ["subject"], "subject": ["purpose"]}}, "must have no cycle; it has "),
        ({"graph": {"subject": "purpose"}}, "parents of 'subject' must be a list of names"),
        ({"graph": {1: []}}, "name must be a non-empty string, not 1"),
    ],
)  # fmt: skip
def test_what_cannot_be_fitted_is_refused_with_the_rule_the_value_and_the_way_out(changes, message):
    asked = {"graph": GRAPH, "data": DATA} | changes
    with pytest.raises(cb.CausalBanditsError, match=message):
        cb.fit(**asked)


def test_bad_files_are_refused_with_their_name(tmp_path):
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    (tmp_path / "ragged.csv").write_text("purpose,subject\n1,2\n1\n", encoding="utf-8")
    (tmp_path / "rows.txt").write_text("x", encoding="utf-8")
    (tmp_path / "rows.parquet").write_bytes(b"nonsense")
    (tmp_path / "latin.csv").write_bytes("purpose,subjéct\n".encode("latin-1"))
    for name, message in {
        "empty.csv": "must begin with a line of column names; it is empty",
        "ragged.csv": "ragged.csv' as CSV: line 3: expected 2 fields, as in the first line, found 1: '1'",
        "rows.txt": "must end in .csv, .csv.gz or .parquet; got .*rows.txt",
        "rows.parquet": "Cannot read .*rows.parquet.* as Parquet",
        "latin.csv": "Cannot read .*latin.csv' as CSV: line 1: expected text in UTF-8, found the byte 0xe9",
    }.items():
        with pytest.raises(DataError, match=message):
            cb.fit(GRAPH, tmp_path / name)


def test_odd_columns_are_refused_or_ignored():
    doubled = pandas.DataFrame([[1, 2, 3]], columns=["purpose", "purpose", "subject"])
    with pytest.raises(DataError, match="columns' names must differ: 'purpose' appears twice"):
        cb.fit(GRAPH, doubled)
    nested = arrow.table({"purpose": [[1], [2]], "subject": [1, 2]})
    with pytest.raises(DataError, match=r"'purpose' must hold text.*; its type is list|must be text.*it is \[1\]"):
        cb.fit(GRAPH, nested)
    with pytest.raises(DataError, match=r"must be text.*; in row 0 it is \[1\]"):
        cb.fit(GRAPH, pandas.DataFrame({"purpose": [[1], [2]], "subject": [1, 2]}))
    assert cb.fit(GRAPH, DATA | {"note": [object()] * 5}) == cb.fit(GRAPH, DATA)


def object_column(values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


@pytest.mark.parametrize(
    "value",
    [
        datetime.date(2024, 5, 1), datetime.datetime(2024, 5, 1), datetime.timedelta(1), decimal.Decimal("0.1"), b"a",
        pandas.Timestamp("2024-05-01"), pandas.Timedelta("1D"), pandas.Interval(0, 1), 1j, frozenset(),
        np.datetime64("2024-05-01", "ns"), np.timedelta64(3, "ns"), {"a": 1}, object(), math.inf, 10**400,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_that_no_file_could_keep_is_refused_at_the_fit_with_its_column_and_row(value):
    """Not when the model is saved, after the campaign."""
    message = r"(?s)The values of 'x' must be text .*finite numbers, .*; in row 2 it is .*\. Convert it to text"
    for data in ({"x": ["a", "a", value]}, pandas.DataFrame({"x": object_column(["a", "a", value])})):
        with pytest.raises(DataError, match=message):
            cb.fit({"x": []}, data)


def test_columns_of_dates_decimals_and_bytes_are_refused_whatever_holds_them():
    days = pandas.DataFrame({"x": pandas.to_datetime(["2024-05-01", None, "2024-05-03"])})
    polars = pytest.importorskip("polars")
    for data in (
        days,
        days.astype("datetime64[ns]").astype("category"),
        days.assign(x=days.x - days.x.iloc[0]),
        {"x": days.x.to_numpy()},
        polars.DataFrame({"x": [datetime.date(2024, 5, 1)]}),
        arrow.table({"x": arrow.array([2**60 + 1], arrow.timestamp("ns"))}),
        arrow.table({"x": [decimal.Decimal("0.1")]}),
        arrow.table({"x": [b"a"]}),
    ):
        with pytest.raises(DataError, match=r"'x' must (be|hold) text"):
            cb.fit({"x": []}, data, missing="drop")


@patient
@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.dates()), min_size=1))
def test_what_is_fitted_can_be_saved(values):
    try:
        with warnings.catch_warnings(action="ignore", category=DataWarning):
            model = cb.fit({"x": []}, {"x": values}, missing="drop")
    except cb.CausalBanditsError:
        return
    assert cb.CausalModel.from_json(model.to_json()) == model


def test_bins_of_pandas_are_states_in_their_order():
    frame = pandas.DataFrame({"age": pandas.cut(pandas.Series([3, 15, 70, 15]), [0, 5, 40, 100])})
    model = cb.fit({"age": []}, frame)
    assert model["age"].states == ("(0, 5]", "(5, 40]", "(40, 100]")
    assert model.posterior.counts["age"].tolist() == [1, 2, 1]
    assert cb.CausalModel.from_json(model.to_json()) == model


def test_ordered_categories_keep_their_order_and_others_are_sorted(monkeypatch):
    order = ["low", "mid", "high", "never"]
    values = ["high", "low", "mid", "low", None]
    ordered = pandas.DataFrame({"x": pandas.Categorical(values, order, ordered=True)})
    monkeypatch.setattr(batches, "BATCH", 2)
    for data in (ordered, arrow.Table.from_pandas(ordered)):
        model = cb.fit({"x": []}, data, missing="drop")
        assert model["x"].states == ("low", "mid", "high")
        assert model.posterior.counts["x"].tolist() == [2, 1, 1]
    assert cb.fit({"x": []}, pandas.DataFrame({"x": pandas.Categorical(values, order)}), missing="drop")[
        "x"
    ].states == ("high", "low", "mid")
    assert cb.fit({"x": []}, ordered, missing="drop", values={"x": order[::-1]})["x"].states == tuple(order[::-1])


# --- messy files --------------------------------------------------------------------------------------


@pytest.fixture(params=["pyarrow", "plain"])
def reader(request, monkeypatch):
    """With pyarrow and without it."""
    if request.param == "plain":
        for module in ("pyarrow", "pyarrow.csv"):
            monkeypatch.setitem(sys.modules, module, None)


def a_file(folder, text, name="rows.csv"):
    path = folder / name
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    return path


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "ROWS.CSV.GZ"])
@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_a_csv_file_may_have_another_delimiter_and_be_compressed(tmp_path, name, sign):
    frame = pandas.DataFrame(mixed_rows(200))
    text = frame.to_csv(index=False, sep=sign)
    path = a_file(tmp_path, text, name)
    assert cb.fit(MIXED, path, delimiter=sign) == cb.fit(MIXED, frame)
    assert cb.check(MIXED, path, delimiter=sign) == cb.check(MIXED, frame)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1;2\n", r"has a single column, 'a;b': its fields seem to be separated by ';'\. Pass delimiter=';';"),
        ("a\tb\n1\t2\n", r"its fields seem to be separated by '\\t'\. Pass delimiter='\\t'; or pass delimiter=',' if"),
        ('a,b\n1,2\n\n3,"4\n5,6\n', r"rows.csv' as CSV: line 4: .*Is there a quote that is not closed\?"),
        ('a,b\n1,2\n"3,4\n5,6\n', r"rows.csv' as CSV: line 3: "),
        ('a,b\n1,"2\n' + "3,4\n" * 500_000, r"rows.csv' as CSV: line 2: .*Is there a quote that is not closed\?"),
        ("a,b\n1,2\n\n3\n", r"line 4: expected 2 fields, as in the first line, found 1: '3'"),
        ('a,b\n"x\ny",2\n3,4,5\n', r"line 4: expected 2 fields, as in the first line, found 3: '3,4,5'"),
        (b"a,b\n1,2\n3,\xff\n", "line 3: expected text in UTF-8, found the byte 0xff. Save the file as UTF-8"),
        ("", "must begin with a line of column names; it is empty"),
        ("a,b\n", "must have at least one row"),
        ("a,b", "must have at least one row"),
    ],
)
def test_what_is_wrong_in_a_csv_file_has_its_line_and_a_way_out(tmp_path, text, message):
    path = a_file(tmp_path, text)
    for ask in (cb.fit, cb.check):
        with pytest.raises(DataError, match=message):
            ask({"a": [], "b": []}, path)


@pytest.mark.usefixtures("reader")
def test_an_unclosed_quote_is_found_in_a_column_that_nobody_asked_for(tmp_path):
    """The rest of the file is in it: rows would be lost without a word."""
    path = a_file(tmp_path, 'a,note\n1,fine\n2,"not closed\n1,lost\n2,lost\n')
    with pytest.raises(DataError, match="line 3: "):
        cb.fit({"a": []}, path)
    inches = a_file(tmp_path, 'a,note\n1,5"\n2,x\n')
    assert cb.fit({"a": []}, inches).posterior.rows == 2


@pytest.mark.usefixtures("reader")
def test_a_value_that_is_no_state_is_found_by_its_line(tmp_path):
    path = a_file(tmp_path, 'a,b\n\n"1\n",x\n2,y\n3,z\n')
    with pytest.raises(DataError, match=r"Unknown value of 'b' in line 6: 'z'"):
        cb.fit({"b": []}, path, values={"b": ["x", "y"]})
    with pytest.raises(DataError, match="whether a variable was set; in line 3 it"):
        cb.fit({"a": []}, a_file(tmp_path, "a,f\n1,true\n2,\n"), interventions={"a": "f"})


@pytest.mark.usefixtures("reader")
def test_broken_compression_is_refused(tmp_path):
    whole = gzip.compress(b"a\n" + b"1\n" * 10_000)
    for content in (b"a\n1\n", whole[:30], whole[:15] + b"\xff\xff\xff" + whole[18:]):
        (tmp_path / "rows.csv.gz").write_bytes(content)
        with pytest.raises(DataError, match=r"Cannot read '.*rows.csv.gz'"):
            cb.fit({"a": []}, tmp_path / "rows.csv.gz")


@pytest.mark.parametrize("delimiter", ["", ";;", "a", '"', "\n", 3, "é"])
def test_a_delimiter_is_one_sign_and_for_csv_files(tmp_path, delimiter):
    with pytest.raises(DataError, match="delimiter must be a single character"):
        cb.fit({"a": []}, a_file(tmp_path, "a\n1\n"), delimiter=delimiter)
    with pytest.raises(DataError, match="delimiter is for CSV files"):
        cb.fit({"a": []}, {"a": [1]}, delimiter=";")


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("marker", ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL"])
def test_what_stands_for_a_missing_value_in_a_file_is_one(tmp_path, marker):
    path = a_file(tmp_path, f"a,b\n1,x\n{marker},y\n")
    with pytest.raises(DataError, match="missing in 1 of 2 rows; by column: 'a' 1"):
        cb.fit({"a": [], "b": []}, path)
    assert cb.fit({"a": []}, path, values={"a": ["1", marker]}).posterior.rows == 2


def test_other_values_stand_for_missing_ones_where_that_is_said(tmp_path):
    rows = {"a": [1, -999, 2, 1], "b": ["x", "-", "y", "-"]}
    path = a_file(tmp_path, "a,b\n1,x\n-999,-\n2,y\n1,-\n")
    graph = {"a": [], "b": ["a"]}
    expected = cb.fit(graph, {"a": [1, 2], "b": ["x", "y"]})
    for data in (rows, pandas.DataFrame(rows), arrow.table(rows), path):
        assert cb.fit(graph, data, missing="drop", na_values=["-", -999]) == expected
        assert cb.check(graph, data, missing="drop", na_values=["-", -999]).rows == 2
    for wrong in ("-", 3, [["-"]], None):
        with pytest.raises(DataError, match="na_values must be"):
            cb.fit(graph, rows, na_values=wrong)


@pytest.mark.parametrize("ask", [cb.fit, cb.check])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["Google", "google", "Google ", "Bing"],
         r"'x' has states that differ in case or blanks only: 'Google', 'Google ', 'google'\. If they mean the same"),
        (["a", "-"], r"'x' has the state '-': if .* a missing value, leave such cells empty .* na_values=\['-'\]\)"),
        (["a", "None", "?"], r"'x' has the states '\?', 'None': .*na_values=\['None', '\?'\]"),
        (["a", "b\nc"], r"'x' has states of several lines, such as 'b\\nc': is a quote in the file not closed\?"),
    ],
)  # fmt: skip
def test_odd_values_are_said_unless_they_were_named_as_states(values, message, ask):
    for data in ({"x": values}, pandas.DataFrame({"x": values})):
        with pytest.warns(DataWarning, match=message) as said:
            ask({"x": []}, data)
        assert [found.filename for found in said] == [__file__]
        ask({"x": []}, data, values={"x": values})


def test_a_word_among_numbers_is_said_and_texts_alone_are_not(tmp_path):
    with pytest.warns(
        DataWarning, match=r"'a' has numbers and 'old', so that the whole column is text: .*na_values=\['old'\]"
    ):
        model = cb.fit({"a": []}, a_file(tmp_path, "a\n1\n2\nold\n"))
    assert model["a"].states == ("1", "2", "old")
    cb.fit({"a": []}, a_file(tmp_path, "a\n1\nb\nc\n"))


@pytest.mark.usefixtures("reader")
def test_truth_values_in_a_file_are_those_of_pandas(tmp_path):
    for texts in (["True", "False"], ["true", "false"], ["TRUE", "FALSE"]):
        model = cb.fit({"a": []}, a_file(tmp_path, "\n".join(["a", *texts, texts[0]])))
        assert model["a"].states == (False, True)
        assert model.posterior.counts["a"].tolist() == [1, 2]
    assert cb.fit({"a": []}, a_file(tmp_path, "a\nTRUE\nmaybe\n"))["a"].states == ("TRUE", "maybe")


def test_a_series_is_refused_with_what_to_give_instead():
    polars = pytest.importorskip("polars")
    for series in (pandas.Series([1, 2], name="purpose"), polars.Series("purpose", [1, 2])):
        with pytest.raises(DataError, match=r"A Series is a single column \('purpose'\): pass the data frame"):
            cb.fit(GRAPH, series)


def test_a_table_that_is_too_large_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(counting, "COUNT_LIMIT", 5)
    with pytest.raises(SizeError, match="The 2 tables to be counted have more than 5 cells together"):
        cb.fit(GRAPH, DATA)
    monkeypatch.setattr(counting, "TALLY_LIMIT", 3)
    with pytest.raises(SizeError, match="table of 'subject' given 'purpose' has more than 3 cells"):
        cb.fit(GRAPH, DATA)


def test_without_data_too_large_tables_are_refused_before_they_are_made(monkeypatch):
    causes = [f"x{i}" for i in range(30)]
    states = {name: [0, 1] for name in (*causes, "z")}
    with pytest.raises(SizeError, match=r"table of 'z' given 'x0'.* has more than 16777216 cells"):
        prior_model({**{name: [] for name in causes}, "z": causes}, values=states)
    monkeypatch.setattr(counting, "COUNT_LIMIT", 5)
    with pytest.raises(SizeError, match="The 2 tables to be counted have more than 5 cells together"):
        prior_model({"x0": [], "z": ["x0"]}, values={"x0": [0, 1], "z": [0, 1]})


# --- data against a graph -----------------------------------------------------------------------------


def permuted_statistics(table):
    """Pearson's statistic of all ways to pair the rows' values, margins fixed."""
    r, c = table.shape
    x = np.repeat(np.arange(r), table.sum(axis=1))
    y = np.repeat(np.arange(c), table.sum(axis=0))
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    for order in itertools.permutations(y):
        seen = np.zeros((r, c))
        np.add.at(seen, (x, np.array(order)), 1)
        yield ((seen - expected) ** 2 / expected).sum()


@pytest.mark.parametrize("table", [[[3, 1], [0, 3]], [[2, 1, 0], [1, 1, 2]], [[1, 0, 1], [2, 1, 0], [0, 1, 1]]])
def test_the_moments_of_the_statistic_are_those_of_all_permutations(table, monkeypatch):
    asked = {}

    def keep(pearson, mean, variance, *_):
        asked.update(pearson=pearson, mean=mean, variance=variance)

    monkeypatch.setattr(pearson, "_test", keep)
    pearson.independence_test(np.array([table], dtype=float))
    values = np.array(list(permuted_statistics(np.array(table))))
    assert asked["mean"] == pytest.approx(values.mean())
    assert asked["variance"] == pytest.approx(values.var())


def test_p_values_of_thin_cpts_are_right_where_the_g_tests_are_not():
    """2000 pairs of independent variables in 30 strata of 5 rows: 5% of p-values below 0.05, and 1% below 0.01.

    Four standard deviations of a binomial are allowed (once in 16,000); the G test's are below 0.05 in over 20%.
    """
    from scipy.stats import chi2

    rng = np.random.default_rng(0)
    strata = np.repeat(np.arange(30), 5)
    ours, usual = [], []
    for _ in range(2000):
        counts = np.zeros((30, 2, 2))
        np.add.at(counts, (strata, rng.integers(2, size=150), (rng.random(150) < 0.3).astype(int)), 1)
        found = pearson.independence_test(counts)
        expected = counts.sum(2)[:, :, None] * counts.sum(1)[:, None, :] / 5
        there = counts > 0
        g = 2 * (counts[there] * np.log(counts[there] / expected[there])).sum()
        ours.append(found.p)
        usual.append(chi2.sf(g, found.degrees))
    for level in (0.05, 0.01):
        assert abs(np.mean(np.array(ours) < level) - level) < 4 * math.sqrt(level * (1 - level) / 2000)
    assert np.mean(np.array(usual) < 0.05) > 0.2


@pytest.mark.parametrize(
    ("rows", "columns", "strata"),
    [
        ([999, 1], [400, 599, 1], 1),  # one row of a value that is seen for the first time
        ([300, 300, 300, 99, 1], [400, 599, 1], 1),
        ([50, 40, 9, 1], [95, 4, 1], 8),
        ([900, 50, 45, 5], [500, 495, 5], 3),
        ([990, 10], [990, 10], 1),
        ([195, 5], [190, 10], 1),
        ([10] * 20, [190, 10], 1),
    ],
)
def test_rare_values_do_not_make_independent_variables_look_dependent(rows, columns, strata):
    """1000 tables with these margins: no more p-values below a level than that, but for chance (once in 16,000).

    Below 0.01 twice as many are allowed: two moments are not a law. Without adding up what is rare, all p-values of the
    first are below 0.05, and a tenth of those of the fifth.
    """
    rng, ps = np.random.default_rng(0), []
    x, y = (np.repeat(np.arange(len(margin)), margin) for margin in (rows, columns))
    for _ in range(1000):
        counts = np.zeros((strata, len(rows), len(columns)))
        for one in counts:
            np.add.at(one, (x, rng.permutation(y)), 1)
        ps.append(pearson.independence_test(counts).p)
    for level, allowed in ((0.05, 0.05), (0.01, 0.02), (0.001, 0.002)):
        assert np.mean(np.array(ps) <= level) <= allowed + 4 * math.sqrt(allowed * (1 - allowed) / 1000)


@pytest.mark.parametrize("table", [[[900, 100], [80, 20]], [[900, 100], [84, 16]], [[250, 250], [200, 300]]])
def test_an_ordinary_table_is_judged_as_exactly_as_two_moments_can(table):
    """By Fisher's exact test; a bound that holds for every law would say ten times as much."""
    exact = fisher_exact(table).pvalue
    assert exact / 2 < pearson.independence_test(np.array([table], dtype=float)).p < 2 * exact


def test_a_rare_value_that_always_comes_together_with_another_is_found():
    together = [[[990, 0], [0, 10]]], [[[500, 470, 0], [5, 5, 0], [0, 0, 20]]]
    for counts in together:
        assert pearson.independence_test(np.array(counts, dtype=float)).p < 1e-4


@given(st.integers(0, 2**32))
def test_a_test_of_independence_does_not_depend_on_the_order_of_values(seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, size=(5, 4, 3)) ** rng.integers(1, 5, size=(5, 4, 3)).astype(float)
    other = counts[rng.permutation(5)][:, rng.permutation(4)][:, :, rng.permutation(3)]
    assert pearson.independence_test(other) == pytest.approx(pearson.independence_test(counts), nan_ok=True)
    assert pearson.independence_test(other.swapaxes(1, 2))[:2] == pearson.independence_test(counts.swapaxes(1, 2))[:2]


def test_tables_of_one_row_or_none_say_nothing():
    for shape in ((3, 1, 4), (3, 4, 1), (0, 2, 2), (2, 0, 0)):
        assert math.isnan(pearson.independence_test(np.full(shape, 2.5)).p)


@patient
@given(models(most=5), st.integers(0, 99))
def test_every_pair_without_an_arrow_is_claimed_independent_and_the_joint_agrees(model, seed):
    structure = parse_structure(model)
    joint = distribution(model, {}, model.names)
    found = find_independencies(structure)
    arrows = {frozenset((p, n)) for n, parents in graph_of(model).items() for p in parents}
    assert len(found) == math.comb(len(model.names), 2) - len(arrows)
    for name, other, given_ in found:
        assert frozenset((name, other)) not in arrows
        axes = [model.names.index(n) for n in (*given_, other, name)]
        table = np.einsum(joint, list(range(joint.ndim)), axes).reshape(
            -1, joint.shape[axes[-2]], joint.shape[axes[-1]]
        )
        product = table.sum(1)[:, None, :] * table.sum(2)[:, :, None]
        assert np.allclose(table * table.sum((1, 2))[:, None, None], product)


def random_model(rng, extra=0.5):
    """Six variables; a table's rows differ."""
    names, sizes = [f"v{i}" for i in range(6)], [2, 3, 2, 3, 2, 2]
    variables = []
    for i, name in enumerate(names):
        parents = [p for p in names[:i] if rng.random() < extra][-2:]
        shape = [sizes[names.index(p)] for p in parents]
        variables.append(
            cb.Variable(name, range(sizes[i]), parents=parents, table=rng.dirichlet(np.ones(sizes[i]), shape))
        )
    return cb.CausalModel(variables)


def test_a_right_graph_and_right_tables_are_kept_at_the_false_discovery_level():
    """150 right models at level 0.2: any contradiction is false, and the chance of one is at most 0.2 in each part.

    More than 0.2 + 4 sqrt(0.16 / 150) = 0.33 of them would happen once in 16,000, were it exactly 0.2.
    """
    rng = np.random.default_rng(5)
    parts = Counter()
    for _ in range(150):
        model = random_model(rng)
        found = cb.check(model, model.sample(500, rng=rng), alpha=0.2)
        parts.update({claim.part for claim in found.contradicted})
    assert parts["graph"] / 150 < 0.33
    assert parts["tables"] / 150 < 0.33


def test_a_wrong_graph_is_contradicted_at_the_missing_arrow():
    """Of 60 models without one of their arrows, most are found out, and nearly all reports name dependent variables."""
    rng = np.random.default_rng(6)
    caught = tried = 0
    for _ in range(60):
        model = random_model(rng)
        arrows = [(p, v.name) for v in model.variables.values() for p in v.parents]
        if not arrows:
            continue
        tried += 1
        parent, child = arrows[rng.integers(len(arrows))]
        graph = graph_of(model)
        graph[child] = [p for p in graph[child] if p != parent]
        found = cb.check(graph, model.sample(2000, rng=rng))
        caught += any(set(claim.variables) == {parent, child} for claim in found.contradicted)
    assert caught / tried > 0.8


def test_the_report_says_it_in_words_worst_first():
    model = cb.zoo.email_campaign().problem.model
    graph = graph_of(model) | {"template": ["product"], "subject": []}
    found = cb.check(graph, model.sample(3000, rng=0))
    worst = {frozenset(claim.variables) for claim in found.contradicted[:2]}
    assert worst == {frozenset({"purpose", "template"}), frozenset({"purpose", "subject"})}
    lines = str(found).splitlines()
    assert lines[0] == "Misspecification test: 3000 rows, false discovery rate 0.05"
    assert lines[1] == f"Graph: {len(found.contradicted)} of {len(found.findings)} claims rejected"
    assert "subject and purpose should be independent: p-value " in str(found)
    assert lines[2].endswith(", rejected")
    frame = found.to_pandas()
    assert list(frame["p"]) == sorted(frame["p"])
    assert frame["contradicted"].sum() == len(found.contradicted)
    fine = cb.check(graph_of(model), model.sample(3000, rng=0))
    assert not fine.contradicted
    assert f"Graph: 0 of {len(fine.findings)} claims rejected; smallest p-values:" in str(fine)


def test_thin_data_are_said_to_be_thin():
    found = cb.check({"a": [], "b": [], "c": ["a"]}, {"a": [0, 1, 0], "b": [0, 1, 1], "c": [0, 0, 1]})
    assert len(found.thin) == 2
    assert "2 claims not tested: too few rows" in str(found)
    assert "Graph: no testable claim, because all its variables are joined by arrows" in str(cb.check(GRAPH, DATA))


def test_tables_of_a_model_are_tested_row_by_row():
    model = cb.zoo.email_campaign().problem.model
    moved = cb.CausalModel(
        cb.Variable(v.name, v.states, table=[0.5, 0.5, 0.0]) if v.name == "send_time" else v
        for v in model.variables.values()
    )
    found = cb.check(moved, model.sample(500, rng=0))
    (claim,) = found.contradicted
    assert str(claim) == (
        "P(send_time) should equal the row of the CPT (which gives 'evening' probability 0): p-value 0, strength inf, "
        "rejected"
    )
    tested = [finding for finding in found.findings if finding.part == "tables" and not math.isnan(finding.p)]
    assert f"CPTs: 1 of {len(tested)} claims rejected" in str(found)


def test_new_data_are_tested_against_a_fit_with_its_own_uncertainty():
    """New rows contradict estimates from 100 rows that are taken for exact, and do not contradict their counts."""
    model = cb.zoo.email_campaign().problem.model
    fitted = cb.fit(model, model.sample(100, rng=1))
    new = model.sample(20_000, rng=2)
    assert not cb.check(fitted, new).contradicted
    exact = cb.CausalModel(fitted.variables.values())
    assert cb.check(exact, new).contradicted
    other = cb.zoo.email_campaign().problem.model.sample(20_000, do={"purpose": "Nurture"}, rng=2)
    drifted = cb.check(fitted, other).contradicted
    assert drifted[0].claim == "P(purpose) should equal the fitted row"


def test_rows_that_set_a_variable_do_not_speak_against_its_independencies():
    """x is set after a look at y: that is no contradiction, once it is said; y's other claims still use these rows."""
    rng = np.random.default_rng(0)
    n = 4000
    y, chosen = rng.integers(2, size=n), rng.random(n) < 0.5
    x = np.where(chosen, y, rng.integers(2, size=n))
    graph = {"y": [], "x": [], "w": ["x"]}
    data = {"x": x, "y": y, "w": x ^ (rng.random(n) < 0.2), "set": np.where(chosen, "x", "")}
    assert {claim.variables for claim in cb.check(graph, data).contradicted} >= {("x", "y")}
    told = cb.check(graph, data, interventions="set")
    assert ("x", "y") not in {claim.variables for claim in told.contradicted}
    assert [found.rows for found in told.findings if found.variables == ("x", "y")] == [int((~chosen).sum())]


def test_a_graph_of_two_hundred_variables_is_checked_in_seconds():
    """Some 19,900 pairs. A look at every group of tables for each took four minutes; a slow machine may take one."""
    rng = np.random.default_rng(0)
    data = {f"v{i}": rng.integers(2, size=200) for i in range(200)}
    began = time.process_time()
    found = cb.check({name: [] for name in data}, data)
    assert time.process_time() - began < 60
    assert len(found.findings) == 19_900
    assert not found.contradicted


def test_a_graph_with_too_many_claims_is_refused_before_the_data_are_read(monkeypatch):
    monkeypatch.setattr(importlib.import_module("causalbandits.fitting.check"), "CLAIM_LIMIT", 2)
    with pytest.raises(SizeError, match=r"of 3 variables and 0 arrows makes 3 claims; the limit is 2\. Check parts"):
        cb.check({"a": [], "b": [], "c": []}, "nowhere.csv")


@patient
@given(models(most=5), st.integers(0, 99))
def test_some_variables_with_all_their_causes_make_the_same_claims_by_themselves(model, seed):
    graph, data = graph_of(model), model.sample(200, rng=seed)
    last = model.order[-1]
    part = {name: parents for name, parents in graph.items() if name != last}
    if part:
        whole = {(f.claim, f.p) for f in cb.check(graph, data).findings if last not in f.variables}
        assert {(f.claim, f.p) for f in cb.check(part, data).findings} == whole


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alpha": 5}, "alpha must lie between 0 and 1; got 5"),
        ({"missing": "em"}, "Unknown way to treat missing values: 'em'"),
        ({"data": {"purpose": [1]}}, "'subject' has none"),
    ],
)
def test_what_cannot_be_checked_is_refused(changes, message):
    with pytest.raises(DataError, match=message):
        cb.check(**({"graph": GRAPH, "data": DATA} | changes))


def test_a_codebook_remembers_no_nan():
    """Every NaN is a key of its own: remembered, they would fill the memory."""
    book = codebook.Codebook("x")
    book.encode([float("nan") for _ in range(50)], 0)
    assert book.missing == 50
    assert len(book._code_cache) == 0


def test_categories_that_do_not_occur_are_no_states():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x": pandas.Categorical(["a", "b", "c"] * 10)})
    filtered = frame[frame.x != "c"]
    assert cb.fit({"x": []}, filtered) == cb.fit({"x": []}, {"x": filtered.x.tolist()})
    assert cb.fit({"x": []}, filtered)["x"].states == ("a", "b")
