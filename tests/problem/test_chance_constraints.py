"""Constraints on what may happen: exact, before the reduction, with a reason for every refusal."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import InterventionError, PolicyError, ProblemError, ProblemWarning, SizeError
from causalbandits.problem.chance_constraints import COMPLIANCE_PROBABILITY, POSTERIOR_SAMPLES
from oracles import all_interventions, cases, distribution, patient

HARM = cb.Variable("harm", ["no", "some", "much"], parents=["dose", "age"],
                   table=[[[.98, .01, .01], [.9, .07, .03]], [[.9, .05, .05], [.6, .2, .2]]])  # fmt: skip
MODEL = cb.CausalModel([
    cb.Variable("age", ["young", "old"], table=[0.7, 0.3]),
    cb.Variable("dose", ["low", "high"], parents=["age"], table=[[0.5, 0.5], [0.9, 0.1]]),
    cb.Variable("timing", ["day", "night"], table=[0.5, 0.5]),
    HARM,
    cb.Variable("effect", [0, 1], parents=["dose", "timing"],
                table=[[[0.6, 0.4], [0.5, 0.5]], [[0.3, 0.7], [0.1, 0.9]]]),
])  # fmt: skip


def trial(model=MODEL, **keywords):
    return cb.Problem(
        model, manipulable=["dose", "timing"], reward_parents=["effect"], **{"optional": True, **keywords}
    )


@patient
@given(cases(most=6, knobs=3, fewest_states=2), st.integers(0, 2**32 - 1))
def test_an_action_stays_iff_it_keeps_to_the_limit_by_brute_force(case, seed):
    rng = np.random.default_rng(seed)
    name = str(rng.choice(case.model.names))
    states = case.model[name].states
    some = tuple(s for s in states if rng.random() < 0.5) or states[:1]
    limit = float(rng.uniform(0.05, 0.95))
    axis = [states.index(s) for s in some]
    likely = {
        cb.Intervention(do): float(distribution(case.model, do, [name])[axis].sum())
        for do in all_interventions(case.model, case.manipulable)
    }
    if any(abs(p - limit) < 1e-9 for p in likely.values()):
        return
    require = {name: {some: limit}}
    comply = {do for do, p in likely.items() if p <= limit}
    if not comply:
        with pytest.raises(ProblemError, match="max_probability excludes every action"):
            cb.Problem(
                case.model,
                manipulable=case.manipulable,
                reward_parents=case.parents,
                max_probability=require,
                optional=True,
            )
        return
    problem = cb.Problem(
        case.model, manipulable=case.manipulable, reward_parents=case.parents, max_probability=require, optional=True
    )
    assert set(problem.actions) == comply
    searched = {problem.candidates.action(i).intervention for i in range(problem.candidates.size)}
    assert searched <= comply
    for do in likely.keys() - comply:
        with pytest.raises(InterventionError, match="is not an action: P"):
            problem.actions.find(do)
    means = rng.random(problem.shape)
    best = cb.Environment(problem, cb.rewards.BernoulliReward(means)).best().mean
    brute = max(float((distribution(case.model, do, problem.parents) * means).sum()) for do in comply)
    assert best == pytest.approx(brute, abs=1e-9)


def test_a_refused_action_is_named_with_its_probability():
    problem = trial(max_probability={"harm": {"much": 0.06, ("some", "much"): 0.15}})
    with pytest.raises(
        InterventionError, match=r"do\(dose=high\) is not an action: P\(harm=much\) would be 0.095, above the limit"
    ):
        cb.Agent(problem, "c-ucb").ask(eligible=[{"dose": "high"}])
    assert "P(harm=much) <= 0.06 admits 6 of 9 actions. The largest value is 0.095, under do(dose=high)." in repr(
        problem.requirements
    )
    assert "P(harm in some, much) <= 0.15" in repr(problem.requirements)
    assert "Required: P(harm=much) <= 0.06 admits 6 of 9" in " ".join(repr(cb.describe(problem)).split())


def test_it_constrains_what_comes_about_by_itself_too():
    """forbid sees settings; this sees what they lead to: leaving the dose alone makes a high one likely."""
    problem = trial(max_probability={"dose": {"high": 0.0}})
    assert all(do["dose"] == "low" for do in problem.actions)


def test_the_best_of_what_complies_is_not_lost_to_a_mixture_with_what_does_not():
    """Without the requirement do() is a mixture of both doses and goes; with it, it is the best that is left."""
    root = cb.CausalModel([
        cb.Variable("x", [0, 1], table=[0.8, 0.2]),
        cb.Variable("harm", [0, 1], parents=["x"], table=[[1.0, 0.0], [0.9, 0.1]]),
    ])  # fmt: skip
    free, safe = (
        cb.Problem(root, manipulable=["x"], reward_parents=["x"], max_probability=r, optional=True)
        for r in (None, {"harm": 0.05})
    )
    assert free.candidates.size == 2
    assert set(safe.actions) == {cb.Intervention(), cb.Intervention({"x": 0})}
    assert cb.Environment(safe, cb.rewards.BernoulliReward([0.1, 0.9])).best().intervention == {}


def test_under_fitted_tables_an_action_must_comply_with_high_posterior_probability():
    rows = MODEL.sample(300, rng=0)
    fitted = cb.fit(MODEL, rows)
    point = trial(fitted)
    p = {do: distribution(fitted, do, ["harm"])[2] for do in point.actions}
    limit = 1.15 * float(min(p.values()))  # above the estimate of the safest, but not by much
    with pytest.raises(ProblemError, match=r"none satisfies .* with probability 0\.95 under"):
        trial(fitted, max_probability={"harm": {"much": limit}})
    limit = 1.1 * float(p[cb.Intervention({"dose": "high"})])
    wide = trial(fitted, max_probability={"harm": {"much": limit}})
    tables = fitted.posterior.draw_cpts(POSTERIOR_SAMPLES, np.random.default_rng(0))
    block = cb.Problem(fitted, manipulable=["dose", "timing"], reward_parents=["harm"], optional=True).blocks[0]
    for do in point.actions:
        choices = point.choices(do)
        drawn = block.rows_under_models(tables, [choices[k] for k in block.manipulable])[:, 2]
        assert (do in wide.actions) == ((drawn <= limit).mean() >= COMPLIANCE_PROBABILITY)
    refused = [do for do, q in p.items() if q <= limit and do not in wide.actions]
    assert refused
    for do in refused:
        with pytest.raises(InterventionError, match=f"not certain to stay within the limit {limit:g}"):
            wide.cost(do)


def test_what_leaves_everything_is_kept_in_mind_and_changes_nothing():
    generous = trial(max_probability={"harm": {"much": 0.5}})
    assert generous.constrained_variables == ("harm",)
    assert list(generous.actions) == list(trial().actions)
    assert generous.candidates.size == trial().candidates.size
    again = cb.Problem.from_record(generous.to_record())
    assert again.fingerprint == generous.fingerprint
    assert trial(max_probability={}).fingerprint == trial().fingerprint


def test_a_saved_agent_still_knows_the_reason(tmp_path):
    problem = trial(max_probability={"harm": {"much": 0.06}}, costs={"dose": 0.1})
    agent = cb.Agent(problem, "c-ts(prior=beta)", seed=1)
    agent.ask(3)
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert again.problem.fingerprint == problem.fingerprint
    assert repr(again.problem.requirements) == repr(problem.requirements)
    with pytest.raises(InterventionError, match=r"would be 0\.095"):
        again.ask(eligible=[{"dose": "high"}])
    record = problem.to_record()
    for limits in ([["harm"]], "x", [["harm", ["a"], 0.1]], [["horm", [1], 0.1]]):
        with pytest.raises(cb.CausalBanditsError):
            cb.Problem.from_record({**record, "max_probability": {**record["max_probability"], "limits": limits}})
    with pytest.raises(cb.CausalBanditsError, match="max_probability must have limits"):
        cb.Problem.from_record({**record, "max_probability": "x"})


@pytest.mark.parametrize(
    ("require", "words"),
    [
        (0.01, "max_probability must map variables to the highest probability"),
        ("harm", "max_probability must map variables to the highest probability"),
        ({"horm": {"much": 0.1}}, "Did you mean 'harm'?"),
        ({3: {"much": 0.1}}, "Unknown variable in max_probability"),
        ({"harm": {"mch": 0.1}}, "Did you mean 'much'?"),
        ({"harm": {(): 0.1}}, "at least one value"),
        ({"harm": 0.1}, "such as {'harm': {'much': 0.01}}"),
        ({"harm": {"much": 1}}, "0 and < 1;"),
        ({"harm": {"much": -0.1}}, "0 and < 1;"),
        ({"harm": {"much": float("nan")}}, "0 and < 1;"),
        ({"harm": {"much": "never"}}, "0 and < 1;"),
        (
            {"harm": {"much": 0.0}},
            "max_probability excludes every action: none satisfies P(harm=much) <= 0. The smallest value of",
        ),
    ],
)
def test_requirements_that_are_none_are_refused_in_words(require, words):
    with pytest.raises(ProblemError) as refused:
        trial(max_probability=require)
    assert words in str(refused.value)


def test_the_reward_is_not_required_because_it_is_learnt():
    with pytest.raises(ProblemError, match="is the reward or an effect of"):
        cb.Problem(MODEL, manipulable=["dose"], reward="effect", max_probability={"effect": 0.5}, optional=True)


@pytest.mark.filterwarnings("ignore::causalbandits.errors.ProblemWarning")
def test_what_hangs_on_one_knob_narrows_it_whatever_the_number_of_actions():
    knobs = [cb.Variable(f"x{i}", [0, 1, 2, 3], table=[0.25] * 4) for i in range(60)]
    problem = cb.Problem(
        cb.CausalModel(knobs),
        manipulable=[k.name for k in knobs],
        reward_parents=["x1", "x2"],
        max_probability={"x1": {3: 0.2}},
        optional=True,
    )
    assert problem.actions.size == 3 * 5**59
    assert problem.candidates.size == 3 * 4
    assert (
        repr(problem.requirements)
        == "P(x1=3) <= 0.2 admits 3 of 5 choices of x1. The largest value is 1, under do(x1=3)."
    )
    with pytest.raises(InterventionError, match=r"do\(x1=3\) is not an action: P\(x1=3\) would be 1, above the"):
        problem.cost({"x1": 3})
    with pytest.raises(InterventionError, match=r"do\(\) is not an action: P\(x1=3\) would be 0\.25"):
        problem.cost({})


@pytest.mark.filterwarnings("ignore::causalbandits.errors.ProblemWarning")
def test_more_actions_than_can_be_looked_at_are_refused():
    knobs = [cb.Variable(f"x{i}", [0, 1, 2, 3], table=[0.25] * 4) for i in range(12)]
    both = cb.Variable("both", [0, 1], parents=["x1", "x2"], table=np.full((4, 4, 2), 0.5))
    with pytest.raises(SizeError, match="distribution under every action"):
        cb.Problem(
            cb.CausalModel([*knobs, both]),
            manipulable=[k.name for k in knobs],
            reward_parents=["x0"],
            max_probability={"both": 0.4},
            optional=True,
        )


# --- CPTs of which nothing is known -------------------------------------------------------------------


def unknown_harm(**more):
    graph = "dose -> harm; dose -> effect -> cured"
    values = {"harm": ["no", "yes"], "effect": [0, 1]}
    settings = {"reward": "cured", "manipulable": {"dose": ["low", "high"]}, "values": values}
    return cb.Problem(graph, **{**settings, "max_probability": {"harm": {"yes": 0.04}}, **more})


def test_a_limit_on_an_outcome_whose_cpt_is_learned_online_leaves_all_actions_to_the_policy():
    """P(harm | low) = 0.01 and P(harm | high) = 0.3: the agent finds out which one it may play, and plays it."""
    problem = unknown_harm()
    assert len(problem.actions) == 2
    assert problem.must_observe == ("effect", "harm")
    assert "learned online" in repr(problem.requirements)
    rng, chosen = np.random.default_rng(0), []
    agent = cb.Agent(problem, seed=1)
    with pytest.warns(ProblemWarning, match="No action satisfies"):
        agent.ask()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProblemWarning)
        for _ in range(2000):
            decision = agent.ask()
            chosen.append(decision.action["dose"])
            high = chosen[-1] == "high"
            observed = {"harm": "yes" if rng.random() < (0.3 if high else 0.01) else "no", "effect": int(high)}
            agent.tell(decision, reward=float(high), observed=observed)
    assert chosen[-500:].count("low") == 500
    assert agent.recommend().intervention == cb.Intervention({"dose": "low"})


def test_in_a_context_too():
    problem = cb.Problem(
        "dose -> harm; age -> harm; dose -> effect -> cured", reward="cured",
        manipulable={"dose": ["low", "high"]}, values={"harm": ["no", "yes"], "effect": [0, 1]},
        context={"age": ["young", "old"]}, max_probability={"harm": {"yes": 0.04}},
    )  # fmt: skip
    with pytest.warns(ProblemWarning, match="No action satisfies"):
        assert cb.Agent(problem, seed=1).ask(context={"age": "old"}).action["dose"] in ("low", "high")


@pytest.mark.parametrize("policy", ["ts", "c-ts(prior=beta)", "uniform", "c-ucb"])
def test_a_policy_that_learns_no_cpts_is_refused_where_it_would_ignore_a_limit(policy, tmp_path):
    for make in (cb.Agent, lambda problem, policy: cb.Study.create(tmp_path / "study.db", problem, policy)):
        with pytest.raises(PolicyError, match=r"cannot keep the limit on P\(harm=yes\)"):
            make(unknown_harm(), policy)
    assert not (tmp_path / "study.db").exists()


def test_a_forecast_compares_no_policies_that_would_ignore_a_limit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProblemWarning)
        forecast = cb.forecast(unknown_harm(), horizon=20, replications=2)
    assert "c-ts(cpts=learned)" in repr(forecast)
    assert "uniform" not in repr(forecast)
