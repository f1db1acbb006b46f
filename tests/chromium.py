"""A real Chromium, driven through a pipe by its own protocol: nothing to install but the browser."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

FOUND = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
"""Where it is; None where there is none."""

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--host-resolver-rules=MAP bandits.test 127.0.0.1",  # a name of no secure context, as a machine in a network has
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip


class Chromium:
    """A browser with one page; what it requested and what its console said is kept."""

    def __init__(self, profile: Path) -> None:
        assert FOUND is not None
        there, self._write = os.pipe()
        self._read, back = os.pipe()
        inherited = os.dup(there), os.dup(back)  # away from 3 and 4, which they are to become

        def become() -> None:
            os.dup2(inherited[0], 3)
            os.dup2(inherited[1], 4)

        self._process = subprocess.Popen(
            [FOUND, *FLAGS, f"--user-data-dir={profile}"],
            preexec_fn=become, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (there, back, *inherited):
            os.close(end)
        self._text, self._number, self._session = b"", 0, None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **given: Any) -> Any:
        """Ask it for something; what it answers."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": given}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + 60
        while time.monotonic() < until:
            found = self._next(1.0)
            if found is not None and found.get("id") == self._number:
                assert "error" not in found, found
                return found["result"]
        raise TimeoutError(method)

    def _next(self, seconds: float) -> Any:
        """Its next message, if one comes in time; events are noted."""
        if b"\0" not in self._text and select.select([self._read], [], [], seconds)[0]:
            self._text += os.read(self._read, 2**20)
        if b"\0" not in self._text:
            return None
        own, self._text = self._text.split(b"\0", 1)
        found = json.loads(own)
        self._note(found.get("method"), found.get("params", {}))
        return found

    def _note(self, method: str | None, given: Any) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(given["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(given["args"])[:500])
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])

    def wide(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """How large the window is."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def visit(self, address: str) -> None:
        """Load a page, with all that it needs."""
        self.send("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def value(self, script: str) -> Any:
        """What a line of JavaScript gives, there."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def until(self, script: str, seconds: float = 30.0) -> None:
        """Wait until something is so."""
        end = time.monotonic() + seconds
        while not self._is_so(script):
            if time.monotonic() > end:
                raise TimeoutError(script)
            self._next(0.1)

    def _is_so(self, script: str) -> bool:
        try:
            return bool(self.value(script))
        except AssertionError as error:
            if "navigated or closed" in str(error) or "context was destroyed" in str(error):
                return False  # another page is on its way
            raise

    def click(self, selector: str) -> None:
        """Click with the mouse on the first element that a selector finds."""
        place = self.value(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'center'});"
            " const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        """The whole page as it looks, as a PNG."""
        import base64

        size = self.value("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        found = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        os.close(self._write)
