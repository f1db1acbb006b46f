"""Bad calls of everything but what makes models (see test_fuzz): a refusal of ours or an answer, nothing else.

Each call is right as it stands; a case puts something odd in the place of one or two of its arguments.

FUZZ=10000 python -m pytest tests/journeys/test_fuzz_calls.py        more cases
"""

from __future__ import annotations

import contextlib
import tempfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.journeys.test_fuzz import anything, asked, many, odd

import causalbandits as cb
from causalbandits._files import refuse_unwritable_folder
from causalbandits._typing import is_integer
from oracles.policies import POLICIES

ENV = cb.zoo.email_campaign()
PROBLEM = ENV.problem
SEEN = {"subject": "short", "template": "1", "send_time": "morning"}
RUN = cb.simulate(ENV, ["c-ucb", "uniform"], horizon=20, replications=3, measures=["plays"], progress=False)


def priced(costs):
    return cb.Problem(
        PROBLEM.model, manipulable=PROBLEM.manipulable, reward_parents=PROBLEM.parents, costs=costs, optional=True
    )


def policy_of(family, **options):
    return cb.policy(family, **options)


def required(limits):
    return cb.Problem(
        PROBLEM.model,
        manipulable=PROBLEM.manipulable,
        reward_parents=PROBLEM.parents,
        max_probability=limits,
        optional=True,
    )


def key(value):
    """What can be a key at all."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


PRICED = priced({"product": 0.5})


def agent():
    one = cb.Agent(PROBLEM, "c-ts(prior=beta)", seed=0, zero_probability="allow")
    one.tell(one.ask(eligible=[{"send_time": "morning"}]).id, reward=1, observed=SEEN)
    one.ask(2)
    return one


def of_agent(method, **arguments):
    """A method of a new agent; whatever it was told, it decides and recommends afterwards."""

    def call(**given):
        one = agent()
        getattr(one, method)(**given)
        one.ask()
        one.recommend()

    return call, arguments


def of_study(method, **arguments):
    """A call of a study in which one decision waits and one is told."""

    def call(**given):
        with tempfile.TemporaryDirectory() as folder:
            policy = cb.policies.CausalThompsonSampling(prior="beta", samples=2)
            with cb.Study.create(Path(folder) / "study.db", PROBLEM, policy, seed=0) as study:
                study.ask(eligible=[{"purpose": "Promo"}])
                told = study.ask(eligible=[{"send_time": "morning"}], key="a")
                study.tell(told.id, reward=1.0, observed=SEEN)
                return getattr(study, method)(**given)

    return call, arguments


def brief(run):
    """A run that is not asked for more than a thousand rounds or replications, unless for more than there can be: what
    takes long because it is long is no bad call."""

    def call(**given):
        for name in ("horizon", "replications"):
            if is_integer(given[name]) and 1000 < given[name] < 2**40:
                given[name] %= 1000
        return run(**{**given, "progress": False})

    return call


CALLS = {
    "problem": (
        cb.Problem,
        {
            "knowledge": PROBLEM.model,
            "manipulable": ["purpose", "send_time"],
            "reward_parents": list(PROBLEM.parents),
            "max_set": 1,
            "optional": True,
            "actions": None,
            "forbid": None,
            "reduce": True,
            "costs": {"purpose": {"Promo": 0.1}, "send_time": 0.2},
            "max_probability": {"subject": {"long": 0.6}},
            "reward": None,
            "adjust": None,
            "can_observe": None,
        },
    ),
    "problem of a graph": (
        cb.Problem,
        {
            "knowledge": "purpose -> subject -> click; send_time -> click",
            "reward": "click",
            "manipulable": {"purpose": ["Promo", "Nurture"], "send_time": ["morning", "evening"]},
            "values": {"subject": ["short", "long"]},
            "reward_parents": None,
            "data": None,
            "context": (),
            "prior": 1.0,
        },
    ),
    "situation": (PROBLEM.situation, {"every": False, "eligible": [{}]}),
    "parent_distribution": (
        PROBLEM.parent_distribution,
        {"action": {}, "interval": False, "confidence": 0.9, "rng": 0},
    ),
    "encode": (PROBLEM.encode_parents, {"values": SEEN}),
    "decode": (PROBLEM.decode_parents, {"z": (0, 0, 0)}),
    "configuration": (PROBLEM.configuration, {"z": (0, 0, 0)}),
    "costs of a knob": (lambda price: priced({"purpose": price}), {"price": {"Promo": 0.1}}),
    "costs of a value": (
        lambda value, price: priced({"purpose": {key(value): price}}),
        {"value": "Promo", "price": 0.1},
    ),
    "required of a variable": (lambda limit: required({"subject": limit}), {"limit": {"long": 0.6}}),
    "required of a value": (
        lambda value, limit: required({"subject": {key(value): limit}}),
        {"value": "long", "limit": 0.6},
    ),
    "cost": (PRICED.cost, {"action": {}}),
    "budget": (cb.Budget, {"total": 10, "rounds": 5}),
    "agent": (cb.Agent, {"problem": PROBLEM, "policy": "c-ucb", "seed": 0, "zero_probability": "raise"}),
    "agent with a budget": (
        lambda **a: cb.Agent(**a).ask(),
        {"problem": PRICED, "policy": "c-ts(prior=beta)", "budget": cb.Budget(10, 5)},
    ),
    "default policy": (cb.default_policy, {"problem": PROBLEM, "horizon": 100, "delayed": False}),
    "design": (
        cb.design,
        {"problem": PROBLEM, "means": None, "noise_scale": 1.0},
    ),
    "study": (
        lambda **given: cb.Study.create("study.db", **given).close(),
        {
            "problem": PROBLEM,
            "policy": "c-ucb",
            "seed": 0,
            "attribution_window": 5.0,
            "default_reward": 0.0,
            "late_outcomes": "apply",
            "min_propensity": 0.1,
            "budget": None,
        },
    ),
    "study's ask": of_study("ask", eligible=[{}, {"purpose": "Promo"}], key="b"),
    "study's tell": of_study("tell", decision=0, reward=1.0, observed={**SEEN, "product": "Photoshop"}),
    "study's correct": of_study("correct", decision=1, reward=0.0, observed=SEEN),
    "study's cancel": of_study("cancel", decision=0),
    "study's evaluate": of_study("evaluate", target={"purpose": "Promo"}, by="configurations"),
    "study's mode": of_study("set_mode", mode="shadow", baseline={"purpose": "Promo"}, by="ann", why="a test"),
    "connect": (cb.connect, {"url": "http://127.0.0.1:1/study", "key": None}),
    "ask": of_agent("ask", n=2, eligible=[{}, {"purpose": "Promo"}]),
    "tell": of_agent("tell", decision=1, reward=1.0, observed={**SEEN, "product": "Photoshop"}),
    "correct": of_agent("correct", decision=0, reward=0.0, observed=SEEN),
    "retract": of_agent("retract", decision=0),
    "cancel": of_agent("cancel", decision=1),
    "recommend": of_agent("recommend", confidence=0.9),
    "check": of_agent("check", alpha=0.05),
    "evidence": (
        lambda **given: cb.Agent(PROBLEM, cb.policies.CausalThompsonSampling(scales="given", samples=2)).evidence(
            **given
        ),
        {"alpha": 0.05},
    ),
    "guard": (
        lambda **given: cb.Agent(PROBLEM, cb.policies.GuardedThompsonSampling(**given)).ask(),
        {"prior": "beta", "samples": 4, "alpha": 0.05, "audit": 0.1, "on_alarm": "warn"},
    ),
    "learn": of_agent(
        "learn", past={**{k: [v] * 3 for k, v in SEEN.items()}, "y": [0, 1, 1]}, reward="y", interventions=None
    ),
    "environment": (
        cb.Environment,
        {"problem": PROBLEM, "reward": cb.rewards.BernoulliReward(np.full((2, 2, 3), 0.5))},
    ),
    "bernoulli": (
        lambda **a: cb.Environment(PROBLEM, cb.rewards.BernoulliReward(**a)),
        {"mean": np.full((2, 2, 3), 0.5)},
    ),
    "gaussian": (
        lambda **a: cb.Environment(PROBLEM, cb.rewards.GaussianReward(**a)),
        {"mean": np.zeros((2, 2, 3)), "sd": 1},
    ),
    "student": (
        lambda **a: cb.Environment(PROBLEM, cb.rewards.StudentReward(**a)),
        {"mean": np.zeros((2, 2, 3)), "scale": 1.0, "degrees": 3},
    ),
    "linear": (
        lambda **a: cb.Environment(PROBLEM, cb.rewards.LinearReward(**a)),
        {"theta": np.ones(7), "features": None, "sd": 1.0},
    ),
    "pull": (ENV.pull, {"action": {}, "rng": 0}),
    "mean_reward": (ENV.mean_reward, {"action": {}}),
    "gap": (ENV.gap, {"action": 3}),
    "value": (ENV.value, {"action": {}}),
    "policy": (policy_of, {"family": "c-ucb", "noise_scale": 1.0, "prior_scale": 1.0, "horizon": 10, "anytime": False}),
    "thompson": (policy_of, {"family": "c-ts", "noise_scale": 1.0, "prior_scale": 1.0, "samples": 2}),
    "beta": (
        lambda **a: cb.Agent(PROBLEM, policy_of(**a)).ask(),
        {"family": "c-ts(prior=beta)", "successes": 1.0, "failures": 2.0, "samples": 1},
    ),
    "linear policy": (
        lambda **a: cb.Agent(PROBLEM, cb.policy("cl-ts", **a)).ask(),
        {"features": None, "intercept": True, "noise_scale": 1.0, "prior_scale": 1.0, "v": 1.0, "samples": 2},
    ),
    "simulate": (
        brief(cb.simulate),
        {
            "env": ENV,
            "policies": ["c-ucb"],
            "horizon": 5,
            "replications": 2,
            "seed": 0,
            "workers": 1,
            "believed": None,
            "measures": ("reward",),
            "rounds": [5],
            "budget": None,
            "checkpoint": None,
        },
    ),
    "forecast": (
        brief(cb.forecast),
        {
            "problem": PROBLEM,
            "policies": ["uniform"],
            "horizon": 10,
            "reward_prior": (1, 1),
            "tolerance": 0.1,
            "replications": 2,
            "seed": 0,
            "workers": 1,
        },
    ),
    "describe": (cb.describe, {"problem": PROBLEM, "horizon": 100}),
    "citation": (cb.citation, {}),
    "regret": (RUN.regret, {"policy": "c-ucb"}),
    "measure": (RUN.measure, {"name": "regret", "policy": "c-ucb"}),
    "summary": (RUN.summary, {"measure": "regret"}),
    "compare": (RUN.compare, {"policy": "c-ucb", "other": "uniform", "measure": "regret"}),
    "only": (RUN.only, {"policies": ["c-ucb"]}),
    "merged": (cb.Run.merged, {"runs": [RUN]}),
    "load run": (cb.Run.load, {"path": "nowhere.npz"}),
    "load agent": (cb.Agent.load, {"path": "nowhere.json", "problem": None, "policy": None}),
    "bounds": (cb.theory.compare, {"problem": ENV, "horizon": 100}),
    "random_parallel": (cb.zoo.random_parallel, {"m": 2, "n": 2, "theta": [1, 0], "rng": 0}),
    "lower_bound": (cb.zoo.lower_bound, {"N": 2, "delta": 0.1, "p1": 0.5}),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory):
    """Odd paths lie in a folder of their own."""
    with contextlib.chdir(tmp_path_factory.mktemp("odd")):
        yield


@pytest.mark.parametrize("name", CALLS)
@many
@given(data=st.data())
def test_a_call_is_answered_or_refused_in_words(name, data):
    call, arguments = CALLS[name]
    given_arguments = dict(arguments)
    if arguments:
        for place in data.draw(st.lists(st.sampled_from(sorted(arguments)), min_size=1, max_size=2, unique=True)):
            given_arguments[place] = data.draw(odd | anything)
    asked(call, **given_arguments)


@pytest.mark.parametrize("id", POLICIES)
@many
@given(value=odd | anything, data=st.data())
def test_a_policys_parameters_are_taken_or_refused(id, value, data):
    name = data.draw(st.sampled_from(sorted(type(cb.policy(id)).__dataclass_fields__)))
    asked(cb.policy, id, **{name: value})


def test_the_fuzz_covers_the_public_surface():
    """What is not called here makes models or data (test_fuzz), or is no function."""
    elsewhere = {
        "CausalGraph",
        "CausalModel",
        "LatentModel",
        "Variable",
        "Intervention",
        "check",
        "fit",
        "read",
        "write",
    }
    called = {
        "Agent",
        "Study",
        "connect",
        "default_policy",
        "design",
        "Budget",
        "Problem",
        "Environment",
        "policies",
        "policy",
        "rewards",
        "simulate",
        "forecast",
        "describe",
        "citation",
        "Run",
        "theory",
        "zoo",
    }
    results = {
        "CausalBanditsError",
        "CausalBanditsWarning",
        "Decision",
        "Policy",
        "Recommendation",
        "BlackBoxEnvironment",
        "ChangingEnvironment",
        "errors",
        "testing",
    }
    assert set(cb.__all__) <= elsewhere | called | results


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PROBLEM.decode_parents([Decimal("NaN")] * 3), "A configuration has one code per parent"),
        (
            lambda: cb.Problem(
                PROBLEM.model, manipulable=["purpose"], reward_parents=PROBLEM.parents, actions=np.array(3)
            ),
            "list of interventi",
        ),
        (
            lambda: cb.Problem(
                PROBLEM.model, manipulable={"purpose": np.array(3)}, reward_parents=PROBLEM.parents, optional=True
            ),
            "must be a list of its valu",
        ),
        (lambda: agent().ask(eligible=np.array(3)), "eligible must be a list of interventions"),
        (lambda: agent().learn("x" * 5000, reward="y"), "There is no file 'xxx"),
        (lambda: cb.fit({"x": []}, "x" * 300), "There is no file 'xxx"),
        (lambda: RUN.plot("x" * 300 + ".png"), "Cannot save to '.*: File name too long. Choose another name"),
        (lambda: refuse_unwritable_folder(Path("x" * 300)), "Cannot save to '.*: File name too long. Choose another"),
        (lambda: cb.simulate(ENV, "c-ucb", horizon=5, replications=10**30), "has 1073741824 replications at most"),
        (lambda: cb.simulate(ENV, "c-ucb", horizon=5, replications=range(10**30)), "has 1073741824 replications at"),
        (lambda: cb.forecast(PROBLEM, horizon=10, replications=10**30), "has 1073741824 replications at most"),
        (
            lambda: cb.simulate(object, "c-ucb", horizon=5),
            "must take a random generator and return an Environment; for",
        ),
        (lambda: cb.simulate(lambda: ENV, "c-ucb", horizon=5), "for replication 0 it raised TypeError: .* takes 0 pos"),
    ],
)
def test_what_such_calls_have_found_is_refused_in_words(call, message):
    with pytest.raises(cb.CausalBanditsError, match=message):
        call()
