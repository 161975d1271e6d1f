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
from typing import Any

import httpx2
import pytest
from starlette.datastructures import Headers

from console.browser import Browser, browsing, find_chromium, serving
from console.scenes import PAGES, UNKNOWN, make_console, make_file, sign_in
from console.test_live import read_events, streaming
from console.visits import SECRET, make_pending, park, visit
from handrail.console import Console, ConsoleConfig
from handrail.console._guard import RequestGuard
from handrail.console._rendering import MENU
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.permissions import Pending
from handrail.runs import RunRecord, open_runs
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


def test_another_port_gets_no_cookie_and_sends_no_answer(browser: Browser, tmp_path: Path) -> None:
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
        browser.events.clear()
        browser.call("Page.navigate", url=f"{evil}/form")
        browser.until(f"location.href.startsWith('{url}')")
        browser.until("document.readyState === 'complete' && !!document.querySelector('h1')")
        refused = browser.evaluate("document.querySelector('h1').innerText")
        answered = open_runs(file).records().receipt(UNKNOWN.id)
        browser.call("Emulation.setScriptExecutionDisabled", value=True)  # it waits for quiet
        browser.open(base + REQUEST)
        browser.press("button[value=approve]")  # the control
        browser.call("Emulation.setScriptExecutionDisabled", value=False)

    assert refused in {"Refused", "This link was used or has expired"}
    assert set(cookies) == {""}
    assert answered is None
    assert open_runs(file).records().receipt(UNKNOWN.id) is not None


FIELDS = (
    "[...document.querySelectorAll('form.answer input[type=hidden]')].map((one) => one.outerHTML)"
)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "the control"])
@pytest.mark.parametrize("place", ["/form", "/sandboxed"])
def test_a_form_of_another_origin_is_refused_though_the_proxy_knows_the_person(
    browser: Browser,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    *,
    guarded: bool,
) -> None:
    """It has the person's own token. A sandboxed frame sends `Origin: null`."""
    file, pages = make_file(tmp_path), dict[str, str]()
    origins = list[str]()
    check = RequestGuard._check_source  # noqa: SLF001  the guard that is tested

    def note(guard: RequestGuard, host: str, headers: Headers) -> None:
        origins.append(headers["origin"])
        if guarded:
            check(guard, host, headers)

    monkeypatch.setattr(RequestGuard, "_check_source", note)
    with serving(partial(make_console, file)) as (url, _), attacking(pages) as (evil, _cookies):
        sign_in(browser)
        browser.open(url + REQUEST)
        fields = "".join(browser.evaluate(FIELDS))
        form = f"<form method=post target=_top action='{url}{REQUEST}'>{fields}"
        form += (
            "<input name=answer value=approve></form><script>document.forms[0].submit()</script>"
        )
        pages["/form"] = form
        quoted = form.replace("&", "&amp;").replace('"', "&quot;")
        rights = "allow-scripts allow-forms allow-top-navigation"
        pages["/sandboxed"] = f'<iframe sandbox="{rights}" srcdoc="{quoted}"></iframe>'
        browser.open("about:blank")  # so that the page that is waited for is not the one before
        browser.call("Page.navigate", url=evil + place)
        browser.until(f"location.href.startsWith('{url}') && !!document.querySelector('h1')")
        heading = browser.evaluate("document.querySelector('h1').innerText")
        answered = open_runs(file).records().receipt(UNKNOWN.id) is not None

    assert origins == [evil if place == "/form" else "null"]
    assert (heading == "Refused", answered) == (guarded, not guarded)


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "the control"])
def test_a_page_is_shown_in_no_frame(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, guarded: bool
) -> None:
    file, pages = make_file(tmp_path), dict[str, str]()
    if not guarded:
        monkeypatch.setattr("handrail.console._guard.HEADERS", {})
    with serving(partial(make_console, file)) as (url, _), attacking(pages) as (evil, _cookies):
        sign_in(browser)
        pages["/"] = f"<iframe src='{url}{REQUEST}'></iframe>"
        browser.open(f"{evil}/")
        [frame] = browser.call("Page.getFrameTree")["frameTree"]["childFrames"]

    shown = frame["frame"]["url"]
    assert shown.startswith("chrome-error:" if guarded else f"{url}{REQUEST}"), shown


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


CANARIES = {name: f"canary-7f3a-{name}" for name in ("args", "result", "environment", "error")}


def make_canaries(file: Path) -> Pending:
    """A run with secrets in arguments, in a result, in what a command says, and in an error."""
    journal = open_runs(file)
    pending = make_pending(
        "r1", args={"key": CANARIES["args"]}, headline=f"Send {CANARIES['args']}"
    )
    park(journal, pending)
    said = {
        "c2": ("", CANARIES["result"]),
        "c3": ("", subprocess.check_output(["env"], encoding="utf-8")),  # noqa: S607
        "c4": ("failed", f"Cannot sign in with {CANARIES['error']}"),
    }
    for call, (kind, text) in said.items():
        at = {"at": 2.0, "call_id": call}
        RunRecord(journal, "r1").note(
            [
                {**at, "event": "requested", "tool": "bash", "args": {}},
                {**at, "event": "started", "attempt": 1},
                {**at, "event": "finished", "kind": kind, "text": text},
            ]
        )
    journal.close()
    return pending


def find_canaries(text: str) -> set[str]:
    """Which secrets a text has."""
    return {name for name, one in CANARIES.items() if one in text}


def test_a_secret_is_seen_only_by_those_who_may_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_TOKEN", CANARIES["environment"])
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "journal.db"
    request = f"/inbox/{to_path(make_canaries(file).id)}"
    pages = ["/inbox", request, f"{request}?full=1", "/runs", "/runs/r1", "/rules?run=r1&call=1"]
    pages += [f"/runs/r1?call={number}" for number in range(1, 5)]
    live = [page for page in pages if not page.startswith("/rules")]
    exports = ["/audit", "/audit/export.csv", "/audit/export.jsonl", "/audit/chain/r1"]
    viewer, approver = visit(file, "viewers"), visit(file, "approvers")
    form = {**approver.form(request), "answer": "approve", "seen": "x"}
    refused = approver.post(request, form).status_code
    broken = approver.post(request, {**form, "csrf": CANARIES["args"]}).status_code
    streams = dict[str, set[str]]()
    with serving(partial(make_console, file)) as (url, _):
        for group in ("viewers", "approvers"):
            for page in live:
                with streaming(url, page, group) as stream:
                    found = find_canaries(next(read_events(stream.iter_lines()))[1])
                streams[group] = streams.get(group, set()) | found
    seen = find_canaries("".join(viewer.get(page).text for page in [*pages, *exports]))
    controls = find_canaries("".join(approver.get(page).text for page in pages))
    exported = find_canaries("".join(visit(file, "auditors").get(page).text for page in exports))

    assert (seen, streams["viewers"], find_canaries(caplog.text)) == (set(), set(), set())
    assert (refused, broken) == (409, 403)
    assert [viewer.get(page).status_code for page in exports] == [404] * 4
    assert "/stream?page=" in caplog.text  # the log of this test has requests
    assert controls == exported == set(CANARIES)  # the controls: each of them is there
    assert streams["approvers"] == {"args"}


OWN, UNKNOWN_ID = to_path(make_pending("r1").id), to_path("none~1~c1~0")
OF_OTHERS = {
    "/inbox/{pending}": f"/inbox/{OWN}",
    "/inbox/{pending}/more": f"/inbox/{OWN}/more",
    "/runs/{run}": "/runs/r1",
    "/audit/chain/{run}": "/audit/chain/r1",
    "/audit/export.jsonl": "/audit/export.jsonl?run=r1",
    "/audit/export.csv": "/audit/export.csv?run=r1",
    "/stream": f"/stream?page=/inbox/{OWN}",
    "/stream of a run": "/stream?page=/runs/r1",
    "/rules of a call": "/rules?run=r1&call=1",
}
LISTS = {"/", "/inbox", "/runs", "/tokens", "/fleet", "/rules", "/audit"}
FORMS = {"/inbox/deny", "/rules/replay", "/audit/verify"}
NO_RUNS = {"/healthz", "/readyz", "/static/{name}"}


def test_every_route_with_an_id_says_the_same_of_what_others_have_and_what_is_unknown(
    file: Path,
) -> None:
    """Lists and forms have tests of their own: a new route must be in one of these tables."""
    found = dict[str, tuple[bool, bool]]()
    with serving(partial(make_console, file)) as (url, console):
        routes: Any = console._guard._app  # noqa: SLF001  the routes there are
        paths = {route.path for route in routes.routes}
        for name, path in OF_OTHERS.items():
            unknown = path.replace(OWN, UNKNOWN_ID).replace("r1", "none")
            answers = [
                read_text(url + path, "others"),
                read_text(url + unknown, "others"),
                read_text(url + path, "admins"),
            ]
            found[name] = answers[0] == answers[1], answers[0] == answers[2]

    assert found == dict.fromkeys(OF_OTHERS, (True, False))
    assert paths == {name for name in OF_OTHERS if " " not in name} | LISTS | FORMS | NO_RUNS
    assert {f"/{name}" for name, _, _ in MENU} <= LISTS
    drawn = {path.partition("?")[0] for path in PAGES.values()}
    assert LISTS - {"/"} <= drawn, "show each page to the browser: PAGES in tests/console/scenes.py"


def read_text(url: str, group: str) -> tuple[int, str]:
    """Return the status of a page and its text; of a stream the start, as it has no end."""
    known = {"x-handrail-secret": SECRET, "x-forwarded-user": "ana", "x-forwarded-groups": group}
    with httpx2.stream("GET", url, headers=known, timeout=60) as found:
        texts = found.iter_text()
        is_live = found.headers["content-type"].startswith("text/event-stream")
        return found.status_code, next(texts) if is_live else "".join(texts)
