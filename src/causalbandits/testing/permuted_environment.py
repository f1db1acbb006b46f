"""An environment with permuted manipulable variables and values: learning must not depend on their order."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from causalbandits.environments import BernoulliReward, Environment, GaussianReward, LinearReward, Reward, StudentReward
from causalbandits.errors import ProblemError, ProblemWarning
from causalbandits.model import CausalModel, Variable
from causalbandits.problem import Problem

Orders = dict[str, npt.NDArray[np.int64]]
"""By manipulable variable: the new order of its values."""


def permute_environment(env: Environment, rng: np.random.Generator) -> Environment:
    """The same environment with its manipulable variables, and their values, in another order.

    It reveals policies that depend on the numbering of actions.

    >>> from causalbandits import zoo
    >>> other = permute_environment(zoo.email_campaign(), np.random.default_rng(0))
    >>> other.problem.manipulable, other.problem.model["send_time"].states
    (('send_time', 'product', 'purpose'), ('afternoon', 'evening', 'morning'))
    >>> other.best().mean == zoo.email_campaign().best().mean
    True

    Args:
        env: The environment, without constraints, costs and context, whose reward is not in the model.
        rng: The generator of the order.

    Returns:
        The permuted environment.

    Raises:
        ProblemError: If the environment cannot be permuted.
    """
    problem = env.problem
    if not problem.actions.is_product or problem.costs is not None or problem.context or problem.reward is not None:
        raise ProblemError(
            "Only an environment without constraints on actions, costs and contexts, and with a reward that is not in "
            f"the model, can be permuted; got {problem!r}."
        )
    variables = [problem.manipulable[i] for i in rng.permutation(len(problem.manipulable))]
    orders = {name: rng.permutation(len(problem.model[name].states)) for name in problem.manipulable}
    model = CausalModel(_permute_variable(variable, orders) for variable in problem.model.variables.values())
    # already reported for the environment itself
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):
        other = Problem(
            model, manipulable=variables, reward_parents=problem.parents, reduce=problem.reduce, optional=True
        )
    return Environment(other, _permute_reward(env, orders))


def _permute_variable(variable: Variable, orders: Orders) -> Variable:
    table = variable.table
    for axis, name in enumerate((*variable.parents, variable.name)):
        if name in orders:
            table = np.take(table, orders[name], axis=axis)
    states = [variable.states[i] for i in orders.get(variable.name, range(len(variable.states)))]
    return Variable(variable.name, states, parents=variable.parents, table=table)


def _permute_reward(env: Environment, orders: Orders) -> Reward:
    """The reward, with the axes of its means permuted for parents that are manipulable variables."""
    reward, parents = env.reward, env.problem.parents
    if not any(name in orders for name in parents):
        return reward
    means = env.configuration_means.reshape(env.problem.shape)
    for axis, name in enumerate(parents):
        if name in orders:
            means = np.take(means, orders[name], axis=axis)
    if isinstance(reward, BernoulliReward):
        return BernoulliReward(means)
    if isinstance(reward, StudentReward):
        return StudentReward(means, reward.scale, reward.degrees)
    if isinstance(reward, GaussianReward | LinearReward):
        return GaussianReward(means, reward.sd)
    raise ProblemError(f"The reward of a permuted environment must be one of the library's classes; got {reward!r}.")
