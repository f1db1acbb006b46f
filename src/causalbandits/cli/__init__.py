"""The command line: `causalbandits`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Annotated, TextIO

import typer

from causalbandits import __version__
from causalbandits.cli.campaign import ask, recommend, structure, tell
from causalbandits.cli.console import command_terms, policies, schema
from causalbandits.cli.data import check, fit
from causalbandits.cli.plan import forecast, inspect
from causalbandits.cli.service import serve
from causalbandits.cli.simulate import reproduce, simulate
from causalbandits.cli.study import study
from causalbandits.errors import CausalBanditsError, CausalBanditsWarning

__all__ = ["app", "main", "run"]

app = typer.Typer(
    name="causalbandits",
    help="Causal bandits: find the best intervention with few trials by using a causal graph.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
for command in (
    reproduce,
    simulate,
    inspect,
    forecast,
    fit,
    check,
    policies,
    schema,
    ask,
    tell,
    recommend,
    structure,
    serve,
):
    app.command()(command)
app.add_typer(study, name="study")


def main() -> None:
    """Run the command line."""
    run(app)


def run(program: Callable[[], object]) -> None:
    """Run a program; a user's error is shown as one line, with the traceback on request."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            program()
    except CausalBanditsError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"Error: {command_terms(str(error))}", err=True)
        sys.exit(1)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning of this library as one line, and any other warning as Python does."""
    if issubclass(category, CausalBanditsWarning):
        typer.echo(f"Warning: {message}", err=True)
    else:
        typer.echo(warnings.formatwarning(message, category, filename, lineno, line), err=True, nl=False)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def settings(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")] = False,
) -> None:
    """Causal bandits: find the best intervention with few trials by using a causal graph."""
