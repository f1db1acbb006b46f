"""From data to models: estimation of conditional probability tables (CPTs), and tests of a graph's independencies."""

from causalbandits.fitting.bins import Bins, bin_labels, bins_from_texts
from causalbandits.fitting.check import (
    PART_LABELS,
    Check,
    Finding,
    adjust_findings,
    build_finding,
    check,
    find_cpt_deviations,
    format_claim_count,
    format_rejections,
)
from causalbandits.fitting.chi_square import ChiSquareTest, independence_test
from causalbandits.fitting.fit import fit, prior_model
from causalbandits.fitting.interventions import Interventions
from causalbandits.fitting.logged_rounds import LoggedRounds, read_logged_rounds
from causalbandits.fitting.structure import format_table_row

__all__ = [
    "PART_LABELS",
    "Bins",
    "Check",
    "ChiSquareTest",
    "Finding",
    "Interventions",
    "LoggedRounds",
    "adjust_findings",
    "bin_labels",
    "bins_from_texts",
    "build_finding",
    "check",
    "find_cpt_deviations",
    "fit",
    "format_claim_count",
    "format_rejections",
    "format_table_row",
    "independence_test",
    "prior_model",
    "read_logged_rounds",
]
