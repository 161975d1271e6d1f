"""Hold a run, and use a name once, across all processes."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager

from anyio import to_thread

from handrail.runs._store.database import Database
from handrail.runs._store.liveness import Lock, make_lock
from handrail.runs._store.tables import PUT_NAME
from handrail.runs.journal import RunBusy

CLAIMED = "SELECT 1 FROM handrail_conversation WHERE run = :run AND lease > :now"
"""Finds a run's conversation while a web process runs it."""


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
