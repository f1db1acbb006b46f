"""The command line teaches: help, one-line errors, exit codes; and `simulate` runs what a file says."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import causalbandits as cb
from causalbandits import _progress, errors
from causalbandits.errors import CausalBanditsError
from causalbandits.planning.experiment_spec import read_spec
from causalbandits.policies import FAMILIES
from commands import run
from oracles import hear_interrupts


def run_process(*arguments, folder=None):
    command = [sys.executable, "-m", "causalbandits.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "mine.toml").write_text(
        """
        [environment]
        zoo = "random_parallel"
        m = 3
        n = 2
        theta = [1, 0]
        rng = 4

        [simulation]
        horizon = 100
        replications = 3

        [policies]
        'c-ts(scales=given)' = {}
        quiet = { policy = "c-ucb", noise_scale = 0.1 }
        """,
        encoding="utf-8",
    )
    return tmp_path / "mine.toml"


def test_the_version():
    assert run_process("--version").stdout.strip() == run("--version").stdout.strip() == cb.__version__


def test_help_lists_the_commands():
    text = run("--help").stdout
    assert all(name in text for name in ("reproduce", "simulate", "policies", "study", "--version", "--debug"))
    text = run("reproduce", "--help").stdout
    for name in ("figure1", "figure6", "lower-bound", "--replications", "--quick", "--seed", "--workers", "--out"):
        assert name in text


def test_policies_are_listed_with_their_references():
    text = run("policies").stdout
    assert all(family in text for family in ("auto", *FAMILIES))
    assert "UAI 2020" in text


def test_a_comparison_leaves_a_report(spec):
    done = run("simulate", spec.name, folder=spec.parent)
    assert done.returncode == 0, done.stderr
    assert "quiet" in done.stdout
    folder = spec.parent / "results" / "mine"
    assert "c-ts(scales=given)" in (folder / "report.html").read_text(encoding="utf-8")
    assert {"regret.csv", "regret-final.csv"} == {path.name for path in (folder / "data").iterdir()}
    again = run("simulate", spec.name, folder=spec.parent)
    assert again.stdout == done.stdout


def test_it_is_the_simulation_that_one_would_write(spec):
    asked = read_spec(spec)
    env = cb.zoo.random_parallel(3, 2, theta=[1, 0], rng=4)
    policies = {"c-ts(scales=given)": "c-ts(scales=given)", "quiet": cb.policies.CausalUCB(noise_scale=0.1)}
    expected = cb.simulate(env, policies, horizon=100, replications=3)
    assert asked.run().summary() == expected.summary()


def test_a_model_of_ones_own(tmp_path):
    model = cb.CausalModel([
        cb.Variable("purpose", ["Promo", "Nurture"], table=[0.6, 0.4]),
        cb.Variable("subject", ["short", "long"], parents=["purpose"], table=[[0.7, 0.3], [0.3, 0.7]]),
    ])  # fmt: skip
    (tmp_path / "model.json").write_text(model.to_json(), encoding="utf-8")
    (tmp_path / "own.toml").write_text(
        """
        model = "model.json"
        manipulable = ["purpose"]
        reward_parents = ["subject"]
        environment = { reward = "bernoulli", mean = [0.3, 0.1] }
        simulation = { horizon = 50, replications = 2, seed = 3 }
        policies = { 'c-ts(prior=beta)' = {}, uniform = {} }
        """,
        encoding="utf-8",
    )
    asked = read_spec(tmp_path / "own.toml")
    assert asked.environment.best().mean == pytest.approx(0.7 * 0.3 + 0.3 * 0.1)
    assert asked.run().policies == ("c-ts(prior=beta)", "uniform")


GOOD = {
    "environment": '{ zoo = "email_campaign" }',
    "simulation": "{ horizon = 10, replications = 2 }",
    "policies": "{ c-ucb = {} }",
}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"environment": None}, "The manipulable variables are missing, for example manipulable = "),
        (
            {"environment": '{ zoo = "e_campaign" }'},
            r"Unknown example environment: 'e_campaign'\. Did you mean 'email_campaign'\?",
        ),
        (
            {"environment": '{ zoo = "lower_bound", N = 2 }'},
            r"The environment lower_bound requires: \[environment\] delta =",
        ),
        ({"environment": '{ zoo = "lower_bound", n = 2 }'}, "Unknown parameter of lower_bound: 'n'"),
        ({"environment": None, "model": '"none.json"'}, "none.json: cannot be read: No such file"),
        (
            {"environment": "{ m = 3 }"},
            r'\[environment\] must name an example environment, zoo = "email_campaign", or the kind of the reward,',
        ),
        ({"reward": '"y"'}, r"has its own model and reward\. Leave out reward"),
        ({"simulation": "{ replications = 3 }"}, "horizon = 5000"),
        (
            {"simulation": '{ horizon = "long" }'},
            r"\[simulation\] horizon: expected a whole number, 1 or more; got 'long'",
        ),
        ({"simulation": "3"}, r"\[simulation\] must be a table; got 3"),
        ({"simulation": "{ horizon = 10, rounds = 3 }"}, r"Unknown entry of \[simulation\]: 'rounds'"),
        ({"policies": "{}"}, r"must have a table \[policies\]"),
        ({"policies": "{ c-ucbb = {} }"}, "Unknown policy family 'c-ucbb'. Did you mean 'c-ucb'"),
        ({"policies": "{ c-ucb = 3 }"}, r"\[policies\] c-ucb: expected a table of options \(\{\} for none\),"),
        ({"policies": "{ own = { policy = [3] } }"}, r"\[policies\] own: expected a table of options"),
        ({"policies": "{ c-ucb = { noise = 3 } }"}, r"\[policies\] c-ucb: Unknown option of 'c-ucb': 'noise'"),
        ({"policy": "{ c-ucb = {} }"}, "Unknown entry 'policy'. Did you mean 'policies'"),
        ({"simulation": "{ horizon = "}, "is not a TOML file: .*line"),
    ],
)
def test_a_wrong_file_is_refused_with_the_way_out(tmp_path, changed, message):
    lines = [f"{name} = {value}" for name, value in (GOOD | changed).items() if value is not None]
    (tmp_path / "x.toml").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(CausalBanditsError, match=message):
        read_spec(tmp_path / "x.toml")


def test_errors_are_one_line_with_the_trace_on_request(tmp_path):
    short = run_process("simulate", "nothing.toml", folder=tmp_path)
    assert (short.returncode, short.stderr) == (1, "Error: Cannot read nothing.toml: No such file or directory.\n")
    long = run_process("--debug", "simulate", "nothing.toml", folder=tmp_path)
    assert long.returncode == 1
    assert "Traceback" in long.stderr
    assert run("simulate").returncode == 2
    assert run("nonsense").returncode == 2
    both = run("reproduce", "--quick", "--replications", "3", folder=tmp_path)
    assert (both.returncode, both.stderr) == (
        1,
        "Error: --quick and --replications exclude each other. Pass one of them.\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_citations():
    run = cb.simulate(cb.zoo.email_campaign(), ["ucb", "c-kl-ucb", "uniform"], horizon=10, replications=2)
    text = cb.citation(run)
    assert [line for line in text.splitlines() if line.startswith("@")] == [
        "@article{auer2002finite,",
        "@inproceedings{lu2020regret,",
        "@inproceedings{garivier2011klucb,",
    ]
    assert cb.citation("c-ucb", cb.policies.CausalUCB()) == cb.citation("c-ucb")
    with pytest.raises(CausalBanditsError, match="Unknown policy"):
        cb.citation("nonsense")
    assert cb.citation().startswith("@software{causalbandits,")
    assert f"version = {{{cb.__version__}}}" in cb.citation()


def test_interrupted_it_says_that_nothing_is_lost_and_goes_on(tmp_path):
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "causalbandits.cli",
        "reproduce",
        "figure4",
        "--replications",
        "1000",
        "--out",
        folder,
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, preexec_fn=hear_interrupts, **pipes) as process:
        try:
            deadline = time.monotonic() + 240  # it may have to be compiled first
            while not list(folder.rglob("replication-*.npz")) and time.monotonic() < deadline:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "Run the same command again to continue" in errors
    kept = list(folder.rglob("replication-*.npz"))
    assert 0 < len(kept) < 1000 * 5


def test_inspect_and_forecast_take_files_and_worlds_of_the_zoo(tmp_path):
    model = cb.zoo.email_campaign().problem.model
    cb.write(model, tmp_path / "campaign.bif")
    options = ["--manipulable", "product,purpose,send_time", "--reward-parents", "subject,template,send_time"]
    options += ["--optional", "all"]
    done = run("inspect", "campaign.bif", *options, "--out", "out", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        "The problem\n-----------\nActions: 80 on product, purpose, send_time. Learned: one mean reward for"
        in done.stdout
    )
    assert (tmp_path / "out" / "report.html").exists()
    shown = run(
        "inspect",
        "campaign.bif",
        *options[:2],
        "--reward",
        "template",
        "--can-observe",
        "purpose,product",
        folder=tmp_path,
    )
    assert "one mean reward for each of the 12 configurations of product, purpose" in " ".join(shown.stdout.split())
    few = ["--horizon", "50", "--replications", "3", "--out", "forecast.png"]
    done = run("forecast", "campaign.bif", *options, *few, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rounds until found for good (90%)" in done.stdout
    assert (tmp_path / "forecast.png").exists()
    assert run("forecast", "email_campaign", *few, folder=tmp_path).stdout == done.stdout
    stops = run("forecast", "email_campaign", *few[:4], "--stops", "--policy", "c-ucb", folder=tmp_path)
    assert "for good (90%) " in stops.stdout


def test_inspect_and_forecast_take_the_file_that_simulate_takes(spec):
    shown = run("inspect", spec.name, folder=spec.parent)
    assert shown.returncode == 0, shown.stderr
    assert "Regret bounds after 100 rounds" in shown.stdout
    parameters = [text for name in ("m=3", "n=2", "theta=[1, 0]", "rng=4") for text in ("--parameter", name)]
    assert run("inspect", "random_parallel", *parameters, "--horizon", 100).stdout == shown.stdout
    narrowed = run("inspect", spec.name, "--max-set", 1, "--horizon", 200, folder=spec.parent).stdout
    assert "Actions: 7 on X1, X2." in narrowed
    assert "Regret bounds after 200 rounds" in narrowed
    few = ["--replications", 3]
    played = run("forecast", spec.name, *few, folder=spec.parent).stdout
    assert [line.split()[0] for line in played.splitlines()[2:4]] == ["c-ts(scales=given)", "quiet"]
    assert "regret after 100" in played
    other = run("forecast", spec.name, *few, "--policy", "uniform", "--seed", 0, folder=spec.parent).stdout
    assert other.splitlines()[2].startswith("uniform")
    only_a_problem = spec.with_name("problem.toml")
    only_a_problem.write_text(
        'optional = ["X1"]\nenvironment = { zoo = "lower_bound", N = 2, delta = 0.5 }', encoding="utf-8"
    )
    assert "Actions: 6 on X1, X2" in run("inspect", only_a_problem).stdout
    assert (
        run("simulate", only_a_problem).stderr
        == "Error: [simulation] must have a number of rounds, for example horizon = 5000.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "nothing.bif", "--manipulable", "x"], "nothing.bif"),
        (
            ["inspect", "model.json"],
            "Error: The manipulable variables are missing, for example --manipulable A,B. The variables are x, y.\n",
        ),
        (
            ["inspect", "model.json", "--manipulable", "x"],
            "Add its name, --reward Y; or, if the reward is not in the graph, its direct causes",
        ),
        (
            ["inspect", "model.json", "--manipulable", "x", "--reward-parents", "yy"],
            "--reward-parents: Unknown variable 'yy'. Did you",
        ),
        (
            ["inspect", "model.json", "--manipulable", "x=2", "--reward-parents", "y"],
            "--manipulable: Unknown value of 'x': 2.",
        ),
        (
            ["inspect", "model.json", "--manipulable", "x,y=0", "--reward-parents", "y"],
            "A=x,y; go",
        ),
        (
            ["inspect", "model.json", "--manipulable", "x=", "--reward-parents", "y"],
            "A=x,y; got",
        ),
        (
            ["inspect", "model.json", "--manipulable", "x", "--manipulable", "x=0"],
            "every name once; 'x' occurs twice",
        ),
        (["inspect", "lower_bound", "--parameter", "N=3"], "requires: --parameter delta=..."),
        (
            ["inspect", "email_campaign", "--reward", "y"],
            "An example environment has its own model and reward. Leave out --reward.",
        ),
        (["forecast", "email_campaign", "--prior", "1"], "--prior must be two numbers"),
        (["forecast", "graph.dot", "--manipulable", "x"], "name, --reward Y; or, if the reward"),
    ],
)
def test_wrong_options_are_one_line(tmp_path, arguments, message):
    model = cb.CausalModel([
        cb.Variable("x", [0, 1], table=[0.5, 0.5]),
        cb.Variable("y", [0, 1], parents=["x"], table=[[0.9, 0.1], [0.2, 0.8]]),
    ])  # fmt: skip
    cb.write(model, tmp_path / "model.json")
    cb.write(model, tmp_path / "graph.dot")
    done = run(*arguments, folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


@pytest.mark.parametrize("command", ["study create", "forecast"])
@pytest.mark.parametrize("source", ["shop.dot", "shop.json", "purpose -> subject -> click; send_time -> click"])
def test_a_graph_is_never_dropped_because_values_are_missing(tmp_path, command, source):
    """Python, files and HTTP refuse it, too; only `inspect` answers questions about a bare graph."""
    graph = cb.CausalGraph.from_text("purpose -> subject -> click; send_time -> click")
    cb.write(graph, tmp_path / "shop.dot")
    cb.write(graph, tmp_path / "shop.json")
    to = ["--to", "study.db"] if command == "study create" else ["--replications", 2, "--horizon", 20]
    knobs = ["--manipulable", "purpose=promo,news", "--manipulable", "send_time=am,pm", "--reward", "click"]
    done = run(*command.split(), source, *knobs, *to, folder=tmp_path)
    assert done.returncode == 1
    assert "--data with these values. Or mark a variable that is never observed: 'subject'" in done.stderr
    done = run(*command.split(), source, "--reward", "click", *to, folder=tmp_path)
    assert "--manipulable A,B. The variables are purpose, subject, click, send_time." in done.stderr
    assert not (tmp_path / "study.db").exists()
    assert run("inspect", source, "--reward", "click", folder=tmp_path).returncode == 0
    done = run(*command.split(), source, *knobs, "--values", "subject=short,long", *to, folder=tmp_path)
    assert (done.returncode, "c-ts(cpts=learned)" in done.stdout) == (0, True), done.stderr


def test_a_knob_may_be_set_to_some_of_its_values_only():
    done = run(
        "inspect", "email_campaign", "--manipulable", "product,purpose", "--manipulable", "send_time=morning,evening"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Actions: 60 on product, purpose, send_time" in done.stdout


def test_a_warning_is_one_line_for_people(tmp_path):
    model = cb.CausalModel([cb.Variable(name, [0, 1], table=[0.5, 0.5]) for name in ("x", "y")])
    cb.write(model, tmp_path / "model.json")
    done = run("inspect", "model.json", "--manipulable", "x,y", "--reward-parents", "y", folder=tmp_path)
    assert done.returncode == 0
    assert done.stderr.startswith("Warning: ")
    assert done.stderr.count("\n") == 1
    assert "No path leads from x to the reward's parents" in done.stderr


WARNINGS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Warning)]


@pytest.mark.parametrize("kind", WARNINGS)
def test_every_warning_of_this_library_is_one_line_and_others_are_shown_as_python_does(kind):
    assert issubclass(kind, cb.CausalBanditsWarning)
    done = run(program=lambda: warnings.warn("Take care.", kind, stacklevel=1))
    assert done.stderr == "Warning: Take care.\n"
    assert "UserWarning: Take care." in run(program=lambda: warnings.warn("Take care.", stacklevel=1)).stderr


def test_the_file_that_the_guide_shows_runs(tmp_path):
    guide = (Path(__file__).parents[2] / "docs/how-to/environments.md").read_text(encoding="utf-8")
    shown = guide.split("```toml\n")[1].split("```")[0].replace("horizon = 5000", "horizon = 20")
    (tmp_path / "campaign.toml").write_text(shown, encoding="utf-8")
    cb.write(cb.zoo.email_campaign().problem.model, tmp_path / "campaign.bif")
    assert read_spec(tmp_path / "campaign.toml").run().policies == ("c-ts(scales=given)", "quiet")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["forecast", "email_campaign", "--out", "missing/forecast.png"], "does not exist"),
        (["forecast", "email_campaign", "--out", "forecast.doc"], "must end in its format"),
        (["inspect", "email_campaign", "--out", "file/report"], "is a file, not a folder"),
        (["reproduce", "--out", "file/report"], "is a file, not a folder"),
        (["simulate", "campaign.toml", "--out", "file/report"], "is a file, not a folder"),
    ],
)
def test_an_out_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path, arguments, complaint):
    """Each of these would take seconds to minutes, and print."""
    (tmp_path / "file").touch()
    (tmp_path / "campaign.toml").write_text(
        '[environment]\nzoo = "email_campaign"\n[simulation]\nhorizon = 100000\nreplications = 1000\n'
        "[policies]\nc-ucb = {}\n"
    )
    done = run(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert complaint in done.stderr


def test_progress_is_reported_in_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_progress, "LINE_INTERVAL", 0.0)
    with (
        _progress.progress_lines("To reduce the time, lower --replications."),
        _progress.Progress(10, "Simulating") as bar,
    ):
        bar.advance(4)
        bar.advance(6)
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"Simulating: 40% after 0 s, about 0 s left\. To reduce the time, lower --replications\.", lines[0]
    )
    assert lines[1].startswith("Simulating: 100%")
    with _progress.Progress(10, "Simulating") as bar:
        bar.advance(10)
    assert capsys.readouterr().err == ""


def test_a_forecast_names_the_option_that_shortens_it() -> None:
    assert "--replications 50 takes a quarter of the time" in " ".join(run_process("forecast", "--help").stdout.split())
