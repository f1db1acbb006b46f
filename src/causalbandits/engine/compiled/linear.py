"""The compiled rounds of linear policies: every action is scored, or each block's best choice is found separately."""

import numpy as np
from numba.extending import overload, register_jitable

from causalbandits.engine.compiled.argmax import first_best_net_of_costs, first_best_net_of_row_costs, pick_sample
from causalbandits.engine.compiled.primitives import record_round
from causalbandits.engine.compiled.sampling import (
    action_cost,
    additive_mean_and_gap,
    context_buffer,
    cost_buffer,
    sample_context,
    sample_number,
    sample_reward,
)
from causalbandits.policies import back_substitute_jit, posteriors, qr_update_jit, squared_norms_jit
from causalbandits.policies.linear import add_round_jit, centre_round, estimate_linear_scales, posterior_terms
from causalbandits.policies.posteriors import sample_stretch

qr_update, back_substitute = register_jitable(qr_update_jit), register_jitable(back_substitute_jit)
squared_norms = register_jitable(squared_norms_jit)
perturb, upper_confidence_bound = (
    register_jitable(posteriors.perturb),
    register_jitable(posteriors.upper_confidence_bound),
)

for _step in (centre_round, estimate_linear_scales, posterior_terms):
    register_jitable(_step)
add_round = register_jitable(add_round_jit)


def sample_theta(rule, statistic, rng, theta):
    """A posterior sample of theta, as in `CausalLinearThompsonSampling.sample_direction`."""
    raise NotImplementedError


def add_reward(statistic, x, reward):
    """Update the regression with a reward; x is overwritten."""
    raise NotImplementedError


@overload(sample_theta)
def _sample_theta(rule, statistic, rng, theta):
    return sample_scaled_theta if "pooled" in statistic.fields else sample_given_theta


@overload(add_reward)
def _add_reward(statistic, x, reward):
    if "pooled" in statistic.fields:
        return lambda statistic, x, reward: add_round(statistic, x, reward)
    return lambda statistic, x, reward: qr_update(statistic.R, statistic.u, x, reward)


def sample_given_theta(rule, statistic, rng, theta):
    """A posterior sample for given scales."""
    for i in range(len(theta)):
        theta[i] = perturb(statistic.u[i], rule.spread, rng.standard_normal())
    back_substitute(statistic.R, theta)


def sample_scaled_theta(rule, statistic, rng, theta):
    """A posterior sample for estimated scales; the rule's spread is v."""
    noise, degrees, known = estimate_linear_scales(statistic.pooled)
    stretch = sample_stretch(degrees, rng) if known else 1.0
    unit, spread = posterior_terms(noise, stretch, rule.spread, rule.in_units_of_noise)
    for i in range(len(theta)):
        theta[i] = perturb(known * statistic.u[i] / unit, spread, rng.standard_normal())
    back_substitute(statistic.R, theta)


def linear_rounds(version):
    """Every searched action is scored."""

    def play(rule, regressors, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        law, law_starts, reward_noise = env.law, env.starts, env.noise
        first_of = env.first
        before, context_codes = env.before, context_buffer(env.before)
        R, u, rng, env_rng = statistic.R, statistic.u, streams.policy, streams.environment
        means, d, costs = regressors.means, regressors.means.shape[1], rule.costs
        most = 0
        for c in range(len(first_of) - 1):
            most = max(most, first_of[c + 1] - first_of[c])
        codes, theta, x = np.empty(len(env.law.sizes), dtype=np.int64), np.empty(d), np.empty(d)
        room, norms, scores = np.empty(d * most), np.empty(most), np.empty(most)
        columns, workspace, last = room.reshape(d, most), room.reshape(d, most), -1
        best = np.empty(rule.samples, dtype=np.int64)
        for t in range(1, record.last + 1):
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first = first_of[context]
            actions = first_of[context + 1] - first
            if context != last:  # slices count references
                last, start = context, regressors.columns.starts[context]
                columns = regressors.columns.values[start : start + d * actions].reshape(d, actions)
                workspace = room[: d * actions].reshape(d, actions)
            for draw in range(rule.samples):
                if rule.thompson:
                    sample_theta(rule, statistic, rng, theta)
                else:
                    theta[:] = u
                    back_substitute(R, theta)
                for a in range(actions):
                    scores[a] = columns[0, a] * theta[0]
                for i in range(1, d):
                    for a in range(actions):
                        scores[a] += columns[i, a] * theta[i]
                if not rule.thompson:
                    beta = rule.betas[min(t, len(rule.betas)) - 1]
                    squared_norms(columns, R, workspace, norms)
                    for a in range(actions):
                        scores[a] = upper_confidence_bound(scores[a], beta, norms[a])
                best[draw] = first_best_net_of_costs(scores, costs, first, actions)
            action = best[pick_sample(rule.samples, rng)]
            position = first + action
            z = sample_number(law, law_starts, position, codes, env_rng)
            reward = sample_reward(reward_noise, env.mean[z], env_rng)
            record_round(record, t, position, env.gap[position], reward)
            for i in range(d):
                x[i] = regressors.table[z, i] if rule.observed else means[first + action, i]
            add_reward(statistic, x, reward)

    return play


@register_jitable
def gather_features(where, features, first_block, indices, x):
    """The features of a configuration or an action, collected from its blocks by code or row."""
    for b in range(len(indices)):
        first, width = where.starts[b], where.starts[b + 1] - where.starts[b]
        at = features.starts[first_block + b] + indices[b] * width
        for i in range(width):
            x[where.values[first + i]] = features.values[at + i]


def by_block_rounds(version):
    """Each block's best choice is found separately, as in `LinearPolicy.best_action_for`."""

    def play(rule, by_block, env, statistic, streams, record):
        key = version  # noqa: F841 (part of the cache's key)
        first_of = env.first
        before, context_codes = env.before, context_buffer(env.before)
        rng, env_rng = streams.policy, streams.environment
        blocks, d = len(env.law.sizes), len(statistic.u)
        codes, states = (
            np.empty(blocks, dtype=np.int64),
            np.empty(len(by_block.additive.parents.values), dtype=np.int64),
        )
        own_starts, scores = np.empty((1, blocks), dtype=np.int64), np.empty(by_block.rows.max())
        theta, x = np.empty(d), np.empty(d)
        best, rows = np.empty((rule.samples, blocks), dtype=np.int64), np.empty(blocks, dtype=np.int64)
        costs, variable_costs = by_block.costs, cost_buffer(by_block.costs)
        where, means, features, additive = by_block.where, by_block.means, by_block.features, by_block.additive
        law, row_counts = env.law, by_block.rows
        for t in range(1, record.last + 1):
            context = sample_context(before, env.context_starts, context_codes, env_rng)
            first_block = context * blocks
            for draw in range(rule.samples):
                sample_theta(rule, statistic, rng, theta)
                for b in range(blocks):
                    first, width = where.starts[b], where.starts[b + 1] - where.starts[b]
                    at = means.starts[first_block + b]
                    for row in range(row_counts[first_block + b]):
                        score = means.values[at] * theta[where.values[first]]
                        for i in range(1, width):
                            score += means.values[at + i] * theta[where.values[first + i]]
                        scores[row] = score
                        at += width
                    best[draw, b] = first_best_net_of_row_costs(
                        scores, costs, first_block + b, row_counts[first_block + b]
                    )
            sample = pick_sample(rule.samples, rng)
            action = 0
            for b in range(blocks):
                rows[b] = best[sample, b]
                own_starts[0, b] = law.cdf.starts[first_block + b] + rows[b] * law.sizes[b]
                action = (
                    action * row_counts[first_block + b] + rows[b]
                )  # unused if configurations are too many to enumerate
            action += first_of[context]
            z = sample_number(law, own_starts, 0, codes, env_rng)
            if len(env.gap):
                mean, gap = env.mean[z], env.gap[action]
            else:
                mean, gap = additive_mean_and_gap(
                    additive,
                    context,
                    rows,
                    codes,
                    states,
                    action_cost(costs, first_block, rows, variable_costs),
                )
            reward = sample_reward(env.noise, mean, env_rng)
            record_round(record, t, action, gap, reward)
            if rule.observed:
                gather_features(where, features, 0, codes, x)
            else:
                gather_features(where, means, first_block, rows, x)
            add_reward(statistic, x, reward)

    return play
