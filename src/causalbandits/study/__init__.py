"""A policy at work, durably: decisions and outcomes in a database, for many processes."""

from causalbandits.study.study import Study, Told

__all__ = ["Study", "Told"]
