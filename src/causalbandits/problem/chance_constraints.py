"""Chance constraints: actions that make some outcome too likely are no actions of the problem.

    max_probability={"complaint": {"yes": 0.01}}    P(complaint = yes | do(a)) <= 0.01 for every permitted action a

P(. | do(a)) is computed exactly, as for the reward's parents, before anything is reduced: a refused action never stands
in a mixture. Where tables were fitted to data, an action must comply with probability
`COMPLIANCE_PROBABILITY` under their posterior. Where nothing is known of a CPT on the way, all actions are kept: a
policy that learns CPTs judges them at each decision (`policies.cpts.chance_constraints`); other policies are refused.
Where a context is known, it is P(. | do(a), c) that counts, so that each context has actions of its own.

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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array, Codes, is_real
from causalbandits.errors import InterventionError, ProblemError, unknown_name_message
from causalbandits.model import CausalModel, LatentModel, State, Variable
from causalbandits.model.graph import ancestors
from causalbandits.problem.actions import PREDICATE_LIMIT, ActionSpace, Choices, Choices2D
from causalbandits.problem.inference import Block, build_conditioned_blocks

Limits = Mapping[str, float | Mapping[State | tuple[State, ...], float]]
"""For each variable the values that may not be too likely, alone or several in a tuple, each with its limit."""

COMPLIANCE_PROBABILITY = 0.95
"""Under fitted tables an action complies if it does so in this share of their posterior's draws."""

POSTERIOR_SAMPLES = 400
"""So many models are drawn; always the same ones."""

LIMIT_TOLERANCE = 1e-12
"""A probability exceeds its limit if it does so by more than this."""

EXAMPLE = "{'complaint': {'yes': 0.01}}"


class Compliance(NamedTuple):
    """Of actions under uncertain tables: in which share of their draws they comply, and what exceeds the limit."""

    share: Array
    excess: Array
    """The mean probability of what is to be rare, less what is allowed."""


@dataclass(frozen=True)
class ChanceConstraint:
    """P(variable in some of its values | do(a)) is at most `limit`."""

    variable: Variable
    codes: tuple[int, ...]
    limit: float
    block: Block

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known of a CPT on which the probability depends."""
        posterior = self.block.model.posterior
        names = set(self.block.names).difference(self.block.knob_names)
        return posterior is not None and any(posterior.is_unknown(name) for name in names)

    def __str__(self) -> str:
        values = [self.variable.states[code] for code in self.codes]
        values_text = f"={values[0]}" if len(values) == 1 else f" in {', '.join(map(str, values))}"
        return f"P({self.variable.name}{values_text})"

    def probabilities(self, choices: Choices2D) -> Array:
        """Of each action, given by its choices of all knobs: the mean, where tables are uncertain."""
        distinct, row_indices = self._distinct_choices(choices)
        return np.asarray(self.block.rows(distinct)[:, list(self.codes)].sum(axis=1)[row_indices])

    def is_satisfied(self, choices: Choices2D) -> npt.NDArray[np.bool_]:
        """Of which actions it is true, surely enough; of all of them where nothing is known."""
        if self.is_unknown:
            return np.ones(len(choices), dtype=np.bool_)
        posterior = self.block.model.posterior
        if posterior is None:
            return np.asarray(self.probabilities(choices) <= self.limit + LIMIT_TOLERANCE)
        tables = posterior.draw_cpts(POSTERIOR_SAMPLES, np.random.default_rng(0), stacklevel=3)
        return np.asarray(self.compliance(choices, tables).share >= COMPLIANCE_PROBABILITY)

    def compliance(self, choices: Choices2D, tables: Mapping[str, Array]) -> Compliance:
        """Of each action, by tables that have their draws on the first axis."""
        distinct, row_indices = self._distinct_choices(choices)
        sampled = [
            self.block.rows_under_models(tables, row)[:, list(self.codes)].sum(axis=1) for row in distinct.tolist()
        ]
        shares, means = (
            [(p <= self.limit + LIMIT_TOLERANCE).mean() for p in sampled],
            [p.mean() - self.limit for p in sampled],
        )
        return Compliance(np.array(shares)[row_indices], np.array(means)[row_indices])

    def condition(self, space: ActionSpace, evidence: Mapping[str, int]) -> ChanceConstraint:
        """The same where something is known beforehand."""
        return replace(self, block=build_conditioned_blocks(self.block.model, space, [self.variable.name])(evidence)[0])

    def _distinct_choices(self, choices: Choices2D) -> tuple[Choices2D, Codes]:
        """The distinct choices of the block's knobs, and which of them each action makes."""
        if not self.block.knobs:
            return choices[:1, :0], np.zeros(len(choices), dtype=np.intp)
        distinct, row_indices = np.unique(choices[:, self.block.knobs], axis=0, return_inverse=True)
        return distinct, row_indices.reshape(-1)


@dataclass(frozen=True)
class ChanceConstraints:
    """All that is required, and what it leaves; prints as a sentence or two for each."""

    space: ActionSpace
    """Of all actions."""
    parts: tuple[ChanceConstraint, ...]

    def reason(self, choices: Choices) -> str | None:
        """Why an action may not be chosen; None if it may."""
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

    def compliance(self, choices: Choices2D, tables: Mapping[str, Array]) -> Compliance:
        """Of each action, by that of all parts which it complies with the least."""
        parts = [part.compliance(choices, tables) for part in self.parts]
        return Compliance(
            np.min([part.share for part in parts], axis=0), np.max([part.excess for part in parts], axis=0)
        )

    @property
    def limits_text(self) -> str:
        """What is required, in words."""
        return " and ".join(f"{part} <= {part.limit:g}" for part in self.parts)

    def condition(self, evidence: Mapping[str, int]) -> ChanceConstraints:
        """The same where something is known beforehand, given by codes."""
        return ChanceConstraints(self.space, tuple(part.condition(self.space, evidence) for part in self.parts))

    def are_satisfied(self, choices: Choices2D) -> npt.NDArray[np.bool_]:
        """Which actions keep to all of it."""
        complies = np.ones(len(choices), dtype=bool)
        for part in self.parts:
            complies &= part.is_satisfied(choices)
        return complies

    def explain_infeasibility(self, choices: Choices2D, place: str = "") -> str:
        """That no action keeps to it, and how far it is; `where` that is so, in words."""
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
        unit = "actions" if is_enumerable else f"choices of {', '.join(part.block.knob_names)}"
        return (
            f"{part} <= {part.limit:g} admits {remaining} of {len(choices)} {unit}. The largest value is "
            f"{p[worst]:.3g}, under {self.space.decode(choices[worst].tolist())}."
        )

    def _choices_of(self, part: ChanceConstraint) -> Choices2D:
        """What can be done to the knobs that a requirement hangs on, the others left alone."""
        knob_choices = self.space.within(part.block.knobs).array()
        choices = np.zeros((len(knob_choices), len(self.space.names)), dtype=np.intp)
        choices[:, part.block.knobs] = knob_choices
        return choices

    def to_record(self) -> dict[str, Any]:
        """JSON-ready: variable, codes of its values, limit; and the actions of which it was required, if others."""
        limits = [[part.variable.name, list(part.codes), part.limit] for part in self.parts]
        return {"limits": limits, "of": None if self.space.requirements is self else self.space.to_record()}


def apply_chance_constraints(
    space: ActionSpace, model: CausalModel | LatentModel, limits: Limits, reward: str | None, *, in_contexts: bool
) -> ActionSpace:
    """The actions that comply; they know why the others do not.

    If that depends on the context, all are left, and the problem asks when it is known.
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
    """What hangs on one knob narrows its values, so that blocks stay free of each other; the rest makes a list."""
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
    """The actions that comply, where these are all that set one knob to some values or leave it alone; else None."""
    if len(part.block.knobs) != 1 or space.explicit_choices is not None:
        return None
    (knob,) = part.block.knobs
    name, states = space.names[knob], space.variables[knob].states
    knob_choices = (*([] if name in space.always_set else [0]), *space.settable[knob])
    choices = np.zeros((len(knob_choices), len(space.names)), dtype=np.intp)
    choices[:, knob] = knob_choices
    complies = dict(zip(knob_choices, part.is_satisfied(choices).tolist(), strict=True))
    values = [states[choice - 1] for choice in space.settable[knob] if complies[choice]]
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


def _parse_limits(variable: Variable, limit_spec: object) -> Iterable[tuple[tuple[int, ...], float]]:
    """Codes of values, and how likely they may be together."""
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
    """What `ChanceConstraints.to_record` describes; the actions that it left are listed elsewhere."""
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
