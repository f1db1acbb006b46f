"""What is too much for a file: checked before anything of that size is made."""

from __future__ import annotations

FILE_LIMIT = 2**27
"""Bytes of a file, after decompression: 128 MiB. The largest of the published networks has 5.5 MB."""

NUMBER_LIMIT = 2**26
"""Numbers in all tables of a file together: half a GiB in memory."""

AXES_LIMIT = 32
"""Axes of a table, the variable's own included: as many as every supported NumPy can hold."""

EDGE_LIMIT = 10**6
"""Edges of a graph: in DOT, `{a b ...} -> {c d ...}` says many in few words."""

DEPTH_LIMIT = 100
"""Brackets within brackets."""

ROUNDING_TOLERANCE = 5e-3
"""A row in a file may miss 1 by this much and is then renormalised.

Rows rounded to three digits pass, a slip of a percent does not. The published networks need 3e-7.
"""
