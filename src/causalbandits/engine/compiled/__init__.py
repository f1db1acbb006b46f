"""The compiled engine: the same rounds as the plain driver's, by numba, equal to the bit."""

from causalbandits.engine.compiled.driver import can_play, play_compiled

__all__ = ["can_play", "play_compiled"]
