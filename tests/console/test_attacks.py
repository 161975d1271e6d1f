"""Attacks from a browser, from a sandbox and from colleagues, each with a control."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from console.browser import Browser, browsing, find_chromium, serving
from console.scenes import UNKNOWN, make_console, make_file
from console.test_browser import until
from console.test_live import read_events, streaming
from console.visits import make_pending, park, visit
from handrail.console import Console, ConsoleConfig
from handrail.console.request import to_path
from handrail.console.store import Store
from handrail.runs import RunRecord, SqliteJournal, open_records
from handrail.sandbox import Sandbox

REQUEST = f"/inbox/{to_path(UNKNOWN.id)}"


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    if find_chromium() is None:
        pytest.skip("needs Chromium")
    with browsing() as made:
        yield made


@contextmanager
def attacking(pages: dict[str, str]) -> Generator[tuple[str, list[str]]]:
    """A dev server on another port of this host, and the cookies that it gets."""
    got = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(self.headers.get("cookie", ""))
            body = pages.get(self.path, "").encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_another_port_gets_no_cookie_sends_no_answer_and_frames_nothing(  # noqa: PLR0915  one story
    browser: Browser, tmp_path: Path
) -> None:
    file = make_file(tmp_path)
    pages = dict[str, str]()
    with (
        serving(lambda _: Console(ConsoleConfig(), Store(str(file)))) as (url, console),
        attacking(pages) as (evil, cookies),
    ):
        browser.set_headers({})
        browser.open(url + console.make_link())
        browser.press("form button")
        base = browser.address.removesuffix("/inbox")
        browser.open(base + REQUEST)
        fields = browser.evaluate(
            "[...document.querySelectorAll('form.answer input[type=hidden]')].map((one) => one.outerHTML).join('')"
        )
        form = f"<form method=post action='{base}{REQUEST}'>{fields}<input name=answer value=approve></form>"
        pages["/form"] = f"{form}<script>document.forms[0].submit()</script>"
        sandboxed = pages["/form"].replace('"', "&quot;")
        pages["/null"] = (
            f'<iframe sandbox="allow-scripts allow-forms" srcdoc="{sandboxed}"></iframe>'
        )
        pages["/frame"] = f"<iframe src='{base}{REQUEST}'></iframe><iframe src='/inner'></iframe>"
        pages["/inner"] = "inner"
        browser.events.clear()
        browser.call("Page.navigate", url=f"{evil}/form")
        until(browser, f"location.href.startsWith('{url}')")
        until(browser, "document.readyState === 'complete' && !!document.querySelector('h1')")
        refused = browser.evaluate("document.querySelector('h1').innerText")
        for page in ("/null", "/frame"):
            browser.open(evil + page)
        inner = "[...document.querySelectorAll('iframe')].map((one) => one.contentDocument && "
        framed = browser.evaluate(f"{inner}one.contentDocument.body.innerText)")
        complaints = list(browser.complaints)
        answered = open_records(file).receipt(UNKNOWN.id)
        browser.call("Emulation.setScriptExecutionDisabled", value=True)  # it waits for quiet
        browser.open(base + REQUEST)
        browser.press("button[value=approve]")  # the control
        browser.call("Emulation.setScriptExecutionDisabled", value=False)

    assert refused in {"Refused", "This link was used or has expired"}
    assert set(cookies) == {""}
    assert framed == [None, "inner"]
    assert any("frame" in one.lower() for one in complaints)
    assert answered is None
    assert open_records(file).receipt(UNKNOWN.id) is not None


async def test_a_tool_in_a_sandbox_cannot_reach_the_console(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    file = make_file(tmp_path)
    with serving(partial(make_console, file)) as (url, _):
        port = url.rpartition(":")[2]
        command = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached"
        process = Sandbox(tmp_path / "inside", tier="bubblewrap").start(command)
        inside = await process.wait()
        outside = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, check=True)  # noqa: ASYNC221, S603, S607

    assert "reached" not in str(inside)
    assert outside.stdout == b"reached\n"  # the control


CANARY = "canary-7f3a"


def test_a_secret_is_seen_only_by_those_who_may_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", f"{CANARY}-environment")
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "journal.db"
    journal = SqliteJournal(file)
    pending = make_pending("r1", args={"key": CANARY}, headline=f"Send {CANARY}")
    park(journal, pending)
    RunRecord(journal, "r1").note(
        [
            {"at": 1.0, "call_id": "c1", "event": "started", "attempt": 1},
            {"at": 2.0, "call_id": "c1", "event": "finished", "kind": "failed", "text": CANARY},
        ]
    )
    request = f"/inbox/{to_path(pending.id)}"
    pages = ["/inbox", request, f"{request}?full=1", "/runs", "/runs/r1", "/runs/r1?call=1"]
    viewer, approver = visit(file, "viewers"), visit(file, "approvers")
    found = [path for path in pages if CANARY in viewer.get(path).text]
    gone = [
        viewer.get(f"/audit{rest}").status_code for rest in ("", "/export.csv", "/export.jsonl")
    ]
    form = {**approver.form(request), "answer": "approve", "seen": "x"}
    refused = approver.post(request, form).status_code
    broken = approver.post(request, {**form, "csrf": CANARY}).status_code
    with serving(partial(make_console, file)) as (url, _):
        for page in pages:
            with streaming(url, page, "viewers") as stream:
                if CANARY in next(read_events(stream.iter_lines()))[1]:
                    found.append(f"stream of {page}")

    assert found == []
    assert (gone, refused, broken) == ([404] * 3, 409, 403)
    assert CANARY in approver.get(request).text  # the control
    assert CANARY not in caplog.text
