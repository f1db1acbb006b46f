"""A study over HTTP: the client, its transport and the wire format."""

from causalbandits.study.remote.client import RemoteStudy, connect
from causalbandits.study.remote.wire import (
    ERRORS_BY_PROBLEM_TYPE,
    OPERATION,
    PROBLEM_TYPE_PREFIX,
    encode_action_table,
    encode_changes,
    encode_evidence,
    encode_recommendation,
    encode_recommendations,
    encode_structure,
    without_python,
)

__all__ = [
    "ERRORS_BY_PROBLEM_TYPE",
    "OPERATION",
    "PROBLEM_TYPE_PREFIX",
    "RemoteStudy",
    "connect",
    "encode_action_table",
    "encode_changes",
    "encode_evidence",
    "encode_recommendation",
    "encode_recommendations",
    "encode_structure",
    "without_python",
]
