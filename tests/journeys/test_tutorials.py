"""The tutorials' results do not depend on their seeds, and the numbers in their text are those of their simulations."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs/tutorials"


def page(name: str) -> str:
    return (TUTORIALS / name).read_text(encoding="utf-8")


def code(name: str, containing: str) -> str:
    """The block of a page that has a text."""
    blocks = re.findall(r"^```python\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)
    (found,) = [block for block in blocks if containing in block]
    return str(found)


@pytest.mark.parametrize("seed", range(2, 8))
def test_the_first_campaign_finds_the_best_mail(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The best mail is clicked by 37.5%, the next by 20%: the agents of all 50 seeds that were tried found it."""
    monkeypatch.chdir(tmp_path)
    text, n = re.subn(r"(seed=|default_rng\()1\b", rf"\g<1>{seed}", code("first-causal-bandit.md", "def send"))
    assert n == 2
    exec(text, {})
    assert capsys.readouterr().out.startswith("Action: do(purpose=news, send_time=pm)\n")


def test_click_rates_in_the_text_of_the_first_tutorial_are_those_of_its_readers() -> None:
    assert 'p_short = 0.8 if action["purpose"] == "promo" else 0.1' in page("first-causal-bandit.md")
    assert '("short", "pm"): 0.15' in page("first-causal-bandit.md")
    assert '("long", "pm"): 0.40' in page("first-causal-bandit.md")
    assert f"0.1 · 0.15 + 0.9 · 0.40 = {0.1 * 0.15 + 0.9 * 0.4:.3f}" in page("first-causal-bandit.md")


def test_sale_rates_in_the_text_of_the_web_shop_are_those_of_its_visitors() -> None:
    text = " ".join(page("web-shop.md").split())
    rates = {
        (banner, delivery): p_viewed * p_sale + (1 - p_viewed) * 0.02
        for banner, p_viewed in (("loud", 0.6), ("plain", 0.3))
        for delivery, p_sale in (("free", 0.4), ("standard", 0.15))
    }
    assert '(banner === "loud" ? 0.6 : 0.3)' in text
    assert '(!viewed ? 0.02 : delivery === "free" ? 0.4 : 0.15)' in text
    assert f"{rates['loud', 'free']:.3f} for the loud banner with free delivery" in text
    assert f"{rates['plain', 'free']:.3f} for the plain banner with free delivery" in text
    assert f"{rates['loud', 'standard']:.3f} and {rates['plain', 'standard']:.3f} with standard delivery" in text


def test_the_quick_start_of_the_overview_finds_the_best_mail_for_other_seeds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (text,) = re.findall(
        r"^```python\n(import random.*?)^```",
        (TUTORIALS.parent / "index.md").read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    for seed in (2, 3, 4):
        other, n = re.subn(r"seed(=|\()1\)", rf"seed\g<1>{seed})", text)
        assert n == 2
        exec(other, {})
        assert capsys.readouterr().out.startswith("Action: do(purpose=news, send_time=pm)\n")
