"""Studies over HTTP: decisions and outcomes for backends in any language, and pages to look at."""

from causalbandits.service.app import Service
from causalbandits.service.serve import serve

__all__ = ["Service", "serve"]
