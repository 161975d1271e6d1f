"""What the tests of chats share: a server, a browser's requests, and a shop's agent."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
import httpx2

from handrail import Allow, Ask, Call, Context, Text, tool
from handrail.agent import Agent
from handrail.messages import Delta, Prompt, Reply, Request, StreamItem, ToolResults
from handrail.net import serve_app
from handrail.web import Visitor

ORIGIN = "https://shop.example"
REFUNDS: list[tuple[str, int, Any]] = []


class Sent(NamedTuple):
    """One server-sent event."""

    event: str
    data: Any
    id: str = ""


@tool
def refund(order: str, amount: int, context: Context) -> str:
    """Refund an order."""
    REFUNDS.append((order, amount, context.deps))
    return f"refunded {amount}"


async def shop_model(request: Request) -> AsyncIterator[StreamItem]:
    """`refund ORDER SUM` calls the tool; all else is repeated, with how many messages there were."""
    last = request.messages[-1]
    if isinstance(last, ToolResults):
        words = f"Done: {last.results[0].text}"
    else:
        assert isinstance(last, Prompt)
        text = "".join(part.text for part in last.parts if isinstance(part, Text))
        if text.startswith("refund"):
            _, order, amount = text.split()
            call = Call(
                "refund", {"order": order, "amount": int(amount)}, f"c{len(request.messages)}"
            )
            yield Delta("One moment. ")
            yield call
            yield Reply((Text("One moment. "), call), "calls")
            return
        words = f"{len(request.messages)}: {text}"
    for word in words.split(" "):
        yield Delta(f"{word} ")
    yield Reply((Text(f"{words} "),))


def decide(call: Any) -> Any:
    large = call.name == "refund" and call.args["amount"] > 100
    return Ask(f"Refund {call.args['amount']}?") if large else Allow()


def shop_agent(model: Any = shop_model, **options: Any) -> Agent[Any]:
    return Agent(model, [refund], policy=decide, **options)


def identify(request: Any) -> Visitor | None:
    """The token is the person. The boss answers for all."""
    _, _, name = request.headers.get("authorization", "").partition(" ")
    if not name:
        return None
    return Visitor(principal=name, answers=name == "boss", metadata={"plan": "gold"})


def as_person(name: str, **more: str) -> dict[str, str]:
    """The headers of a page's request."""
    return {"authorization": f"Bearer {name}", "origin": ORIGIN, **more}


@asynccontextmanager
async def serving(app: Any) -> AsyncGenerator[str]:
    """Serve an application, and yield its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    async with anyio.create_task_group() as group:
        group.start_soon(serve_app, app, listening)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        group.cancel_scope.cancel()


@asynccontextmanager
async def client_of(app: Any, name: str = "ada") -> AsyncGenerator[httpx2.AsyncClient]:
    async with (
        serving(app) as url,
        httpx2.AsyncClient(base_url=url, headers=as_person(name), timeout=30) as client,
    ):
        yield client


async def read_events(response: httpx2.Response) -> AsyncGenerator[Sent]:
    """Yield the events of an open response."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if not line:
            if "data" in fields:
                data = fields["data"]
                parsed = data if data == "[DONE]" else json.loads(data)
                yield Sent(fields.get("event", ""), parsed, fields.get("id", ""))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value


async def post_chat(
    client: httpx2.AsyncClient, body: Mapping[str, Any], path: str = "/chat", **more: Any
) -> list[Sent]:
    """Send a message, and read the stream to its end."""
    async with client.stream("POST", path, json=body, **more) as response:
        assert response.status_code == 200, await response.aread()
        return [event async for event in read_events(response)]


def text_of(events: list[Sent]) -> str:
    """The text that a page shows after these events."""
    shown = ""
    for event in events:
        if event.event == "restart":
            shown = ""
        elif event.event == "text":
            shown += event.data["text"]
    return shown
