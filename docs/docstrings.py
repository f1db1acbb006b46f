"""Docstrings as Markdown, for the reference: examples and drawings become code, signs stay signs."""

from __future__ import annotations

import re
from typing import Any

import griffe


class DocstringsAsMarkdown(griffe.Extension):
    """Rewrites every docstring that Griffe finds."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """Paragraph by paragraph; sections in Google style (Args, Returns, ...) stay as Griffe reads them."""
    return "\n\n".join(_paragraph(part) for part in docstring.split("\n\n"))


def _paragraph(text: str) -> str:
    if text.lstrip().startswith(">>>"):
        return f"```pycon\n{text}\n```"
    if "├" in text:
        return f"```text\n{text}\n```"
    if text.startswith("    "):
        return text
    # <theta, W> is no HTML, and neither is P(z | a).
    return re.sub(r"<(?=\w)", "&lt;", text)
