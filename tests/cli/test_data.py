"""`causalbandits fit` and `check`: from a dagitty file and a CSV to a model, and what is wrong in one line."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
from tests.fitting.test_fit_latent import logged
from typer.testing import CliRunner

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.errors import CausalBanditsError, DataError, ModelError
from commands import run as run_command

DAGITTY = """dag {
segment [latent]
channel [exposure, pos="0,0"]
engagement; sale [outcome]
segment -> channel; segment -> engagement
channel -> exposure -> engagement -> sale
}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "campaign.dot").write_text(DAGITTY, encoding="utf-8")
    data = logged(400, experiments=200)
    with open(tmp_path / "past.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["channel", "exposure", "engagement", "sale", "was_set"])
        writer.writerows(
            zip(*(data[name] for name in ("channel", "exposure", "engagement", "sale", "was set")), strict=True)
        )
    return tmp_path


def run(folder, *arguments):
    given = [str(folder / own) if own.endswith((".dot", ".csv", ".json")) else own for own in arguments]
    return CliRunner().invoke(app, given)


def test_fit_writes_the_model_that_one_would_fit(folder):
    result = run(folder, "fit", "campaign.dot", "past.csv", "--out", "model.json", "--interventions", "was_set")
    assert result.exit_code == 0, result.output
    assert "from 600 rows" in result.output
    model = cb.read(folder / "model.json")
    graph = cb.read(folder / "campaign.dot")
    assert model == cb.fit(graph, folder / "past.csv", interventions="was_set")
    assert model.posterior.rows_by_source == {(): 400, ("channel",): 200}
    problem = cb.Problem(model, manipulable=["channel"], reward="sale", adjust="smallest", optional=True)
    assert problem.parents == ("engagement",)


def test_more_may_be_said_to_be_hidden(folder):
    plain = DAGITTY.replace("segment [latent]\n", "").replace("segment -> channel; segment -> engagement\n", "")
    (folder / "plain.dot").write_text(plain, encoding="utf-8")
    result = run(folder, "fit", "plain.dot", "past.csv", "--out", "m.json", "--hidden", "channel,engagement")
    assert result.exit_code == 0, result.output
    assert cb.read(folder / "m.json").causal_graph.hidden == (("channel", "engagement"),)
    assert run(folder, "fit", "plain.dot", "past.csv", "--out", "plain.json").exit_code == 0
    assert type(cb.read(folder / "plain.json")) is cb.CausalModel


def test_check_finds_the_hidden_cause_that_was_left_out(folder):
    right = run(folder, "check", "campaign.dot", "past.csv", "--interventions", "was_set")
    assert "Graph: 0 of 2 claims rejected" in right.output
    plain = DAGITTY.replace("segment [latent]\n", "").replace("segment -> channel; segment -> engagement\n", "")
    (folder / "plain.dot").write_text(plain, encoding="utf-8")
    wrong = run(folder, "check", "plain.dot", "past.csv")
    assert "engagement and channel should be independent given exposure" in wrong.output
    assert ", rejected" in wrong.output
    told = run(folder, "check", "plain.dot", "past.csv", "--hidden", "channel,engagement")
    assert "Graph: 0 of " in told.output
    run(folder, "fit", "campaign.dot", "past.csv", "--out", "model.json")
    assert "CPTs: " not in right.output
    assert "CPTs: 0 of " in run(folder, "check", "model.json", "past.csv").output


def test_missing_values_are_named_and_treated(folder):
    text = (folder / "past.csv").read_text(encoding="utf-8").splitlines()
    text[1] = "-999" + text[1][1:]
    (folder / "holes.csv").write_text("\n".join(text), encoding="utf-8")
    refused = run(folder, "fit", "campaign.dot", "holes.csv", "--out", "m.json", "--na", "-999")
    assert isinstance(refused.exception, DataError)
    assert not (folder / "m.json").exists()
    for way, rows in (("drop", 599), ("em", 600)):
        done = run(folder, "fit", "campaign.dot", "holes.csv", "--out", "m.json", "--na", "-999", "--missing", way)
        assert done.exit_code == 0, done.output
        assert cb.read(folder / "m.json").posterior.rows == rows
    assert "599 rows" in run(folder, "check", "campaign.dot", "holes.csv", "--na", "-999", "--missing", "drop").output


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["fit", "campaign.dot", "past.csv", "--out", "m.bif"], CausalBanditsError, "--out must be a .json file"),
        (["fit", "campaign.dot", "none.csv", "--out", "m.json"], DataError, "There is no file"),
        (["fit", "campaign.dot", "past.csv", "--out", "m.json", "--hidden", "mood"], ModelError, "variable 'mood'"),
        (["fit", "campaign.dot", "past.csv", "--out", "m.json", "--missing", "no"], DataError, "Unknown way to treat"),
        (["check", "campaign.dot", "past.csv", "--alpha", "1"], DataError, "alpha must lie between 0 and 1"),
        (["check", "campaign.dot", "past.csv", "--interventions", "what"], DataError, "'what' has none"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(folder, arguments, kind, message):
    result = run(folder, *arguments)
    assert result.exit_code != 0
    assert isinstance(result.exception, kind)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_bins_are_given_as_edges_or_as_a_number_of_quantiles(tmp_path):
    (tmp_path / "visits.dot").write_text("digraph { age -> bought; income -> bought }", encoding="utf-8")
    rows = [f"{18 + i % 60},{1000 + 7 * i},{i % 2}" for i in range(300)]
    (tmp_path / "visits.csv").write_text("\n".join(["age,income,bought", *rows]) + "\n", encoding="utf-8")
    files = ("visits.dot", "visits.csv")
    refused = run(tmp_path, "fit", *files, "--out", "model.json")
    assert refused.exit_code != 0
    assert not (tmp_path / "model.json").exists()
    options = ("--bins", "age=0,30,45,inf", "--bins", "income=4")
    assert run(tmp_path, "fit", *files, "--out", "model.json", *options).exit_code == 0
    model = cb.read(tmp_path / "model.json")
    assert model["age"].states == ("[0, 30)", "[30, 45)", "[45, inf)")
    assert model.posterior.counts["income"].tolist() == [75, 75, 75, 75]
    assert run(tmp_path, "check", *files, *options).exit_code == 0
    assert run(tmp_path, "check", "model.json", "visits.csv").exit_code == 0
    for wrong in ("age", "age=", "age=a,b", "=4", "age=0.5"):
        assert run(tmp_path, "check", *files, "--bins", wrong).exit_code != 0


@pytest.mark.parametrize("command", ["fit", "check", "inspect", "forecast", "study create"])
def test_a_column_of_many_numbers_is_refused_with_an_option_that_can_be_pasted(command, tmp_path):
    """The graph is a text: every command that takes a graph takes it in all forms."""
    rng = np.random.default_rng(0)
    rows = [f"{age},{'ab'[age % 2]},{int(rng.integers(2))}" for age in rng.integers(18, 80, 300)]
    (tmp_path / "past.csv").write_text("\n".join(["age,knob,sale", *rows]))
    graph = "age -> sale; knob -> sale"
    arguments = {
        "fit": [graph, "past.csv", "--out", "model.json"],
        "check": [graph, "past.csv"],
        "inspect": [graph, "--data", "past.csv", "--reward", "sale", "--manipulable", "knob"],
        "forecast": [graph, "--data", "past.csv", "--reward", "sale", "--manipulable", "knob", "--replications", "2",
                     "--horizon", "20"],
        "study create": [graph, "--data", "past.csv", "--reward", "sale", "--manipulable", "knob", "--to", "s.db"],
    }[command]  # fmt: skip
    refused = run_command(*command.split(), *arguments, folder=tmp_path)
    assert refused.returncode == 1
    assert "'age' is a column of numbers with" in refused.stderr
    pasted = re.search(r"--bins (age=\S+) has the edges", refused.stderr)
    assert pasted, refused.stderr
    done = run_command(*command.split(), *arguments, "--bins", pasted[1], folder=tmp_path)
    assert done.returncode == 0, done.stderr
