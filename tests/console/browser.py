"""A real Chromium, driven over its debugging port; and pictures of every page.

`python tests/console/browser.py` draws the picture of the README anew. With FOLDER, it also draws each page at 390 and 1280
pixels there, light and dark.
"""

from __future__ import annotations

import atexit
import base64
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
from websockets.sync.client import ClientConnection, connect

from handrail.console import Console, serve

WIDTHS = (390, 1280)
_SECONDS = 60
_KEY_CODES = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}


def find_chromium() -> str | None:
    """Return the program, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One tab of a Chromium."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []
        for part in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{part}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and return its result."""
        message = self._send(method, params)
        assert "error" not in message, message
        return dict(message["result"])

    def _send(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message: dict[str, Any] = json.loads(self._connection.recv(timeout=_SECONDS))
            if message.get("id") == number:
                return message
            self.events.append(message)

    def open(self, url: str) -> None:
        """Open a page, and wait until it has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        self.wait("Page.loadEventFired")

    def press(self, selector: str) -> None:
        """Press a button that leads to another page, and wait until that has loaded."""
        self.events.clear()
        self.evaluate(f"document.querySelector({selector!r}).click()")
        self.wait("Page.loadEventFired")

    def wait(self, method: str) -> None:
        """Wait until the browser has reported an event. It does nothing for this meanwhile."""
        while not any(event["method"] == method for event in self.events):
            self.events.append(json.loads(self._connection.recv(timeout=_SECONDS)))

    def type(self, *keys: str) -> None:
        """Press keys of the keyboard, each down and up again: letters, or names such as Tab."""
        for key in keys:
            code = _KEY_CODES.get(key, 0)
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            params = {"key": key, "windowsVirtualKeyCode": code, "text": text}
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **params)
            self.call("Input.dispatchKeyEvent", type="keyUp", **params)

    @property
    def address(self) -> str:
        """The address of the page."""
        return str(self.evaluate("location.href"))

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until something holds in the page. While another page comes, nothing holds."""
        end = time.monotonic() + _SECONDS
        params = {"expression": expression, "returnByValue": True}
        while True:
            found = self._send("Runtime.evaluate", params)
            if "result" in found and found["result"]["result"].get("value"):
                return
            assert time.monotonic() < end, (expression, found)
            time.sleep(0.01)

    def resize(self, width: int, *, dark: bool = False, forced: bool = False) -> None:
        """Set the width of the window, the color scheme, and whether the system sets all colors."""
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        colors = {"name": "forced-colors", "value": "active" if forced else "none"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, colors])

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with every request, as a proxy does."""
        self.call("Network.setExtraHTTPHeaders", headers=dict(headers))

    def draw(self, file: Path, *, whole: bool = True) -> None:
        """Write a picture of the whole page, or of what the window shows."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(found["data"]))

    @property
    def hosts(self) -> set[str]:
        """The hosts that the page asked."""
        urls = [
            str(event["params"]["request"]["url"])
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return {url.split("/")[2] for url in urls if not url.startswith("data:")}

    @property
    def complaints(self) -> list[str]:
        """What the browser reports: violations of the policy, and errors."""
        return [
            str(event["params"]["entry"]["text"])
            for event in self.events
            if event["method"] == "Log.entryAdded"
        ]


@cache
def _start_chromium() -> str:
    """Start a Chromium that ends with this process, and return its address for debugging."""
    program = find_chromium()
    assert program is not None
    folder = tempfile.mkdtemp(prefix="chromium-")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"]
    options += [f"--user-data-dir={folder}", "--no-first-run", "--disable-extensions"]
    options += ["--disable-background-networking", "--disable-component-update", "about:blank"]
    process = subprocess.Popen(  # noqa: S603  the browser of the system
        [program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    atexit.register(_end_chromium, os.getpid(), process, folder)
    ports = Path(folder, "DevToolsActivePort")
    until = time.monotonic() + _SECONDS
    while not (ports.exists() and "\n" in ports.read_text(encoding="utf-8")):
        assert time.monotonic() < until, "Chromium did not start"
        time.sleep(0.05)
    port, path = ports.read_text(encoding="utf-8").split("\n")
    return f"ws://127.0.0.1:{port}{path}"


def _end_chromium(owner: int, process: subprocess.Popen[bytes], folder: str) -> None:
    if os.getpid() == owner:  # not a fork of it
        process.terminate()
        process.wait(_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def browsing() -> Generator[Browser]:
    """Open a tab in a profile of its own, and close both."""
    address = _start_chromium()
    with connect(address, max_size=None) as connection:
        numbers = itertools.count(1)

        def call(method: str, **params: Any) -> dict[str, Any]:
            number = next(numbers)
            connection.send(json.dumps({"id": number, "method": method, "params": params}))
            while (got := json.loads(connection.recv(timeout=_SECONDS))).get("id") != number:
                pass
            return dict(got["result"])

        profile = call("Target.createBrowserContext")["browserContextId"]
        try:
            tab = call("Target.createTarget", url="about:blank", browserContextId=profile)
            page = f"{address.partition('/devtools/')[0]}/devtools/page/{tab['targetId']}"
            with connect(page, max_size=None) as own:
                yield Browser(own)
        finally:
            call("Target.disposeBrowserContext", browserContextId=profile)


@contextmanager
def serving(make: Any) -> Generator[tuple[str, Console]]:
    """Serve a console in a thread. ``make`` gets its host, and returns the console."""
    listening = socket.create_server(("127.0.0.1", 0))
    host = f"127.0.0.1:{listening.getsockname()[1]}"
    console: Console = make(host)
    ended = threading.Event()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(serve, console, listening)
            await anyio.to_thread.run_sync(ended.wait)
            group.cancel_scope.cancel()

    thread = threading.Thread(target=anyio.run, args=(run,), daemon=True)
    thread.start()
    try:
        yield f"http://{host}", console
    finally:
        ended.set()
        thread.join(_SECONDS)
        listening.close()
        assert not thread.is_alive(), "the console did not end"


def draw_all(folder: Path) -> None:
    """Draw every page, for people to look at."""
    from console.scenes import PAGES, make_console, make_file, sign_in

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        file = make_file(Path(place))
        with serving(partial(make_console, file)) as (url, _), browsing() as browser:
            sign_in(browser)
            for name, path in PAGES.items():
                for width, dark in itertools.product(WIDTHS, (False, True)):
                    browser.resize(width, dark=dark)
                    browser.open(url + path)
                    browser.draw(folder / f"{name}-{width}{'-dark' if dark else ''}.png")


def draw_phone(picture: Path) -> None:
    """Draw the request that the README shows, on a phone."""
    from console.scenes import PAGES, make_console, make_file, sign_in

    picture.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        file = make_file(Path(place))
        with serving(partial(make_console, file)) as (url, _), browsing() as browser:
            sign_in(browser)
            browser.resize(390, dark=True)
            browser.open(url + PAGES["mcp"])
            browser.draw(picture, whole=False)


PHONE = Path(__file__).parents[2] / "docs/production/pictures/request-phone-dark.png"

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    draw_phone(PHONE)
    for words in sys.argv[1:]:
        draw_all(Path(words))
