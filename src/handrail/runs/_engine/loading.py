"""Load the durable engine. Only processes starting or working on runs need it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from handrail import HandrailError
from handrail.runs._store.database import Database

if TYPE_CHECKING:
    from handrail.runs._engine.dbos_engine import DbosEngine


class EngineMigrations(NamedTuple):
    """Functions changing the engine's tables."""

    migrate: Callable[[Database], None]
    write_sql: Callable[[Database], str]


def load_migrations() -> EngineMigrations:
    """Return functions changing the engine's tables. Raises HandrailError without it."""
    with _explaining():
        from handrail.runs._engine.dbos_tables import migrate_engine, write_engine_sql
    return EngineMigrations(migrate_engine, write_engine_sql)


def load_engine() -> type[DbosEngine]:
    """Return the engine's class. Raises HandrailError if it is not installed."""
    with _explaining():
        from handrail.runs._engine.dbos_engine import DbosEngine
    return DbosEngine


@contextmanager
def _explaining() -> Generator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise HandrailError(
            f"To start durable runs and to work on them, you need the package {error.name}. "
            "Install it: `pip install 'handrail[durable]'`."
        ) from error
