"""Workers that run replications with identical results: this thread, other threads or processes, or a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from causalbandits._progress import Progress
from causalbandits.engine.plan import Plan, ReplicationValues

FinishedReplication = tuple[int, ReplicationValues]
"""The number of a replication, and the values of each policy in it."""

JOBS_PER_WORKER = 8
"""The number of jobs per worker: few enough for a low overhead, enough to keep all workers busy."""


def run_replications(
    plan: Plan, replications: list[int], workers: int | None, bar: Progress
) -> Iterator[FinishedReplication]:
    """Every replication, in the order of completion.

    `workers=None` means one worker in this process, unless `joblib.parallel_config(...)` selects a backend. A backend
    that cannot return results one by one (Ray, multiprocessing) returns them at the end.
    """
    jobs = _configured_jobs() if workers is None else workers
    if jobs == 1 or len(replications) <= 1:
        for replication in replications:
            yield replication, plan.run(replication, bar.advance)
        return
    import joblib
    from joblib.parallel import get_active_backend

    prefer = "threads" if plan.all_compiled() else "processes"
    backend, _ = get_active_backend(prefer=prefer)
    return_as = "generator_unordered" if backend.supports_return_generator else "list"
    parallel = joblib.Parallel(
        jobs if workers is None else min(jobs, len(replications)), prefer=prefer, return_as=return_as
    )
    count = min(len(replications), JOBS_PER_WORKER * joblib.effective_n_jobs(jobs))
    parts = [replications[i::count] for i in range(count)]
    rounds_each = len(plan.policies) * int(plan.rounds[-1])
    for batch in parallel(joblib.delayed(_run_part)(_SearchPath(), plan, part) for part in parts):
        bar.advance(rounds_each * len(batch))
        yield from batch


class _SearchPath:
    """The module search path of this process; unpickling it adds that path in another process.

    It is sent before the plan, because a process that started earlier may not find the module of a policy.
    """

    def __init__(self, places: tuple[str, ...] = ()) -> None:
        sys.path += [place for place in places if place not in sys.path]

    def __reduce__(self) -> tuple[Any, ...]:
        return (_SearchPath, (tuple(sys.path),))


def _run_part(path: _SearchPath, plan: Plan, replications: list[int]) -> list[FinishedReplication]:
    return [(replication, plan.run(replication)) for replication in replications]


def _configured_jobs() -> int:
    """The number of jobs set by `joblib.parallel_config`; none if joblib has not been imported."""
    if "joblib" not in sys.modules:
        return 1
    import joblib

    return int(joblib.Parallel().n_jobs)
