"""Start and stop a service."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import uvicorn

from causalbandits._files import checked_path
from causalbandits.errors import StateError
from causalbandits.service.app import Service
from causalbandits.service.heads import reading
from causalbandits.service.keys import Keys
from causalbandits.service.made import check_served_name
from causalbandits.service.pages import prepare
from causalbandits.service.server import ServerThatEnds
from causalbandits.study import Study
from causalbandits.study.places import keys_beside, name_of

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def service_of(
    files: Iterable[str | os.PathLike[str]],
    keys: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
) -> Service:
    """A service of the studies in some files (or databases), each by its name; and of those in a directory."""
    folder = None if directory is None else checked_path(directory, "studies")
    if folder is not None and not folder.is_dir():
        raise StateError(f"{folder} is no directory. Make it first: studies that are made over HTTP are put there.")
    places: list[str | os.PathLike[str]] = [*files, *([] if folder is None else sorted(folder.glob("*.db")))]
    names = [name_of(where) for where in places]
    if (not places and folder is None) or len(set(names)) < len(names):
        raise StateError(f"Name one study or several, whose files have different names; got {names}.")
    for name in names:
        check_served_name(name)
    beside = keys_beside(places[0]) if folder is None else folder / "keys.json"
    kept = Keys(checked_path(keys, "keys.json") if keys is not None else beside)
    _refuse_no_key(kept, is_named=keys is not None)
    return Service({name: Study.open(where) for name, where in zip(names, places, strict=True)}, kept, folder)


def _refuse_no_key(keys: Keys, *, is_named: bool) -> None:
    """Who has a file of keys wants them asked for: a mistyped name, or the last one revoked, must not open all."""
    if len(keys) or not (is_named or keys.path.exists()):
        return
    found = "has no key any more" if keys.path.exists() else "is not there"
    raise StateError(
        f"{keys.path}, the file of keys, {found}, and everybody could do everything. Make a key: "
        f"causalbandits study keys make {keys.path} NAME --role admin; or serve without keys, on this machine alone: "
        + ("leave --keys out." if not keys.path.exists() else "remove the file.")
    )


def serve(
    files: Iterable[str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    keys: str | os.PathLike[str] | None = None,
    directory: str | os.PathLike[str] | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve studies until interrupted; finish what waits, then stop. `ready` is called once all studies are open."""
    service = service_of(files, keys, directory)
    if not len(service.keys) and host not in LOOPBACK:
        service.close()
        raise StateError(
            f"Without a key, a service listens on this machine alone (127.0.0.1), not on {host}. Make a key: "
            f"causalbandits study keys make {service.keys.path} NAME --role writer."
        )
    prepare()
    ready()
    try:
        config = uvicorn.Config(
            service, host=host, port=port, http=reading(), ws="none", log_level="warning", access_log=False
        )
        ServerThatEnds(config, service).run()
    except KeyboardInterrupt:
        pass  # how a service is stopped; what waited has been answered
    finally:
        service.close()
