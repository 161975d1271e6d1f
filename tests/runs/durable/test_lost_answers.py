"""A connection breaks after each kind of write, when the server has done it and not said so."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import psycopg
import pytest

from handrail import READ, Allow, Ask, Call, Text, tool
from handrail.agent import Agent
from handrail.messages import Reply, Request
from handrail.runs import verify
from handrail.runs.durable import DurableRuns

TURNS = (
    ("look", {"number": 1}),
    ("pay", {"order": "A1"}),
    ("pay", {"order": "A2"}),
    ("approve", {"order": "A3"}),
)
WRITES = ("INSERT INTO handrail_", "UPDATE handrail_", "DELETE FROM handrail_", "WITH s0 AS (")


@contextmanager
def losing() -> Generator[list[str]]:
    """Lose the answer to the first write with each text, and to the first commit of several."""
    execute: Any = psycopg.Cursor.execute
    lost: list[str] = []
    lock = threading.Lock()

    def lose(cursor: Any, query: Any, params: Any = None, **options: Any) -> Any:
        done = execute(cursor, query, params, **options)
        text = query.decode() if isinstance(query, bytes) else str(query)
        in_pipeline = cursor.connection.pgconn.pipeline_status
        is_write = text == "COMMIT" if in_pipeline else text.startswith(WRITES)
        with lock:
            if not is_write or text in lost:
                return done
            lost.append(text)
        raise psycopg.OperationalError("the connection is lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Cursor, "execute", lose)
        yield lost


def make_agent(paid: Counter[str]) -> Agent[Any]:
    @tool(effect=READ)
    async def look(number: int) -> str:
        """Look at a shelf."""
        return f"saw {number}"

    @tool
    async def pay(order: str) -> str:
        """Pay an order."""
        paid[order] += 1
        return f"paid {order}"

    @tool(name="approve")
    async def pay_approved(order: str) -> str:
        """Pay an order that a person approves."""
        paid[order] += 1
        return f"paid {order}"

    async def model(request: Request) -> Reply:
        turn = sum(isinstance(message, Reply) for message in request.messages)
        if turn == len(TURNS):
            return Reply((Text("Done."),))
        name, args = TURNS[turn]
        return Reply((Call(name, args, f"c{turn}"),))

    return Agent(
        model,
        [look, pay, pay_approved],
        policy=lambda call: Ask("Pay?") if call.name == "approve" else Allow(),
    )


async def run_once(url: str) -> tuple[Counter[str], list[str], list[str]]:
    """Run to the end. Returns what was paid, the events of the run, and the results of its calls."""
    paid: Counter[str] = Counter()
    runs = DurableRuns(url, {"shop": make_agent(paid)}, poll=0.05)
    with anyio.fail_after(120):
        async with runs.work(interval=0.1, drain_seconds=5):
            await runs.start("shop", "Pay.", run_id="r")
            while not (asked := await runs.inbox()):  # noqa: ASYNC110  another process would ask
                await anyio.sleep(0.02)
            await runs.answer(asked[0].id, Allow())
            while (done := await runs.wait("r")).status == "waiting":  # noqa: ASYNC110  until a worker has it
                await anyio.sleep(0.02)
    assert done.status == "done"
    assert verify(runs.store, "r") is None
    entries = list(runs.store.read("r"))
    kinds = [str(one.content.get("status") or one.kind) for one in entries]
    results = [one.content.get("kind") or "ok" for one in entries if one.kind == "finished"]
    return paid, kinds, results


async def test_a_write_whose_answer_is_lost_is_made_once(
    copy_postgres: Any, caplog: pytest.LogCaptureFixture
) -> None:
    paid, kinds, results = await run_once(copy_postgres())
    with losing() as lost:
        paid_then, kinds_then, results_then = await run_once(copy_postgres())

    assert (paid, set(results)) == (Counter(A1=1, A2=1, A3=1), {"ok", "pending"})
    assert any(one.startswith("INSERT INTO handrail_step") for one in lost)  # a reply
    assert any("INSERT INTO handrail_called" in one for one in lost)  # a turn
    assert any(one.startswith("INSERT INTO handrail_call") for one in lost)
    assert "COMMIT" in lost
    assert (paid_then, kinds_then, results_then) == (paid, kinds, results)  # no line twice
    assert "a statement waits for the database" in caplog.text
