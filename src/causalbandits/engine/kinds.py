"""The kinds of compiled rounds, by name, and how each is compiled or fetched from numba's disk cache."""

from __future__ import annotations

import hashlib
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numba

from causalbandits.engine.design_kernels import DESIGN_KERNELS
from causalbandits.engine.drawn_rounds import drawn_rounds
from causalbandits.engine.learnt_rounds import learnt_rounds
from causalbandits.engine.linear_rounds import by_block_rounds, linear_rounds
from causalbandits.engine.promised_rounds import promised_rounds
from causalbandits.engine.screened_rounds import screened_rounds
from causalbandits.engine.settled_rounds import settled_action_rounds, settled_rounds
from causalbandits.engine.worth_effect_rounds import worth_effect_rounds
from causalbandits.engine.worth_rounds import worth_rounds

KINDS_OF_ROUNDS: dict[str, Any] = {
    "settled": settled_rounds,
    "settled actions": settled_action_rounds,
    "drawn": drawn_rounds,
    "linear": linear_rounds,
    "by block": by_block_rounds,
    **DESIGN_KERNELS,
    "learnt": learnt_rounds,
    "promised": promised_rounds,
    "screened": screened_rounds,
    "worth": worth_rounds,
    "worth by effects": worth_effect_rounds,
}

SOURCES = (
    "policies/effects.py",
    "policies/effects_kept.py",
    "policies/entries.py",
    "policies/indices.py",
    "policies/rates.py",
    "policies/ratios.py",
    "policies/scales.py",
    "policies/statistics.py",
    "policies/tracking.py",
    "policies/worth.py",
    "problem/design.py",
    "problem/scores.py",
    "engine/choosing.py",
    "engine/design_kernels.py",
    "engine/design_tables.py",
    "engine/drawn_rounds.py",
    "engine/happening.py",
    "engine/kernels.py",
    "engine/learnt_rounds.py",
    "engine/linear_rounds.py",
    "engine/projecting.py",
    "engine/promised_rounds.py",
    "engine/screened_rounds.py",
    "engine/settled_rounds.py",
    "engine/tables.py",
    "engine/worth_effect_rounds.py",
    "engine/worth_rounds.py",
    "engine/worth_tables.py",
    "engine/worths.py",
    "engine/worths_afresh.py",
)
"""What the compiled code is made of."""


@cache
def kernel(name: str) -> Any:
    """One of the kinds of rounds; compiled, or fetched from disk, when called with parameters of a new type."""
    package = Path(__file__).parent.parent
    version = hashlib.sha256(b"".join((package / source).read_bytes() for source in SOURCES)).hexdigest()
    play = KINDS_OF_ROUNDS[name](version)
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(play)
    except RuntimeError:  # nowhere to write a cache: it compiles again in every process
        return numba.njit(nogil=True, error_model="numpy")(play)
    forget_unreadable(Path(str(compiled.stats.cache_path)), play.__module__.rpartition(".")[2])
    return compiled


def forget_unreadable(directory: Path, module: str) -> None:
    """Remove what a cache lists of a module's rounds where it cannot be read, so that they are compiled again.

    numba reads an old list before it sees that it is old: one that names types of an earlier version of this library
    would end in an error.
    """
    for index in directory.glob(f"{module}.*.nbi"):
        try:
            with index.open("rb") as file:
                if pickle.load(file) == numba.__version__:
                    pickle.loads(file.read())
        except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            index.unlink(missing_ok=True)
