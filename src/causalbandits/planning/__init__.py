"""Before launch: what a problem is like, how long it would take, and comparisons described in files."""

from causalbandits.planning.describe import describe, write_description
from causalbandits.planning.experiment_spec import SpecFile, read_spec, read_spec_file, write_comparison
from causalbandits.planning.forecast import forecast
from causalbandits.planning.problem_spec import FileSpelling, parse_environment
from causalbandits.planning.strategies import route_of

__all__ = [
    "FileSpelling",
    "SpecFile",
    "describe",
    "forecast",
    "parse_environment",
    "read_spec",
    "read_spec_file",
    "route_of",
    "write_comparison",
    "write_description",
]
