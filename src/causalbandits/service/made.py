"""Studies that are made over HTTP: files of a directory, by names that reach no path."""

from __future__ import annotations

import re
from pathlib import Path

from causalbandits.errors import ConflictError, StateError
from causalbandits.policies import policy
from causalbandits.problem.budget import Budget
from causalbandits.problem.problem import CausalBandit
from causalbandits.service.bodies import StudyWanted
from causalbandits.study import Study

LONGEST_STUDY_NAME = 100
TAKEN = ("login", "static", "v1", "livez", "readyz", "metrics", "openapi")
"""Other things are at these addresses."""

MADE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def check_served_name(name: str) -> None:
    """Say so if a study cannot be served by this name."""
    if name in TAKEN or len(name) > LONGEST_STUDY_NAME or not name.isprintable():
        raise StateError(
            "A study is served by its file's name, which must be printable, of "
            f"{LONGEST_STUDY_NAME} characters at most, and none of {', '.join(TAKEN)}; got {name!r:.60}."
        )


def made_study(directory: Path, wanted: StudyWanted) -> Study:
    """A new study in a directory."""
    if not MADE_NAME.fullmatch(wanted.name):
        raise StateError(
            "A study's name has small letters, digits, - and _, 64 at most, a letter or digit first; got "
            f"{wanted.name!r:.60}."
        )
    check_served_name(wanted.name)
    file = directory / f"{wanted.name}.db"
    if file.exists():
        raise ConflictError(f"There is a study named {wanted.name!r} already.")
    chosen = None if wanted.policy is None else policy(wanted.policy, **wanted.parameters)
    return Study.create(
        file,
        CausalBandit.from_record(wanted.problem),
        chosen,
        horizon=wanted.horizon,
        seed=wanted.seed,
        window=wanted.window,
        default=wanted.default,
        late=wanted.late,
        impossible=wanted.impossible,
        budget=None if wanted.budget is None else Budget(*wanted.budget),
        hold=wanted.hold,
        floor=wanted.floor,
    )
