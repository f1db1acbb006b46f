"""What an agent and a study share: decisions, validation of outcomes, recommendations, reports."""

from causalbandits.campaign.decision import BATCH_LIMIT, Context, Decision
from causalbandits.campaign.diagnostics import DOUBT, checked_counts, checked_model, contradictions, evidence_of_told
from causalbandits.campaign.eligibility import Eligible, eligible_actions, narrowed
from causalbandits.campaign.history import Learnt, Past
from causalbandits.campaign.ledger import Ledger, Pending, action_at, support_of, support_record
from causalbandits.campaign.policy_record import policy_of, policy_record
from causalbandits.campaign.recommendation import (
    CellMoments,
    Certainty,
    Recommendation,
    Recommendations,
    caveats,
    explaining,
    recommended,
    scale_caveats,
)
from causalbandits.campaign.resequencer import InOrder
from causalbandits.campaign.validation import checked

__all__ = [
    "BATCH_LIMIT",
    "DOUBT",
    "CellMoments",
    "Certainty",
    "Context",
    "Decision",
    "Eligible",
    "InOrder",
    "Learnt",
    "Ledger",
    "Past",
    "Pending",
    "Recommendation",
    "Recommendations",
    "action_at",
    "caveats",
    "checked",
    "checked_counts",
    "checked_model",
    "contradictions",
    "eligible_actions",
    "evidence_of_told",
    "explaining",
    "narrowed",
    "policy_of",
    "policy_record",
    "recommended",
    "scale_caveats",
    "support_of",
    "support_record",
]
