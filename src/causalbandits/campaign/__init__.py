"""What an agent and a study share: decisions, validation of outcomes, recommendations, reports."""

from causalbandits.campaign.decision import BATCH_LIMIT, Context, Decision
from causalbandits.campaign.diagnostics import (
    CONTRADICTION_LEVEL,
    check_counts,
    check_model,
    contradictions,
    gather_evidence,
)
from causalbandits.campaign.eligibility import Eligible, eligible_actions, restrict_to_eligible
from causalbandits.campaign.history import HistoryImporter, Learnt
from causalbandits.campaign.ledger import Ledger, Pending, decode_action, decode_support, encode_support
from causalbandits.campaign.policy_record import policy_record, restore_policy
from causalbandits.campaign.recommendation import (
    CellMoments,
    Certainty,
    Recommendation,
    Recommendations,
    explanatory_cell,
    outcome_scale_caveats,
    recommend,
    scale_caveats,
)
from causalbandits.campaign.resequencer import Resequencer
from causalbandits.campaign.validation import validate_outcome

__all__ = [
    "BATCH_LIMIT",
    "CONTRADICTION_LEVEL",
    "CellMoments",
    "Certainty",
    "Context",
    "Decision",
    "Eligible",
    "HistoryImporter",
    "Learnt",
    "Ledger",
    "Pending",
    "Recommendation",
    "Recommendations",
    "Resequencer",
    "check_counts",
    "check_model",
    "contradictions",
    "decode_action",
    "decode_support",
    "eligible_actions",
    "encode_support",
    "explanatory_cell",
    "gather_evidence",
    "outcome_scale_caveats",
    "policy_record",
    "recommend",
    "restore_policy",
    "restrict_to_eligible",
    "scale_caveats",
    "validate_outcome",
]
