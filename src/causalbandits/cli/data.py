"""Commands about data: estimate CPTs, and test whether data contradict a graph."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from causalbandits.cli.console import print_plain
from causalbandits.cli.options import OptionTerms
from causalbandits.errors import CausalBanditsError
from causalbandits.formats import read, write
from causalbandits.model import State
from causalbandits.problem import parse_knowledge

_TERMS = OptionTerms((), has_file=False)
GraphFile = Annotated[
    str,
    typer.Argument(
        help=(
            "A graph in DOT or dagitty syntax (.dot, .gv), a model (.json, .bif, .xml), or a text such as "
            "'A, B -> C -> Y'."
        ),
        show_default=False,
    ),
]
DataFile = Annotated[Path, typer.Argument(help="The data: a .csv, .csv.gz or .parquet file.", show_default=False)]
HiddenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--hidden",
        help=("An unobserved variable (U), or observed variables with an unobserved common cause (A,B); repeatable."),
    ),
]
InterventionsOption = Annotated[
    str | None,
    typer.Option(
        "--interventions",
        help=("The column that names the variables set in each row; an empty cell marks an observational row."),
    ),
]
BinsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bins",
        help="Bins of a numeric column: edges (age=0,30,45,60) or the number of quantiles (age=4); repeatable.",
    ),
]
NaOption = Annotated[
    list[str] | None, typer.Option("--na", help="A value that marks a missing value, such as N/A; repeatable.")
]
DelimiterOption = Annotated[str | None, typer.Option(help="The field separator of a CSV file, such as ';'.")]


def fit(
    graph: GraphFile,
    data: DataFile,
    out: Annotated[Path, typer.Option(help="The file for the model, such as model.json.", dir_okay=False)],
    hidden: HiddenOption = None,
    interventions: InterventionsOption = None,
    bins: BinsOption = None,
    prior: Annotated[
        float, typer.Option(min=0, help=("Pseudo-count of every CPT cell; 0 gives relative frequencies."))
    ] = 1.0,
    missing: Annotated[
        str, typer.Option(help="Treatment of rows with missing values: refuse, drop, or em (expectation maximisation).")
    ] = "refuse",
    na: NaOption = None,
    delimiter: DelimiterOption = None,
) -> None:
    """Estimate the CPTs of a graph from data, and write the model.

    If the graph has unobserved variables, the model describes the observed variables, and the effects of actions are
    computed if they are identified. All commands that take a model accept the file; in Python, use
    Problem(cb.read("model.json"), ...).

    [bold]Examples[/bold]

      causalbandits fit campaign.dot past.csv --out model.json

      causalbandits fit campaign.dot past.csv --out model.json --hidden channel,sale --interventions was_set

      causalbandits fit visits.dot visits.csv --out model.json --bins age=0,30,45,60 --bins income=4
    """
    from rich.console import Console

    from causalbandits import fitting

    if out.name.removesuffix(".gz").rpartition(".")[2].lower() != "json":
        raise CausalBanditsError(f"--out must be a .json file, which keeps the counts of the fit; got {str(out)!r}.")
    with _errors_name_options():
        model = fitting.fit(
            _load_graph(graph, hidden or ()),
            data,
            interventions=interventions,
            bins=fitting.bins_from_texts(bins or ()),
            prior=prior,
            missing=cast(Any, missing),
            na_values=_parse_na_values(na),
            delimiter=delimiter,
        )
    write(model, out)
    console = Console()
    print_plain(console, f"{model!r}\nModel: {out}")


def check(
    graph: GraphFile,
    data: DataFile,
    hidden: HiddenOption = None,
    interventions: InterventionsOption = None,
    bins: BinsOption = None,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="False discovery rate of the rejected claims.")] = 0.05,
    missing: Annotated[str, typer.Option(help="Treatment of rows with missing values: refuse, or drop.")] = "refuse",
    na: NaOption = None,
    delimiter: DelimiterOption = None,
) -> None:
    """Test the independence claims of a graph, and the CPTs of a model, against data.

    [bold]Examples[/bold]

      causalbandits check campaign.dot past.csv

      causalbandits check model.json new.csv --interventions was_set --alpha 0.01
    """
    from rich.console import Console

    from causalbandits import fitting

    with _errors_name_options():
        result = fitting.check(
            _load_graph(graph, hidden or ()),
            data,
            interventions=interventions,
            bins=fitting.bins_from_texts(bins or ()),
            alpha=alpha,
            missing=cast(Any, missing),
            na_values=_parse_na_values(na),
            delimiter=delimiter,
        )
    print_plain(Console(), repr(result))


@contextmanager
def _errors_name_options() -> Iterator[None]:
    """Translate errors into the options of these commands, which have no --values."""
    try:
        yield
    except CausalBanditsError as error:
        message = re.sub(r" Or declare that every value is a category: .*", "", str(error))
        error.args = (re.sub(r"\bbins=\{.*?\}", lambda bins: _TERMS.translate(bins[0]), message), *error.args[1:])
        raise


def _load_graph(graph: str, hidden: Sequence[str]) -> Any:
    """The graph in a file or a text, with further unobserved confounders if given."""
    knowledge = parse_knowledge(graph) if "->" in graph or "<-" in graph else read(Path(graph))
    if not hidden:
        return knowledge
    from causalbandits.model import as_causal_graph

    causal_graph = as_causal_graph(knowledge)
    groups = [tuple(name.strip() for name in group.split(",")) for group in hidden]
    extra_hidden = [names[0] if len(names) == 1 else names for names in groups]
    return causal_graph.with_hidden(extra_hidden)


def _parse_na_values(na: Sequence[str] | None) -> list[State]:
    """The typed values, and their numbers if they are numeric: columns of a Parquet file have types."""
    values: list[State] = list(na or ())
    for text in na or ():
        try:
            values.append(float(text))
        except ValueError:
            continue
    return [value for value in values if not isinstance(value, float) or math.isfinite(value)]
