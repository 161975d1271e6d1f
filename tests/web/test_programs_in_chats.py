"""A program in a chat shows its calls, and a question of one of them shows its waiting line."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import Call, Text, Toolset
from handrail.agent import Agent
from handrail.messages import Reply, Request, ToolResults
from handrail.programs import program_tool
from web.chats import REFUNDS, as_person, decide, read_events, refund
from web.test_chat import chatting, kind

__all__ = ["kind"]
CODE = "for amount in (90, 120):\n    last = await refund(order='o', amount=amount)\nlast"

SHOWN = """\
    1 for amount in (90, 120):
>   2     last = await refund(order='o', amount=amount)
    3 last
"""


async def model(request: Request) -> Any:
    last = request.messages[-1]
    if isinstance(last, ToolResults):
        yield Reply((Text(last.results[0].text),))
        return
    yield Reply((Call("run_program", {"code": CODE}, "c/1"),), "calls")


@pytest.fixture(autouse=True)
def no_refunds() -> None:
    REFUNDS.clear()


async def test_a_page_sees_the_calls_of_a_program_and_the_boss_its_line(
    kind: str, database: str
) -> None:
    tools = Toolset(refund, program_tool([refund]))
    agent = Agent(model, tools, policy=decide)
    boss, seen = as_person("boss"), list[tuple[Any, ...]]()
    async with (
        chatting(kind, database, agent=agent) as client,
        client.stream("POST", "/chat", json={"text": "Refund."}) as response,
    ):
        async for event in read_events(response):
            if event.event in {"call", "progress", "approval", "result"}:
                seen.append((event.event, *event.data.values()))
            if event.event == "status" and event.data["status"] == "waiting":
                [request] = (await client.get("/inbox", headers=boss)).json()["requests"]
                given = {"answer": "allow", "seen": request["seen"]}
                path = f"/inbox/{request['pending']}"
                await client.post(path, json=given, headers=boss)

    assert [amount for _, amount, _ in REFUNDS] == [90, 120]
    assert (request["question"], request["args"]) == ("Refund 120?", {"order": "o", "amount": 120})
    assert request["changes"] == SHOWN
    assert seen == [
        ("call", "c/1", "run_program"),
        ("progress", "c/1", "refund"),
        ("progress", "c/1", "refund"),
        ("approval", "p1", "refund", "Refund 120?"),
        ("call", "c/1", "run_program"),
        ("progress", "c/1", "refund"),
        ("result", "c/1", ""),
    ]
