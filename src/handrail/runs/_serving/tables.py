"""Create the tables of durable runs, ours and the engine's."""

from __future__ import annotations

from anyio import to_thread

from handrail.runs._durable.rows import SCHEMA, Rows, list_tables
from handrail.runs._engine.dbos_engine import DbosEngine
from handrail.runs._store.database import Database


async def create_tables(database: Database, engine: DbosEngine, rows: Rows) -> None:
    """Create the tables, unless they exist as this version needs them."""
    version = f"{SCHEMA}, {engine.version}"
    if await to_thread.run_sync(database.has_schema, version):
        return
    await engine.create()
    tables = list_tables(postgres=database.is_postgres)
    await to_thread.run_sync(database.create, tables)
    await rows.add_schema(version)
