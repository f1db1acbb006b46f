"""A shop with all of it: regions, prices, a budget, complaints that must stay rare, and a belief with a wrong table."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import EvidenceWarning, PolicyError, ProblemWarning
from causalbandits.policies.robust.monitor import TABLES_LEARNED

KNOBS, PARENTS = ["price", "channel", "banner"], ["view", "cart"]
COSTS = {"price": {"low": 0.1, "mid": 0.03}, "channel": {"app": 0.02}, "banner": {"big": 0.05}}
RARE = {"complaint": {"yes": 0.15}}
MEANS = np.array([[0.1, 0.3], [0.25, 0.5], [0.4, 0.8]])


def shop(*, view=None, complaint=None):
    """Its model; a row of a table may be another: of views at a high price in the app, of complaints without banner."""
    rng = np.random.default_rng(4)
    views, carts = rng.dirichlet([2, 2, 2], (3, 2)), rng.dirichlet([2, 2], (2, 2))
    harm = np.array([[[0.99, 0.01], [0.95, 0.05]], [[0.9, 0.1], [0.6, 0.4]], [[0.97, 0.03], [0.85, 0.15]]])
    if view is not None:
        views[2, 1] = view
    if complaint is not None:
        harm[:, 0] = complaint
    return cb.CausalModel(
        [
            cb.Variable("region", ["north", "south"], table=[0.6, 0.4]),
            cb.Variable("price", ["low", "mid", "high"], parents=["region"], table=[[0.2, 0.5, 0.3], [0.5, 0.3, 0.2]]),
            cb.Variable("channel", ["mail", "app"], table=[0.5, 0.5]),
            cb.Variable("banner", ["none", "big"], table=[0.7, 0.3]),
            cb.Variable("view", ["no", "short", "long"], parents=["price", "channel"], table=views),
            cb.Variable("cart", ["no", "yes"], parents=["banner", "region"], table=carts),
            cb.Variable("complaint", ["no", "yes"], parents=["price", "banner"], table=harm),
        ]
    )


def problem(model, **more):
    return cb.Problem(
        model, manipulable=KNOBS, reward_parents=PARENTS, costs=COSTS, context=["region"], **{"optional": True, **more}
    )


WORLD = cb.Environment(problem(shop()), cb.rewards.BernoulliReward(MEANS))
TRUE = WORLD.problem.model


def converse(agent, rounds, seed=0, env=WORLD):
    """What was decided; complaints are told as well."""
    rng, decided = np.random.default_rng(seed), []
    for _ in range(rounds):
        known = env.draw_context(rng)
        decision = agent.ask(context=known)
        happened = env.pull(decision.action, rng, context=known)
        price, banner = (decision.action.get(name) for name in ("price", "banner"))
        seen = {}
        if price and banner:
            row = TRUE["complaint"].table[["low", "mid", "high"].index(price), ["none", "big"].index(banner)]
            seen = {"complaint": "yes" if rng.random() < row[1] else "no"}
        agent.tell(
            decision.id, reward=happened.reward, observed={**{name: happened.parents[name] for name in PARENTS}, **seen}
        )
        decided.append(decision)
    return decided


def guarded(way="repair", samples=8):
    return cb.policies.GuardedThompsonSampling(prior="beta", samples=samples, on_alarm=way)


def test_after_a_wrong_row_decisions_and_advice_are_those_of_the_tables_as_learnt_within_the_budget(tmp_path):
    believed = problem(shop(view=[0.05, 0.05, 0.9]))
    agent = cb.Agent(believed, guarded(), seed=1, budget=cb.Budget(12, rounds=300))
    with pytest.warns(
        EvidenceWarning, match="price='high', channel='app'.*the policy estimates the CPTs from outcomes"
    ):
        converse(agent, 150)
    assert agent._statistic.alarm_rows()[0].done == TABLES_LEARNED
    learnt = believed.with_model(agent.model)
    for region in ("north", "south"):
        best = agent.recommend(context={"region": region})
        z = learnt.condition({"region": region}).parent_distribution(best.intervention).reshape(-1)
        cells = agent._statistic.cells
        assert best.mean == pytest.approx(z @ ((cells.total + 1) / (cells.count + 2)))
        assert best.lower < best.mean < best.upper
        assert best.cost <= 12 / 300
    agent.save(tmp_path / "agent.json")
    again = cb.Agent.load(tmp_path / "agent.json")
    assert converse(again, 60, 5) == converse(agent, 60, 5)
    assert again.budget == agent.budget
    assert str(again.recommendations()) == str(agent.recommendations())


def test_part_of_the_context_is_refused_when_it_is_asked_for_not_when_it_is_told():
    more = cb.Variable("age", ["young", "old"], table=[0.5, 0.5])
    model = cb.CausalModel([*shop().variables.values(), more])
    both = cb.Problem(
        model, manipulable=KNOBS, reward_parents=PARENTS, costs=COSTS, context=["region", "age"], optional=True
    )
    for budget in (None, cb.Budget(5, rounds=100)):
        agent = cb.Agent(both, guarded("leave"), seed=1, budget=budget)
        for known in ({"region": "north"}, {"age": "old"}, {}, None):
            with pytest.raises(
                PolicyError,
                match=r"\(region, age\); known: .*\. Pass the whole context, or leave on_alarm out:",
            ):
                agent.ask(context=known)
        assert not agent.pending
        assert agent.budget in (None, (0.0, 5.0, 100))
        assert cb.Agent(both, guarded(), seed=1, budget=budget).ask(context={"age": "old"}).propensity > 0


@pytest.mark.parametrize(
    ("way", "way_out"),
    [
        ("repair", "create the problem again with agent.model, the learned model"),
        ("warn", "estimate these CPTs again"),
        ("leave", "estimate these CPTs again"),
    ],
)
def test_where_tables_are_contradicted_by_which_something_is_required_it_is_said(way, way_out):
    believed = problem(shop(complaint=[0.999, 0.001]), max_probability=RARE)
    agent = cb.Agent(believed, guarded(way), seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        converse(agent, 500)
    said = [caveat for caveat in agent.recommend(context={"region": "north"}).caveats if "the limits on" in caveat]
    assert len(said) == 1
    assert "outcomes contradict the CPTs of complaint" in said[0]
    assert way_out in said[0]


def test_where_other_tables_are_contradicted_nothing_is_said_of_what_is_required():
    agent = cb.Agent(problem(shop(view=[0.05, 0.05, 0.9]), max_probability=RARE), guarded(), seed=1)
    with pytest.warns(EvidenceWarning):
        converse(agent, 120)
    assert not [caveat for caveat in agent.recommend(context={"region": "north"}).caveats if "the limits on" in caveat]


def test_evidence_says_why_rows_were_not_tested_as_it_is():
    agent = cb.Agent(problem(shop(), max_probability=RARE), guarded(), seed=1)
    silent = cb.Agent(problem(shop(), max_probability=RARE), guarded(), seed=1)
    rng = np.random.default_rng(0)
    for _ in range(8):
        for one, seen in ((agent, {"complaint": "no"}), (silent, {})):
            decision = one.ask(context={"region": "north"}, eligible=[{"price": "high", "banner": "none"}])
            happened = WORLD.pull(decision.action, rng, context={"region": "north"})
            one.tell(decision.id, reward=happened.reward, observed={**happened.parents, **seen})
    told, untold = (
        {claim.untested for claim in one.evidence().claims if claim.variable == "complaint"} for one in (agent, silent)
    )
    assert told == {"", "no outcome showed the parents of complaint with these values"}
    assert untold == {"no outcome reported complaint; pass tell(..., observed={...})"}
    one = next(claim for claim in agent.evidence().claims if not claim.untested)
    assert "CPTs: 0 of 1 claim rejected" in str(replace(agent.evidence(), claims=(one,)))


def test_a_warning_points_at_the_line_that_asked():
    agents = [
        cb.Agent(
            problem(shop(), max_probability=RARE).without_cpts(),
            "c-ts(prior=beta, cpts=learned)",
            seed=1,
            budget=budget,
        )
        for budget in (None, cb.Budget(9, rounds=50))
    ]
    for agent in agents:
        with pytest.warns(ProblemWarning, match="No action satisfies") as caught:
            agent.ask(context={"region": "north"})
        assert {warning.filename for warning in caught} == {__file__}


def test_what_has_always_been_seen_is_not_worth_a_word():
    advice = cb.Agent(WORLD.problem, "c-ts(prior=beta)", seed=1).recommend(context={"region": "north"})
    assert "Coverage" not in str(replace(advice, seen=1 - 1e-12))
    assert "Coverage: 99.8% probability of" in str(replace(advice, seen=0.998))
    assert "Coverage: 64.0% probability of" in str(replace(advice, seen=0.64))
