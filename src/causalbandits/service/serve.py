"""Start and stop a service."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

import uvicorn

from causalbandits._files import checked_path
from causalbandits.errors import StateError
from causalbandits.service.app import Service
from causalbandits.service.keys import Keys
from causalbandits.study import Study

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def service_of(files: Iterable[str | os.PathLike[str]], keys: str | os.PathLike[str] | None = None) -> Service:
    """A service of the studies in some files, each by its file's name."""
    paths = [checked_path(file, "campaign.db") for file in files]
    names = [path.stem for path in paths]
    if not paths or len(set(names)) < len(names):
        raise StateError(f"Name one study or several, whose files have different names; got {names}.")
    kept = Keys(checked_path(keys, "keys.json") if keys is not None else keys_beside(paths[0]))
    return Service({path.stem: Study.open(path) for path in paths}, kept)


def keys_beside(path: Path) -> Path:
    """Where the keys of a study are kept, unless another file is named."""
    return path.with_name("keys.json")


class ServerThatEnds(uvicorn.Server):
    """Pages that are looked at hold a connection each, for ever: they are told when the service is to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.is_closing = True
        super().handle_exit(sig, frame)


def serve(
    files: Iterable[str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: str | os.PathLike[str] | None = None,
) -> None:
    """Serve studies until interrupted; finish what waits, then stop."""
    service = service_of(files, keys)
    if not len(service.keys) and host not in LOOPBACK:
        service.close()
        raise StateError(
            f"Without a key, a service listens on this machine alone (127.0.0.1), not on {host}. Make a key: "
            "causalbandits study keys make NAME --role writer."
        )
    try:
        config = uvicorn.Config(service, host=host, port=port, log_level="warning", access_log=False)
        ServerThatEnds(config, service).run()
    except KeyboardInterrupt:
        pass  # how a service is stopped; what waited has been answered
    finally:
        service.close()
