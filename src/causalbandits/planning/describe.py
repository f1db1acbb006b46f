"""What a problem is like before anything is tried: which knobs can matter, what the graph saves, what to use."""

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
from causalbandits.problem import Problem, playable, reachable_configurations
from causalbandits.problem.actions import shown
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
from causalbandits.theory import Comparison, compare, require_horizon

# What may stand in for the reward's parents, and what each such set is worth: in use, its own, the cheapest.

SPREAD_LIMIT = 2**20
"""The reward's spread given a separator is computed up to this many joint values of it, the reward and the knobs."""


class Separator(NamedTuple):
    """A set that stands in for the reward's parents: how many configurations, and how far rewards vary given it."""

    name: str
    variables: tuple[str, ...]
    configurations: int
    spread: float | None
    """The largest standard deviation of the reward given a value of the set that some action leads to.

    None if the reward's states are no numbers, or the table too large.
    """


def separators_of(problem: Problem) -> tuple[Separator, ...]:
    """The reward's own parents, the set in use, and the cheapest; only where the reward is in the model."""
    reward = problem.reward
    if reward is None or not isinstance(problem.knowledge, CausalModel) or not problem.parents:
        return ()  # where causes are hidden, the route says what there is
    model = problem.knowledge
    sets = {"in use": problem.parents, "the reward's own parents": model[reward].parents}
    always = problem.actions.surely_set()
    # Where no knob leads to the reward, nothing needs to be separated from it.
    if ancestors(without_causes_of(model.graph, always), [reward]) & set(problem.manipulable):
        with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # said already, of the problem itself
            cheapest = Problem(
                model,
                problem.manipulable,
                reward=reward,
                separator="cheapest",
                observable=problem.observable or None,
                always=sorted(always),
                reduce=False,
                context=problem.context,
            )
        sets["cheapest"] = cheapest.parents
    found: dict[tuple[str, ...], str] = {}
    for name, variables in sets.items():
        key = tuple(sorted(variables))
        found[key] = f"{found[key]}, {name}" if key in found else name
    return tuple(
        Separator(name, key, math.prod(len(model[v].states) for v in key), _spread(problem, reward, key))
        for key, name in found.items()
    )


def _spread(problem: Problem, reward: str, given: tuple[str, ...]) -> float | None:
    """The largest standard deviation of the reward given what any action can make of these variables."""
    states: Sequence[Any] = problem.model[reward].states
    if not all(isinstance(s, int | float) for s in states):
        return None
    blocks = find_blocks(problem.model, problem.manipulable, [*given, reward])
    block = next(block for block in blocks if len(given) in block.parents)  # what is elsewhere says nothing of it
    if block.choices * block.configurations > SPREAD_LIMIT:
        return None
    weights = _rows(problem, block).reshape(-1, len(states))  # the reward, which was named last, moves fastest
    weights = weights[weights.sum(axis=1) > 0]
    weights /= weights.sum(axis=1, keepdims=True)
    values = np.array(states, dtype=float)
    mean = weights @ values
    return float(np.sqrt(np.maximum(0.0, weights @ values**2 - mean**2)).max())


def _rows(problem: Problem, block: Block) -> Array:
    """A block's distribution under every choice of its knobs that some action makes."""
    space = problem.actions
    if space.is_product or space.size > LISTED:
        return block.table.copy()
    return block.rows(np.unique(space.array()[:, block.knobs], axis=0))


CAPTION = (
    "Blue can be set, violet may be known beforehand, yellow can be observed, green is the reward; a bold rim: stands "
    "in for its parents; dashed: hidden."
)

CONTEXTS_SHOWN = 64
"""Of up to so many contexts each is looked at."""

SETS_SHOWN = 8
"""So many sets of knobs are named."""

NOWHERE = ("uniform", "none of the knobs can change what the reward depends on, so that all actions are equally good.")


@dataclass(frozen=True)
class Description:
    """What `describe` found; prints as text, shows as a page with the graph in notebooks."""

    problem: Problem
    horizon: int
    matter: tuple[str, ...]
    """The knobs that can change the reward's parents."""
    idle: tuple[str, ...]
    reachable: int
    """How many configurations of the parents can occur."""
    separators: tuple[Separator, ...]
    bounds: Comparison = field(repr=False)
    policy: str
    """The policy to start with."""
    reason: str
    route: Route = NO_ROUTE
    """What is possible with what is known, where causes are hidden or a number per action is learnt."""

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
                f"{shown(problem.actions.size)} actions on {_names(problem.manipulable)}. {self._learnt}"
                f"{_costs(problem)}"
            ),
            *([] if problem.requirements is None else [Text(f"Required: {problem.requirements!r}")]),
            *_hidden(problem),
            *_known_beforehand(problem),
            Heading("Which knobs matter"),
            Text(_matter(self)),
            *([] if problem.learns == "actions" else self._saved),
            *(self.route.parts() if self.route.ways else []),
        ]
        if self.separators:
            rows = [
                (s.name, ", ".join(s.variables), shown(s.configurations), "" if s.spread is None else f"{s.spread:.3g}")
                for s in self.separators
            ]
            parts += [
                Heading("What may stand in for the reward's parents"),
                Grid(("set", "variables", "configurations", "reward's spread given it"), rows),
            ]
        return [
            *parts,
            Heading(f"Regret bounds after {self.horizon:,} rounds"),
            *_telling(self.bounds),
            Heading("Where to start"),
            Text(f"{self.policy}: {self.reason}"),
        ]

    @property
    def _learnt(self) -> str:
        """Of what a number is learnt, in a sentence."""
        if self.problem.learns == "actions":
            return f"A number is learnt for each{' in each context' if self.problem.context else ''}."
        return (
            f"The reward is learnt through {_names(self.problem.parents)}: {shown(self.reachable)} configurations can "
            "occur."
        )

    @property
    def _saved(self) -> list[Part]:
        means = self.problem.actions.size * self.problem.contexts.size
        return [
            Heading("What the graph saves"),
            Text(
                f"A policy without the graph learns {shown(means)} means; with it, {shown(self.reachable)}, and "
                f"searches {_searched(self.problem)}."
            ),
            # What each removed choice is a mixture of is for problem.reduction() itself to say.
            Code("\n".join(line for line in _reduction(self.problem).splitlines() if not line.startswith("  "))),
        ]


def write_description(description: Description, folder: Path) -> None:
    """The same as a page, `report.html` and `report.md`, with the graph in three formats."""
    from causalbandits.results.plots import plot_graph

    write_figures(folder / "figures", {"graph": plot_graph(description.problem)})
    title = Heading(repr(description.problem), 1)
    write_page(folder, [title, Picture("graph", CAPTION), *description._parts])


def _hidden(problem: Problem) -> list[Part]:
    """What hidden causes tie together, where there are some."""
    tied = [", ".join(own) for own in problem.graph.districts() if len(own) > 1] if problem.graph.hidden else []
    return [Text(f"Hidden causes tie together: {'; '.join(tied)}.")] if tied else []


def _known_beforehand(problem: Problem) -> list[Part]:
    if not problem.context:
        return []
    return [
        Heading("What is known beforehand"),
        Text(
            f"{_names(problem.context)}: {shown(problem.contexts.size)} contexts. "
            + (
                "What is learnt of an action counts in one of them."
                if problem.learns == "actions"
                else "What is learnt of a configuration counts in all of them; a policy without the graph learns every "
                "action anew in each."
            )
        ),
        *(Text(reason) for reason in _nothing_to_do(problem)),
    ]


def _nothing_to_do(problem: Problem) -> list[str]:
    """The contexts in which what is required leaves no action."""
    if problem.requirements is None or problem.contexts.size > CONTEXTS_SHOWN:
        return []
    views = (problem.in_context(codes) for codes, _ in problem.contexts.likely())
    return [view.no_action for view in views if not view.has_actions]


def _reduction(problem: Problem) -> str:
    """Of the likeliest context, where there are some: without one, actions may be too many that are few given it."""
    if problem.unknown_tables:
        return (
            f"Nothing is known of the tables of {_names(problem.unknown_tables)}: what can be the best is decided by "
            "the graph alone."
        )
    if not problem.context or problem.contexts.size > CONTEXTS_SHOWN:
        return repr(problem.reduction())
    likeliest = problem.in_context(playable(problem, problem.contexts.likely())[0][0])
    return f"If {likeliest.contexts.shown(likeliest.known)}:\n{likeliest.reduction()!r}"


def _searched(problem: Problem) -> str:
    """How many actions, in the contexts that there are if these are few."""
    if problem.unknown_tables:
        return f"{shown(problem.situation(any_tables=True).size)} actions"
    if not problem.context or problem.contexts.size > CONTEXTS_SHOWN:
        return f"{shown(problem.search.size)} actions"
    likely = playable(problem, problem.contexts.likely())
    sizes = sorted(problem.in_context(codes).search.size for codes, _ in likely)
    least, most = shown(sizes[0]), shown(sizes[-1])
    return f"{least if least == most else f'{least} to {most}'} actions, by context"


def _matter(d: Description) -> str:
    text = f"{_names(d.matter)} can change what the reward depends on." if d.matter else "None of them."
    text = f"{text} Without any effect on it: {_names(d.idle)}." if d.idle else text
    return f"{text} Worth setting together: {_sets_tried(d.problem)}." if d.problem.learns == "actions" else text


def _sets_tried(problem: Problem) -> str:
    """What the actions set, each set once; the first few if there are many."""
    space = problem.actions
    few = space.array()[: 2**12] if space.listed is not None or space.size <= LISTED else space.array()[:0]
    sets = dict.fromkeys(tuple(bool(choice) for choice in row) for row in few.tolist())
    named = [", ".join(itertools.compress(space.names, own)) or "nothing" for own in itertools.islice(sets, SETS_SHOWN)]
    return "; ".join(named) + (" and more" if len(sets) > SETS_SHOWN or len(few) < space.size else "")


def _costs(problem: Problem) -> str:
    """What is to be paid, in a sentence after others."""
    return "" if problem.costs is None else f" Costs are subtracted: {problem.costs.shown}."


def _telling(bounds: Comparison) -> list[Part]:
    """The bounds that say something, and in a line the policies of those that do not."""
    vacuous = [row.policy for row in bounds if row.vacuous]
    broken = [row.policy for row in bounds if row.broken and not row.vacuous]
    kept = Comparison(row for row in bounds if not row.vacuous and not row.broken)
    parts: list[Part] = [Code(repr(kept))] if kept else []
    if vacuous:
        parts.append(Text(f"No smaller than what any policy can lose, so of no use here: {_names(vacuous)}."))
    if broken:
        parts.append(Text(f"Assume what is not so here (see causalbandits.theory.bound): {_names(broken)}."))
    return parts


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:6])} and {len(names) - 6} more"


def describe(problem: Problem | Environment, *, horizon: int = 5000) -> Description:
    """What a problem is like: knobs that matter, what the reduction removes, separators, bounds, where to start.

    >>> from causalbandits import zoo
    >>> describe(zoo.email_campaign()).policy
    'c-gittins-effects'
    """
    own = problem.problem if isinstance(problem, Environment) else problem
    if not isinstance(own, Problem):
        raise ProblemError(f"describe() takes a Problem or an Environment; got {problem!r}.")
    require_horizon(horizon)
    reached = _reached(own)
    reachable = 0 if own.learns == "actions" else reachable_configurations(own)
    matter = tuple(name for name in own.manipulable if name in reached)
    policy, reason = _start(own, reachable, int(horizon)) if matter else NOWHERE
    return Description(
        problem=own,
        horizon=int(horizon),
        matter=matter,
        idle=tuple(name for name in own.manipulable if name not in reached),
        reachable=reachable,
        separators=separators_of(own),
        bounds=compare(problem, int(horizon)),
        policy=policy,
        reason=reason,
        route=NO_ROUTE if own.parents and isinstance(own.knowledge, CausalModel) else route_of(own),
    )


def _reached(problem: Problem) -> set[str]:
    """What leads to the parents, or, where there are none, to the reward."""
    if problem.learns == "actions":
        return {name for name in ancestors(problem.graph.graph, [str(problem.reward)]) if isinstance(name, str)}
    return {knob for block in problem.blocks for knob in block.knob_names}


def _start(problem: Problem, reachable: int, horizon: int) -> tuple[str, str]:
    """What an agent takes where no policy is chosen, and why."""
    chosen = default_with_reason(problem, horizon=horizon)
    if problem.learns == "actions":
        size = problem.actions.size * problem.contexts.size
        return chosen.policy.id, f"{chosen.reason}; {horizon:,} rounds try each of them {horizon // size:,} times."
    if isinstance(chosen.policy, LinearPolicy):
        return (
            chosen.policy.id,
            f"{shown(reachable)} configurations are too many for {horizon:,} rounds to see each; it learns a number "
            "per feature of the parents. It needs a mean reward that is linear in them (a constant feature for its "
            "level).",
        )
    without = problem.actions.size * problem.contexts.size
    graph = (
        f"it learns {shown(reachable)} means instead of {shown(without)}"
        if reachable < without
        else "the graph saves no means here, but ties actions that lead to the same configurations together"
    )
    seen = f"{horizon:,} rounds see each of them {horizon // max(1, reachable):,} times"
    return chosen.policy.id, f"{graph}, and {seen}; {chosen.reason}."
