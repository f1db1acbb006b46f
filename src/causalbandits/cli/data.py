"""Commands about data: tables from them, and whether they contradict a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from causalbandits.cli.console import print_plain
from causalbandits.errors import CausalBanditsError
from causalbandits.formats import read, write
from causalbandits.model import State

GraphFile = Annotated[
    Path, typer.Argument(help="A graph, in DOT or as dagitty writes it (.dot, .gv), or a model.", show_default=False)
]
DataFile = Annotated[Path, typer.Argument(help="Rows: .csv, .csv.gz or .parquet.", show_default=False)]
HiddenOption = Annotated[
    list[str] | None,
    typer.Option("--hidden", help="What has no column: U; or what shares a hidden cause: A,B. As often as you like."),
]
InterventionsOption = Annotated[
    str | None,
    typer.Option("--interventions", help="The column that names the variables that were set, empty where none was."),
]
BinsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bins",
        help="Bins of a numeric column: edges (age=0,30,45,60), or how many quantiles (age=4). As often as you like.",
    ),
]
NaOption = Annotated[
    list[str] | None, typer.Option("--na", help="A value that stands for a missing one; as often as you like.")
]
DelimiterOption = Annotated[str | None, typer.Option(help="What stands between the fields of a CSV file.")]


def fit(
    graph: GraphFile,
    data: DataFile,
    out: Annotated[Path, typer.Option(help="The model to write: model.json.", dir_okay=False)],
    hidden: HiddenOption = None,
    interventions: InterventionsOption = None,
    bins: BinsOption = None,
    prior: Annotated[float, typer.Option(min=0, help="The pseudo-count of every cell; 0 for plain frequencies.")] = 1.0,
    missing: Annotated[
        str, typer.Option(help="Rows that lack a value: refuse, drop, or em to fill them in.")
    ] = "refuse",
    na: NaOption = None,
    delimiter: DelimiterOption = None,
) -> None:
    """Estimate tables from data, given a graph, and write the model.

    Where causes are hidden, what is observed is fitted, and problems made of it compute what actions do where that can
    be computed. Problems are made by Problem(cb.read("model.json"), ...).

    [bold]Examples[/bold]

      causalbandits fit campaign.dot past.csv --out model.json

      causalbandits fit campaign.dot past.csv --out model.json --hidden channel,sale --interventions was_set

      causalbandits fit visits.dot visits.csv --out model.json --bins age=0,30,45,60 --bins income=4
    """
    from rich.console import Console

    from causalbandits import fitting

    if out.name.removesuffix(".gz").rpartition(".")[2].lower() != "json":
        raise CausalBanditsError(f"--out: only a .json file keeps the counts of a fit; got {str(out)!r}.")
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
    print_plain(console, f"{model!r}\nThe model: {out}")


def check(
    graph: GraphFile,
    data: DataFile,
    hidden: HiddenOption = None,
    interventions: InterventionsOption = None,
    bins: BinsOption = None,
    alpha: Annotated[
        float, typer.Option(min=0, max=1, help="Significance level: the expected share of false contradictions.")
    ] = 0.05,
    drop: Annotated[bool, typer.Option("--drop", help="Leave out rows that lack a value.")] = False,
    na: NaOption = None,
    delimiter: DelimiterOption = None,
) -> None:
    """Do data contradict a graph, or a model's tables? Every claim is tested, the worst come first.

    [bold]Examples[/bold]

      causalbandits check campaign.dot past.csv

      causalbandits check model.json new.csv --interventions was_set --alpha 0.01
    """
    from rich.console import Console

    from causalbandits import fitting

    result = fitting.check(
        _load_graph(graph, hidden or ()),
        data,
        interventions=interventions,
        bins=fitting.bins_from_texts(bins or ()),
        alpha=alpha,
        missing="drop" if drop else "refuse",
        na_values=_parse_na_values(na),
        delimiter=delimiter,
    )
    print_plain(Console(), repr(result))


def _load_graph(path: Path, hidden: Sequence[str]) -> Any:
    """What a file holds; its graph with more that is hidden, if there is more."""
    knowledge = read(path)
    if not hidden:
        return knowledge
    from causalbandits.model import as_causal_graph

    graph = as_causal_graph(knowledge)
    groups = [tuple(name.strip() for name in group.split(",")) for group in hidden]
    extra_hidden = [names[0] if len(names) == 1 else names for names in groups]
    return graph.with_hidden(extra_hidden)


def _parse_na_values(na: Sequence[str] | None) -> list[State]:
    """What was typed, and the number that it is, if it is one: columns of a Parquet file have types."""
    values: list[State] = list(na or ())
    for text in na or ():
        try:
            values.append(float(text))
        except ValueError:
            continue
    return [value for value in values if not isinstance(value, float) or math.isfinite(value)]
