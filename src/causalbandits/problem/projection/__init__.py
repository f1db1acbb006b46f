"""The projection: sums over z of P(z | do(a)) times an index, for many actions at once."""

from causalbandits.problem.projection.power_sums import Powers
from causalbandits.problem.projection.scores import TIE, Scores, clear_winners, largest_size, least_tied
from causalbandits.problem.projection.tree import AT_ONCE, CELL_LIMIT, Level, Projection, agreeing

__all__ = [
    "AT_ONCE",
    "CELL_LIMIT",
    "TIE",
    "Level",
    "Powers",
    "Projection",
    "Scores",
    "agreeing",
    "clear_winners",
    "largest_size",
    "least_tied",
]
