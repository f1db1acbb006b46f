"""A release: its artefacts are built without a network, complete, and work where nothing else of the repository is."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tarfile
import time
import urllib.request
import zipfile
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

import causalbandits as cb

pytest.importorskip("hatchling", reason="the build's backend is not installed")
requirements = pytest.importorskip("packaging.requirements")

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/causalbandits"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders of environments differ")


def build(kind: str, source: Path, to: Path) -> Path:
    """Build an artefact with the backend that is installed."""
    program = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(to)]
    subprocess.run(program, cwd=source, capture_output=True, check=True)
    (artefact,) = to.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return artefact


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("sdist", ROOT, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the source distribution, as the script of releases does."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and the dependencies of this environment, without the editable install."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel]
    subprocess.run(install, capture_output=True, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A folder that a .pth file names is a place to import from, and the .pth files in it are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder


def run(environment: Path, *words: str, folder: Path) -> str:
    """What a program of the environment prints, started in a folder with no setting of ours."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    program = [str(environment / "bin" / words[0]), *words[1:]]
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_every_file_of_the_package_and_the_mark_of_types(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("causalbandits/")}
    ours = {
        f"causalbandits/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".nbc", ".nbi")
    }
    assert packed == ours
    assert "causalbandits/py.typed" in packed


def test_the_metadata_has_the_version_the_extras_and_the_readme(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    (folder,) = tmp_path.glob("*.dist-info")
    found = PathDistribution(folder)
    assert found.metadata["Version"] == cb.__version__
    assert {"data", "dask", "service", "postgres"} <= set(found.metadata.get_all("Provides-Extra") or ())
    assert "# causalbandits" in str(found.metadata.get_payload() or found.metadata["Description"])
    for text in found.requires or ():
        requirement = requirements.Requirement(text)
        for extra in ("", "data", "dask", "service", "postgres"):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                assert requirement.url is None, text


def test_the_installed_wheel_runs_the_readme_and_the_command(environment: Path, tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(import causalbandits as cb\n\nproblem.*?)^```",
                         (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)  # fmt: skip
    (tmp_path / "quick_start.py").write_text(
        f"{code}\nprint(cb.__version__, cb.__file__)\nprint(cb.Agent(problem).ask().action.keys())\n", encoding="utf-8"
    )
    printed = run(environment, "python", "quick_start.py", folder=tmp_path)
    assert "Action: " in printed
    assert f"{cb.__version__} {environment}" in printed
    assert run(environment, "causalbandits", "--version", folder=tmp_path).strip() == cb.__version__
    schema = json.loads(run(environment, "causalbandits", "schema", folder=tmp_path))
    assert schema == json.loads((ROOT / "docs/problem.schema.json").read_text(encoding="utf-8"))


def dockerfile() -> dict[str, list[str]]:
    """The instructions of the Dockerfile's last stage, each with its lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for line in text.rpartition("\nFROM ")[2].splitlines()[1:]:
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_commands_of_the_container_serve_from_the_wheel_and_drain(environment: Path, tmp_path: Path) -> None:
    """ENTRYPOINT, CMD and HEALTHCHECK as they are written, but for the folder and the port."""
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    instructions, port, data = dockerfile(), free_port(), tmp_path / "data"
    data.mkdir()
    here = {"/data": str(data), "/data/keys.json": str(data / "keys.json"), "8000": str(port), "0.0.0.0": "127.0.0.1"}
    words = [here.get(word, word) for text in ("ENTRYPOINT", "CMD") for word in json.loads(instructions[text][0])]
    (check,) = re.findall(r"CMD (\[.*\])$", instructions["HEALTHCHECK"][0])
    probe = [word.replace(":8000", f":{port}") for word in json.loads(check)]
    make_key = ["causalbandits", "study", "keys", "make", str(data / "keys.json"), "admin", "--role", "admin"]
    assert run(environment, *make_key, folder=tmp_path).strip()
    settings = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    service = subprocess.Popen(
        [environment / "bin" / words[0], *words[1:]], cwd=tmp_path, env=settings, stderr=subprocess.PIPE, text=True
    )
    try:
        for _ in range(600):
            health = subprocess.run([environment / "bin" / probe[0], *probe[1:]], capture_output=True)
            if health.returncode == 0 or service.poll() is not None:
                break
            time.sleep(0.1)
        assert health.returncode == 0
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
            assert response.status == 200
    finally:
        service.send_signal(signal.SIGTERM)
        _, errors = service.communicate(timeout=30)
    assert service.returncode == 0, errors


def test_the_dockerfile_runs_as_another_user_than_root_and_keeps_studies_in_a_volume() -> None:
    instructions = dockerfile()
    assert instructions["USER"] == ["10001"]
    assert instructions["VOLUME"] == ["/data"]
    assert "[service,postgres]" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_page_on_containers_shows_the_command_and_the_properties_of_the_image() -> None:
    page, instructions = (ROOT / "docs/how-to/container.md").read_text(encoding="utf-8"), dockerfile()
    (command,) = re.findall(r"^    (serve /data .*)$", page, re.MULTILINE)
    assert command.split() == json.loads(instructions["CMD"][0])
    properties = dict(re.findall(r"^\| (\w+) \| (.*) \|$", page, re.MULTILINE))
    assert properties["user"].startswith(f"{instructions['USER'][0]},")
    assert properties["volume"].startswith(f"`{instructions['VOLUME'][0]}`,")
    assert properties["port"] == instructions["EXPOSE"][0]


@pytest.mark.skipif(shutil.which("hadolint") is None and not Path(sys.executable).with_name("hadolint").exists(),
                    reason="hadolint is not installed")  # fmt: skip
def test_the_dockerfile_passes_hadolint() -> None:
    beside = Path(sys.executable).with_name("hadolint")
    program = str(beside) if beside.exists() else "hadolint"
    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_version_and_date_agree_in_all_files() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {cb.__version__}\n" in citation
    (released,) = re.findall(r'^date-released: "([\d-]+)"$', citation, re.MULTILINE)
    assert f"\n## {cb.__version__} ({released})\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"version = {{{cb.__version__}}}" in cb.citation()


def test_no_page_prints_an_install_command_that_needs_an_index() -> None:
    """Until an index has it, `pip install causalbandits` cannot work."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Dockerfile", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for command in re.findall(r"pip install [^\n`]*", page.read_text(encoding="utf-8")):
            assert not re.search(r"(?<![/\w-])'?\"?causalbandits(?![\w./-])", command), (page.name, command)
