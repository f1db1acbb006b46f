"""The package as a user meets it: its surface, its weight, its README and docs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import causalbandits as cb

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "docs/guide.md", "docs/data.md", "docs/policies.md", "docs/theory.md"]


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)


def test_all_is_the_public_surface_and_sorted_within_reason():
    assert sorted(set(cb.__all__)) == sorted(cb.__all__)
    assert all(hasattr(cb, name) for name in cb.__all__)
    modules = {p.stem for p in (ROOT / "src/causalbandits").iterdir()}
    public = {name for name in vars(cb) if not name.startswith("_")} - modules
    assert public | {"theory", "zoo"} == set(cb.__all__)


def test_importing_stays_light():
    heavy = ["numba", "matplotlib", "pandas", "scipy.optimize", "typer", "joblib", "rich", "pyarrow", "polars"]
    code = f"import sys, causalbandits; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("page", "number"), [(page, i) for page in PAGES for i in range(len(blocks(page)))])
def test_code_on_the_pages_runs_as_printed(page, number, tmp_path):
    (tmp_path / "page.py").write_text(blocks(page)[number], encoding="utf-8")
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_readme_opens_with_ten_lines_of_code_and_says_what_they_decide():
    code = blocks("README.md")[0]
    assert len([line for line in code.splitlines() if line.strip()]) == 10
    world: dict[str, object] = {}
    exec(code, world)
    assert f"# {world['decision'].intervention}" in code


def test_the_readme_names_commands_and_files_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make (\w+)", text, flags=re.MULTILINE)
    assert targets == ["demo", "test"]
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert len(links) >= 4
    assert all((ROOT / link).exists() for link in links)


def test_the_readme_lists_every_policy():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"`{id}`" in text for id in cb.policies.POLICIES)


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "make check\n" in script
    assert "make test\n" in script


def test_the_changelog_knows_this_version():
    assert f"## {cb.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f'version = "{cb.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_demo_runs_and_says_where_its_files_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = (ROOT / "examples/email_campaign.py").read_text(encoding="utf-8")
    shorter = code.replace("horizon=5000, replications=20", "horizon=100, replications=2")
    assert shorter != code
    exec(compile(shorter, "email_campaign.py", "exec"), {"__name__": "__main__"})
    out = capsys.readouterr().out
    for name in ("email_regret.png", "email_regret.csv", "email_agent.json"):
        assert f"results/{name}" in out
        assert (tmp_path / "results" / name).exists()
