"""Before launch: what a problem is like, how long it would take, and comparisons described in files."""

from causalbandits.planning.describe import describe, write_description
from causalbandits.planning.experiment_spec import SpecFile, read_file, read_spec, write_comparison
from causalbandits.planning.forecast import forecast
from causalbandits.planning.problem_spec import InFile, world_of
from causalbandits.planning.strategies import route_of

__all__ = [
    "InFile",
    "SpecFile",
    "describe",
    "forecast",
    "read_file",
    "read_spec",
    "route_of",
    "world_of",
    "write_comparison",
    "write_description",
]
