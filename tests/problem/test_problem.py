"""Problem: the reward's parents or what separates it from the actions, records, codes."""

import json
import math
import pickle
import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from causalbandits.environments import zoo
from causalbandits.errors import (
    CausalBanditsError,
    InterventionError,
    ModelError,
    ProblemError,
    ProblemWarning,
    SizeError,
    StateError,
)
from causalbandits.model.causal_model import CausalModel
from causalbandits.model.variable import Variable
from causalbandits.problem import features
from causalbandits.problem import problem as distributions
from causalbandits.problem.problem import Problem
from oracles import all_interventions, cases, distribution, joint, models, pairs, patient, random_table


def model_of(parents, size=2, seed=0):
    """A model with this graph, `{name: its parents}`, random tables and the states 0, 1, ..."""
    rng = np.random.default_rng(seed)
    return CausalModel(
        Variable(name, range(size), parents=above, table=random_table(rng, [size] * len(above), size))
        for name, above in parents.items()
    )


CAMPAIGN = {"X": [], "U": [], "M": ["X"], "W": ["M", "U"], "V": ["U"], "Y": ["W", "V"]}
"""X -> M -> W -> Y with U -> W, U -> V -> Y."""


# --- the reward's variable ----------------------------------------------------------------------------


def test_the_parents_of_a_named_reward_are_found_in_the_graph():
    assert Problem(model_of(CAMPAIGN), manipulable=["X"], reward="Y", optional=True).parents == ("W", "V")


@pytest.mark.parametrize("separating", [["W", "V"], ["V", "W", "M"], ["M"], ["W", "U"], ["X"], ["M", "V", "U"]])
def test_a_set_that_separates_is_accepted_and_its_distribution_is_right(separating):
    model = model_of(CAMPAIGN, size=3)
    problem = Problem(model, manipulable=["X"], reward_parents=separating, reward="Y", optional=True)
    exact = [distribution(model, do, separating) for do in all_interventions(model, ["X"])]
    np.testing.assert_allclose(problem.parent_distributions(), exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("manipulable", "given", "path"),
    [
        (["X"], ["V"], r"do\(X\) -> X -> M -> W -> Y"),
        (["X"], ["W"], r"do\(X\) -> X -> M -> W <- U -> V -> Y"),
        (["X", "V"], ["M"], r"do\(V\) -> V -> Y"),
        (["M"], ["X", "V"], r"do\(M\) -> M -> W -> Y"),
        (["V"], ["V"], r"do\(V\) -> V <- U -> W -> Y"),
    ],
)
def test_a_set_that_does_not_separate_is_refused_with_the_open_path(manipulable, given, path):
    message = rf"The set .* must separate .* 'Y': {path} is open. Choose a set .*\['W', 'V'\] are always valid"
    with pytest.raises(ProblemError, match=message):
        Problem(model_of(CAMPAIGN), manipulable=manipulable, reward_parents=given, reward="Y", optional=True)


AFTERWARDS = CAMPAIGN | {"D": ["Y", "X"], "E": ["D"]}
"""The same, and Y -> D -> E: what follows from the reward."""


@pytest.mark.parametrize(("late", "path"), [("D", "Y -> D"), ("E", "Y -> D -> E")])
def test_what_comes_after_the_reward_cannot_stand_in_for_its_causes(late, path):
    message = (
        rf"must not contain effects of the reward 'Y'; '{late}' is one: {path}. Leave '{late}' out; .*\['W', 'V'\]"
    )
    with pytest.raises(ProblemError, match=message):
        Problem(model_of(AFTERWARDS), manipulable=["X"], reward_parents=["W", "V", late], reward="Y", optional=True)


def test_what_is_always_set_no_longer_follows_from_the_reward():
    problem = Problem(
        model_of(AFTERWARDS), manipulable=["X", "D"], reward_parents=["W", "V", "E"], reward="Y", optional=["X"]
    )
    assert problem.parents == ("W", "V", "E")


@pytest.mark.parametrize(
    ("keywords", "idle"),
    [
        ({"manipulable": ["X", "E", "V"], "reward_parents": ["W"]}, "E, V"),
        ({"manipulable": ["E", "X"], "reward": "Y"}, "E"),
        ({"manipulable": ["X", "D"], "reward": "Y", "adjust": "smallest"}, "D"),
        ({"manipulable": ["X", "M"], "reward_parents": ["W"], "optional": ["X"]}, "X"),
    ],
)
def test_a_knob_that_leads_nowhere_is_warned_of_once_at_the_line_that_made_it(keywords, idle):
    with pytest.warns(ProblemWarning, match=f"No path leads from {idle} to the reward's parents") as warned:
        problem = Problem(model_of(AFTERWARDS), **{"optional": True, **keywords})
    assert [w.filename for w in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Problem.from_record(problem.to_record())
        problem.with_model(model_of(AFTERWARDS, seed=1))


def test_where_knobs_that_lead_nowhere_are_the_point_nothing_is_said():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zoo.lower_bound(3, delta=0.1)
        Problem(model_of(AFTERWARDS), manipulable=["X", "M"], reward="Y", optional=True)


@st.composite
def separation_cases(draw):
    model = draw(models(fewest_states=2))
    assume(len(model.names) > 2)
    reward, *others = draw(st.permutations(model.names))
    some = st.lists(st.sampled_from(others), unique=True, min_size=1)
    return model, draw(some)[:2], draw(some), reward


@patient
@given(separation_cases())
def test_what_is_accepted_is_what_networkx_calls_d_separated(case):
    model, manipulable, given, reward = case
    graph = nx.DiGraph(model.graph)
    graph.add_edges_from((("do", name), name) for name in manipulable)
    late = nx.descendants(graph, reward).intersection(given)
    separated = nx.is_d_separator(graph, {("do", name) for name in manipulable}, {reward}, set(given))
    if late:
        with pytest.raises(ProblemError, match="must not contain effects of the reward"):
            Problem(model, manipulable=manipulable, reward_parents=given, reward=reward, optional=True)
    elif separated:
        assert Problem(
            model, manipulable=manipulable, reward_parents=given, reward=reward, optional=True
        ).parents == tuple(given)
    else:
        with pytest.raises(ProblemError, match="is open"):
            Problem(model, manipulable=manipulable, reward_parents=given, reward=reward, optional=True)


@patient
@given(separation_cases(), st.integers(0, 99))
def test_given_a_separating_set_the_reward_is_the_same_whatever_is_done(case, seed):
    # The promise behind the check: one number E[Y | w] per configuration gives every action's mean reward.
    model, manipulable, given, reward = case
    try:
        problem = Problem(model, manipulable=manipulable, reward_parents=given, reward=reward, optional=True)
    except ProblemError:
        given = list(model[reward].parents)
        assume(given)
        problem = Problem(model, manipulable=manipulable, reward=reward, optional=True)
    value = np.random.default_rng(seed).uniform(-1, 1, len(model[reward].states))
    axes = [*given, reward]
    every = [distribution(model, do, axes) for do in problem.actions]
    pooled = sum(every)
    weight = pooled.sum(axis=-1)
    mean = np.divide(pooled @ value, weight, out=np.zeros_like(weight), where=weight > 0)
    exact = [(p @ value).sum() for p in every]
    np.testing.assert_allclose(problem.projection(mean.reshape(-1)), exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (ProblemError, {"manipulable": ["X", "Y"], "reward": "Y"}, r"reward 'Y' must not be manipulable"),
        (ProblemError, {"reward_parents": ["Y"], "reward": "Y"}, r"reward 'Y' cannot be its own parent"),
        (ProblemError, {"reward": "U"}, "at least one parent, because otherwise no action can change it"),
        (
            ProblemError,
            {},
            r"Name the reward's variable in the graph \(reward='Y'\), or its direct causes \(reward_parents",
        ),
        (
            ProblemError,
            {"reward_parents": []},
            r"from which the possibly optimal actions are derived\. Pass the variable's name, reward='Y'",
        ),
        (ProblemError, {"manipulable": [], "reward_parents": ["M"]}, r"At least one variable must be manipulable"),
        (
            ProblemError,
            {"model": 5, "reward_parents": ["M"]},
            "argument of Problem is the graph: a",
        ),
        (
            ModelError,
            {"manipulable": "X", "reward_parents": ["M"]},
            r"manipulable variables must be a list of names, such as \['x'\]; got 'X'",
        ),
        (
            ModelError,
            {"manipulable": ["X", "X"], "reward_parents": ["M"]},
            r"manipulable variables must differ: 'X' appears",
        ),
        (ModelError, {"manipulable": ["x"], "reward_parents": ["M"]}, r"Unknown variable 'x'. .*Known: 'X', 'U', 'M'"),
        (ProblemError, {"reward_parents": "M"}, r"reward_parents must be a list of names, .*; got 'M'"),
        (ModelError, {"reward_parents": ["M", "M"]}, r"parent variables must differ: 'M' appears twice"),
        (
            ProblemError,
            {"reward": "Z", "reward_parents": None},
            r"Unknown variable 'Z'.*name its direct causes: reward_parents",
        ),
        (ProblemError, {"reward_parents": ["M"], "optional": ["M"]}, r"optional: Unknown manipulable variable 'M'"),
        (InterventionError, {"reward_parents": ["M"], "actions": [{"X": 7}]}, r"Unknown value of 'X': 7. Known: 0, 1"),
        (ProblemError, {"reward_parents": ["M"], "forbid": lambda action: True}, r"No action is left"),
    ],
)
def test_parts_that_make_no_problem_are_refused_with_the_rule(error, arguments, message):
    given = {"model": model_of(CAMPAIGN), "manipulable": ["X"]} | arguments
    with pytest.raises(error, match=message):
        Problem(given.pop("model"), **{"optional": True, **given})


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (
            ProblemError,
            {"forbid": lambda do: None},
            r"forbid must return True or False for every action; for do\(\) it",
        ),
        (
            ProblemError,
            {"forbid": lambda do: do.get("X")},
            r"forbid must return True or False for every action; for do\(\) it",
        ),
        (ProblemError, {"forbid": lambda do: do["X"] == 1}, r"mapping: use do\.get\('x'\) instead of do\['x'\]"),
        (ProblemError, {"reduce": "no"}, r"reduce must be True or False; got 'no'"),
        (ProblemError, {"reduce": 1}, r"reduce must be True or False; got 1"),
        (ProblemError, {"actions": 5}, r"actions must be a list of interventions, such as .*; got 5"),
        (ProblemError, {"actions": {"X": 1}}, r"actions must be a list of interventions, .*; got {'X': 1}"),
        (ProblemError, {"actions": "X"}, r"actions must be a list of interventions, .*; got 'X'"),
        (
            InterventionError,
            {"actions": [{"X": 1}, None]},
            r"None is not an intervention\. For the empty intervention, pass \{\}",
        ),
        (ProblemError, {"optional": {"X": 1}}, r"optional must list manipulable variables .*; got {'X': 1}"),
        (ProblemError, {"optional": [["X"]]}, r"optional: Unknown manipulable variable \['X'\]"),
        (ProblemError, {"max_set": "1"}, r"max_set must be a whole number, .*; got '1'"),
        (ProblemError, {"max_set": [1]}, r"max_set must be a whole number, .*; got \[1\]"),
        (ProblemError, {"max_set": np.array([1, 2])}, r"max_set must be a whole number, .*; got array"),
        (ProblemError, {"max_set": True}, r"max_set must be a whole number, .*; got True"),
        (
            ProblemError,
            {"manipulable": {"X": "1"}},
            "'X' must be a list of its values, or None for all; got '1'",
        ),
        (ProblemError, {"manipulable": {"X": 1}}, "'X' must be a list of its values, or None for all; got 1"),
        (ProblemError, {"manipulable": {"X": []}}, "The list of allowed values of 'X' is empty"),
        (ProblemError, {"manipulable": {"X": [1, 1]}}, "The allowed values of 'X' must be distinct; 1 appears twice"),
        (CausalBanditsError, {"manipulable": {"X": [7]}}, r"Unknown value of 'X': 7. Known: 0, 1"),
    ],
)
def test_constraints_that_would_do_nothing_are_refused(error, arguments, message):
    given = {"model": model_of(CAMPAIGN), "manipulable": ["X"], "reward_parents": ["M"]} | arguments
    with pytest.raises(error, match=message):
        Problem(given.pop("model"), **{"optional": True, **given})


def test_forbidding_nothing_is_warned_of_at_the_line_that_does():
    with pytest.warns(ProblemWarning, match=r"forbid excludes none of the 3 actions. .* names and values") as warned:
        Problem(
            model_of(CAMPAIGN),
            manipulable=["X"],
            reward_parents=["M"],
            forbid=lambda do: do.get("X") == "one",
            optional=True,
        )
    assert [w.filename for w in warned] == [__file__]


def test_none_is_not_eligible():
    problem = Problem(model_of(CAMPAIGN), manipulable=["X"], reward_parents=["M"], optional=True)
    with pytest.raises(InterventionError, match="None is not an intervention"):
        problem.situation(eligible=[{"X": 1}, None])
    for wrong in (5, "X", {"X": 1}):
        with pytest.raises(InterventionError, match="eligible must be a list of interventions"):
            problem.situation(eligible=wrong)


def test_forbidden_actions_are_gone_and_the_others_keep_their_order():
    both = Problem(
        model_of(CAMPAIGN),
        manipulable=["X", "M"],
        reward_parents=["W"],
        forbid=lambda action: len(action) == 2,
        optional=True,
    )
    assert list(both.actions) == [{}, {"M": 0}, {"M": 1}, {"X": 0}, {"X": 1}]


# --- one number, one configuration --------------------------------------------------------------------


@patient
@given(cases(), st.data())
def test_the_probability_of_one_configuration_is_an_entry_of_the_distribution(case, data):
    problem = Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    number = data.draw(st.integers(0, problem.actions.size - 1))
    exact = distribution(case.model, problem.actions[number], case.parents)
    for z in np.ndindex(*problem.shape):
        assert abs(problem.probability(number, z) - exact[z]) <= 1e-12
        assert problem.configuration(z) == np.ravel_multi_index(z, problem.shape)
        assert problem.encode_parents(problem.decode_parents(z)) == z


def test_probabilities_of_single_configurations_need_no_joint_table():
    n = 60
    model = pairs(n, np.random.default_rng(0), outcomes=3)
    problem = Problem(
        model, manipulable=[f"X{i}" for i in range(n)], reward_parents=[f"W{i}" for i in range(n)], optional=True
    )
    exact = math.prod(float((model[f"X{i}"].table @ model[f"W{i}"].table)[i % 3]) for i in range(n))
    assert problem.configurations == 3**n
    assert problem.probability(0, [i % 3 for i in range(n)]) == pytest.approx(exact, rel=1e-12)
    with pytest.raises(SizeError, match=f"has {3**n} entries"):
        problem.parent_distribution(0)


def test_a_matrix_too_large_is_refused_with_its_size_and_a_way_out(monkeypatch):
    monkeypatch.setattr(distributions, "ENTRY_LIMIT", 5)
    problem = Problem(model_of(CAMPAIGN), manipulable=["X"], reward_parents=["M"], optional=True)
    with pytest.raises(
        SizeError, match=r"3 actions x 2 configurations are 6 numbers; .*one action at a time, or use project"
    ):
        problem.parent_distributions()


@pytest.mark.parametrize(
    ("error", "values", "message"),
    [
        (ProblemError, {"W": 0}, r"Every parent must be observed; missing: 'V'"),
        (ProblemError, {}, r"missing: 'W', 'V'"),
        (ProblemError, {"W": 0, "V": 1, "M": 0}, r"Unknown parent 'M'. .*Known: 'W', 'V'"),
        (InterventionError, {"W": 0, "V": 2}, r"Unknown value of 'V': 2. Known: 0, 1"),
    ],
)
def test_observations_that_are_not_the_parents_values_are_refused(error, values, message):
    with pytest.raises(error, match=message):
        Problem(model_of(CAMPAIGN), manipulable=["X"], reward="Y", optional=True).encode_parents(values)


def test_actions_are_named_by_number_or_by_what_they_set():
    problem = Problem(model_of(CAMPAIGN), manipulable=["X", "M"], reward_parents=["W"], max_set=1)
    assert problem.choices({"X": 1}) == problem.choices(problem.actions.index({"X": 1})) == (2, 0)
    with pytest.raises(InterventionError, match="sets at most 1 variables"):
        problem.choices({"X": 1, "M": 0})
    with pytest.raises(InterventionError, match=r"whole number; got 1\.0"):
        problem.choices(1.0)


# --- records, fingerprints, copies --------------------------------------------------------------------


def variants():
    """The same model with every kind of action set."""
    model = model_of(CAMPAIGN)
    return [
        Problem(model, manipulable=["X", "M"], reward_parents=["W"], optional=True),
        Problem(model, manipulable=["M", "X"], reward_parents=["W"], optional=True),
        Problem(model, manipulable=["X"], reward="Y", optional=True),
        Problem(model, manipulable=["X"], reward_parents=["W", "V"], optional=True),
        Problem(model, manipulable=["X"], reward_parents=["V", "W"], optional=True),
        Problem(model, manipulable=["X", "M"], reward_parents=["W"], max_set=1),
        Problem(model, manipulable=["X", "M"], reward_parents=["W"], optional=["M"]),
        Problem(model, manipulable=["X", "M"], reward_parents=["W"], max_set=1, optional=["X"]),
        Problem(model, manipulable=["X", "M"], reward_parents=["W"], actions=[{"X": 1}, {}]),
        Problem(model, manipulable=["X", "M"], reward_parents=["W"], actions=[{}, {"X": 1}]),
        Problem(model, manipulable=["X", "M"], reward_parents=["W"], max_set=1, forbid=lambda action: "M" in action),
        Problem(model, manipulable={"X": [1], "M": None}, reward_parents=["W"], optional=True),
        Problem(model, manipulable={"X": [1], "M": [0]}, reward_parents=["W"], max_set=1),
        Problem(model, manipulable={"M": [0], "X": [1]}, reward_parents=["W"], optional=["M"]),
        Problem(model, manipulable={"X": [1], "M": None}, reward_parents=["W"], actions=[{}, {"X": 1}]),
        Problem(model_of(CAMPAIGN, seed=1), manipulable=["X", "M"], reward_parents=["W"], optional=True),
    ]


@pytest.mark.parametrize("problem", variants(), ids=str)
def test_a_problem_comes_back_from_its_record_and_from_a_pickle(problem):
    record = json.loads(json.dumps(problem.to_record()))
    for back in (Problem.from_record(record), pickle.loads(pickle.dumps(problem))):
        assert list(back.actions) == list(problem.actions)
        assert (back.model, back.parents, back.reward) == (problem.model, problem.parents, problem.reward)
        assert back.fingerprint == problem.fingerprint
        assert (back.parent_distributions() == problem.parent_distributions()).all()


def test_a_problem_that_has_been_used_can_be_pickled():
    problem = variants()[0]
    found = problem.projection(np.arange(2.0)), problem.parent_distribution(3)
    back = pickle.loads(pickle.dumps(problem))
    assert (back.projection(np.arange(2.0)) == found[0]).all()
    assert (back.parent_distribution(3) == found[1]).all()


def test_features_that_cannot_be_pickled_do_not_stop_their_problem():
    problem = variants()[0]
    features.resolve_features(problem, lambda w: [w, w * w])
    assert pickle.loads(pickle.dumps(problem)).fingerprint == problem.fingerprint


def test_fingerprints_are_equal_for_equal_problems_only():
    prints = [problem.fingerprint for problem in variants()]
    assert prints == [problem.fingerprint for problem in variants()]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"variables": None}}, "list of records"),
        ({"manipulable": ["X", "Q"]}, "Unknown variable 'Q'"),
        ({"actions": [[9, 0]]}, "action"),
        ({"actions": [[0]]}, "action"),
        ({"actions": [[-1, 0]]}, "action"),
        ({"parents": 3}, "must be a list of names"),
    ],
)
def test_a_damaged_record_is_refused_by_this_library(change, message):
    record = variants()[0].to_record() | change
    with pytest.raises(CausalBanditsError, match=message):
        Problem.from_record(record)


def test_a_record_that_lacks_something_says_what():
    for key in ("model", "manipulable", "parents", "reward", "max_set", "always_set", "actions"):
        record = variants()[0].to_record()
        del record[key]
        with pytest.raises(StateError, match=f"Not the description of a problem: .*{key}"):
            Problem.from_record(record)


def test_the_joint_of_all_variables_is_itself_a_distribution_of_parents():
    model = model_of(CAMPAIGN)
    problem = Problem(model, manipulable=["M"], reward_parents=model.names, optional=True)
    np.testing.assert_allclose(problem.parent_distribution({"M": 1}), joint(model, {"M": 1}), rtol=0, atol=1e-12)


def confounded():
    """U is not observed and moves both the knob and the reward."""
    u = Variable("U", [0, 1], table=[0.5, 0.5])
    z = Variable("Z", [0, 1], parents=["U"], table=[[0.9, 0.1], [0.2, 0.8]])
    y = Variable("Y", [0, 1], parents=["Z", "U"], table=[[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.1, 0.9]]])
    return CausalModel([u, z, y])


def test_a_knob_that_is_always_set_has_no_causes_left_to_separate():
    model = confounded()
    with pytest.raises(ProblemError, match=r"do\(Z\) -> Z <- U -> Y is open"):
        Problem(model, manipulable=["Z"], reward_parents=["Z"], reward="Y", optional=True)
    for narrowed in ({"optional": False}, {"actions": [{"Z": 0}, {"Z": 1}]}, {"forbid": lambda do: not do}):
        assert (
            Problem(
                model, manipulable=["Z"], reward_parents=["Z"], reward="Y", **{"optional": True, **narrowed}
            ).actions.size
            == 2
        )
    with pytest.raises(ProblemError, match="is open"):
        Problem(model, manipulable=["Z"], reward_parents=["Z"], reward="Y", actions=[{}, {"Z": 1}])


@pytest.mark.parametrize("wrong", [{"X"}, frozenset({"X"}), "X", 3])
def test_names_without_an_order_are_refused(wrong):
    model = confounded()
    with pytest.raises(ModelError, match="must be a list of names"):
        Problem(model, manipulable=wrong, reward_parents=["Z"], optional=True)
    with pytest.raises(ModelError, match="must be a list of names"):
        Variable("c", [0, 1], parents=wrong, table=[0.5, 0.5])


@pytest.mark.parametrize("wrong", [3, [{"Z": 1}]])
def test_what_is_forbidden_is_said_by_a_function(wrong):
    with pytest.raises(ProblemError, match="forbid must be a function"):
        Problem(confounded(), manipulable=["Z"], reward_parents=["Z"], forbid=wrong, optional=True)


def chain_through(sizes, widths=10):
    """x -> m (three states) -> ten binary parents -> y."""
    rng = np.random.default_rng(0)
    parents = [f"z{i}" for i in range(widths)]
    return CausalModel([
        Variable("x", [0, 1, 2, 3], table=[0.25] * 4),
        Variable("m", ["low", "middle", "high"], parents=["x"], table=rng.dirichlet(np.ones(3), 4)),
        *(Variable(z, [0, 1], parents=["m"], table=rng.dirichlet(np.ones(2), 3)) for z in parents),
        Variable("y", [0, 1], parents=parents, table=rng.dirichlet(np.ones(2), (2,) * widths)),
    ])  # fmt: skip


def test_the_cheapest_separator_turns_1024_configurations_into_3():
    model = chain_through(3)
    parents = Problem(model, manipulable=["x"], reward="y", optional=True)
    cheapest = Problem(model, manipulable=["x"], reward="y", adjust="smallest", optional=True)
    assert (parents.configurations, cheapest.configurations, cheapest.parents) == (1024, 3, ("m",))
    for action in range(cheapest.actions.size):
        np.testing.assert_allclose(
            cheapest.parent_distribution(action),
            model["m"].table[action - 1] if action else model["m"].table.mean(axis=0),
        )
    hidden = Problem(
        model, manipulable=["x"], reward="y", adjust="smallest", can_observe=[f"z{i}" for i in range(10)], optional=True
    )
    assert hidden.configurations == 1024


def test_where_nothing_observable_separates_it_says_what_to_observe():
    model = chain_through(3)
    with pytest.raises(
        ProblemError,
        match=r"separates the interventions from the reward 'y'\. Observing 'm' as well would be sufficient",
    ):
        Problem(model, manipulable=["x"], reward="y", adjust="smallest", can_observe=["z0", "z1"], optional=True)


def test_what_is_always_set_loses_its_causes_before_a_separator_is_sought():
    # A hidden cause of x and y makes x a poor stand-in, unless x is always set.
    model = CausalModel([
        Variable("u", [0, 1], table=[0.5, 0.5]),
        Variable("x", [0, 1], parents=["u"], table=[[0.9, 0.1], [0.1, 0.9]]),
        Variable("y", [0, 1], parents=["x", "u"], table=[[[0.9, 0.1]] * 2] * 2),
    ])  # fmt: skip
    sought = {"reward": "y", "adjust": "smallest", "can_observe": ["x"]}
    with pytest.raises(ProblemError, match="Observing 'u' as well would be sufficient"):
        Problem(model, manipulable=["x"], **{"optional": True, **sought})
    assert Problem(model, manipulable=["x"], optional=False, **sought).parents == ("x",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adjust": "cheapest", "reward": "y"}, 'must be "smallest" or left out'),
        ({"adjust": "smallest"}, r"set\. Pass the reward"),
        ({"adjust": "smallest", "reward": "y", "reward_parents": ["m"]}, r"set\. Pass the reward"),
        ({"adjust": "smallest", "reward": "x"}, "must not be manipulable"),
        ({"adjust": "smallest", "reward": "y", "can_observe": ["m", "y"]}, "the reward is observed"),
        ({"adjust": "smallest", "reward": "y", "can_observe": ["mm"]}, "Did you mean 'm'"),
        ({"reward": "y", "can_observe": ["m"]}, 'Add adjust="smallest"'),
    ],
)
def test_bad_questions_for_a_separator(given, message):
    with pytest.raises(CausalBanditsError, match=message):
        Problem(chain_through(3), manipulable=["x"], **{"optional": True, **given})


def test_a_reward_that_nothing_leads_to():
    model = CausalModel([Variable("x", [0, 1], table=[0.5, 0.5]), Variable("y", [0, 1], table=[0.5, 0.5])])
    with pytest.raises(ProblemError, match="No intervention can change the reward 'y'"):
        Problem(model, manipulable=["x"], reward="y", adjust="smallest", optional=True)


def test_a_problem_with_a_separator_is_saved_with_it():
    problem = Problem(chain_through(3), manipulable=["x"], reward="y", adjust="smallest", optional=True)
    again = Problem.from_record(problem.to_record())
    assert (again.parents, again.fingerprint) == (problem.parents, problem.fingerprint)


@pytest.mark.parametrize("z", [None, 99, (9, 0), (-1, 0), (0,), (0, 0, 0), "ab", (0.5, 0)])
def test_what_is_no_configuration_is_refused(z):
    problem = Problem(model_of(CAMPAIGN), manipulable=["X"], reward="Y", optional=True)
    for ask in (problem.configuration, problem.decode_parents, lambda z: problem.probability(0, z)):
        with pytest.raises(ProblemError, match=r"one code per parent, each below \[2, 2\]; got"):
            ask(z)


@pytest.mark.parametrize("values", [None, 3, ["W", "V"], "WV"])
def test_what_is_no_mapping_is_no_observation(values):
    with pytest.raises(ProblemError, match="values must be a mapping from each parent to its value; got"):
        Problem(model_of(CAMPAIGN), manipulable=["X"], reward="Y", optional=True).encode_parents(values)


def test_other_tables_are_a_model():
    with pytest.raises(ProblemError, match=r"with_model\(\) takes a model of the same kind, CausalModel; got None"):
        Problem(model_of(CAMPAIGN), manipulable=["X"], reward="Y", optional=True).with_model(None)
