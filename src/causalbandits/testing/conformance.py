"""The requirements of the agent and the simulator, each as a function of a policy."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.agent import Agent
from causalbandits.engine import simulate
from causalbandits.environments import BernoulliReward, Environment, Reward, zoo
from causalbandits.errors import PolicyError, collect_warnings
from causalbandits.model import CausalModel, Intervention, State, Variable
from causalbandits.policies import (
    AnyPolicy,
    Choice,
    Outcome,
    OutcomeSums,
    Policy,
    randomised_rounding,
    refuse_budget,
    situation_for,
    unchecked_method,
)
from causalbandits.problem import Budget, Problem, Scores, Situation
from causalbandits.problem.actions import Prices

DRAWS = 400
STANDARD_ERRORS = 6.0
"""The tolerance for averages of sampled scores, in standard errors: with 80 actions, the false alarm rate is below one
in 10^6 checks."""


class Event(NamedTuple):
    """One past round: the action, the configuration, the reward."""

    intervention: Mapping[str, State]
    z: tuple[int, ...]
    reward: float


def require(holds: bool, rule: str) -> None:
    """Raise with the violated rule; unlike an assert statement, also under `python -O`."""
    if not holds:
        raise AssertionError(rule)


def check_policy(policy: AnyPolicy) -> None:
    """Run every conformance check on a policy.

    >>> from causalbandits.policies import CausalUCB
    >>> check_policy(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If a check fails; the message names the rule.
        PolicyError: If `policy` is not a policy.
    """
    for check in CHECKS:
        check(policy)


def check_scoring_is_pure(policy: AnyPolicy) -> None:
    """Check that scoring and deciding change nothing and are reproducible.

    They may depend on the situation, the statistic and the random generator only.

    >>> from causalbandits.policies import CausalUCB
    >>> check_scoring_is_pure(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
        PolicyError: If `policy` is not a policy.
    """
    if not isinstance(policy, Policy):
        raise PolicyError(f"check_policy() takes a policy, such as CausalUCB(); got {policy!r}.")
    env = _build_campaign(policy)
    situation = _situation(policy, env.problem)
    untrained_scores = policy.score(situation, policy.init(env.problem), np.random.default_rng(3))
    require(
        bool(np.isfinite(untrained_scores.values).all()),
        f"{policy}: scores must be finite, also before the first reward.",
    )
    require(
        untrained_scores.values.shape == (situation.size,),
        f"{policy}: {situation.size} searched actions need as many scores; got shape {untrained_scores.values.shape}.",
    )
    statistic = _train_statistic(policy, env.problem, _sample_history(env, 60))
    before = json.dumps(statistic.to_record())

    def compute_twice(compute: Callable[[np.random.Generator], Any], name: str) -> tuple[Any, Any]:
        results = compute(np.random.default_rng(3)), compute(np.random.default_rng(3))
        require(json.dumps(statistic.to_record()) == before, f"{policy}: {name}() changed the statistic.")
        return results

    first, second = compute_twice(lambda rng: policy.score(situation, statistic, rng).values, "score")
    require(np.array_equal(first, second), f"{policy}: two scorings with the same random numbers differ.")
    if not policy.traits.randomised:
        other_seed = policy.score(situation, statistic, np.random.default_rng(4)).values
        require(
            np.array_equal(first, other_seed),
            (f"{policy}: scores depend on random numbers, so traits.randomised must not be False."),
        )
    decide = unchecked_method(policy, "decide")
    first_choice, second_choice = compute_twice(lambda rng: decide(situation, statistic, rng), "decide")
    require(first_choice == second_choice, f"{policy}: two decisions with the same random numbers differ.")


def check_decisions_follow_scores(policy: AnyPolicy) -> None:
    """Check that the decision is the first action with the best score, or is drawn with the same probabilities.

    >>> from causalbandits.policies import CausalUCB
    >>> check_decisions_follow_scores(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
    """
    env = _build_campaign(policy)
    situation, statistic = (
        _situation(policy, env.problem),
        _train_statistic(policy, env.problem, _sample_history(env, 60)),
    )

    def best_by_score(seed: int) -> Any:
        scores: Scores = policy.score(situation, statistic, np.random.default_rng(seed))
        return situation.action(scores.best_position())

    def decide(seed: int) -> Any:
        choice = unchecked_method(policy, "decide")(situation, statistic, np.random.default_rng(seed))
        _check_choice(policy, situation, choice)
        return choice.action

    if all(best_by_score(seed) == decide(seed) for seed in range(20)):
        return
    require(policy.traits.randomised, f"{policy}: decide() must choose the first action with the largest score.")
    by_score, by_decision = (
        Counter(map(best_by_score, range(DRAWS))),
        Counter(decide(seed + DRAWS) for seed in range(DRAWS)),
    )
    for action in {*by_score, *by_decision}:
        p = (by_score[action] + by_decision[action]) / (2 * DRAWS)
        error = np.sqrt(2 * p * (1 - p) / DRAWS)
        require(
            abs(by_score[action] - by_decision[action]) / DRAWS <= STANDARD_ERRORS * error,
            f"{policy}: decide() chooses {action} in {by_decision[action]} of {DRAWS} draws, and score() ranks it "
            f"first in {by_score[action]} of {DRAWS}. The frequencies must agree.",
        )


def check_decisions_stay_eligible(policy: AnyPolicy) -> None:
    """Check that only eligible actions are chosen.

    >>> from causalbandits.policies import CausalUCB
    >>> check_decisions_stay_eligible(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
    """
    env = _build_campaign(policy)
    statistic = _train_statistic(policy, env.problem, _sample_history(env, 60))
    eligible = [env.problem.actions[number] for number in (2, 31, 77)]
    situation = env.problem.situation(eligible=eligible)
    for seed in range(20):
        choice = unchecked_method(policy, "decide")(situation, statistic, np.random.default_rng(seed))
        _check_choice(policy, situation, choice)


def check_budgets_are_kept(policy: AnyPolicy) -> None:
    """Check that only affordable actions are chosen under a budget, unless the policy refuses budgets.

    >>> from causalbandits.policies import CausalUCB
    >>> check_budgets_are_kept(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
    """
    try:
        refuse_budget(policy)
    except PolicyError:
        return
    env = _build_campaign(policy)
    p = env.problem
    prices: Prices = {"product": 0.5, "purpose": {"Promo": 2.0}, "send_time": 0.25}
    with_costs = _build_environment(
        Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, costs=prices, optional=True), env.reward
    )
    agent = Agent(with_costs.problem, policy, seed=5, budget=Budget(8, rounds=40))
    try:
        interventions = _run_agent(agent, with_costs, 40)
    except PolicyError as error:
        raise AssertionError(
            f"{policy}: within a budget, decide() must choose an affordable action. {error}"
        ) from error
    spent = sum(with_costs.problem.cost(do) for do in interventions)
    require(spent <= 8 + 1e-9, f"{policy}: the policy spent {spent:g} of a budget of 8.")


def _check_choice(policy: AnyPolicy, situation: Situation, choice: object) -> None:
    if not isinstance(choice, Choice):
        raise AssertionError(f"{policy}: decide() must return a Choice; it returned a {type(choice).__name__}.")
    searched = {situation.action(position) for position in range(situation.size)}
    require(
        choice.action in searched,
        f"{policy}: {choice.action} is not one of the {situation.size} actions to choose from.",
    )
    if not policy.traits.randomised:
        require(choice.propensity == 1.0, f"{policy}: a deterministic decision must have propensity 1.")
    if choice.support is not None:
        shares = dict(choice.support)
        require(abs(sum(shares.values()) - 1) < 1e-9, f"{policy}: the probabilities of the support must sum to 1.")
        require(
            choice.propensity is not None and abs(shares.get(choice.action, 0.0) - choice.propensity) < 1e-9,
            f"{policy}: the propensity must be the action's probability in the support.",
        )


def check_scores_permute(policy: AnyPolicy) -> None:
    """Check that renumbering the actions renumbers the scores, and keeps a unique choice.

    A policy that samples a number per action is checked on average over samples.

    >>> from causalbandits.policies import CausalUCB
    >>> check_scores_permute(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
    """
    env = _build_campaign(policy)
    p = env.problem
    env = _build_environment(
        Problem(p.model, manipulable=p.manipulable, reward_parents=p.parents, reduce=False, optional=True), env.reward
    )
    actions = list(env.problem.actions)
    order = np.random.default_rng(11).permutation(len(actions))
    permuted = Problem(
        p.model, manipulable=p.manipulable, reward_parents=p.parents, actions=[actions[i] for i in order]
    )
    history = _sample_history(env, 200)
    original_statistic = _train_statistic(policy, env.problem, history)
    permuted_statistic = _train_statistic(policy, permuted, history)

    def scores(problem: Problem, statistic: Any, seed: int) -> Array:
        return policy.score(_situation(policy, problem), statistic, np.random.default_rng(seed)).values

    expected, permuted_scores = (
        scores(env.problem, original_statistic, 0)[order],
        scores(permuted, permuted_statistic, 0),
    )
    if np.allclose(expected, permuted_scores, rtol=1e-9, atol=1e-9):
        runner_up, best = np.sort(permuted_scores)[-2:]
        if best - runner_up > 1e-6:
            is_same_choice = np.argmax(expected) == np.argmax(permuted_scores)
            require(bool(is_same_choice), f"{policy}: the choice depends on the numbering of the actions.")
        return
    require(policy.traits.randomised, f"{policy}: scores depend on how the actions are numbered.")
    a = np.array([scores(env.problem, original_statistic, seed)[order] for seed in range(DRAWS)])
    b = np.array([scores(permuted, permuted_statistic, seed + DRAWS) for seed in range(DRAWS)])
    error = np.sqrt((a.var(axis=0, ddof=1) + b.var(axis=0, ddof=1)) / DRAWS)
    worst = int(np.argmax(np.abs(a.mean(axis=0) - b.mean(axis=0)) - STANDARD_ERRORS * error))
    require(
        abs(a[:, worst].mean() - b[:, worst].mean()) <= STANDARD_ERRORS * error[worst] + 1e-9,
        f"{policy}: the mean score of {permuted.actions[worst]} depends on how the actions are numbered.",
    )


def check_state_is_a_fold(policy: AnyPolicy) -> None:
    """Check that the same outcomes give the same statistic, in any order.

    The order is not checked if the policy's traits are sequential, or learn CPTs. If the policy defines `from_sums`,
    the sums of the outcomes must give this statistic, too.

    >>> from causalbandits.policies import CausalUCB
    >>> check_state_is_a_fold(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
    """
    env = _build_campaign(policy)
    history = _sample_history(env, 200)
    first, second = (_train_statistic(policy, env.problem, history) for _ in range(2))
    require(
        _encode_statistic(first) == _encode_statistic(second),
        f"{policy}: the same outcomes gave two different statistics.",
    )
    if not (policy.traits.sequential or policy.traits.learns_cpts):  # those count decisions, too
        order = np.random.default_rng(7).permutation(len(history))
        reordered = _train_statistic(policy, env.problem, history, order).to_record()
        for name, value in first.to_record().items():
            require(
                np.allclose(value, reordered[name], rtol=1e-6, atol=1e-6),
                f"{policy}: the same outcomes in another order gave another statistic ({name}). Keep sums over "
                "outcomes. A policy that depends on the order declares traits.sequential and uses monitor().",
            )
    try:
        from_sums = policy.from_sums(env.problem, OutcomeSums.of(_build_outcomes(env.problem, history)))
    except PolicyError:  # the policy declares that sums are not sufficient
        return
    for name, value in first.to_record().items():
        require(
            np.allclose(value, from_sums.to_record()[name], rtol=1e-9, atol=1e-9),
            f"{policy}: the statistic from sums and the statistic from outcomes differ in {name}.",
        )


def check_state_round_trips(policy: AnyPolicy) -> None:
    """Check that a statistic written to JSON and an agent saved to a file continue unchanged.

    >>> from causalbandits.policies import CausalUCB
    >>> check_state_round_trips(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
    """
    env = _build_campaign(policy)
    situation, statistic = (
        _situation(policy, env.problem),
        _train_statistic(policy, env.problem, _sample_history(env, 60)),
    )
    restored = policy.init(env.problem)
    restored.restore(json.loads(json.dumps(statistic.to_record())))
    scores = [policy.score(situation, s, np.random.default_rng(5)).values for s in (statistic, restored)]
    require(
        np.array_equal(scores[0], scores[1]),
        (f"{policy}: the scores of a statistic change after saving it as JSON and loading it."),
    )
    agent = Agent(env.problem, policy, seed=1)
    _run_agent(agent, env, 40)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.json"
        agent.save(path)
        resumed = Agent.load(path, policy=policy)
    require(
        _run_agent(agent, env, 40) == _run_agent(resumed, env, 40),
        f"{policy}: the decisions of an agent change after saving and loading it.",
    )


def check_seeded_runs_repeat(policy: AnyPolicy) -> None:
    """Check that the same seed gives the same regret, also for a pickled copy of the policy.

    >>> from causalbandits.policies import CausalUCB
    >>> check_seeded_runs_repeat(CausalUCB())

    Args:
        policy: The policy.

    Raises:
        AssertionError: If the check fails; the message names the rule.
    """
    env = _build_campaign(policy)
    copy = pickle.loads(pickle.dumps(policy))
    runs = [simulate(env, {"it": p}, horizon=80, replications=2, seed=4) for p in (policy, policy, copy)]
    for run in runs[1:]:
        require(
            np.array_equal(runs[0].regret("it"), run.regret("it")), (f"{policy}: two runs with the same seed differ.")
        )


def check_identity(causal: AnyPolicy, plain: AnyPolicy, *, horizon: int = 400) -> None:
    """Check that two policies are identical, bit for bit, if every action has a configuration of its own (P =
    identity).

    >>> from causalbandits.policies import UCB, CausalUCB
    >>> check_identity(CausalUCB(), UCB())

    Args:
        causal: The policy with the graph.
        plain: The policy without it.
        horizon: The number of rounds.

    Raises:
        AssertionError: If the policies differ.
    """
    k = 7
    arm = Variable("arm", list(range(k)), table=np.full(k, 1 / k))
    problem = Problem(CausalModel([arm]), manipulable=["arm"], reward_parents=["arm"], optional=False)
    env = Environment(problem, BernoulliReward(np.linspace(0.2, 0.8, k)))
    rngs = [np.random.default_rng(9) for _ in range(2)]
    env_rng = np.random.default_rng(10)
    pair = [(p.for_horizon(horizon), _situation(p, problem), p.init(problem)) for p in (causal, plain)]
    for t in range(horizon):
        scores = [p.score(situation, s, rng) for (p, situation, s), rng in zip(pair, rngs, strict=True)]
        require(
            np.array_equal(scores[0].values, scores[1].values),
            f"{causal} and {plain} must have equal scores if P is the identity; they differ in round {t + 1}.",
        )
        action = pair[0][1].action(scores[0].best_position())
        z, reward = env.draw(action.choices, env_rng)
        for p, situation, s in pair:
            p.update(situation, s, Outcome(action, z, reward, reward, t))


CHECKS: tuple[Callable[[AnyPolicy], None], ...] = (
    check_scoring_is_pure,
    check_decisions_follow_scores,
    check_decisions_stay_eligible,
    check_scores_permute,
    check_state_is_a_fold,
    check_state_round_trips,
    check_seeded_runs_repeat,
    check_budgets_are_kept,
)


def _build_campaign(policy: AnyPolicy) -> Environment:
    """An environment in which the policy can decide."""
    env = zoo.email_campaign()
    return _build_environment(env.problem.without_cpts(), env.reward) if policy.traits.learns_cpts else env


def _build_environment(problem: Problem, reward: Reward) -> Environment:
    """An environment, without the warning that values of unknown CPTs are drawn uniformly: here that is enough."""
    with collect_warnings():
        return Environment(problem, reward)


def _situation(policy: AnyPolicy, problem: Problem) -> Situation:
    return situation_for(policy, problem)


def _sample_history(env: Environment, rounds: int) -> list[Event]:
    rng = np.random.default_rng(0)
    actions = rng.integers(env.problem.actions.size, size=rounds).tolist()
    return [Event(env.problem.actions[a], *env.draw(env.problem.actions.choices(a), rng)) for a in actions]


def _build_outcomes(problem: Problem, history: list[Event]) -> list[Outcome]:
    seed = np.random.SeedSequence(1)
    return [
        Outcome(
            problem.actions.find(event.intervention),
            event.z,
            event.reward,
            randomised_rounding(event.reward, seed, t),
            t,
        )
        for t, event in enumerate(history)
    ]


def _train_statistic(
    policy: AnyPolicy, problem: Problem, history: list[Event], order: Iterable[int] | None = None
) -> Any:
    statistic = policy.init(problem)
    outcomes = _build_outcomes(problem, history)
    for outcome in outcomes if order is None else [outcomes[i] for i in order]:
        policy.update(_situation(policy, problem), statistic, outcome)
    return statistic


def _encode_statistic(statistic: Any) -> str:
    return json.dumps(statistic.to_record())


def _run_agent(agent: Agent, env: Environment, rounds: int) -> list[Intervention]:
    env_rng = np.random.default_rng(2)
    interventions = []
    for _ in range(rounds):
        decision = agent.ask()
        codes, z, reward = env.draw_all(env.problem.choices(decision.action), env_rng)
        observed = {name: env.problem.variable(name).states[code] for name, code in codes.items()}
        agent.tell(decision.id, reward=reward, observed={**env.problem.decode_parents(z), **observed})
        interventions.append(Intervention(decision.action))
    return interventions
