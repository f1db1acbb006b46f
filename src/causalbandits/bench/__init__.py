"""How fast it is, shown: `causalbandits bench`."""

from causalbandits.bench.tables import TABLES, Measurements
from causalbandits.bench.write import write_tables

__all__ = ["TABLES", "Measurements", "write_tables"]
