"""Costs: what an action costs is subtracted from its score, and the best action is never lost by the reduction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits.problem.candidates.hull import RESIDUAL_TOLERANCE
from oracles import cases, distribution

thorough = settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])

PRICES = {"product": 0.02, "purpose": 0.03, "send_time": {"morning": 0.01}}


def email(costs=PRICES, **keywords):
    env = cb.zoo.email_campaign()
    p = env.problem
    return cb.Environment(
        cb.Problem(
            p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=costs, **{"optional": True, **keywords}
        ),
        env.reward,
    )


@st.composite
def priced(draw):
    """A random problem with prices by knob or by value, tied or not, small or huge; and its twin that searches all."""
    case = draw(cases(most=6, knobs=3))
    always = draw(st.lists(st.sampled_from(case.manipulable), unique=True, max_size=2))
    at_most = draw(st.one_of(st.none(), st.integers(len(always), 3)))
    size, rng = draw(st.sampled_from([0.05, 1.0, 1000.0])), np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind, costs = draw(st.sampled_from(["knob", "value", "tied"])), {}
    for name in case.manipulable:
        states = case.model[name].states
        if kind == "knob":
            costs[name] = size * rng.random()
        else:
            levels = rng.random(len(states)) if kind == "value" else rng.integers(0, 3, len(states)) / 2
            costs[name] = {state: size * float(level) for state, level in zip(states, levels, strict=True)}
    optional = [name for name in case.manipulable if name not in always]
    make = {"max_set": at_most, "optional": optional, "costs": costs}
    return tuple(
        cb.Problem(
            case.model,
            manipulable=case.manipulable,
            reward_parents=case.parents,
            reduce=r,
            **{"optional": True, **make},
        )
        for r in (True, False)
    )


@thorough
@given(priced(), st.integers(0, 2**32 - 1))
def test_the_best_is_never_lost_at_any_price(twins, seed):
    reduced, full = twins
    rng = np.random.default_rng(seed)
    for _ in range(8):
        index, price = rng.standard_normal(full.configurations), rng.choice([0.0, 0.1, 1.0, 10.0])
        best = [
            (p.candidates.project(index) - (price * p.situation().costs if p.costs else 0.0)).max()
            for p in (reduced, full)
        ]
        scale = 1 + price * (full.costs.largest if full.costs else 0.0)
        assert best[0] == pytest.approx(best[1], abs=1e-9 * scale)


@thorough
@given(priced())
def test_every_removed_choice_is_a_mixture_of_kept_ones_that_costs_no_more(twins):
    for block in twins[0].reduction().blocks:
        kept = set(block.kept.tolist())
        assert kept | set(block.certificates) == set(range(len(block.choices)))
        for removed, weights in block.certificates.items():
            assert set(weights) <= kept
            assert block.residual(removed) <= RESIDUAL_TOLERANCE
            mixture = sum(w * block.rows[k] for k, w in weights.items())
            assert np.abs(mixture - block.rows[removed]).max() <= RESIDUAL_TOLERANCE
            if block.costs is not None:
                cost = sum(w * block.costs[k] for k, w in weights.items())
                assert cost <= block.costs[removed] + RESIDUAL_TOLERANCE * max(1.0, block.costs.max())


@thorough
@given(priced(), st.integers(0, 2**32 - 1))
def test_scores_are_the_mean_reward_less_the_cost_by_brute_force(twins, seed):
    problem, rng = twins[0], np.random.default_rng(seed)
    situation, index = problem.situation(), rng.standard_normal(problem.configurations)
    scores = situation.project(index)
    for position in rng.integers(0, situation.size, 5):
        do = situation.action(int(position)).intervention
        costs = problem.to_record().get("costs") or [[0.0] * len(problem.model[k].states) for k in problem.manipulable]
        paid = sum(costs[problem.manipulable.index(k)][problem.model[k].states.index(v)] for k, v in do.items())
        mean = distribution(problem.model, do, problem.parents).reshape(-1) @ index
        assert scores.values[position] == pytest.approx(mean - paid, rel=1e-9, abs=1e-9)
        assert problem.cost(do) == pytest.approx(paid, rel=1e-12)


def test_the_email_campaign_keeps_44_actions_with_costs_and_12_without():
    assert email().problem.candidates.size == 44
    assert email(costs=None).problem.candidates.size == 12


def test_leaving_a_root_alone_goes_only_if_setting_it_costs_nothing():
    free, dear = ({"purpose": 0.1}, {"purpose": 0.1, "send_time": 0.01})
    for costs, alone in ((free, False), (dear, True)):
        problem = email(costs=costs).problem
        searched = [problem.candidates.action(i).intervention for i in range(problem.candidates.size)]
        assert any("send_time" not in do for do in searched) == alone


def test_of_equal_choices_the_cheapest_stays_and_of_equally_cheap_ones_the_first():
    a = cb.Variable("a", [0, 1, 2, 3], table=[0.25] * 4)
    z = cb.Variable("z", [0, 1], parents=["a"], table=[[1, 0], [1, 0], [1, 0], [0, 1]])
    problem = cb.Problem(
        cb.CausalModel([a, z]),
        manipulable=["a"],
        reward_parents=["z"],
        optional=False,
        costs={"a": {0: 0.3, 1: 0.2, 2: 0.2}},
    )
    assert [problem.candidates.action(i).intervention for i in range(2)] == [{"a": 1}, {"a": 3}]
    assert "do(a=0) has the same effect as do(a=1), at 0.2 instead of 0.3" in repr(problem.reduction())


@pytest.mark.filterwarnings("ignore::causalbandits.errors.ProblemWarning")
def test_a_knob_that_leads_nowhere_and_must_be_set_takes_its_cheapest_value():
    x, idle = (cb.Variable(name, [0, 1, 2], table=[0.2, 0.3, 0.5]) for name in ("x", "idle"))
    costs = {"idle": {0: 0.5, 1: 0.25, 2: 0.25}}
    problem = cb.Problem(
        cb.CausalModel([x, idle]), manipulable=["x", "idle"], reward_parents=["x"], optional=["x"], costs=costs
    )
    assert {problem.candidates.action(i).intervention["idle"] for i in range(problem.candidates.size)} == {1}
    env = cb.Environment(problem, cb.rewards.BernoulliReward([0.1, 0.2, 0.9]))
    assert env.best().intervention == {"x": 2, "idle": 1}


def test_no_costs_and_costs_of_nothing_are_the_same_problem():
    assert email(costs={"product": 0.0}).problem.fingerprint == email(costs=None).problem.fingerprint
    assert email(costs={}).problem.costs is None


@pytest.mark.parametrize(
    ("costs", "words"),
    [
        ({"product": -0.1}, "must be a number from 0"),
        ({"product": math.inf}, "must be a number from 0"),
        ({"product": math.nan}, "must be a number from 0"),
        ({"product": True}, "must be a number from 0"),
        ({"product": "cheap"}, "must be a number from 0"),
        ({"product": {"Photoshop": -1}}, "'product' to 'Photoshop' must be a number from 0 to"),
        ({"product": {"Photoshp": 1}}, "Did you mean 'Photoshop'?"),
        ({"product": {("a",): 1}}, "Unknown value of 'product'"),
        ({"prodct": 0.1}, "Did you mean 'product'?"),
        ({"subject": 0.1}, "Unknown manipulable variable"),
        ({3: 0.1}, "Unknown manipulable variable"),
        ([0.1, 0.2], "costs must map manipulable"),
        (0.1, "costs must map manipulable"),
        ("product", "costs must map manipulable"),
    ],
)
def test_costs_that_are_none_are_refused_in_words(costs, words):
    with pytest.raises(cb.CausalBanditsError, match="cost") as refused:
        email(costs=costs)
    assert words in str(refused.value)


def test_a_problem_with_costs_survives_its_record_and_other_tables():
    problem = email(max_set=2).problem
    again = cb.Problem.from_record(problem.to_record())
    assert again.fingerprint == problem.fingerprint != email(costs=None, max_set=2).problem.fingerprint
    other = problem.with_model(problem.model)
    assert other.costs == problem.costs
    assert problem.is_same_except_cpts(other)
    assert not problem.is_same_except_cpts(email(costs={"product": 0.01}, max_set=2).problem)
    for wrong in ([[0.1]], "x", [[-1] * 3, [0] * 4, [0] * 3]):
        with pytest.raises(cb.CausalBanditsError, match="cost"):
            cb.Problem.from_record({**problem.to_record(), "costs": wrong})


def test_costs_are_written_in_a_file_and_on_the_command_line(tmp_path):
    from causalbandits.cli.options import parse_target
    from causalbandits.planning.experiment_spec import read_spec, read_spec_file

    lines = [
        'environment = { zoo = "email_campaign" }',
        "[simulation]",
        "horizon = 50",
        "[policies]",
        '"c-ts(prior=beta)" = {}',
    ]
    table = ["[costs]", "product = 0.02", "purpose = 0.03", "send_time = { morning = 0.01 }"]
    path = tmp_path / "priced.toml"
    path.write_text("\n".join([lines[0], *lines[1:], *table]))
    assert read_spec(path).environment.fingerprint == email().fingerprint
    prices = "{ product = 0.02, purpose = 0.03, send_time = { morning = 0.01 } }"
    inline = f'costs = {prices}\n[environment]\nzoo = "email_campaign"'
    path.write_text(inline)
    assert read_spec_file(path).parse_environment().fingerprint == email().fingerprint
    path.write_text("\n".join([inline, *table]))
    with pytest.raises(cb.CausalBanditsError, match="is not a TOML file:"):
        read_spec_file(path)
    typed = ["product=0.02", "purpose=0.03", "send_time:morning=0.01"]
    assert (
        parse_target("email_campaign", [], {"costs": typed}).problem_or_environment.fingerprint == email().fingerprint
    )
    for wrong, words in (
        (["product=cheap"], "expected a number"),
        (["product=-1"], "expected a number from 0"),
        (["subject=1"], "Unknown manipulable variable"),
        (["prodct=1"], "Did you mean 'product'"),
        (["product:Photshop=1"], "Did you mean 'Photoshop'"),
        (["product=1", "product:Photoshop=1"], "or one for each value; got both"),
        (["product:Photoshop=1", "product=1"], "or one for each value; got both"),
    ):
        with pytest.raises(cb.CausalBanditsError, match="--cost") as refused:
            parse_target("email_campaign", [], {"costs": wrong})
        assert words in str(refused.value)


def test_a_description_says_what_is_subtracted_and_a_forecast_counts_it():
    problem = email().problem
    said = " ".join(repr(cb.describe(problem)).split())
    assert "Costs, subtracted from the reward: product 0.02, purpose 0.03, send_time 0 to 0.01." in said
    dear = email(costs={"product": 0.5, "purpose": 0.5, "send_time": 0.5}).problem
    cheap, costly = (
        cb.forecast(p, ["c-ts(prior=beta)", "uniform"], horizon=200, replications=10, progress=False)
        for p in (problem, dear)
    )
    assert costly.at_stake > 3 * cheap.at_stake  # what is chosen blindly pays for what it sets
    assert costly.run.regret("c-ts(prior=beta)")[:, -1].mean() < costly.run.regret("uniform")[:, -1].mean() / 5


def test_bounds_know_that_costs_move_actions_apart():
    env = email(costs={"product": 1.0})
    assert cb.theory.bound("c-ucb", env).largest_gap == pytest.approx(env.gaps().max())
    assert env.gaps().max() > 1
    free, priced = (cb.theory.bound("c-ts(prior=beta)", email(costs=c).problem) for c in (None, {"product": 1.0}))
    assert priced.largest_gap == pytest.approx(free.largest_gap + 1)
