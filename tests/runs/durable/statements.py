"""Count what this process asks its databases: a count needs no clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, event

LISTENERS: list[Callable[[str, object], None]] = []


class Watched(sqlite3.Connection):
    """A connection of the standard library that says what it is asked."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        tell(sql, values)
        return super().execute(sql, *values)

    def executemany(self, sql: str, several: Any) -> sqlite3.Cursor:
        tell(sql, several)
        return super().executemany(sql, several)


def tell(statement: object, values: object) -> None:
    text = statement.decode() if isinstance(statement, bytes) else str(statement)
    for listener in LISTENERS:
        listener(text, values)


@contextmanager
def watching() -> Generator[None]:
    """Let connections to both databases say what they are asked: ours, and those of the engine."""
    connect: Any = sqlite3.connect
    execute: Any = psycopg.Cursor.execute

    def open_(*args: Any, **options: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connect(*args, **{"factory": Watched, **options})
        return made

    def watched(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
        tell(query, params)
        return execute(cursor, query, params, **options)

    def add(connection: Any, _cursor: object, statement: str, values: object, *_: object) -> None:
        if connection.dialect.name == "sqlite":  # psycopg says the others
            tell(statement, values)

    event.listen(Engine, "before_cursor_execute", add)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", open_)
        patch.setattr(sqlite3.dbapi2, "connect", open_)  # SQLAlchemy's
        patch.setattr(psycopg.Cursor, "execute", watched)
        yield
    event.remove(Engine, "before_cursor_execute", add)


@contextmanager
def counting(wanted: str) -> Generator[list[str]]:
    """Collect the statements of this process that contain a text, or have it as a value."""
    seen: list[str] = []

    def add(statement: str, values: object) -> None:
        if wanted in statement or wanted in str(values):
            seen.append(statement)

    LISTENERS.append(add)
    try:
        yield seen
    finally:
        LISTENERS.remove(add)
