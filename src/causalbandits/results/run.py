"""The result of a simulation: measures at checkpoints for every policy and replication, and their summaries."""

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
    """The measures of every policy in each replication of a simulation.

    >>> from causalbandits import simulate, zoo
    >>> run = simulate(zoo.email_campaign(), ["c-ucb", "uniform"], horizon=100, replications=3, seed=1)
    >>> run.policies, run.horizon, run.replications, run.regret("c-ucb").shape
    (('c-ucb', 'uniform'), 100, 3, (3, 100))

    `simulate(..., measures=[...])` selects the measures:

    - "regret": the pseudo-regret; always kept.
    - "simple regret": that of the action that the policy would recommend.
    - "error probability": the smallest delta at which the policy may stop, see `stopping`.
    - "reward": the sum of rewards so far.
    - "plays": the number of plays of each action so far.

    Args:
        rounds: The rounds after which measures are kept (checkpoints); the last is the horizon.
        measures: By measure and policy, an array of replications x checkpoints (x actions for plays).
        seed: The seed.
        environment: A description of the environment.
        first: The number of the first replication.
        origin: Fingerprints of environment and policies; None if the run was not made by `simulate`.
        tolerance: The tolerance of the measure "error probability", in units of the reward.

    Raises:
        CausalBanditsError: If the arrays do not fit together.
    """

    rounds: npt.NDArray[np.int64]
    """The checkpoints; the last one is the horizon."""
    measures: Measures
    """By measure, then policy: replications x checkpoints, and x actions for plays."""
    seed: int
    environment: str
    """A description of the environment."""
    first: int = 0
    """The number of the first replication."""
    origin: Origin | None = None
    """Fingerprints of environment and policies; None if the run was not made by `simulate`."""
    tolerance: float = 0.0
    """The tolerance of the measure "error probability"."""

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
        """Whether all parts are equal, the measures in every bit."""
        if not isinstance(other, Run):
            return NotImplemented
        return self._metadata() == other._metadata() and all(
            _has_same_bits(self.measure(name, policy), other.measure(name, policy))
            for name in self.measures
            for policy in self.policies
        )

    def _metadata(self) -> tuple[object, ...]:
        """Everything except the measures' values."""
        rounds = self.rounds.tolist()
        provenance = self.seed, self.environment, self.origin, self.tolerance
        return rounds, self.policies, self.numbers, [*self.measures], *provenance

    @property
    def policies(self) -> tuple[str, ...]:
        """The names of the policies, in the order given."""
        return tuple(self.measures["regret"])

    @property
    def horizon(self) -> int:
        """The number of rounds."""
        return int(self.rounds[-1])

    @property
    def replications(self) -> int:
        """The number of replications."""
        return len(self.measures["regret"][self.policies[0]])

    @property
    def numbers(self) -> range:
        """The numbers of the replications; with the seed they determine all random numbers."""
        return range(self.first, self.first + self.replications)

    def measure(self, name: str, policy: str) -> Values:
        """A measure at each checkpoint.

        Args:
            name: The measure: "regret", "simple regret", "error probability", "reward" or "plays".
            policy: The name of the policy.

        Returns:
            An array with one row per replication and one column per checkpoint.

        Raises:
            CausalBanditsError: If the run does not have the measure or the policy.
        """
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
        """The cumulative pseudo-regret at each checkpoint.

        Args:
            policy: The name of the policy.

        Returns:
            An array with one row per replication and one column per checkpoint.

        Raises:
            CausalBanditsError: If the run does not have the policy.
        """
        return self.measure("regret", policy)

    def plays(self, policy: str) -> npt.NDArray[np.int64]:
        """The number of plays of each action at each checkpoint.

        Args:
            policy: The name of the policy.

        Returns:
            An array of replications x checkpoints x actions.

        Raises:
            CausalBanditsError: If the run does not have the policy, or did not keep "plays".
        """
        return self.measure("plays", policy)

    def _scalar_measure(self, name: str, policy: str) -> Array:
        """A measure with one number per checkpoint; plays raise an error."""
        if isinstance(name, str) and name == "plays":
            raise CausalBanditsError(
                "plays is a number per action, not a single value per round. Use run.plays(policy) or "
                "run.to_pandas('plays')."
            )
        return self.measure(name, policy)

    def only(self, policies: Iterable[str]) -> Run:
        """The same run with some of the policies.

        Args:
            policies: The names of the policies, in the order wanted.

        Returns:
            The run.

        Raises:
            CausalBanditsError: If the run does not have a policy.
        """
        if isinstance(policies, str) or not is_iterable(policies):
            raise CausalBanditsError(f"only() takes a list of policies, such as ['ucb']; got {policies!r}.")
        names = tuple(policies)
        measures = {name: {policy: self.measure(name, policy) for policy in names} for name in self.measures}
        return replace(self, measures=measures, origin=None if self.origin is None else self.origin.only(names))

    def interval(self, policy: str, *, measure: str = "regret") -> tuple[Array, Array, Array]:
        """The mean over replications and its 95% interval at each checkpoint.

        Args:
            policy: The name of the policy.
            measure: The measure; not "plays".

        Returns:
            Three arrays: mean, lower and upper end. The ends are NaN for a single replication.

        Raises:
            CausalBanditsError: If the run does not have the measure or the policy.
        """
        values = self._scalar_measure(measure, policy)
        mean, half = values.mean(axis=0), half_width(values)
        return mean, mean - half, mean + half

    def summary(self, measure: str = "regret") -> Summary:
        """The mean of a measure at the horizon, with standard error and 95% interval, for every policy.

        Args:
            measure: The measure; not "plays".

        Returns:
            The summary, which prints as a table.

        Raises:
            CausalBanditsError: If the run does not have the measure.
        """
        means = []
        for policy in self.policies:
            mean, lower, upper = (float(values[-1]) for values in self.interval(policy, measure=measure))
            error = float(standard_error(self._scalar_measure(measure, policy))[-1])
            means.append(FinalMean(policy, mean, error, lower, upper, self.replications))
        return Summary(means, measure)

    def stopping(self, delta: float = 0.05, tolerance: float | None = None) -> Stopping:
        """The times at which every policy stops, and the frequency of wrong recommendations at these times.

        The run needs the measures "error probability" and "simple regret". Policies stop at checkpoints only, so keep
        `rounds` dense if the exact round matters.

        Args:
            delta: The error probability at which a policy stops, above 0 and below 1.
            tolerance: The loss in mean reward above which a recommendation is wrong, in units of the reward. Default:
                the tolerance of the run.

        Returns:
            The stopping times and errors, which print as a table.

        Raises:
            CausalBanditsError: If the run lacks a measure, or `delta` is out of range.
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
        """Compare a policy with another one, or with all others, at the horizon.

        Differences are taken within replications, because both policies face the same environment and random numbers.
        The test is a two-sided paired t-test, with Holm's correction for several comparisons.

        >>> from causalbandits import simulate, zoo
        >>> policies = {"C-TS": "c-ts(prior=beta)", "TS": "ts(prior=beta)"}
        >>> run = simulate(zoo.email_campaign(), policies, horizon=300, replications=5, seed=1)
        >>> run.compare("C-TS", "TS")
        Final regret of C-TS minus TS: -20.8 on average, 95% interval -27.3 to -14.2, paired t-test p < 0.001;
        lower in 5 of 5 replications.

        Args:
            policy: The name of the policy.
            other: The name of the other policy. Default: all others.
            measure: The measure; not "plays".

        Returns:
            The difference, or the differences from all others.

        Raises:
            CausalBanditsError: If the run does not have a policy or the measure, or has no other policy.
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
        """Plot means against rounds, with 95% bands.

        Args:
            path: The file to save the figure in; its suffix selects the format. Default: not saved.
            measure: The measure; not "plays".
            ax: The Matplotlib axes to draw on. Default: a new figure.
            title: The title. Default: the number of replications.
            bounds: Regret bounds from `theory.bound`, drawn as thin dashed lines. A linear axis cuts off a bound that
                is far larger than the regret, and names its last value; a logarithmic axis has room for all.
            log: Whether the axis of the measure is logarithmic.

        Returns:
            The Matplotlib figure.

        Raises:
            CausalBanditsError: If the run does not have the measure, or the file cannot be written.
        """
        from causalbandits.results.plots import plot_run

        return plot_run(self, path, measure=measure, ax=ax, title=title, bounds=bounds, log=log)

    def plot_stopping(self, path: FilePath | None = None, *, delta: float = 0.05) -> Figure:
        """Plot the share of replications of each policy that have stopped by each round (see `stopping`).

        Args:
            path: The file to save the figure in; its suffix selects the format. Default: not saved.
            delta: The error probability at which a policy stops.

        Returns:
            The Matplotlib figure.

        Raises:
            CausalBanditsError: If the run lacks the measures of `stopping`, or the file cannot be written.
        """
        from causalbandits.results.plots import plot_stopping

        return plot_stopping(self, path, delta=delta)

    def to_pandas(self, measure: str | None = None) -> pandas.DataFrame:
        """The measures as a pandas DataFrame, with a row per policy, replication and checkpoint.

        Args:
            measure: The measure; "plays" has a row per action, too. Default: a column for each measure except plays.

        Returns:
            The data frame.

        Raises:
            CausalBanditsError: If pandas is not installed, or the run does not have the measure.
        """
        return build_frame(self, measure)

    def to_csv(self, path: FilePath, measure: str | None = None) -> None:
        """Write the table of `to_pandas` to a .csv file; pandas is not needed.

        Args:
            path: The path of the file.
            measure: The measure, as for `to_pandas`.

        Raises:
            CausalBanditsError: If the run does not have the measure, or the file cannot be written.
        """
        write_csv(self, path, measure)

    def to_parquet(self, path: FilePath, measure: str | None = None) -> None:
        """Write the table of `to_pandas` to a .parquet file, with the run's origin in the metadata.

        Args:
            path: The path of the file.
            measure: The measure, as for `to_pandas`.

        Raises:
            CausalBanditsError: If pyarrow is not installed, the run does not have the measure, or the file cannot be
                written.
        """
        write_parquet(self, path, measure)

    def save(self, path: FilePath) -> None:
        """Write the run to a .npz file that `Run.load` reads.

        Args:
            path: The path of the file.

        Raises:
            StateError: If the file cannot be written.
        """
        write_run(self, path)

    @classmethod
    def load(cls, path: FilePath) -> Run:
        """Read a run that `save` wrote.

        Args:
            path: The path of the file.

        Returns:
            The run.

        Raises:
            StateError: If the file cannot be read or does not hold a run.
        """
        return cls(**read_run(path))

    @classmethod
    def merged(cls, runs: Iterable[Run]) -> Run:
        """Merge runs: more replications of the same policies, more policies on the same replications, or both.

        >>> from causalbandits import simulate, zoo
        >>> env, settings = zoo.email_campaign(), {"horizon": 50, "seed": 1}
        >>> halves = [simulate(env, "ucb", replications=part, **settings) for part in (range(0, 3), range(3, 6))]
        >>> Run.merged(halves) == simulate(env, "ucb", replications=6, **settings)
        True

        Args:
            runs: The runs, with the same environment, seed, horizon, checkpoints and measures. Every combination of
                policy and replication must occur exactly once.

        Returns:
            The merged run.

        Raises:
            CausalBanditsError: If the runs do not fit together.
        """
        run_list = list(runs) if is_iterable(runs) else []
        if not run_list or not all(isinstance(run, Run) for run in run_list):
            raise CausalBanditsError(f"Run.merged takes a list of runs, one at least; got {runs!r}.")
        return merge_runs(run_list)


def _has_same_bits(first: Values, second: Values) -> bool:
    return np.array_equal(first.view(np.int64), second.view(np.int64))
