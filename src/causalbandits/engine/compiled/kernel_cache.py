"""The kinds of compiled rounds by name, compiled or fetched from numba's disk cache."""

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
from causalbandits.engine.compiled.structure import structure_rounds
from causalbandits.engine.compiled.thompson import learned_cpt_rounds, thompson_rounds
from causalbandits.engine.compiled.ts_ucb import ts_ucb_rounds
from causalbandits.engine.compiled.ucb import ucb_action_rounds, ucb_context_rounds, ucb_rounds

KERNELS: dict[str, Any] = {
    "ucb": ucb_rounds,
    "ucb in contexts": ucb_context_rounds,
    "ucb by actions": ucb_action_rounds,
    "thompson": thompson_rounds,
    "linear": linear_rounds,
    "linear by block": by_block_rounds,
    **DESIGN_KERNELS,
    "thompson with learned CPTs": learned_cpt_rounds,
    "learned structure": structure_rounds,
    "ts-ucb": ts_ucb_rounds,
    "screen": screen_rounds,
    "gittins": gittins_rounds,
    "gittins with main effects": gittins_main_effects_rounds,
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
    "policies/structure/parent_sets.py",
    "policies/structure/thompson.py",
    "problem/optimal_design.py",
    "problem/projection/argmax.py",
    "engine/compiled/argmax.py",
    "engine/compiled/arrays.py",
    "engine/compiled/cpt_learning.py",
    "engine/compiled/exploration.py",
    "engine/compiled/gittins.py",
    "engine/compiled/gittins_main_effects.py",
    "engine/compiled/linear.py",
    "engine/compiled/primitives.py",
    "engine/compiled/projection.py",
    "engine/compiled/sampling.py",
    "engine/compiled/screen.py",
    "engine/compiled/structure.py",
    "engine/compiled/thompson.py",
    "engine/compiled/ts_ucb.py",
    "engine/compiled/ucb.py",
)
"""The source files of all functions and tuples that the kernels use; a change in any of them triggers a compilation."""


@cache
def kernel(name: str) -> Any:
    """A kind of rounds by name; compiled or fetched from disk when called with parameters of a new type."""
    package = Path(__file__).parents[2]
    version = hashlib.sha256(b"".join((package / source).read_bytes() for source in SOURCES)).hexdigest()
    play = KERNELS[name](version)
    try:
        compiled = numba.njit(cache=True, nogil=True, error_model="numpy")(play)
    except RuntimeError:  # no writable cache folder: every process compiles again
        return numba.njit(nogil=True, error_model="numpy")(play)
    remove_unreadable_cache(Path(str(compiled.stats.cache_path)), play.__module__.rpartition(".")[2])
    return compiled


def remove_unreadable_cache(directory: Path, module: str) -> None:
    """Delete the unreadable cache entries of a module's rounds, so that they are compiled again.

    numba reads a stale index before it detects that it is stale; an index with types of another version of this library
    would raise an error.
    """
    for index in directory.glob(f"{module}.*.nbi"):
        try:
            with index.open("rb") as file:
                if pickle.load(file) == numba.__version__:
                    pickle.loads(file.read())
        except (AttributeError, ImportError, EOFError, pickle.UnpicklingError):
            index.unlink(missing_ok=True)
