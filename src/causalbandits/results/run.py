"""What a simulation leaves: measures at checkpoints for every policy and replication, and ways to look at them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

import numpy as np
import numpy.typing as npt

from causalbandits._files import FilePath
from causalbandits._typing import Array, is_iterable
from causalbandits.errors import CausalBanditsError, unknown_name_message
from causalbandits.results.files import build_frame, read_run, write_csv, write_parquet, write_run
from causalbandits.results.measures import MEASURES, Measures, Values, validate_measures
from causalbandits.results.merge import merge_runs
from causalbandits.results.origin import Origin
from causalbandits.results.statistics import (
    Difference,
    Differences,
    FinalMean,
    Stopping,
    Summary,
    compute_difference,
    correct_differences,
    half_width,
    standard_error,
    summarise_stopping,
    validate_delta,
)

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from causalbandits.theory import Bound


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Run:
    """What every policy did, replication by replication, with what is needed to make it again.

    A measure is one of "regret", "simple regret" (how much worse than the best the action is that the policy would
    recommend), "error probability" (the least delta at which it might stop, see `stopping`), "reward" (the
    sum so far) and "plays" (how often each action was played so far, by its number). Regret is always there, the
    others where `simulate(..., measures=[...])` asked for them.
    """

    rounds: npt.NDArray[np.int64]
    """The checkpoints; the last one is the horizon."""
    measures: Measures
    """By measure, then policy: replications x checkpoints, and x actions for plays."""
    seed: int
    environment: str
    """What was simulated, in words."""
    first: int = 0
    """The number of the first replication."""
    origin: Origin | None = None
    """Fingerprints of what it was made of; None if it was made by hand."""
    tolerance: float = 0.0
    """How much worse than the best was good enough, for the measure "error probability"."""

    def __post_init__(self) -> None:
        rounds = np.ascontiguousarray(self.rounds, dtype=np.int64).view()
        rounds.setflags(write=False)
        if rounds.ndim != 1 or not len(rounds) or rounds[0] < 1 or (np.diff(rounds) <= 0).any():
            raise CausalBanditsError(f"rounds must be whole numbers, 1 or more, that increase; got {self.rounds!r}.")
        if not isinstance(self.first, int) or self.first < 0:
            raise CausalBanditsError(
                f"first, a replication's number, must be a whole number, 0 or more; got {self.first!r}."
            )
        object.__setattr__(self, "rounds", rounds)
        object.__setattr__(self, "measures", validate_measures(self.measures, len(rounds)))
        by_policy_maps = () if self.origin is None else (self.origin.policies, self.origin.ids)
        if any(by_name is not None and set(by_name) != set(self.policies) for by_name in by_policy_maps):
            raise CausalBanditsError(f"origin must be of the policies, {list(self.policies)}; got {self.origin!r}.")

    def __repr__(self) -> str:
        names = ", ".join(self.policies) if len(self.policies) <= 8 else f"{len(self.policies)} policies"
        several = self.replications > 1
        numbers = f"replications {self.first} to {self.numbers[-1]}" if several else f"replication {self.first}"
        measure_names = ", ".join(self.measures)
        return f"Run({names}; {numbers} of {self.horizon} rounds, seed {self.seed}; {measure_names})"

    def __eq__(self, other: object) -> bool:
        """Whether all is the same, the measures in every bit."""
        if not isinstance(other, Run):
            return NotImplemented
        return self._metadata() == other._metadata() and all(
            _has_same_bits(self.measure(name, policy), other.measure(name, policy))
            for name in self.measures
            for policy in self.policies
        )

    def _metadata(self) -> tuple[object, ...]:
        """All but the measures' values."""
        rounds = self.rounds.tolist()
        provenance = self.seed, self.environment, self.origin, self.tolerance
        return rounds, self.policies, self.numbers, [*self.measures], *provenance

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies' names, in the order given."""
        return tuple(self.measures["regret"])

    @property
    def horizon(self) -> int:
        """How many rounds were played."""
        return int(self.rounds[-1])

    @property
    def replications(self) -> int:
        """How many there are."""
        return len(self.measures["regret"][self.policies[0]])

    @property
    def numbers(self) -> range:
        """The replications by number: with the seed, these decide about all random numbers."""
        return range(self.first, self.first + self.replications)

    def measure(self, name: str, policy: str) -> Values:
        """A measure up to each checkpoint, a row per replication."""
        if not isinstance(name, str) or name not in MEASURES:
            raise CausalBanditsError(unknown_name_message("measure", name, MEASURES))
        if name not in self.measures:
            raise CausalBanditsError(
                f"This run has no {name!r}, only {', '.join(map(repr, self.measures))}. Simulate again with "
                f"measures=[{name!r}]."
            )
        if not isinstance(policy, str) or policy not in self.measures[name]:
            raise CausalBanditsError(unknown_name_message("policy of this run:", policy, self.policies))
        return self.measures[name][policy]

    def regret(self, policy: str) -> Array:
        """Pseudo-regret up to each checkpoint, a row per replication."""
        return self.measure("regret", policy)

    def plays(self, policy: str) -> npt.NDArray[np.int64]:
        """How often each action was played up to each checkpoint: replications x checkpoints x actions."""
        return self.measure("plays", policy)

    def _scalar_measure(self, name: str, policy: str) -> Array:
        """A measure that is one number a checkpoint; plays are refused."""
        if isinstance(name, str) and name == "plays":
            raise CausalBanditsError(
                "plays is a number per action, not a single value per round. Use run.plays(policy) or "
                "run.to_pandas('plays')."
            )
        return self.measure(name, policy)

    def only(self, policies: Iterable[str]) -> Run:
        """The same run with some of the policies, in this order."""
        if isinstance(policies, str) or not is_iterable(policies):
            raise CausalBanditsError(f"only() takes a list of policies, such as ['ucb']; got {policies!r}.")
        names = tuple(policies)
        measures = {name: {policy: self.measure(name, policy) for policy in names} for name in self.measures}
        return replace(self, measures=measures, origin=None if self.origin is None else self.origin.only(names))

    def interval(self, policy: str, *, measure: str = "regret") -> tuple[Array, Array, Array]:
        """At each checkpoint: the mean and its 95% interval (NaN bounds for a single replication)."""
        values = self._scalar_measure(measure, policy)
        mean, half = values.mean(axis=0), half_width(values)
        return mean, mean - half, mean + half

    def summary(self, measure: str = "regret") -> Summary:
        """Where every policy ended."""
        means = []
        for policy in self.policies:
            mean, lower, upper = (float(values[-1]) for values in self.interval(policy, measure=measure))
            error = float(standard_error(self._scalar_measure(measure, policy))[-1])
            means.append(FinalMean(policy, mean, error, lower, upper, self.replications))
        return Summary(means, measure)

    def stopping(self, delta: float = 0.05, tolerance: float | None = None) -> Stopping:
        """When every policy would have stopped, and how often it would then have recommended a wrong action.

        The run needs the measures "error probability" and "simple regret". An action is wrong if it is worse than the
        best by more than `tolerance`: the one that the run was made with, unless you say another. Policies stop at
        checkpoints only: keep `rounds` close to each other where the exact round matters.
        """
        validate_delta(delta)
        tolerance = self.tolerance if tolerance is None else tolerance
        stopped_policies = [
            summarise_stopping(
                name,
                self.rounds,
                self.measure("error probability", name),
                self.measure("simple regret", name),
                delta,
                tolerance,
            )
            for name in self.policies
        ]
        return Stopping(stopped_policies, delta, tolerance)

    @overload
    def compare(self, policy: str, other: str, *, measure: str = ...) -> Difference: ...
    @overload
    def compare(self, policy: str, other: None = None, *, measure: str = ...) -> Differences: ...
    def compare(self, policy: str, other: str | None = None, *, measure: str = "regret") -> Difference | Differences:
        """A policy against another one, or against all others with Holm's correction, at the last checkpoint.

        In each replication both met the same world and the same random numbers of it, so that differences are taken
        replication by replication: their mean, its 95% interval, and a two-sided paired t-test.

        >>> from causalbandits import simulate, zoo
        >>> policies = {"C-TS": "c-ts(prior=beta)", "TS": "ts(prior=beta)"}
        >>> run = simulate(zoo.email_campaign(), policies, horizon=300, replications=5, seed=1)
        >>> run.compare("C-TS", "TS")
        Final regret of C-TS minus TS: -20.8 on average, 95% interval -27.3 to -14.2, paired t-test p < 0.001;
        lower in 5 of 5 replications.
        """
        self.measure("regret", policy)
        other_policies = [name for name in self.policies if name != policy] if other is None else [other]
        if not other_policies:
            raise CausalBanditsError(f"This run has no other policy to compare {policy!r} with.")
        final = self._scalar_measure(measure, policy)[:, -1]
        differences = [
            compute_difference(policy, name, measure, final, self._scalar_measure(measure, name)[:, -1])
            for name in other_policies
        ]
        return correct_differences(differences) if other is None else differences[0]

    def plot(
        self,
        path: FilePath | None = None,
        *,
        measure: str = "regret",
        ax: Axes | None = None,
        title: str | None = None,
        bounds: Sequence[Bound] = (),
        log: bool = False,
    ) -> Figure:
        """Means against rounds with 95% bands; saved where `path` says, in the format of its ending.

        `bounds` on the regret from `theory.bound` are drawn as thin dashed lines, as far as they fit. `log=True` makes
        the measure's scale logarithmic.
        """
        from causalbandits.results.plots import plot_run

        return plot_run(self, path, measure=measure, ax=ax, title=title, bounds=bounds, log=log)

    def plot_stopping(self, path: FilePath | None = None, *, delta: float = 0.05) -> Figure:
        """How many replications of each policy have stopped by each round (see `stopping`)."""
        from causalbandits.results.plots import plot_stopping

        return plot_stopping(self, path, delta=delta)

    def to_pandas(self, measure: str | None = None) -> pandas.DataFrame:
        """A row per policy, replication and checkpoint, a column per measure, or for the one asked for.

        Plays come alone, with a row per action.
        """
        return build_frame(self, measure)

    def to_csv(self, path: FilePath, measure: str | None = None) -> None:
        """The same table as `to_pandas`, as text."""
        write_csv(self, path, measure)

    def to_parquet(self, path: FilePath, measure: str | None = None) -> None:
        """The same table as `to_pandas`, as Parquet; what made it is in the file's metadata."""
        write_parquet(self, path, measure)

    def save(self, path: FilePath) -> None:
        """Write everything to one file (.npz), from which `Run.load` makes an equal run."""
        write_run(self, path)

    @classmethod
    def load(cls, path: FilePath) -> Run:
        """The run that `save` wrote."""
        return cls(**read_run(path))

    @classmethod
    def merged(cls, runs: Iterable[Run]) -> Run:
        """One run of several: more replications of the same policies, more policies on the same replications, or both.

        Environment, seed, horizon, rounds and measures must be the same; nothing may be missing or there twice.

        >>> from causalbandits import simulate, zoo
        >>> env, settings = zoo.email_campaign(), {"horizon": 50, "seed": 1}
        >>> halves = [simulate(env, "ucb", replications=part, **settings) for part in (range(0, 3), range(3, 6))]
        >>> Run.merged(halves) == simulate(env, "ucb", replications=6, **settings)
        True
        """
        run_list = list(runs) if is_iterable(runs) else []
        if not run_list or not all(isinstance(run, Run) for run in run_list):
            raise CausalBanditsError(f"Run.merged takes a list of runs, one at least; got {runs!r}.")
        return merge_runs(run_list)


def _has_same_bits(first: Values, second: Values) -> bool:
    return np.array_equal(first.view(np.int64), second.view(np.int64))
