"""What a problem is like before anything is tried: which knobs can matter, what the graph saves, what to use."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from causalbandits.errors import CausalBanditsError, ProblemError, ProblemWarning
from causalbandits.problem.actions import shown
from causalbandits.problem.problem import CausalBandit
from causalbandits.results.report import (
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
from causalbandits.theory import compare, reachable_configurations
from causalbandits.theory.table import Comparison
from causalbandits.world.environment import Environment

FEW_PER_CONFIGURATION = 5
"""A policy that learns a mean per configuration should see each of them about so often, or more."""

CAPTION = "Blue can be set, yellow can be observed, green is the reward; a bold rim: stands in for its parents."

SPREAD_LIMIT = 2**20
"""The reward's spread given a separator is computed up to this many joint values."""


class Separator(NamedTuple):
    """A set that stands in for the reward's parents: how many configurations, and how far rewards vary given it."""

    name: str
    variables: tuple[str, ...]
    configurations: int
    spread: float | None
    """The largest standard deviation of the reward given the set; None if the reward's states are no numbers."""


@dataclass(frozen=True)
class Description:
    """What `describe` found; prints as text, shows as a page with the graph in notebooks."""

    problem: CausalBandit
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
        size, kept = problem.actions.size, problem.search.size
        parts: list[Part] = [
            Heading("The problem"),
            Text(
                f"{shown(size)} actions on {_names(problem.manipulable)}. The reward is learnt through "
                f"{_names(problem.parents)}: {shown(self.reachable)} configurations can occur."
            ),
            Heading("Which knobs matter"),
            Text(_matter(self)),
            Heading("What the graph saves"),
            Text(
                f"A policy without the graph learns {shown(size)} means; with it, {shown(self.reachable)}, and "
                f"searches {shown(kept)} actions."
            ),
            # What each removed choice is a mixture of is for problem.reduction() itself to say.
            Code("\n".join(line for line in repr(problem.reduction()).splitlines() if not line.startswith("  "))),
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
            Code(repr(self.bounds)),
            Heading("Where to start"),
            Text(f"{self.policy}: {self.reason}"),
        ]


def write_description(description: Description, folder: Path) -> None:
    """The same as a page, `report.html` and `report.md`, with the graph in three formats."""
    from causalbandits.results.plots import plot_graph

    write_figures(folder / "figures", {"graph": plot_graph(description.problem)})
    title = Heading(repr(description.problem), 1)
    write_page(folder, [title, Picture("graph", CAPTION), *description._parts])


def _matter(d: Description) -> str:
    text = f"{_names(d.matter)} can change what the reward depends on." if d.matter else "None of them."
    return f"{text} Without any effect on it: {_names(d.idle)}." if d.idle else text


def _names(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:6])} and {len(names) - 6} more"


def describe(problem: CausalBandit | Environment, *, horizon: int = 5000) -> Description:
    """What a problem is like: knobs that matter, what the reduction removes, separators, bounds, where to start.

    >>> from causalbandits import zoo
    >>> describe(zoo.email_campaign()).policy
    'c-ts-beta'
    """
    own = problem.problem if isinstance(problem, Environment) else problem
    if not isinstance(own, CausalBandit):
        raise ProblemError(f"describe() takes a CausalBandit or an Environment; got {problem!r}.")
    if not isinstance(horizon, int | np.integer) or isinstance(horizon, bool) or horizon < 2:
        raise CausalBanditsError(f"horizon must be a whole number, 2 or more; got {horizon!r}.")
    reached = {knob for block in own.blocks for knob in block.knob_names}
    reachable = reachable_configurations(own)
    policy, reason = _start(problem, own, reachable, int(horizon))
    return Description(
        problem=own,
        horizon=int(horizon),
        matter=tuple(name for name in own.manipulable if name in reached),
        idle=tuple(name for name in own.manipulable if name not in reached),
        reachable=reachable,
        separators=_separators(own),
        bounds=compare(problem, int(horizon)),
        policy=policy,
        reason=reason,
    )


def _start(given: CausalBandit | Environment, problem: CausalBandit, reachable: int, horizon: int) -> tuple[str, str]:
    """A rule of thumb, with its reason."""
    bounded = given.reward.bounded if isinstance(given, Environment) else None
    unit = "if rewards lie in [0, 1] (else c-ts-gaussian), " if bounded is None else ""
    tabular = "c-ts-gaussian" if bounded is False else "c-ts-beta"
    if reachable * FEW_PER_CONFIGURATION <= horizon:
        graph = (
            f"it learns {shown(reachable)} means instead of {shown(problem.actions.size)}"
            if reachable < problem.actions.size
            else "the graph saves no means here, but ties actions that lead to the same configurations together"
        )
        return (
            tabular,
            f"{unit}{graph}, and {horizon:,} rounds see each of them {horizon // max(1, reachable):,} times.",
        )
    return (
        "cl-ts-observed",
        f"{shown(reachable)} configurations are too many for {horizon:,} rounds to see each; it learns a number per "
        "feature of the parents. It needs a mean reward that is linear in them (a constant feature for its level).",
    )


def _separators(problem: CausalBandit) -> tuple[Separator, ...]:
    """The reward's own parents, the set in use, and the cheapest; only where the reward is in the model."""
    if problem.reward is None:
        return ()
    with warnings.catch_warnings(action="ignore", category=ProblemWarning):  # said already, of the problem itself
        return _compared(problem, problem.reward)


def _compared(problem: CausalBandit, reward: str) -> tuple[Separator, ...]:
    always = sorted(problem.actions.always)
    cheapest = CausalBandit(problem.model, problem.manipulable, reward=reward, separator="cheapest", always=always)
    sets = {
        "in use": problem.parents,
        "the reward's own parents": problem.model[reward].parents,
        "cheapest": cheapest.parents,
    }
    found: dict[tuple[str, ...], str] = {}
    for name, variables in sets.items():
        key = tuple(sorted(variables))
        found[key] = f"{found[key]}, {name}" if key in found else name
    return tuple(
        Separator(name, key, math.prod(len(problem.model[v].states) for v in key), _spread(problem, key))
        for key, name in found.items()
    )


def _spread(problem: CausalBandit, given: tuple[str, ...]) -> float | None:
    """The largest standard deviation of the reward given these variables, by the model's own table of it."""
    model, reward = problem.model, problem.reward
    assert reward is not None
    states: Sequence[Any] = model[reward].states
    if not all(isinstance(s, int | float) for s in states):
        return None
    joint = CausalBandit(model, problem.manipulable, [*given, reward], reduce=False)
    if joint.configurations > SPREAD_LIMIT:
        return None
    table = joint.parent_distribution({}).reshape(-1, len(states))
    weights = table[table.sum(axis=1) > 0]
    weights = weights / weights.sum(axis=1, keepdims=True)
    values = np.array(states, dtype=float)
    mean = weights @ values
    return float(np.sqrt(np.maximum(0.0, weights @ values**2 - mean**2)).max())
