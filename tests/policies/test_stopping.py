"""The stopping rule: what it bounds, by simulation and by hand, and how often it errs under adaptive play."""

import itertools
import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits import zoo
from causalbandits.errors import BudgetError, CausalBanditsError, PolicyError
from causalbandits.policies import Outcome, situation_for
from causalbandits.policies.stopping import (
    WIDTHS,
    combine_error_bounds,
    common_mean_p_value,
    log_error_bounds,
    mixture_penalty,
    threshold,
)

LOOKS = np.unique(np.geomspace(20, 3000, 40).astype(int))


def risk_by_hand(problem, count, total, best, noise, tolerance=0.0, context=None):
    """The least delta at which every rival's gap exceeds its width, straight from the definition."""
    problem = problem if context is None else problem.condition(context)
    rows = problem.parent_distributions().reshape(problem.actions.size, -1)
    means = np.divide(total, count, where=count > 0, out=np.zeros(len(count)))
    costs = np.array([problem.cost(problem.actions[a]) for a in range(len(rows))])
    values = rows @ means - costs
    found = 0.0
    for b in range(len(rows)):
        apart, gap = rows[best] - rows[b], values[best] - values[b] + tolerance
        if np.abs(apart).max() < 1e-12:
            continue
        if gap <= 0 or any(abs(d) > 1e-12 and n == 0 for d, n in zip(apart, count, strict=True)):
            return 1.0
        by_width = []
        for c in WIDTHS:
            price = math.log(3) + sum(0.5 * math.log(1 + n / c) for n in count)
            variance = sum(d * d * (n + c) / (n * n) for d, n in zip(apart, count, strict=True) if n)
            by_width.append(math.exp(price - gap * gap / (2 * noise * noise * variance)))
        found = max(found, min(by_width))
    return min(1.0, found)


@pytest.mark.parametrize("tolerance", [0.0, 0.05])
@pytest.mark.parametrize("costs", [None, {"send_time": {"morning": 0.03}, "product": 0.01}])
def test_the_risk_is_what_its_definition_says(costs, tolerance):
    env = zoo.email_campaign()
    problem = cb.Problem(
        env.problem.model,
        manipulable=env.problem.manipulable,
        reward_parents=env.problem.parents,
        costs=costs,
        optional=True,
    )
    policy, rng = cb.policies.CausalThompsonSampling(prior="gaussian", noise_scale=0.3), np.random.default_rng(4)
    for _ in range(20):
        cells = policy.init(problem)
        cells.count[:] = rng.integers(0, 5, 12) * rng.integers(0, 2000, 12) + (rng.random() < 0.8)
        cells.total[:] = cells.count * (env.configuration_means + 0.01 * rng.standard_normal(12))
        situation = situation_for(policy, problem)
        best = policy.incumbent(situation, cells).action
        found = policy.error_probability(situation, cells, best, tolerance)
        expected = risk_by_hand(problem, cells.count, cells.total, best.number, 0.3, tolerance)
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-200)


def test_the_risk_of_a_baseline_is_that_of_a_number_for_every_action():
    env, policy = zoo.email_campaign(), cb.policies.UCB(noise_scale=0.5)
    cells, rng = policy.init(env.problem), np.random.default_rng(5)
    cells.count[:] = rng.integers(100_000, 200_000, 80)
    cells.total[:] = cells.count * env.means
    situation = situation_for(policy, env.problem)
    best = policy.incumbent(situation, cells).action
    for tolerance in (0.0, 0.02):
        doubt, m = -math.inf, cells.count[best.number]
        for b, n in enumerate(cells.count):
            gap = env.means[best.number] - env.means[b] + tolerance
            if b != best.number:
                own = [
                    0.5 * math.log((1 + n / c) * (1 + m / c))
                    + math.log(3 * 80 * 79 / 2)
                    - (gap * gap / (2 * 0.25 * ((n + c) / n**2 + (m + c) / m**2)) if gap > 1e-12 else 0.0)
                    for c in WIDTHS
                ]
                doubt = max(doubt, min(own))
        expected = math.exp(min(0.0, doubt))
        assert policy.error_probability(situation, cells, best, tolerance) == pytest.approx(expected, rel=1e-9)
    assert policy.error_probability(situation, cells, best, 0.0) == 1.0  # two products are equally good
    assert policy.error_probability(situation, cells, best, 0.02) < 1e-9


def test_the_risk_in_a_context_is_that_of_the_problem_there():
    env, policy = zoo.email_segments(), cb.policies.CausalUCB(noise_scale=0.5)
    cells = policy.init(env.problem)
    cells.count[:] = np.arange(12) * 700.0 + 3000
    cells.total[:] = cells.count * env.configuration_means
    for segment in env.problem.model["segment"].states:
        context = {"segment": segment}
        situation = situation_for(policy, env.problem.condition(context))
        best = policy.incumbent(situation, cells).action
        expected = risk_by_hand(env.problem, cells.count, cells.total, best.number, 0.5, context=context)
        assert policy.error_probability(situation, cells, best, 0.0) == pytest.approx(expected, rel=1e-6)


def test_the_threshold_and_the_risk_say_the_same():
    rng = np.random.default_rng(6)
    for _ in range(50):
        count, gaps = rng.integers(1, 3000, 7).astype(float), rng.random(5) * 0.3
        variances, noise, c = rng.random(5) * 0.01, 0.2 + rng.random(), float(rng.choice(WIDTHS))
        found = combine_error_bounds([log_error_bounds(gaps, variances, mixture_penalty(count, c), noise)])
        for delta in (0.3, 0.05, 1e-3, 1e-9):
            stops = bool((gaps > noise * np.sqrt(2 * threshold(count, delta, c) * variances)).all())
            assert stops == (found < delta)


def test_with_probability_1_minus_delta_the_bound_holds_at_all_times_and_hardly_more():
    """2,000 adaptive runs: the cell is chosen by its own past, greedily, so that its mean is biased."""
    runs, rounds, cells, rng = 2000, 1500, 4, np.random.default_rng(7)
    count, total = np.zeros((runs, cells)), np.zeros((runs, cells))
    most = np.full(runs, -math.inf)
    every = np.arange(runs)
    for _ in range(rounds):
        score = total / np.maximum(1, count) + (count == 0) * 9.0
        cell = np.where(rng.random(runs) < 0.2, rng.integers(cells, size=runs), score.argmax(axis=1))
        total[every, cell] += rng.standard_normal(runs)
        count[every, cell] += 1
        for c in WIDTHS:
            evidence = (total**2 / (2 * (count + c))).sum(axis=1) - 0.5 * np.log1p(count / c).sum(axis=1)
            most = np.maximum(most, evidence - math.log(len(WIDTHS)))
    for delta in (0.05, 0.2):
        rate = float((most >= math.log(1 / delta)).mean())
        error = math.sqrt(delta * (1 - delta) / runs)
        assert rate <= delta + 3 * error  # fails with probability 0.001 if the bound were just met
        assert rate >= delta / 8


@pytest.mark.filterwarnings("ignore:No path leads")
def test_the_error_is_at_most_delta_under_adaptive_play_on_random_worlds():
    """800 runs; the wrong action is often the best so far when the rule is asked. Hardly any stop is wrong: half
    of what is allowed is a bar that does not depend on the number of runs."""
    policies = {"c-ts(prior=beta)": cb.policy("c-ts", prior="beta"), "c-ucb": cb.policies.CausalUCB(noise_scale=0.5)}
    run = cb.simulate(
        lambda rng: zoo.random_world(6, rng=rng), policies, horizon=500, replications=400, seed=3,
        measures=["error probability", "simple regret"],
        rounds=[25, 50, 75, 100, 150, 200, 300, 400, 500], progress=False,
    )  # fmt: skip
    early = [float((run.measure("simple regret", name)[:, 0] > 1e-9).mean()) for name in policies]
    assert min(early) > 0.02  # there is something to be wrong about
    for delta in (0.05, 0.2):
        for own in run.stopping(delta):
            assert own.stopped > 0.1
            assert own.error_rate <= delta / 2


def test_equal_actions_never_stop_unless_an_epsilon_says_what_is_good_enough(tmp_path):
    env = zoo.email_campaign()
    settings = {
        "horizon": 3000,
        "replications": 5,
        "seed": 1,
        "measures": ["error probability", "simple regret"],
        "progress": False,
    }
    policy = cb.policies.UCB(noise_scale=0.01)  # far too sure: even so, two products are equally good
    exact = cb.simulate(env, policy, rounds=LOOKS, **settings)
    loose = cb.simulate(env, policy, rounds=LOOKS, tolerance=0.2, **settings)
    assert exact.stopping(0.05)[0].stopped <= loose.stopping(0.05, tolerance=0.2)[0].stopped
    assert loose.stopping(0.05) == loose.stopping(0.05, tolerance=0.2)  # the run knows what it was made with
    loose.save(tmp_path / "run.npz")
    assert cb.Run.load(tmp_path / "run.npz").stopping(0.05).tolerance == 0.2
    assert (loose.measure("error probability", policy.id) <= exact.measure("error probability", policy.id)).all()


def test_a_run_says_when_its_policies_stopped_and_how_often_wrongly():
    rounds = np.array([10, 20, 30])
    risk = {"a": np.array([[1, 0.04, 0.01], [1, 1, 0.2], [0.01, 0.5, 0.5], [1, 1, 0.05]])}
    lost = {"a": np.array([[0.3, 0.0, 0.3], [0, 0, 0], [0.3, 0.0, 0.0], [0.3, 0.3, 0.05]])}
    regret = {"a": np.zeros((4, 3))}
    run = cb.Run(
        rounds=rounds,
        measures={"regret": regret, "error probability": risk, "simple regret": lost},
        seed=0,
        environment="by hand",
    )
    (own,) = run.stopping(0.05)
    assert own.stopped == 0.75
    assert own.rounds == (20 + 30 + 10 + 30) / 4
    assert own.median == 20
    assert own.error_rate == 0.5
    assert run.stopping(0.05, tolerance=0.1)[0].error_rate == 0.25
    assert run.stopping(0.005)[0].median == math.inf
    assert "wrong (at most 0.05)" in repr(run.stopping(0.05))
    assert run.stopping(0.05).to_pandas()["stopped"].tolist() == [0.75]
    (line,) = run.plot_stopping(delta=0.05).axes[0].lines
    assert line.get_ydata().tolist() == [0.25, 0.5, 0.75]
    with pytest.raises(CausalBanditsError, match="delta, the error probability,"):
        run.stopping(1.0)


def test_compiled_and_plain_runs_have_the_same_risk():
    env, policies = zoo.email_campaign(), ["c-ts(prior=beta)", "ts(prior=beta)"]
    settings = {
        "horizon": 600,
        "seed": 2,
        "measures": ["error probability", "simple regret"],
        "rounds": range(50, 601, 50),
    }
    plain = cb.simulate(env, policies, replications=1, progress=False, **settings)
    compiled = cb.simulate(env, policies, replications=45, progress=False, **settings)
    for name in policies:
        assert (plain.measure("error probability", name)[0] == compiled.measure("error probability", name)[0]).all()


def test_what_has_no_rule_is_refused():
    env = zoo.email_campaign()
    with pytest.raises(PolicyError, match=r"The policy 'hac-ucb\(horizon=10\)' has no valid stopping rule:"):
        cb.simulate(env, "hac-ucb", horizon=10, replications=1, measures="error probability")
    with pytest.raises(CausalBanditsError, match="tolerance, the acceptable loss in mean reward"):
        cb.simulate(env, "c-ucb", horizon=10, replications=1, measures="error probability", tolerance=-1.0)
    priced = cb.Problem(
        env.problem.model,
        manipulable=env.problem.manipulable,
        reward_parents=env.problem.parents,
        costs={"product": 0.1},
        optional=True,
    )
    with pytest.raises(BudgetError, match="mixture of two"):
        cb.simulate(
            cb.Environment(priced, env.reward),
            "c-ucb",
            horizon=10,
            replications=1,
            measures="error probability",
            budget=1.0,
        )


def told(agent, env, rounds, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)


def test_a_recommendation_says_how_sure_it_is_and_whether_to_stop():
    env = zoo.figure2()
    agent = cb.Agent(env.problem, cb.policies.CausalThompsonSampling(noise_scale=0.1, prior_scale=0.3), seed=1)
    before = agent.recommend()
    assert before.stop is False
    assert before.error_probability == 1.0
    told(agent, env, 300)
    after = agent.recommend(tolerance=0.1)
    assert after.intervention == env.best().intervention
    assert after.probability > 0.95
    assert 0 <= after.expected_loss < 0.01
    assert after.stop is (after.error_probability <= 0.05)
    assert after.stop
    assert after.stop_reason.endswith(" <= 0.05")
    assert f"Stopping rule: met ({after.stop_reason})" in repr(after).splitlines()
    assert before.stop_reason == "error bound 1 > 0.05"
    assert agent.recommend(tolerance=0.1).certainty == after.certainty
    assert agent.recommend(tolerance=0.0).error_probability == pytest.approx(8.3e-24, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_rounding_does_not_decide_whether_to_stop(seed):
    # An action's lead over itself is computed by two summations; what rounding leaves of it must not count as a rival.
    env = zoo.figure2()
    policy = cb.policies.CausalThompsonSampling(noise_scale=0.1)
    cells, situation = policy.init(env.problem), situation_for(policy, env.problem)
    rng, risks = np.random.default_rng(seed), []
    for scale in 1.0 + rng.random(40):
        cells.count[:], cells.total[:] = 1e6, 1e6 * env.configuration_means * scale
        risks.append(policy.error_probability(situation, cells, policy.incumbent(situation, cells).action, 0.0))
    assert max(risks) < 1e-100


def test_the_probability_of_being_the_best_is_that_of_the_posterior():
    env = zoo.email_campaign()
    agent = cb.Agent(env.problem, "c-ts(prior=beta)", seed=3)
    told(agent, env, 200)
    found = agent.recommend()
    cells, rng = agent._statistic, np.random.default_rng(8)
    rows = env.problem.parent_distributions().reshape(80, -1)
    values = rng.beta(1 + cells.total, 1 + cells.count - cells.total, (20_000, 12)) @ rows.T
    own = values[:, env.problem.actions.find(found.intervention).number]
    lost = values.max(axis=1) - own
    assert found.probability == pytest.approx((lost <= 1e-9).mean(), abs=0.06)
    assert found.expected_loss == pytest.approx(lost.mean(), rel=0.2)


def test_every_context_is_judged_by_itself():
    env = zoo.email_segments()
    agent, rng = cb.Agent(env.problem, "c-ts(prior=beta)", seed=1), np.random.default_rng(1)
    for _ in range(200):
        context = env.draw_context(rng)
        decision = agent.ask(context=context)
        seen = env.pull(decision.action, rng, context)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)
    found = agent.recommendations(tolerance=0.1)
    assert len(found) == 3
    assert len({own.probability for _, own in found}) > 1
    assert all(own.error_probability is not None and own.certainty.tolerance == 0.1 for _, own in found)


def test_there_is_no_stopping_rule_while_cpts_are_learned_and_the_reason_is_given():
    env = zoo.email_campaign()
    agent = cb.Agent(env.problem.without_cpts(), "c-ts(prior=beta, cpts=learned)", seed=1)
    told(agent, env, 100)
    found = agent.recommend(confidence=0.5, tolerance=0.9)
    assert found.stop is None
    assert found.error_probability is None
    assert found.stop_reason == "CPTs are learned online; plan a number of rounds with cb.forecast"
    assert f"Stopping rule: not available: {found.stop_reason}" in repr(found).splitlines()
    assert cb.Agent(env.problem, "c-ts(prior=beta)", seed=1).recommend().certainty.obstacle == ""


def test_what_is_good_enough_must_be_a_number():
    with pytest.raises(CausalBanditsError, match="tolerance, the acceptable loss"):
        cb.Agent(zoo.email_campaign().problem, "c-ucb", seed=1).recommend(tolerance=math.nan)


def shop_with_residue(residue):
    """Two banners; a device that would be a `tablet` with a probability that is 0, but for rounding."""
    shares = {"plain": [0.8, 0.2 - residue, residue], "loud": [0.3, 0.7, 0.0]}
    return cb.Problem(
        cb.CausalModel(
            [
                cb.Variable("banner", ["plain", "loud"], table=[0.5, 0.5]),
                cb.Variable("device", ["phone", "desktop", "tablet"], parents=["banner"], table=list(shares.values())),
            ]
        ),
        manipulable=["banner"],
        reward_parents=["device"],
    )


def test_a_probability_that_rounding_leaves_of_zero_does_not_undo_the_rule():
    # 1 - 0.7 - 0.2 - 0.1 is 2.8e-17: no reward of such a configuration is ever seen, and none is needed.
    policy, bounds = cb.policies.CausalUCB(noise_scale=0.5), []
    for residue in (0.0, 2.8e-17, 1e-16):
        problem = shop_with_residue(residue)
        cells = policy.init(problem)
        cells.count[:], cells.total[:] = (4000.0, 4000.0, 0.0), (3000.0, 1000.0, 0.0)
        situation = situation_for(policy, problem)
        bounds.append(policy.error_probability(situation, cells, policy.incumbent(situation, cells).action, 0.0))
    assert bounds[0] < 1e-100
    assert bounds == pytest.approx([bounds[0]] * 3, rel=1e-9, abs=0.0)
    unseen = shop_with_residue(1e-6)  # a configuration that can occur has to be seen
    situation = situation_for(policy, unseen)
    assert policy.error_probability(situation, cells, policy.incumbent(situation, cells).action, 0.0) == 1.0


@pytest.mark.parametrize("unit", [1.0, 1e6])
@pytest.mark.parametrize("family", ["c-ucb", "cl-ucb(regressor=observed)"])
def test_equal_costs_that_rounding_tells_apart_do_not_undo_the_rule(family, unit):
    # 0.1 + 0.2 is not 0.3: two actions with the same effects and the same cost, but for rounding.
    model = cb.CausalModel(
        [
            cb.Variable("a", ["no", "yes"], table=[0.5, 0.5]),
            cb.Variable("b", ["no", "yes"], table=[0.5, 0.5]),
            cb.Variable("c", ["no", "yes"], table=[0.5, 0.5]),
            cb.Variable("view", ["no", "yes"], parents=["c"], table=[[0.9, 0.1], [0.1, 0.9]]),
        ]
    )
    costs = {"a": {"no": 0.1 * unit, "yes": 0.3 * unit}, "b": {"no": 0.2 * unit, "yes": 0.0}}

    def is_cheaper(do):
        return do["a"] == "no" and do["b"] == "yes"

    problem = cb.Problem(model, manipulable=["a", "b", "c"], reward_parents=["view"], costs=costs, forbid=is_cheaper)
    policy = cb.policy(family, noise_scale=0.5)
    situation, statistic = situation_for(policy, problem), policy.init(problem)
    for action, z in itertools.product(map(situation.action, range(situation.size)), [0, 1, 1, 1] * 300):
        policy.update(situation, statistic, Outcome(action, (z,), float(z), float(z), 0))
    for position in range(situation.size):
        action = situation.action(position)
        if action.intervention["c"] == "yes" and action.intervention["a"] == action.intervention["b"]:
            assert policy.error_probability(situation, statistic, action, 0.0) < 1e-20


def test_a_common_mean_is_rejected_by_mistake_as_rarely_as_the_p_value_says():
    # The group with the larger mean so far gets the next reward, and one looks 40 times; 0.2 of the runs may err.
    rng, looks = np.random.default_rng(7), np.unique(np.geomspace(10, 1500, 40).astype(int))
    errors = 0
    for _ in range(200):
        count, total, squares = np.zeros((2, 3)), np.zeros((2, 3)), np.zeros((2, 3))
        smallest = 1.0
        for t in range(1500):
            z = int(rng.integers(2))
            group = int((total[z] / np.maximum(1, count[z]) + (count[z] < 2)).argmax())
            reward = float(rng.random() < (0.2, 0.6)[z])
            count[z, group], total[z, group] = count[z, group] + 1, total[z, group] + reward
            squares[z, group] += reward
            if t in looks:
                means = total / np.maximum(1, count)
                variances = (squares - count * means**2) / np.maximum(1, count - 1)
                smallest = min(smallest, common_mean_p_value(count, means, variances, 0.5, 1.0))
        errors += smallest <= 0.2
    assert errors <= 52  # 40 and two standard errors; the bound is cautious


def test_means_that_differ_are_found_however_small_the_variance_is():
    count, means = np.full((1, 2), 20_000.0), np.array([[0.5, 0.515]])
    by_range = common_mean_p_value(count, means, np.full((1, 2), 0.25), 0.5, 1.0)
    by_variance = common_mean_p_value(count, means, np.full((1, 2), 1e-4), 0.5, 1.0)
    assert by_range > 0.05 > 1e-9 > by_variance
    assert common_mean_p_value(count, means, np.full((1, 2), 1e-4), 0.01, None) < 1e-100
    assert common_mean_p_value(count, np.full((1, 2), 0.5), np.full((1, 2), 1e-4), 0.01, 1.0) == 1.0
