"""Checks of the language of the pages, and of the texts that the program prints. python docs/language.py [page ...]

Prints, for each page, how many words it has, how often a clause is headed by "what" or "who" in 1,000 words, how many
percent of its sentences are longer than 35 words, and each word that has a standard term in its place. With --program,
the same for the printed texts in src/causalbandits: string literals, the help texts of commands, and templates.
"""

from __future__ import annotations

import ast
import html
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent

MAX_CLAUSES = 3.0
"""Clauses headed by "what", "who" or "whoever" per 1,000 words."""

LONG_SENTENCE, MAX_LONG = 35, 0.05
"""Words of a long sentence, and the largest share of long sentences."""

STANDARD_TERMS = {
    r"knobs?": "manipulable variable",
    r"learnt": "learned",
    r"hidden causes?": "unobserved confounder",
    r"tied together": "confounded",
    r"left alone": "not intervened on",
    r"mend(?:s|ed|ing)?": "repair",
    r"tables? (?:is|are) (?:known|right|wrong|given|learned)": "CPT",
    r"(?<!markov )pillows?": "Markov pillow, defined at first use",
    r"(?:un)?seal(?:s|ed)?": "checksum",
    r"fold(?:s|ed|ing)? (?:the log|again)": "replay the event log",
    r"hangs? on": "depends on",
    r"whoever|for one who|one who|those who": "name the person: you, the caller, an engineer",
    r"be it": "for example",
    r"comes? of it|came of it": "the outcome",
    r"so many (?:outcomes|rounds|decisions|rows|seconds|actions)": "give the number, or: the given number of",
    r"all the same": "nevertheless",
    r"as it comes": "unchanged",
    r"by heart|now and then": "periodically",
    r"taste of": "example of",
    r"dear(?:er|est)?": "expensive",
    r"silences?": "missing outcome",
    r"worlds?": "environment, problem instance",
    r"a coin's flip|flips of a coin": "Bernoulli binarisation",
    r"without end": "unbounded",
    r"beforehand": "a priori, in advance",
    r"thereof|whereof|therein": "of it",
    r"what is told|is told|are told|was told": "is reported",
}
"""Words of this project alone or of old English, as patterns, and the term to write."""

WORLDS_ALLOWED = ("real-world", "real world", "hello world", "world wide web")


class Language(NamedTuple):
    """Counts of one text."""

    name: str
    words: int
    clauses: float
    """Headed by "what", "who" or "whoever", per 1,000 words."""
    long_sentences: float
    """Share of the sentences."""
    terms: tuple[str, ...]
    """Words with a standard term in their place."""

    def __str__(self) -> str:
        text = f"{self.name}: {self.words} words, what/who {self.clauses:.1f}, long {self.long_sentences:.0%}"
        return text + (f"; {', '.join(self.terms)}" if self.terms else "")

    def problems(self) -> list[str]:
        """The rules that the text breaks. One clause and one long sentence are allowed on a short page."""
        found = [f"write {replacement}" for replacement in self.terms]
        if self.clauses > MAX_CLAUSES and self.clauses * self.words / 1000 > 1.5:
            found.append(f"{self.clauses:.1f} clauses headed by what or who in 1,000 words; at most {MAX_CLAUSES}")
        if self.long_sentences > MAX_LONG and self.words > 200:
            found.append(f"{self.long_sentences:.0%} of the sentences are longer than {LONG_SENTENCE} words")
        return found


def prose(markdown: str) -> list[str]:
    """The paragraphs, items and cells of a page, without code, formulas, addresses and comments."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2\s*$", "\n", markdown, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|^::: .*$|\$\$.*?\$\$", "\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`\n]*`|\$[^$\n]+\$", "x", text)
    text = re.sub(r"<[^>\n]+>", " ", text)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)|\n(?=#)|\n(?=\|)|(?<=\|)\n", text)
    parts: list[str] = []
    for block in blocks:
        if block.strip().startswith("|"):
            parts += [cell.strip() for cell in block.strip().strip("|").split("|")]
        else:
            parts.append(re.sub(r"^\s*(?:[-*+]|\d+\.|#+|>)\s+", "", block).strip())
    return [re.sub(r"\s+", " ", part.replace("**", "").replace("*", "")) for part in parts if re.search(r"\w", part)]


def sentences(parts: Iterable[str]) -> Iterator[str]:
    """The sentences of paragraphs."""
    for part in parts:
        yield from re.split(r"(?<=[.!?])\s+(?=[A-Z(])|(?<=:)\s*$", part)


def count_clauses(text: str) -> int:
    """Clauses headed by "what", "who" or "whoever"; questions "what if" and "what to do" are not counted."""
    plain = re.sub(r"\b(?:What|Who)\b[^.:;!?]*\?|\bwhat[- ]ifs?\b|\bwhat to do\b", " ", text, flags=re.IGNORECASE)
    relative = re.sub(r"\b(?:\w+(?:s|er|or|one|body|people|person|analyst|user|anyone),?) who\b", " ", plain)
    return len(re.findall(r"\b(?:what|whatever|whoever|who)\b", relative, flags=re.IGNORECASE))


def measure(name: str, parts: list[str]) -> Language:
    """Count in the paragraphs of one text."""
    text = "\n".join(parts)
    n_words = len(re.findall(r"\w[\w'-]*", text))
    lengths = [len(re.findall(r"\w[\w'-]*", sentence)) for sentence in sentences(parts)]
    lengths = [length for length in lengths if length >= 4]
    lowered = text.lower()
    for allowed in WORLDS_ALLOWED:
        lowered = lowered.replace(allowed, " ")
    terms = tuple(
        f"{replacement} (not {sorted(set(found))})"
        for pattern, replacement in STANDARD_TERMS.items()
        if (found := re.findall(rf"\b(?:{pattern})\b", lowered))
    )
    long = sum(length > LONG_SENTENCE for length in lengths) / max(len(lengths), 1)
    return Language(name, n_words, 1000 * count_clauses(text) / max(n_words, 1), long, terms)


def measure_page(path: Path) -> Language:
    """Count in a page."""
    return measure(path.relative_to(ROOT).as_posix(), prose(path.read_text(encoding="utf-8")))


def help_texts(tree: ast.Module) -> set[int]:
    """The docstrings of commands, which `--help` prints: public functions of a module of the command line."""
    commands = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    return {
        id(node.body[0].value)
        for node in commands
        if isinstance(node.body[0], ast.Expr)
        and (node.decorator_list or any("typer" in ast.unparse(argument) for argument in [node.args]))
    }


def template_text(path: Path) -> list[str]:
    """The texts of an HTML template, without tags and expressions."""
    text = re.sub(r"<[^>]+>|\{[{%].*?[%}]\}", "\n", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [html.unescape(line).strip() for line in text.splitlines() if len(re.findall(r"[A-Za-z]+", line)) > 1]


def program_texts(path: Path) -> list[str]:
    """The texts of a module or template that a program may print: literals of several words that are no docstrings."""
    if path.suffix == ".html":
        return template_text(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    if path.parent.name == "cli":
        docstrings -= help_texts(tree)
    excluded = docstrings | {
        id(value) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for value in node.values
    }
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = [str(value.value) if isinstance(value, ast.Constant) else "x" for value in node.values]
            texts.append("".join(pieces))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in excluded:
            texts.append(node.value)
    return [
        text
        for text in texts
        if len(re.findall(r"[A-Za-z]+ [a-z]+", text))
        and not re.match(r"(SELECT|INSERT|UPDATE|CREATE|DELETE|ALTER)\b", text.strip())
        and not re.fullmatch(r"\w+(, \w+)+", text.strip())  # columns of a table
    ]


def program_files() -> list[Path]:
    """The modules and templates whose texts a program may print."""
    package = ROOT / "src/causalbandits"
    return sorted([*package.rglob("*.py"), *package.rglob("*.html")])


def main(arguments: list[str]) -> None:
    """Print the counts of pages, or of the program's texts."""
    if arguments[:1] == ["--program"]:
        paths = [Path(name).resolve() for name in arguments[1:]] or program_files()
        found = [measure(path.relative_to(ROOT).as_posix(), program_texts(path)) for path in paths]
        shown = [language for language in found if language.terms or language.clauses]
    else:
        pages = [Path(name).resolve() for name in arguments]
        pages = pages or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
        found = shown = [measure_page(path) for path in pages]
    for language in shown:
        print(language)
    words = sum(language.words for language in found)
    total = sum(language.clauses * language.words for language in found) / max(words, 1)
    print(f"{len(found)} texts, {words} words, what/who {total:.1f} per 1,000 words")


if __name__ == "__main__":
    main(sys.argv[1:])
