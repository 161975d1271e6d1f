"""A journal with every kind of request and run, for pictures and for a browser."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.test_inbox import COMMAND, EDIT, HUGE, LONG
from console.visits import BEHIND_A_PROXY, SECRET, make_pending, park
from handrail.console import Console
from handrail.console._request import to_path
from handrail.console._store import Store
from handrail.permissions import Grade
from handrail.policy import Rulebook
from handrail.runs import RunRecord, RunStore, open_runs
from replying import Way, stream_lines

ODD = make_pending(
    "c03f5e",
    "c7",
    args={
        "order": "88213",
        "reason": "Customer reports double charge.\u202eesaeler\u202c",
        "notify": ["billing@example.com"],
        "user": "p\u0430ypal",
    },
)
UNKNOWN = make_pending(
    "55aa1b",
    "c22",
    tool="bash",
    args={"command": "docker ps --format json"},
    headline="Run docker ps",
    grade=Grade.UNKNOWN,
)
ANSWERED = make_pending("9c41d2", "c9")


def make_file(folder: Path, way: Way = "whole") -> Path:
    """Write the journal."""
    file = folder / "journal.db"
    journal = open_runs(file)
    park(journal, COMMAND, EDIT, LONG, HUGE)
    park(journal, ODD)
    park(journal, UNKNOWN)
    park(journal, ANSWERED)
    given = {"pending": ANSWERED.id, "answer": "allow", "by": "proxy|jo", "via": "console"}
    RunRecord(journal, "9c41d2").note([{"event": "answer", "at": time.time(), **given}])
    record(journal, way)
    journal.close()
    return file


def record(journal: RunStore, way: Way) -> None:
    """A run that has ended, with waits, a denial and a retry."""
    run = RunRecord(journal, "ab12cd")
    run.set_status(
        status="running", agent="coder", prompt="Make the tests pass, then push.", labels=[]
    )
    at = 1_763_350_000.0
    lines: list[dict[str, Any]] = [
        {"at": at, "event": "prompt", "text": "Make the tests pass, then push."},
        {
            "at": at + 2,
            "event": "reply",
            "turn": 1,
            "seconds": 2.0,
            "model": "m",
            "stop": "tools",
            "usage": {"input_tokens": 3210, "output_tokens": 96},
            "calls": ["c1", "c2", "c3"],
            "text": "I read the parser and run its tests.",
        },
    ]
    for number, (tool, kind) in enumerate([("bash", ""), ("read_file", ""), ("bash", "denied")], 1):
        call, start = {"turn": 1, "call_id": f"c{number}"}, at + 2 + number
        lines.append({"at": start, "event": "requested", "tool": tool, "args": {"n": 1}, **call})
        word = "deny" if kind else "allow"
        origin = {"rule": "no-force", "file": "rules.toml", "line": 12}
        lines.append({"at": start, "event": "decided", "decision": word, "origin": origin, **call})
        if number == 2:
            lines.append({"at": start, "event": "waiting", "on": ["c1"], **call})
        if number == 1:
            lines.append({"at": start, "event": "answered", "answer": "allow", **call})
        if not kind:
            lines.append({"at": start + number, "event": "started", "attempt": 1, **call})
        lines.append({"at": start + 4, "event": "finished", "kind": kind, "text": "done", **call})
    run.note(stream_lines(way, lines))
    run.set_status(status="done", reason="answer")


PAGES = {
    "inbox": "/inbox",
    "mcp": f"/inbox/{to_path(ODD.id)}",
    "command": f"/inbox/{to_path(COMMAND.id)}",
    "edit": f"/inbox/{to_path(EDIT.id)}",
    "long": f"/inbox/{to_path(LONG.id)}",
    "unknown": f"/inbox/{to_path(UNKNOWN.id)}",
    "answered": f"/inbox/{to_path(ANSWERED.id)}",
    "more": f"/inbox/{to_path(COMMAND.id)}/more",
    "runs": "/runs",
    "run": "/runs/ab12cd?call=2",
    "tokens": "/tokens?days=30",
    "audit": "/audit",
    "fleet": "/fleet",
    "rules": "/rules?run=ab12cd&call=3",
    "missing": "/nothing",
}


def make_console(file: Path, host: str, *, page_size: int = 100) -> Console:
    """A console behind a proxy that the browser plays."""
    config = replace(BEHIND_A_PROXY, hosts=(host,), https=False, page_size=page_size)
    rules = Rulebook.from_toml('[[rule]]\nid = "no-force"\ndecide = "deny"\ntools = ["bash"]\n')
    return Console(config, Store(str(file)), rules=lambda: rules)


def sign_in(browser: Any, group: str = "admins") -> None:
    """Send what a proxy sends for a person of a group."""
    browser.set_headers(
        {
            "x-handrail-secret": SECRET,
            "x-forwarded-user": "ana",
            "x-forwarded-groups": group,
        }
    )
