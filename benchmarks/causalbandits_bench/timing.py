"""Timing side by side, and what a new process needs."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Mapping

Task = Callable[[], int]
"""Does something, and says how many rounds of it."""

FINE = time.get_clock_info("process_time").resolution < 1e-6
OWN_TIME = time.process_time if FINE else time.perf_counter
"""What this process had of a processor, where the system counts that finely: others may be busy meanwhile."""


def side_by_side(tasks: Mapping[str, Task], repeats: int, clock: Callable[[], float] = OWN_TIME) -> dict[str, float]:
    """Seconds a round for each task: the best of some repeats, taken in turn.

    Machines are noisy and change their speed over minutes; in turn, all tasks meet the same phases, and the best time
    is the one least disturbed. So ratios mean something where times do not.
    """
    best = dict.fromkeys(tasks, math.inf)
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            start = clock()
            rounds = task()
            best[name] = min(best[name], (clock() - start) / rounds)
    return best


def seconds_in_new_process(program: str, repeats: int) -> float:
    """How long a Python program takes, from starting Python to its end; the best of some repeats."""
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        _run(program)
        best = min(best, time.perf_counter() - start)
    return best


def megabytes_in_new_process(program: str) -> float:
    """The most memory that a Python program held at any time."""
    return float(_run(f"{program}\n{PRINT_PEAK}").split()[-1])


# On Linux, ru_maxrss of a new process begins with its parent's; VmHWM does not.
PRINT_PEAK = """
import pathlib, re, resource, sys
status = pathlib.Path("/proc/self/status")
if status.exists():
    print(int(re.search("VmHWM:[^0-9]*([0-9]+) kB", status.read_text())[1]) / 2**10)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))
"""


def _run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
