"""The package as a user meets it: its surface, its weight, its README and docs."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import inspect
import json
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

import causalbandits as cb

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/causalbandits"
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def blocks(page):
    """The code on a page, except for what is fenced as `python no-run`."""
    return re.findall(
        r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


SAME = doctest.OutputChecker()


def outputs(page):
    """The blocks of code under which a page shows what they print, and that; "..." stands for anything."""
    fences = r"^```python\n((?:(?!^```).)*?)^```\n\n```output\n(.*?)^```"
    return re.findall(fences, (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize(
    "page",
    [
        "docs/index.md",
        "docs/how-to/campaign.md",
        *(f"docs/tutorials/{name}.md" for name in ("first-causal-bandit", "csv-to-decisions", "compare-algorithms")),
    ],
)
def test_the_pages_that_teach_show_what_their_code_prints(page):
    """All of it; that it is so, the next tests see."""
    assert [code for code, _ in outputs(page)] == blocks(page)


def test_every_output_stands_under_its_code():
    for page in PAGES:
        assert (ROOT / page).read_text(encoding="utf-8").count("```output") == len(outputs(page)), page


def test_every_fence_of_python_is_one_that_is_run_or_says_that_it_is_not():
    for page in PAGES:
        fences = re.findall(r"^.*```.*py.*$", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert set(fences) <= {"```python", "```python no-run"}, page


SURFACE = """
Agent Study connect simulate
Problem CausalModel CausalGraph LatentModel Variable Intervention Budget
fit check read write
describe forecast design
Environment BlackBoxEnvironment ChangingEnvironment Run
Policy policy default_policy
Decision Recommendation
citation
CausalBanditsError CausalBanditsWarning
policies rewards zoo theory errors testing
"""


def test_the_surface_is_these_names_and_no_others():
    """Everything else is imported from its package."""
    assert sorted(cb.__all__) == sorted(SURFACE.split())
    assert all(hasattr(cb, name) for name in cb.__all__)
    modules = {p.stem for p in (ROOT / "src/causalbandits").iterdir()}
    helpers = {"TYPE_CHECKING", "lazy_exports"}
    public = {name for name in dir(cb) if not name.startswith("_")} - modules - helpers
    assert public == set(cb.__all__) - modules


def test_the_keyword_for_the_values_of_variables_is_values():
    objects = {name: getattr(cb, name) for name in cb.__all__}
    classes = {name: entry for name, entry in objects.items() if isinstance(entry, type)}
    methods = {
        f"{name}.{attribute}": getattr(entry, attribute)
        for name, entry in classes.items()
        for attribute in (*(attribute for attribute in dir(entry) if not attribute.startswith("_")), "__init__")
    }
    functions = {
        name: entry
        for name, entry in (objects | methods).items()
        if inspect.isfunction(entry) or inspect.ismethod(entry)
    }
    assert {"fit", "CausalGraph.__init__", "CausalGraph.with_values", "Variable.__init__"} <= {
        name for name, function in functions.items() if "values" in inspect.signature(function).parameters
    }
    assert not [name for name, function in functions.items() if "states" in inspect.signature(function).parameters]


def test_modules_of_the_surface_need_no_import_of_their_own():
    code = (
        "import causalbandits as cb\n"
        "print(cb.errors.ScaleWarning, cb.testing.CHECKS, cb.policies.CausalUCB(), cb.rewards.BernoulliReward, "
        "cb.theory.bound, cb.zoo.email_campaign())"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)


@pytest.mark.parametrize(
    "name",
    [
        "errors.ScaleWarning",
        "model.DirichletPosterior",
        "policies.CausalThompsonSampling",
        "problem.ActionSpace",
        "problem.Scores",
        "rewards.BernoulliReward",
        "rewards.Reward",
    ],
)
def test_what_is_not_at_the_top_is_in_its_package(name):
    package, last = name.split(".")
    assert hasattr(importlib.import_module(f"causalbandits.{package}"), last)
    assert not hasattr(cb, last)


def test_rewards_are_those_of_environments():
    own = importlib.import_module("causalbandits.environments")
    assert {name: getattr(own, name) for name in cb.rewards.__all__} == {
        name: getattr(cb.rewards, name) for name in cb.rewards.__all__
    }
    rewards = {name for name in own.__all__ if name.endswith("Reward")}
    assert set(cb.rewards.__all__) == rewards


@pytest.mark.parametrize("module", ["zoo", "theory", "policies", "environments"])
def test_dir_of_a_public_module_shows_what_is_public_and_no_import(module):
    public = getattr(cb, module)
    assert set(public.__all__) <= set(dir(public))
    assert not {"np", "npt", "Any", "annotations", "warnings"} & set(dir(public))
    assert not [name for name in dir(public) if isinstance(getattr(public, name), types.ModuleType) and name != "zoo"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a repository")
def test_no_source_is_ignored():
    """What git ignores is missing from clones, and from what the build packs."""
    sources = [path.relative_to(ROOT) for path in (ROOT / "src").rglob("*.py")]
    done = subprocess.run(["git", "-C", ROOT, "check-ignore", "--no-index", *sources], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a repository")
def test_the_source_distribution_has_all_that_the_repository_has():
    """So that its tests find what they read."""
    done = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    always = {".gitignore", "LICENSE", "README.md", "pyproject.toml"}
    assert {path.split("/")[0] for path in done.stdout.splitlines()} == {*packed, *always}


def test_importing_every_name_stays_light():
    heavy = ["numba", "matplotlib", "pandas", "scipy.optimize", "typer", "joblib", "rich", "pyarrow", "polars"]
    code = f"import sys; from causalbandits import *; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FORKS = """
import json, os, runpy, sys
from causalbandits import *
for line in sys.stdin:
    folder, names = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for number, name in enumerate(("/dev/null", "printed", "errors")):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT), number)
        for name in names:
            runpy.run_path(name, run_name="__main__")
            print("-- end of", name)
        sys.exit()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def forks():
    """A process that has imported the library, which takes longer than most pages, and forks one for each page."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.stdin.close()


def run_blocks(codes, folder, forks):
    """What each block prints, each as a program of its own, but one process for a page."""
    names = [f"block_{i}.py" for i in range(len(codes))]
    for name, code in zip(names, codes, strict=True):
        (folder / name).write_text(code, encoding="utf-8")
    for file in (ROOT / "docs/tutorials/data").glob("*.csv"):
        shutil.copy(file, folder)
    forks.stdin.write(json.dumps([str(folder), names]).encode() + b"\n")
    forks.stdin.flush()
    status = int(forks.stdout.readline())
    assert status == 0, (folder / "errors").read_text(encoding="utf-8")
    *printed, rest = re.split(r"-- end of block_\d+\.py\n", (folder / "printed").read_text(encoding="utf-8"))
    assert len(printed) == len(names)
    assert not rest
    return printed


SEED = re.compile(r"(\bseed=|\brng=|default_rng\()(\d+)")


def with_another_seed(code):
    """The same code with each seed that it names raised by 100."""
    return SEED.sub(lambda found: f"{found[1]}{int(found[2]) + 100}", code)


@pytest.mark.parametrize("page", [page for page in PAGES if SEED.search("".join(blocks(page)))])
def test_code_on_the_pages_runs_with_another_seed(page, tmp_path, forks):
    codes = [with_another_seed(code) for code in blocks(page)]
    assert codes != blocks(page)
    run_blocks(codes, tmp_path, forks)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_code_on_the_pages_runs_as_printed_and_prints(page, tmp_path, forks):
    printed = run_blocks(blocks(page), tmp_path, forks)
    assert all(printed)
    for code, shown in outputs(page):
        found = printed[blocks(page).index(code)]
        assert SAME.check_output(shown, found, doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS), found


def test_the_readme_opens_with_ten_lines_of_code_and_says_what_they_decide():
    code = blocks("README.md")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    world: dict[str, object] = {}
    exec(code, world)
    assert f"# {world['decision'].action}" in code


def test_the_readme_names_commands_and_files_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^    make (\w+)", text, flags=re.MULTILINE)
    assert targets == ["reproduce", "test"]
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert len(links) >= 4
    assert all((ROOT / link).exists() for link in links)


def test_ci_runs_the_readmes_test_command():
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "make check\n" in script
    assert "make docs\n" in script
    assert "make test\n" in script


def test_the_changelog_knows_this_version():
    assert f"## {cb.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f'version = "{cb.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_example_of_a_policy_is_on_its_page_and_has_twenty_lines():
    code = (ROOT / "examples/own_policy.py").read_text(encoding="utf-8")
    policy = code[code.index("@dataclass") : code.index("\n\n\ndef random_campaign")]
    assert len(policy.splitlines()) <= 20
    assert policy in (ROOT / "docs/how-to/write-a-policy.md").read_text(encoding="utf-8")


def test_the_measurement_of_costs_runs(capsys):
    example = runpy.run_path(str(ROOT / "benchmarks/costs.py"))
    example["main"].__globals__.update(HORIZON=100, BUDGETS=(5,))
    example["main"](replications=2)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in printed if "(" in line][1:] == [
        "c-ts(prior=beta)",
        "c-ts(scales=given)",
        "c-ts(scales=given), told reward less cost",
        "c-ts(prior=beta) that ignores costs",
        "ts(prior=beta)",
        "c-ts(prior=beta), paced",
        "c-ts(prior=beta), until the money is gone",
        "ts(prior=beta), paced",
        "c-ts(prior=beta), told the segment",
        "c-ts(prior=beta) that does not look",
        "ts(prior=beta), told the segment",
    ]


def test_the_measurement_of_segments_runs(capsys):
    example = runpy.run_path(str(ROOT / "benchmarks/segments.py"))
    example["main"].__globals__.update(HORIZON=100, SCALES=(0.1,))
    example["main"](replications=2)
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in printed if "share" in line] == [
        "share of the best lin-ts",
        "share of the best lin-ucb",
    ] * 3


@pytest.mark.parametrize("seed", range(0, 200, 10))
def test_the_readmes_code_runs_for_any_seed(seed: int) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    assert code.group(1).count("seed=8") == 1
    exec(code.group(1).replace("seed=8", f"seed={seed}"), {})


def test_completion_lists_what_is_for_users(tmp_path: Path) -> None:
    """A problem shows about 20 public attributes, a study about 30; each exists and has a docstring or a value."""
    problem = cb.zoo.email_campaign().problem
    with cb.Study.create(tmp_path / "study.db", problem, seed=0) as study:
        for thing, most in ((problem, 25), (study, 38)):
            listed = [name for name in dir(thing) if not name.startswith("_")]
            assert 15 < len(listed) <= most
            assert all(hasattr(thing, name) for name in listed)
    for text in ("c-ts", "c-gittins(prior=main-effects)", "cl-ucb", "uniform", "auto"):
        policy = cb.policy(text)
        listed = {name for name in dir(policy) if not name.startswith("_")}
        options = {field.name for field in dataclasses.fields(policy)}
        assert {"id", "label", "score", "update", *options} <= listed
        assert len(listed - options) <= 17
        assert all(hasattr(policy, name) for name in listed)
    page = (ROOT / "docs/reference/api/problem.md").read_text(encoding="utf-8")
    assert [name for name in dir(problem) if not name.startswith("_") and name not in page] == []
