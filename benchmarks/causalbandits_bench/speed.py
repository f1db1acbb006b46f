"""The tables of `benchmarks/run.py speed`, each measured side by side, in one process and thread where it can be."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from causalbandits._tables import import_pandas
from causalbandits.engine.simulation import simulate
from causalbandits.environments import zoo
from causalbandits.environments.environment import Environment
from causalbandits.fitting.fit import fit
from causalbandits_bench import plain_loops
from causalbandits_bench.agent_cost import against_loops, against_without, loop_task
from causalbandits_bench.context_cost import compare_contexts
from causalbandits_bench.index_cost import against_thompson
from causalbandits_bench.timing import Task, megabytes_in_new_process, seconds_in_new_process, side_by_side
from causalbandits_bench.workloads import agent_task, engine_task

GAUSSIAN = (
    "c-ucb",
    "c-ts(scales=given)",
    "cl-ucb",
    "cl-ucb(regressor=observed)",
    "cl-ts",
    "cl-ts(regressor=observed)",
    "ucb",
    "ts(scales=given)",
)
BERNOULLI = ("c-ucb", "c-ts(prior=beta)", "ucb", "ts(prior=beta)")


@dataclass(frozen=True)
class Measurements:
    """A title, a remark, column names, and rows of text and numbers."""

    title: str
    remark: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def engine(repeats: int) -> Measurements:
    """Every policy's cost a round, against the NumPy loop."""
    worlds: list[tuple[str, Environment, Sequence[str]]] = [
        ("Figure 2", zoo.figure2(), GAUSSIAN),
        ("Figure 4", zoo.random_parallel(3, 6, theta=[1, 0, 0, 0, 0, 0], rng=0), GAUSSIAN),
        ("e-mail", zoo.email_campaign(), BERNOULLI),
    ]
    rows = []
    for name, env, ids in worlds:
        matrices = plain_loops.matrices(env)
        for id in ids:
            best = side_by_side({"engine": engine_task(env, id), "loop": loop_task(matrices, id)}, repeats)
            ratio = best["loop"] / best["engine"]
            rows.append([name, id, best["engine"] * 1e9, best["loop"] * 1e6, ratio])
    return Measurements(
        "The engine against a NumPy loop over all actions",
        "One thread. The loop is vectorised over the actions, with P(z | a) as a matrix. Actions and configurations: "
        "256 and 16 in Figure 2, 4096 and 64 in Figure 4 with n = 6, 80 and 12 in the e-mail campaign.",
        ["world", "policy", "engine (ns)", "loop (us)", "ratio"],
        rows,
    )


def agent(repeats: int) -> Measurements:
    """`ask` and `tell`, against a round of the loop, and with more to think of, against none of it."""
    return Measurements(
        "One decision and one reward",
        "One thread. An agent's ask and tell, in campaigns of 1,000 rounds that begin with nothing known; what happens "
        "comes of what was decided, and drawing it is not timed, but for the loop's. Actions: 256 in Figure 2, 80 in "
        "the e-mail campaign. Other libraries are measured where they are installed (pip install mabwiser river).",
        ["world", "", "us", "against", "its us", "ratio"],
        [*against_loops(GAUSSIAN, repeats), *against_without(repeats)],
    )


def growth(repeats: int) -> Measurements:
    """How the cost of a round grows with actions, configurations and the horizon."""
    rows = []
    bounds = [(N, zoo.lower_bound(N, 0.1)) for N in (3, 6, 10, 14)]
    best = side_by_side({str(N): engine_task(env, "c-ucb") for N, env in bounds}, repeats)
    for N, env in bounds:
        rows.append(["c-ucb, lower bound", f"3^{N} actions", env.problem.actions.size, best[str(N)] * 1e9])
    tasks = {str(n): engine_task(_parallel(n), "ucb") for n in (2, 4, 6, 8)}
    for n, seconds in side_by_side(tasks, repeats).items():
        rows.append(["ucb", f"4^{n} actions", 4 ** int(n), seconds * 1e9])
    tasks = {str(n): engine_task(_parallel(n), "c-ts(scales=given)", 2000) for n in (2, 4, 6, 8, 10)}
    for n, seconds in side_by_side(tasks, repeats).items():
        rows.append(["c-ts(scales=given)", f"2^{n} configurations", 2 ** int(n), seconds * 1e9])
    tasks = {str(horizon): engine_task(zoo.figure2(), "c-ucb", horizon) for horizon in (10**3, 10**4, 10**5, 10**6)}
    for horizon, seconds in side_by_side(tasks, repeats).items():
        rows.append(["c-ucb, Figure 2", f"{int(horizon):,} rounds", int(horizon), seconds * 1e9])
    return Measurements("Growth", "One thread.", ["", "", "size", "ns a round"], rows)


def drawing(repeats: int) -> Measurements:
    """Policies whose cost is that of their random numbers, against drawing these and nothing else."""
    rng, rows = np.random.default_rng(0), []

    def normals(count: int, times: int) -> Task:
        return lambda: len([rng.standard_normal(count) for _ in range(times)])

    for name, env in (("256 actions", zoo.figure2()), ("4096 actions", _parallel(6))):
        tasks = {"ours": engine_task(env, "ts(scales=given)", 1000), "drawing": normals(env.problem.actions.size, 200)}
        best = side_by_side(tasks, repeats)
        rows.append(_against("ts(scales=given) in the engine", name, best))
    env = _parallel(16)
    tasks = {"ours": engine_task(env, "c-ts(scales=given)", 40), "drawing": normals(2**16, 40)}
    rows.append(
        _against(
            "c-ts(scales=given) in the engine", "4^16 actions, 65,536 configurations", side_by_side(tasks, repeats)
        )
    )
    tasks = {"ours": agent_task(env, "c-ts(scales=given)", 40), "drawing": normals(2**16, 40)}
    rows.append(
        _against(
            "c-ts(scales=given)'s ask and tell", "4^16 actions, 65,536 configurations", side_by_side(tasks, repeats)
        )
    )
    n = 1000
    env, matrix, vector = _parallel(n), rng.standard_normal((n, n)), rng.standard_normal(n)

    def product() -> int:
        for _ in range(100):
            matrix @ vector
            rng.standard_normal(n)
        return 100

    for id in ("cl-ts", "cl-ts(regressor=observed)"):
        best = side_by_side({"ours": engine_task(env, id, 100), "drawing": product}, repeats)
        rows.append(_against(f"{id} in the engine", "4^1000 actions; a 1000 x 1000 product and 1000 normals", best))
    return Measurements(
        "Against drawing the same number of normals",
        "One thread. The last rows: against a matrix-vector product and the normals.",
        ["", "", "us a round", "drawing (us)", "ratio"],
        rows,
    )


def _against(what: str, size: str, best: dict[str, float]) -> list[Any]:
    return [what, size, best["ours"] * 1e6, best["drawing"] * 1e6, best["ours"] / best["drawing"]]


def threads(repeats: int) -> Measurements:
    """Two threads against one."""
    rows = []
    for name, env, ids in (("Figure 2", zoo.figure2(), GAUSSIAN), ("e-mail", zoo.email_campaign(), BERNOULLI)):

        def task(workers: int, env: Environment = env, ids: Sequence[str] = ids) -> Task:
            def run() -> int:
                simulate(env, ids, horizon=5000, replications=200, workers=workers, progress=False)
                return len(ids) * 200 * 5000

            return run

        best = side_by_side({"1": task(1), "2": task(2)}, max(1, repeats // 2), time.perf_counter)
        rows.append([f"{name}, {len(ids)} policies", best["1"] * 1e9, best["2"] * 1e9, best["1"] / best["2"]])
    return Measurements(
        "Two threads against one",
        "`simulate`, 5000 rounds, 200 replications of every policy.",
        ["", "one (ns a round)", "two (ns a round)", "gain"],
        rows,
    )


def counting(repeats: int) -> Measurements:
    """All tables of a model from ten million rows, against a groupby for each of them."""
    rows, graph = 10**7, {f"v{i}": [f"v{j}" for j in range(max(0, i - 2), i)] for i in range(8)}
    rng, sizes = np.random.default_rng(0), [2, 3, 4, 5, 2, 3, 4, 5]
    codes = {name: rng.integers(size, size=rows) for name, size in zip(graph, sizes, strict=True)}
    states = {name: range(size) for name, size in zip(graph, sizes, strict=True)}

    def fitted(data: Any, **options: Any) -> int:
        fit(graph, data, **options)
        return rows

    tasks: dict[str, Task] = {
        "fit, states given": lambda: fitted(codes, values=states),
        "fit, states found": lambda: fitted(codes),
    }
    if importlib.util.find_spec("pandas"):
        frame = import_pandas().DataFrame(codes)

        def grouped() -> int:
            for name, parents in graph.items():
                frame.groupby([*parents, name]).size()
            return rows

        tasks |= {"fit, a DataFrame": lambda: fitted(frame), "pandas groupby, 8 times": grouped}
    best = side_by_side(tasks, max(1, repeats // 4))
    groupby = best.get("pandas groupby, 8 times", math.nan)
    return Measurements(
        "Counting: the tables of 8 variables from 10,000,000 rows of whole numbers",
        "One thread. 60 cells in the largest table. `fit` counts, and makes the model; pandas counts.",
        ["", "seconds", "groupby's time / this"],
        [[name, seconds * rows, groupby / seconds] for name, seconds in best.items()],
    )


def context(repeats: int) -> Measurements:
    """Rounds and decisions with a context, against those without."""
    return Measurements(
        "Told the segment, and not told",
        "One thread. The e-mail campaign with three segments; a round of the engine, and an agent's ask and tell.",
        ["policy", "engine (ns)", "not told (ns)", "ratio", "agent (us)", "not told (us)", "agent's ratio"],
        compare_contexts(repeats),
    )


def index(repeats: int) -> Measurements:
    """Decisions by what actions are worth, against C-TS with the same belief."""
    return Measurements(
        "What actions are worth, and C-TS",
        "One thread. A round of the engine, and an agent's ask and tell; ratios are to the C-TS above. Policies know "
        "that there are 5,000 rounds, of which the first ones are played. Size: searched actions x configurations.",
        ["world", "size", "policy", "engine (us)", "agent (us)", "engine's ratio", "agent's ratio"],
        against_thompson(max(1, repeats // 2)),
    )


SIMULATE = (
    "import causalbandits as cb\n"
    "cb.simulate(cb.zoo.figure2(), ['c-ucb', 'c-ts(scales=given)', 'cl-ts'], horizon=10_000, replications=10)\n"
)


def start(repeats: int) -> Measurements:
    """What a new process waits for."""
    few = max(1, repeats // 2)
    python = seconds_in_new_process("pass", few)
    numpy = seconds_in_new_process("import numpy", few)
    package = seconds_in_new_process("import causalbandits", few)
    seconds_in_new_process(SIMULATE, 1)
    first = seconds_in_new_process(SIMULATE, few)
    rows = [
        ["Python itself", python],
        ["and import numpy", numpy],
        ["and import causalbandits", package],
        ["and a first simulation, compiled code on disk", first],
    ]
    return Measurements("Starting", "A new process, from its start to its end.", ["", "seconds"], rows)


def memory(repeats: int) -> Measurements:
    """The most memory that a process needs."""
    play = (
        "import numpy as np, causalbandits as cb\n"
        "from causalbandits.engine.compiled.driver import play_compiled\n"
        "env = {env}\n"
        "play_compiled(env, cb.policy('{id}').for_horizon({rounds}), env.problem, np.array([{rounds}]), 0, 0)\n"
    )
    cases = [
        ("import causalbandits", "import causalbandits\n"),
        ("c-ucb, lower bound, 3^3 actions", play.format(env="cb.zoo.lower_bound(3, .1)", id="c-ucb", rounds=10**5)),
        ("c-ucb, lower bound, 3^14 actions", play.format(env="cb.zoo.lower_bound(14, .1)", id="c-ucb", rounds=10**5)),
        (
            "c-ts(scales=given), 4^16 actions",
            play.format(
                env="cb.zoo.random_parallel(3, 16, theta=np.ones(16) / 16, rng=0)", id="c-ts(scales=given)", rounds=10
            ),
        ),
        (
            "cl-ts, 4^1000 actions",
            play.format(env="cb.zoo.random_parallel(3, 1000, theta=np.ones(1000) / 99, rng=0)", id="cl-ts", rounds=10),
        ),
    ]
    rows = [[name, megabytes_in_new_process(program)] for name, program in cases]
    return Measurements("Peak memory", "Of a new process; compiled code included.", ["", "MB"], rows)


TABLES: dict[str, Callable[[int], Measurements]] = {
    "engine": engine,
    "agent": agent,
    "context": context,
    "index": index,
    "growth": growth,
    "drawing": drawing,
    "threads": threads,
    "counting": counting,
    "start": start,
    "memory": memory,
}


def _parallel(n: int) -> Environment:
    return zoo.random_parallel(3, n, theta=np.ones(n) / n, rng=0)
