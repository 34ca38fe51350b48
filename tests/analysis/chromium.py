"""A headless Chromium over its debugging pipe: enough to load a page offline, ask it, press it and photograph it.

The DevTools protocol runs over two inherited pipes, JSON messages ended by a zero byte, so it needs neither a port nor
a websocket package. Leaves out: what is expected of a page.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 60  # seconds


def found() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page; `requests`, `errors` collect what it asked of any network and what its console complained of."""

    def __init__(self, profile: Path) -> None:
        (down, send), (receive, up) = os.pipe(), os.pipe()
        down, up = (fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (down, up))  # clear of 3 and 4, where they go
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        flags += [f"--user-data-dir={profile}", "--disable-background-networking", "--disable-dev-shm-usage"]

        def place() -> None:
            os.dup2(down, 3)
            os.dup2(up, 4)

        self.process = subprocess.Popen(
            [found() or "", *flags, "about:blank"],
            preexec_fn=place,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down), os.close(up)
        self.send, self.receive = os.fdopen(send, "wb", 0), os.fdopen(receive, "rb", 0)
        self.rest, self.number, self.session = b"", 0, ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.seen: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.send.close(), self.receive.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": params}
        message |= {"sessionId": self.session} if self.session else {}
        self.send.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            if not select.select([self.receive], [], [], PATIENCE)[0]:
                raise TimeoutError(f"the browser has said nothing for {PATIENCE} s")
            read = os.read(self.receive.fileno(), 1 << 20)
            if not read:
                raise ConnectionError("the browser has gone")
            self.rest += read
        line, self.rest = self.rest.split(b"\0", 1)
        event = json.loads(line)
        method, params = event.get("method", ""), event.get("params", {})
        self.seen.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.errors.append(json.dumps(params["args"]))
        return event

    def load(self, path: Path, width: int, height: int, dark: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.seen.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while "Page.loadEventFired" not in self.seen:
            self._next()

    def ask(self, expression: str) -> Any:
        """The value of an expression of the page, after the next frame has been drawn."""
        code = f"new Promise(r => requestAnimationFrame(() => setTimeout(() => r({expression}), 0)))"
        answer = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def photograph(self, path: Path, whole: bool = True) -> Path:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path
