"""A shop and a model on a script: what both support agents share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import anyio
from httpx2 import AsyncClient, MockTransport, Request, Response
from openai import AsyncOpenAI


class Shop:
    """Orders, and what was done to them."""

    def __init__(self) -> None:
        self.refunds: list[tuple[str, float]] = []
        self.notes: list[str] = []

    def orders(self, customer: str) -> list[str]:
        return [f"{customer}-1", f"{customer}-2"]

    def status(self, order: str) -> str:
        return f"{order} was sent"

    def refund(self, order: str, euros: float) -> str:
        self.refunds.append((order, euros))
        return f"refunded {euros:g} euros of {order}"

    def cancel(self, order: str) -> str:
        return f"cancelled {order}"

    def note(self, text: str) -> str:
        self.notes.append(text)
        return "noted"

    async def export(self, customer: str) -> str:
        await anyio.sleep_forever()
        return customer


def call(call_id: str, name: str, **args: object) -> dict[str, Any]:
    return {"id": call_id, "name": name, "arguments": json.dumps(args)}


class Script:
    """A server that streams scripted replies, and keeps what it was sent."""

    def __init__(self, *replies: tuple[str, Sequence[dict[str, Any]]]) -> None:
        self._replies = iter(replies)
        self.requests: list[dict[str, Any]] = []

    def results(self, number: int) -> list[tuple[str, str]]:
        """Return the results at the end of a request: their call ids and texts."""
        sent = self.requests[number]["messages"]
        last = max(at for at, message in enumerate(sent) if message["role"] == "assistant")
        return [(message["tool_call_id"], message["content"]) for message in sent[last + 1 :]]

    def client(self) -> AsyncOpenAI:
        http = AsyncClient(transport=MockTransport(self._reply))
        return AsyncOpenAI(api_key="-", http_client=http, max_retries=0)

    def _reply(self, request: Request) -> Response:
        self.requests.append(json.loads(request.content))
        text, calls = next(self._replies)
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in _chunks(text, calls)]
        body = "".join([*lines, "data: [DONE]\n\n"])
        return Response(200, text=body, headers={"content-type": "text/event-stream"})


def _chunks(text: str, calls: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for piece in (text[:3], text[3:]):
        yield _chunk({"content": piece})
    for index, one in enumerate(calls):
        name, args = one["name"], one["arguments"]
        begins = {"index": index, "id": one["id"], "type": "function"}
        yield _chunk(
            {"tool_calls": [{**begins, "function": {"name": name, "arguments": args[:5]}}]}
        )
        yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": args[5:]}}]})
    yield _chunk({}, "tool_calls" if calls else "stop")


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {
        "id": "m",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }
