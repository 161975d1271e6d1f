"""A chat behind a real server, on a port of loopback."""

from __future__ import annotations

import pytest

from runs.durable.conftest import (  # noqa: F401  the databases
    copy_postgres,
    database,
    server,
    shared_statements,
    sqlite,
    sqlite_template,
)


@pytest.fixture
def anyio_backend() -> str:
    """uvicorn runs on asyncio only."""
    return "asyncio"
