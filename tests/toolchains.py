"""Tools of other languages, for clients of the service: those that are installed, and packages in a cache."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

NODE = shutil.which("node") if shutil.which("npm") else None
"""With npm; None where one of them is missing."""

GO, JAVA, CURL = shutil.which("go"), shutil.which("java"), shutil.which("curl")

PACKAGES = Path(__file__).parent / "service/clients/package.json"
GENERATOR = "openapi-generator-cli==7.26.0"
"""A generator of clients, in Java; its package has all that it needs but Java."""

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "causalbandits-tests"


def node_packages() -> Path:
    """A folder with `node_modules`: what `package.json` names, installed once on a machine."""
    content = PACKAGES.read_bytes()

    def install(folder: Path) -> None:
        (folder / "package.json").write_bytes(content)
        options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        _run(["npm", "install", *options], folder)

    return _cached(f"npm-{hashlib.sha256(content).hexdigest()[:16]}", install)


def generator_environment() -> dict[str, str]:
    """The variables with which a shell finds `openapi-generator-cli`."""

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), GENERATOR], folder)

    folder = _cached(GENERATOR.replace("==", "-"), install)
    return {**os.environ, "PYTHONPATH": str(folder), "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def pinned_packages() -> dict[str, str]:
    """Packages of npm, and their versions."""
    content = json.loads(PACKAGES.read_text(encoding="utf-8"))
    return {**content["dependencies"], **content["devDependencies"]}


def _cached(name: str, install: Callable[[Path], None]) -> Path:
    """A folder of the cache, which `install` fills; complete or not there, whoever else installs meanwhile."""
    folder = CACHE / name
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=CACHE))
        install(draft)
        try:
            draft.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(draft)
    return folder


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
