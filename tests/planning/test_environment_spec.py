"""Files and the command line make the same environments of the same settings, with errors in the terms of each."""

from __future__ import annotations

import inspect
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.cli.options import FILE_ENTRIES, OPTIONS, parse_target
from causalbandits.errors import CausalBanditsError
from causalbandits.fitting import prior_model
from causalbandits.planning.environment_spec import REWARD_CLASSES, REWARD_ENTRIES, parse_environment
from causalbandits.planning.experiment_spec import read_spec_file
from causalbandits.problem import SPEC_ENTRIES, SpecTerms


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """model.json: x and w may be set, x -> m -> y and w -> m; states of w are numbers."""
    model = cb.CausalModel([
        cb.Variable("x", ["low", "high"], table=[0.5, 0.5]),
        cb.Variable("w", [1, 2], table=[0.4, 0.6]),
        cb.Variable("m", [0, 1], parents=["x", "w"], table=[[[0.9, 0.1], [0.5, 0.5]], [[0.4, 0.6], [0.2, 0.8]]]),
        cb.Variable("y", [0, 1], parents=["m"], table=[[0.8, 0.2], [0.3, 0.7]]),
    ])  # fmt: skip
    path = tmp_path_factory.mktemp("dialect")
    cb.write(model, path / "model.json")
    cb.write(model, path / "graph.dot")
    return path


def test_every_parameter_of_a_problem_is_an_entry_of_a_file_and_an_option():
    parameters = set(inspect.signature(cb.Problem).parameters) - {"knowledge", "forbid"}  # forbid is a function
    assert set(SPEC_ENTRIES) == parameters | {"graph", "model"}
    assert set(OPTIONS) == parameters - {*FILE_ENTRIES}


def test_no_parameter_of_a_world_is_spelt_like_a_keyword_of_a_problem():
    for name in cb.zoo.__all__:
        parameters = set(inspect.signature(getattr(cb.zoo, name)).parameters)
        assert not parameters & {*SPEC_ENTRIES, "zoo"} - {*REWARD_ENTRIES}  # which no world takes


SAME = [
    (["--manipulable", "x,w", "--reward-parents", "m"], 'manipulable = ["x", "w"]\nreward_parents = ["m"]'),
    (["--manipulable", "x", "--reward", "y"], 'manipulable = ["x"]\nreward = "y"'),
    (
        ["--manipulable", "x,w", "--reward", "y", "--adjust", "smallest"],
        'manipulable = ["x", "w"]\nreward = "y"\nadjust = "smallest"',
    ),
    (
        ["--manipulable", "x,w", "--reward", "y", "--can-observe", "x,w,m"],
        'manipulable = ["x", "w"]\nreward = "y"\ncan_observe = ["x", "w", "m"]',
    ),
    (
        ["--manipulable", "x,w", "--reward-parents", "m", "--max-set", 1, "--optional", "w", "--no-reduce"],
        'manipulable = ["x", "w"]\nreward_parents = ["m"]\nmax_set = 1\noptional = ["w"]\nreduce = false',
    ),
    (
        ["--manipulable", "x", "--reward-parents", "m", "--context", "w"],
        'manipulable = ["x"]\nreward_parents = ["m"]\ncontext = ["w"]',
    ),
    (
        [
            "--manipulable",
            "x,w",
            "--reward-parents",
            "m",
            "--action",
            "x=high",
            "--action",
            "x=low, w=2",
            "--action",
            "",
        ],
        'manipulable = ["x", "w"]\nreward_parents = ["m"]\nactions = [{ x = "high" }, { x = "low", w = "2" }, {}]',
    ),
    (
        ["--manipulable", "x", "--manipulable", "w", "--reward-parents", "m"],
        'manipulable = ["x", "w"]\nreward_parents = ["m"]',
    ),
    (["--manipulable", "x=low", "--reward-parents", "m"], 'manipulable = { x = ["low"] }\nreward_parents = ["m"]'),
    (
        ["--manipulable", "x", "--manipulable", "w = 2, 1", "--reward-parents", "m"],
        'manipulable = { x = ["low", "high"], w = [2, 1] }\nreward_parents = ["m"]',
    ),
    (
        ["--manipulable", "x,w", "--reward-parents", "m", "--cost", "x=0.5", "--cost", "w:2=0.25"],
        'manipulable = ["x", "w"]\nreward_parents = ["m"]\ncosts = { x = 0.5, w = { "2" = 0.25 } }',
    ),
    (
        [
            "--manipulable",
            "x,w",
            "--reward-parents",
            "m",
            "--max-probability",
            "x:high=0.9",
            "--max-probability",
            "w:2=0.5",
        ],
        'manipulable = ["x", "w"]\nreward_parents = ["m"]\nmax_probability = { x = { high = 0.9 }, w = { "2" = 0.5 } }',
    ),
    (
        ["--manipulable", "x,w", "--reward-parents", "m", "--reward-range", "-1,2", "--noise-scale", 0.5],
        'manipulable = ["x", "w"]\nreward_parents = ["m"]\nreward_range = [-1, 2]\nnoise_scale = 0.5',
    ),
]


def typed(arguments):
    """The values of the options that arguments give, as a command receives them."""
    given = dict.fromkeys(OPTIONS)
    by_flag = {flag: entry for entry, option in OPTIONS.items() for flag in option.flag.split("/")}
    rest = iter(arguments)
    for flag in rest:
        entry = by_flag[flag]
        if entry == "reduce":
            given[entry] = flag == "--reduce"
        elif entry in ("manipulable", "values", "bins", "actions", "costs", "max_probability"):
            given[entry] = [*(given[entry] or []), next(rest)]
        else:
            given[entry] = next(rest)
    return given


@pytest.mark.parametrize(("arguments", "entries"), SAME, ids=range(len(SAME)))
def test_options_and_entries_of_a_file_make_the_same_problem(folder, arguments, entries):
    (folder / "same.toml").write_text(f'model = "model.json"\n{entries}\n', encoding="utf-8")
    by_options = parse_target(str(folder / "model.json"), [], typed(arguments)).problem
    by_file = read_spec_file(folder / "same.toml").parse_environment()
    assert by_options.to_record() == by_file.to_record()
    assert by_options.can_observe == by_file.can_observe
    assert parse_target(str(folder / "same.toml"), [], typed([])).problem.to_record() == by_file.to_record()


def test_what_can_be_observed_of_cpts_that_are_learned_is_said_alike_in_files_and_options(tmp_path):
    fitted = prior_model({"m": ["x", "u"]}, values={"x": [0, 1], "u": [0, 1], "m": [0, 1]})
    cb.write(fitted, tmp_path / "model.json")
    entries = 'manipulable = ["x"]\nreward_parents = ["m"]\ncan_observe = ["m"]'
    (tmp_path / "same.toml").write_text(f'model = "model.json"\n{entries}\n', encoding="utf-8")
    arguments = ["--manipulable", "x", "--reward-parents", "m", "--can-observe", "m"]
    by_options = parse_target(str(tmp_path / "model.json"), [], typed(arguments)).problem
    by_file = read_spec_file(tmp_path / "same.toml").parse_environment()
    by_hand = cb.Problem(fitted, manipulable=["x"], reward_parents=["m"], can_observe=["m"])
    assert by_options.to_record() == by_file.to_record() == by_hand.to_record()
    assert by_file.must_observe == ("m",)


OF_A_GRAPH = [
    (
        ["--manipulable", "x", "--reward", "y", "--values", "x=a,b", "--values", "m=0,1", "--values", "w=0.5,2"],
        'manipulable = ["x"]\nreward = "y"\nvalues = { x = ["a", "b"], m = [0, 1], w = [0.5, 2] }',
    ),
    (
        ["--manipulable", "x", "--reward", "y", "--data", "{folder}/past.csv", "--bins", "w=0,5,20"],
        'manipulable = ["x"]\nreward = "y"\ndata = "past.csv"\nbins = { w = [0, 5, 20] }',
    ),
    (
        ["--manipulable", "x", "--reward", "y", "--data", "{folder}/past.csv", "--bins", "w=2", "--missing", "drop",
         "--interventions", "was_set"],
        'manipulable = ["x"]\nreward = "y"\ndata = "past.csv"\nbins = { w = 2 }\nmissing = "drop"\n'
        'interventions = "was_set"',
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "entries"), OF_A_GRAPH, ids=range(len(OF_A_GRAPH)))
def test_options_and_entries_about_a_graph_make_the_same_problem(tmp_path, arguments, entries):
    rows = "".join(f"{'ab'[i % 2]},{i % 20},{i % 3 % 2},{i % 5 % 2},{'x' if i % 2 else ''}\n" for i in range(60))
    (tmp_path / "past.csv").write_text(f"x,w,m,y,was_set\n{rows}", encoding="utf-8")
    (tmp_path / "same.toml").write_text(f'graph = "x, w -> m -> y"\n{entries}\n', encoding="utf-8")
    options = typed([argument.replace("{folder}", str(tmp_path)) for argument in arguments])
    by_options = parse_target("x, w -> m -> y", [], options).problem
    by_file = parse_target(str(tmp_path / "same.toml"), [], typed([])).problem
    assert by_options.fingerprint == by_file.fingerprint
    assert by_options.to_record() == by_file.to_record()
    assert ("data" in entries) == (by_file.model.posterior.counts["m"].sum() > 0)


def test_between_them_these_options_are_all():
    assert {flag for arguments, _ in SAME + OF_A_GRAPH for flag in arguments if str(flag).startswith("--")} == {
        flag for option in OPTIONS.values() for flag in option.flag.split("/")
    } - {"--reduce"}


def test_every_keyword_reaches_the_problem(folder):
    settings = {
        "model": "model.json",
        "manipulable": ["x", "w"],
        "reward_parents": ["m"],
        "max_set": 1,
        "optional": ["w"],
        "reduce": False,
    }
    problem = parse_environment(settings, folder=folder)
    assert (problem.manipulable, problem.parents, problem.reduce) == (("x", "w"), ("m",), False)
    assert (problem.actions.max_set, set(problem.actions.always_set)) == (1, {"x"})
    found = {"model": "model.json", "manipulable": ["x"], "reward": "y", "can_observe": ["x", "m"]}
    assert parse_environment(found, folder=folder).can_observe == ("x", "m")
    listed = {"model": "model.json", "manipulable": ["w"], "reward_parents": ["m"], "actions": [{"w": "2"}, {"w": 1}]}
    assert [dict(action) for action in parse_environment(listed, folder=folder).actions] == [{"w": 2}, {"w": 1}]
    narrowed = {
        "model": "model.json",
        "manipulable": {"w": ["2"], "x": ["low", "high"]},
        "reward_parents": ["m"],
        "max_set": 1,
    }
    actions = [dict(action) for action in parse_environment(narrowed, folder=folder).actions]
    assert actions == [{}, {"x": "low"}, {"x": "high"}, {"w": 2}]


@pytest.mark.parametrize("name", cb.zoo.__all__)
def test_every_world_of_the_zoo_can_be_asked_for_with_its_parameters(name):
    parameters = {
        "coins": [],
        "confounded_casino": [],
        "detour": [],
        "email_campaign": [],
        "reversal": [],
        "email_segments": ["tastes=true"],
        "figure2": [],
        "lower_bound": ["N=3", "delta=0.1"],
        "parallel": ["px=[[0.5, 0.5]]", "pw=[[0.2, 0.7]]", "theta=[1.0]", "sd=0.2"],
        "random_parallel": ["m=3", "n=2", "theta=[1, 0]", "rng=4"],
        "random_graph": ["reward_parents=2", "variables=5", "values=2", "set_size=2", "parent_effect=0.5", "rng=4"],
        "random_tree": ["variables=4", "values=3", "rng=4"],
        "random_world": ["variables=8", "knobs=2", "reward_parents=3", "states=3", "rng=4"],
        "rare_prize": ["chance=0.1", "prize=5"],
    }[name]
    asked_for = parse_target(name, parameters, dict.fromkeys(OPTIONS)).problem_or_environment
    by_hand = getattr(cb.zoo, name)(**{p.split("=")[0]: json.loads(p.split("=")[1]) for p in parameters})
    assert asked_for.fingerprint == by_hand.fingerprint
    if by_hand.problem.actions.explicit_choices is not None:  # a list of actions, all of which set every variable
        with pytest.raises(cb.CausalBanditsError, match="an action sets at most 1 variables"):
            parse_target(name, parameters, typed(["--max-set", 1]))
        return
    fewer = parse_target(name, parameters, typed(["--max-set", 1])).problem_or_environment
    assert fewer.problem.actions.max_set == (1 if len(by_hand.problem.manipulable) > 1 else None)
    assert fewer.reward.mean_on(fewer.problem).content() == by_hand.mean.content()


def test_a_world_that_is_drawn_is_the_same_every_time():
    settings = {"zoo": "random_parallel", "m": 3, "n": 2, "theta": [1, 0]}
    assert parse_environment({}, settings).fingerprint == parse_environment({}, settings).fingerprint
    assert parse_environment({}, {**settings, "rng": 1}).fingerprint != parse_environment({}, settings).fingerprint


def test_options_replace_the_entries_of_a_file_and_errors_know_which_is_whose(folder):
    file = folder / "own.toml"
    file.write_text('model = "model.json"\nmanipulable = ["x"]\nreward_parents = ["z"]\n', encoding="utf-8")
    with pytest.raises(CausalBanditsError, match=r"^reward_parents: Unknown variable 'z'"):
        parse_target(str(file), [], typed(["--max-set", 1]))
    assert parse_target(str(file), [], typed(["--reward-parents", "m"])).problem.parents == ("m",)
    with pytest.raises(CausalBanditsError, match=r"^--manipulable: Unknown variable 'q'"):
        parse_target(str(file), [], typed(["--reward-parents", "m", "--manipulable", "q"]))


OWN = {"model": "model.json", "manipulable": ["x", "w"], "reward_parents": ["m"]}
WRONG = [
    (
        {"manipulable": None},
        "The manipulable variables are missing, for example {example:manipulable}. The variables are x, w, m, y.",
    ),
    (
        {"manipulable": []},
        "The manipulable variables are missing, for example {example:manipulable}. The variables are x, w, m, y.",
    ),
    ({"manipulable": ["x", "v"]}, "{name:manipulable}: Unknown variable 'v'. Known: 'x', 'w', 'm', 'y'."),
    (
        {"reward_parents": ["mm"]},
        "{name:reward_parents}: Unknown variable 'mm'. Did you mean 'm'? Known: 'x', 'w', 'm', 'y'.",
    ),
    (
        {"reward_parents": None},
        "The reward is missing. Add its name, {example:reward}; or, if the reward is not in the graph, its direct "
        "causes, {example:reward_parents}.",
    ),
    ({"reward": "z", "reward_parents": None}, "{name:reward}: Unknown variable 'z'. Known: 'x', 'w', 'm', 'y'."),
    ({"adjust": "best", "reward_parents": None}, '{name:adjust}: expected "smallest"; got "best".'),
    (
        {"can_observe": ["m"]},
        "{name:can_observe} replaces the reward's parents by an adjustment set. Leave out {name:reward_parents}.",
    ),
    (
        {"adjust": "smallest", "reward_parents": None},
        "{name:adjust} requires the name of the reward: {example:reward}.",
    ),
    (
        {"can_observe": ["m", "y"], "reward": "y", "reward_parents": None},
        "{name:can_observe} must not contain the reward 'y', because the reward is observed last.",
    ),
    ({"optional": ["m"]}, "{name:optional}: Unknown manipulable variable 'm'. Known: 'x', 'w'."),
    (
        {"optional": [], "max_set": 1},
        "{name:max_set}: expected no less than the 2 variables that every action sets; got 1.",
    ),
    ({"actions": [{"x": "middle"}]}, "{name:actions}: Unknown value of 'x': 'middle'. Known: 'low', 'high'."),
    ({"actions": [{"z": "1"}]}, "{name:actions}: Unknown variable 'z'. Known: 'x', 'w', 'm', 'y'."),
]


class AsOptions:
    """The settings as they would be typed."""

    @staticmethod
    def given(settings):
        def written(entry, value):
            if entry == "actions":
                return [",".join(f"{k}={v}" for k, v in action.items()) for action in value]
            return ",".join(value) if isinstance(value, list) else value

        return {entry: written(entry, value) for entry, value in settings.items() if entry != "model"}

    @staticmethod
    def spelled(text):
        text = re.sub(r"{name:(\w+)}", lambda m: OPTIONS[m[1]].flag, text)
        return re.sub(r"{example:(\w+)}", lambda m: f"{OPTIONS[m[1]].flag} {OPTIONS[m[1]].example}", text)


@pytest.mark.parametrize(("changed", "message"), WRONG, ids=[str(change) for change, _ in WRONG])
def test_what_is_wrong_is_named_as_its_writer_knows_it(folder, changed, message):
    settings = {entry: value for entry, value in (OWN | changed).items() if value is not None}
    with pytest.raises(CausalBanditsError) as in_file:
        parse_environment(settings, folder=folder)
    spelled = re.sub(r"{name:(\w+)}", r"\1", message)
    assert str(in_file.value) == re.sub(r"{example:(\w+)}", lambda m: SpecTerms().example(m[1]), spelled)
    with pytest.raises(CausalBanditsError) as on_command_line:
        parse_target(str(folder / "model.json"), [], dict.fromkeys(OPTIONS) | AsOptions.given(settings))
    assert str(on_command_line.value) == AsOptions.spelled(message)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"manipulable": "x"}, r"^manipulable: expected a list of names; got \"x\""),
        ({"manipulable": {"x": "low"}}, r"^manipulable: expected a list of the values of 'x'; got \"low\""),
        ({"manipulable": {"x": ["lo"]}}, r"^manipulable: Unknown value of 'x': 'lo'. Did you"),
        ({"manipulable": {"z": ["lo"]}}, r"^manipulable: Unknown variable 'z'"),
        ({"max_set": "two"}, r"^max_set: expected a whole number, 1 or more; got \"two\""),
        ({"max_set": True}, r"^max_set: expected a whole number"),
        ({"reduce": 1}, r"^reduce: expected true or false; got 1"),
        ({"actions": ["x"]}, r"^actions: expected a list of assignments, such as actions = \[\{ A = "),
        ({"reward": 3, "reward_parents": None}, r"^reward: expected the name of a variable; got 3"),
        ({"forbid": "x"}, r"^Unknown entry 'forbid'"),
        ({"model": 3}, r"^model: expected the name of a file, or the content of a model's JSON file; got 3"),
        (
            {"model": "graph.dot"},
            r"values of 'x', 'w', 'm'\. Pass manipulable = \{ x = \[\.\.\.\], w = \[\.\.\.\] \} and values = \{ m",
        ),
    ],
)
def test_wrong_entries_are_refused_with_the_way_out(folder, changed, message):
    settings = {entry: value for entry, value in (OWN | changed).items() if value is not None}
    with pytest.raises(CausalBanditsError, match=message):
        parse_environment(settings, folder=folder)


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {},
            r"\[environment\] must name an example environment, .* or the kind of the reward, reward = one of",
        ),
        ({"reward": ["linear"]}, r"\[environment\] must name"),
        (3, r"\[environment\] must be a table; got 3"),
        ({"reward": "bernoulli"}, r"\[environment\] with reward = 'bernoulli' must have mean = \[...\]\."),
        ({"reward": "linear", "sd": 1}, r"\[environment\] with reward = 'linear' must have theta = \[...\]\."),
        ({"reward": "bernoulli", "mean": [0, 1], "sd": 1}, r"Unknown entry of \[environment\]: 'sd'"),
        ({"reward": "linear", "theta": [1], "features": 1}, r"Unknown entry of \[environment\]: 'features'"),
        ({"reward": "bernoulli", "mean": [0, 1, 1]}, r"^\[environment\]: The mean reward must have axes m \(2\)"),
        ({"reward": "gaussian", "mean": [0, 1], "sd": "x"}, r"^\[environment\]: sd must be a finite number"),
        ({"reward": "linear", "theta": "x"}, r"^\[environment\]: theta must be a vector of numbers"),
        ({"zoo": "figure2"}, r"has its own model and reward\. Leave out model"),
    ],
)
def test_wrong_rewards_are_refused_with_the_way_out(folder, environment, message):
    with pytest.raises(CausalBanditsError, match=message):
        parse_environment(OWN, environment, folder=folder)


@pytest.mark.parametrize(
    ("environment", "entries", "message"),
    [
        (
            {"zoo": "lower_bound"},
            {},
            r"The environment lower_bound requires: \[environment\] N = \.\.\., \[environment\] delta =",
        ),
        (
            {"zoo": "lower_bound", "N": 2, "delta": 0.1},
            {"reward_parents": ["X1"]},
            "Leave out reward_parents",
        ),
        (
            {"zoo": "lower_bound", "N": 2, "delta": 0.1},
            {"optional": ["X9"]},
            r"^optional: Unknown variable",
        ),
        ({"zoo": ["figure2"]}, {}, "Unknown example environment:"),
        ({"zoo": "parallel", "px": 3, "pw": 3, "theta": [1]}, {}, "px and pw must be lists"),
    ],
)
def test_wrong_worlds_of_the_zoo_are_refused_with_the_way_out(environment, entries, message):
    with pytest.raises(CausalBanditsError, match=message):
        parse_environment(entries, environment)


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        (
            "email_campain",
            [],
            "Unknown example environment (and not a file name with an extension): 'email_campain'. Did you mean",
        ),
        ("lower_bound", ["N=3"], "The environment lower_bound requires: --parameter delta=..."),
        ("lower_bound", ["N"], "--parameter: expected a name and a value, such as A=x; got 'N'"),
        ("lower_bound", ["N=3", "N=4"], "--parameter: expected every name once; 'N' occurs twice."),
        ("lower_bound", ["N=three"], "--parameter N: expected a value as in TOML"),
        ("lower_bound", ["N=3\nx=4"], "--parameter N: expected a value as in TOML"),
        ("lower_bound", ["N=3", "k=3"], "Unknown parameter of lower_bound: 'k'"),
        ("model.json", ["m=3"], "--parameter is for example environments; model.json is a model."),
    ],
)
def test_wrong_parameters_are_refused_with_the_way_out(model, parameters, message):
    with pytest.raises(CausalBanditsError) as error:
        parse_target(model, parameters, dict.fromkeys(OPTIONS))
    assert message in str(error.value)


names = st.sampled_from(["x", "w", "m", "y", "z", "", "low"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 4) | st.floats() | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=2),
    max_leaves=6,
)
lists = st.lists(names, max_size=3)
numbers = st.integers(0, 3) | st.sampled_from([0.25, 0.5, 0.75]) | st.lists(st.sampled_from([0, 0.5, 1]), max_size=3)


def error_message(*arguments, **keywords):
    """The message with which settings are refused; empty where they are valid."""
    try:
        parse_environment(*arguments, **keywords)
    except CausalBanditsError as error:
        return str(error)
    return ""


PYTHON = re.compile(r"argument|\b(" + "|".join(SPEC_ENTRIES) + r")=")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(set(SPEC_ENTRIES) - {"graph", "model"}, lists | plain)),
    st.none()
    | st.fixed_dictionaries(
        {}, optional={"reward": st.sampled_from([*REWARD_CLASSES]), **dict.fromkeys(["mean", "theta", "sd"], plain)}
    ),
)
def test_no_error_about_a_file_speaks_of_python(folder, entries, environment):
    assert not PYTHON.search(error_message({"model": "model.json", **entries}, environment, folder=folder))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "graph": plain | st.sampled_from(["x -> y", "x, w -> m -> y"]),
            **dict.fromkeys(SPEC_ENTRIES, lists | plain),
        },
    )
)
def test_no_error_about_a_graph_in_a_file_speaks_of_python(folder, entries):
    assert not PYTHON.search(error_message(entries, folder=folder))


@st.composite
def worlds_of_the_zoo(draw):
    name = draw(st.sampled_from(cb.zoo.__all__))
    parameters = inspect.signature(getattr(cb.zoo, name)).parameters
    return {
        "zoo": name,
        **draw(st.fixed_dictionaries(dict.fromkeys(parameters, plain | st.lists(numbers, max_size=2)))),
    }


@settings(max_examples=300)
@given(worlds_of_the_zoo(), st.fixed_dictionaries({}, optional={"max_set": plain, "optional": lists}))
def test_no_error_about_a_world_of_the_zoo_speaks_of_python(environment, entries):
    assert "argument" not in error_message(entries, environment)
