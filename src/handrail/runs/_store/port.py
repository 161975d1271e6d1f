"""The part of a database that runs use: statements with named values, and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from handrail.runs.journal import JournalError

Values: TypeAlias = Mapping[str, Any]
"""The values of a statement, by the names that it has as ``:name``."""
Select: TypeAlias = Callable[[str, Values], Sequence[tuple[Any, ...]]]
"""Returns the rows of a query."""
Step: TypeAlias = tuple[str, list[dict[str, Any]]]
"""A statement, and the values of each of its executions."""
FIND_TABLE = (
    "SELECT 1 FROM sqlite_master WHERE name = :name",
    "SELECT 1 WHERE to_regclass(:name) IS NOT NULL",
)
"""A query that has a row if a table exists: in SQLite, and in PostgreSQL."""


class DatabaseError(JournalError):
    """The database cannot be reached, or refuses a statement."""


class DatabaseAway(DatabaseError):
    """The database was reached before, and cannot be reached now."""


class DatabaseDenied(DatabaseError):
    """The role may not do this."""


class Driver(Protocol):
    """Runs statements in the thread of its caller. Raises DatabaseError."""

    def read(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        ...

    def write(self, sql: str, values: Values) -> int:
        """Run a statement, and return the number of changed rows."""
        ...

    def transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in one transaction, and return the number of rows that each changed.

        If one of the first ``guards`` changes no row, nothing is changed, and the list is empty.
        """
        ...

    def read_version(self) -> int | None:
        """Return a number that changes with each commit of others; None if there is none."""
        ...

    def tell_workers(self) -> None:
        """Tell those that listen that something has changed, if they do not see it themselves."""
        ...

    @property
    def begin_alone(self) -> tuple[str, ...]:
        """The statements that begin a transaction which no other process has at the same time."""
        ...

    def check_sessions(self) -> None:
        """Raise a HandrailError if connections do not keep their sessions."""
        ...

    def run_alone(self, choose: Callable[[Select], Iterable[str]]) -> None:
        """Run the statements that a function chooses, in such a transaction."""
        ...

    def close(self) -> None:
        """Close the connections that no one uses."""
        ...
