"""The two routes for an orchestrator."""

from __future__ import annotations

from pathlib import Path

from handrail.web import ChatApp
from web.chats import ORIGIN, client_of, identify, shop_agent


async def test_a_process_lives_and_is_ready_with_its_database(database: str) -> None:
    app = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=database)
    async with client_of(app) as client:
        client.headers.clear()
        alive, ready = await client.get("/healthz"), await client.get("/readyz")

    assert [(one.status_code, one.text) for one in (alive, ready)] == [
        (200, "alive"),
        (200, "ready"),
    ]


async def test_without_its_database_a_process_lives_and_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"no database" * 100)
    app = ChatApp(shop_agent(), identify, origins=[ORIGIN], database=str(tmp_path / "runs.db"))
    async with client_of(app) as client:
        alive, ready = await client.get("/healthz"), await client.get("/readyz")
        asked = await client.get("/conversations")

    assert [(one.status_code, one.text) for one in (alive, ready)] == [
        (200, "alive"),
        (503, "not ready"),
    ]
    assert (asked.status_code, asked.json()) == (503, {"error": "Try again later."})
