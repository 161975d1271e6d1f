"""Databases for durable runs: a file, and a database of a real PostgreSQL, each empty and new."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
import sqlalchemy

from handrail.runs.migrating import migrate_tables
from runs.durable.statements import watching
from runs.durable.workers import Forks, forking
from services import VARIABLE, Postgres, find_binaries

TEMPLATE = f"handrail_{os.getpid()}"


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
def shared_statements() -> Generator[None]:
    """Compile each statement of the engine once, not again for each database of a test.

    SQLAlchemy keeps what it compiled by connection pool and by dialect object. All tests have the
    same two dialects, with the same settings. `counting` sees every statement.
    """
    caches: dict[type, Any] = {}
    made = sqlalchemy.Engine.__init__

    def share(self: Any, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        kind = type(self.dialect)
        self._compiled_cache = caches.setdefault(kind, self._compiled_cache)
        self.dialect.__class__ = _equal(kind)

    with pytest.MonkeyPatch.context() as patch, watching():
        patch.setattr(sqlalchemy.Engine, "__init__", share)
        yield


@cache
def _equal(kind: type) -> type:
    """A dialect that equals all of its kind."""
    compare = {
        "supports_statement_cache": True,
        "__hash__": lambda self: hash(type(self)),
        "__eq__": lambda self, other: type(self) is type(other),
    }
    return type(kind.__name__, (kind,), compare)


@pytest.fixture(scope="session")
def server() -> Generator[str]:
    """The URL of a PostgreSQL server, without a database."""
    if given := os.environ.get(VARIABLE):
        yield given.rpartition("/")[0]
        return
    if find_binaries() is None:
        pytest.skip(f"needs PostgreSQL: install `postgresql`, or set {VARIABLE}")
    started = Postgres.start()
    yield started.url.rpartition("/")[0]
    started.stop()


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Generator[Forks]:
    """Forks workers: one process for all tests."""
    with forking(tmp_path_factory.mktemp("forks")) as made:
        yield made


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all tables, to copy."""
    path = tmp_path_factory.mktemp("template") / "runs.db"
    migrate_tables(str(path))
    return path


@pytest.fixture(scope="session")
def copy_postgres(server: str) -> Generator[Callable[[], str]]:
    """Makes databases with all tables."""
    _execute(server, f"CREATE DATABASE {TEMPLATE}")
    migrate_tables(f"{server}/{TEMPLATE}")
    names = [TEMPLATE]

    def copy() -> str:
        names.append(f"{TEMPLATE}_{len(names)}")
        _execute(server, f"CREATE DATABASE {names[-1]} TEMPLATE {TEMPLATE}")
        return f"{server}/{names[-1]}"

    yield copy
    for name in names if os.environ.get(VARIABLE) else ():
        _execute(server, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def _execute(server: str, statement: str) -> None:
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[call-overload]


@pytest.fixture
def sqlite(sqlite_template: Path, tmp_path: Path) -> str:
    """The path of an empty SQLite database."""
    shutil.copy(sqlite_template, tmp_path / "runs.db")
    return str(tmp_path / "runs.db")


@pytest.fixture
def create_postgres(server: str) -> Generator[Callable[[], str]]:
    """Makes databases without tables."""
    names: list[str] = []

    def create() -> str:
        names.append(f"{TEMPLATE}_empty_{len(names)}")
        _execute(server, f"CREATE DATABASE {names[-1]}")
        return f"{server}/{names[-1]}"

    yield create
    for name in names:
        _execute(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgres"])
def create_database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes databases without tables, of each kind."""
    if request.param == "postgres":
        return cast("Callable[[], str]", request.getfixturevalue("create_postgres"))
    numbers = iter(range(100))
    return lambda: str(tmp_path / f"{next(numbers)}.db")


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> Generator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield str(request.getfixturevalue("sqlite"))
        return
    url = str(request.getfixturevalue("copy_postgres")())
    yield url
    server, _, name = url.rpartition("/")
    _execute(server, f"DROP DATABASE {name} WITH (FORCE)")  # hundreds of files, which add up
