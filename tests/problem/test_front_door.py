"""The front door: a problem from whatever is known, the variables to observe, and the actions that it has."""

from __future__ import annotations

import json
import re
import warnings

import networkx as nx
import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, DataError, ModelError, ProblemError, ProblemWarning, TellError

SHOP = "purpose -> subject -> click; send_time -> click"
MANIPULABLE = {"purpose": ["promo", "news"], "send_time": ["am", "pm"]}
SUBJECT = {"subject": ["short", "long"]}


def shop(graph=SHOP, **more):
    return cb.Problem(graph, **{"reward": "click", "manipulable": MANIPULABLE, "values": SUBJECT, **more})


@pytest.mark.parametrize("seed", range(20))
def test_ten_lines_run_for_every_seed(seed):
    problem = shop()
    assert repr(problem) == (
        "Problem(4 actions on purpose, send_time; 4 configurations of subject, send_time; observe subject; "
        "CPTs are learned online)"
    )
    agent = cb.Agent(problem, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(8):
        decision = agent.ask()
        assert json.loads(json.dumps(decision.action)) == decision.action
        assert set(decision.action) == {"purpose", "send_time"}  # every decision sets every manipulable variable
        agent.tell(decision, reward=int(rng.integers(2)), observed={"subject": str(rng.choice(["short", "long"]))})
    assert set(dict(agent.recommend().intervention)) == {"purpose", "send_time"}


# --- the forms in which a graph may be given ----------------------------------------------------------


def test_every_form_of_a_graph_makes_the_same_problem(tmp_path):
    text = shop()
    cb.write(cb.CausalGraph.from_text(SHOP), tmp_path / "shop.dot")
    cb.write(cb.CausalGraph.from_text(SHOP), tmp_path / "shop.json")
    network = nx.DiGraph([("purpose", "subject"), ("subject", "click"), ("send_time", "click")])
    forms = [
        {"subject": ["purpose"], "click": ["subject", "send_time"]},
        network,
        cb.CausalGraph.from_text(SHOP),
        tmp_path / "shop.dot",
        str(tmp_path / "shop.json"),
        "digraph { purpose -> subject -> click; send_time -> click }",
        "dag { purpose -> subject; subject -> click; send_time -> click }",
    ]
    for form in forms:
        problem = shop(form)
        assert list(map(dict, problem.actions)) == list(map(dict, text.actions))
        assert set(problem.parents) == {"subject", "send_time"}
        assert problem.must_observe == ("subject",)


def test_a_comma_joins_causes_and_effects():
    assert cb.CausalGraph.from_text("a, b -> c, d") == cb.CausalGraph.from_text("{a, b} -> {c, d}")
    with pytest.raises(ModelError, match="expected a name"):
        cb.CausalGraph.from_text("a, -> b")


@pytest.mark.parametrize("form", [5, object(), ["a", "b"]])
def test_other_forms_are_refused_with_those_that_may_be_given(form):
    with pytest.raises(ProblemError, match="Problem is the graph: a text such as"):
        shop(form)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(CausalBanditsError, match=r"nowhere\.dot"):
        shop(str(tmp_path / "nowhere.dot"))


def test_without_a_graph_a_mean_per_action_is_learned():
    problem = cb.Problem(None, reward="sale", manipulable={"price": [9, 12], "banner": ["a", "b"]})
    assert repr(problem) == "Problem(4 actions on price, banner; a mean per action is learned)"
    agent = cb.Agent(problem, seed=0)
    for _ in range(60):
        decision = agent.ask()
        agent.tell(decision, reward=float(decision.action == {"price": 12, "banner": "a"}))
    assert agent.recommend().intervention == {"price": 12, "banner": "a"}
    with pytest.raises(ProblemError, match="Without a graph, manipulable= must map"):
        cb.Problem(None, reward="sale", manipulable=["price"])
    with pytest.raises(ProblemError, match=r"Without a graph there are no CPTs\. Leave out data="):
        cb.Problem(None, reward="sale", manipulable={"price": [9, 12]}, data={"price": [9]})


# --- values, data, bins -------------------------------------------------------------------------------


def test_missing_values_are_named_with_the_ways_out():
    with pytest.raises(ProblemError, match=r"of 'subject'\. Pass values=\{'subject': \[\.\.\.\]\}, or data="):
        shop(values=None)
    with pytest.raises(ProblemError, match=r"values: Unknown variable 'subjet'. Did you mean 'subject'"):
        shop(values={"subjet": ["short"]})
    with pytest.raises(ProblemError, match="values must map variables to their values"):
        shop(values=["short"])


def test_variables_that_do_not_lead_to_the_reward_need_no_values():
    problem = shop(f"{SHOP}; click -> refund; subject -> opened")
    assert problem.must_observe == ("subject",)
    assert "opened" not in problem.model.names


def log(n=400, seed=0):
    rng = np.random.default_rng(seed)
    purpose = rng.choice(["promo", "news"], n)
    subject = np.where(rng.random(n) < np.where(purpose == "promo", 0.8, 0.3), "short", "long")
    return {"purpose": purpose.tolist(), "subject": subject.tolist(), "send_time": rng.choice(["am", "pm"], n).tolist()}


def test_data_estimate_the_cpts_and_need_no_reward():
    problem = shop(values=None, data=log())
    fitted = cb.fit({"subject": ["purpose"], "send_time": []}, log())
    for purpose in ("promo", "news"):
        ours = problem.parent_distribution({"purpose": purpose, "send_time": "am"})[:, 0]
        theirs = fitted["subject"].table[fitted["purpose"].states.index(purpose)]
        assert dict(zip(problem.variable("subject").states, ours, strict=True)) == pytest.approx(
            dict(zip(fitted["subject"].states, theirs, strict=True))
        )
    assert not problem.unknown_cpts


def test_a_setting_that_never_occurred_in_the_data_may_be_tried():
    with pytest.warns(cb.errors.DataWarning, match="No row of the data has purpose = 'survey'"):
        problem = shop(values=None, data=log(), manipulable={"purpose": ["promo", "news", "survey"], "send_time": None})
    assert problem.actions.size == 6
    assert problem.parent_distribution({"purpose": "survey", "send_time": "am"}).sum(axis=1) == pytest.approx([0.5] * 2)


def test_bins_hold_with_data_and_without():
    graph = "age -> subject -> click; purpose -> subject"
    given = {"reward": "click", "manipulable": {"purpose": ["promo", "news"]}, "context": ["age"]}
    ages = np.random.default_rng(0).uniform(18, 60, 400).tolist()
    fitted = cb.Problem(graph, **given, data={**log(), "age": ages}, bins={"age": [0, 30, 45, 60]})
    online = cb.Problem(graph, **given, values=SUBJECT, bins={"age": [0, 30, 45, 60]})
    for problem in (fitted, online):
        assert problem.variable("age").states == ("[0, 30)", "[30, 45)", "[45, 60]")
        agent = cb.Agent(problem, seed=0)
        agent.tell(agent.ask(context={"age": 33}), reward=1, observed={"subject": "short", "age": 33.5})
    with pytest.raises(DataError, match=r"Quantiles require data\. Without"):
        cb.Problem(graph, **given, values=SUBJECT, bins={"age": 4})
    with pytest.raises(DataError, match="age"):  # numeric columns are no categories
        cb.Problem(graph, **given, data={**log(), "age": ages})


def test_arguments_of_an_estimation_are_refused_where_there_is_none():
    model = cb.zoo.email_campaign().problem.model
    with pytest.raises(ProblemError, match=r"The model has its values and CPTs\. Leave out values="):
        cb.Problem(model, manipulable=["purpose"], reward_parents=["subject"], values=SUBJECT)
    with pytest.raises(ProblemError, match=r"Without data there is nothing to estimate. Leave out interventions="):
        shop(interventions="set")


# --- reward -------------------------------------------------------------------------------------------


def test_a_reward_outside_of_the_graph_has_its_parents_named():
    problem = shop("purpose -> subject; send_time", reward="revenue", reward_parents=["subject", "send_time"])
    assert problem.reward == "revenue"
    assert problem.reward_node is None
    assert problem.parents == ("subject", "send_time")
    with pytest.raises(ProblemError, match=r"Unknown variable 'revenue'.*reward_parents=\[...\]"):
        shop(reward="revenue")


def test_the_reward_is_not_observed_and_not_set():
    agent = cb.Agent(shop(), seed=0)
    with pytest.raises(TellError, match=r"'click' is the reward: give it as reward=..., and leave it out"):
        agent.tell(agent.ask(), reward=1, observed={"subject": "short", "click": 1})
    with pytest.raises(ProblemError, match="must not be manipulable"):
        shop(manipulable={**MANIPULABLE, "click": [0, 1]})


def test_the_context_is_a_list_or_a_mapping_to_values():
    graph = f"{SHOP}; segment -> subject; segment -> click"
    problem = shop(graph, context={"segment": ["new", "old"]})
    assert problem.context == ("segment",)
    assert problem.must_observe == ("subject",)
    listed = shop(graph, context=["segment"], values={**SUBJECT, "segment": ["new", "old"]})
    assert listed.fingerprint == problem.fingerprint
    agent = cb.Agent(problem, seed=0)
    agent.tell(agent.ask(context={"segment": "new"}), reward=1, observed={"subject": "short"})
    with pytest.raises(TellError, match=r"'segment' was 'new' in the context of the decision; observed has 'old'"):
        agent.tell(agent.ask(context={"segment": "new"}), reward=1, observed={"subject": "short", "segment": "old"})


# --- actions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("narrowing", "size"),
    [
        ({}, 4),
        ({"optional": False}, 4),
        ({"optional": ["purpose"]}, 6),
        ({"optional": True}, 9),
        ({"max_set": 1}, 5),
        ({"max_set": 2}, 4),
        ({"max_set": 1, "optional": ["purpose"]}, 2),
        ({"actions": [{}, {"purpose": "promo"}]}, 2),
    ],
)
def test_every_manipulable_variable_is_set_unless_it_is_optional(narrowing, size):
    problem = shop(**narrowing)
    assert problem.actions.size == size
    assert ({} in map(dict, problem.actions)) == (size in (5, 9) or "actions" in narrowing)


def test_bad_optional_arguments_are_refused():
    with pytest.raises(ProblemError, match="optional must list manipulable variables"):
        shop(optional="purpose")
    with pytest.raises(ProblemError, match=r"optional: Unknown manipulable variable 'subject'"):
        shop(optional=["subject"])
    with pytest.raises(ProblemError, match="no less than the 1 variables that are always set"):
        shop(optional=["purpose"], max_set=0)


SEASONAL = "season -> price -> sale; season -> sale"


def test_a_warning_names_variables_whose_natural_mechanism_may_be_better():
    given = {"reward": "sale", "manipulable": {"price": [9, 12]}, "values": {"season": ["summer", "winter"]}}
    with pytest.warns(ProblemWarning, match=r"an action that does not set \{price\} may be better") as caught:
        cb.Problem(SEASONAL, **given)
    assert [warning.filename for warning in caught] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cb.Problem(SEASONAL, **given, optional=False)  # said on purpose
        cb.Problem(SEASONAL, **given, optional=True)
        cb.Problem(SEASONAL, **given, context=["season"])  # whoever sets the price sees the season
        shop()


def test_the_warning_agrees_with_brute_force():
    """Leaving the price alone is the best action in some world of that graph, and in none of the shop's."""
    season = cb.Variable("season", [0, 1], table=[0.5, 0.5])
    price = cb.Variable("price", [0, 1], parents=["season"], table=[[1, 0], [0, 1]])
    sale = cb.Variable("sale", [0, 1], parents=["season", "price"], table=[[[0, 1], [1, 0]], [[1, 0], [0, 1]]])
    model = cb.CausalModel([season, price, sale])
    env = cb.Environment.from_model(model, manipulable=["price"], reward="sale", optional=True)
    assert env.best().intervention == {}
    assert env.best().mean == pytest.approx(1.0)
    assert max(env.mean_reward({"price": p}) for p in (0, 1)) == pytest.approx(0.5)


# --- unobserved confounders ---------------------------------------------------------------------------


def test_a_confounded_variable_that_is_always_set_leaves_its_mediator_to_learn_from():
    with pytest.warns(ProblemWarning, match="does not set {ad} may be better"):
        problem = cb.Problem(
            "ad -> visits -> sale; ad <-> sale",
            reward="sale",
            manipulable={"ad": [0, 1]},
            values={"visits": [0, 1, 2]},
        )
    assert problem.parents == ("visits",)
    assert problem.model.names == ("ad", "visits")


def test_a_confounded_mediator_and_reward_are_refused_with_the_ways_out():
    with pytest.raises(ProblemError, match=r"do\(ad\) -> ad -> visits <-> sale is open"):
        cb.Problem(
            "ad -> visits -> sale; visits <-> sale",
            reward="sale",
            manipulable={"ad": [0, 1]},
            values={"visits": [0, 1]},
        )
    by_action = cb.Problem(
        "ad -> visits -> sale; visits <-> sale", reward="sale", manipulable={"ad": [0, 1]}, reward_parents=[]
    )
    assert by_action.unit == "actions"


def test_hidden_common_causes_of_observed_variables_are_marginalised_out():
    problem = cb.Problem(
        "u -> {m, z}; k -> m; {m, z} -> y; u [hidden]",
        reward="y",
        manipulable={"k": [0, 1]},
        values={"m": [0, 1], "z": [0, 1]},
    )
    assert problem.must_observe == ("m", "z")
    assert "u" not in problem.model.names
    arrows = {(cause, name) for name in problem.model.names for cause in problem.model[name].parents}
    assert ("m", "z") in arrows or ("z", "m") in arrows  # their dependence is kept
    same = cb.Problem(
        "m <-> z; k -> m; {m, z} -> y", reward="y", manipulable={"k": [0, 1]}, values={"m": [0, 1], "z": [0, 1]}
    )
    assert same.must_observe == ("m", "z")


# --- records and outcomes -----------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"data": log(), "values": None}, {"optional": ["purpose"]}, {"max_set": 1}])
def test_records_give_back_an_equal_problem(more):
    problem = shop(**more)
    again = cb.Problem.from_record(json.loads(json.dumps(problem.to_record())))
    assert again.fingerprint == problem.fingerprint
    assert repr(again) == repr(problem)
    assert not problem.first_difference(again)
    assert again.reward == "click"


def test_an_outcome_that_lacks_a_variable_is_refused_and_nothing_is_lost():
    agent = cb.Agent(shop(), seed=0)
    decision = agent.ask()
    with pytest.raises(TellError, match=r"The outcome lacks 'subject'.*observed=\{'subject': ...\}"):
        agent.tell(decision, reward=1)
    other = "news" if decision.action["purpose"] == "promo" else "promo"
    said = re.escape(f"'purpose' was set to '{decision.action['purpose']}' by the decision; observed has '{other}'")
    with pytest.raises(TellError, match=f"{said}. Leave it out") as caught:
        agent.tell(decision, reward=1, observed={"subject": "short", "purpose": other})
    assert "zero_probability" not in str(caught.value)  # never the advice to accept impossible values
    with pytest.raises(TellError, match=r"got 1. The reward is a separate argument: tell\(decision, reward=1"):
        agent.tell(decision, observed=1)
    with pytest.raises(TypeError, match="positional"):
        agent.tell(decision, 1)
    agent.tell(decision, reward=1, observed={"subject": "short", **decision.action})
    assert agent.pending == {}


def confounded_rows(n=2000):
    """Price depends on a segment that is not recorded, but in a quarter of the rows, where it was randomised."""
    rng = np.random.default_rng(0)
    segment, randomised = rng.random(n) < 0.5, rng.random(n) < 0.25
    high = np.where(randomised, rng.random(n) < 0.5, rng.random(n) < np.where(segment, 0.9, 0.1))
    purchase = (rng.random(n) < 0.2 + 0.1 * ~high + 0.4 * segment).astype(int)
    return {
        "price": np.where(high, "high", "low"),
        "purchase": purchase,
        "was_set": np.where(randomised, "price", ""),
    }


@pytest.mark.parametrize("with_data", [True, False], ids=["estimated", "learned online"])
@pytest.mark.filterwarnings("ignore::causalbandits.errors.ProblemWarning")
def test_rows_that_the_graph_says_are_confounded_are_left_out_of_past_rewards(with_data):
    rows = confounded_rows()
    known = {"data": rows, "interventions": "was_set"} if with_data else {}
    settings = ["price"] if with_data else {"price": ["high", "low"]}
    problem = cb.Problem("price -> purchase; price <-> purchase", reward="purchase", manipulable=settings, **known)
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=1)
    learned = agent.learn(rows, reward="purchase", interventions="was_set", trust_past=1)
    assert learned.used == int((rows["was_set"] == "price").sum())
    assert agent.recommend().intervention == {"price": "low"}  # 0.5 against 0.4; the confounded rows say the contrary


def test_a_recommendation_without_rewards_says_that_it_is_no_result():
    problem = shop()
    agent = cb.Agent(problem, seed=0)
    assert "no rewards observed yet" in str(agent.recommend())
    assert "learn(rows" not in str(agent.recommend())
    agent.tell(agent.ask(), reward=1, observed={"subject": "short"})
    assert "no rewards observed yet" not in str(agent.recommend())
    rows = {"purpose": ["promo", "news"] * 5, "subject": ["short", "long"] * 5, "send_time": ["am", "pm"] * 5}
    estimated = cb.Agent(shop(manipulable=list(MANIPULABLE), values=None, data=rows), seed=0)
    assert "their rewards count after learn(rows, reward=...)" in str(estimated.recommend())


def test_a_setting_that_no_row_has_is_warned_of_at_the_callers_line():
    rows = {"price": ["low", "mid", "high"] * 4, "sale": [0, 1, 1] * 4}
    with pytest.warns(cb.errors.DataWarning, match=r"price = 'highh': .* The data have 'high', 'low', 'mid'") as caught:
        cb.Problem("price -> sale", reward="sale", manipulable={"price": ["low", "highh"]}, data=rows)
    assert {warning.filename for warning in caught} == {__file__}


def test_values_of_a_mean_per_action_come_from_the_data_too():
    rows = {"price": ["low", "high"] * 4, "views": ["few", "many"] * 4, "sale": [0, 1] * 4}
    problem = cb.Problem(
        "price -> views -> sale; price <-> sale",
        reward="sale",
        manipulable=["price"],
        reward_parents=[],
        data=rows,
        optional=False,
    )
    assert problem.unit == "actions"
    assert len(problem.actions) == 2


def test_fit_and_check_take_the_text_of_a_graph():
    rows = {"a": [0, 1, 0, 1], "b": [0, 1, 1, 0]}
    assert cb.fit("a -> b", rows) == cb.fit({"a": [], "b": ["a"]}, rows)
    assert str(cb.check("a -> b", rows)) == str(cb.check({"a": [], "b": ["a"]}, rows))


def test_a_variable_outside_of_the_context_is_refused_with_the_way_to_declare_it():
    problem = cb.Problem(
        "segment, region -> sale; price -> sale",
        reward="sale",
        manipulable={"price": ["low", "high"]},
        values={"segment": ["new", "old"], "region": ["north", "south"]},
        context=["segment"],
    )
    with pytest.raises(cb.CausalBanditsError, match=r"Declare it: Problem\(\.\.\., context=\['segment', 'region'\]\)"):
        cb.Agent(problem, seed=0).ask(context={"segment": "new", "region": "north"})


def test_a_reward_that_is_misspelt_is_compared_with_the_names_of_the_whole_graph():
    with pytest.raises(ProblemError, match=r"Unknown variable 'clik'\. Did you mean 'click'"):
        shop(reward="clik")
