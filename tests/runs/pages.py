"""What the pages of a console read, and how many statements that takes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from handrail.runs import Records

PAGES: dict[str, Callable[[Records], object]] = {
    "inbox": lambda records: (records.inbox(), records.request("r~1~c1~0")),
    "second page of the inbox": lambda records: records.inbox(after=records.inbox().next),
    "receipt": lambda records: records.receipt("r~1~c1~0"),
    "runs": lambda records: (records.runs(), records.figures()),
    "run": lambda records: (
        records.run("r"),
        records.turns("r"),
        records.parts("r"),
        records.calls("r"),
    ),
    "call": lambda records: (records.run("r"), records.call("r", 1)),
    "audit": lambda records: records.events(),
    "rules": lambda records: records.rules(),
    "tokens": lambda records: records.tokens(),
    "fleet": lambda records: records.fleet(),
}


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Collect the statements of connections to SQLite that are opened inside."""
    seen: list[str] = []
    connect: Any = sqlite3.connect

    def open_(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(seen.append)
        return connection

    with monkeypatch.context() as patched:
        patched.setattr(sqlite3, "connect", open_)
        yield seen
