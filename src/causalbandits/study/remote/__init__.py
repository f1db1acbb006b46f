"""A study over HTTP: the client, its transport and the wire format."""

from causalbandits.study.remote.client import RemoteStudy, connect
from causalbandits.study.remote.wire import encode_evidence, encode_recommendation, encode_recommendations

__all__ = ["RemoteStudy", "connect", "encode_evidence", "encode_recommendation", "encode_recommendations"]
