"""Worlds that a policy's belief is wrong about, in a known way."""

from __future__ import annotations

import numpy as np

import causalbandits as cb

EMAIL = cb.zoo.email_campaign()
BELIEF = EMAIL.problem
MEANS = EMAIL.configuration_means.reshape(BELIEF.shape)


def with_arrow(knob, effect):
    """Clicks also depend on a knob: from -effect for its first value to +effect for its last."""
    true = cb.Problem(
        BELIEF.model, manipulable=BELIEF.manipulable, reward_parents=[*BELIEF.parents, knob], optional=True
    )
    shift = np.linspace(-effect, effect, len(BELIEF.model[knob].states))
    return cb.Environment(true, cb.rewards.BernoulliReward(np.clip(MEANS[..., None] + shift, 0.01, 0.99)))


def with_row(p):
    """P(template = 1 | Photoshop, Promo) is p, and not 0.9."""
    variables = dict(BELIEF.model.variables)
    v = variables["template"]
    table = v.table.copy()
    table[0, 1] = [p, 1 - p]
    variables["template"] = cb.Variable(v.name, v.states, parents=v.parents, table=table)
    return cb.Environment(BELIEF.with_model(cb.CausalModel(variables.values())), EMAIL.reward)


def twenty_actions():
    """The worst case of Bilodeau, Wang and Roy (2022): z says the opposite of the reward for half of the actions."""
    pz = np.repeat([6 / 8, 7 / 8], 10)
    means = np.stack([np.repeat([1 - 5.5 / 6, 1 - 1 / 6], 10), np.repeat([5.5 / 6, 1 / 6], 10)])
    model = cb.CausalModel(
        [
            cb.Variable("a", list(range(20)), table=np.full(20, 1 / 20)),
            cb.Variable("z", [0, 1], parents=["a"], table=np.stack([1 - pz, pz], axis=1)),
        ]
    )
    belief = cb.Problem(model, manipulable=["a"], reward_parents=["z"], optional=False, reduce=False)
    return cb.Environment(
        cb.Problem(model, manipulable=["a"], reward_parents=["z", "a"], optional=False),
        cb.rewards.BernoulliReward(means),
    ), belief


def seen(parents, problem=BELIEF):
    """Of what happened, what the belief knows."""
    return {name: parents[name] for name in problem.parents}
