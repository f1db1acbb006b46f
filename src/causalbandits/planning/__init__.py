"""Planning: descriptions of problems, forecasts of their duration, and comparisons that are defined in files."""

from typing import TYPE_CHECKING

from causalbandits._lazy import lazy_exports

if TYPE_CHECKING:
    from causalbandits.planning.description import describe, write_description
    from causalbandits.planning.environment_spec import parse_environment
    from causalbandits.planning.experiment_spec import SpecFile, read_spec, read_spec_file, write_comparison
    from causalbandits.planning.forecasting import forecast
    from causalbandits.planning.strategies import route_of
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "causalbandits.planning.description": ["describe", "write_description"],
            "causalbandits.planning.experiment_spec": ["SpecFile", "read_spec", "read_spec_file", "write_comparison"],
            "causalbandits.planning.forecasting": ["forecast"],
            "causalbandits.planning.environment_spec": ["parse_environment"],
            "causalbandits.planning.strategies": ["route_of"],
        },
    )

__all__ = [
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
