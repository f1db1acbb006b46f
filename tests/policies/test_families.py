"""Families of policies, their options, and the text form that stands for both."""

from __future__ import annotations

import math
import re
from dataclasses import MISSING, fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.errors import CausalBanditsError, PolicyError
from causalbandits.policies import (
    FAMILIES,
    AutoPolicy,
    as_policy,
    decode_parameters,
    default_policy,
    encode_parameters,
    name_policies,
    policy_label,
)
from causalbandits.policies.notation import LIST_LIMIT, format_policy_text, format_value, parse_policy_text
from oracles import patient
from oracles.policies import POLICIES

EMAIL = cb.zoo.email_campaign()

scale = st.one_of(st.integers(1, 5), st.floats(0.01, 100.0))
counts = st.one_of(scale, st.lists(scale, min_size=1, max_size=4).map(tuple))
OPTIONS = {
    "prior": st.sampled_from(["beta", "gaussian", "main-effects"]),
    "scales": st.sampled_from(["given", "estimated"]),
    "cpts": st.sampled_from(["known", "learned"]),
    "regressor": st.sampled_from(["expected", "observed"]),
    "noise_scale": scale,
    "prior_scale": scale,
    "successes": counts,
    "failures": counts,
    "samples": st.integers(2, 64),
    "horizon": st.one_of(st.none(), st.integers(1, 10**6)),
    "anytime": st.booleans(),
    "discovery": st.floats(0.0, 0.5),
    "trust_past": st.floats(0.01, 1.0),
    "v": scale,
    "intercept": st.booleans(),
    "feature_bound": scale,
    "batch": st.integers(1, 1000),
    "audit": st.floats(0.0, 0.5),
    "on_alarm": st.sampled_from(["repair", "warn", "leave"]),
}


@st.composite
def policies(draw):
    """A policy of any family, with options that go together."""
    kind = draw(st.sampled_from(list(FAMILIES.values())))
    names = [field.name for field in fields(kind) if field.name in OPTIONS]
    chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=4)) if names else []
    options = {name: draw(OPTIONS[name]) for name in chosen}
    try:
        return kind(**options)
    except PolicyError:
        return kind()


@patient
@given(policies())
def test_a_policy_is_what_its_text_says(policy):
    assert cb.policy(policy.id) == policy
    assert cb.policy(policy.id).id == policy.id
    assert repr(policy) == str(policy) == policy.id


@patient
@given(policies())
def test_a_policy_is_what_its_record_says(policy):
    assert cb.policy(policy.family, **decode_parameters(encode_parameters(policy))) == policy


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12)),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=LIST_LIMIT,
)


@patient
@given(st.dictionaries(st.from_regex(r"[a-z_][a-z_0-9]{0,8}", fullmatch=True), values, max_size=5))
def test_options_are_read_as_they_were_written(options):
    text = format_policy_text("a-family", options)
    if "..." not in text:
        assert parse_policy_text(text) == ("a-family", options)
        assert format_policy_text(*parse_policy_text(text)) == text


@patient
@given(st.text(max_size=60) | st.text('c-ts(prior=beta,[]".= )', max_size=30).map("c-ts(".__add__))
def test_any_text_is_a_policy_or_refused(text):
    try:
        policy = cb.policy(text)
    except CausalBanditsError:
        return
    assert cb.policy(policy.id) == policy


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_without_options_is_its_class_without_options(family):
    policy = cb.policy(family)
    assert policy == FAMILIES[family]()
    assert policy.id == family
    assert policy.family == family
    assert policy_label(family) == policy.label == FAMILIES[family].family_label


def test_the_documented_families_are_there():
    documented = "c-ts c-ucb c-kl-ucb c-gittins c-screen c-ts-ucb c-ids cl-ts cl-ucb cl-ts-ucb c-track-and-stop "
    documented += "c-elimination c-design c-ts-guarded c-ts-models c-ts-structure hac-ucb lin-ucb lin-ts ts ucb kl-ucb "
    documented += "uniform"
    assert set(FAMILIES) == set(documented.split())


def test_the_page_lists_every_family_with_its_options():
    page = (Path(__file__).parents[2] / "docs/reference/policies.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (?:\[)?`([a-z-]+)`(?:\]\([^)]*\))? \| ([^|]*) \|", page.partition("| option |")[0], flags=re.MULTILINE
    )
    assert {family for family, _ in rows} == {"auto", *FAMILIES}
    for family, listed in rows:
        numbers = {"noise_scale", "prior_scale", "successes", "failures"} if "numbers of the prior" in listed else set()
        names = {field.name for field in fields(type(cb.policy(family)))}
        refused = {"regressor", "features", "intercept", "scales"} if family.startswith("lin-") else set()
        if not getattr(type(cb.policy(family)), "follows_changes", True):
            refused = {*refused, "changes"}
        assert (
            set(re.findall(r"`(\w+)`", listed.partition(" (")[0] + listed.partition(")")[2])) | numbers
            == names - refused
        )


@pytest.mark.parametrize("text", POLICIES)
def test_the_texts_of_the_tests_are_canonical(text):
    assert cb.policy(text).id == text


def test_options_may_be_written_in_any_order_and_with_any_blanks():
    assert cb.policy(" c-ts ( cpts = learned,prior=beta )").id == "c-ts(prior=beta, cpts=learned)"
    assert cb.policy("c-ts(prior=gaussian, cpts=known)").id == "c-ts"
    assert cb.policy("c-ts()").id == "c-ts"
    assert cb.policy('c-ts(prior="beta")').id == "c-ts(prior=beta)"


def test_options_beside_the_text_join_it():
    policy = cb.policy("c-ts(prior=beta)", cpts="learned", samples=8)
    assert policy == cb.policies.CausalThompsonSampling(prior="beta", cpts="learned", samples=8)
    assert policy.id == "c-ts(prior=beta, cpts=learned, samples=8)"


def test_equal_policies_have_equal_texts():
    texts = {cb.policy("c-ucb", noise_scale=number).id for number in (2, 2.0, np.float64(2), np.int64(2))}
    assert texts == {"c-ucb(noise_scale=2)"}
    assert format_value(1e300) == "1e+300"
    assert format_value("true") == '"true"'
    assert parse_policy_text("f(a=-inf, b=1e5, c=1, d=none)").options == {"a": -math.inf, "b": 1e5, "c": 1, "d": None}


# What is estimated if nothing is said.


@pytest.mark.parametrize("family", ["c-ts", "c-gittins", "c-screen", "c-ids", "c-ts-ucb", "ts"])
def test_scales_are_estimated_unless_they_are_given_or_the_prior_is_beta(family):
    assert cb.policy(family).scales == "estimated"
    assert cb.policy(family).traits.learns_scales
    assert cb.policy(family, noise_scale=0.5).scales == "given"
    assert cb.policy(family, noise_scale=1.0).id == f"{family}(scales=given)"  # 1 is said here, and not the default
    assert cb.policy(family, prior="beta").scales == "given"
    assert cb.policy(family, prior="beta", scales="estimated").id == f"{family}(prior=beta, scales=estimated)"
    assert replace(cb.policy(family)) == cb.policy(family)
    with pytest.raises(PolicyError, match=r"scales='estimated' estimates noise_scale and prior_scale"):
        cb.policy(family, scales="estimated", noise_scale=2.0)


def test_a_policy_without_options_does_not_depend_on_the_units_of_rewards():
    picks = []
    for unit in (1.0, 1000.0):
        agent, rng = cb.Agent(EMAIL.problem, "c-ts", seed=1), np.random.default_rng(0)
        for _ in range(30):
            decision = agent.ask()
            outcome = EMAIL.pull(decision.action, rng)
            agent.tell(decision.id, reward=unit * outcome.reward, observed=outcome.parents)
        picks.append(dict(agent.ask().action))
    assert picks[0] == picks[1]


@pytest.mark.parametrize("family", ["c-ucb", "ucb", "cl-ts"])
def test_confidence_bounds_and_linear_models_take_scales_as_given(family):
    assert cb.policy(family).scales == "given"
    assert cb.policy(family, scales="estimated").id == f"{family}(scales=estimated)"


# Refusals.


@pytest.mark.parametrize(
    ("text", "closest"),
    [
        ("c-ts-beta-learnt", "c-ts"),
        ("c-ts-beta-guarded", "c-ts-guarded"),
        ("c-ts-ucb-gaussian", "c-ts-ucb"),
        ("c-gittins-effects", "c-gittins"),
        ("cl-ts-observed", "cl-ts"),
        ("ts-beta", "ts"),
        ("c-tz", "c-ts"),
        ("unifrom(samples=3)", "uniform"),
        ("outo", "auto"),
    ],
)
def test_an_unknown_family_is_refused_with_the_closest(text, closest):
    with pytest.raises(PolicyError, match=rf"Unknown policy family .* Did you mean '{closest}'\?.*Options are written"):
        cb.policy(text)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("c-ts(prio=beta)", r"Unknown option of 'c-ts': 'prio'\. Did you mean 'prior'\?"),
        ("ucb(cpts=learned)", r"Unknown option of 'ucb': 'cpts'\..* Families with 'cpts': 'c-ts'\."),
        ("c-ts-guarded(scales=estimated)", r"Unknown option of 'c-ts-guarded': 'scales'"),
        ("c-ts(prior=betta)", r"prior must be one of .*; got 'betta'\. Did you mean 'beta'\?"),
        ("c-ts(scales=learnt)", r"scales must be one of 'given', 'estimated'; got 'learnt'"),
        ("c-ts(cpts=learnt)", r"cpts must be one of .* Did you mean 'learned'\?"),
        ("cl-ts(regressor=seen)", r"regressor must be one of 'expected', 'observed'"),
        ("c-ts(prior=main-effects, scales=given)", r"prior='main-effects' estimates the scales\. Leave out"),
        ("c-ts(prior=main-effects, cpts=learned)", "cpts='learned' requires prior='gaussian', or"),
        ("c-ts(prior=beta, scales=estimated, cpts=learned)", "cpts='learned' requires prior='gaussian', or"),
        ("ts(prior=main-effects)", r"'ts' does not use\. Use prior='beta', prior='gaussian'"),
        ("c-ts-guarded(prior=main-effects)", r"prior must be one of 'beta', 'gaussian'; got 'main-effects'"),
        ("lin-ts(scales=estimated)", r"requires scales='given'"),
        ("c-ts(trust_past=0.5)", "trust_past= requires cpts='learned'"),
        ("c-gittins(discovery=0.1)", "discovery= requires prior='main-effects'; the prior is"),
        ("c-ts(samples=0)", r"samples must be a whole number, 1 or more; got 0"),
        ("c-ts(samples=5000)", r"samples must be 4096 at most; got 5000"),
        ("c-ts(samples=many)", r"samples must be a whole number"),
        ("c-ts(prior=beta", r"expected ',' or '\)' at the end"),
        ("c-ts(prior beta)", r"expected '=' before 'beta\)'"),
        ("c-ts(prior=)", r"expected a value before '\)'"),
        ("c-ts(=beta)", r"expected the name of an option"),
        ("c-ts(prior=beta) twice", "expected the end of the text before 'twice'"),
        ("c-ts(prior=beta, prior=beta)", r"The option 'prior' is given twice"),
        ('c-ts(prior="\\x")', r"Quoted texts follow JSON syntax"),
        ("c-ts(successes=" + "[" * 500 + ")", r"expected a value"),
        ("c-ts(" + " " * 3000 + ")", r"at most 2000 characters"),
        ("", r"Unknown policy family ''\. It is empty"),
        ("C-TS", r"Unknown policy family 'C-TS'\. Did you mean 'c-ts'\?"),
        ("KLUCB", r"Unknown policy family 'KLUCB'\. Did you mean 'kl-ucb'\?"),
    ],
)
def test_what_is_wrong_with_a_text_is_said(text, complaint):
    with pytest.raises(PolicyError, match=complaint):
        cb.policy(text)


def test_an_option_is_given_once():
    with pytest.raises(PolicyError, match=r"prior: given twice"):
        cb.policy("c-ts(prior=beta)", prior="beta")


def test_what_text_does_not_hold_is_written_as_dots_and_refused_when_read():
    policy = cb.policy("cl-ts", features=lambda z: [z])
    assert policy.id == "cl-ts(features=...)"
    with pytest.raises(PolicyError, match=r"features=\.\.\. marks a value that a text cannot represent"):
        cb.policy(policy.id)
    assert cb.policy("c-ts", prior="beta", failures=np.full(100, 2.0)).id == "c-ts(prior=beta, failures=...)"


@pytest.mark.parametrize("wrong", [None, 3, b"c-ts", ["c-ts"]])
def test_a_family_is_text(wrong):
    with pytest.raises(PolicyError, match="family must be text"):
        cb.policy(wrong)


# The text is accepted, and used, where policies are named.


def test_results_are_kept_under_the_text(tmp_path):
    run = cb.simulate(EMAIL, ["c-ts( prior = beta )", "uniform"], horizon=5, replications=2)
    assert run.policies == ("c-ts(prior=beta)", "uniform")
    run.save(tmp_path / "run.npz")
    assert cb.Run.load(tmp_path / "run.npz").policies == run.policies
    assert "Lu" in cb.citation(run)


def test_policies_that_differ_in_options_have_names_of_their_own():
    names = name_policies(["c-ucb", cb.policy("c-ucb", noise_scale=0.5)])
    assert list(names) == ["c-ucb", "c-ucb(noise_scale=0.5)"]


def test_an_agents_file_brings_its_policy_back(tmp_path):
    agent = cb.Agent(EMAIL.problem, "c-ts(prior=beta, successes=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])", seed=0)
    agent.save(tmp_path / "agent.json")
    assert cb.Agent.load(tmp_path / "agent.json").policy == agent.policy


def test_learned_cpts_are_cited():
    assert cb.citation("c-ts(cpts=learned)") != cb.citation("c-ts")
    with pytest.raises(PolicyError, match="'auto' is a different policy for each problem"):
        cb.citation("auto")


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("c-ts", "C-TS"),
        ("c-ts(prior=beta)", "C-TS (Beta prior)"),
        ("c-ts(scales=given, cpts=learned)", "C-TS (given scales, learned CPTs)"),
        ("cl-ts(regressor=observed)", "CL-TS (observed regressors)"),
        ("c-ucb(noise_scale=0.5, horizon=100)", "C-UCB (noise_scale=0.5)"),
        ("mine", "mine"),
        ("C-TS, s = 0.5", "C-TS, s = 0.5"),
    ],
)
def test_legends_have_labels(name, label):
    assert policy_label(name) == label


def test_pictures_have_labels_at_the_lines():
    run = cb.simulate(EMAIL, {"c-ts(prior=beta)": "c-ts(prior=beta)", "mine": "uniform"}, horizon=5, replications=2)
    words = {text.get_text() for text in run.plot().axes[0].texts}
    assert {"C-TS (Beta prior)", "mine"} <= words


# The default of a problem.


def test_auto_is_the_default_of_the_problem():
    assert cb.Agent(EMAIL.problem, "auto").policy == cb.Agent(EMAIL.problem).policy == default_policy(EMAIL.problem)
    unknown = EMAIL.problem.without_cpts()
    assert cb.Agent(unknown, "auto", delayed=True).policy == default_policy(unknown, delayed=True)
    assert cb.Agent(EMAIL.problem, "auto", horizon=60).policy == default_policy(EMAIL.problem, horizon=60)


def test_a_studys_auto_is_its_default(tmp_path):
    with (
        cb.Study.create(tmp_path / "one.db", EMAIL.problem) as one,
        cb.Study.create(tmp_path / "two.db", EMAIL.problem, "auto") as two,
    ):
        assert one.policy == two.policy == default_policy(EMAIL.problem, delayed=True)
        two.use("c-ucb")
        two.use("auto")
        assert two.policy == one.policy


def test_simulated_rounds_play_the_default_of_the_environments_problem():
    run = cb.simulate(EMAIL, ["auto", "uniform"], horizon=30, replications=2)
    assert run.policies == ("auto", "uniform")
    own = cb.simulate(EMAIL, {"auto": default_policy(EMAIL.problem)}, horizon=30, replications=2)
    assert np.array_equal(run.regret("auto"), own.regret("auto"))
    assert run.origin is not None
    assert run.origin.ids == {"auto": default_policy(EMAIL.problem, horizon=30).id, "uniform": "uniform"}


def test_auto_may_be_told_to_know_its_propensities():
    unknown = EMAIL.problem.without_cpts()
    assert cb.Agent(unknown, "auto(samples=8)").policy.id == "c-ts(cpts=learned, samples=8)"
    with pytest.raises(PolicyError, match=r"c-gittins\(prior=main-effects\), uses no posterior samples"):
        cb.Agent(EMAIL.problem, "auto(samples=8)")
    assert cb.Agent(EMAIL.problem, "auto(samples=8)", delayed=True).ask().propensity is not None
    with pytest.raises(PolicyError, match="Unknown option of 'auto'"):
        cb.policy("auto", prior="beta")


def test_auto_without_a_problem_is_refused_where_it_would_decide():
    assert as_policy("auto") == AutoPolicy()
    with pytest.raises(PolicyError, match="'auto' is the default policy of a problem,"):
        as_policy("auto").init(EMAIL.problem)


def test_no_option_is_required():
    kinds = (AutoPolicy, *FAMILIES.values())
    assert not [field.name for kind in kinds for field in fields(kind) if field.default is MISSING]
