"""notify: a webhook hears of each call that waits, and nothing of its content."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from handrail import Allow, Ask, Call, Executor, Toolset, tool
from handrail.approvals import defer
from handrail.hooks import notify
from handrail.permissions import Pending


@tool
def refund(order: str) -> str:
    """Refund an order."""
    return order


@contextmanager
def webhook(status: int = 200) -> Generator[tuple[str, list[Any]]]:
    """A server on loopback, and what it was sent."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            got.append((self.path, self.headers["content-type"], json.loads(body)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def link(pending: Pending) -> str:
    return f"https://console.example/inbox/{pending.call.id}"


async def test_a_call_that_waits_is_told_without_its_content() -> None:
    with webhook() as (url, got):
        hooks = [notify(f"{url}/hook", link=link)]
        asks = Executor(
            Toolset(refund), policy=lambda _: Ask("Secret?"), approvals=defer, hooks=hooks
        )
        allows = Executor(Toolset(refund), policy=lambda _: Allow(), hooks=hooks)
        waits = await asks.run(Call("refund", {"order": "secret"}, "c1"))
        runs = await allows.run(Call("refund", {"order": "secret"}, "c2"))
        own = [notify(f"{url}/own", link=link, text=lambda one: one.question)]
        more = Executor(Toolset(refund), policy=lambda _: Ask("May I?"), approvals=defer, hooks=own)
        await more.run(Call("refund", {"order": "1"}, "c3"))

    assert waits.pending is not None
    assert runs.text == "secret"
    place, kind, body = got[0]
    text = f"A call waits for approval ({body['grade']}): https://console.example/inbox/c1"
    assert (place, kind) == ("/hook", "application/json")
    assert body == {
        "text": text,
        "grade": waits.pending.grade.name.lower(),
        "run": waits.pending.run_id,
        "link": "https://console.example/inbox/c1",
    }
    assert "ecret" not in json.dumps(body)
    assert [(place, body["text"]) for place, _, body in got[1:]] == [("/own", "May I?")]


@pytest.mark.parametrize(("status", "error"), [(500, "HTTPError"), (0, "BadStatusLine")])
async def test_a_webhook_that_fails_changes_nothing(
    caplog: pytest.LogCaptureFixture, status: int, error: str
) -> None:
    with webhook(status) as (url, got), caplog.at_level(logging.WARNING, "handrail.hooks"):
        hooks = [notify(url, link=link)]
        executor = Executor(
            Toolset(refund), policy=lambda _: Ask("?"), approvals=defer, hooks=hooks
        )
        result = await executor.run(Call("refund", {"order": "1"}, "c1"))

    assert (result.pending is not None, len(got)) == (True, 1)
    assert [one.getMessage() for one in caplog.records] == [
        f"the webhook for approvals failed: {error}"
    ]


@pytest.mark.parametrize(
    "url", ["http://example.com", "file:///etc/passwd", "http://127.0.0.1:1@a/"]
)
def test_a_webhook_is_of_https_or_of_this_machine(url: str) -> None:
    with pytest.raises(ValueError, match="needs https"):
        notify(url, link=link)


@pytest.mark.parametrize("url", ["http://localhost/", "http://127.0.0.2:1/", "http://[::1]/"])
def test_a_webhook_on_this_machine_needs_no_https(url: str) -> None:
    assert notify(url, link=link).after is not None
