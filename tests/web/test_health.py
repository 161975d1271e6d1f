"""The two routes for an orchestrator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import HandrailError
from handrail.web import ChatApp
from handrail.web._health import Health
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


async def test_a_database_that_does_not_answer_is_asked_once_for_all() -> None:
    asked: list[str] = []

    async def check() -> None:
        asked.append("asked")
        await anyio.sleep_forever()

    health, request = Health(check, seconds=0.01), Any
    answers = [await health.show_ready(request) for _ in range(3)]  # type: ignore[arg-type]

    assert ([one.status_code for one in answers], asked) == ([503] * 3, ["asked"])


async def test_a_check_that_fails_is_not_repeated_for_each_request() -> None:
    asked: list[str] = []

    async def check() -> None:
        asked.append("asked")
        raise HandrailError("The sessions cannot be read.")

    async def wrong() -> None:
        asked.append("wrong")
        raise KeyError("a bug")

    request: Any = None
    health, other = Health(check), Health(wrong)
    answers = [await health.show_ready(request) for _ in range(3)]
    with pytest.raises(KeyError):
        await other.show_ready(request)
    answers.append(await other.show_ready(request))

    assert [one.status_code for one in answers] == [503] * 4
    assert asked == ["asked", "wrong"]
