"""The language of pages and printed texts: standard terms, short sentences, no clauses that stand in for nouns."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LANGUAGE = runpy.run_path(str(ROOT / "docs/language.py"))
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md"]
PAGES += sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))

TERMS = """
multi-armed bandit; delayed feedback; conversion; idempotency key; off-policy evaluation; best-arm identification;
back-door; POMIS; CPT; latency; API key; continuous variable; propensity; regret; simple regret; configuration;
intervention; context; attribution window; unobserved confounder; Thompson sampling
"""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_uses_standard_terms_and_short_sentences(page: str) -> None:
    language = LANGUAGE["measure_page"](ROOT / page)
    assert language.problems() == []


TEACHING = [
    page for page in PAGES if re.match(r"docs/(index|tutorials/|how-to/|explanation/|project/(faq|regret|arch))", page)
]


@pytest.mark.parametrize("page", TEACHING)
def test_a_page_begins_with_its_readers_and_their_prerequisites(page: str) -> None:
    opening = (ROOT / page).read_text(encoding="utf-8").split("\n## ")[0]
    assert re.search(r"\bfor\b", opening, re.IGNORECASE)
    assert re.search(r"\bneeds?\b|\bknowledge\b|\bprerequisite", opening, re.IGNORECASE)


def test_printed_texts_use_standard_terms() -> None:
    modules = sorted((ROOT / "src/causalbandits").rglob("*.py"))
    found = [LANGUAGE["measure"](path.name, LANGUAGE["program_texts"](path)) for path in modules]
    assert [(text.name, text.terms) for text in found if text.terms] == []
    words = sum(text.words for text in found)
    assert words > 20_000
    assert sum(text.clauses * text.words for text in found) / words < 1.0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("The agent keeps what is told. " * 20, "what"),
        ("A knob is set. " * 20, "manipulable variable"),
        (("word " * 40 + ". ") * 10, "longer than"),
    ],
)
def test_the_rules_notice_what_they_forbid(text: str, problem: str) -> None:
    (language,) = (LANGUAGE["measure"]("text", LANGUAGE["prose"](text)),)
    assert any(problem in found for found in language.problems())


def test_the_glossary_has_the_terms_that_people_search_for() -> None:
    glossary = (ROOT / "docs/reference/glossary.md").read_text(encoding="utf-8").lower()
    missing = [term for term in TERMS.replace("\n", " ").split(";") if term.strip().lower() not in glossary]
    assert missing == []


def test_pages_link_the_glossary() -> None:
    """At the first use of a term: at least every second page that teaches."""
    pages = [path for kind in ("tutorials", "how-to", "explanation") for path in (ROOT / "docs" / kind).rglob("*.md")]
    linked = [path for path in pages if "glossary.md" in path.read_text(encoding="utf-8")]
    assert len(linked) > len(pages) / 2
