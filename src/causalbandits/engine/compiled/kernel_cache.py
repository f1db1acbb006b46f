"""The kinds of compiled rounds, by name, and how each is compiled or fetched from numba's disk cache."""

from __future__ import annotations

import hashlib
import pickle
from functools import cache
from pathlib import Path
from typing import Any

import numba

from causalbandits.engine.compiled.exploration import DESIGN_KERNELS
from causalbandits.engine.compiled.gittins import gittins_rounds
from causalbandits.engine.compiled.gittins_main_effects import gittins_main_effects_rounds
from causalbandits.engine.compiled.linear import by_block_rounds, linear_rounds
from causalbandits.engine.compiled.screen import screen_rounds
from causalbandits.engine.compiled.thompson import learned_cpt_rounds, thompson_rounds
from causalbandits.engine.compiled.ts_ucb import ts_ucb_rounds
from causalbandits.engine.compiled.ucb import ucb_action_rounds, ucb_context_rounds, ucb_rounds

KERNELS: dict[str, Any] = {
    "settled": ucb_rounds,
    "settled in contexts": ucb_context_rounds,
    "settled actions": ucb_action_rounds,
    "drawn": thompson_rounds,
    "linear": linear_rounds,
    "by block": by_block_rounds,
    **DESIGN_KERNELS,
    "learned": learned_cpt_rounds,
    "promised": ts_ucb_rounds,
    "screened": screen_rounds,
    "worth": gittins_rounds,
    "worth by effects": gittins_main_effects_rounds,
}

SOURCES = (
    "policies/_qr.py",
    "policies/cells/discovery.py",
    "policies/cells/gittins.py",
    "policies/cells/ts_ucb.py",
    "policies/exploration/track_and_stop.py",
    "policies/linear/scaled_regression.py",
    "policies/posteriors/empirical_beta.py",
    "policies/posteriors/empirical_gaussian.py",
    "policies/posteriors/index_functions.py",
    "policies/posteriors/main_effects.py",
    "policies/statistics.py",
    "problem/optimal_design.py",
    "problem/projection/argmax.py",
    "engine/compiled/argmax.py",
    "engine/compiled/arrays.py",
    "engine/compiled/exploration.py",
    "engine/compiled/gittins.py",
    "engine/compiled/gittins_main_effects.py",
    "engine/compiled/linear.py",
    "engine/compiled/primitives.py",
    "engine/compiled/projection.py",
    "engine/compiled/sampling.py",
    "engine/compiled/screen.py",
    "engine/compiled/thompson.py",
    "engine/compiled/ts_ucb.py",
    "engine/compiled/ucb.py",
)
"""The files of every function that the kernels call and of the tuples they read: after a change in any, they are
compiled anew."""


@cache
def kernel(name: str) -> Any:
    """One of the kinds of rounds; compiled, or fetched from disk, when called with parameters of a new type."""
    package = Path(__file__).parents[2]
    version = hashlib.sha256(b"".join((package / source).read_bytes() for source in SOURCES)).hexdigest()
    play = KERNELS[name](version)
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(play)
    except RuntimeError:  # nowhere to write a cache: it compiles again in every process
        return numba.njit(nogil=True, error_model="numpy")(play)
    remove_unreadable_cache(Path(str(compiled.stats.cache_path)), play.__module__.rpartition(".")[2])
    return compiled


def remove_unreadable_cache(directory: Path, module: str) -> None:
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
