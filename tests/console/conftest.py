"""A file with requests that wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.visits import make_pending, park
from handrail.runs import open_runs


@pytest.fixture
def anyio_backend() -> str:
    """uvicorn and the engine of durable runs need asyncio."""
    return "asyncio"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A journal with a refund of the team that waits, and one of another team."""
    path = tmp_path / "journal.db"
    journal = open_runs(path)
    park(journal, make_pending("r1"))
    park(journal, make_pending("r2"), labels=["team=other"])
    journal.close()
    return path
