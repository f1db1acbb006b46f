"""A description says what is so: knobs, separators, spreads, and where to start."""

from __future__ import annotations

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import CausalBanditsError
from causalbandits.planning.description import write_description
from causalbandits.policies.registry import IMMEDIATE_FEEDBACK


@pytest.fixture
def model():
    """x -> m -> ten binary parents -> y; w leads nowhere."""
    rng = np.random.default_rng(0)
    parents = [f"z{i}" for i in range(10)]
    return cb.CausalModel([
        cb.Variable("x", [0, 1, 2], table=[0.2, 0.3, 0.5]),
        cb.Variable("w", [0, 1], table=[0.5, 0.5]),
        cb.Variable("m", ["low", "middle", "high"], parents=["x"], table=rng.dirichlet(np.ones(3), 3)),
        *(cb.Variable(z, [0, 1], parents=["m"], table=rng.dirichlet(np.ones(2), 3)) for z in parents),
        cb.Variable("y", [0, 1], parents=parents, table=rng.dirichlet(np.ones(2), (2,) * 10)),
    ])  # fmt: skip


def test_knobs_that_matter_and_those_that_do_not(model):
    found = cb.describe(cb.Problem(model, manipulable=["x", "w"], reward="y", optional=True))
    assert (found.matter, found.idle) == (("x",), ("w",))
    assert "Cannot affect it: w." in repr(found)


def test_candidates_for_the_separator_with_configurations_and_spread(model):
    found = cb.describe(cb.Problem(model, manipulable=["x"], reward="y", optional=True))
    own, cheapest = found.separators
    assert (own.name, own.configurations) == ("in use, the reward's own parents", 1024)
    assert (cheapest.name, cheapest.variables, cheapest.configurations) == ("smallest", ("m",), 3)
    # By enumeration: the reward is a coin given its parents, and given m another one.
    clicks = model["y"].table[..., 1].reshape(-1)
    assert own.spread == pytest.approx(np.sqrt(clicks * (1 - clicks)).max())
    weights = np.ones((3, 1))
    for i in range(10):
        weights = (weights[:, :, None] * model[f"z{i}"].table[:, None, :]).reshape(3, -1)
    given_m = weights @ clicks
    assert cheapest.spread == pytest.approx(np.sqrt(given_m * (1 - given_m)).max())


def test_the_cheapest_is_looked_for_among_what_can_be_observed(model):
    seen = ["m", *(f"z{i}" for i in range(10))]
    found = cb.describe(
        cb.Problem(model, manipulable=["x"], reward="y", adjust="smallest", can_observe=seen, optional=True)
    )
    assert [s.name for s in found.separators] == ["in use, smallest", "the reward's own parents"]
    # Among all variables, x would be the cheapest if it had fewer values than m.
    others = [variable for name, variable in model.variables.items() if name not in ("x", "m")]
    x = cb.Variable("x", [0, 1], table=[0.5, 0.5])
    m = cb.Variable("m", ["low", "middle", "high"], parents=["x"], table=[[0.2, 0.3, 0.5]] * 2)
    problem = cb.Problem(
        cb.CausalModel([x, m, *others]),
        manipulable=["x"],
        reward="y",
        adjust="smallest",
        can_observe=seen,
        optional=True,
    )
    assert ("x",) not in [separator.variables for separator in cb.describe(problem).separators]


def test_the_rewards_spread_covers_what_only_actions_can_bring_about():
    """By itself, w is always 0 and y then nearly certain; an action may set it to 1, which makes y a fair coin."""
    model = cb.CausalModel([
        cb.Variable("w", [0, 1], table=[1.0, 0.0]),
        cb.Variable("v", [0, 1], table=[0.5, 0.5]),
        cb.Variable("y", [0, 1], parents=["w", "v"], table=[[[0.99, 0.01]] * 2, [[0.5, 0.5], [0.9, 0.1]]]),
    ])  # fmt: skip
    (own, *_) = cb.describe(cb.Problem(model, manipulable=["w", "v"], reward="y", optional=True)).separators
    assert own.spread == pytest.approx(0.5)
    # Not what no action leads to: here w is 1 only where v is, too.
    narrow = cb.Problem(model, manipulable=["w", "v"], reward="y", actions=[{}, {"w": 1, "v": 1}])
    assert cb.describe(narrow).separators[0].spread == pytest.approx(0.3)


def test_knobs_that_lead_nowhere_are_described_too(model):
    for settings in ({}, {"reward_parents": ["m", "w"]}):  # w is among the parents, and still does not lead to y
        found = cb.describe(
            cb.Problem(model, manipulable=["w"], reward="y" if not settings else "z0", **{"optional": True, **settings})
        )
        assert all("smallest" not in separator.name for separator in found.separators)
    idle = cb.describe(cb.Problem(model, manipulable=["w"], reward="y", optional=True))
    assert (idle.matter, idle.policy) == ((), "uniform")
    assert "all actions are equally good" in " ".join(repr(idle).split())


def test_only_bounds_that_say_something_are_shown():
    text = repr(cb.describe(cb.zoo.email_campaign()))
    words = " ".join(text.split())
    assert "not below T Delta_max" not in text
    assert "*" not in text
    assert "largest possible regret): c-ucb, cl-ucb, cl-ucb(regressor=observed), ucb, ts(prior=beta)." in words
    assert "causalbandits.theory.bound names it): c-ts(scales=given)," in words
    assert "c-ts(prior=beta) 2907.5" in words


def test_where_to_start(model):
    assert cb.describe(cb.zoo.email_campaign()).policy == IMMEDIATE_FEEDBACK.id
    assert cb.describe(cb.zoo.figure2()).policy == IMMEDIATE_FEEDBACK.id
    assert (
        cb.describe(cb.Problem(model, manipulable=["x"], reward="y", optional=True), horizon=500).policy
        == "cl-ts(scales=estimated, regressor=observed)"
    )
    assert (
        cb.describe(
            cb.Problem(model, manipulable=["x"], reward="y", adjust="smallest", optional=True), horizon=500
        ).policy
        == IMMEDIATE_FEEDBACK.id
    )


def test_it_shows_in_notebooks_and_as_a_page(tmp_path):
    found = cb.describe(cb.zoo.email_campaign().problem)
    page = found._repr_html_()
    assert "data:image/svg+xml;base64," in page
    assert "Recommended policy" in page
    write_description(found, tmp_path)
    assert "Manipulable variables" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "graph.svg").exists()


def test_huge_problems_are_described_too():
    found = cb.describe(cb.zoo.random_parallel(3, 40, theta=np.ones(40), rng=0).problem)
    assert found.policy == "cl-ts(scales=estimated, regressor=observed)"
    assert found.reachable == 2**40


def test_bad_questions():
    with pytest.raises(CausalBanditsError, match="takes a Problem or an Environment"):
        cb.describe("email")
    with pytest.raises(CausalBanditsError, match="horizon must be a whole number"):
        cb.describe(cb.zoo.figure2(), horizon=1)


def test_the_variables_that_must_be_observed_are_printed_wherever_there_are_some():
    """With known CPTs, CPTs from data and CPTs that are learned online; not where a mean per action is learned."""
    email = cb.zoo.email_campaign().problem
    fitted = email.with_model(cb.fit(email.model, email.model.sample(300, rng=0)))
    for problem in (email, fitted, email.without_cpts()):
        (line,) = [part for part in repr(cb.describe(problem)).split("\n\n") if "Must observe" in part]
        assert all(name in line for name in problem.must_observe)
        assert f"observe {', '.join(problem.must_observe)}" in repr(problem)
    per_action = cb.Problem(None, reward="sale", manipulable={"banner": ["plain", "loud"]})
    assert (per_action.must_observe, "Must observe" in repr(cb.describe(per_action))) == ((), False)
