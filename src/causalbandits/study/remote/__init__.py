"""A study over HTTP: the client, its transport and the wire format."""

from causalbandits.study.remote.client import RemoteStudy, connect
from causalbandits.study.remote.wire import evidence_record, recommendation_record, recommendations_record

__all__ = ["RemoteStudy", "connect", "evidence_record", "recommendation_record", "recommendations_record"]
