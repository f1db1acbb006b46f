"""The campaign that is played live against its own service: it starts, can be looked at, and stops cleanly."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

EXAMPLE = Path(__file__).parents[2] / "examples" / "live_campaign.py"


def test_the_live_campaign_is_served_and_stops_cleanly_while_somebody_looks() -> None:
    process = subprocess.Popen(
        [sys.executable, str(EXAMPLE), "--port", "0", "--rate", "100"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().split()[1])
        watching = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=30)
        _first_events(watching, f"{address.path}/live")
        process.send_signal(signal.SIGINT)  # as Ctrl-C; the page's connection is still open
        out, err = process.communicate(timeout=30)
        watching.close()
        assert (process.returncode, err) == (0, "")
        assert "Stopped: Study(c-ts(prior=beta, samples=32)," in out
        assert "Differences: none" in out
    finally:
        process.kill()
        process.communicate()


def _first_events(connection: http.client.HTTPConnection, path: str) -> None:
    """Wait until the page's stream has told of some."""
    until = time.monotonic() + 60
    while True:
        try:
            connection.request("GET", path)
            break
        except OSError:  # it starts
            connection.close()
            assert time.monotonic() < until
            time.sleep(0.1)
    stream = connection.getresponse()
    while time.monotonic() < until:
        line = stream.readline().decode()
        if line.startswith("data:") and int(line[5:]) > 50:
            return
    raise AssertionError("Nothing happens.")
