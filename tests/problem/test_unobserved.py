"""Unobserved variables: marginalised out of models whose CPTs are learned, and refused where that would be wrong."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.oracles import all_interventions, distribution, models, patient

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, DataError, ProblemError, ProblemWarning
from causalbandits.fitting import prior_model


def flat(graph, names: Iterable[str]) -> cb.CausalModel:
    return prior_model(graph, values={name: [0, 1] for name in names})


def learned_limit(true: cb.CausalModel, marginal: cb.CausalModel, actions: Iterable[dict]) -> cb.CausalModel:
    """The CPTs that counts approach: of every variable given its parents, in all rounds that leave it alone."""
    counts = {name: np.zeros(v.table.shape) for name, v in marginal.variables.items()}
    for do in actions:
        for name, v in marginal.variables.items():
            if name not in do:
                counts[name] += distribution(true, do, [*v.parents, name])
    tables = {name: table + (table.sum(axis=-1, keepdims=True) == 0) for name, table in counts.items()}
    return cb.CausalModel(
        cb.Variable(name, v.states, parents=v.parents, table=tables[name] / tables[name].sum(axis=-1, keepdims=True))
        for name, v in marginal.variables.items()
    )


@given(st.data())
@patient
def test_the_marginal_model_has_the_true_distribution_under_every_action(data):
    true = data.draw(models(fewest=3, most=6, fewest_states=2))
    knobs = data.draw(st.lists(st.sampled_from(true.names), unique=True, min_size=1, max_size=2))
    parents = data.draw(st.lists(st.sampled_from(true.names), unique=True, min_size=1, max_size=2))
    observable = [*parents, *data.draw(st.lists(st.sampled_from(true.names), unique=True, max_size=2))]
    always = [name for name in knobs if data.draw(st.booleans())]
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):
        try:
            problem = cb.Problem(
                true.with_flat_prior(),
                manipulable=knobs,
                reward_parents=parents,
                can_observe=dict.fromkeys(observable),
                optional=[name for name in knobs if name not in always],
            )
        except ProblemError as error:
            if "common cause of a manipulable variable" not in str(error):
                raise
            assume(False)
    assert set(problem.model.names) == {*observable, *knobs}
    actions = [do for do in all_interventions(true, knobs) if set(always) <= do.keys()]
    learned = learned_limit(true, problem.model, actions)
    for do in actions:
        names = problem.model.names
        assert np.allclose(distribution(learned, do, names), distribution(true, do, names))


SINGLE_CHILD = [
    ({"m": ["k", "u"]}, "km", {"k": (), "m": ("k",)}),
    ({"u2": ["u1"], "m": ["k", "u2"]}, "km", {"k": (), "m": ("k",)}),
    ({"u": ["v"], "m": ["k", "u"]}, "kvm", {"v": (), "k": (), "m": ("k", "v")}),
    ({"u": ["k"], "m": ["u"]}, "km", {"k": (), "m": ("k",)}),
    ({"m": ["k"], "u": ["m"]}, "km", {"k": (), "m": ("k",)}),
    (
        {"u2": ["u1", "k"], "u3": ["u2"], "m": ["u3"], "n": ["m", "v"]},
        "kmnv",
        {"k": (), "m": ("k",), "v": (), "n": ("m", "v")},
    ),
]


@pytest.mark.parametrize(("graph", "observable", "parents"), SINGLE_CHILD, ids=range(len(SINGLE_CHILD)))
def test_an_unobserved_variable_with_one_child_leaves_its_parents_to_it(graph, observable, parents):
    names = {*graph, *(parent for of in graph.values() for parent in of)}
    model = prior_model(graph, values={name: [0, 1] for name in names})
    problem = cb.Problem(model, manipulable=["k"], reward_parents=["m"], can_observe=list(observable), optional=True)
    assert {name: v.parents for name, v in problem.model.variables.items()} == parents
    assert all((problem.model.posterior.prior[name] == 1).all() for name in parents)
    hidden = cb.CausalGraph(graph, hidden=sorted(names.difference(observable)))
    fitted = prior_model(hidden, values={name: [0, 1] for name in observable})
    assert {name: set(v.parents) for name, v in fitted.variables.items()} == {n: set(p) for n, p in parents.items()}


def test_the_children_of_an_unobserved_common_cause_are_given_each_other():
    model = flat({"m": ["k", "u"], "n": ["l", "u"]}, "kulmn")
    problem = cb.Problem(
        model, manipulable=["k", "l"], reward_parents=["m", "n"], can_observe=["m", "n"], optional=True
    )
    assert problem.model["m"].parents == ("k",)
    assert set(problem.model["n"].parents) == {"k", "l", "m"}


def test_the_context_stays_without_causes_among_what_decisions_change():
    # Listed before c, m comes before it in the graph, too; P(c | m, k) would make c an effect of k.
    model = flat({"m": ["k", "u"], "c": ["u"]}, "mkuc")
    problem = cb.Problem(
        model, manipulable=["k"], reward_parents=["m"], context=["c"], can_observe=["m"], optional=True
    )
    assert problem.model["c"].parents == ()
    assert set(problem.model["m"].parents) == {"k", "c"}


def test_a_reward_with_an_unobserved_cause_in_common_with_its_parent_is_given_the_action_too():
    model = flat({"y": ["m", "u"], "m": ["k", "u"]}, "ymku")
    problem = cb.Problem(model, manipulable=["k"], reward="y", can_observe=["m"], optional=True)
    assert set(problem.parents) == {"m", "k"}
    with pytest.raises(ProblemError, match="must separate"):
        cb.Problem(model, manipulable=["k"], reward_parents=["m"], reward="y", can_observe=["m"], optional=True)


def test_what_is_known_of_other_cpts_is_kept():
    graph = {"m": ["k", "u"], "z": ["m"]}
    model = prior_model(graph, values={n: [0, 1] for n in "kumz"}, prior={"z": [[8, 2], [1, 9]], "m": 0.5})
    problem = cb.Problem(model, manipulable=["k"], reward_parents=["z"], can_observe=["m", "z"], optional=True)
    assert problem.model.posterior.prior["z"].tolist() == [[8, 2], [1, 9]]
    assert problem.model.posterior.prior["m"].tolist() == [[0.5, 0.5], [0.5, 0.5]]


CONFOUNDED = {"k": ["u"], "m": ["k", "u"]}


@pytest.mark.parametrize(
    ("graph", "given", "message"),
    [
        (
            CONFOUNDED,
            {"can_observe": ["m"]},
            "'u' is a common cause of 'k' and 'm', so rounds without",
        ),
        ({"m": ["k", "u"]}, {"can_observe": ["k", "u"]}, "The reward's parents must be observable: .* leaves 'm' out"),
        (
            {"m": ["k", "u"], "h": ["m"]},
            {"can_observe": ["m"], "max_probability": {"h": {1: 0.5}}},
            "The variables of max_probability= must be observable: can_observe= leaves 'h' out",
        ),
        ({"m": ["k", "u"]}, {"can_observe": ["n"]}, "Unknown variable 'n'"),
    ],
)
def test_what_cannot_be_marginalised_is_refused_with_the_way_out(graph, given, message):
    names = "".join(dict.fromkeys([*"kum", *graph]))
    with pytest.raises(CausalBanditsError, match=message):
        cb.Problem(flat(graph, names), manipulable=["k"], reward_parents=["m"], **{"optional": True, **given})


def test_a_manipulable_variable_that_is_always_set_loses_its_unobserved_causes():
    problem = cb.Problem(
        flat(CONFOUNDED, "ukm"), manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=False
    )
    assert problem.model["m"].parents == ("k",)
    assert problem.model["k"].parents == ()


def test_cpts_that_are_known_are_not_marginalised():
    rows = {"k": [0, 1, 0, 1], "u": [0, 1, 1, 0], "m": [1, 1, 0, 0]}
    fitted = cb.fit({"m": ["k", "u"]}, rows)
    with pytest.raises(ProblemError, match=r"there is prior knowledge of P\(m \| k, u\),"):
        cb.Problem(fitted, manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=True)
    exact = cb.CausalModel(fitted.variables.values())
    with pytest.raises(ProblemError, match="The CPTs of this model are known"):
        cb.Problem(exact, manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=True)
    projected = cb.fit(exact.causal_graph.projected(["k", "m"]), {name: rows[name] for name in "km"})  # the way out
    assert (
        cb.Problem(projected, manipulable=["k"], reward_parents=["m"], can_observe=["m"], optional=True).model
        == projected
    )


def test_a_separator_is_found_among_what_can_be_observed_and_the_rest_is_marginalised():
    model = flat({"a": ["k", "u"], "m": ["a"], "y": ["m"]}, "kuamy")
    problem = cb.Problem(model, manipulable=["k"], reward="y", adjust="smallest", can_observe=["m"], optional=True)
    assert problem.parents == ("m",)
    assert problem.model["m"].parents == ("k",)


def test_fit_without_data_refuses_hidden_common_causes():
    graph = cb.CausalGraph({"m": ["k", "u"], "n": ["u"]}, hidden=["u"])
    with pytest.raises(DataError, match="m, n have an unobserved common cause"):
        prior_model(graph, values={name: [0, 1] for name in "kmn"})


def test_must_observe_names_what_an_outcome_must_show():
    model = flat({"m": ["k", "u", "c"], "z": ["m"], "other": ["z"]}, ["k", "u", "c", "m", "z", "other"])
    problem = cb.Problem(model, manipulable=["k"], reward_parents=["z"], context=["c"], optional=True)
    assert problem.must_observe == ("z", "k", "u", "m")
    assert cb.Problem(model, manipulable=["k"], reward_parents=["z"], context=["c"], optional=False).must_observe == (
        "z",
        "u",
        "m",
    )
    declared = cb.Problem(
        model, manipulable=["k"], reward_parents=["z"], context=["c"], optional=False, can_observe=["m", "z"]
    )
    assert declared.must_observe == ("z", "m")
    assert "unless the decision set them): z, m." in str(cb.describe(declared))
    assert cb.zoo.email_campaign().problem.must_observe == ("subject", "template", "send_time")
    required = cb.Problem(
        model, manipulable=["k"], reward_parents=["z"], max_probability={"other": {1: 0.99}}, optional=True
    )
    assert "other" in required.must_observe


@pytest.mark.parametrize("reported", ["u", "never u"])
def test_an_outcome_that_shows_all_of_must_observe_counts_for_every_cpt(reported):
    model = flat({"m": ["k", "u"], "z": ["m"]}, "kumz")
    declared = {} if reported == "u" else {"can_observe": ["m", "z"]}
    problem = cb.Problem(model, manipulable=["k"], reward_parents=["z"], **{"optional": True, **declared})
    agent = cb.Agent(problem, seed=0)
    decision = agent.ask()
    values = {name: 1 for name in problem.must_observe if name not in decision.action}
    with warnings.catch_warnings(action="error"):
        agent.tell(decision.id, reward=1.0, observed={**{"z": values.pop("z")}, **values})
    counted = {name for name, counts in agent.model.posterior.counts.items() if counts.any()}
    assert counted == set(problem.model.names) - {"k"}
