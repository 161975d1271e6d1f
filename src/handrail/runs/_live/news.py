"""Notice others' changes to runs, such as answers, before the next look for work.

A missed change costs only time: a worker looks for work in any case.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import anyio
from anyio import to_thread

from handrail._support.loop import running_loop
from handrail.runs._store.database import Database
from handrail.runs._store.port import DatabaseError

_TICK = 0.05
"""Seconds between two file checks."""
_REST = 0.1
"""Seconds without news after some: simultaneous changes are news once."""
_PAUSE = 1.0
"""Seconds before the next try to reach a server."""


async def watch(
    database: Database, tell: Callable[[], None], *, channel: str = "handrail", rest: float = _REST
) -> None:
    """Tell each time the runs have changed.

    Args:
        database: Has the runs.
        tell: Called in the event loop.
        channel: The channel to listen to, on PostgreSQL.
        rest: Seconds without news after some.
    """
    if database.is_postgres:
        await _watch_server(database, tell, channel, rest)
    else:
        await _watch_file(database, tell, rest)


async def _watch_file(database: Database, tell: Callable[[], None], rest: float) -> None:
    """Report writes by other connections to a SQLite file.

    A thread checks the file. An event loop timer would cost more CPU.
    """
    loop: Any = running_loop()
    stop = threading.Event()

    def tell_loop() -> None:
        try:
            loop.call_soon_threadsafe(tell)
        except RuntimeError:  # the loop was closed before this thread was waited for
            stop.set()

    thread = threading.Thread(target=_check, args=(database, stop, tell_loop, rest), daemon=True)
    thread.start()
    try:
        await anyio.sleep_forever()
    finally:
        stop.set()
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(thread.join)  # the file is closed next


def _check(
    database: Database, stop: threading.Event, tell: Callable[[], None], rest: float
) -> None:
    seen: int | None = None
    pause = _TICK
    while not stop.is_set():
        time.sleep(pause)  # cheaper than to wait for the event
        pause = _TICK
        with suppress(DatabaseError):  # looks for work say so
            if (now := database.read_version()) != seen:
                seen, pause = now, rest
                tell()


async def _watch_server(
    database: Database, tell: Callable[[], None], channel: str, rest: float
) -> None:
    """Report changes announced by a process; see ``Database.tell_workers``."""
    while True:
        with suppress(Exception):  # it is away, and looks for work say so
            connection = await to_thread.run_sync(database.listen, channel)
            await _listen(connection, tell, rest)
        await anyio.sleep(_PAUSE)


async def _listen(connection: Any, tell: Callable[[], None], rest: float) -> None:
    with closing(connection):
        while True:
            tell()  # at first too: something may have happened before
            await anyio.sleep(rest)
            await anyio.wait_readable(connection.fileno())
            list(connection.notifies(timeout=0))  # reads what was sent
