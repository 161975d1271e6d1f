"""Create or change the durable tables, or write the SQL for it. Both block."""

from __future__ import annotations

from contextlib import closing

from handrail.runs._engine.loading import load_migrations
from handrail.runs._store.database import Database
from handrail.runs._store.schema import migrate, write_sql


def migrate_tables(where: str) -> tuple[int, ...]:
    """Apply missing migrations to a file or a database, and return their numbers.

    The engine's tables are updated, too. Needs ``handrail[durable]``.
    """
    engine = load_migrations()
    with closing(Database(where)) as database:
        done = migrate(database)
        engine.migrate(database)
    return tuple(migration.number for migration in done)


def write_migrations(where: str) -> str:
    """Return the SQL for ``migrate_tables``, or "" if nothing is missing.

    It is for databases in which workers may not create tables.
    """
    engine = load_migrations()
    with closing(Database(where)) as database:
        return write_sql(database) + engine.write_sql(database)
