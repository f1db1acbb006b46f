"""Experiments: settings, each of them one simulation, and figures of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from causalbandits.engine import Source
from causalbandits.policies import AnyPolicy, policy
from causalbandits.results import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Runs = Mapping[str, Run]
"""Results by the names of the settings."""

AllRuns = Mapping[str, Runs]
"""Results by experiment, then setting."""


@dataclass(frozen=True)
class Setting:
    """One simulation: every policy on one environment, or on a new one in each replication."""

    name: str
    source: Source
    policies: Mapping[str, AnyPolicy]
    horizon: int


@dataclass(frozen=True)
class Experiment:
    """One figure of the paper (or its Section 4): simulations and figures."""

    name: str
    title: str
    about: str
    settings: Callable[[], Sequence[Setting]]
    figures: Callable[[Runs], Mapping[str, Figure]]
    """Figures by name; the first is the paper's, the others are additional."""
    captions: Mapping[str, str]


UCB_FAMILY = ("ucb", "c-ucb", "cl-ucb")
TS_FAMILY = ("ts(scales=given)", "c-ts(scales=given)", "cl-ts")
PRINTED_POLICIES = UCB_FAMILY + TS_FAMILY
"""The paper's six algorithms, as printed."""


def build_printed_policies(ids: Iterable[str]) -> dict[str, AnyPolicy]:
    """Policies as the paper prints them, under their texts."""
    return {id: policy(id) for id in ids}


def build_improved_policies(ids: Iterable[str], *, tabular: float, coarse: float) -> dict[str, AnyPolicy]:
    """The policies at the true noise scales; the linear ones regress on the observed values.

    `tabular` is the scale of the reward given the parents, `coarse` given the action alone.
    """
    policies: dict[str, AnyPolicy] = {}
    for id in ids:
        name = f"{id}(regressor=observed)" if id.startswith("cl-") else id
        scale = tabular if id.startswith("c") else coarse
        policies[f"{name}, s = {scale:.2g}"] = policy(name, noise_scale=scale)
    return policies


def final_regrets(run: Run, name: str) -> np.ndarray:
    """A policy's final regrets, one per replication."""
    return run.regret(name)[:, -1]
