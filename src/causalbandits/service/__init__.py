"""The HTTP service: studies for backends in any language, with keys, metrics, and a dashboard."""

from causalbandits.service.app import Service
from causalbandits.service.auth import Keys
from causalbandits.service.server import serve

__all__ = ["Keys", "Service", "serve"]
