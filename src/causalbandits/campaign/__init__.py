"""What an agent and a study share: decisions, validation of outcomes, recommendations, reports."""

from typing import TYPE_CHECKING

from causalbandits._lazy import lazy_exports

if TYPE_CHECKING:
    from causalbandits.campaign.advice import Advice, CampaignState
    from causalbandits.campaign.decision import (
        BATCH_LIMIT,
        Context,
        Decision,
        Eligible,
        eligible_actions,
        restrict_to_eligible,
    )
    from causalbandits.campaign.diagnostics import (
        CONTRADICTION_LEVEL,
        check_counts,
        check_model,
        contradictions,
        gather_evidence,
    )
    from causalbandits.campaign.history_import import ALREADY_LEARNED, HistoryImporter, Learnt, history_checksum
    from causalbandits.campaign.mean_estimate import NO_RARE_REWARDS
    from causalbandits.campaign.outcome_log import (
        Ledger,
        Pending,
        Resequencer,
        decode_action,
        decode_support,
        encode_support,
    )
    from causalbandits.campaign.past_rewards import (
        MIN_BELIEF,
        DoubtedPast,
        PastBatch,
        RewardComparison,
        doubted_batches,
        is_covered,
        resolve_trust,
    )
    from causalbandits.campaign.policy_records import policy_record, restore_policy
    from causalbandits.campaign.recommendation import Certainty, Diagnostics, Recommendation, Recommendations, recommend
    from causalbandits.campaign.report import write_report
    from causalbandits.campaign.reward_moments import (
        CellMoments,
        RewardMoments,
        explanatory_cell,
        scale_caveats,
        sum_cell_moments,
    )
    from causalbandits.campaign.skewed_rewards import WIDE_RANGE, UnseenValues
    from causalbandits.campaign.validation import (
        condition_on_context,
        infer_parents,
        missing_variables,
        observation_requirements,
        parse_seed,
        refuse_beyond_budget,
        validate_batch_size,
        validate_outcome,
        validate_parents_argument,
        validate_seed,
        warn_of_repetition,
    )
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "causalbandits.campaign.advice": ["Advice", "CampaignState"],
            "causalbandits.campaign.decision": [
                "BATCH_LIMIT",
                "Context",
                "Decision",
                "Eligible",
                "eligible_actions",
                "restrict_to_eligible",
            ],
            "causalbandits.campaign.diagnostics": [
                "CONTRADICTION_LEVEL",
                "check_counts",
                "check_model",
                "contradictions",
                "gather_evidence",
            ],
            "causalbandits.campaign.history_import": [
                "ALREADY_LEARNED",
                "HistoryImporter",
                "Learnt",
                "history_checksum",
            ],
            "causalbandits.campaign.mean_estimate": ["NO_RARE_REWARDS"],
            "causalbandits.campaign.outcome_log": [
                "Ledger",
                "Pending",
                "Resequencer",
                "decode_action",
                "decode_support",
                "encode_support",
            ],
            "causalbandits.campaign.past_rewards": [
                "MIN_BELIEF",
                "DoubtedPast",
                "PastBatch",
                "RewardComparison",
                "doubted_batches",
                "is_covered",
                "resolve_trust",
            ],
            "causalbandits.campaign.policy_records": ["policy_record", "restore_policy"],
            "causalbandits.campaign.recommendation": [
                "Certainty",
                "Diagnostics",
                "Recommendation",
                "Recommendations",
                "recommend",
            ],
            "causalbandits.campaign.report": ["write_report"],
            "causalbandits.campaign.reward_moments": [
                "CellMoments",
                "RewardMoments",
                "explanatory_cell",
                "scale_caveats",
                "sum_cell_moments",
            ],
            "causalbandits.campaign.skewed_rewards": ["WIDE_RANGE", "UnseenValues"],
            "causalbandits.campaign.validation": [
                "condition_on_context",
                "infer_parents",
                "missing_variables",
                "observation_requirements",
                "parse_seed",
                "refuse_beyond_budget",
                "validate_batch_size",
                "validate_outcome",
                "validate_parents_argument",
                "validate_seed",
                "warn_of_repetition",
            ],
        },
    )

__all__ = [
    "ALREADY_LEARNED",
    "BATCH_LIMIT",
    "CONTRADICTION_LEVEL",
    "MIN_BELIEF",
    "NO_RARE_REWARDS",
    "WIDE_RANGE",
    "Advice",
    "CampaignState",
    "CellMoments",
    "Certainty",
    "Context",
    "Decision",
    "Diagnostics",
    "DoubtedPast",
    "Eligible",
    "HistoryImporter",
    "Learnt",
    "Ledger",
    "PastBatch",
    "Pending",
    "Recommendation",
    "Recommendations",
    "Resequencer",
    "RewardComparison",
    "RewardMoments",
    "UnseenValues",
    "check_counts",
    "check_model",
    "condition_on_context",
    "contradictions",
    "decode_action",
    "decode_support",
    "doubted_batches",
    "eligible_actions",
    "encode_support",
    "explanatory_cell",
    "gather_evidence",
    "history_checksum",
    "infer_parents",
    "is_covered",
    "missing_variables",
    "observation_requirements",
    "parse_seed",
    "policy_record",
    "recommend",
    "refuse_beyond_budget",
    "resolve_trust",
    "restore_policy",
    "restrict_to_eligible",
    "scale_caveats",
    "sum_cell_moments",
    "validate_batch_size",
    "validate_outcome",
    "validate_parents_argument",
    "validate_seed",
    "warn_of_repetition",
    "write_report",
]
