"""A ledger in the file of a journal: each approval can be used once, across processes."""

from __future__ import annotations

import hashlib

from anyio import to_thread

from handrail.runs.sqlite import SqliteJournal


class SqliteLedger:
    """Records which approvals were used, and which calls ended, in the file of a journal."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal

    async def claim(self, pending_id: str, by: str, /) -> bool:
        """Record that an approval is used. Returns False if another run has used it."""
        return await to_thread.run_sync(self._claim, _name("claim", pending_id), _digest(by))

    async def end(self, call_key: str, /) -> None:
        """Record that a pending call has its result."""
        await to_thread.run_sync(self._claim, _name("end", call_key), "")

    async def ended(self, call_key: str, /) -> bool:
        """Return whether a pending call has its result."""
        return await to_thread.run_sync(self._exists, _name("end", call_key))

    def _claim(self, name: str, claimant: str) -> bool:
        with self._journal.write() as connection:
            connection.execute("INSERT OR IGNORE INTO approvals VALUES (?, ?)", (name, claimant))
            query = "SELECT claimant FROM approvals WHERE name = ?"
            return bool(connection.execute(query, (name,)).fetchone()[0] == claimant)

    def _exists(self, name: str) -> bool:
        with self._journal.write() as connection:
            query = "SELECT 1 FROM approvals WHERE name = ?"
            return connection.execute(query, (name,)).fetchone() is not None


def _name(space: str, key: str) -> str:
    """Return a name for any key. Each space has different names."""
    return _digest(f"{space} {key}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
