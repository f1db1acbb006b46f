"""How fast it is, shown: `causalbandits bench`."""

from causalbandits.bench.tables import TABLES, Table
from causalbandits.bench.write import write_tables

__all__ = ["TABLES", "Table", "write_tables"]
