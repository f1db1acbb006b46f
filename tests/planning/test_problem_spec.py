"""One dialect: files and the command line make the same worlds of the same settings, and refuse in their own words."""

from __future__ import annotations

import inspect
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.cli.options import OPTIONS, parse_target
from causalbandits.errors import CausalBanditsError
from causalbandits.planning.experiment_spec import read_spec_file
from causalbandits.planning.problem_spec import EXAMPLES, PARSERS, REWARD_CLASSES, WRITABLE, parse_environment

FUNCTIONS = {"forbid"}
"""Keywords of Problem that no file can hold."""


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


def test_every_keyword_of_a_problem_can_be_written_in_a_file_and_as_an_option():
    keywords = set(inspect.signature(cb.Problem).parameters) - {"model"} - FUNCTIONS
    assert set(WRITABLE) == keywords
    assert set(PARSERS) == keywords
    assert set(EXAMPLES) == keywords
    assert set(OPTIONS) == keywords


def test_no_parameter_of_a_world_is_spelt_like_a_keyword_of_a_problem():
    for name in cb.zoo.__all__:
        parameters = set(inspect.signature(getattr(cb.zoo, name)).parameters)
        assert not parameters & {*WRITABLE, "zoo", "model"}


SAME = [
    (["--manipulate", "x,w", "--parents", "m"], 'manipulable = ["x", "w"]\nparents = ["m"]'),
    (["--manipulate", "x", "--reward", "y"], 'manipulable = ["x"]\nreward = "y"'),
    (
        ["--manipulate", "x,w", "--reward", "y", "--separator", "cheapest"],
        'manipulable = ["x", "w"]\nreward = "y"\nseparator = "cheapest"',
    ),
    (
        ["--manipulate", "x,w", "--reward", "y", "--observe", "x,w,m"],
        'manipulable = ["x", "w"]\nreward = "y"\nobservable = ["x", "w", "m"]',
    ),
    (
        ["--manipulate", "x,w", "--parents", "m", "--at-most", 1, "--always", "x", "--no-reduce"],
        'manipulable = ["x", "w"]\nparents = ["m"]\nat_most = 1\nalways = ["x"]\nreduce = false',
    ),
    (
        ["--manipulate", "x", "--parents", "m", "--context", "w"],
        'manipulable = ["x"]\nparents = ["m"]\ncontext = ["w"]',
    ),
    (
        ["--manipulate", "x,w", "--parents", "m", "--action", "x=high", "--action", "x=low, w=2", "--action", ""],
        'manipulable = ["x", "w"]\nparents = ["m"]\nactions = [{ x = "high" }, { x = "low", w = "2" }, {}]',
    ),
    (["--manipulate", "x", "--manipulate", "w", "--parents", "m"], 'manipulable = ["x", "w"]\nparents = ["m"]'),
    (["--manipulate", "x=low", "--parents", "m"], 'manipulable = { x = ["low"] }\nparents = ["m"]'),
    (
        ["--manipulate", "x", "--manipulate", "w = 2, 1", "--parents", "m"],
        'manipulable = { x = ["low", "high"], w = [2, 1] }\nparents = ["m"]',
    ),
    (
        ["--manipulate", "x,w", "--parents", "m", "--cost", "x=0.5", "--cost", "w:2=0.25"],
        'manipulable = ["x", "w"]\nparents = ["m"]\ncosts = { x = 0.5, w = { "2" = 0.25 } }',
    ),
    (
        ["--manipulate", "x,w", "--parents", "m", "--require", "x:high=0.9", "--require", "w:2=0.5"],
        'manipulable = ["x", "w"]\nparents = ["m"]\nrequire = { x = { high = 0.9 }, w = { "2" = 0.5 } }',
    ),
    (
        ["--manipulate", "x,w", "--parents", "m", "--reward-range", "-1,2", "--noise-scale", 0.5],
        'manipulable = ["x", "w"]\nparents = ["m"]\nreward_range = [-1, 2]\nnoise_scale = 0.5',
    ),
]


def typed(arguments):
    """What the program makes of arguments, before a command sees it."""
    given = dict.fromkeys(OPTIONS)
    by_flag = {flag: entry for entry, option in OPTIONS.items() for flag in option.flag.split("/")}
    rest = iter(arguments)
    for flag in rest:
        entry = by_flag[flag]
        if entry == "reduce":
            given[entry] = flag == "--reduce"
        elif entry in ("manipulable", "actions", "costs", "require"):
            given[entry] = [*(given[entry] or []), next(rest)]
        else:
            given[entry] = next(rest)
    return given


@pytest.mark.parametrize(("arguments", "entries"), SAME, ids=range(len(SAME)))
def test_options_and_entries_of_a_file_make_the_same_problem(folder, arguments, entries):
    (folder / "same.toml").write_text(f'[environment]\nmodel = "model.json"\n{entries}\n', encoding="utf-8")
    by_options = parse_target(str(folder / "model.json"), [], typed(arguments)).problem
    by_file = read_spec_file(folder / "same.toml").parse_environment()
    assert by_options.to_record() == by_file.to_record()
    assert by_options.observable == by_file.observable
    assert parse_target(str(folder / "same.toml"), [], typed([])).problem.to_record() == by_file.to_record()


def test_what_can_be_observed_of_cpts_that_are_learned_is_said_alike_in_files_and_options(tmp_path):
    fitted = cb.fit({"m": ["x", "u"]}, None, states={"x": [0, 1], "u": [0, 1], "m": [0, 1]})
    cb.write(fitted, tmp_path / "model.json")
    entries = 'manipulable = ["x"]\nparents = ["m"]\nobservable = ["m"]'
    (tmp_path / "same.toml").write_text(f'[environment]\nmodel = "model.json"\n{entries}\n', encoding="utf-8")
    arguments = ["--manipulate", "x", "--parents", "m", "--observe", "m"]
    by_options = parse_target(str(tmp_path / "model.json"), [], typed(arguments)).problem
    by_file = read_spec_file(tmp_path / "same.toml").parse_environment()
    by_hand = cb.Problem(fitted, ["x"], ["m"], observable=["m"])
    assert by_options.to_record() == by_file.to_record() == by_hand.to_record()
    assert by_file.must_observe == ("m", "x")


def test_between_them_these_options_are_all():
    assert {flag for arguments, _ in SAME for flag in arguments if str(flag).startswith("--")} == {
        flag for option in OPTIONS.values() for flag in option.flag.split("/")
    } - {"--reduce"}


def test_every_keyword_reaches_the_problem(folder):
    settings = {
        "model": "model.json",
        "manipulable": ["x", "w"],
        "parents": ["m"],
        "at_most": 1,
        "always": ["x"],
        "reduce": False,
    }
    problem = parse_environment(settings, folder=folder)
    assert (problem.manipulable, problem.parents, problem.reduce) == (("x", "w"), ("m",), False)
    assert (problem.actions.at_most, set(problem.actions.always)) == (1, {"x"})
    found = {"model": "model.json", "manipulable": ["x"], "reward": "y", "observable": ["x", "m"]}
    assert parse_environment(found, folder=folder).observable == ("x", "m")
    listed = {"model": "model.json", "manipulable": ["w"], "parents": ["m"], "actions": [{"w": "2"}, {"w": 1}]}
    assert [dict(action) for action in parse_environment(listed, folder=folder).actions] == [{"w": 2}, {"w": 1}]
    narrowed = {
        "model": "model.json",
        "manipulable": {"w": ["2"], "x": ["low", "high"]},
        "parents": ["m"],
        "at_most": 1,
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
        "random_world": ["variables=8", "knobs=2", "states=3", "rng=4"],
        "rare_prize": ["chance=0.1", "prize=5"],
    }[name]
    asked_for = parse_target(name, parameters, dict.fromkeys(OPTIONS)).problem_or_environment
    by_hand = getattr(cb.zoo, name)(**{p.split("=")[0]: json.loads(p.split("=")[1]) for p in parameters})
    assert asked_for.fingerprint == by_hand.fingerprint
    fewer = parse_target(name, parameters, typed(["--at-most", 1])).problem_or_environment
    assert fewer.problem.actions.at_most == (1 if len(by_hand.problem.manipulable) > 1 else None)
    assert fewer.reward.mean_on(fewer.problem).content() == by_hand.mean.content()


def test_a_world_that_is_drawn_is_the_same_every_time():
    settings = {"zoo": "random_parallel", "m": 3, "n": 2, "theta": [1, 0]}
    assert parse_environment(settings).fingerprint == parse_environment(settings).fingerprint
    assert parse_environment({**settings, "rng": 1}).fingerprint != parse_environment(settings).fingerprint


def test_options_replace_the_entries_of_a_file_and_errors_know_which_is_whose(folder):
    file = folder / "own.toml"
    file.write_text('[environment]\nmodel = "model.json"\nmanipulable = ["x"]\nparents = ["z"]\n', encoding="utf-8")
    with pytest.raises(CausalBanditsError, match=r"^\[environment\] parents: Unknown variable 'z'"):
        parse_target(str(file), [], typed(["--at-most", 1]))
    assert parse_target(str(file), [], typed(["--parents", "m"])).problem.parents == ("m",)
    with pytest.raises(CausalBanditsError, match=r"^--manipulate: Unknown variable 'q'"):
        parse_target(str(file), [], typed(["--parents", "m", "--manipulate", "q"]))


OWN = {"model": "model.json", "manipulable": ["x", "w"], "parents": ["m"]}
WRONG = [
    ({"manipulable": None}, "Say what can be set: {example:manipulable}. The variables are x, w, m, y."),
    ({"manipulable": []}, "Say what can be set: {example:manipulable}. The variables are x, w, m, y."),
    ({"manipulable": ["x", "v"]}, "{name:manipulable}: Unknown variable 'v'. Known: 'x', 'w', 'm', 'y'."),
    ({"parents": ["mm"]}, "{name:parents}: Unknown variable 'mm'. Did you mean 'm'? Known: 'x', 'w', 'm', 'y'."),
    (
        {"parents": None},
        "Say what the reward depends on: {example:parents}; or, where the model has it, which it is: {example:reward}.",
    ),
    ({"reward": "z"}, "{name:reward}: Unknown variable 'z'. Known: 'x', 'w', 'm', 'y'."),
    ({"separator": "best", "parents": None}, "{name:separator}: expected \"cheapest\"; got 'best'."),
    (
        {"observable": ["m"]},
        "{name:observable} is to find what stands in for the reward's parents: leave out {name:parents}.",
    ),
    (
        {"separator": "cheapest", "parents": None},
        "{name:separator} needs to know which variable is the reward: {example:reward}.",
    ),
    (
        {"observable": ["m", "y"], "reward": "y", "parents": None},
        "{name:observable} must not have the reward 'y' in it: it comes too late.",
    ),
    ({"always": ["m"]}, "{name:always}: Unknown variable that can be set: 'm'. Known: 'x', 'w'."),
    (
        {"always": ["x", "w"], "at_most": 1},
        "{name:at_most}: expected no less than the 2 variables that are always set; got 1.",
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
    def spelt(text):
        text = re.sub(r"{name:(\w+)}", lambda m: OPTIONS[m[1]].flag, text)
        return re.sub(r"{example:(\w+)}", lambda m: f"{OPTIONS[m[1]].flag} {OPTIONS[m[1]].example}", text)


@pytest.mark.parametrize(("changed", "message"), WRONG, ids=[str(change) for change, _ in WRONG])
def test_what_is_wrong_is_named_as_its_writer_knows_it(folder, changed, message):
    settings = {entry: value for entry, value in (OWN | changed).items() if value is not None}
    with pytest.raises(CausalBanditsError) as in_file:
        parse_environment(settings, folder=folder)
    spelt = re.sub(r"{name:(\w+)}", r"[environment] \1", message)
    spelt = re.sub(r"{example:(\w+)}", lambda m: f"[environment] {m[1]} = {EXAMPLES[m[1]]}", spelt)
    assert str(in_file.value) == spelt
    with pytest.raises(CausalBanditsError) as on_command_line:
        parse_target(str(folder / "model.json"), [], dict.fromkeys(OPTIONS) | AsOptions.given(settings))
    assert str(on_command_line.value) == AsOptions.spelt(message)


@pytest.mark.parametrize(
    ("changed", "reward", "message"),
    [
        ({"manipulable": "x"}, None, r"\[environment\] manipulable: expected a list of names; got 'x'"),
        ({"manipulable": {"x": "low"}}, None, r"manipulable: expected a list of the values that 'x' may be set to"),
        ({"manipulable": {"x": ["lo"]}}, None, r"\[environment\] manipulable: Unknown value of 'x': 'lo'. Did you"),
        ({"manipulable": {"z": ["lo"]}}, None, r"\[environment\] manipulable: Unknown variable 'z'"),
        ({"at_most": "two"}, None, r"\[environment\] at_most: expected a whole number, 1 or more; got 'two'"),
        ({"at_most": True}, None, r"\[environment\] at_most: expected a whole number"),
        ({"reduce": 1}, None, r"\[environment\] reduce: expected true or false; got 1"),
        ({"actions": ["x"]}, None, r"\[environment\] actions: expected a list of assignments, such as"),
        ({"reward": 3}, None, r"\[environment\] reward: expected the name of a variable; got 3"),
        ({"forbid": "x"}, None, r"Unknown entry of \[environment\]: 'forbid'"),
        ({"model": 3}, None, r"\[environment\] model: expected the name of a file; got 3"),
        ({"model": "graph.dot"}, None, "'x' needs the values that it can be set to"),
        ({"zoo": "figure2"}, None, "must name one world"),
        ({"model": None}, None, "must name one world"),
        ({}, {}, r"\[reward\] must have a kind, one of 'bernoulli', 'gaussian', 'linear', 'student'; got {}"),
        ({}, {"kind": ["linear"]}, r"\[reward\] must have a kind"),
        ({}, 3, r"\[reward\] must have a kind"),
        ({}, {"kind": "bernoulli"}, r"\[reward\] of kind 'bernoulli' must have mean = \[...\]\."),
        ({}, {"kind": "linear", "sd": 1}, r"\[reward\] of kind 'linear' must have theta = \[...\]\."),
        ({}, {"kind": "bernoulli", "mean": [0, 1], "sd": 1}, r"Unknown entry of \[reward\]: 'sd'"),
        ({}, {"kind": "linear", "theta": [1], "features": 1}, r"Unknown entry of \[reward\]: 'features'"),
        ({}, {"kind": "bernoulli", "mean": [0, 1, 1]}, r"^\[reward\]: The mean reward must have axes m \(2\)"),
        ({}, {"kind": "gaussian", "mean": [0, 1], "sd": "x"}, r"^\[reward\]: sd must be a finite number"),
        ({}, {"kind": "linear", "theta": "x"}, r"^\[reward\]: theta must be a vector of numbers"),
    ],
)
def test_wrong_entries_and_rewards_are_refused_with_the_way_out(folder, changed, reward, message):
    settings = {entry: value for entry, value in (OWN | changed).items() if value is not None}
    with pytest.raises(CausalBanditsError, match=message):
        parse_environment(settings, reward, folder=folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"zoo": "lower_bound"},
            r"The world lower_bound needs more: \[environment\] N = ..., \[environment\] delta = ",
        ),
        ({"zoo": "lower_bound", "N": 2, "delta": 0.1, "parents": ["X1"]}, r"leave out \[environment\] parents"),
        ({"zoo": "lower_bound", "N": 2, "delta": 0.1, "always": ["X3"]}, r"\[environment\] always: Unknown variable"),
        ({"zoo": ["figure2"]}, "Unknown world of the zoo"),
        ({"zoo": "parallel", "px": 3, "pw": 3, "theta": [1]}, "px and pw must be lists"),
    ],
)
def test_wrong_worlds_of_the_zoo_are_refused_with_the_way_out(settings, message):
    with pytest.raises(CausalBanditsError, match=message):
        parse_environment(settings)


@pytest.mark.parametrize(
    ("model", "parameters", "message"),
    [
        ("email_campain", [], "Unknown world of the zoo, and no file with an extension: 'email_campain'. Did you mean"),
        ("lower_bound", ["N=3"], "The world lower_bound needs more: --parameter delta=..."),
        ("lower_bound", ["N"], "--parameter: expected a name and a value, such as A=x; got 'N'"),
        ("lower_bound", ["N=3", "N=4"], "--parameter: expected every name once; 'N' is there twice."),
        ("lower_bound", ["N=three"], "--parameter N: expected a value as in TOML"),
        ("lower_bound", ["N=3\nx=4"], "--parameter N: expected a value as in TOML"),
        ("lower_bound", ["N=3", "k=3"], "Unknown parameter of lower_bound: 'k'"),
        ("model.json", ["m=3"], "--parameter is for worlds of the zoo; model.json is a model."),
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


def refused(*arguments, **keywords):
    """What is said to settings; nothing, if they are right."""
    try:
        parse_environment(*arguments, **keywords)
    except CausalBanditsError as error:
        return str(error)
    return ""


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(WRITABLE, lists | plain)),
    st.fixed_dictionaries(
        {}, optional={"kind": st.sampled_from([*REWARD_CLASSES]), **dict.fromkeys(["mean", "theta", "sd"], plain)}
    ),
)
def test_whatever_a_file_says_python_is_never_heard(folder, entries, reward):
    said = refused({"model": "model.json", **entries}, reward, folder=folder)
    assert not re.search(r"argument|\b(" + "|".join(WRITABLE) + r")=", said)


@st.composite
def asked_of_the_zoo(draw):
    name = draw(st.sampled_from(cb.zoo.__all__))
    parameters = inspect.signature(getattr(cb.zoo, name)).parameters
    return {
        "zoo": name,
        **draw(st.fixed_dictionaries(dict.fromkeys(parameters, plain | st.lists(numbers, max_size=2)))),
    }


@settings(max_examples=300)
@given(asked_of_the_zoo(), st.fixed_dictionaries({}, optional={"at_most": plain, "always": lists}))
def test_whatever_is_asked_of_the_zoo_python_is_never_heard(entries, narrowed):
    assert "argument" not in refused({**entries, **narrowed})
