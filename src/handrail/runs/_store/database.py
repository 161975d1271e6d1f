"""The run database: statements in a few threads, transactions, and retries."""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from handrail import HandrailError
from handrail._support.own_files import note_database
from handrail.runs._sealing.codec import Codec
from handrail.runs._sealing.statements import Seals
from handrail.runs._store.port import (
    FIND_TABLE,
    DatabaseAway,
    DatabaseDenied,
    DatabaseError,
    Driver,
    Select,
    Step,
    Values,
)
from handrail.runs._store.sqlite import BUSY_SECONDS, SqliteFile
from handrail.runs._store.threads import Threads, Undone

log = logging.getLogger("handrail.runs")

_T = TypeVar("_T")
RETRY_SECONDS = 20.0
"""How long a statement is retried while the database is away."""
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 2.0
"""Seconds between two tries."""
_READERS = 2
WRITERS = 8
"""How many statements write at once, on PostgreSQL. Each waits until its commit is on the disk."""
_SQLITE, _POSTGRES = "sqlite:///", "postgresql://"


class Database:
    """Runs statements of coroutines. Each is a transaction.

    A statement on a lost connection is retried, so every statement must be one that can be
    repeated. Raises DatabaseError.

    Args:
        address: A path of a SQLite file, or a URL that begins with ``sqlite:`` or ``postgresql:``.
        read_only: Whether the database refuses to write. PostgreSQL then also refuses to work for
            more than two seconds.
        busy_seconds: Seconds to wait for another process that writes to a file.
        writers: How many statements write at once, on PostgreSQL.
        codec: Seals texts before they are stored.
    """

    def __init__(
        self,
        address: str,
        *,
        read_only: bool = False,
        busy_seconds: float = BUSY_SECONDS,
        writers: int = WRITERS,
        codec: Codec | None = None,
    ) -> None:
        if writers < 1:
            raise ValueError(f"`writers` must be at least 1, not {writers}.")
        self.url = as_url(address)
        self.seals = Seals(codec)
        self.is_postgres = self.url.startswith(_POSTGRES)
        self._driver: Driver
        self._alone: Callable[[], AbstractContextManager[object]] = nullcontext
        if self.is_postgres:
            self._driver = _open_postgres(self.url, read_only=read_only)
            self._writers = Threads(writers)
        else:
            note_database(self.path)
            self._driver = file = SqliteFile(
                self.path, read_only=read_only, busy_seconds=busy_seconds
            )
            self._alone = file.together
            self._writers = Threads(1, file.together)
            """SQLite has one writer. Statements that wait at the same time share one disk sync."""
        self._readers = Threads(_READERS)
        self._has_engine = False
        self._has_deadline = True
        self.errors: Counter[str] = Counter()
        """How many statements failed: the database was ``away``, or ``refused`` them."""

    def without_deadline(self) -> Database:
        """Return the same database for what must not be lost: statements wait until it is back."""
        patient = copy.copy(self)
        patient._has_deadline = False  # noqa: SLF001  it is of this class
        return patient

    @property
    def path(self) -> Path:
        """An SQLite database's file."""
        return Path(self.url.removeprefix(_SQLITE))

    @property
    def engine_table(self) -> str:
        """The table used by the durable engine."""
        return "dbos.workflow_status" if self.is_postgres else "workflow_status"

    def has_engine(self) -> bool:
        """Return whether an engine has its tables here, which this role may use."""
        if not self._has_engine:
            sql = FIND_TABLE[self.is_postgres]
            with suppress(DatabaseDenied):
                self._has_engine = bool(self.read_now(sql, {"name": self.engine_table}))
        return self._has_engine

    @property
    def members(self) -> str:
        """A query listing the texts in the JSON array ``:ids``, in the column ``id``."""
        if self.is_postgres:
            return "(SELECT json_array_elements_text(CAST(:ids AS json)) AS id)"
        return "(SELECT value AS id FROM json_each(:ids))"

    @property
    def exists(self) -> bool:
        """Whether there is a file. A server is taken to exist."""
        return self.is_postgres or os.path.lexists(self.path)

    async def read(self, sql: str, **values: Any) -> list[tuple[Any, ...]]:
        """Return a query's rows."""
        return await self._run(self._readers.run, self._read, sql, values)

    async def write(self, sql: str, **values: Any) -> int:
        """Run a statement, and return the number of changed rows."""
        return await self._run(self._writers.run, self._write, sql, values)

    async def transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in one transaction, each with several values.

        Returns how many rows each changed. If one of the first ``guards`` changes no row, nothing
        is changed, and the result is empty.
        """
        return await self._run(self._writers.run, self._transact, steps, guards)

    async def in_thread(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Run a function which uses this database, and again if it is away."""
        return await self._run(to_thread.run_sync, function, *arguments)

    def read_now(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """Return a query's rows, in this thread."""
        return self._run_now(self._read, sql, values)

    def transact_now(self, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in one transaction, in this thread; see ``transact``."""
        return self._run_now(self._transact_alone, steps, guards, self._transact)

    def _transact_alone(
        self,
        steps: Sequence[Step],
        guards: int,
        transact: Callable[[Sequence[Step], int], list[int]],
    ) -> list[int]:
        try:
            with self._alone():
                return transact(steps, guards)
        except Undone as undone:
            raise undone.__cause__ or undone from None

    def _read(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        return self.seals.open(self._driver.read(sql, self.seals.seal(sql, values)))

    def _write(self, sql: str, values: Values) -> int:
        return self._driver.write(sql, self.seals.seal(sql, values))

    def _transact(self, steps: Sequence[Step], guards: int) -> list[int]:
        return self._driver.transact(self._seal(steps), guards)

    def _seal(self, steps: Sequence[Step]) -> list[Step]:
        return [(sql, [self.seals.seal(sql, one) for one in several]) for sql, several in steps]

    def transact_on(self, connection: Any, steps: Sequence[Step], guards: int) -> list[int]:
        """Run statements in another connection's transaction, in this thread; see ``Driver``."""
        return self._driver.transact_on(connection, self._seal(steps), guards)

    def beside(self) -> AbstractContextManager[None]:
        """Return a block for another connection's transaction, which raises our errors."""
        return self._driver.beside()

    def read_stored(self, sql: str, values: Values) -> list[tuple[Any, ...]]:
        """Return a query's rows in stored form, in this thread."""
        return self._run_now(self._driver.read, sql, values)

    def transact_stored(self, steps: Sequence[Step]) -> list[int]:
        """Run statements in one transaction, in this thread, and store their values unchanged."""
        return self._run_now(self._transact_alone, steps, 0, self._driver.transact)

    def read_version(self) -> int | None:
        """Return a number changing with each commit by others, or None."""
        return self._driver.read_version()

    def tell_workers(self) -> None:
        """Tell workers to look for work now. They look in any case, so it may fail."""
        with suppress(DatabaseError):
            self._driver.tell_workers()

    def listen(self, channel: str = "handrail") -> Any:
        """Return a connection listening to PostgreSQL, by default to ``tell_workers``."""
        server: Any = self._driver
        return server.listen(channel)

    def _run_now(self, function: Callable[..., _T], *arguments: Any) -> _T:
        tries = _Tries(RETRY_SECONDS)
        while True:
            try:
                return function(*arguments)
            except DatabaseAway:
                if (pause := tries.next_pause()) is None:
                    raise
            time.sleep(pause)

    async def _run(
        self, run: Callable[..., Awaitable[_T]], function: Callable[..., _T], *arguments: Any
    ) -> _T:
        """Run a statement in a thread, and again if the database is away. No thread waits."""
        tries = _Tries(RETRY_SECONDS if self._has_deadline else math.inf)
        while True:
            try:
                return await run(function, *arguments)
            except DatabaseError as error:
                is_away = isinstance(error, DatabaseAway)
                self.errors["away" if is_away else "refused"] += 1
                if not is_away or (pause := tries.next_pause()) is None:
                    raise
                if pause == _FIRST_PAUSE:
                    log.warning("a statement waits for the database: %s", error)
            await anyio.sleep(pause)

    @property
    def begin_alone(self) -> tuple[str, ...]:
        """The statements beginning a transaction as ``run_alone`` does."""
        return self._driver.begin_alone

    def run_alone(self, choose: Callable[[Select], Iterable[str]]) -> None:
        """Run the statements a function chooses, in a transaction, one process at a time."""
        self._driver.run_alone(choose)

    def check_sessions(self) -> None:
        """Raise a HandrailError if connections do not keep their sessions."""
        self._driver.check_sessions()

    def hold(self) -> Any:
        """Return a connection to PostgreSQL for one holder, who closes it."""
        server: Any = self._driver
        return server.hold()

    def close(self) -> None:
        """Close all connections."""
        self._readers.close()
        self._writers.close()
        self._driver.close()


class _Tries:
    """Counts the time for tries: each pause is twice as long as the one before."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def next_pause(self) -> float | None:
        """Return the seconds before the next try, or None if it is too late for one."""
        pause, self._pause = self._pause, min(2 * self._pause, _MAX_PAUSE)
        return pause if time.monotonic() < self._until else None


def _open_postgres(url: str, *, read_only: bool) -> Driver:
    try:
        from handrail.runs._store.postgres import PostgresServer
    except ImportError as error:
        raise HandrailError(
            f"PostgreSQL needs the package psycopg ({error}). "
            "Install it: `pip install 'handrail[postgres]'`."
        ) from error
    return PostgresServer(url, read_only=read_only)


def as_url(address: str) -> str:
    """Return a database's URL. A plain path is a SQLite file, in the current folder."""
    if "://" not in address:
        return f"{_SQLITE}{Path(address).absolute()}"
    if not address.startswith((_SQLITE, _POSTGRES)):
        raise ValueError(
            f"{address.partition('://')[0]}: durable runs are kept in a SQLite file (a path) or in "
            "PostgreSQL (postgresql://...)."
        )
    return address
