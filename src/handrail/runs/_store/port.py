"""The database interface for runs: statements with named values, and their errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from handrail.runs.journal import JournalError

Values: TypeAlias = Mapping[str, Any]
"""A statement's values, by their names as in ``:name``."""
Select: TypeAlias = Callable[[str, Values], Sequence[tuple[Any, ...]]]
"""Returns a query's rows."""
Step: TypeAlias = tuple[str, list[dict[str, Any]]]
"""A statement, and the values for each execution."""
Transact: TypeAlias = Callable[[Sequence[Step], int], Awaitable[list[int]]]
"""Runs statements in one transaction; see ``Driver.transact``."""
FIND_TABLE = (
    "SELECT 1 FROM sqlite_master WHERE name = :name",
    "SELECT 1 WHERE to_regclass(:name) IS NOT NULL",
)
"""A query with a row if a table exists: in SQLite, and in PostgreSQL."""


class DatabaseError(JournalError):
    """The database cannot be reached, or refuses a statement."""


class DatabaseAway(DatabaseError):
    """The database was reached before, and cannot be reached now."""


class DatabaseReplica(DatabaseError):
    """The database is a replica, which does not have this table's rows."""


class DatabaseDenied(DatabaseError):
    """The role may not do this."""


class Driver(Protocol):
    """Runs statements in the caller's thread. Raises DatabaseError."""

    def read(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """Return a query's rows."""
        ...

    def write(self, sql: str, values: Values) -> int:
        """Run a statement, and return the number of changed rows."""
        ...

    def transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in one transaction, and return how many rows each changed.

        If one of the first ``guards`` changes no row, nothing is changed, and the list is empty.
        """
        ...

    def transact_on(self, connection: Any, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in another connection's transaction, which its holder ends.

        If the list is empty, the holder undoes the transaction.
        """
        ...

    def beside(self) -> AbstractContextManager[None]:
        """Return a block for another connection's transaction, which raises our errors."""
        ...

    def read_version(self) -> int | None:
        """Return a number changing with each commit by others, or None."""
        ...

    def tell_workers(self) -> None:
        """Notify listeners of changes, if they do not see them themselves."""
        ...

    @property
    def begin_alone(self) -> tuple[str, ...]:
        """The statements beginning a transaction that no other process has at the same time."""
        ...

    def check_sessions(self) -> None:
        """Raise a HandrailError if connections do not keep their sessions."""
        ...

    def run_alone(self, choose: Callable[[Select], Iterable[str]]) -> None:
        """Run the statements a function chooses, in such a transaction."""
        ...

    def close(self) -> None:
        """Close unused connections."""
        ...
