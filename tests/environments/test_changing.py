"""Environments that replace each other over time: which one applies when, and what they must have in common."""

import pickle

import numpy as np
import pytest

import causalbandits as cb
from causalbandits.environments import Segment, environment_at, segments_of
from causalbandits.errors import ProblemError

CAMPAIGN = cb.zoo.email_campaign()
MEANS = CAMPAIGN.configuration_means.reshape(CAMPAIGN.problem.shape)
EVENING = cb.Environment(CAMPAIGN.problem, cb.rewards.BernoulliReward(MEANS[..., ::-1]))


def campaign(**changed):
    """The campaign with other arguments of its problem."""
    problem = CAMPAIGN.problem
    arguments = {"manipulable": list(problem.manipulable), "reward_parents": problem.parents, "optional": True}
    other = cb.Problem(problem.model, **arguments | changed)
    return cb.Environment(other, cb.rewards.BernoulliReward(np.full(other.shape, 0.5)))


def flipped(name):
    """The campaign with one CPT reversed."""
    model = CAMPAIGN.problem.model
    variables = [
        cb.Variable(v.name, v.states, parents=v.parents, table=v.table[..., ::-1] if v.name == name else v.table)
        for v in (model[n] for n in model.order)
    ]
    return cb.Environment(CAMPAIGN.problem.with_model(cb.CausalModel(variables)), CAMPAIGN.reward)


def test_an_environment_applies_from_its_first_decision_up_to_the_next_change():
    other = flipped("template")
    env = cb.ChangingEnvironment(CAMPAIGN, {7: other, 3: EVENING})
    assert env.segments == (Segment(1, CAMPAIGN), Segment(3, EVENING), Segment(7, other))
    expected = [CAMPAIGN] * 2 + [EVENING] * 4 + [other] * 3
    assert [env.at(decision) for decision in range(1, 10)] == expected
    assert env.at(10**9) is other
    assert env.problem is CAMPAIGN.problem
    assert env.at(3).best().intervention["send_time"] == "evening"
    assert env.at(2).means.max() == pytest.approx(CAMPAIGN.best().mean)


def test_without_changes_there_is_one_environment():
    env = cb.ChangingEnvironment(CAMPAIGN, {})
    assert segments_of(env) == segments_of(CAMPAIGN) == (Segment(1, CAMPAIGN),)
    assert environment_at(env, 5) is environment_at(CAMPAIGN, 5) is CAMPAIGN
    assert repr(env).endswith("no changes)")


@pytest.mark.parametrize("decision", [0, -1, 1.5, True, "2", None])
def test_decisions_are_counted_from_one(decision):
    with pytest.raises(ProblemError, match="counted 1, 2"):
        cb.ChangingEnvironment(CAMPAIGN, {3: EVENING}).at(decision)


@pytest.mark.parametrize("start", [1, 0, -3, 2.5, True, "3"])
def test_a_change_before_the_second_decision_is_refused(start):
    with pytest.raises(ProblemError, match="whole number of at least 2"):
        cb.ChangingEnvironment(CAMPAIGN, {start: EVENING})


@pytest.mark.parametrize(
    ("first", "changes", "message"),
    [
        (CAMPAIGN.problem, {3: EVENING}, "starts with an Environment"),
        (CAMPAIGN, [EVENING], "must map the first decision"),
        (CAMPAIGN, {3: CAMPAIGN.problem}, "From decision 3 on, an Environment is needed"),
        (CAMPAIGN, {3: cb.ChangingEnvironment(CAMPAIGN, {})}, "From decision 3 on, an Environment is needed"),
    ],
)
def test_only_environments_can_replace_each_other(first, changes, message):
    with pytest.raises(ProblemError, match=message):
        cb.ChangingEnvironment(first, changes)


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"manipulable": ["product", "purpose"]}, "its manipulable"),
        ({"reward_parents": ["send_time", "template", "subject"]}, "its parents"),
        ({"costs": {"send_time": 0.1}}, "its costs"),
        ({"optional": False}, "it has 36 other actions, not these 80"),
        ({"max_set": 1}, "it has 11 other actions, not these 80"),
        ({"manipulable": ["product", "purpose"], "context": ["send_time"]}, "its manipulable"),
    ],
)
def test_the_difference_of_another_problem_is_named(changed, difference):
    with pytest.raises(ProblemError, match=f"from decision 3 on has another problem than the first: {difference}"):
        cb.ChangingEnvironment(CAMPAIGN, {3: campaign(**changed)})


def test_the_context_and_the_values_of_variables_must_be_the_same():
    segments = cb.zoo.email_segments()
    problem = segments.problem
    manipulable, parents = list(problem.manipulable), problem.parents
    marginal = cb.Problem(problem.model, manipulable=manipulable, reward_parents=parents, optional=True)
    with pytest.raises(ProblemError, match=r"its context is \[\], not \['segment'\]"):
        cb.ChangingEnvironment(segments, {3: cb.Environment(marginal, segments.reward)})
    renamed = [
        cb.Variable(v.name, ["A", "B"] if v.name == "template" else v.states, parents=v.parents, table=v.table)
        for v in CAMPAIGN.problem.model.variables.values()
    ]
    other = cb.Problem(cb.CausalModel(renamed), manipulable=manipulable, reward_parents=parents, optional=True)
    with pytest.raises(ProblemError, match=r"its states of 'template' are \['A', 'B'\], not \['1', '2'\]"):
        cb.ChangingEnvironment(CAMPAIGN, {3: cb.Environment(other, CAMPAIGN.reward)})


def test_cpts_under_which_other_actions_are_allowed_are_refused():
    def with_limit(second):
        table = [[0.9, 0.1], [1 - second, second]]
        model = cb.CausalModel(
            [cb.Variable("x", [0, 1], table=[0.5, 0.5]), cb.Variable("w", [0, 1], parents=["x"], table=table)]
        )
        limit = {"w": {1: 0.5}}
        problem = cb.Problem(model, manipulable=["x"], reward_parents=["x", "w"], max_probability=limit)
        return cb.Environment(problem, cb.rewards.BernoulliReward(np.full((2, 2), 0.5)))

    assert len(cb.ChangingEnvironment(with_limit(0.2), {3: with_limit(0.3)}).segments) == 2
    with pytest.raises(ProblemError, match="is 2 in the first and 1 in the one from decision 3 on"):
        cb.ChangingEnvironment(with_limit(0.2), {3: with_limit(0.8)})


def test_cpts_and_rewards_may_differ():
    gaussian = cb.Environment(CAMPAIGN.problem, cb.rewards.GaussianReward(MEANS, sd=0.2))
    env = cb.ChangingEnvironment(CAMPAIGN, {3: flipped("subject"), 5: gaussian})
    assert [segment.start for segment in env.segments] == [1, 3, 5]


def test_the_fingerprint_depends_on_each_environment_its_place_and_nothing_else():
    env = cb.ChangingEnvironment(CAMPAIGN, {3: EVENING})
    same = cb.ChangingEnvironment(cb.zoo.email_campaign(), {3: EVENING})
    assert env.fingerprint == same.fingerprint == pickle.loads(pickle.dumps(env)).fingerprint
    others = [
        cb.ChangingEnvironment(CAMPAIGN, {4: EVENING}),
        cb.ChangingEnvironment(CAMPAIGN, {3: flipped("subject")}),
        cb.ChangingEnvironment(EVENING, {3: CAMPAIGN}),
        cb.ChangingEnvironment(CAMPAIGN, {}),
        CAMPAIGN,
    ]
    assert len({env.fingerprint, *(other.fingerprint for other in others)}) == 6


def test_many_changes_are_printed_briefly():
    env = cb.ChangingEnvironment(CAMPAIGN, dict.fromkeys(range(2, 40), EVENING))
    assert repr(env).endswith("38 changes at decisions 2, 3, 4, 5, 6, ...)")
    assert repr(cb.ChangingEnvironment(CAMPAIGN, {8: EVENING})).endswith("1 change at decision 8)")


@pytest.mark.parametrize(
    "function",
    [cb.describe, lambda env: cb.theory.bound("c-ucb", env), lambda env: cb.forecast(env, horizon=9)],
)
def test_functions_about_a_single_environment_refuse_one_that_changes(function):
    with pytest.raises(cb.CausalBanditsError, match=r"Problem.*got ChangingEnvironment\("):
        function(cb.ChangingEnvironment(CAMPAIGN, {8: EVENING}))


def test_the_same_further_variables_are_drawn_in_all_environments():
    shown = cb.Environment(CAMPAIGN.problem, CAMPAIGN.reward, shown=["product"])
    assert cb.ChangingEnvironment(shown, {8: shown}).shown == shown.shown
    with pytest.raises(ProblemError, match=r"the first shows \[\], the one from decision 8 on \['product'\]"):
        cb.ChangingEnvironment(CAMPAIGN, {8: shown})
