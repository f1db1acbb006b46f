"""The projection: sums over z of P(z | do(a)) times an index, for many actions at once.

`tree` sums block by block, `sparse` does so along long lists of actions, `power_sums` under P^2 and P^3; `argmax` has
the result, one score per searched action, and the rule for ties.
"""

from causalbandits.problem.projection.argmax import TIE, Scores, clear_winners, largest_magnitude, tie_threshold
from causalbandits.problem.projection.power_sums import PowerSums
from causalbandits.problem.projection.tree import (
    CELL_LIMIT,
    PRODUCT_BATCH_SIZE,
    Level,
    Projection,
    compatible_configurations,
)

__all__ = [
    "CELL_LIMIT",
    "PRODUCT_BATCH_SIZE",
    "TIE",
    "Level",
    "PowerSums",
    "Projection",
    "Scores",
    "clear_winners",
    "compatible_configurations",
    "largest_magnitude",
    "tie_threshold",
]
