"""Validation of the inputs of an agent or a study: contexts, batch sizes, seeds, outcomes.

Invalid input raises an error with the reason before any state is changed. Outcomes are returned as codes.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection, Mapping

import numpy as np

from causalbandits._typing import Z, is_integer, is_real
from causalbandits.campaign.decision import BATCH_LIMIT, Context
from causalbandits.errors import BatchWarning, BudgetError, CausalBanditsError, TellError, unknown_name_message, warn
from causalbandits.model import State
from causalbandits.policies import AnyPolicy, validate_reward
from causalbandits.problem import Action, BudgetTracker, Problem

MAX_REWARD = 1e150
"""The largest absolute reward; squares or sums of larger ones would overflow."""

EncodedOutcome = tuple[Z, float, Mapping[str, int] | None]
"""An encoded outcome: the parents' codes (none if they were lost), the reward, and other observed variables."""


def condition_on_context(problem: Problem, context: Context | None, *, accept_impossible: bool) -> Problem:
    """The problem conditioned on the known part of its context; raises an error for a context of probability 0."""
    conditioned = problem if context is None else problem.condition(context)
    if not accept_impossible and not conditioned.can_occur:
        raise CausalBanditsError(
            f"The model gives the context {dict(context or {})} probability 0. If the model's CPTs are estimates, "
            'create the agent or the study with zero_probability="allow".'
        )
    return conditioned


def validate_batch_size(n: object) -> None:
    """Raise an error unless `n` is a number of decisions that can be requested at once."""
    if not is_integer(n) or not 1 <= n <= BATCH_LIMIT:
        raise CausalBanditsError(f"n, the number of decisions, must be an integer from 1 to {BATCH_LIMIT}; got {n!r}.")


def warn_of_repetition(policy: AnyPolicy, n: int, remedy: str, stacklevel: int) -> None:
    """Warn that a batch repeats a single action because the policy is deterministic."""
    warn(
        f"ask({n}): the policy {policy.id!r} is deterministic, so that a batch repeats one action until an outcome "
        f"is reported. {remedy}, or choose a randomised policy, such as 'c-ts(prior=main-effects)'.",
        BatchWarning,
        stacklevel=stacklevel + 1,
    )


def refuse_beyond_budget(n: int, tracker: BudgetTracker | None) -> None:
    """Raise an error if a batch has more decisions than the budget has rounds left."""
    if tracker is not None and n > (rounds_left := tracker.status.rounds_left):
        raise BudgetError(f"The budget covers {rounds_left} more rounds; ask({n}) requests {n}. Nothing was decided.")


def validate_seed(seed: object) -> None:
    """Raise an error unless the seed is an integer, 0 or more, or None."""
    if seed is not None and (not is_integer(seed) or seed < 0):
        raise _seed_error(seed)


def parse_seed(seed: int | np.random.SeedSequence | None) -> np.random.SeedSequence:
    """The seed, in any form that NumPy accepts, with plain integers that a file can store."""
    try:
        sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        entropy = np.asarray(sequence.entropy, dtype=object).tolist()
        plain_entropy = [int(part) for part in entropy] if isinstance(entropy, list) else int(entropy)
        return np.random.SeedSequence(plain_entropy, spawn_key=tuple(map(int, sequence.spawn_key)))
    except (TypeError, ValueError):
        raise _seed_error(seed) from None


def _seed_error(seed: object) -> CausalBanditsError:
    return CausalBanditsError(f"seed must be an integer ≥ 0, or None; got {seed!r}.")


def validate_observed_argument(observed: object) -> None:
    """Raise an error if `observed` is not a mapping, for example if it is the reward."""
    if observed is None or isinstance(observed, Mapping):
        return
    reward = f"{observed!r}" if is_real(observed) or isinstance(observed, bool) else "..."
    raise TellError(
        "observed must map variables to their values, such as {'subject': 'short'}; got "
        f"{_abbreviate(observed)}. The reward is a separate argument: tell(decision, reward={reward}, "
        "observed={...}). Nothing was changed."
    )


def validate_outcome(
    problem: Problem,
    policy: AnyPolicy,
    action: Action | None,
    reward: float,
    observed: Mapping[str, State] | None,
    *,
    accept_impossible: bool,
    allow_incomplete: bool = False,
) -> EncodedOutcome:
    """The outcome of an action, in codes; raises a TellError if it is invalid.

    The problem is conditioned on the context of the decision. Variables that the action set, and the context, are
    filled in; None marks a lost value. `action` is None for an outcome that arrives before its decision: it is
    validated as far as possible. With `allow_incomplete`, an outcome without some values that the policy needs is
    accepted as well; its values of parents are then among the observed codes.
    """
    if type(observed) is not dict:
        validate_observed_argument(observed)
    value = reward if type(reward) is float and -MAX_REWARD <= reward <= MAX_REWARD else _validate_reward(reward)
    if problem.reward_range is not None and not problem.reward_range[0] <= value <= problem.reward_range[1]:
        raise TellError(
            f"The problem declares rewards from {problem.reward_range[0]:g} to {problem.reward_range[1]:g} "
            f"(reward_range), and this reward is {value:g}. If such rewards are possible, the declared range is "
            "wrong: create the problem with another range, or without one. Nothing was changed."
        )
    try:
        if policy.traits.unit_rewards or policy.traits.learns_scales:
            validate_reward(policy, value)
    except CausalBanditsError as error:
        raise TellError(f"{error} Nothing was changed.") from None
    parents, others, lost = _split_observed(problem, observed)
    all_parents = parents if action is None else _with_known_parents(problem, action, parents)
    observed_codes: dict[str, int] | None = None
    try:
        if others and action is not None:
            observed_codes = _encode_observed(problem, action, others)
        if len(all_parents) < len(problem.parents):
            z, observed_codes = _encode_partial_parents(problem, action, parents, observed_codes)
        else:
            z = problem.encode_parents(all_parents)
    except TellError:
        raise
    except CausalBanditsError as error:
        raise TellError(f"{error} Nothing was changed.") from None
    if action is None:
        return z, value, observed_codes or None
    if not allow_incomplete and (not z or policy.traits.learns_cpts):
        _refuse_incomplete(problem, policy, action, z, observed_codes, lost)
    if z and not accept_impossible and not problem.is_supported(action, z):
        raise _zero_probability_error(problem.decode_parents(z), action)
    if observed_codes and not accept_impossible:
        parent_codes = dict(zip(problem.parents, z, strict=True)) if z else {}
        if not problem.is_jointly_supported(
            action, {**problem.context_codes_by_name, **parent_codes, **observed_codes}
        ):
            raise _zero_probability_error({**parents, **others}, action)
    return z, value, observed_codes or None


_NOTHING: dict[str, State] = {}


def _split_observed(
    problem: Problem, observed: Mapping[str, State] | None
) -> tuple[Mapping[str, State], Mapping[str, State], Collection[str]]:
    """The values of the parents, those of other variables, and the variables whose values were lost (None)."""
    if not observed:
        return _NOTHING, _NOTHING, ()
    parent_names = problem.parent_names
    if observed.keys() <= parent_names and None not in observed.values():
        return observed, _NOTHING, ()
    lost = {name for name, value in observed.items() if value is None and _may_be_lost(problem, name)}
    kept = {name: value for name, value in observed.items() if name not in lost}
    parents = {name: value for name, value in kept.items() if name in parent_names}
    return parents, {name: value for name, value in kept.items() if name not in parent_names}, lost


def _may_be_lost(problem: Problem, name: str) -> bool:
    """Whether None marks a lost value of a variable that should be observed, rather than being one of its values."""
    expected = name in problem.parent_names or name in problem.must_observe
    return expected and None not in problem.variable(name).states


def infer_parents(problem: Problem, action: Action | None, observed_codes: Mapping[str, int]) -> Z | None:
    """The parents' codes from intervention, context and observed values; None if these do not determine them all.

    The problem is conditioned on the context of the decision.
    """
    codes, context = [], problem.context_codes_by_name
    intervention: Mapping[str, State] = {} if action is None else action.intervention
    for name in problem.parents:
        if name in observed_codes:
            codes.append(observed_codes[name])
        elif name in intervention:
            codes.append(problem.variable(name).code(intervention[name]))
        elif name in context:
            codes.append(context[name])
        else:
            return None
    return tuple(codes)


def _encode_partial_parents(
    problem: Problem, action: Action | None, parents: Mapping[str, State], observed_codes: dict[str, int] | None
) -> tuple[Z, dict[str, int] | None]:
    """The parents' codes if the other values determine them; otherwise the given ones are among the observed codes."""
    parent_codes = {name: problem.variable(name).code(value) for name, value in parents.items()}
    codes = {**(observed_codes or {}), **parent_codes}
    z = infer_parents(problem, action, codes)
    return ((), codes or None) if z is None else (z, observed_codes)


def missing_variables(
    problem: Problem, action: Action, context: Z | None, z: Z | None, observed: Mapping[str, int] | None
) -> tuple[str, ...]:
    """The parents and the variables of `must_observe` whose values an outcome leaves unknown.

    `context` has the codes of the context, -1 for unknown values.
    """
    has_parents = bool(z) or not problem.parents
    if has_parents and not problem.unknown_cpts and problem.structure_prior is None:
        return ()
    known = {*action.intervention, *(observed or ()), *(problem.parents if has_parents else ())}
    known.update(name for name, code in zip(problem.context, context or (), strict=False) if code >= 0)
    return tuple(name for name in dict.fromkeys((*problem.parents, *problem.must_observe)) if name not in known)


def observation_requirements(problem: Problem, policy: AnyPolicy) -> tuple[str, ...]:
    """The variables whose values a policy needs in every outcome, unless they are set or part of the context."""
    parents = problem.parents if policy.traits.needs_parents else ()
    return tuple(dict.fromkeys((*parents, *(problem.must_observe if policy.traits.learns_cpts else ()))))


def _refuse_incomplete(
    problem: Problem,
    policy: AnyPolicy,
    action: Action,
    z: Z,
    observed_codes: Mapping[str, int] | None,
    lost: Collection[str],
) -> None:
    """Raise an error if an outcome lacks a value that the policy needs."""
    missing = missing_variables(problem, action, problem.context_codes, z, observed_codes)
    needed = observation_requirements(problem, policy)
    missing_parents = [name for name in missing if name in problem.parents and name in needed]
    names = ", ".join(f"{name!r}: ..." for name in missing if name in needed)
    if missing_parents:
        raise TellError(
            f"The outcome lacks {', '.join(map(repr, missing_parents))}: the policy {policy.id!r} estimates the "
            f"mean reward given {', '.join(problem.parents)}, and needs their values. Report the value: "
            f"tell(decision, reward=..., observed={{{names}}}); or cancel(decision) if the value was lost. Nothing "
            "was changed."
        )
    if unreported := [name for name in missing if name in needed and name not in lost]:
        manipulable = [name for name in unreported if name in problem.manipulable]
        always = (
            (f" Or set {', '.join(map(repr, manipulable))} in every action: remove the name from optional=.")
            if manipulable
            else ""
        )
        declaration = len(manipulable) < len(unreported) and (
            " If the variable can never be observed, declare the observable variables, Problem(..., "
            "can_observe=[...]); the others are marginalised out."
        )
        raise TellError(
            f"The outcome lacks {', '.join(map(repr, unreported))}: the policy {policy.id!r} learns CPTs from "
            f"{', '.join(problem.must_observe)}. Report every missing value, tell(decision, reward=..., "
            f"observed={{{names}}}). For a value that was lost, report None, observed={{{unreported[0]!r}: None}}."
            f"{always}{declaration or ''} Nothing was changed."
        )


def _zero_probability_error(values: Mapping[str, State], action: Action) -> TellError:
    return TellError(
        f"The model gives {dict(values)} probability 0 under {action}. To accept such outcomes because the CPTs "
        'are estimates, create the agent or the study with zero_probability="allow". Nothing was changed.'
    )


def _with_known_parents(problem: Problem, action: Action, parents: Mapping[str, State]) -> Mapping[str, State]:
    """The parents' values, completed with those that the action or the context determines.

    Raises an error if a reported value differs from a determined one.
    """
    choices = action.choices
    known = {name: states[choices[k] - 1] for k, name, states in problem.manipulable_parents if choices[k]}
    _refuse_contradiction(problem, parents, known, "was set to {} by the decision", _SET_ADVICE)
    if problem.context_codes is not None:
        context = problem.known_parents
        _refuse_contradiction(problem, parents, context, "was {} in the context of the decision", "")
        known = {**context, **known}
    return {**known, **parents} if known else parents


_SET_ADVICE = " Leave it out: it is filled in. If another action was carried out, cancel the decision."


def _refuse_contradiction(
    problem: Problem, reported: Mapping[str, State], known: Mapping[str, State], relation: str, advice: str
) -> None:
    for name, value in known.items():
        if name in reported and _contradicts(problem, name, reported[name], value):
            raise TellError(
                f"{name!r} {relation.format(repr(value))}; observed has {_abbreviate(reported[name])}.{advice} "
                "Nothing was changed."
            )


def _contradicts(problem: Problem, name: str, reported: State, value: State) -> bool:
    """Whether two values are different states; a number equals its interval."""
    if type(reported) is type(value) and reported == value:
        return False
    variable = problem.variable(name)
    try:
        return variable.code(reported) != variable.code(value)
    except CausalBanditsError:  # not a valid state, which raises an error when it is encoded
        return False


def _validate_reward(reward: float) -> float:
    try:
        value = float(reward) if isinstance(reward, (float, numbers.Real, np.bool_)) else math.nan
    except OverflowError:
        value = math.inf
    if isinstance(reward, float) and math.isnan(reward):
        raise TellError(
            "tell() needs the reward, a finite number; it is missing, or nan. If the reward is not observed yet, "
            "call tell() later. Nothing was changed."
        )
    if not abs(value) <= MAX_REWARD:
        is_finite = not math.isnan(value) and reward not in (math.inf, -math.inf)
        size = f", of size {MAX_REWARD:g} at most" if is_finite else ""
        raise TellError(f"A reward must be a finite number{size}; got {_abbreviate(reward)}. Nothing was changed.")
    return value


def _abbreviate(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _encode_observed(problem: Problem, action: Action, observed: Mapping[str, State]) -> dict[str, int]:
    """The codes of variables other than the parents; they must be consistent with the action and the context."""
    for name in observed:
        if name == problem.reward and name != problem.reward_node:
            raise TellError(
                f"{name!r} is the reward: give it as reward=..., and leave it out of observed. Nothing was changed."
            )
        if not isinstance(name, str) or name not in problem.graph.parents:
            known = [variable for variable in problem.graph.parents if variable != problem.reward]
            raise TellError(f"observed: {unknown_name_message('variable', name, known)} Nothing was changed.")
    codes = {name: problem.variable(name).code(value) for name, value in observed.items()}
    set_values = {name: value for name, value in action.intervention.items() if name in observed}
    _refuse_contradiction(problem, observed, set_values, "was set to {} by the decision", _SET_ADVICE)
    context = problem.contexts.values(problem.context_codes)
    _refuse_contradiction(problem, observed, context, "was {} in the context of the decision", "")
    return codes
