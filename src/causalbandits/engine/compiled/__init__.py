"""The compiled engine: the rounds of the plain driver compiled by numba, with bit-identical results."""

from causalbandits.engine.compiled.driver import can_play, play_compiled

__all__ = ["can_play", "play_compiled"]
