"""Description of a problem before the first decision: relevant variables, savings by the graph, and a policy."""

from __future__ import annotations

import io
import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from causalbandits._typing import Array
from causalbandits.environments import LISTED, Environment
from causalbandits.errors import ProblemError, ProblemWarning
from causalbandits.model import CausalModel
from causalbandits.model.graph import ancestors, without_causes_of
from causalbandits.planning.strategies import NO_ROUTE, Route, route_of
from causalbandits.policies import default_with_reason
from causalbandits.policies.linear import LinearPolicy
from causalbandits.problem import (
    COMPLIANCE_PROBABILITY,
    Problem,
    count_reachable_configurations,
    feasible_contexts,
)
from causalbandits.problem.actions import format_count
from causalbandits.problem.inference import Block, find_blocks
from causalbandits.results import (
    Code,
    Drawing,
    Grid,
    Heading,
    Part,
    Picture,
    Text,
    as_html_body,
    as_text,
    write_figures,
    write_page,
)
from causalbandits.theory import Comparison, compare, validate_horizon

# Sets that can replace the reward's parents, and the size of each: the set in use, the parents themselves, the
# smallest.

MAX_JOINT_VALUES = 2**20
"""The spread of the reward given a separator is computed up to this many joint values of separator, reward and
manipulable variables."""


class Separator(NamedTuple):
    """A set that can replace the reward's parents: its number of configurations, and the reward's spread given it."""

    name: str
    variables: tuple[str, ...]
    configurations: int
    spread: float | None
    """The largest standard deviation of the reward given a value of the set that some action can produce.

    None if the reward's states are not numbers, or the array would be too large.
    """


def find_separators(problem: Problem) -> tuple[Separator, ...]:
    """The reward's own parents, the set in use, and the smallest; only if the reward is in the model."""
    reward = problem.reward_node
    if reward is None or not isinstance(problem.knowledge, CausalModel) or not problem.parents:
        return ()  # with unobserved confounders, the route lists the options
    model = problem.knowledge
    sets = {"in use": problem.parents, "the reward's own parents": model[reward].parents}
    always = problem.actions.variables_always_set()
    # If no manipulable variable affects the reward, there is nothing to separate.
    if ancestors(without_causes_of(model.graph, always), [reward]) & set(problem.manipulable):
        # already reported for the problem itself
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):
            cheapest = Problem(
                model,
                manipulable=problem.manipulable,
                reward=reward,
                adjust="smallest",
                can_observe=problem.can_observe or None,
                optional=[name for name in problem.manipulable if name not in always],
                reduce=False,
                context=problem.context,
            )
        sets["smallest"] = cheapest.parents
    labels: dict[tuple[str, ...], str] = {}
    for name, variables in sets.items():
        key = tuple(sorted(variables))
        labels[key] = f"{labels[key]}, {name}" if key in labels else name
    return tuple(
        Separator(name, key, math.prod(len(model[v].states) for v in key), _conditional_deviation(problem, reward, key))
        for key, name in labels.items()
    )


def _conditional_deviation(problem: Problem, reward: str, separator: tuple[str, ...]) -> float | None:
    """The largest standard deviation of the reward given any value of these variables that an action can produce."""
    states: Sequence[Any] = problem.model[reward].states
    if not all(isinstance(s, int | float) for s in states):
        return None
    blocks = find_blocks(problem.model, problem.manipulable, [*separator, reward])
    # other blocks do not affect the separator
    block = next(block for block in blocks if len(separator) in block.parents)
    if block.choices * block.configurations > MAX_JOINT_VALUES:
        return None
    weights = _reachable_rows(problem, block).reshape(
        -1, len(states)
    )  # the reward, as the last variable, changes fastest
    weights = weights[weights.sum(axis=1) > 0]
    weights /= weights.sum(axis=1, keepdims=True)
    values = np.array(states, dtype=float)
    mean = weights @ values
    return float(np.sqrt(np.maximum(0.0, weights @ values**2 - mean**2)).max())


def _reachable_rows(problem: Problem, block: Block) -> Array:
    """A block's distribution under every choice of its manipulable variables that occurs in an action."""
    space = problem.actions
    if space.is_product or space.size > LISTED:
        return block.table.copy()
    return block.rows(np.unique(space.array()[:, block.manipulable], axis=0))


CAPTION = (
    "Blue: manipulable variables. Violet: context. Yellow: other observed variables. Green: the reward. Bold outline: "
    "adjustment set (the reward's parents, or variables that replace them). Dashed: unobserved variables."
)

MAX_CONTEXTS = 64
"""The maximum number of contexts that are examined one by one."""

MAX_SETS = 8
"""The maximum number of intervention sets that are listed."""

NO_EFFECT_ADVICE = (
    "uniform",
    "no manipulable variable affects the reward's parents, so all actions are equally good.",
)


@dataclass(frozen=True)
class Description:
    """The result of `describe`; prints as text, and shows as a page with the graph in notebooks."""

    problem: Problem
    horizon: int
    matter: tuple[str, ...]
    """The manipulable variables that can affect the reward's parents."""
    idle: tuple[str, ...]
    reachable: int
    """The number of reachable configurations of the parents."""
    separators: tuple[Separator, ...]
    bounds: Comparison = field(repr=False)
    policy: str
    """The recommended policy."""
    reason: str
    route: Route = NO_ROUTE
    """The options for learning, with unobserved confounders or a mean per action."""

    def __repr__(self) -> str:
        return as_text(self._parts)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from causalbandits.results.plots import plot_graph

        picture = io.BytesIO()
        plot_graph(self.problem).savefig(picture, format="svg")
        return as_html_body([self._parts[0], Drawing(picture.getvalue(), CAPTION), *self._parts[1:]])

    @cached_property
    def _parts(self) -> list[Part]:
        problem = self.problem
        parts: list[Part] = [
            Heading("The problem"),
            Text(
                f"Actions: {format_count(problem.actions.size)} on {_format_names(problem.manipulable)}. "
                f"{self._learning_sentence}{_format_costs(problem)}"
            ),
            *([] if problem.requirements is None else [Text(f"Required: {problem.requirements!r}")]),
            *_structure_limits(problem),
            *_confounder_parts(problem),
            *_observation_parts(problem),
            *_context_parts(problem),
            Heading("Manipulable variables"),
            Text(_format_manipulable(self)),
            *([] if problem.unit == "actions" else self._savings_parts),
            *(self.route.parts() if self.route.ways else []),
        ]
        if self.separators:
            rows = [
                (
                    s.name,
                    ", ".join(s.variables),
                    format_count(s.configurations),
                    "" if s.spread is None else f"{s.spread:.3g}",
                )
                for s in self.separators
            ]
            parts += [
                Heading("Adjustment sets"),
                Grid(("set", "variables", "configurations", "largest sd of the reward given the set"), rows),
            ]
        return [
            *parts,
            Heading(f"Regret bounds after {self.horizon:,} rounds"),
            *_bound_parts(self.bounds),
            Heading("Recommended policy"),
            Text(f"{self.policy}: {self.reason}"),
        ]

    @property
    def _learning_sentence(self) -> str:
        """A sentence that says for which units (configurations or actions) means are estimated."""
        if self.problem.structure_prior is not None:
            return "Learned: the causal structure, its CPTs, and mean rewards given the parents."
        if self.problem.unit == "actions":
            return f"Learned: one mean reward per action{' and context' if self.problem.context else ''}."
        return (
            f"Learned: one mean reward for each of the {format_count(self.reachable)} configurations of "
            f"{_format_names(self.problem.parents)} that can occur."
        )

    @property
    def _savings_parts(self) -> list[Part]:
        means = self.problem.actions.size * self.problem.contexts.size
        return [
            Heading("Savings from the graph"),
            Text(
                f"Means to learn: {format_count(self.reachable)} with the graph, {format_count(means)} without it. "
                f"Search: {_format_search_size(self.problem)}."
            ),
            # The mixture of actions that replaces a removed choice is listed by problem.reduction().
            Code("\n".join(line for line in _format_reduction(self.problem).splitlines() if not line.startswith("  "))),
        ]


def write_description(description: Description, folder: Path) -> None:
    """Write the description as `report.html` and `report.md`, with the graph in three formats."""
    from causalbandits.results.plots import plot_graph

    write_figures(folder / "figures", {"graph": plot_graph(description.problem)})
    title = Heading(repr(description.problem), 1)
    write_page(folder, [title, Picture("graph", CAPTION), *description._parts])


def _confounder_parts(problem: Problem) -> list[Part]:
    """The unobserved confounders and the variables that they affect, if any."""
    confounded = (
        [", ".join(district) for district in problem.graph.districts() if len(district) > 1]
        if problem.graph.hidden
        else []
    )
    return [Text(f"Confounded by unobserved variables: {'; '.join(confounded)}.")] if confounded else []


def _observation_parts(problem: Problem) -> list[Part]:
    """The variables that must be reported with every outcome."""
    if not problem.must_observe:
        return []
    return [
        Text(
            "Must observe (report these values with every outcome, unless the decision set them): "
            f"{_format_names(problem.must_observe)}."
        )
    ]


def _context_parts(problem: Problem) -> list[Part]:
    if not problem.context:
        return []
    return [
        Heading("Context"),
        Text(
            f"{_format_names(problem.context)}: {format_count(problem.contexts.size)} contexts. "
            + (
                "Each context has its own mean per action."
                if problem.unit == "actions"
                else (
                    "All contexts share the mean of a configuration; a policy without the graph learns one mean "
                    "per action and context."
                )
            )
        ),
        *(Text(reason) for reason in _contexts_without_actions(problem)),
    ]


def _structure_limits(problem: Problem) -> list[Text]:
    """The limits on probabilities where the structure is learned."""
    prior = problem.structure_prior
    if prior is None or not prior.limits:
        return []
    limits = ", ".join(
        f"{text} <= {limit.largest:g}" for text, limit in zip(problem.unknown_limits, prior.limits, strict=True)
    )
    return [
        Text(
            f"Required: {limits}. The structure and the CPTs are learned online: at each decision, actions must "
            f"satisfy it with posterior probability {COMPLIANCE_PROBABILITY:g}; if none does, the most probable one "
            "is played."
        )
    ]


def _contexts_without_actions(problem: Problem) -> list[str]:
    """The contexts in which the constraints leave no action."""
    if problem.requirements is None or problem.contexts.size > MAX_CONTEXTS:
        return []
    conditioned_problems = (problem.condition_codes(codes) for codes, _ in problem.contexts.by_probability())
    return [conditioned.infeasibility for conditioned in conditioned_problems if not conditioned.has_actions]


def _format_reduction(problem: Problem) -> str:
    """The reduction in the most likely context, if there are contexts: actions may be too many overall but few in one
    context."""
    if problem.unknown_cpts:
        return (
            f"CPTs to learn online: {_format_names(problem.unknown_cpts)}. Until they are learned, only the graph "
            "decides which actions can be optimal."
        )
    if not problem.context or problem.contexts.size > MAX_CONTEXTS:
        return repr(problem.reduction())
    conditioned = problem.condition_codes(feasible_contexts(problem, problem.contexts.by_probability())[0][0])
    return (
        f"In the context {conditioned.contexts.format_context(conditioned.context_codes)}:\n{conditioned.reduction()!r}"
    )


def _format_search_size(problem: Problem) -> str:
    """The number of actions, by context if contexts are few."""
    if problem.unknown_cpts:
        return f"{format_count(problem.situation(any_cpts=True).size)} actions"
    if not problem.context or problem.contexts.size > MAX_CONTEXTS:
        return f"{format_count(problem.candidates.size)} actions"
    likely = feasible_contexts(problem, problem.contexts.by_probability())
    sizes = sorted(problem.condition_codes(codes).candidates.size for codes, _ in likely)
    least, most = format_count(sizes[0]), format_count(sizes[-1])
    return f"{least if least == most else f'{least} to {most}'} actions, by context"


def _format_manipulable(description: Description) -> str:
    text = (
        f"Can affect the reward: {_format_names(description.matter)}."
        if description.matter
        else "Can affect the reward: none."
    )
    text = f"{text} Cannot affect it: {_format_names(description.idle)}." if description.idle else text
    return (
        f"{text} Sets of variables that may be optimal to set: {_format_intervention_sets(description.problem)}."
        if description.problem.unit == "actions"
        else text
    )


def _format_intervention_sets(problem: Problem) -> str:
    """The intervention sets, each once; the first few if there are many."""
    space = problem.actions
    rows = space.array()[: 2**12] if space.explicit_choices is not None or space.size <= LISTED else space.array()[:0]
    sets = dict.fromkeys(tuple(bool(choice) for choice in row) for row in rows.tolist())
    labels = [
        ", ".join(itertools.compress(space.names, mask)) or "nothing" for mask in itertools.islice(sets, MAX_SETS)
    ]
    return "; ".join(labels) + (" and more" if len(sets) > MAX_SETS or len(rows) < space.size else "")


def _format_costs(problem: Problem) -> str:
    """A sentence about costs, to follow other sentences."""
    return "" if problem.costs is None else f" Costs, subtracted from the reward: {problem.costs.prices_text}."


def _bound_parts(bounds: Comparison) -> list[Part]:
    """The informative bounds, and a line with the policies whose bounds are vacuous."""
    vacuous = [row.policy for row in bounds if row.vacuous]
    broken = [row.policy for row in bounds if row.broken and not row.vacuous]
    informative = Comparison(row for row in bounds if not row.vacuous and not row.broken)
    parts: list[Part] = [Code(repr(informative))] if informative else []
    if vacuous:
        parts.append(Text(f"Vacuous (the bound is not below the largest possible regret): {_format_names(vacuous)}."))
    if broken:
        parts.append(
            Text(
                "Not applicable (this problem violates an assumption; causalbandits.theory.bound names it): "
                f"{_format_names(broken)}."
            )
        )
    return parts


def _format_names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:6])} and {len(names) - 6} more"


def describe(problem: Problem | Environment, *, horizon: int = 5000) -> Description:
    """Describe a problem: relevant variables, reduction, adjustment sets, regret bounds and the policy to start with.

    >>> from causalbandits import zoo
    >>> describe(zoo.email_campaign()).policy
    'c-gittins(prior=main-effects)'

    Args:
        problem: The problem, or an environment.
        horizon: The number of rounds for the regret bounds.

    Returns:
        The description, which prints as text and shows the graph in notebooks.

    Raises:
        ProblemError: If `problem` is neither a problem nor an environment.
        CausalBanditsError: If `horizon` is out of range.
    """
    target_problem = problem.problem if isinstance(problem, Environment) else problem
    if not isinstance(target_problem, Problem):
        raise ProblemError(f"describe() takes a Problem or an Environment; got {problem!r}.")
    validate_horizon(horizon)
    influential = _influential_variables(target_problem)
    reachable = 0 if target_problem.unit == "actions" else count_reachable_configurations(target_problem)
    matter = tuple(name for name in target_problem.manipulable if name in influential)
    policy, reason = _recommend_policy(target_problem, reachable, int(horizon)) if matter else NO_EFFECT_ADVICE
    return Description(
        problem=target_problem,
        horizon=int(horizon),
        matter=matter,
        idle=tuple(name for name in target_problem.manipulable if name not in influential),
        reachable=reachable,
        separators=find_separators(target_problem),
        bounds=compare(problem, int(horizon)),
        policy=policy,
        reason=reason,
        route=NO_ROUTE  # without a graph, there is none from which options could be read
        if target_problem.structure_prior is not None
        or (target_problem.parents and isinstance(target_problem.knowledge, CausalModel))
        else route_of(target_problem),
    )


def _influential_variables(problem: Problem) -> set[str]:
    """The variables that affect the parents or, without parents, the reward."""
    if problem.unit == "actions":
        return {name for name in ancestors(problem.graph.graph, [str(problem.reward)]) if isinstance(name, str)}
    return {knob for block in problem.blocks for knob in block.manipulable_names}


def _recommend_policy(problem: Problem, reachable: int, horizon: int) -> tuple[str, str]:
    """The default policy of an agent, with the reason."""
    default = default_with_reason(problem, horizon=horizon)
    if problem.structure_prior is not None:
        return default.policy.id, f"{default.reason}."
    if problem.unit == "actions":
        size = problem.actions.size * problem.contexts.size
        return default.policy.id, f"{default.reason}; {horizon:,} rounds allow {horizon // size:,} trials of each mean."
    if isinstance(default.policy, LinearPolicy):
        return (
            default.policy.id,
            f"{horizon:,} rounds are too few to observe each of {format_count(reachable)} configurations. The policy "
            "learns one coefficient per feature of the parents and an intercept. It assumes a mean reward that is "
            "linear in these features.",
        )
    n_means_without_graph = problem.actions.size * problem.contexts.size
    graph = (
        f"it learns {format_count(reachable)} means instead of {format_count(n_means_without_graph)}"
        if reachable < n_means_without_graph
        else "the graph saves no means here, but actions that lead to the same configurations share outcomes"
    )
    visits = f"{horizon:,} rounds give {horizon // max(1, reachable):,} outcomes per mean on average"
    return default.policy.id, f"{graph}, and {visits}; {default.reason}."
