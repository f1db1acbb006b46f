"""Studies over HTTP: decisions and outcomes for backends in any language, and a dashboard."""

from causalbandits.service.app import Service
from causalbandits.service.auth import Keys
from causalbandits.service.server import serve

__all__ = ["Keys", "Service", "serve"]
