"""From data to models: estimating conditional probability tables, and testing a graph's independences against data."""

from causalbandits.fitting.check import Check, Finding, check, finding_of, judged, table_findings
from causalbandits.fitting.chi_square import contingency
from causalbandits.fitting.fit import fit
from causalbandits.fitting.interventions import Interventions
from causalbandits.fitting.logged_rounds import PastRounds, read_past
from causalbandits.fitting.structure import conditional

__all__ = [
    "Check",
    "Finding",
    "Interventions",
    "PastRounds",
    "check",
    "conditional",
    "contingency",
    "finding_of",
    "fit",
    "judged",
    "read_past",
    "table_findings",
]
