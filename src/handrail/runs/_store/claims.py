"""Hold a run, and use a name once, across all processes."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import anyio
from anyio import to_thread

from handrail.permissions import Ledger
from handrail.runs._store.database import Database
from handrail.runs._store.liveness import Lock, make_lock
from handrail.runs._store.port import DatabaseError
from handrail.runs._store.tables import PUT_NAME
from handrail.runs.journal import RunBusy

CLAIMED = "SELECT 1 FROM handrail_conversation WHERE run = :run AND lease > :now"
"""Finds a run's conversation while a web process runs it."""
log = logging.getLogger("handrail.runs")

_T = TypeVar("_T")
PAUSES = (1, 2, 4, 8, 15, 30, 60, 60, 60, 60)
"""Seconds before a worker repeats what the database refused: five minutes in all."""


class StoredLedger:
    """Records which approvals were used, and which calls ended; see ``Ledger``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, name: str, by: str, /) -> bool:
        """Use an approval. Returns False if another claimant has used it."""
        claimant = as_name(by)
        return await to_thread.run_sync(self._add, as_name(f"claim {name}"), claimant) == [claimant]

    async def end(self, call_key: str, /) -> None:
        """Record a pending call's result."""
        await to_thread.run_sync(self._add, as_name(f"end {call_key}"), "")

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        return bool(await to_thread.run_sync(self._find, as_name(f"end {call_key}")))

    def _add(self, name: str, by: str) -> list[str]:
        """Add a name unless it exists, and return who has it."""
        self._database.transact_now([(PUT_NAME, [{"name": name, "by": by}])], 0)
        return self._find(name)

    def _find(self, name: str) -> list[str]:
        sql = "SELECT claimant FROM handrail_approval WHERE name = :name"
        return [row[0] for row in self._database.read_now(sql, {"name": name})]


class PatientLedger:
    """A worker's ledger: it waits for a database refusing to record an approval.

    A person has given that approval. Without its record, the call would not run.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def claim(self, name: str, by: str, /) -> bool:
        """Use an approval. Returns False if another claimant has used it."""
        return await _repeat(partial(self._ledger.claim, name, by))

    async def end(self, call_key: str, /) -> None:
        """Record a pending call's result."""
        await _repeat(partial(self._ledger.end, call_key))

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        return await _repeat(partial(self._ledger.ended, call_key))


async def _repeat(work: Callable[[], Awaitable[_T]]) -> _T:
    for pause in PAUSES:
        try:
            return await work()
        except DatabaseError:
            log.exception("an approval is recorded again in %d seconds", pause)
        await anyio.sleep(pause)
    return await work()


def make_run_lock(database: Database, run: str) -> Lock:
    """Return the lock for the process working on a run. The system releases it at its death."""
    return make_lock(database, f"run-{_digest(run)}")


@contextmanager
def hold_run(database: Database, run: str) -> Generator[None]:
    """Hold a run for this process. Raises RunBusy if another process holds it."""
    lock = make_run_lock(database, run)
    if not lock.take():
        raise RunBusy(f"Another process is working on run {run}.")
    try:
        yield
    finally:
        lock.release()


def as_name(text: str) -> str:
    """Return a text every database can store: for some texts, their digest."""
    return text if text.isprintable() else _digest(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
