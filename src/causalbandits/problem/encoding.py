"""How configurations are written: the names, values, codes and numbers of the parents, and who the variables are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import index
from typing import Literal

from causalbandits._memory import Remembers
from causalbandits.errors import ProblemError, unknown
from causalbandits.model.causal_graph import CausalGraph
from causalbandits.model.intervention import State
from causalbandits.model.knowledge import Knowledge, as_causal_graph
from causalbandits.model.model import CausalModel
from causalbandits.model.observed import ObservedModel
from causalbandits.model.variable import Variable


class Encoding(Remembers):
    """What follows from the knowledge and the parents' names, and nothing else."""

    knowledge: Knowledge
    """What is known: the graph and its tables, the graph and what is observed, or the graph alone."""
    parents: tuple[str, ...]
    shape: tuple[int, ...]
    """How many states each parent has."""
    configurations: int

    @property
    def model(self) -> CausalModel:
        """The graph and its tables; refused where these are not known."""
        if isinstance(self.knowledge, ObservedModel):
            raise ProblemError(
                "This problem knows what is observed (problem.knowledge), and not how each variable comes about: "
                "nothing that takes the tables of a whole model can be asked of it. Policies that neither learn nor "
                "watch tables, such as 'c-ts-beta', take it."
            )
        if isinstance(self.knowledge, CausalGraph):
            raise ProblemError(
                "This problem knows a graph and no tables (problem.graph), and learns a number per action: nothing "
                "that takes P(z | do(a)) can be asked of it."
            )
        return self.knowledge

    @cached_property
    def graph(self) -> CausalGraph:
        """What causes what."""
        return as_causal_graph(self.knowledge)

    @property
    def learns(self) -> Literal["configurations", "actions"]:
        """What a number is learnt for: each configuration of the parents or, where there are none, each action."""
        return "configurations" if self.parents else "actions"

    def refuse_by_actions(self, what: str) -> None:
        """Say so if there are no parents, for what is of them or of what leads to them."""
        if self.learns == "actions":
            raise ProblemError(
                f"{what} is of what leads to the reward's parents, and this problem has none: it learns a number per "
                "action (parents=[])."
            )

    def variable(self, name: str) -> Variable:
        """A variable by its name, with its states."""
        return self.knowledge[name]

    def configuration(self, z: Sequence[int]) -> int:
        """The number of a configuration: the last parent moves fastest."""
        number = 0
        try:
            for size, code in zip(self.shape, z, strict=True):
                if not 0 <= code < size:
                    raise IndexError
                number = number * size + code
            return index(number)
        except (TypeError, ValueError, IndexError, ArithmeticError):
            raise ProblemError(
                f"A configuration has one code per parent, each below {list(self.shape)}; got {z!r}."
            ) from None

    @cached_property
    def _parent_names(self) -> frozenset[str]:
        return frozenset(self.parents)

    @cached_property
    def _parent_codes(self) -> tuple[tuple[str, Callable[[State], int]], ...]:
        return tuple((name, self.variable(name).code) for name in self.parents)

    def encode_parents(self, values: Mapping[str, State]) -> tuple[int, ...]:
        """The parents' values as codes; all of them must be there, and nothing else."""
        if type(values) is not dict and not isinstance(values, Mapping):
            raise ProblemError(f"The parents' values must be a mapping from each parent to its value; got {values!r}.")
        if values.keys() != self._parent_names:
            for name in values:
                if name not in self.parents:
                    raise ProblemError(unknown("parent", name, self.parents))
            missing = [name for name in self.parents if name not in values]
            raise ProblemError(f"Every parent must be observed; missing: {', '.join(map(repr, missing))}.")
        return tuple([code(values[name]) for name, code in self._parent_codes])

    def decode_parents(self, z: Sequence[int]) -> dict[str, State]:
        """The parents' values from their codes."""
        self.configuration(z)
        return {name: self.variable(name).states[code] for name, code in zip(self.parents, z, strict=True)}
