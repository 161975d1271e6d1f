"""Notice that someone has changed the runs, such as with an answer, before the next look for work.

A change that is missed costs time only: a worker looks for work in any case.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from handrail._support.loop import running_loop
from handrail.runs._store.database import Database

_TICK = 0.05
"""Seconds between two looks at a file, and after something was told."""
_PAUSE = 1.0
"""Seconds before the next try to reach a server."""


async def watch(database: Database, tell: Callable[[], None]) -> None:
    """Tell each time the runs have changed."""
    if database.is_postgres:
        await _watch_server(database, tell)
    else:
        await _watch_file(Path(f"{database.path}-wal"), tell)


async def _watch_file(log: Path, tell: Callable[[], None]) -> None:
    """Tell when someone has written to the log of a SQLite file: each commit does.

    A thread looks at the file. A timer of the event loop would cost more CPU.
    """
    loop: Any = running_loop()
    stop = threading.Event()
    told = partial(loop.call_soon_threadsafe, tell)
    threading.Thread(target=_check, args=(log, stop, told), daemon=True).start()
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()


def _check(log: Path, stop: threading.Event, tell: Callable[[], None]) -> None:
    seen = _look_at(log)
    while not stop.is_set():
        time.sleep(_TICK)  # cheaper than to wait for the event
        if (now := _look_at(log)) != seen:
            seen = now
            with suppress(RuntimeError):  # the loop has just ended
                tell()


def _look_at(log: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        about = os.stat(log)  # noqa: PTH116  it costs half as much as a method of the path
        return about.st_mtime_ns, about.st_size
    return None


async def _watch_server(database: Database, tell: Callable[[], None]) -> None:
    """Tell when a process says that it has changed something; see ``Database.tell_workers``."""
    while True:
        with suppress(Exception):  # it is away, and looks for work say so
            await _listen(await to_thread.run_sync(database.listen), tell)
        await anyio.sleep(_PAUSE)


async def _listen(connection: Any, tell: Callable[[], None]) -> None:
    with closing(connection):
        while True:
            tell()  # at first too: something may have happened before
            await anyio.sleep(_TICK)
            await anyio.wait_readable(connection.fileno())
            list(connection.notifies(timeout=0))  # reads what was sent
