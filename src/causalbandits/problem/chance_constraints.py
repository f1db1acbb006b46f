"""Chance constraints: actions under which an outcome is too likely are removed from the problem.

    max_probability={"complaint": {"yes": 0.01}}    P(complaint = yes | do(a)) <= 0.01 for every permitted action a

P(. | do(a)) is computed exactly, as for the reward's parents, before the reduction, so that a removed action never
occurs in a mixture. If CPTs were fitted to data, an action must comply with probability `COMPLIANCE_PROBABILITY` under
their posterior. If a relevant CPT is unknown, all actions are kept: a policy that learns CPTs checks them at each
decision (`policies.cpts.chance_constraints`), and other policies are refused. In a context, the constraint applies to
P(. | do(a), c), so that each context has its own feasible actions.

>>> from causalbandits import Problem, CausalModel, Variable
>>> model = CausalModel([
...     Variable("dose", ["low", "high"], table=[.5, .5]),
...     Variable("harm", ["no", "yes"], parents=["dose"], table=[[.99, .01], [.95, .05]]),
...     Variable("effect", [0, 1], parents=["dose"], table=[[.6, .4], [.2, .8]])])
>>> limits = {"harm": {"yes": 0.04}}
>>> problem = Problem(model, manipulable=["dose"], reward_parents=["effect"], max_probability=limits, optional=True)
>>> list(problem.actions)
[do(), do(dose=low)]
>>> problem.requirements
P(harm=yes) <= 0.04 admits 2 of 3 actions. The largest value is 0.05, under do(dose=high).
>>> problem.cost({"dose": "high"})
Traceback (most recent call last):
    ...
causalbandits.errors.InterventionError: do(dose=high) is not an action: P(harm=yes) would be 0.05, above the limit 0.04.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, is_real
from causalbandits.errors import InterventionError, ProblemError, unknown_name_message
from causalbandits.model import CausalGraph, CausalModel, LatentModel, State, Variable
from causalbandits.model.graph import ancestors
from causalbandits.problem.actions import PREDICATE_LIMIT, ActionSpace, Choices, Choices2D
from causalbandits.problem.inference import Block, build_conditioned_blocks
from causalbandits.problem.structure_prior import Limit

Limits = Mapping[str, float | Mapping[State | tuple[State, ...], float]]
"""The limits of each variable: a limit for each value, or for several values in a tuple."""

COMPLIANCE_PROBABILITY = 0.95
"""The posterior probability with which an action must comply under fitted CPTs."""

POSTERIOR_SAMPLES = 400
"""The number of posterior samples of the CPTs; their seed is fixed."""

LIMIT_TOLERANCE = 1e-12
"""A probability must exceed its limit by more than this to violate it."""

EXAMPLE = "{'complaint': {'yes': 0.01}}"


class Compliance(NamedTuple):
    """The compliance of actions under uncertain CPTs: the posterior probability of compliance, and the excess over
    the limit.
    """

    share: Array
    excess: Array
    """The mean probability of the limited values, minus the limit."""


@dataclass(frozen=True)
class ChanceConstraint:
    """P(variable in some of its values | do(a)) is at most `limit`."""

    variable: Variable
    codes: tuple[int, ...]
    limit: float
    block: Block

    @property
    def is_unknown(self) -> bool:
        """Whether a CPT on which the probability depends is unknown."""
        posterior = self.block.model.posterior
        names = set(self.block.names).difference(self.block.manipulable_names)
        return posterior is not None and any(posterior.is_unknown(name) for name in names)

    def __str__(self) -> str:
        return format_event(self.variable, self.codes)

    def probabilities(self, choices: Choices2D) -> Array:
        """The probability under each action, given by its choices for all variables; the mean for uncertain CPTs."""
        distinct, row_indices = self._distinct_choices(choices)
        return np.asarray(self.block.rows(distinct)[:, list(self.codes)].sum(axis=1)[row_indices])

    def is_satisfied(self, choices: Choices2D) -> npt.NDArray[np.bool_]:
        """Whether each action complies with the required probability; true for all if a relevant CPT is unknown."""
        if self.is_unknown:
            return np.ones(len(choices), dtype=np.bool_)
        posterior = self.block.model.posterior
        if posterior is None:
            return np.asarray(self.probabilities(choices) <= self.limit + LIMIT_TOLERANCE)
        cpts = posterior.draw_cpts(POSTERIOR_SAMPLES, np.random.default_rng(0), stacklevel=3)
        return np.asarray(self.compliance(choices, cpts).share >= COMPLIANCE_PROBABILITY)

    def compliance(self, choices: Choices2D, cpts: Mapping[str, Array]) -> Compliance:
        """The compliance of each action under sampled CPTs, whose first axis are the samples."""
        distinct, row_indices = self._distinct_choices(choices)
        sampled = [
            self.block.rows_under_models(cpts, row)[:, list(self.codes)].sum(axis=1) for row in distinct.tolist()
        ]
        shares, means = (
            [(p <= self.limit + LIMIT_TOLERANCE).mean() for p in sampled],
            [p.mean() - self.limit for p in sampled],
        )
        return Compliance(np.array(shares)[row_indices], np.array(means)[row_indices])

    def condition(self, space: ActionSpace, evidence: Mapping[str, int]) -> ChanceConstraint:
        """The constraint conditional on known values of the context."""
        return replace(self, block=build_conditioned_blocks(self.block.model, space, [self.variable.name])(evidence)[0])

    def _distinct_choices(self, choices: Choices2D) -> tuple[Choices2D, Codes]:
        """The distinct choices for the block's variables, and the index of each action's choices among them."""
        if not self.block.manipulable:
            return choices[:1, :0], np.zeros(len(choices), dtype=np.intp)
        distinct, row_indices = np.unique(choices[:, self.block.manipulable], axis=0, return_inverse=True)
        return distinct, row_indices.reshape(-1)


@dataclass(frozen=True)
class ChanceConstraints:
    """All chance constraints of a problem, and the actions that meet them; prints as one or two sentences for
    each.
    """

    space: ActionSpace
    """The space of all actions."""
    parts: tuple[ChanceConstraint, ...]

    def reason(self, choices: Choices) -> str | None:
        """The reason why an action may not be chosen; None if it may."""
        row = np.array([choices])
        for part in self.parts:
            if not part.is_satisfied(row)[0]:
                probability = float(part.probabilities(row)[0])
                if probability <= part.limit + LIMIT_TOLERANCE:
                    return (
                        f"{part} would be {probability:.3g}, and is not certain to stay within the limit {part.limit:g}"
                    )
                return f"{part} would be {probability:.3g}, above the limit {part.limit:g}"
        return None

    def compliance(self, choices: Choices2D, cpts: Mapping[str, Array]) -> Compliance:
        """The compliance of each action, by the constraint with the smallest probability of compliance."""
        parts = [part.compliance(choices, cpts) for part in self.parts]
        return Compliance(
            np.min([part.share for part in parts], axis=0), np.max([part.excess for part in parts], axis=0)
        )

    @property
    def limits_text(self) -> str:
        """The constraints as text."""
        return " and ".join(f"{part} <= {part.limit:g}" for part in self.parts)

    def condition(self, evidence: Mapping[str, int]) -> ChanceConstraints:
        """The constraints conditional on known values of the context, given by codes."""
        return ChanceConstraints(self.space, tuple(part.condition(self.space, evidence) for part in self.parts))

    def are_satisfied(self, choices: Choices2D) -> npt.NDArray[np.bool_]:
        """Whether each action meets all constraints."""
        complies = np.ones(len(choices), dtype=bool)
        for part in self.parts:
            complies &= part.is_satisfied(choices)
        return complies

    def explain_infeasibility(self, choices: Choices2D, place: str = "") -> str:
        """The message that no action meets the constraints, with the smallest excess; `place` is the context as
        text.
        """
        first = self.parts[0]
        p = first.probabilities(choices)
        least = int(p.argmin())
        limits, way_out = self.limits_text, "Raise the limit"
        if first.block.model.posterior is not None:
            way_out += ", or reduce the uncertainty of the CPTs by more past data or a stronger prior"
            limits += f" with probability {COMPLIANCE_PROBABILITY:g} under the fitted CPTs"
        return (
            f"max_probability excludes every action{place}: none satisfies {limits}. The smallest value of {first} is "
            f"{p[least]:.3g}, under {self.space.decode(choices[least].tolist())}. {way_out}."
        )

    def __repr__(self) -> str:
        return "\n".join(map(self._format_constraint, self.parts))

    def _format_constraint(self, part: ChanceConstraint) -> str:
        is_enumerable = self.space.size <= PREDICATE_LIMIT
        choices = self.space.array() if is_enumerable else self._choices_of(part)
        if part.is_unknown:
            return (
                f"{part} <= {part.limit:g}. The CPTs are learned online: at each decision, actions must satisfy it "
                f"with posterior probability {COMPLIANCE_PROBABILITY:g}; if none does, the most probable one is played."
            )
        p, remaining = part.probabilities(choices), int(part.is_satisfied(choices).sum())
        worst = int(p.argmax())
        unit = "actions" if is_enumerable else f"choices of {', '.join(part.block.manipulable_names)}"
        return (
            f"{part} <= {part.limit:g} admits {remaining} of {len(choices)} {unit}. The largest value is "
            f"{p[worst]:.3g}, under {self.space.decode(choices[worst].tolist())}."
        )

    def _choices_of(self, part: ChanceConstraint) -> Choices2D:
        """The choices for the variables on which a constraint depends, with the other variables unset."""
        variable_choices = self.space.within(part.block.manipulable).array()
        choices = np.zeros((len(variable_choices), len(self.space.names)), dtype=np.intp)
        choices[:, part.block.manipulable] = variable_choices
        return choices

    def to_record(self) -> dict[str, Any]:
        """A JSON-ready description: variable, codes of its values, limit; and the original action set, if it
        differs.
        """
        limits = [[part.variable.name, list(part.codes), part.limit] for part in self.parts]
        return {"limits": limits, "of": None if self.space.requirements is self else self.space.to_record()}


def apply_chance_constraints(
    space: ActionSpace, model: CausalModel | LatentModel, limits: Limits, reward: str | None, *, in_contexts: bool
) -> ActionSpace:
    """The actions that comply; the resulting space can explain why others are excluded.

    If compliance depends on the context, all actions are kept, and the problem checks it in each context.
    """
    if not isinstance(limits, Mapping):
        raise ProblemError(
            "max_probability must map variables to the highest probability of a value, such as "
            f"{EXAMPLE}; got {limits!r}."
        )
    parts = []
    for name, limit_spec in limits.items():
        if not isinstance(name, str) or name not in model.names:
            raise ProblemError(unknown_name_message("variable in max_probability=:", name, model.names))
        if reward in ancestors(model.graph, [name]):
            raise ProblemError(
                f"max_probability: {name!r} is the reward or an effect of the reward, whose distribution is unknown "
                "at the start."
            )
        block = build_conditioned_blocks(model, space, [name])({})[0]
        parts += [ChanceConstraint(model[name], *limit, block) for limit in _parse_limits(model[name], limit_spec)]
    if not parts:
        return space
    requirements = ChanceConstraints(space, tuple(parts))
    if in_contexts:
        space.refuse_enumeration("The distribution under every action is computed", PREDICATE_LIMIT)
        space.requirements = requirements
        return space
    return _restrict_to_compliant(space, requirements)


def _restrict_to_compliant(space: ActionSpace, requirements: ChanceConstraints) -> ActionSpace:
    """Restrict the values of a variable if a constraint depends on it alone, which keeps blocks independent;
    otherwise list the actions.
    """
    remaining, joint = space, []
    for part in requirements.parts:
        restricted = _restrict_values(remaining, part)
        if restricted is None:
            joint.append(part)
        else:
            remaining = restricted
    if joint:
        remaining = _restrict_to_list(remaining, joint)
    if remaining.size == space.size:
        remaining = space
    remaining.requirements = requirements
    return remaining


def _restrict_values(space: ActionSpace, part: ChanceConstraint) -> ActionSpace | None:
    """The compliant actions, if they are given by allowed values of one variable; otherwise None."""
    if len(part.block.manipulable) != 1 or space.explicit_choices is not None:
        return None
    (variable,) = part.block.manipulable
    name, states = space.names[variable], space.variables[variable].states
    variable_choices = (*([] if name in space.always_set else [0]), *space.settable[variable])
    choices = np.zeros((len(variable_choices), len(space.names)), dtype=np.intp)
    choices[:, variable] = variable_choices
    complies = dict(zip(variable_choices, part.is_satisfied(choices).tolist(), strict=True))
    values = [states[choice - 1] for choice in space.settable[variable] if complies[choice]]
    always = space.always_set if complies.get(0, True) else space.always_set | {name}
    if not values or (space.max_set is not None and len(always) > space.max_set):
        return None
    return ActionSpace(space.variables, max_set=space.max_set, always_set=always, values={**space.values, name: values})


def _restrict_to_list(space: ActionSpace, parts: list[ChanceConstraint]) -> ActionSpace:
    space.refuse_enumeration("The distribution under every action is computed", PREDICATE_LIMIT)
    choices = space.array()
    requirements = ChanceConstraints(space, tuple(parts))
    complies = requirements.are_satisfied(choices)
    if not complies.any():
        raise ProblemError(requirements.explain_infeasibility(choices))
    return space if complies.all() else space.only_choices(map(tuple, choices[complies].tolist()))


def format_event(variable: Variable, codes: Iterable[int]) -> str:
    """The probability that a variable has one of some values, as text."""
    values = [variable.states[code] for code in codes]
    values_text = f"={values[0]}" if len(values) == 1 else f" in {', '.join(map(str, values))}"
    return f"P({variable.name}{values_text})"


def parse_structure_limits(graph: CausalGraph, observed: Sequence[str], limits: object) -> tuple[Limit, ...]:
    """Limits where the structure is learned: on probabilities of observed variables."""
    if not isinstance(limits, Mapping):
        raise ProblemError(
            "max_probability must map variables to the highest probability of a value, such as "
            f"{EXAMPLE}; got {limits!r}."
        )
    parsed = []
    for name, limit_spec in limits.items():
        if name not in observed:
            raise ProblemError(unknown_name_message("observed variable in max_probability=:", name, observed))
        parsed += [Limit(name, codes, largest) for codes, largest in _parse_limits(graph[name], limit_spec)]
    return tuple(parsed)


def _parse_limits(variable: Variable, limit_spec: object) -> Iterable[tuple[tuple[int, ...], float]]:
    """The codes of values, and the limit on their joint probability."""
    if not isinstance(limit_spec, Mapping):
        if not is_real(limit_spec) or set(variable.states) != {0, 1}:
            value = variable.states[-1]
            raise ProblemError(
                f"max_probability must map values of {variable.name!r} to probabilities, such as "
                f"{{{variable.name!r}: {{{value!r}: 0.01}}}}; got {limit_spec!r}."
            )
        limit_spec = {1: limit_spec}
    for values, limit in limit_spec.items():
        if not is_real(limit) or not 0 <= limit < 1:
            raise ProblemError(f"The limit on {variable.name}={values} must be a number ≥ 0 and < 1; got {limit!r}.")
        yield _parse_codes(variable, values), float(limit)


def _parse_codes(variable: Variable, values: object) -> tuple[int, ...]:
    several = isinstance(values, tuple) and values not in variable.states
    try:
        codes = {variable.code(value) for value in (values if isinstance(values, tuple) and several else (values,))}
    except InterventionError as error:
        raise ProblemError(f"max_probability: {error}") from None
    if not codes:
        raise ProblemError(f"max_probability must name at least one value of {variable.name!r}; got none.")
    return tuple(sorted(codes))


def decode_chance_constraints(
    record: Any, space: ActionSpace, model: CausalModel | LatentModel
) -> ChanceConstraints | None:
    """The constraints that `ChanceConstraints.to_record` describes; the record of the problem lists the remaining
    actions elsewhere.
    """
    if record is None:
        return None
    try:
        every = space if record["of"] is None else ActionSpace.from_record(record["of"], model)
        parts = [
            ChanceConstraint(
                model[name], tuple(map(int, codes)), float(limit), build_conditioned_blocks(model, every, [name])({})[0]
            )
            for name, codes, limit in record["limits"]
        ]
    except (TypeError, ValueError, LookupError) as error:
        raise ProblemError(
            f"max_probability must have limits, each with variable, codes and number ({error!r})."
        ) from None
    return ChanceConstraints(every, tuple(parts))
