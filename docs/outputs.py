"""Run the Python code of pages, and update the outputs that the pages show. python docs/outputs.py [page ...]

An output that is still right, "..." standing for anything, is kept as it is. Without a page: all pages.
"""

from __future__ import annotations

import doctest
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs/tutorials/data"
"""Files that the code of a page may read from the current folder; readers download them from the page."""

BLOCK = re.compile(
    r"^```python\n(?P<code>(?:(?!^```).)*?)^```\n(?:\n```output\n(?P<shown>.*?)^```\n)?", re.DOTALL | re.MULTILINE
)
MATCHES = doctest.OutputChecker()
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
END = "-- end of a block --"

PROGRAM = f"""
import runpy, sys
for name in sys.argv[1:]:
    runpy.run_path(name, run_name="__main__")
    print({END!r}, flush=True)
"""


def printed_by(codes: list[str], folder: Path) -> list[str]:
    """What each block prints, each a program of its own, all in one folder."""
    names = [f"block_{number}.py" for number in range(len(codes))]
    for name, code in zip(names, codes, strict=True):
        (folder / name).write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", PROGRAM, *names], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return [part.removeprefix("\n") for part in done.stdout.split(END)[:-1]]


def updated(text: str, folder: Path) -> str:
    """The text of a page with the outputs of its code."""
    printed = iter(printed_by([block["code"] for block in BLOCK.finditer(text)], folder))

    def update(block: re.Match[str]) -> str:
        found, shown = next(printed), block["shown"]
        if shown is None or MATCHES.check_output(shown, found, FLAGS):
            return block[0]
        lines = "\n".join(line.rstrip() for line in found.splitlines())
        return block[0].replace(f"```output\n{shown}```", f"```output\n{lines}\n```")

    return BLOCK.sub(update, text)


def pages_with_code() -> Iterator[Path]:
    """The README and the pages that have code to run."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if BLOCK.search(path.read_text(encoding="utf-8")):
            yield path


def main(arguments: list[str]) -> None:
    """Update some pages, or all."""
    for path in [Path(name).resolve() for name in arguments] or list(pages_with_code()):
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            for file in DATA.glob("*.csv"):
                shutil.copy(file, folder)
            new = updated(text, Path(folder))
        if new != text:
            path.write_text(new, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'updated' if new != text else 'unchanged'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
