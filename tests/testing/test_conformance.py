"""Every registered policy keeps the rules, and the checks see it when one does not."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.errors import PolicyError
from causalbandits.policies.feedback import Choice, sample_choice
from causalbandits.policies.statistics import Cells
from causalbandits.problem.projection.argmax import Scores
from causalbandits.testing.conformance import CHECKS, check_identity, check_policy
from oracles.policies import POLICIES


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("id", POLICIES)
def test_registered_policies_conform(id, check):
    check(cb.policy(id))


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("id", ["ucb", "c-ucb", "cl-ucb", "kl-ucb", "c-kl-ucb", "c-ucb(scales=estimated)"])
def test_anytime_forms_conform(id, check):
    check(cb.policy(id, anytime=True))


@pytest.mark.parametrize(
    ("causal", "plain"),
    [
        ("c-ucb", "ucb"),
        ("c-ts(prior=beta)", "ts(prior=beta)"),
        ("c-ts(scales=given)", "ts(scales=given)"),
        ("c-kl-ucb", "kl-ucb"),
        ("c-ts", "ts"),
        ("c-ucb(scales=estimated)", "ucb(scales=estimated)"),
    ],
)
def test_causal_policies_are_the_plain_ones_where_P_is_the_identity(causal, plain):
    check_identity(cb.policy(causal), cb.policy(plain))


def test_identity_holds_with_scales_and_anytime():
    scales = {"noise_scale": 0.3, "prior_scale": 2.0}
    check_identity(cb.policies.CausalUCB(anytime=True, **scales), cb.policies.UCB(anytime=True, **scales))
    check_identity(cb.policies.CausalThompsonSampling(**scales), cb.policies.ThompsonSampling(**scales))


def test_identity_tells_different_policies_apart():
    with pytest.raises(AssertionError, match="must have equal scores"):
        check_identity(cb.policies.CausalUCB(noise_scale=0.5), cb.policies.UCB())


@dataclass(frozen=True, kw_only=True)
class Broken(cb.policies.Uniform):
    """Uniform, but wrong in the way that `fault` names."""

    fault: str = ""

    @property
    def id(self):
        return "broken"

    def score(self, situation, statistic, rng):
        size = situation.size
        if self.fault == "impure":
            statistic.total[0] += 1.0
        if self.fault == "unseeded":
            return Scores(np.random.default_rng().random(size), 1.0)
        if self.fault == "numbered":
            return Scores(rng.random(size) + np.arange(size), 1.0)
        if self.fault == "forgetful":
            return Scores(rng.random(size) + getattr(statistic, "hidden", 0), 1.0)
        return Scores(rng.random(size), 1.0)

    def decide(self, situation, statistic, rng):
        if self.fault == "stubborn":
            return Choice(situation.action(7))
        if self.fault == "spendthrift" and situation.is_paced:
            return Choice(max(map(situation.action, range(situation.size)), key=situation.problem.cost))
        if self.fault == "meddling":
            statistic.count[3] += 1.0
        if self.fault == "outside" and situation.size == 3:
            return Choice(situation.problem.actions.action(78))
        if self.fault == "number":
            return 3
        if self.fault == "false propensity":
            actions = [situation.action(i) for i in range(situation.size)]
            return sample_choice(actions, rng)._replace(propensity=0.5)
        return super().decide(situation, statistic, rng)

    def update(self, situation, statistic, outcome):
        super().update(situation, statistic, outcome)
        if self.fault == "forgetful":
            statistic.hidden = getattr(statistic, "hidden", 0) + 1
        if self.fault == "random update":
            statistic.total[0] += np.random.default_rng().random()
        if self.fault == "ordered":
            statistic.total[0] += outcome.reward / statistic.rounds

    def from_sums(self, problem, sums):
        cells = super().from_sums(problem, sums)
        if self.fault == "wrong sums":
            cells.total[5] += 1.0
        return cells


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ("impure", "changed the statistic"),
        ("unseeded", "same random numbers differ"),
        ("numbered", "numbered"),
        ("forgetful", "after saving it as JSON and loading it"),
        (
            "stubborn",
            r"decide\(\) chooses do\(purpose=Operational, send_time=evening\) in 400 of 400 draws, and",
        ),
        ("meddling", r"decide\(\) changed the statistic"),
        ("outside", "is not one of the 3 actions to choose from"),
        ("number", r"decide\(\) must return a Choice; it returned a int"),
        ("false propensity", "propensity must be the action's probability"),
        ("random update", "the same outcomes gave two different statistics"),
        ("wrong sums", "the statistic from sums"),
        ("ordered", r"the same outcomes in another order gave another statistic \(total\)"),
        ("spendthrift", r"within a budget, decide\(\) must choose an affordable"),
    ],
)
def test_a_broken_policy_is_caught(fault, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_policy(Broken(fault=fault))
    check_policy(Broken())


def test_a_policy_without_chance_must_decide_by_its_scores():
    class Contrary(cb.policies.CausalUCB):
        def decide(self, situation, statistic, rng):
            return Choice(situation.action(situation.size - 1), 1.0)

    with pytest.raises(AssertionError, match=r"decide\(\) must choose the first action with the"):
        check_policy(Contrary())


@pytest.mark.parametrize("draws", [2, 16])
@pytest.mark.parametrize("id", ["c-ts(prior=beta)", "ts(scales=given)", "cl-ts"])
def test_several_draws_keep_the_rules(id, draws):
    check_policy(cb.policy(id, samples=draws))


def test_the_checks_check_without_assert_statements():
    program = (
        "import causalbandits as cb\nfrom causalbandits.testing import check_policy\n"
        "class Meddling(cb.policies.CausalUCB):\n"
        "    def score(self, situation, statistic, rng):\n"
        "        statistic.total[0] += 1\n"
        "        return super().score(situation, statistic, rng)\n"
        "check_policy(Meddling())\n"
    )
    done = subprocess.run([sys.executable, "-O", "-c", program], capture_output=True, text=True, check=False)
    assert "AssertionError: c-ucb: score() changed the statistic." in done.stderr


@dataclass(frozen=True, kw_only=True)
class Own(cb.Policy):
    """A policy whose score and statistic are what the test says."""

    gives: str = "infinity"
    id = "own"

    def init(self, problem):
        return {} if self.gives == "dict" else Cells.empty(problem.configurations)

    def score(self, situation, cells, rng):
        optimistic = np.where(cells.count > 0, cells.means(), np.inf)
        if self.gives == "array":
            return cells.means()
        with np.errstate(invalid="ignore"):
            return situation.project(optimistic if self.gives == "infinity" else cells.means()[:3])

    def update(self, situation, cells, outcome):
        cells.add(situation.problem.configuration(outcome.z), outcome.reward)


@pytest.mark.parametrize(
    ("gives", "complaint"),
    [
        ("infinity", "Scores must be finite"),
        ("array", r"score\(\) must return Scores, from situation.project.* it returned a ndarray"),
        ("dict", r"init\(\) must return a Statistic.* it returned a dict"),
        ("few", "one number per configuration, 12 of them; got shape"),
    ],
)
def test_what_is_no_score_or_statistic_is_refused_where_it_is_used(gives, complaint):
    env = cb.zoo.email_campaign()
    with pytest.raises(PolicyError, match=complaint):
        cb.simulate(env, [Own(gives=gives)], horizon=5, replications=1)
    with pytest.raises(PolicyError, match=complaint):
        cb.Agent(env.problem, Own(gives=gives)).ask()
    with pytest.raises((PolicyError, AssertionError), match="finite" if gives == "infinity" else complaint):
        check_policy(Own(gives=gives))


@pytest.mark.parametrize(
    ("method", "gives", "complaint"),
    [
        ("decide", 3, r"decide\(\) must return a Choice.* it returned 3"),
        ("incumbent", (3, 0.5), r"incumbent\(\) must return an Incumbent.* it returned a tuple"),
        ("interval", (0, 1), r"interval\(\) must return Bounds.* it returned a tuple"),
    ],
)
def test_what_is_no_choice_incumbent_or_bounds_is_refused_where_it_is_used(method, gives, complaint):
    odd = type("Odd", (cb.policies.CausalUCB,), {method: lambda self, *arguments: gives})()
    env = cb.zoo.email_campaign()
    agent = cb.Agent(env.problem, odd)
    with pytest.raises(PolicyError, match=complaint):
        agent.ask() if method == "decide" else agent.recommend()
    if method != "interval":
        with pytest.raises(PolicyError, match=complaint):
            cb.simulate(env, {"it": odd}, horizon=5, replications=1, measures="simple regret")


def overriding(**methods):
    """C-UCB with some methods of its own."""
    return type("Odd", (cb.policies.CausalUCB,), methods)()


@pytest.mark.parametrize("values", [np.arange(80.0), np.arange(3.0), [1.0] * 12, np.zeros((2, 12)), np.zeros(0)])
def test_scores_that_are_not_one_for_each_searched_action_are_refused(values):
    odd = overriding(score=lambda self, situation, cells, rng: Scores(values, 1.0))
    env = cb.zoo.email_campaign()
    for use in (lambda: cb.Agent(env.problem, odd).ask(), lambda: cb.simulate(env, odd, horizon=3, replications=1)):
        with pytest.raises(PolicyError, match="one score for each of the 12 searched actions"):
            use()


def test_an_action_that_is_not_eligible_or_a_propensity_that_is_none_is_refused():
    problem = cb.zoo.email_campaign().problem
    elsewhere = cb.zoo.figure2().problem.actions.action(3)
    for action, propensity, complaint in (
        (problem.actions.action(5), None, "must choose an eligible action; it chose do"),
        (elsewhere, None, "must choose an eligible action"),
        (problem.actions.action(0), 2.0, r"propensity must lie in \(0, 1\]"),
        (problem.actions.action(0), float("nan"), "propensity must lie"),
        (cb.Intervention(), None, "must return a Choice"),
    ):
        odd = overriding(decide=lambda self, s, c, rng, a=action, p=propensity: Choice(a, p))
        with pytest.raises(PolicyError, match=complaint):
            cb.Agent(problem, odd).ask(eligible=[{}])


def test_a_policy_that_draws_must_say_so():
    drawing = overriding(
        score=lambda self, s, cells, rng: s.project(self.index(cells, rng) + rng.random(len(cells.count)))
    )
    with pytest.raises(AssertionError, match=r"random numbers, so traits\.randomised must not be False"):
        check_policy(drawing)


def test_a_statistic_that_could_not_be_read_back_is_refused_at_the_start():
    @dataclass(eq=False)
    class Odd(Cells):
        names: list

    odd = overriding(init=lambda self, problem: Odd(0, np.zeros(12), np.zeros(12), []))
    with pytest.raises(PolicyError, match="its names is a list"):
        cb.Agent(cb.zoo.email_campaign().problem, odd)


def test_numbers_of_a_statistic_may_be_negative_and_of_numpys_types(tmp_path):
    @dataclass(eq=False)
    class Sums(Cells):
        overall: float
        last: int

    class Summing(cb.policies.CausalUCB):
        def init(self, problem):
            return Sums(0, np.zeros(problem.configurations), np.zeros(problem.configurations), 0.0, 0)

        def update(self, situation, sums, outcome):
            super().update(situation, sums, outcome)
            sums.overall, sums.last = sums.overall + outcome.reward, np.int64(outcome.number)

    env = cb.zoo.email_campaign()
    agent = cb.Agent(env.problem, Summing())
    decision = agent.ask()
    agent.tell(decision.id, reward=-3, observed=env.pull(decision.action, 0).parents)
    agent.save(tmp_path / "a.json")
    assert cb.Agent.load(tmp_path / "a.json", policy=Summing())._statistic.overall == -3.0


def test_only_policies_can_be_checked():
    with pytest.raises(PolicyError, match="takes a policy, such"):
        check_policy("c-ucb")
