"""Files that are there whole or not at all, however many write them, and that stay what they were."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from causalbandits._files import write_atomically
from causalbandits.errors import StateError

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and special files are POSIX's")

HAMMER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from causalbandits._files import write_atomically
path, letters = Path(sys.argv[1]), sys.argv[2]
with ThreadPoolExecutor(len(letters)) as pool:
    list(pool.map(lambda i: write_atomically(path, letters[i % len(letters)].encode() * 100_000), range(150)))
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class Reader(threading.Thread):
    """Reads a file over and over, and keeps what is torn: not 100,000 times one letter."""

    def __init__(self, path):
        super().__init__()
        self.path, self.reads, self.torn, self.done = path, 0, [], False

    def run(self):
        while not self.done:
            content = self.path.read_bytes()
            if len(content) != 100_000 or content.count(content[:1]) != 100_000:
                self.torn.append(content[:20])
            self.reads += 1
            time.sleep(0.001)


def hammered(path, start):
    """Write a first file, start the writers, read until they are done."""
    write_atomically(path, b"x" * 100_000)
    reader = Reader(path)
    reader.start()
    try:
        start()
    finally:
        reader.done = True
        reader.join()
    assert reader.reads > 5
    assert reader.torn == []
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_threads_that_save_to_one_path_all_succeed_and_nobody_reads_half_a_file(tmp_path):
    path, failures = tmp_path / "a.json", []

    def save(letter):
        try:
            for _ in range(100):
                write_atomically(path, letter * 100_000)
        except StateError as error:
            failures.append(error)

    def start():
        threads = [threading.Thread(target=save, args=(letter,)) for letter in (b"a", b"b", b"c")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    hammered(path, start)
    assert failures == []


def test_processes_with_threads_of_their_own_do_too(tmp_path):
    path = tmp_path / "a.json"

    def start():
        commands = [[sys.executable, "-c", HAMMER, str(path), letters] for letters in ("ab", "cd")]
        processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
        assert [process.communicate()[1] for process in processes] == ["", ""]

    hammered(path, start)


def test_two_processes_of_the_same_number_do_not_meet(tmp_path, monkeypatch):
    """Two containers that share a volume each have a process 1."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    taken, replace = [], os.replace

    def inside(source, target):
        if not taken:
            taken.append(source)
            write_atomically(tmp_path / "a.json", b"theirs")
        replace(source, target)

    monkeypatch.setattr(os, "replace", inside)
    write_atomically(tmp_path / "a.json", b"ours")
    assert (tmp_path / "a.json").read_bytes() == b"ours"


@posix
def test_a_private_file_stays_private_and_is_at_no_time_less_so(tmp_path, monkeypatch):
    path, seen, replace = tmp_path / "a.json", [], os.replace
    path.write_bytes(b"old")
    path.chmod(0o600)

    def watched(source, target):
        seen.append(mode(tmp_path / os.path.basename(source)))
        replace(source, target)

    opened, real_open = [], os.open
    monkeypatch.setattr(os, "replace", watched)
    monkeypatch.setattr(os, "open", lambda *a, **k: (opened.append(k.get("mode", a[2:])), real_open(*a, **k))[1])
    old = os.umask(0o000)
    try:
        write_atomically(path, b"new")
    finally:
        os.umask(old)
    assert (path.read_bytes(), mode(path), seen) == (b"new", 0o600, [0o600])
    assert opened[0] == 0o600, "the file must be made private, not become so: who has opened it reads on"


@posix
@pytest.mark.parametrize("bits", [0o640, 0o444, 0o666])
def test_a_replaced_file_keeps_its_permissions(tmp_path, bits):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    path.chmod(bits)
    write_atomically(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", bits)


@posix
@pytest.mark.parametrize(("umask", "bits"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path, umask, bits):
    old = os.umask(umask)
    try:
        write_atomically(tmp_path / "a.json", b"new")
    finally:
        os.umask(old)
    assert mode(tmp_path / "a.json") == bits


@posix
def test_what_is_no_ordinary_file_is_left_alone(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(tmp_path)  # a socket's name may have only a hundred characters
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        for name in ("fifo", "folder", "link", "socket"):
            before = os.lstat(tmp_path / name)
            with pytest.raises(
                StateError, match=rf"Cannot save to .*{name}: it is .*not a regular file.* another path"
            ):
                write_atomically(tmp_path / name, b"new")
            after = os.lstat(tmp_path / name)
            assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fifo", "folder", "link", "socket"]


@posix
def test_a_device_is_left_alone(tmp_path):
    """Where root could replace it, another one like /dev/null is risked."""
    null = tmp_path / "null" if os.geteuid() == 0 else Path(os.devnull)
    if os.geteuid() == 0:
        try:
            os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("no devices can be made here")
    with pytest.raises(StateError, match=r"it is a device, .*not a regular file"):
        write_atomically(null, b"new")
    assert stat.S_ISCHR(null.stat().st_mode)


@pytest.mark.parametrize("error", [OSError(28, "disk full"), KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize("where", ["fsync", "replace"])
def test_whatever_goes_wrong_nothing_is_left_behind(tmp_path, monkeypatch, where, error):
    path = tmp_path / "a.json"
    path.write_bytes(b"old")

    def fails(*_):
        raise error

    monkeypatch.setattr(os, where, fails)
    expected = pytest.raises(StateError, match=r"Cannot save to .*disk full\. Nothing was changed")
    with expected if isinstance(error, OSError) else pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_content_and_then_its_name_are_on_disk_before_it_is_said_to_be_saved(tmp_path, monkeypatch):
    done, fsync, replace = [], os.fsync, os.replace

    def synced(descriptor):
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *both: (done.append("replace"), replace(*both)))
    write_atomically(tmp_path / "a.json", b"new")
    assert done == ["file", "replace", "folder"] if os.name == "posix" else ["file", "replace"]


def test_a_folder_that_cannot_be_synced_is_no_reason_to_fail(tmp_path, monkeypatch):
    fsync = os.fsync

    def synced(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(22, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    write_atomically(tmp_path / "a.json", b"new")
    assert (tmp_path / "a.json").read_bytes() == b"new"
