"""Databases of each kind."""

from __future__ import annotations

from runs.durable.conftest import (  # noqa: F401  the databases
    copy_postgres,
    create_database,
    create_postgres,
    database,
    server,
    shared_statements,
    sqlite,
    sqlite_template,
)
