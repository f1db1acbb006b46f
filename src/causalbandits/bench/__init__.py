"""How fast it is, shown: `causalbandits bench`."""

from causalbandits.bench.tables import TABLES, Table

__all__ = ["TABLES", "Table"]
