"""The documentation says what the code does: policies, commands, public names, pictures, measured numbers."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import json
import re
import runpy
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import pytest
import typer
from typer.main import get_command

import causalbandits as cb
from causalbandits.cli import app
from causalbandits.paper.claims import CLAIMS
from causalbandits.policies.registry import IMMEDIATE_FEEDBACK, PAIRS_LIMIT
from causalbandits.service.openapi import build_document
from causalbandits.service.routes import ROUTES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ALGORITHMS = sorted((DOCS / "reference/algorithms").glob("*.md"))
HOOKS = runpy.run_path(str(DOCS / "hooks.py"))


class Colour(enum.StrEnum):
    RED = "red"


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def opening(page):
    """What a page says before its first section."""
    return text(page).split("\n## ")[0]


def section(page, heading):
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("family", cb.policies.FAMILIES)
def test_every_family_has_an_algorithm_page_that_names_it_and_its_class(family):
    pages = [page for page in ALGORITHMS if f"`{family}`" in opening(page)]
    assert len(pages) == 1
    assert f"`cb.policies.{cb.policies.FAMILIES[family].__name__}" in opening(pages[0])
    assert f"(algorithms/{pages[0].name})" in text("docs/reference/policies.md")


@pytest.mark.parametrize("page", ALGORITHMS, ids=lambda page: page.stem)
def test_an_algorithm_page_has_the_listing_the_use_the_parameters_and_the_regret(page):
    headings = re.findall(r"^## (.*)$", text(page), flags=re.MULTILINE)
    assert headings == ["The algorithm", "When to use it", "Parameters", "Regret"]
    assert "```text\n" in section(text(page), "The algorithm")


@pytest.mark.parametrize("page", ALGORITHMS, ids=lambda page: page.stem)
def test_an_algorithm_page_lists_every_parameter_or_refers_to_the_page_that_does(page):
    kinds = {kind for family, kind in cb.policies.FAMILIES.items() if f"`{family}`" in opening(page)}
    listed = section(text(page), "Parameters")
    for linked in re.findall(r"\]\((\S+\.md)#parameters\)", listed):
        listed += section(text(page.parent / linked), "Parameters")
    assert kinds
    missing = {field.name for kind in kinds for field in fields(kind) if f"`{field.name}`" not in listed}
    refusing = {kind for kind in kinds if not getattr(kind, "follows_changes", True)}
    assert not missing - ({"changes"} if refusing == kinds else set())


def test_an_algorithm_page_has_the_measured_regret_of_its_families():
    """From benchmarks/regret.json, so that a number stands there and on the page of the benchmark alone."""
    made = runpy.run_path(str(DOCS / "tables.py"))
    elsewhere = {"c-ts-structure": "structure.json"}
    assert {*made["ALGORITHMS"], *elsewhere} == {page.stem for page in ALGORITHMS}
    measured = set(json.loads(text("benchmarks/regret.json"))["sets"]["e-mail"])
    for page in ALGORITHMS:
        if page.stem in elsewhere:
            rows = [
                row for part in json.loads(text(f"benchmarks/{elsewhere[page.stem]}")).values() for row in part["rows"]
            ]
            assert rows
            assert all(f"| {row['mean']:.1f} ({row['standard_error']:.1f}) |" in text(page) for row in rows)
            continue
        families = {family for family in cb.policies.FAMILIES if f"`{family}`" in opening(page)}
        assert set(made["ALGORITHMS"][page.stem]) <= families
        shown = set(re.findall(r"^\| `([^`]*)` \|", text(page).partition("**Measured**")[2], flags=re.MULTILINE))
        of_families = {name for name in measured if re.split(r"[(,]", name)[0] in families}
        assert of_families <= shown
        assert of_families


def test_every_command_and_option_is_on_the_generated_page():
    page, program = HOOKS["command_line_page"](), get_command(app)
    commands = {"causalbandits": program, **dict(HOOKS["commands"](program, "causalbandits"))}
    assert {f"causalbandits {name}" for name in program.commands} <= set(commands)
    for path, command in commands.items():
        for parameter in command.params:
            if not parameter.hidden:
                is_option = hasattr(parameter, "is_flag")
                shown = [*parameter.opts, *parameter.secondary_opts] if is_option else [HOOKS["placeholder"](parameter)]
                assert all(name in section(page, path) for name in shown)
                # The oldest Typer loses the help of arguments with the newest Click.
                assert HOOKS["escaped"](parameter.help) in section(page, path)
                assert parameter.help or not is_option


def test_the_command_page_knows_groups_choices_defaults_and_what_is_hidden():
    toy, group = typer.Typer(), typer.Typer()

    @toy.command()
    def paint(
        what: Annotated[str, typer.Argument(help="A thing.")],
        seed: Annotated[int, typer.Option(help="Any | number <n>.")],
        colour: Annotated[Colour, typer.Option("--colour", "-c")] = Colour.RED,
        dry: Annotated[bool, typer.Option("--dry/--wet")] = False,
        secret: Annotated[int, typer.Option(hidden=True)] = 3,
    ) -> None:
        """Paint a thing.

        [bold]Examples[/bold]

          toy paint door

          toy paint wall
        """

    @group.command()
    def wash(times: int = 2) -> None:
        """Wash."""

    @toy.command(hidden=True)
    def unseen() -> None: ...

    toy.add_typer(group, name="brush")
    page = HOOKS["page_of"]("toy", get_command(toy))
    part = section(page, "toy paint")
    assert "toy paint [OPTIONS] WHAT" in part
    assert "| `--seed` | Any \\| number &lt;n>. | required |" in part
    assert "| `--colour, -c` |  | `red` |" in part
    assert "`--dry, --wet`" in part
    assert "```shell\ntoy paint door\ntoy paint wall\n```" in part
    assert "[bold]" not in page
    assert "secret" not in page
    assert "unseen" not in page
    assert "| `--times` |  | `2` |" in section(page, "toy brush wash")


def test_every_public_name_is_in_the_reference():
    described = set(
        re.findall(
            r"^::: causalbandits\.([\w.]+)$", "\n".join(map(text, DOCS.glob("reference/api/*.md"))), re.MULTILINE
        )
    )
    errors = {name for name in cb.__all__ if hasattr(cb.errors, name)}
    assert {"errors", "zoo", "testing"} <= described
    assert {f"rewards.{name}" for name in cb.rewards.__all__} <= described
    classes = {kind.__name__ for kind in cb.policies.FAMILIES.values()}
    assert {f"policies.{name}" for name in classes} <= described
    parts_of = {name.split(".")[0] for name in described}
    assert set(cb.__all__) - errors <= described | parts_of
    assert {f"theory.{name}" for name in cb.theory.__all__} - {"theory.Comparison", "theory.TheoryWarning"} <= described


def is_exported(name):
    """Whether a dotted name is a module, or is imported from a package's `__init__`, not from a file behind it.

    The files beside the packages, such as `rewards`, are not behind any.
    """
    package, _, last = name.rpartition(".")
    if importlib.util.find_spec(package) is None:
        return False
    door = importlib.import_module(package)
    is_package = hasattr(door, "__path__")
    is_module = importlib.util.find_spec(name) is not None if is_package else False
    return is_module or ((is_package or package.count(".") == 1) and hasattr(door, last))


def test_every_name_in_the_reference_is_a_module_or_is_exported_by_a_package():
    entries = re.findall(r"^::: (\S+)$", "\n".join(map(text, DOCS.glob("reference/api/*.md"))), re.MULTILINE)
    assert len(entries) > 100
    assert [name for name in entries if not is_exported(name)] == []
    assert not is_exported("causalbandits.campaign.recommendation.Certainty")
    assert not is_exported("causalbandits.campaign.NoSuchName")


@pytest.mark.parametrize("page", ["README.md", *sorted(DOCS.rglob("*.md"))], ids=str)
def test_every_name_that_a_page_takes_from_cb_is_there(page):
    """Also in prose, and in code that is not run: `cb.Agent`, `cb.policies.CausalUCB`."""
    for name in re.findall(r"\bcb((?:\.\w+)+)", text(page)):
        first, *rest = name.split(".")[1:]
        assert first in cb.__all__, name
        assert not rest or not isinstance(getattr(cb, first), type(cb)) or hasattr(getattr(cb, first), rest[0]), name


def test_pictures_are_what_the_script_draws_and_every_page_has_its_place():
    drawn = runpy.run_path(str(DOCS / "pictures.py"))["pictures"]()
    assert all(text(DOCS / "images" / name) == content for name, content in drawn.items())
    places = re.findall(r": ([\w/-]+\.md)", text("mkdocs.yml"))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | {
        *HOOKS["FILES"],
        *HOOKS["generated_pages"](),
    }
    assert sorted(places) == sorted(pages)


def test_the_site_fetches_nothing_when_it_is_read():
    assert "font: false" in text("mkdocs.yml")
    assert "://" not in text("mkdocs.yml")
    assert "://" not in text(DOCS / "stylesheets/site.css")


def test_formulas_become_mathml_and_code_keeps_its_dollars():
    pytest.importorskip("latex2mathml", reason="the tools for the documentation are not installed")

    class Page:
        parent, meta, file = object(), {}, SimpleNamespace(src_uri="explanation/stopping.md")

    source = "The gap $\\Delta_{max}$, `$HOME`.\n\n$$\\sum_z P(z | a)$$\n\n```shell\necho $A $B\n```\n"
    packed = HOOKS["on_page_markdown"](source, Page, None, None)
    assert "\\" not in packed
    html = HOOKS["on_page_content"](packed, Page, None, None)
    assert html.count("<math") == 2
    assert 'display="block"' in html
    assert "&#x00394;" in html  # Delta
    assert "`$HOME`" in html
    assert "echo $A $B" in html


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_every_row_of_a_table_has_as_many_cells_as_its_head(page):
    """A bare | in a cell would cut it."""
    for table in re.findall(r"(?:^\|.*\|\n)+", text(page), flags=re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", row))) for row in table.splitlines()}
        assert len(counts) == 1, table


def test_search_works_from_disk_without_fetching_anything():
    settings = text("mkdocs.yml")
    assert "  - offline\n" in settings
    assert "    - javascripts/iframe-worker.js" in settings  # else the plugin names a host of its own
    assert (DOCS / "javascripts/iframe-worker.js").exists()


TUTORIALS = ["first-causal-bandit", "csv-to-decisions", "web-shop", "compare-algorithms"]


def test_the_tutorials_are_linked_where_readers_begin_in_their_order():
    for page, folder in (("README.md", "docs/tutorials"), ("docs/index.md", "tutorials")):
        places = [text(page).index(f"({folder}/{name}.md)") for name in TUTORIALS]
        assert places == sorted(places)


def test_the_readme_has_at_most_150_lines():
    assert len(text("README.md").splitlines()) <= 150


def test_the_terms_of_the_glossary_are_sorted_and_links_to_them_lead_somewhere():
    terms = re.findall(r"^### (.*)$", text("docs/reference/glossary.md"), re.MULTILINE)
    assert terms == sorted(terms, key=str.casefold)
    anchors = {re.sub(r"[^\w]+", "-", re.sub(r"['/]", "", term).casefold()).strip("-") for term in terms}
    assert len(anchors) == len(terms) > 60
    for page in DOCS.rglob("*.md"):
        assert set(re.findall(r"glossary\.md#([\w-]+)", text(page))) <= anchors, page.name
    assert set(re.findall(r"\(#([\w-]+)\)", text("docs/reference/glossary.md"))) <= anchors


def test_docstrings_become_markdown_without_losing_signs():
    pytest.importorskip("griffe", reason="the tools for the documentation are not installed")
    convert = runpy.run_path(str(DOCS / "docstrings.py"))["as_markdown"]
    assert convert("Y = <theta, W>.") == "Y = &lt;theta, W>."
    assert convert("An example.\n\n>>> f(1)\n2\n\nMore.") == "An example.\n\n```pycon\n>>> f(1)\n2\n```\n\nMore."
    assert convert("Tree\n├── a\n└── b") == "```text\nTree\n├── a\n└── b\n```"


def test_the_page_of_the_reproduction_tells_the_verdicts_that_were_recorded():
    page, recorded = text("docs/project/reproduction.md"), json.loads(text("docs/data/claims-300.json"))
    assert recorded["about"]["replications"] == 300
    assert len(recorded["claims"]) == len(CLAIMS)
    for claim in recorded["claims"]:
        assert f"| {claim['claim']} | {claim['section']} | {claim['verdict']} |" in page
    assert {claim["claim"] for claim in recorded["claims"]} == {claim.text for claim in CLAIMS}


def test_the_layers_on_the_page_are_those_of_the_contracts():
    layers = runpy.run_path(str(DOCS / "layers.py"))
    assert text("docs/project/architecture.md") == layers["page"](), "python docs/layers.py"
    for layer in ("paper | testing", "results : theory", "model"):
        assert {sign for _, sign in layers["modules"](layer)} == {
            {"paper | testing": "|", "model": " "}.get(layer, ":")
        }
    drawn = layers["diagrams"]()
    rooms = {
        path.stem
        for path in (ROOT / "src/causalbandits").glob("*")
        if path.stem not in ("__init__", "__pycache__", "py")
    }
    assert all(re.search(rf"^{room} +[|:]? +\w", drawn, re.MULTILINE) for room in rooms)


@pytest.mark.parametrize(
    "page",
    ["README.md", "CONTRIBUTING.md", *(path.relative_to(ROOT).as_posix() for path in sorted(DOCS.rglob("*.md")))],
)
def test_the_files_that_a_page_names_are_there(page):
    for name in re.findall(r"(?<![\w/.-])[\w/]+\.py\b", text(page)):
        assert (ROOT / name).exists() or (ROOT / "src/causalbandits" / name).exists(), name


def test_the_tables_on_pages_are_those_that_were_measured():
    made = runpy.run_path(str(DOCS / "tables.py"))
    assert len(made["PAGES"]) == 10 + len(ALGORITHMS)
    for name in made["PAGES"]:
        assert text(f"docs/{name}") == made["page"](name), "python docs/tables.py"


def test_the_default_loses_no_more_than_the_page_of_regret_says():
    """The page names the exceptions; a test above holds its numbers to benchmarks/regret.json."""
    said = " ".join(text("docs/project/regret.md").split())
    sets = json.loads(text("benchmarks/regret.json"))["sets"]
    default, anytime = IMMEDIATE_FEEDBACK.id, f"{IMMEDIATE_FEEDBACK.id}, anytime"
    known, open_ = sets["e-mail"][default], sets["e-mail"][anytime]
    for own in (known, open_):
        assert f"{own['mean']:.1f} (standard error {own['standard_error']:.1f})" in said
    assert f"replications have {known['worst']:.0f} and {open_['worst']:.0f}" in said
    exceptions = {"rare prize": anytime, "means of any size": default}
    for name, id in exceptions.items():
        assert f"({sets[name]['told']['mean']:.0f} against {sets[name][id]['mean']:.0f})" in said
    for name, by in sets.items():
        for id in (default, anytime):
            own, told = by[id], by["told"]
            error = (own["standard_error"] ** 2 + told["standard_error"] ** 2) ** 0.5
            assert name in exceptions or own["mean"] <= 1.05 * told["mean"] + 2 * error, (name, id)
    assert "more than 2¹⁸ pairs of action and configuration" in said
    assert PAIRS_LIMIT == 2**18


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_front_pages_have_the_regret_of_the_benchmark(page):
    email = json.loads(text("benchmarks/regret.json"))["sets"]["e-mail"]
    graph, plain = (round(email[name]["mean"]) for name in ("c-ts(prior=beta)", "ts(prior=beta)"))
    said = " ".join(text(page).split())
    assert re.search(rf"about {graph} clicks.* Thompson sampling without it about {plain} \(\[regret benchmark\]", said)


def test_the_page_of_the_http_api_has_every_route_role_field_and_status():
    page, document = HOOKS["http_api_page"](), build_document(ROUTES)
    for route in ROUTES:
        part = page.split(f"\n### `{route.method} {route.path}` {{#{route.handler.__name__}}}\n")[1].split("\n### ")[0]
        assert f"Role: `{route.role}`." in part if route.role else "Role: no key." in part
        operation = document["paths"][route.path][route.method.lower()]
        assert all(f"`{status}`" in part for status in operation["responses"])
        assert all(f"| `{own['name']}` | {own['in']} |" in part for own in operation.get("parameters", []))
        body = operation.get("requestBody")
        assert ("Request, " in part) == (body is not None)
        if body is not None:
            name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            fields = document["components"]["schemas"][name]["properties"]
            assert fields
            assert all(f"| `{field}` |" in part for field in fields)
    schemas, told = document["components"]["schemas"], HOOKS["request_only"](document)
    assert all(name.endswith("Request") for name in told)
    for name in set(schemas) - told:
        schema, part = schemas[name], page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        assert all(f"| `{field}` |" in part for field in schema.get("properties", {})), name
    links = set(re.findall(r"\]\(#([\w-]+)\)", page))
    targets = {name.lower() for name in set(schemas) - told} | {route.handler.__name__ for route in ROUTES}
    assert links <= targets | {"errors"}
    assert len({route.handler.__name__ for route in ROUTES}) == len(ROUTES)


def test_types_of_fields_are_told_in_words():
    name = HOOKS["type_name"]
    assert name({"$ref": "#/components/schemas/AskRequest"}) == "[AskRequest](#askrequest)"
    assert name({"anyOf": [{"type": "string"}, {"type": "null"}]}) == "string or null"
    assert name({"type": "array", "items": {"type": "integer", "minimum": 1}}) == "list of integer (>= 1)"
    assert name({"type": "object", "additionalProperties": {"type": "number"}}) == "mapping to number"
    assert name({"enum": ["ready"]}) == '`"ready"`'


def test_the_page_of_environments_has_all_of_them_each_with_its_picture_and_source():
    page = HOOKS["environments_page"]()
    assert set(HOOKS["SOURCES"]) == set(cb.zoo.__all__)
    for name, env in HOOKS["environments"]().items():
        part = section(page, name)
        assert f"| actions | {env.problem.actions.size:,} |" in part
        assert f"(../images/zoo/{name}.svg)" in part
        assert f"| source | {HOOKS['SOURCES'][name][1]} |" in part
        assert all(f"`{variable}`" in part for variable in (*env.problem.manipulable, *env.problem.parents))
    assert b"</svg>" in HOOKS["environment_picture"](HOOKS["environments"]()["coins"])


def test_the_page_of_errors_has_every_class():
    page = text("docs/reference/errors.md")
    listed = set(re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE))
    classes = {
        name
        for name, kind in vars(cb.errors).items()
        if isinstance(kind, type) and issubclass(kind, (cb.CausalBanditsError, cb.CausalBanditsWarning))
    }
    assert listed == classes
