"""Tables as aligned text, and as data frames."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from causalbandits.errors import CausalBanditsError


def format_table(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> str:
    """Columns of equal width under a header line; the first is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (head, *body)
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def decimal_places(values: Iterable[float]) -> int:
    """The number of decimals that shows two digits of the smallest value; at least one."""
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    return min(9, max(1, 1 - math.floor(math.log10(min(sizes))))) if sizes else 1


def format_p_value(value: float) -> str:
    """Format a p-value.

    >>> format_p_value(0.04321), format_p_value(1e-9), format_p_value(math.nan)
    ('0.043', '< 0.001', '-')
    """
    return "-" if math.isnan(value) else "< 0.001" if value < 0.001 else f"{value:.3f}"


def import_pandas() -> Any:
    """Import pandas; if it is missing, raise an error that says how to install it."""
    try:
        import pandas
    except ImportError:
        raise CausalBanditsError("Data frames require pandas: pip install 'causalbandits[data]'.") from None
    return pandas
