"""What a simulation leaves: numbers, tables, plots, reports, references."""

from causalbandits.results.citations import citation
from causalbandits.results.run import Run

__all__ = ["Run", "citation"]
