"""Slow and plain answers, and random models to ask them about."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from causalbandits.model.causal_model import CausalModel
from causalbandits.model.variable import Variable
from oracles.policies import POLICIES

patient = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
"""For tests by hypothesis: machines may be slow, and a suite runs for seconds, not minutes."""


class Case(NamedTuple):
    """A random model, some variables to set and some that stand for the reward's parents; they may overlap."""

    model: CausalModel
    manipulable: list[str]
    parents: list[str]


@st.composite
def models(draw: st.DrawFn, *, fewest: int = 1, most: int = 6, fewest_states: int = 1) -> CausalModel:
    """A DAG of `fewest` to `most` variables with up to 4 states each, zeros in its tables, declared in any order."""
    names = [f"v{i}" for i in range(draw(st.integers(fewest, most)))]
    sizes = {name: draw(st.integers(fewest_states, 4)) for name in names}
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    variables = []
    for i, name in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:i]), unique=True, max_size=3)) if i else []
        table = random_table(rng, [sizes[parent] for parent in parents], sizes[name])
        states = [f"{name}={k}" for k in range(sizes[name])]
        variables.append(Variable(name, states, parents=parents, table=table))
    return CausalModel(draw(st.permutations(variables)))


@st.composite
def cases(draw: st.DrawFn, *, most: int = 6, knobs: int = 3, fewest_states: int = 1) -> Case:
    """A random model with a random non-empty set of knobs and of parents, each in any order."""
    model = draw(models(most=most, fewest_states=fewest_states))
    some = st.lists(st.sampled_from(model.names), unique=True, min_size=1)
    return Case(model, draw(some)[:knobs], draw(some)[:4])


def random_table(rng: np.random.Generator, shape: Sequence[int], size: int) -> npt.NDArray[np.float64]:
    """Rows that sum to 1; about a third of the entries are exactly 0."""
    weights = rng.random((*shape, size)) * (rng.random((*shape, size)) > 1 / 3)
    weights[..., 0] += weights.sum(axis=-1) == 0
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def all_interventions(model: CausalModel, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Every way to set some of these variables, the last one moving fastest, "leave alone" first."""
    alone = object()
    for values in itertools.product(*([alone, *model[name].states] for name in names)):
        yield {name: value for name, value in zip(names, values, strict=True) if value is not alone}


def joint(model: CausalModel, do: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    """P(everything | do), an axis per variable: the truncated factorisation at every point, nothing summed."""
    at = _points(model)
    probability = np.ones([len(v.states) for v in model.variables.values()])
    for name, v in model.variables.items():
        if name in do:
            probability = probability * (at[name] == v.states.index(do[name]))
        else:
            probability = probability * v.table[(*(at[parent] for parent in v.parents), at[name])]
    return probability


def distribution(model: CausalModel, do: Mapping[str, Any], names: Sequence[str]) -> npt.NDArray[np.float64]:
    """P(names | do) with one axis per name: each point of the joint, added where it belongs."""
    at = _points(model)
    result = np.zeros([len(model[name].states) for name in names])
    np.add.at(result, tuple(at[name] for name in names), joint(model, do))
    return result


class Same(np.random.Generator):
    """A generator whose every uniform is the same number."""

    def __init__(self, uniform: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.uniform = uniform

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return self.uniform if size is None else np.full(size, self.uniform)


def tables_known() -> list[str]:
    """The ids of the policies that take the model's tables as they are."""
    import causalbandits as cb

    return [id for id in POLICIES if not cb.policy(id).traits.learns_cpts]


def played_compiled() -> list[str]:
    """The ids of the policies that the compiled rounds play."""
    import causalbandits as cb
    from causalbandits.engine.compiled.driver import can_play

    env = cb.zoo.email_campaign()
    return [id for id in tables_known() if can_play(env, cb.policy(id).for_horizon(10), env.problem)]


def known_to(policy: Any, env: Any) -> Any:
    """The environment's problem, as a policy is to know it: without its tables, if it learns them."""
    import causalbandits as cb

    chosen = cb.policy(policy) if isinstance(policy, str) else policy
    return env.problem.without_cpts() if chosen.traits.learns_cpts else env.problem


SMALLEST, LARGEST = 0.0, 1 - 2**-53
"""The ends of what a generator's uniforms can be."""


def _points(model: CausalModel) -> dict[str, npt.NDArray[np.intp]]:
    """Every variable's code at every point of the joint."""
    codes = np.indices([len(v.states) for v in model.variables.values()])
    return dict(zip(model.names, codes, strict=True))


def pairs(n: int, rng: np.random.Generator, *, values: int = 3, outcomes: int = 2) -> CausalModel:
    """n pairs X_i -> W_i that have nothing to do with each other: a block for each."""
    variables = []
    for i in range(n):
        variables.append(Variable(f"X{i}", range(values), table=random_table(rng, [], values)))
        table = random_table(rng, [values], outcomes)
        variables.append(Variable(f"W{i}", range(outcomes), parents=[f"X{i}"], table=table))
    return CausalModel(variables)


def chain(n: int, *, last: str = "Z") -> CausalModel:
    """X0 -> X1 -> ... -> Z, n binary variables and the last one."""
    table = [[0.9, 0.1], [0.2, 0.8]]
    variables = [Variable("X0", [0, 1], table=[0.5, 0.5])]
    variables += [Variable(f"X{i}", [0, 1], parents=[f"X{i - 1}"], table=table) for i in range(1, n)]
    return CausalModel([*variables, Variable(last, [0, 1], parents=[f"X{n - 1}"], table=table)])


def hear_interrupts():
    """For a new process: what a shell runs in the background ignores interrupts, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
