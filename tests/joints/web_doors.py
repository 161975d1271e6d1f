"""A door of a chat over HTTP: its streams, its inbox, and the conversation that it stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx2

from handrail import Deny
from handrail.agent import Agent
from handrail.messages import ToolResults
from handrail.permissions import Answer, Edit, MemoryLedger
from handrail.web import ChatApp, Visitor
from handrail.web.conversations import Conversations
from joints.case import PATIENCE, Case, Door, Seen, make_model
from joints.own_doors import make_executor
from mcp_served.served import require_asyncio
from web.chats import ORIGIN, as_person, read_events, serving

_HEADERS = as_person("ann")
_ID = "k1"


def _describe(answer: Answer, seen: str) -> dict[str, Any]:
    match answer:
        case Deny():
            return {"answer": "deny"}
        case Edit(args=args):
            return {"answer": "edit", "args": dict(args), "seen": seen}
        case _:
            return {"answer": "allow", "seen": seen}


class _Browser:
    """Sends the message, and answers what the stream asks: at another application, if it can be."""

    def __init__(self, case: Case, seen: Seen, url: str, other: str) -> None:
        self._case, self._seen = case, seen
        self._answers: Iterator[Answer] = iter(case.answers)
        self._here = httpx2.AsyncClient(base_url=url, headers=_HEADERS, timeout=PATIENCE)
        self._other = httpx2.AsyncClient(base_url=other, headers=_HEADERS, timeout=PATIENCE)

    async def chat(self) -> None:
        async with self._here, self._other, anyio.create_task_group() as beside:
            if self._case.begun is not None:
                beside.start_soon(self._cancel)
            sent = {"conversation": _ID, "text": self._case.prompt}
            async with self._here.stream("POST", "/chat", json=sent) as response:
                reloads = await self._read(response)
            while reloads:
                path = f"/conversations/{_ID}/events"
                async with self._other.stream("GET", path) as response:
                    reloads = await self._read(response)
            beside.cancel_scope.cancel()

    async def _read(self, response: httpx2.Response) -> bool:
        """Read a stream. Returns whether another application has the rest."""
        assert response.status_code == 200, await response.aread()
        async for event in read_events(response):
            if event.event == "approval":
                await self._answer(event.data)
            elif event.event == "progress":
                self._seen.progress.append((event.data["message"], event.data["fraction"]))
            elif event.event == "output":
                self._seen.yielded.append(event.data["text"])
            elif event.event in ("call", "result"):
                self._seen.host.append(event.event)
            elif event.event == "end":
                return bool(event.data.get("reload"))
        return False

    async def _answer(self, asked: Any) -> None:
        path = f"/inbox/{asked['pending']}"
        given = _describe(next(self._answers), asked["seen"])
        where = self._here if self._case.asks_inside else self._other
        answered = await where.post(path, json=given)
        assert answered.status_code == 200, answered.text

    async def _cancel(self) -> None:
        assert self._case.begun is not None
        await self._case.begun.wait()
        await self._here.post(f"/conversations/{_ID}/cancel")


async def chat_over_http(case: Case) -> Seen:
    """A browser and a chat with a socket between them. Answers go to another application."""
    require_asyncio()
    seen, ledger, turn = Seen(), MemoryLedger(), dict(case.turn)
    deps = turn.pop("deps", None)
    principal = turn.pop("principal", "ann")
    visitor = Visitor(principal=principal, answers=True, **turn)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "chats.db")

        def make_app() -> Any:
            agent = Agent(make_model(case), make_executor(case, Seen(), ledger))
            options: Any = {"database": path, "deps": lambda _: deps, "details": True}
            chat = ChatApp(agent, lambda _: visitor, origins=[ORIGIN], **options)

            async def app(scope: Any, receive: Any, send: Any) -> None:
                with case.inside():
                    await chat(scope, receive, send)

            return app

        with anyio.fail_after(PATIENCE):
            async with serving(make_app()) as url, serving(make_app()) as other:
                await _Browser(case, seen, url, other).chat()
        saved = await Conversations(path).get(principal, _ID)
        for message in saved.messages:
            if isinstance(message, ToolResults):
                seen.take(*message.results)
    return seen


chat_over_http.cancels = True  # type: ignore[attr-defined]  # the door itself, as its callers do

DOORS: dict[str, Door] = {"web chat": chat_over_http}
