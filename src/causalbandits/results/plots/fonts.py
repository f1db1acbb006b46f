"""Names in any script in pictures: in a font that has their letters, or transliterated distinguishably."""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONTS = (
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans CJK TC", "Noto Sans CJK KR", "Source Han Sans", "PingFang SC",
    "Hiragino Sans", "Apple SD Gothic Neo", "Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei", "IPAGothic", "Droid Sans Fallback", "Arial Unicode MS", "Noto Sans", "Noto Sans Arabic",
    "Noto Sans Devanagari", "Noto Sans Hebrew", "Noto Sans Thai", "Noto Emoji", "Segoe UI Symbol", "Symbola",
)  # fmt: skip
"""Font families that are tried, if installed, for letters that the default font lacks."""


def set_fonts(figure: Figure) -> None:
    """Set all texts of a figure in fonts that have their letters."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if not text.get_text().isascii():
            text.set_text(spell_missing_glyphs(text.get_text()))
            text.set_fontfamily([*text.get_fontfamily(), *_installed_fonts()])


def spell_missing_glyphs(text: str) -> str:
    """The text, in which a letter without an installed font is replaced: a symbol by its name, others by their number.

    >>> spell_missing_glyphs("naïve \N{GREEK SMALL LETTER EPSILON}"), spell_missing_glyphs("\U0010fffd")
    ('naïve ε', 'U+10FFFD')
    """
    if text.isascii():
        return text
    return "".join(map(_spell_sign, text))


def text_width(text: str) -> int:
    """The width of a text in letters of normal width."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in spell_missing_glyphs(text))


def _spell_sign(sign: str) -> str:
    if sign.isascii() or sign.isspace() or any(font.get_char_index(ord(sign)) for font in _fonts()):
        return sign
    kind = unicodedata.category(sign)
    if kind in ("Mn", "Cf"):  # combining or colouring mark of the previous letter
        return ""
    return f"[{unicodedata.name(sign, '').lower()}]" if kind.startswith("S") else f"U+{ord(sign):04X}"


@cache
def _installed_fonts() -> tuple[str, ...]:
    from matplotlib.font_manager import fontManager

    available = {font.name for font in fontManager.ttflist}
    return tuple(name for name in FONTS if name in available)


@cache
def _fonts() -> tuple[Any, ...]:
    """The fonts, the default one first."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, findfont, get_font

    return tuple(
        get_font(findfont(FontProperties(family=[name]))) for name in (*rcParams["font.family"], *_installed_fonts())
    )
