"""Regret bounds: against values by hand, brute force, and the regret of simulations that meet the assumptions."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import causalbandits as cb
from causalbandits import theory
from causalbandits.environments import zoo
from causalbandits.errors import CausalBanditsError, PolicyError, ProblemError, TheoryWarning
from oracles import all_interventions, cases, distribution, patient

BOUNDED = [
    "c-ucb",
    "ucb",
    "c-ts(scales=given)",
    "ts(scales=given)",
    "c-ts(prior=beta)",
    "ts(prior=beta)",
    "cl-ucb",
    "cl-ucb(regressor=observed)",
    "cl-ts(regressor=observed)",
]


def switch(states=2):
    """One knob, always set, which is the reward's only parent: P is the identity."""
    x = cb.Variable("x", range(states), table=np.full(states, 1 / states))
    return cb.Problem(cb.CausalModel([x]), manipulable=["x"], reward_parents=["x"], optional=False)


def noisy_pairs(n=2, grip=0.8):
    """n knobs, each turning its own parent towards one of two values, with success `grip`."""
    variables = []
    for i in range(n):
        variables.append(cb.Variable(f"x{i}", [0, 1], table=[0.5, 0.5]))
        variables.append(cb.Variable(f"w{i}", [0, 1], parents=[f"x{i}"], table=[[grip, 1 - grip], [1 - grip, grip]]))
    model = cb.CausalModel(variables)
    return cb.Problem(
        model, manipulable=[f"x{i}" for i in range(n)], reward_parents=[f"w{i}" for i in range(n)], optional=True
    )


def silent(policy, problem, **options):
    """A bound that no warning comes with."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return theory.bound(policy, problem, **options)


def unit(*values):
    """Features of norm 1 at most."""
    return np.array([1.0, *values]) / math.sqrt(1 + len(values))


# --- Values by hand -----------------------------------------------------------------------------------

LOG = math.log(10_000)


@pytest.mark.parametrize(
    ("policy", "options", "value"),
    [
        ("c-ucb", {"largest_gap": 0.5}, 8 * math.sqrt(4 * 1e4 * LOG) + 2 * 4 * 0.5),
        ("ucb", {"largest_gap": 0.5}, min(5000, 8 * math.sqrt(9 * 1e4 * LOG) + 2 * 9 * 0.5)),
        (cb.policies.CausalUCB(anytime=True), {"largest_gap": 0.5}, 8 * math.sqrt(4e4 * LOG) + 2 * 4 * 0.5 * (1 + LOG)),
        (cb.policies.CausalUCB(noise_scale=0.1, prior_scale=0.1), {"largest_gap": 1}, 0.8 * math.sqrt(4e4 * LOG) + 8),
        (
            cb.policies.CausalUCB(noise_scale=0.1, prior_scale=0.6),
            {"largest_gap": 1},
            0.8 * math.sqrt(4e4 * LOG) + 4 * 4 * 0.5 * math.sqrt(LOG) + 8,
        ),
        ("c-ts(scales=given)", {}, 2 * math.sqrt(2 * 4e4 * LOG) + 4 / (math.sqrt(2 * math.pi) * (1 + 2 * LOG))),
        ("c-ts(prior=beta)", {}, 4 * math.sqrt(4e4 * LOG) + 16),
        ("ts(prior=beta)", {}, 4 * math.sqrt(9e4 * LOG) + 36),
        (
            cb.policies.CausalLinearUCB(features=unit),
            {},
            2 + 2 * (1 + math.sqrt(2 * LOG + 3 * math.log1p(1e4 / 3))) * math.sqrt(6e4 * math.log1p(1e4 / 3)),
        ),
        (
            cb.policies.CausalLinearThompsonSampling(regressor="observed", features=unit),
            {},
            1 + (math.sqrt(3) + math.sqrt(2 * LOG)) * math.sqrt(6e4 * math.log1p(1e4 / 3)),
        ),
    ],
)
def test_bounds_have_their_values_by_hand(policy, options, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TheoryWarning)
        assert theory.bound(policy, noisy_pairs(), **options).at(10_000) == pytest.approx(value, rel=1e-12)


def test_the_paper_s_own_bound_has_its_value_by_hand_and_is_looser():
    T, J = 5000, 16
    log = math.log(T)
    assert theory.paper_c_ucb_bound(J, T) == pytest.approx(
        8 * math.sqrt(J * T * log) * log + 4 * J + 2 * T * math.exp(-J * log * log / 64), rel=1e-12
    )
    for T in (4, 100, 10**6):
        for J in (2, 64):
            ours = 8 * math.sqrt(J * T * math.log(T)) + 2 * J * 2
            assert ours < theory.paper_c_ucb_bound(J, T)
    with pytest.raises(CausalBanditsError, match="must be 4 or more"):
        theory.paper_c_ucb_bound(16, 3)


def test_the_lower_bound_is_zero_at_first_and_below_the_upper_one_ever_after():
    assert theory.ucb_lower_bound(3, 10_000, 0.1) == 0.0
    last = 0.0
    for T in (10**7, 10**9, 10**12, 10**15):
        found = theory.ucb_lower_bound(4, T, 0.3)
        upper = silent(cb.policies.UCB(noise_scale=1.1, prior_scale=1.1), zoo.lower_bound(4, 0.3)).at(T)
        assert last <= found < upper
        last = found
    assert last > 0
    # By hand, where the mixtures' term is nearly that of all others.
    T, K, delta = 10**12, 9, 0.01
    B = 8 * math.sqrt(K * T * math.log(T)) + 4 / 3 * K * delta * (2 + T ** (2 * delta**2 / (4 + delta**2)))
    assert theory.ucb_lower_bound(2, T, delta) == pytest.approx(0.5 * 3 * math.log(T * delta / (8 * B)) / delta)


@pytest.mark.parametrize("delta", [2.5, 10, 50])
def test_the_lower_bound_says_nothing_where_its_upper_bound_is_not_proved(delta):
    assert theory.ucb_lower_bound(2, 10**6, delta) == 0.0


@pytest.mark.parametrize("wrong", [{"N": 0}, {"N": 1.5}, {"horizon": 1}, {"delta": 0}, {"delta": math.inf}])
def test_the_lower_bound_refuses_what_has_no_meaning(wrong):
    with pytest.raises(CausalBanditsError, match="must be"):
        theory.ucb_lower_bound(**{"N": 2, "horizon": 100, "delta": 0.1, **wrong})


# --- Shape --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [*BOUNDED, cb.policies.CausalUCB(anytime=True), cb.policies.CausalLinearUCB(anytime=True)]
)
@pytest.mark.filterwarnings("ignore::causalbandits.errors.TheoryWarning")
def test_bounds_grow_with_the_rounds_but_less_than_in_proportion(policy):
    bound = theory.bound(policy, noisy_pairs(), largest_gap=None if "ts" in str(policy) else 1.0)
    rounds = np.unique(np.geomspace(2, 1e9, 200).astype(int))
    values = bound.at(rounds)
    assert (np.diff(values) > 0).all()
    assert values[-1] < 0.05 * rounds[-1]
    assert values.tolist() == [bound.at(int(t)) for t in rounds]
    assert (values <= rounds * bound.largest_gap).all()


@pytest.mark.parametrize("policy", ["c-ucb", "c-ts(scales=given)", "c-ts(prior=beta)", "ucb"])
@pytest.mark.filterwarnings("ignore::causalbandits.errors.TheoryWarning")
def test_more_cells_make_a_larger_bound(policy):
    options = {"largest_gap": 1.0} if "ucb" in policy else {}
    small, large = (theory.bound(policy, noisy_pairs(n), **options).at(10**8) for n in (2, 3))
    assert small < large


def test_a_bound_is_vacuous_exactly_where_the_trivial_one_is_smaller():
    bound = silent("c-ucb", zoo.email_campaign())
    gap = zoo.email_campaign().gaps().max()
    assert bound.at(100) == pytest.approx(100 * gap)
    assert bound.vacuous(100) is True
    assert bound.vacuous(10**7) is False
    rounds = np.array([100, 10**7])
    assert bound.vacuous(rounds).tolist() == [True, False]
    assert bound.at(10**7) < 10**7 * gap


def test_along_a_run_the_bound_uses_the_run_s_horizon():
    bound = silent("c-ucb", noisy_pairs(), largest_gap=1)
    T, t = 10**6, 10**5
    expected = 8 * math.sqrt(4 * t * math.log(T)) + 8 * (t / T) ** 2
    assert bound.at(t, horizon=T) == pytest.approx(expected)
    assert bound.at(T, horizon=T) == bound.at(T)
    assert silent(cb.policies.CausalUCB(horizon=T), noisy_pairs(), largest_gap=1).at(t) == pytest.approx(expected)
    linear = silent(cb.policies.CausalLinearUCB(features=unit), noisy_pairs())
    assert linear.at(T, horizon=T) == linear.at(T)
    # Beyond the horizon V outgrows what beta allows for: by ((1 + t/d) / (1 + T/d))^(d/2), here, in probability.
    beta = 1 + math.sqrt(2 * math.log(T) + 3 * math.log1p(T / 3))
    fail = ((1 + 2 * T / 3) / (1 + T / 3)) ** 1.5 / T
    learning = 2 * beta * math.sqrt(2 * 3 * 2 * T * math.log1p(2 * T / 3))
    assert linear.at(2 * T, horizon=T) == pytest.approx(2 * 2 * T * fail + learning)


@pytest.mark.parametrize("rounds", [1, 0, -3, math.nan, math.inf, "many", [10, 1]])
def test_bounds_need_two_rounds_at_least(rounds):
    with pytest.raises(CausalBanditsError, match="Rounds must be 2 or more"):
        silent("c-ucb", noisy_pairs(), largest_gap=1).at(rounds)


# --- J ------------------------------------------------------------------------------------------------


def reached(model, actions, parents):
    return sum(max(p) > 0 for p in zip(*(distribution(model, do, parents).reshape(-1) for do in actions), strict=True))


@patient
@given(cases(most=5))
def test_reachable_configurations_are_those_that_brute_force_finds(case):
    problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, optional=True)
    actions = all_interventions(case.model, case.manipulable)
    assert theory.count_reachable_configurations(problem) == reached(case.model, actions, case.parents)


@patient
@given(cases(most=5), st.data())
def test_with_constraints_no_reachable_configuration_is_missed(case, data):
    every = [do for do in all_interventions(case.model, case.manipulable) if len(do) <= 1]
    some = data.draw(st.lists(st.sampled_from(every), min_size=1, unique_by=lambda do: tuple(do.items())))
    problem = cb.Problem(case.model, manipulable=case.manipulable, reward_parents=case.parents, actions=some)
    found = theory.count_reachable_configurations(problem)
    assert reached(case.model, some, case.parents) <= found <= problem.configurations


def test_blocks_too_large_to_look_at_count_in_full():
    x = cb.Variable("x", [0, 1], table=[1, 0])
    fixed = [cb.Variable(f"z{i}", [0, 1, 2], parents=["x"], table=[[1, 0, 0], [0, 1, 0]]) for i in range(13)]
    problem = cb.Problem(
        cb.CausalModel([x, *fixed]), manipulable=["x"], reward_parents=[v.name for v in fixed], optional=True
    )
    assert theory.count_reachable_configurations(problem) == 3**13


# --- Against simulations ------------------------------------------------------------------------------


def regret_stays_below(env, policy, bound, *, horizon, replications, seed):
    """The mean regret at every checkpoint, and, at the end, three standard errors more."""
    run = cb.simulate(env, {"it": policy}, horizon=horizon, replications=replications, seed=seed, progress=False)
    regret = run.regret("it")
    kept = run.rounds >= 2
    values = bound.at(run.rounds[kept], horizon=horizon)
    assert (regret.mean(axis=0)[kept] <= values * (1 + 1e-12)).all()
    final = regret[:, -1]
    assert final.mean() + 3 * final.std(ddof=1) / math.sqrt(replications) <= values[-1] * (1 + 1e-12)
    return final.mean()


@pytest.mark.parametrize("gap_scale", [1.0, 4.0])
@pytest.mark.parametrize("policy", [cb.policies.CausalUCB(), cb.policies.CausalUCB(anytime=True), cb.policies.UCB()])
def test_optimistic_policies_stay_below_their_bounds_at_gaps_of_the_hardest_size(policy, gap_scale):
    horizon, problem = 1500, switch(5)
    gap = gap_scale * math.sqrt(5 / horizon)
    # A last action so bad that the bound is not vacuous.
    env = cb.Environment(problem, cb.rewards.GaussianReward([gap, 0, 0, 0, -1.6], sd=1))
    bound = silent(policy, env)
    assert not bound.vacuous(horizon)
    measured = regret_stays_below(env, policy, bound, horizon=horizon, replications=4, seed=1)
    assert measured > bound.at(horizon) / 100


def test_c_ucb_stays_below_its_bound_on_figure_2():
    env = zoo.figure2()
    policy = cb.policies.CausalUCB(noise_scale=0.1, prior_scale=0.5)
    bound = silent(policy, env)
    assert not bound.vacuous(5000)
    regret_stays_below(env, policy, bound, horizon=5000, replications=3, seed=2)


@pytest.mark.parametrize(("regressor", "noise"), [("expected", 0.27), ("observed", 0.1)])
def test_cl_ucb_stays_below_its_bound(regressor, noise):
    env = cb.Environment(noisy_pairs(1, grip=0.98), cb.rewards.LinearReward([-0.6, 0.7], unit, sd=0.1))
    policy = cb.policies.CausalLinearUCB(regressor=regressor, features=unit, noise_scale=noise)
    bound = silent(policy, env)
    assert not bound.vacuous(4000)
    regret_stays_below(env, policy, bound, horizon=4000, replications=2, seed=3)


def test_c_ts_gaussian_stays_below_its_bound_on_average_over_its_prior():
    problem = noisy_pairs()
    policy = cb.policies.CausalThompsonSampling(scales="given")

    def draw(rng):
        return cb.Environment(problem, cb.rewards.GaussianReward(rng.standard_normal((2, 2)), sd=1))

    bound = silent(policy, problem)
    assert not bound.vacuous(600)
    measured = regret_stays_below(draw, policy, bound, horizon=600, replications=25, seed=4)
    assert measured > bound.at(600) / 100  # of the bound's order


def test_ts_gaussian_stays_below_its_bound_where_actions_are_independent():
    problem = switch(6)

    def draw(rng):
        return cb.Environment(problem, cb.rewards.GaussianReward(2 * rng.standard_normal(6), sd=0.5))

    policy = cb.policies.ThompsonSampling(noise_scale=0.5, prior_scale=2)
    bound = silent(policy, problem)
    assert not bound.vacuous(600)
    regret_stays_below(draw, policy, bound, horizon=600, replications=25, seed=5)


@pytest.mark.parametrize(
    "policy", [cb.policies.CausalThompsonSampling(prior="beta"), cb.policies.ThompsonSampling(prior="beta")]
)
def test_beta_thompson_sampling_stays_below_its_bound_on_average_over_its_prior(policy):
    problem = switch(4)

    def draw(rng):
        return cb.Environment(problem, cb.rewards.BernoulliReward(rng.random(4)))

    bound = silent(policy, problem)
    assert not bound.vacuous(1500)
    regret_stays_below(draw, policy, bound, horizon=1500, replications=10, seed=6)


def test_cl_ts_observed_stays_below_its_bound_on_average_over_its_prior():
    problem = noisy_pairs()
    policy = cb.policies.CausalLinearThompsonSampling(regressor="observed", features=unit)

    def draw(rng):
        return cb.Environment(problem, cb.rewards.LinearReward(rng.standard_normal(3), unit, sd=1))

    bound = silent(policy, problem)
    assert not bound.vacuous(500)
    regret_stays_below(draw, policy, bound, horizon=500, replications=20, seed=7)


def test_the_regret_of_uniform_is_its_bound():
    env = zoo.email_campaign()
    run = cb.simulate(env, "uniform", horizon=2000, replications=10, seed=8, progress=False)
    row = run.summary()[0]
    assert abs(row.mean - silent("uniform", env).at(2000)) < 4 * row.standard_error


def test_the_prior_s_largest_gap_is_no_smaller_than_in_draws():
    rng = np.random.default_rng(0)
    problem = noisy_pairs()
    for policy, means in (
        ("c-ts(scales=given)", rng.standard_normal((4000, 4))),
        ("c-ts(prior=beta)", rng.random((4000, 4))),
    ):
        spread = means.max(axis=1) - means.min(axis=1)
        assert spread.mean() - 4 * spread.std() / math.sqrt(4000) < silent(policy, problem).largest_gap
    assert silent("c-ts(prior=beta)", problem).largest_gap == pytest.approx(3 / 5)


# --- Assumptions --------------------------------------------------------------------------------------


def gaussian(sd=1.0, mean=((0.0, 0.1), (0.2, 0.3))):
    return cb.Environment(noisy_pairs(), cb.rewards.GaussianReward(np.array(mean), sd=sd))


LINEAR = cb.Environment(noisy_pairs(), cb.rewards.LinearReward([0.0, 0.5, 0.5], unit, sd=0.5))


@pytest.mark.parametrize(
    ("policy", "env", "words"),
    [
        ("c-ucb", gaussian(sd=2), "1-sub-Gaussian.*scale 2"),
        ("c-ucb", gaussian(mean=((0, 0), (0, 3))), "no mean given the parents exceeds 1.67.*size 3"),
        ("ucb", gaussian(sd=1), "given the action.*scale 1.011"),
        ("c-ts(scales=given)", gaussian(sd=0.5), "Gaussian with standard deviation 1.*deviation is 0.5"),
        ("c-ts(scales=given)", zoo.email_campaign(), "Gaussian.*BernoulliReward"),
        ("c-ts(prior=beta)", gaussian(), r"rewards lie in \[0, 1\]"),
        ("ts(prior=beta)", zoo.email_campaign(), "drawn independently.*same configurations"),
        ("ts(scales=given)", gaussian(), "drawn independently.*same configurations"),
        ("cl-ucb(regressor=observed)", zoo.figure2(), "norm at most 1 .feature_bound.*norm 4"),
        (
            cb.policies.CausalLinearUCB(features=unit, prior_scale=0.5),
            LINEAR,
            "theta has norm at most 0.5.*norm 0.7071",
        ),
        (cb.policies.CausalLinearUCB(features=lambda *w: [0.5]), LINEAR, r"E\[Y \| a\] = <theta, m_a>.*off by"),
        (cb.policies.CausalLinearUCB(features=unit, noise_scale=0.5), LINEAR, "given the action.*scale 0.5774"),
        (
            cb.policies.CausalLinearUCB(regressor="observed", features=unit, noise_scale=0.4),
            LINEAR,
            "given the parents.*scale 0.5",
        ),
        (
            cb.policies.CausalLinearThompsonSampling(regressor="observed", features=unit, noise_scale=0.5, v=0.3),
            LINEAR,
            "v = 1; here v is 0.3",
        ),
        ("cl-ts(regressor=observed)", gaussian(mean=((0, 0), (0, 1))), r"E\[Y \| z\] = <theta, f\(z\)>.*off by"),
    ],
)
def test_a_broken_assumption_is_named_in_a_warning_and_in_the_bound(policy, env, words):
    with pytest.warns(TheoryWarning, match=words) as caught:
        bound = theory.bound(policy, env)
    assert caught[0].filename == __file__
    assert bound.broken
    assert bound.at(1000) > 0


@pytest.mark.parametrize(
    ("policy", "env"),
    [
        ("c-ucb", gaussian(sd=1)),
        (cb.policies.UCB(noise_scale=1.02), gaussian(sd=1)),
        ("c-ts(scales=given)", gaussian(sd=1)),
        ("c-ts(prior=beta)", zoo.email_campaign()),
        ("ucb", zoo.email_campaign()),
        (cb.policies.CausalUCB(noise_scale=0.5), zoo.email_campaign()),
        (cb.policies.UCB(noise_scale=0.27), zoo.figure2()),
        (cb.policies.CausalLinearUCB(features=unit), LINEAR),
        ("ts(scales=given)", cb.Environment(switch(3), cb.rewards.GaussianReward([0, 1, 2]))),
    ],
)
def test_met_assumptions_pass_without_a_word(policy, env):
    bound = silent(policy, env)
    assert bound.assumptions
    assert not bound.broken
    assert all(sentence.endswith(".") for sentence in bound.assumptions)


def test_the_gap_of_one_environment_does_not_cap_a_bayesian_bound():
    bound = silent("c-ts(scales=given)", gaussian())
    assert bound.largest_gap == pytest.approx(2 * math.sqrt(2 * math.log(4)))
    assert silent("c-ucb", gaussian()).largest_gap == pytest.approx(gaussian().gaps().max())


def test_a_given_gap_must_not_deny_the_environment():
    with pytest.raises(CausalBanditsError, match="no smaller than the environment's"):
        theory.bound("c-ucb", gaussian(), largest_gap=0.001)
    with pytest.raises(CausalBanditsError, match="finite number, 0 or more; got -1"):
        theory.bound("c-ucb", noisy_pairs(), largest_gap=-1)


class Own(cb.policies.CausalUCB):
    """Somebody's own rule, which may do anything."""


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("kl-ucb", "union over the counts of visits"),
        ("c-kl-ucb", "union over the counts of visits"),
        ("cl-ts", "does not sample from the posterior"),
        (Own(), "no bound is derived for this policy"),
    ],
)
def test_a_policy_without_a_bound_says_why_and_who_has_one(policy, why):
    with pytest.raises(
        PolicyError, match=rf"{why}.*Policies with one: c-ucb, .*cl-ts\(regressor=observed\), "
    ) as caught:
        theory.bound(policy, noisy_pairs())
    assert "cl-ts," not in str(caught.value)


def test_what_is_missing_is_asked_for():
    with pytest.raises(PolicyError, match=r"Pass largest_gap= \(1 is"):
        theory.bound("c-ucb", noisy_pairs())
    with pytest.raises(PolicyError, match="which requires an Environment"):
        theory.bound("uniform", noisy_pairs())
    with pytest.raises(ProblemError, match="a Problem or an Environment; got 3"):
        theory.bound("c-ucb", 3)
    with pytest.raises(PolicyError, match="Did you mean 'c-ucb'"):
        theory.bound("c-ucbb", noisy_pairs())


def test_counts_beyond_floating_point_give_vacuous_bounds_at_once():
    env = zoo.random_parallel(3, 1500, theta=np.full(1500, 0.001), rng=0)
    with pytest.warns(TheoryWarning):
        bound = theory.bound("ucb", env)
    assert bound.vacuous(10**9)
    assert "K = about 10^903" in bound.formula
    assert math.isfinite(bound.at(10**9))


# --- compare ------------------------------------------------------------------------------------------


def test_compare_keeps_the_kinds_apart():
    found = theory.compare(zoo.email_campaign(), 100_000)
    kinds = [row.kind for row in found]
    assert kinds == sorted(kinds, reverse=True)  # frequentist, then Bayesian
    assert {row.policy for row in found} == {*BOUNDED, "uniform"}
    frequentist, bayesian = str(found).split("\n\n")[:2]
    assert frequentist.startswith("Frequentist")
    assert bayesian.startswith("Bayesian")
    assert "-ts-" not in frequentist
    assert "ucb" not in bayesian


def test_compare_marks_what_is_vacuous_and_what_is_broken():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = theory.compare(zoo.email_campaign(), 100_000, policies=["c-ucb", "ucb", "ts(prior=beta)"])
    lines = str(found).splitlines()
    assert next(line for line in lines if line.startswith("c-ucb")).endswith("29743.6")
    assert next(line for line in lines if line.startswith("ucb")).endswith("vacuous: not below T Delta_max")
    assert any(line.startswith("ts(prior=beta)* ") for line in lines)
    assert lines[-1].startswith("* ts(prior=beta): It assumes that")
    assert found.to_pandas().vacuous.tolist() == [False, True, False]


def test_compare_takes_policies_with_parameters_and_repeats_the_refusals_of_bound():
    named = theory.compare(noisy_pairs(), 10**6, policies=["c-ucb", cb.policies.CausalUCB(noise_scale=0.5)])
    assert [row.policy for row in named] == ["c-ucb", "c-ucb(noise_scale=0.5)"]
    assert theory.compare(noisy_pairs(), 10**6, policies="c-ucb")[0].policy == "c-ucb"
    with pytest.raises(PolicyError, match="No regret bound for 'cl-ts'"):
        theory.compare(noisy_pairs(), 1000, policies=["cl-ts"])


# --- Pictures -----------------------------------------------------------------------------------------


def test_bounds_are_drawn_without_hiding_the_regret():
    env = zoo.email_campaign()
    run = cb.simulate(env, ["c-ts(prior=beta)", "uniform"], horizon=300, replications=2, progress=False)
    plain = run.plot().axes[0].get_ylim()
    with pytest.warns(TheoryWarning):
        broken = theory.bound("ts(prior=beta)", env)
    axes = run.plot(bounds=[theory.bound("c-ucb", env), theory.bound("uniform", env), broken]).axes[0]
    assert axes.get_ylim() == pytest.approx((plain[0], 1.15 * plain[1]))
    texts = [text.get_text() for text in axes.texts]
    assert "C-UCB bound: 103 at the end (vacuous)" in texts
    assert "Uniform bound" in texts
    assert any("assumptions broken" in text for text in texts)
    assert len(axes.lines) == 5


def test_on_a_logarithmic_scale_every_bound_is_drawn_to_its_end_and_its_name_says_how_far_it_holds():
    env = zoo.email_campaign()
    policies = {"mine": "c-ts(prior=beta)", "bold": cb.policies.CausalUCB(noise_scale=0.5)}
    run = cb.simulate(env, policies, horizon=3000, replications=2, progress=False)
    bounds = [theory.bound(policy, env) for policy in policies.values()]
    axes = run.plot(bounds=bounds, log=True).axes[0]
    assert [line.get_color() for line in axes.lines[2:]] == [line.get_color() for line in axes.lines[:2]]
    assert axes.get_ylim()[1] > max(bound.at(3000) for bound in bounds)
    texts = [text.get_text() for text in axes.texts]
    assert set(texts) == {"mine", "bold", "C-UCB (noise_scale=0.5) bound (vacuous)", "C-TS (Beta prior) Bayesian bound"}
    legend = [text.get_text() for text in axes.legend().get_texts()]
    assert sorted(legend) == sorted(texts)
    places = sorted(text.xy[1] for text in axes.texts)
    assert min(np.diff(places)) > 0.05
    linear = [text.get_text() for text in run.plot(bounds=bounds).axes[0].texts]
    assert any(text.startswith("C-TS (Beta prior) Bayesian bound: 2") for text in linear)


@pytest.mark.parametrize("wrong", [["c-ucb"], silent("c-ts(prior=beta)", zoo.email_campaign())])
def test_only_bounds_are_drawn(wrong):
    run = cb.simulate(zoo.email_campaign(), "uniform", horizon=10, replications=1, progress=False)
    with pytest.raises(CausalBanditsError, match="bounds must be a list of"):
        run.plot(bounds=wrong)


@pytest.mark.parametrize("horizon", ["5000", "many", 5000.5, [5, 6], True, 1, None])
def test_a_horizon_is_a_whole_number_of_rounds(horizon):
    with pytest.raises(CausalBanditsError, match="horizon must be a whole number, 2 or more; got"):
        theory.compare(cb.zoo.email_campaign(), horizon)


def test_rounds_are_not_read_out_of_text():
    bound = theory.bound("c-ucb", cb.zoo.email_campaign())
    for rounds in ("5000", ["10", "20"], [10, [20]]):
        with pytest.raises(CausalBanditsError, match="Rounds must be 2 or more for this bound, in numbers; got"):
            bound.at(rounds)
    assert bound.at(10**30) > 0


def test_what_a_round_costs_is_paid_for_by_what_it_teaches():
    """regret^2 <= J'/2 times information, exactly, for Thompson sampling under priors on a few worlds."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        actions, configurations, worlds = rng.integers(2, 6), rng.integers(2, 6), rng.integers(2, 8)
        rows = rng.dirichlet(np.full(configurations, 0.4), actions)
        means, prior = rng.random((worlds, configurations)), rng.dirichlet(np.ones(worlds))
        best = (means @ rows.T).argmax(axis=1)
        alpha = np.array([prior[best == b].sum() for b in range(actions)])
        overall = prior @ means
        lost = information = 0.0
        for b in np.flatnonzero(alpha):
            own = prior[best == b] @ means[best == b] / alpha[b]
            lost += alpha[b] * rows[b] @ (own - overall)
            divergence = own * np.log(own / overall) + (1 - own) * np.log((1 - own) / (1 - overall))
            information += alpha[b] * (alpha @ rows) @ divergence
        assert lost**2 <= rows.max(axis=0).sum() / 2 * information + 1e-12


def test_the_entropy_bound_is_above_the_regret_over_worlds_drawn_from_the_prior():
    env = zoo.email_campaign()

    def drawn(rng):
        return cb.Environment(env.problem, cb.rewards.BernoulliReward(rng.random(env.problem.shape)))

    run = cb.simulate(drawn, "c-ts(prior=beta)", horizon=1000, replications=60, seed=1, progress=False)
    bound = theory.entropy_bound("c-ts(prior=beta)", env)
    assert (run.regret("c-ts(prior=beta)").mean(axis=0)[1:] < bound.at(run.rounds[1:])).all()
    assert bound.at(5000) < theory.bound("c-ts(prior=beta)", env).at(5000) / 10


def test_the_entropy_bound_knows_its_limits():
    env = zoo.email_campaign()
    loose, tight = (
        theory.entropy_bound("c-ts(scales=given)", env),
        theory.entropy_bound("c-ts(scales=given)", env, entropy=1.0),
    )
    assert tight.at(5000) == pytest.approx(loose.at(5000) / math.sqrt(math.log(12)))
    assert loose.at(5000) == pytest.approx(
        math.sqrt(4 * theory.effective_configurations(env.problem) * math.log(12) * 5000)
    )
    with pytest.raises(ProblemError, match=r"entropy, of the best action, must lie between 0 and 2.485"):
        theory.entropy_bound("c-ts(prior=beta)", env, entropy=3.0)
    with pytest.raises(PolicyError, match="Thompson sampling with known"):
        theory.entropy_bound("c-ucb", env)
    with pytest.raises(ProblemError, match="problems with a context,"):
        theory.entropy_bound("c-ts(prior=beta)", zoo.email_segments())


def test_the_graves_lai_constant_is_the_classical_one_where_every_action_is_its_own_configuration():
    model = cb.CausalModel([cb.Variable("x", [0, 1, 2], table=[0.2, 0.3, 0.5])])
    means = np.array([0.1, 0.5, 0.9])
    env = cb.Environment(
        cb.Problem(model, manipulable=["x"], reward_parents=["x"], optional=True),
        cb.rewards.GaussianReward(means, sd=0.7),
    )
    assert theory.graves_lai_constant(env) == pytest.approx(2 * 0.49 * (1 / 0.8 + 1 / 0.4), rel=1e-5)
    assert theory.graves_lai_constant(zoo.figure2()) == 0.0


def test_the_characteristic_time_of_two_actions_is_eight_over_the_gap_squared():
    model = cb.CausalModel([cb.Variable("x", [0, 1], table=[0.5, 0.5])])
    env = cb.Environment(
        cb.Problem(model, manipulable=["x"], reward_parents=["x"], optional=True),
        cb.rewards.GaussianReward(np.array([0.1, 0.6]), sd=0.3),
    )
    assert theory.characteristic_time(env) == pytest.approx(8 * 0.09 / 0.25, rel=1e-6)
    with pytest.raises(ProblemError, match="function requires an Environment,"):
        theory.characteristic_time(env.problem)
