"""The methods a store needs to be watched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Protocol

from handrail.runs._store.database import Database
from handrail.runs._store.port import Values
from handrail.runs.journal import JournalEntry, RunHead


class WatchedStore(Protocol):
    """Reads runs. Its methods block."""

    @property
    def database(self) -> Database:
        """Has the runs."""
        ...

    @property
    def readers(self) -> MutableMapping[Any, Any]:
        """The readers, by event loop."""
        ...

    def head(self, run: str) -> RunHead | None:
        """Return a run's head."""
        ...

    def read(
        self, run: str, *, after: int = 0, kinds: Iterable[str] = ()
    ) -> Iterator[JournalEntry]:
        """Yield a run's entries."""
        ...

    def select(self, sql: str, values: Values) -> Sequence[tuple[Any, ...]]:
        """Return a query's rows."""
        ...
