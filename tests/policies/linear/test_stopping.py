"""When to stop by a line: it is the rule of the cells where features tell these apart, and errs rarely enough."""

import math

import numpy as np
import pytest

import causalbandits as cb
from causalbandits import zoo
from causalbandits.policies import situation_for
from causalbandits.policies.stopping import WIDTHS, contrasts_with_rivals, linear_log_error_bounds, observed_directions

IDS = ("cl-ucb", "cl-ts", "cl-ucb(regressor=observed)", "cl-ts(regressor=observed)", "lin-ucb", "lin-ts")


def told(agent, env, rounds, seed=1):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = agent.ask()
        seen = env.pull(decision.action, rng)
        agent.tell(decision.id, reward=seen.reward, observed=seen.parents)


def regression(policy, problem, rng, rounds=400):
    """What a policy keeps of rounds of all actions, and the cells of the same rounds."""
    env, kept, cells = zoo.email_campaign(), policy.init(problem), cb.policies.CausalUCB().init(problem)
    for _ in range(rounds):
        action = problem.actions.action(int(rng.integers(problem.actions.size)))
        seen = env.pull(action.intervention, rng)
        z = problem.encode_parents(seen.parents)
        kept.add(policy.regressors(problem, action, z), seen.reward)
        cells.add(problem.configuration(z), seen.reward)
    return kept, cells


def indicators(problem):
    """A feature for each configuration."""
    eye = np.eye(problem.configurations).reshape(*problem.shape, -1)
    return lambda **z: eye[problem.encode_parents(z)]


@pytest.mark.parametrize("costs", [None, {"send_time": {"morning": 0.03}, "product": 0.01}])
@pytest.mark.parametrize("rounds", [30, 3000])
def test_with_an_indicator_of_each_configuration_it_is_the_rule_of_the_cells(costs, rounds):
    p = zoo.email_campaign().problem
    problem = cb.Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=costs, optional=True)

    def features(subject, template, send_time):
        return indicators(problem)(subject=subject, template=template, send_time=send_time)

    line = cb.policies.CausalLinearUCB(regressor="observed", features=features, noise_scale=0.1)
    by_cells = cb.policies.CausalUCB(noise_scale=0.1)
    kept, cells = regression(line, problem, np.random.default_rng(1), rounds)
    situation = situation_for(by_cells, problem)
    found = []
    for position in range(3):
        action = situation.action(position)
        for tolerance in (0.0, 0.1, 0.2, 0.5):
            found.append(by_cells.error_probability(situation, cells, action, tolerance))
            assert line.error_probability(situation_for(line, problem), kept, action, tolerance) == pytest.approx(
                found[-1], rel=1e-5
            )
    assert rounds == 30 or any(1e-200 < own < 1 for own in found)


def in_units(states, unit):
    """An indicator of each state, so large."""
    return lambda value: unit * np.array([value == own for own in states], dtype=float)


def test_the_units_of_features_do_not_matter():
    problem, found = zoo.email_campaign().problem, []
    for unit in (1.0, 1000.0, 1e140, 1e-140):
        tables = {name: in_units(problem.variable(name).states, unit) for name in problem.parents}
        line = cb.policies.CausalLinearThompsonSampling(regressor="observed", features=tables, noise_scale=0.3)
        kept, _ = regression(line, problem, np.random.default_rng(2), 2000)
        situation = situation_for(line, problem)
        found.append(line.error_probability(situation, kept, line.incumbent(situation, kept).action, 0.1))
    assert 1e-200 < found[0] < 0.5
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[2] == pytest.approx(found[1], rel=1e-4)
    assert found[3] == 1.0  # nothing but the prior is left of such features


def test_changes_of_one_block_decide_about_all_combinations():
    rng = np.random.default_rng(3)
    env = zoo.random_parallel(2, 5, rng.random(5), rng=rng)
    line = cb.policies.CausalLinearThompsonSampling(noise_scale=0.1)
    kept, situation = line.init(env.problem), situation_for(line, env.problem)
    for _ in range(60):
        action = situation.action(int(rng.integers(situation.size)))
        z, reward = env.draw(action.choices, rng)
        kept.add(line.regressors(env.problem, action, z), reward)
    best = line.incumbent(situation, kept).action
    row, rows = line.expected_features(env.problem, best), line.action_features(situation)
    size = line.feature_size(env.problem)
    seen = observed_directions(kept, line.ridge, size)
    leads = line._contrasts_by_block(situation, best, row)
    assert sum(len(lead.differences) for lead in leads) < len(rows)
    listed = linear_log_error_bounds(seen, contrasts_with_rivals(row, rows, size, 0.0, None), 0.0, 0.1)
    single = [linear_log_error_bounds(seen, lead, 0.0, 0.1) for lead in leads]
    for i in range(len(WIDTHS)):
        assert max(own[i].max() for own in single) == pytest.approx(listed[i].max(), rel=1e-9)


def test_what_was_never_seen_is_not_known():
    env = zoo.figure2()
    line = cb.policies.CausalLinearUCB(noise_scale=1e-6)
    kept, situation = line.init(env.problem), situation_for(line, env.problem)
    assert line.error_probability(situation, kept, situation.action(0), 0.0) == 1.0
    first = situation.action(0)
    for _ in range(1000):
        kept.add(line.regressors(env.problem, first, (0, 0, 0, 0)), 1.0)
    assert line.error_probability(situation, kept, first, 0.5) == 1.0


@pytest.mark.parametrize("id", IDS)
def test_every_linear_policy_says_whether_to_stop(id):
    env = zoo.figure2()
    agent = cb.Agent(env.problem, cb.policy(id, noise_scale=0.3, prior_scale=2.0), seed=1)
    assert agent.recommend().stop is False
    told(agent, env, 1500)
    found = agent.recommend(tolerance=2.0)
    assert found.stop is True
    assert f"Stopping rule: met ({found.stop_reason})" in repr(found)
    assert "linear" in found.assumes
    assert agent.recommend(confidence=1 - 1e-9).stop is (agent.recommend().error_probability <= 1e-9)


def test_actions_without_number_have_a_rule_too():
    rng = np.random.default_rng(4)
    env = zoo.random_parallel(3, 16, rng.random(16), rng=rng)
    agent = cb.Agent(env.problem, cb.policy("cl-ts", regressor="observed", noise_scale=0.2), seed=1)
    assert env.problem.actions.size == 4**16
    assert agent.recommend().error_probability == 1.0
    told(agent, env, 800)
    assert agent.recommend().error_probability <= 1.0
    assert agent.recommend(tolerance=100.0).stop is True
    assert agent.recommend(tolerance=1.0).error_probability >= agent.recommend(tolerance=100.0).error_probability


def test_the_bound_holds_at_all_times_under_adaptive_play_and_hardly_more():
    """2,000 runs of 300 rounds in three dimensions; the direction that looks largest is played."""
    runs, d, rng = 2000, 3, np.random.default_rng(5)
    arms = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.6, 0.5]])
    V, S, most = np.zeros((runs, d, d)), np.zeros((runs, d)), np.full(runs, -math.inf)
    for _ in range(300):
        estimate = np.linalg.solve(V + 0.1 * np.eye(d), S[:, :, None])[:, :, 0]
        x = arms[np.where(rng.random(runs) < 0.2, rng.integers(4, size=runs), (estimate @ arms.T).argmax(axis=1))]
        V += x[:, :, None] * x[:, None, :]
        S += x * rng.standard_normal(runs)[:, None]
        for c in WIDTHS:
            inner = (S * np.linalg.solve(V + c * np.eye(d), S[:, :, None])[:, :, 0]).sum(axis=1)
            most = np.maximum(most, inner / 2 - 0.5 * np.linalg.slogdet(np.eye(d) + V / c)[1] - math.log(len(WIDTHS)))
    for delta in (0.05, 0.2):
        rate = float((most >= math.log(1 / delta)).mean())
        assert delta / 10 <= rate <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)


def test_the_error_is_at_most_delta_under_adaptive_play():
    """150 runs on random worlds whose reward is a line; `benchmarks/stopping.py` has 2,000 of each policy."""

    def drawn(rng):
        return zoo.random_parallel(3, 3, 0.3 * rng.standard_normal(3), rng=rng)

    run = cb.simulate(
        drawn, cb.policy("cl-ts", regressor="observed", noise_scale=0.1), horizon=1000, replications=150, seed=3,
        measures=["error probability", "simple regret"], rounds=[10, 50, 150, 300, 500, 1000], progress=False,
    )  # fmt: skip
    assert (run.measure("simple regret", run.policies[0])[:, 0] > 1e-9).mean() > 0.1
    (own,) = run.stopping(0.2)
    assert own.stopped > 0.1
    assert own.error_rate <= 0.2 + 3 * math.sqrt(0.16 / own.replications)
