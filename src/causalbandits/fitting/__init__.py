"""From data to models: estimating conditional probability tables, and testing a graph's independences against data."""

from causalbandits.fitting.bins import Bins, bins_from_texts
from causalbandits.fitting.check import Check, Finding, adjust_findings, build_finding, check, find_table_deviations
from causalbandits.fitting.chi_square import independence_test
from causalbandits.fitting.fit import fit
from causalbandits.fitting.interventions import Interventions
from causalbandits.fitting.logged_rounds import LoggedRounds, read_logged_rounds
from causalbandits.fitting.structure import format_table_row

__all__ = [
    "Bins",
    "Check",
    "Finding",
    "Interventions",
    "LoggedRounds",
    "adjust_findings",
    "bins_from_texts",
    "build_finding",
    "check",
    "find_table_deviations",
    "fit",
    "format_table_row",
    "independence_test",
    "read_logged_rounds",
]
