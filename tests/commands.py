"""Runs the command line as its own process would, without the second that a new process takes to import the library."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

from causalbandits.cli import app
from causalbandits.cli import run as run_program


class Done(NamedTuple):
    """What a process leaves."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: Any, folder: Any = ".", columns: int = 80, program: Callable[[], object] = app) -> Done:
    """`causalbandits ARGUMENTS`, or another program, in a folder."""
    out, errors, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["causalbandits", *map(str, arguments)]),
        mock.patch.dict("os.environ", {"COLUMNS": str(columns)}),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        warnings.catch_warnings(action="default"),
    ):
        try:
            run_program(program)
        except SystemExit as end:
            code = end.code or 0
    return Done(code, out.getvalue(), errors.getvalue())
