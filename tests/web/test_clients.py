"""The clients of other protocols read our streams: AG-UI's, and the AI SDK's of Vercel."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from handrail.runs.durable import DurableRuns
from handrail.web import ChatApp, Visitor
from web.chats import ORIGIN, REFUNDS, serving, shop_agent

MODULES = Path(sys.prefix, "node_modules")
"""`make setup` installs them."""


def identify(request: Any) -> Visitor | None:
    """Each person answers their own requests."""
    _, _, name = request.headers.get("authorization", "").partition(" ")
    return Visitor(principal=name, answers=lambda pending: pending.principal == name)


async def talk(script: str, url: str) -> Any:
    """Run a client's program, and return what it prints."""
    node = shutil.which("node") or str(Path(sys.prefix, "bin", "node"))
    command = [node, str(Path(__file__).with_name(script)), str(MODULES), url]

    def run() -> str:
        done = subprocess.run(  # noqa: S603  ours
            command, capture_output=True, text=True, encoding="utf-8", timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return json.loads(await to_thread.run_sync(run))


@pytest.fixture(params=["process", "workers"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def talk_to(kind: str, database: str, script: str) -> Any:
    REFUNDS.clear()
    options: Any = {"origins": [ORIGIN], "details": True}
    if kind == "process":
        async with serving(ChatApp(shop_agent(), identify, database=database, **options)) as url:
            return await talk(script, url)
    runs = DurableRuns(database, {"shop": shop_agent()}, poll=0.05)
    app = ChatApp(runs, identify, agent="shop", **options)
    async with runs, runs.work(interval=0.1), serving(app) as url:
        return await talk(script, url)


async def test_the_ai_sdk_reads_text_calls_and_approvals(kind: str, sqlite: str) -> None:
    said = await talk_to(kind, sqlite, "ui_messages.mjs")

    denied = said[-1][1][2][3]
    assert "Too much." in denied
    assert said == [
        ["user", ["hello there"]],
        ["assistant", ["step-start", "1: hello there "]],
        ["user", ["refund o1 500"]],
        ["assistant", [
            "step-start", "One moment. ",
            ["refund", "output-available", {"order": "o1", "amount": 500}, "refunded 500"],
            "step-start", "Done: refunded 500 ",
        ]],
        ["user", ["refund o2 700"]],
        ["assistant", [
            "step-start", "One moment. ",
            ["refund", "output-error", {"order": "o2", "amount": 700}, denied],
            "step-start", f"Done: {denied} ",
        ]],
    ]  # fmt: skip
    assert [one[:2] for one in REFUNDS] == [("o1", 500)]


async def test_ag_ui_reads_text_calls_and_interrupts(kind: str, sqlite: str) -> None:
    said = await talk_to(kind, sqlite, "ag_ui.mjs")

    assert said["outcomes"] == ["success", "interrupt", "success", "interrupt", "success"]
    assert said["asked"] == [["tool_approval", "Refund 500?", "c3"]]
    texts = [content for role, content, *_ in said["messages"] if role == "assistant" and content]
    calls = [one for message in said["messages"] for one in message[2:]]
    tools = [content for role, content, *_ in said["messages"] if role == "tool"]
    assert texts[:3] == ["1: hello there ", "One moment. ", "Done: refunded 500 "]
    assert calls == [
        ["refund", {"order": "o1", "amount": 500}],
        ["refund", {"order": "o2", "amount": 700}],
    ]
    assert tools[0] == "refunded 500"
    assert "Too much." in tools[1]
    assert [one[:2] for one in REFUNDS] == [("o1", 500)]
