"""Before launch: what a problem is like, how long it would take, and comparisons described in files."""

from causalbandits.planning.describe import describe
from causalbandits.planning.forecast import forecast

__all__ = ["describe", "forecast"]
