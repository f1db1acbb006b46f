"""What is said of the best action holds on worlds that nobody tuned on, or is withdrawn, with the reason."""

import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits import zoo
from causalbandits.campaign.recommendation import Diagnostics, recommend
from causalbandits.campaign.reward_moments import RewardMoments, spreads_differ
from causalbandits.errors import ProblemError, TellError
from causalbandits.policies.stopping import empirical_bernstein_error_probability


def offers(**declared):
    model = cb.CausalModel([cb.Variable("offer", ["sure", "lottery"], table=[0.5, 0.5])])
    return cb.Problem(model, manipulable=["offer"], reward_parents=["offer"], optional=False, **declared)


def lottery(chance, prize):
    """0.5 +- 0.05 for sure, or now and then a prize."""

    def draw(offer, rng):
        return float(prize * (rng.random() < chance)) if offer == "lottery" else 0.5 + 0.05 * rng.standard_normal()

    return draw


def play(agent, draw, rounds, seed):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        offer = decision.action["offer"]
        agent.tell(decision.id, reward=draw(offer, rng), observed={"offer": offer})


@pytest.mark.parametrize("policy", [None, "c-ts", "c-gittins(prior=main-effects)", "c-ts(prior=main-effects)"])
def test_an_estimated_noise_is_no_guarantee(policy):
    # The default said "another is better with probability 9.4e-20 at most" after 50 rounds; every stop was wrong.
    for seed in range(3):
        agent = cb.Agent(offers(), policy, seed=seed)
        play(agent, lottery(0.04, 20.0), 60, seed)
        found = agent.recommend()
        assert found.stop is None
        assert found.error_probability is None
        assert "declare reward_range or noise_scale of the problem" in found.stop_reason
        assert f"Stopping rule: not available: {found.stop_reason}" in repr(found)


def test_declared_bounds_make_a_rule_that_a_rare_prize_does_not_break():
    wrong = stopped = 0
    for seed in range(12):
        agent, rng = cb.Agent(offers(reward_range=(-1.0, 20.0)), "uniform", seed=seed), np.random.default_rng(seed)
        draw = lottery(0.04, 20.0)
        for t in range(1500):
            decision = agent.ask()
            offer = decision.action["offer"]
            agent.tell(decision.id, reward=float(np.clip(draw(offer, rng), -1.0, 20.0)), observed={"offer": offer})
            if t % 100 == 99 and (found := agent.recommend()).stop:
                stopped, wrong = stopped + 1, wrong + (found.intervention["offer"] != "lottery")
                break
    assert wrong == 0


def test_the_bound_adapts_to_the_variance():
    # Rewards in [0, 100] that vary by 1: Hoeffding's inequality would need thousands of rewards.
    problem = offers(reward_range=(0.0, 100.0))
    agent = cb.Agent(problem, None, seed=0)

    def draw(offer, rng):
        return float(np.clip(50.0 + 5.0 * (offer == "lottery") + rng.standard_normal(), 0.0, 100.0))

    rng = np.random.default_rng(0)
    for offer in ["sure", "lottery"] * 2500:
        agent.tell(agent.ask(eligible=[{"offer": offer}]).id, reward=draw(offer, rng), observed={"offer": offer})
    found = agent.recommend()
    assert found.intervention == {"offer": "lottery"}
    assert found.stop is True
    hoeffding = agent.policy.error_probability(
        problem.situation(), agent._statistic, problem.actions.find({"offer": "lottery"}), 0.0
    )
    assert hoeffding > 0.05, "without the empirical Bernstein bound it would be open"


def test_the_empirical_bernstein_bound_holds_at_all_times_on_skewed_rewards():
    # Lower bound of the lead of the better of two cells; 400 runs of 600 rewards each, looked at 20 times.
    rng, errors = np.random.default_rng(3), 0
    contrasts = np.array([[0.0, 0.0], [1.0, -1.0]])
    for _ in range(400):
        first, second = 10.0 * (rng.random(600) < 0.05), 0.4 + 0.2 * rng.random(600)  # means 0.5 and 0.5: no lead
        for n in np.linspace(5, 600, 20).astype(int):
            means = np.array([first[:n].mean(), second[:n].mean()])
            variances = np.array([first[:n].var(ddof=1), second[:n].var(ddof=1)])
            for sign in (1.0, -1.0):
                gaps = np.array([0.0, sign * (means[0] - means[1])])
                if (
                    empirical_bernstein_error_probability(sign * contrasts, gaps, np.full(2, float(n)), variances, 10.0)
                    <= 0.05
                ):
                    errors += 1
                    break
            else:
                continue
            break
    assert errors <= 400 * 0.05


def test_rewards_outside_of_the_declared_range_are_refused_and_nothing_is_lost():
    agent = cb.Agent(offers(reward_range=(0, 1)), None, seed=0)
    decision = agent.ask()
    with pytest.raises(TellError, match=r"declares rewards from 0 to 1 \(reward_range\), and this reward is 1.5"):
        agent.tell(decision.id, reward=1.5, observed={"offer": decision.action["offer"]})
    agent.tell(decision.id, reward=0.5, observed={"offer": decision.action["offer"]})


@pytest.mark.parametrize("bad", [(1, 0), (0,), "01", (0, float("inf")), 5, (0, "a")])
def test_a_reward_range_is_two_finite_numbers_in_order(bad):
    with pytest.raises(ProblemError, match="reward_range must be two finite numbers"):
        offers(reward_range=bad)


@pytest.mark.parametrize("bad", [0, -1.0, "x", float("nan")])
def test_a_noise_scale_is_positive(bad):
    with pytest.raises(ProblemError, match="noise_scale must be a positive number"):
        offers(noise_scale=bad)


def test_declarations_are_part_of_the_problem():
    declared = offers(reward_range=(0, 2), noise_scale=0.3)
    again = cb.Problem.from_record(declared.to_record())
    assert (again.reward_range, again.noise_scale) == ((0.0, 2.0), 0.3)
    assert again.fingerprint == declared.fingerprint != offers().fingerprint
    assert "reward_range is None, not (0.0, 2.0)" in declared.first_difference(offers())


def test_a_declared_noise_makes_a_rule_and_rewards_that_contradict_it_withdraw_it():
    rng = np.random.default_rng(1)
    for noise, stop in ((0.1, True), (0.6, None)):
        agent = cb.Agent(offers(noise_scale=0.1), None, seed=0)
        for offer in ["sure", "lottery"] * 100:
            reward = 0.5 * (offer == "lottery") + noise * rng.standard_normal()
            agent.tell(agent.ask(eligible=[{"offer": offer}]).id, reward=reward, observed={"offer": offer})
        found = agent.recommend()
        assert found.stop is stop, noise
    assert "and noise_scale=0.1 is declared" in repr(found)


def test_where_spreads_differ_the_interval_uses_a_scale_for_each_configuration_and_says_so():
    covered, said = 0, 0
    for seed in range(40):
        agent, rng = cb.Agent(offers(), "c-ts(prior=main-effects)", seed=seed), np.random.default_rng(seed)
        for offer in ["sure"] * 60 + ["lottery"] * 60:
            reward = 0.55 + 3.0 * rng.standard_normal() if offer == "lottery" else 0.5 + 0.05 * rng.standard_normal()
            agent.tell(agent.ask(eligible=[{"offer": offer}]).id, reward=reward, observed={"offer": offer})
        found = agent.recommend()
        truth = 0.55 if found.intervention["offer"] == "lottery" else 0.5
        covered += found.lower <= truth <= found.upper
        said += "the standard deviation of rewards differs between configurations" in repr(found)
    assert said == 40
    assert covered >= 35, covered


def test_equal_spreads_are_not_called_different():
    alarms, rng = 0, np.random.default_rng(5)
    for _ in range(300):
        rewards = [rng.standard_t(5, n) for n in (12, 40, 200, 9)]
        moments = [(len(r), float(r.sum()), float((r * r).sum())) for r in rewards]
        alarms += spreads_differ(moments)
    assert alarms <= 3


def fitted_chain(rows, seed):
    """Two ways to lead to the parent, whose CPT is estimated from few rows."""
    rng = np.random.default_rng(seed)
    truth = cb.CausalModel(
        [
            cb.Variable("ad", ["a", "b", "c"], table=[1 / 3] * 3),
            cb.Variable("visit", [0, 1], parents=["ad"], table=[[0.6, 0.4], [0.55, 0.45], [0.5, 0.5]]),
        ]
    )
    ads = rng.integers(0, 3, rows)
    visits = (rng.random(rows) < np.array([0.4, 0.45, 0.5])[ads]).astype(int)
    fitted = cb.fit(truth.causal_graph, {"ad": np.array(["a", "b", "c"])[ads], "visit": visits})
    return truth, fitted


def test_probability_considers_all_actions_that_can_be_the_best_and_no_rule_stops_while_cpts_are_estimates():
    # By the mean CPT one ad dominates; by its posterior any of the three may be the best.
    _, fitted = fitted_chain(30, seed=4)
    problem = cb.Problem(fitted, manipulable=["ad"], reward_parents=["visit"], optional=False)
    agent, rng = cb.Agent(problem, "c-ts(prior=beta)", seed=0), np.random.default_rng(0)
    for _ in range(3000):
        decision = agent.ask()
        visit = int(rng.random() < 0.5)
        agent.tell(decision.id, reward=float(rng.random() < (0.8 if visit else 0.2)), observed={"visit": visit})
    found = agent.recommend()
    draws = problem.model.posterior.draw_cpts(4000, np.random.default_rng(1))["visit"][:, :, 1]
    best = ["a", "b", "c"].index(found.intervention["ad"])
    exact = float((draws.argmax(axis=1) == best).mean())
    assert found.probability == pytest.approx(exact, abs=0.06)
    assert exact < 0.9
    assert found.stop is None
    assert "CPTs are estimates from data" in repr(found)
    assert found.runner_up is not None


def test_the_probability_of_being_best_is_drawn_from_what_the_policy_believes():
    # Means are N(0, 1) beforehand, whatever the rewards' common mean: few rewards at 5 leave the unseen far below.
    model = cb.CausalModel([cb.Variable("arm", [0, 1, 2, 3], table=[0.25] * 4)])
    problem = cb.Problem(model, manipulable=["arm"], reward_parents=["arm"], optional=False)
    agent = cb.Agent(problem, "c-ts(scales=given)", seed=0)
    for arm, reward in [(0, 1.2), (0, 0.8), (1, 0.9)]:
        agent.tell(agent.ask(eligible=[{"arm": arm}]).id, reward=reward, observed={"arm": arm})
    found = agent.recommend()
    rng = np.random.default_rng(7)
    means, scales = np.array([2.0 / 3, 0.9 / 2, 0.0, 0.0]), 1 / np.sqrt([3.0, 2.0, 1.0, 1.0])
    exact = (rng.normal(means, scales, (100_000, 4)).argmax(axis=1) == found.intervention["arm"]).mean()
    assert found.probability == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("configurations", [300, 1000])
def test_intervals_with_many_configurations_know_that_their_centre_is_estimated(configurations):
    # The centre taken for known, 95% intervals covered 62 to 68%.
    covered, runs = 0, 60
    rng = np.random.default_rng(configurations)
    weights = rng.dirichlet(np.ones(configurations), 2)
    model = cb.CausalModel(
        [
            cb.Variable("knob", [0, 1], table=[0.5, 0.5]),
            cb.Variable("z", list(range(configurations)), parents=["knob"], table=weights.tolist()),
        ]
    )
    problem = cb.Problem(model, manipulable=["knob"], reward_parents=["z"], optional=False)
    policy = cb.policy("c-ts")
    situation = problem.situation()
    for _ in range(runs):
        means = 3.0 + rng.standard_normal(configurations)
        statistic = policy.init(problem)
        for _ in range(100):
            z = rng.choice(configurations, p=weights[0])
            statistic.add(z, means[z] + rng.standard_normal())
        action = situation.action(0)
        bounds = policy.interval(situation, statistic, action, 0.95)
        truth = problem.parent_distribution(action).reshape(-1) @ means
        covered += bounds.lower <= truth <= bounds.upper
    assert covered / runs >= 0.87, covered / runs


def test_declared_unit_rewards_keep_their_rule_with_the_default_policy():
    env = zoo.email_campaign()
    problem = cb.Problem(
        env.problem.model,
        manipulable=env.problem.manipulable,
        reward_parents=env.problem.parents,
        reward_range=(0, 1),
        optional=True,
    )
    agent, rng = cb.Agent(problem, None, seed=0), np.random.default_rng(0)
    for _ in range(30):
        decision = agent.ask()
        outcome = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=outcome.reward, observed=outcome.parents)
    found = agent.recommend()
    assert found.stop is False
    assert 0.0 <= found.error_probability <= 1.0


def test_a_uniform_prior_that_is_far_off_is_called_so():
    # At rates of 0.1% to 1% the interval of c-ts(prior=beta) covered 0 of 150 after 200 rounds, without a word.
    for rate, said in ((0.004, True), (0.3, False)):
        agent = cb.Agent(offers(), "c-ts(prior=beta)", seed=0)
        play(agent, lambda offer, generator, rate=rate: float(generator.random() < rate), 200, 3)
        assert ("Beta(1, 1) expects 0.5" in repr(agent.recommend())) is said


def test_a_prior_that_outweighs_the_rewards_withdraws_interval_and_probability_until_they_outweigh_it():
    # Uniform on [0, 1] beforehand, rates of 0.4%: after 200 rounds the interval was 0.003 to 0.05, above all rates.
    problem, policy = offers(), cb.policy("c-ts", prior="beta")
    situation = problem.situation()
    for rounds, is_said in ((100, False), (20_000, True)):
        statistic = policy.init(problem)
        for z in range(2):
            for k in range(rounds):
                reward = float(k % 250 == 100)
                statistic.add(z, reward)
        moments = RewardMoments(0.0, {(z,): (rounds, rounds / 250, rounds / 250) for z in range(2)})
        found = recommend(policy, situation, statistic, 0.95, 0.0, Diagnostics((), "", moments))
        assert math.isfinite(found.upper) is is_said
        assert (found.probability is not None) is is_said
        if is_said:
            assert found.lower <= 0.004 <= found.upper
        else:
            assert "estimate the prior with scales='estimated'" in repr(found)
            assert "95% credible interval not available: " in repr(found)


def banner_problem(**declared):
    """A view follows the banner, and the reward the view."""
    model = cb.CausalModel(
        [
            cb.Variable("banner", ["plain", "loud"], table=[0.5, 0.5]),
            cb.Variable("view", ["no", "yes"], parents=["banner"], table=[[0.8, 0.2], [0.2, 0.8]]),
        ]
    )
    return cb.Problem(model, manipulable=["banner"], reward_parents=["view"], **declared)


def play_banners(campaign, view_probabilities, mean, rounds, noise=0.0):
    """Both banners in turn; the first decision never gets an outcome."""
    rng = np.random.default_rng(1)
    for t in range(rounds):
        decision = campaign.ask(eligible=[{"banner": ["plain", "loud"][t % 2]}])
        is_loud = decision.action["banner"] == "loud"
        has_view = bool(rng.random() < view_probabilities[is_loud])
        reward = mean(is_loud, has_view)
        reward = float(rng.random() < reward) if not noise else float(np.clip(reward + noise * rng.normal(), 0, 1))
        if t:
            campaign.tell(decision.id, reward=reward, observed={"view": "yes" if has_view else "no"})


def test_a_guard_that_waits_for_an_outcome_does_not_vouch_for_a_model_that_a_test_rejects():
    # Its own test takes outcomes in the order of decisions: one that never comes silences it.
    agent = cb.Agent(banner_problem(reward_range=(0, 1)), "c-ts-guarded(prior=beta, on_alarm=warn)", seed=0)
    play_banners(agent, (0.2, 0.45), lambda is_loud, has_view: 0.2 + 0.6 * has_view, 1500)
    assert agent.evidence().alarms == ()
    assert min(finding.p for finding in agent.check().findings if finding.part == "tables") < 1e-50
    found = agent.recommend()
    assert (found.stop, found.error_probability) == (None, None)
    assert "misspecification test rejects the model" in found.stop_reason


@pytest.mark.parametrize("declared", [{"reward_range": (0, 1)}, {"noise_scale": 0.15}])
@pytest.mark.parametrize("arrow", [0.0, 0.2])
def test_a_study_withdraws_its_guarantee_if_the_means_of_rewards_contradict_the_graph(tmp_path, arrow, declared):
    # Of rewards other than 0 and 1 a study keeps sums: a green "met" stood beside outcomes that rule the graph out.
    with cb.Study.create(tmp_path / "campaign.db", banner_problem(**declared), "c-ucb") as study:
        play_banners(study, (0.2, 0.8), lambda is_loud, has_view: 0.2 + 0.4 * has_view + arrow * is_loud, 2400, 0.1)
        found, findings = study.recommend(), study.quick_check().contradicted
    if arrow:
        assert (found.stop, found.error_probability) == (None, None)
        assert "misspecification test rejects the model" in found.stop_reason
        assert [finding.variables for finding in findings] == [("banner",)]
    else:
        assert found.stop is True
        assert findings == ()
