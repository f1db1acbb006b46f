"""A checkpoint's folder with several processes in it: nobody's files are taken away, and the numbers are the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import causalbandits as cb
from causalbandits._files import write_if_absent
from causalbandits.engine import checkpoint
from causalbandits.errors import StateError

SETTINGS = {"policies": ["c-ts(prior=beta)", "ucb"], "horizon": 20, "replications": 3}
FOLDERS = 6

TOGETHER = f"""
import sys, time
from pathlib import Path
import causalbandits as cb
root, seed = Path(sys.argv[1]), int(sys.argv[2])
env = cb.zoo.email_campaign()
(root / f"ready-{{sys.argv[3]}}").touch()
while not (root / "go").exists():
    time.sleep(0.001)
for i in range({FOLDERS}):
    try:
        run = cb.simulate(env, seed=seed, checkpoint=root / f"run-{{i}}", **{SETTINGS!r})
        print([run.regret(policy).tolist() for policy in run.policies])
    except cb.CausalBanditsError as error:
        print(error)
"""


def together(root, seeds):
    """What two processes print that use the same new folders at the same time."""
    commands = [[sys.executable, "-c", TOGETHER, str(root), str(seed), str(i)] for i, seed in enumerate(seeds)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for command in commands]
    deadline = time.monotonic() + 60
    while len(list(root.glob("ready-*"))) < len(seeds) and time.monotonic() < deadline:
        time.sleep(0.01)
    (root / "go").touch()
    said = [process.communicate() for process in processes]
    assert [errors for _, errors in said] == [""] * len(seeds)
    return [output.splitlines() for output, _ in said]


def test_two_processes_in_one_folder_both_finish_with_the_same_numbers(tmp_path):
    run = cb.simulate(cb.zoo.email_campaign(), seed=4, **SETTINGS)
    alone = str([run.regret(policy).tolist() for policy in run.policies])
    assert together(tmp_path, [4, 4]) == [[alone] * FOLDERS] * 2
    assert not list(tmp_path.rglob("*.part"))


def test_of_two_plans_that_claim_one_folder_at_once_one_gets_it(tmp_path):
    for one, other in zip(*together(tmp_path, [4, 5]), strict=True):
        assert sorted(["checkpoint of another run" in one, "checkpoint of another run" in other]) == [False, True]


def simulate(folder, **changes):
    return cb.simulate(cb.zoo.email_campaign(), checkpoint=folder, **{**SETTINGS, **changes})


def parts_of(folder):
    return sorted(path.name for path in folder.glob("*.part"))


def unfinished(folder, age=0.0):
    """What a process leaves that is killed, or has in hand, while it writes."""
    folder.mkdir(exist_ok=True)
    names = ["replication-0000001.npz.0123456789abcdef.part", "run.json.0123456789abcdef.part"]
    for name in names:
        (folder / name).write_bytes(b"half")
        then = time.time() - age
        os.utime(folder / name, (then, then))
    return names


def test_what_another_process_is_writing_is_left_to_it(tmp_path):
    names = unfinished(tmp_path / "run")
    simulate(tmp_path / "run")
    simulate(tmp_path / "run", replications=5)
    assert parts_of(tmp_path / "run") == names


def test_a_clock_that_is_wrong_by_a_year_takes_nothing_away(tmp_path, monkeypatch):
    names = unfinished(tmp_path / "run")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 365 * 24 * 3600)
    simulate(tmp_path / "run")
    assert parts_of(tmp_path / "run") == names


def test_what_a_kill_left_half_written_is_swept_away_a_day_later(tmp_path):
    simulate(tmp_path / "run", replications=1)
    unfinished(tmp_path / "run", age=checkpoint.STALE + 60)
    simulate(tmp_path / "run")
    assert sorted(p.suffix for p in (tmp_path / "run").iterdir()) == [".json", ".npz", ".npz", ".npz"]


def test_unfinished_files_of_others_are_neither_swept_away_nor_taken_for_ours(tmp_path):
    (tmp_path / "film.mp4.part").write_bytes(b"years of work")
    os.utime(tmp_path / "film.mp4.part", (0, 0))
    with pytest.raises(StateError, match="empty and is not a checkpoint"):
        simulate(tmp_path)
    assert (tmp_path / "film.mp4.part").exists()


def test_a_file_that_cannot_be_swept_away_stops_nothing(tmp_path, monkeypatch):
    unfinished(tmp_path / "run", age=checkpoint.STALE + 60)

    unlink = Path.unlink

    def refuse(path, missing_ok=False):
        if "0123456789abcdef" in path.name:
            raise PermissionError(1, "not yours")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    found = simulate(tmp_path / "run")
    assert np.array_equal(found.regret("ucb"), cb.simulate(cb.zoo.email_campaign(), **SETTINGS).regret("ucb"))


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_the_first_to_write_a_file_is_the_one_that_wrote_it(tmp_path, monkeypatch, links):
    def refuse(*_):
        raise PermissionError(1, "this file system has no links")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    write_if_absent(tmp_path / "a.json", b"first")
    write_if_absent(tmp_path / "a.json", b"second")
    assert (tmp_path / "a.json").read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
