"""`fit`: estimates CPTs from data, with Dirichlet posteriors; by EM if values are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from causalbandits._typing import Array
from causalbandits.errors import DataError, ModelError, short_repr, unknown_name_message
from causalbandits.fitting.bins import Bins, add_bins
from causalbandits.fitting.codebook import warn_of_odd_values
from causalbandits.fitting.counts import Rows, TableCounts, refuse_large_cpts
from causalbandits.fitting.em import IncompleteRows, maximise
from causalbandits.fitting.interventions import Interventions
from causalbandits.fitting.sources import open_source
from causalbandits.fitting.structure import GraphLike, States, Structure, format_table_row, parse_structure
from causalbandits.model import CausalGraph, CausalModel, DirichletPosterior, LatentModel, State
from causalbandits.model.graph import marginal_graph

Missing = Literal["refuse", "drop", "em"]
Prior = float | Mapping[str, npt.ArrayLike] | CausalModel | LatentModel


def fit(
    graph: GraphLike,
    data: Any,
    *,
    values: States | None = None,
    bins: Bins | None = None,
    prior: Prior = 1.0,
    interventions: Interventions = None,
    missing: Missing = "refuse",
    na_values: Iterable[State] = (),
    delimiter: str | None = None,
) -> CausalModel | LatentModel:
    """Estimate every variable's CPT from data, given the graph.

    The graph must be correct, and unobserved confounders must be part of it. Rows count for a CPT only if its variable
    was not set.

    >>> data = {"purpose": ["Promo", "Promo", "Nurture", "Promo"], "subject": ["short", "short", "long", "long"]}
    >>> model = fit({"purpose": [], "subject": ["purpose"]}, data)
    >>> model["subject"].states, model["subject"].table.round(2).tolist()
    (('long', 'short'), [[0.67, 0.33], [0.4, 0.6]])

    A numeric column needs bins:

    >>> fit({"age": []}, {"age": [18, 29, 30, 60]}, bins={"age": [0, 30, 45, 60]})["age"].states
    ('[0, 30)', '[30, 45)', '[45, 60]')

    Args:
        graph: A mapping from each variable to its parents, a `CausalGraph`, a `networkx.DiGraph` or a `CausalModel`
            (whose CPTs are ignored).
        data: A pandas or polars DataFrame, an Arrow table, reader or dataset, a mapping from names to columns, or the
            path of a .csv, .csv.gz or .parquet file (read in batches). Columns that are not in the graph are not read.
        values: The allowed values of some variables, in order. Default: those found in the data; numbers and texts are
            sorted, ordered categories keep their order.
        bins: For a numeric column the edges of its intervals, such as `[0, 30, 45, 60]`, or the number of quantiles.
            Intervals are closed on the left, the last one on both sides; the outer edges may be infinite. A column with
            more than 20 distinct numbers needs `values` or `bins`.
        prior: The pseudo-count of every CPT entry: a number (0 gives plain frequencies), a mapping from variables to
            numbers or arrays, or an earlier fit whose posterior becomes the prior.
        interventions: The variables that were set in each row: the name of a column with their names
            ("purpose,send_time", empty for none), or a mapping from variables to columns of truth values. Default: none
            were set.
        missing: The treatment of missing values: "refuse" raises an error, "drop" skips rows with one, and "em" finds
            the CPTs with the largest likelihood (EM). Posteriors after EM treat filled-in values as observed.
        na_values: Values that stand for missing ones, such as `["-", -999]`.
        delimiter: The delimiter of a CSV file. Default: a comma.

    Returns:
        The model with its `posterior`: a `CausalModel`, or a `LatentModel` if the graph has unobserved confounders. The
        latter has a CPT of each variable given its Markov pillow, and further CPTs such as `sale | do(ad)` from rows in
        which variables were set.

    Raises:
        DataError: If the data cannot be read, lack a column, or have missing or unexpected values.
        ModelError: If the graph is malformed.
    """
    if not isinstance(missing, str) or missing not in ("refuse", "drop", "em"):
        raise DataError(unknown_name_message("way to treat missing values:", missing, ["refuse", "drop", "em"]))
    if data is None:
        raise DataError(
            "fit() estimates CPTs from data; got None. A problem takes a graph without data, and learns the CPTs "
            "online: Problem(graph, ...)."
        )
    structure = parse_structure(graph, values)
    earlier = None
    if isinstance(prior, CausalModel | LatentModel):
        earlier, structure = _require_posterior(prior), _structure_of_prior(structure, prior)
    source = open_source(data, na_values=na_values, delimiter=delimiter)
    structure = add_bins(structure, bins, source)
    rows = Rows(structure, source, interventions)
    earlier_kinds = map(frozenset, prior.sources if isinstance(prior, LatentModel) else ())
    tables, gaps = TableCounts(structure, rows.books, earlier_kinds), IncompleteRows(structure.names)
    for coded, complete in rows:
        if complete is not None:
            if missing == "em":
                gaps.add(coded.select(~complete))
                tables.count_kinds(coded.select(~complete))
            coded = coded.select(complete)
        tables.count_kinds(coded)
        tables.add(coded)
    tables.finish()
    if missing == "refuse":
        rows.check_complete("Use missing='drop' to leave these rows out, or missing='em' for expectation maximisation.")
    warn_of_odd_values(rows.books.values())
    used = rows.count - (rows.incomplete if missing == "drop" else 0)
    if not used:
        raise DataError(f"Every one of the {rows.count} rows has a missing value; by column: {rows.format_missing()}.")
    for name, book in rows.books.items():
        if book.missing == rows.count:
            raise DataError(f"No value of {name!r} was observed, so its CPT cannot be estimated.")
    books_arranged = {name: book.arrange() for name, book in rows.books.items()}
    states_by_name = {name: values for name, (values, _) in books_arranged.items()}
    orders = {name: order for name, (_, order) in books_arranged.items()}
    shapes, counts = tables.reorder(orders, states_by_name)
    pseudo = _pseudo_counts(prior, shapes)
    if gaps:
        counts = maximise(structure, shapes, counts, pseudo, gaps.reorder(orders)).counts
    filled = sum(book.missing for book in rows.books.values()) if gaps else 0
    rows_by_source = Counter(
        {tuple(name for name in structure.names if name in kind): n for kind, n in tables.kinds.items() if n}
    )
    if earlier is not None:
        filled += earlier.filled
        rows_by_source.update(earlier.rows_by_source)
    posterior = DirichletPosterior(counts, pseudo, rows=used, filled=filled, rows_by_source=rows_by_source)
    if structure.hidden is not None:
        return LatentModel.from_posterior(structure.hidden.with_values(states_by_name), posterior)
    for name, parents in structure.parents.items():
        _check_rows_seen(name, parents, states_by_name, counts[name] + pseudo[name])
    return CausalModel.from_posterior(CausalGraph(structure.parents, values=states_by_name), posterior)


def prior_model(
    graph: GraphLike, *, values: States | None = None, bins: Bins | None = None, prior: Prior = 1.0
) -> CausalModel:
    """The model whose CPTs are known only by their priors; the initial model of a problem without data.

    >>> prior_model({"subject": ["purpose"]}, values={"purpose": [0, 1], "subject": [0, 1]})["subject"].table.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    structure = parse_structure(graph, values)
    earlier = None
    if isinstance(prior, CausalModel | LatentModel):
        earlier, structure = _require_posterior(prior), _structure_of_prior(structure, prior)
    structure = add_bins(structure, bins, None)
    if structure.hidden is not None:
        confounded = marginal_graph(structure.hidden.graph, structure.hidden.names).confounded
        if confounded:
            raise DataError(
                "Without data, an unobserved variable must have at most one observed effect; "
                f"{', '.join(confounded[0])} have an unobserved common cause. If none of them is manipulable, declare "
                "the variables that can be observed: Problem(..., can_observe=[...]) with a graph that marks no "
                "variable as unobserved. Otherwise pass data, or learn a mean per action: Problem(graph, ..., "
                "reward_parents=[])."
            )
        structure = Structure(structure.parents, structure.states)
    missing = [name for name in structure.names if name not in structure.states]
    if missing:
        raise DataError(
            f"Without data the values of every variable must be given, values={{{missing[0]!r}: [...]}}; missing: "
            f"{', '.join(map(repr, missing))}."
        )
    states = {name: tuple(structure.states[name]) for name in structure.names}
    shapes = {family.name: tuple(len(states[name]) for name in family.axes) for family in structure.families}
    refuse_large_cpts(structure.families, shapes)
    pseudo = _pseudo_counts(prior, shapes)
    for name, parents in structure.parents.items():
        _check_rows_seen(name, parents, states, pseudo[name])
    nothing = {name: np.zeros(shape) for name, shape in shapes.items()}
    posterior = DirichletPosterior(nothing, pseudo, rows=0)
    if earlier is not None:
        posterior = posterior.replace(filled=earlier.filled, rows_by_source=earlier.rows_by_source)
    return CausalModel.from_posterior(CausalGraph(structure.parents, values=states), posterior)


def _require_posterior(prior: CausalModel | LatentModel) -> DirichletPosterior:
    if prior.posterior is None:
        raise ModelError(
            f"A model used as the prior must have a posterior; the CPTs of {prior!r} are given, not estimated "
            "(model.posterior is None). Pass pseudo-counts, or a model fitted to earlier data, fit(graph, data)."
        )
    return prior.posterior


def _structure_of_prior(structure: Structure, prior: CausalModel | LatentModel) -> Structure:
    earlier = {name: v.parents for name, v in prior.variables.items()}
    states = {name: v.states for name, v in prior.variables.items()}
    hidden = prior.causal_graph if isinstance(prior, LatentModel) else None
    graph = structure.hidden
    same_causes = graph is hidden or (graph is not None and hidden is not None and graph.with_values(states) == hidden)
    if (
        earlier != dict(structure.parents)
        or not same_causes
        or any(states[name] != required_states for name, required_states in structure.states.items())
    ):
        raise ModelError(
            "A model used as the prior must have the same variables, parents (in order), unobserved confounders and "
            "states."
        )
    return Structure(structure.parents, states, hidden)


def _pseudo_counts(prior: Prior, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    if isinstance(prior, CausalModel | LatentModel):
        prior = _require_posterior(prior).concentrations
    if isinstance(prior, Mapping):
        for name in prior:
            if name not in shapes:
                raise ModelError(f"prior: {unknown_name_message('variable', name, shapes)}")
    pseudo = {}
    for name, shape in shapes.items():
        pseudo_count = prior.get(name, 1.0) if isinstance(prior, Mapping) else prior
        try:
            array = np.array(np.broadcast_to(np.asarray(pseudo_count, dtype=np.float64), shape))
        except (TypeError, ValueError, OverflowError):
            array = np.array(np.nan)
        if not (np.isfinite(array).all() and (array >= 0).all()):
            raise ModelError(
                "prior must be a pseudo-count for every cell, 0 or more: a number, a mapping from variables to "
                f"numbers or arrays with the shapes of their CPTs, or a fitted model (with a posterior); for {name!r} "
                f"(shape {shape}) it is {short_repr(pseudo_count)}."
            )
        pseudo[name] = array
    return pseudo


def _check_rows_seen(
    name: str, parents: tuple[str, ...], states: Mapping[str, tuple[State, ...]], concentrations: Array
) -> None:
    unseen = np.argwhere(concentrations.sum(axis=-1) <= 0)
    if len(unseen):
        rows = concentrations.size // concentrations.shape[-1]
        examples = ", ".join(format_table_row(name, parents, states, row.tolist()) for row in unseen[:3])
        ellipsis_text = ", ..." if len(unseen) > 3 else ""
        raise DataError(
            f"{len(unseen)} of the {rows} rows of the CPT of {name!r} do not occur in the data, and with a prior of 0 "
            f"have no estimate: {examples}{ellipsis_text}. Use a prior above 0, such as prior=1."
        )
