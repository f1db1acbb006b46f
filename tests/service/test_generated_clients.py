"""Clients that are generated from the OpenAPI document compile, refuse wrong fields, and work against the service."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.service.test_backends_page import ADDRESS, block
from tests.service.test_service import Served

import causalbandits as cb
import toolchains
from causalbandits.service.server import build_service

CLIENTS = Path(__file__).parent / "clients"
TYPESCRIPT = "TypeScript, with a generated client"
SPECIFICATION = {
    "graph": "banner -> viewed -> sale; delivery -> sale",
    "reward": "sale",
    "manipulable": {"banner": ["plain", "loud"], "delivery": ["standard", "free"]},
    "values": {"viewed": ["no", "yes"]},
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "studies").mkdir()
    cb.Study.create(tmp_path / "studies" / "mail.db", cb.zoo.email_campaign().problem, seed=1).close()
    running = Served(build_service([], directory=tmp_path / "studies"))
    yield running
    running.stop()


def run(folder: Path, served: Served, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables, "SERVICE": f"http://127.0.0.1:{served.port}"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.skipif(toolchains.NODE is None, reason="node and npm are not installed")
def test_a_typescript_client_compiles_refuses_wrong_fields_and_works(served: Served, tmp_path: Path) -> None:
    """The program of the page for backends, one that uses more of the interface, and one that is wrong in each line."""
    install, install_tools, generate = block(TYPESCRIPT, "bash").splitlines()
    assert dict(re.findall(r"(\S+)@(\S+)", f"{install} {install_tools}")) == toolchains.pinned_packages()
    (tmp_path / "node_modules").symlink_to(toolchains.node_packages() / "node_modules")
    for file in (toolchains.PACKAGES, CLIENTS / "client.ts", CLIENTS / "wrong.ts"):
        shutil.copy(file, tmp_path)
    (tmp_path / "view.ts").write_text(block(TYPESCRIPT, "ts"), encoding="utf-8")
    generated = run(tmp_path, served, "bash", "-c", generate.replace(ADDRESS, f"http://127.0.0.1:{served.port}"))
    assert generated.returncode == 0, generated.stderr
    options = ["--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext"]
    compiled = run(tmp_path, served, "node_modules/.bin/tsc", *options, "client.ts", "view.ts", "wrong.ts")
    found = re.findall(r"^(\S+\.ts)\((\d+),\d+\): error TS(\d+)", compiled.stdout, re.MULTILINE)
    lines = (CLIENTS / "wrong.ts").read_text(encoding="utf-8").splitlines()
    marked = [
        ("wrong.ts", str(number), match[1])
        for number, line in enumerate(lines, 1)
        if (match := re.search(r"// error (\d+)$", line))
    ]
    assert found == marked, compiled.stdout
    assert len(marked) == 14
    done = run(tmp_path, served, "node", "client.js")
    assert done.stdout == "done\n", done.stderr
    done = run(tmp_path, served, "node", "view.js")
    decision, status, refusal = done.stdout.splitlines()
    assert re.fullmatch(r"show (plain|loud) (standard|free)", decision)
    assert (status, refusal) == ("applied", "/problems/unknown-variable /eligible/0/banner")


@pytest.mark.skipif(toolchains.GO is None or toolchains.JAVA is None, reason="go and java are not installed")
def test_a_go_client_compiles_with_the_standard_library_and_works(served: Served, tmp_path: Path) -> None:
    install, generate = block("Go", "bash").replace("\\\n", "").splitlines()
    assert install == f"pip install {toolchains.GENERATOR}"
    command = generate.replace(ADDRESS, f"http://127.0.0.1:{served.port}")
    generated = run(tmp_path, served, "bash", "-c", command, **toolchains.generator_environment())
    assert generated.returncode == 0, generated.stdout + generated.stderr
    shutil.copy(CLIENTS / "generated.go", tmp_path / "main.go")
    (tmp_path / "go.mod").write_text("module shop\n\ngo 1.19\n")
    (tmp_path / "shop.json").write_text(json.dumps(SPECIFICATION))
    done = run(tmp_path, served, "go", "run", ".", GOPROXY="off", GOFLAGS="-mod=mod", GOTOOLCHAIN="local")
    assert done.stdout == "done\n", done.stderr
