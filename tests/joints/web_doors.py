"""A door of a chat over HTTP: its streams, its inbox, and the conversation that it stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx2

from handrail import Approvals, Deny
from handrail.agent import Agent
from handrail.approvals import defer
from handrail.permissions import Answer, Edit, MemoryLedger
from handrail.runs.durable import DurableRuns
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
                self._seen.progress.append((event.data["message"], event.data.get("fraction")))
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


def _make_visitor(case: Case) -> Visitor:
    about = {name: one for name, one in case.turn.items() if name not in ("deps", "principal")}
    return Visitor(principal=case.turn.get("principal", "ann"), answers=True, **about)


def _inside(case: Case, chat: ChatApp) -> Any:
    """Return the application with a middleware around it, as a tracer has."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        with case.inside():
            await chat(scope, receive, send)

    return app


async def _take(path: str, visitor: Visitor, seen: Seen) -> Seen:
    """Read what the conversation has."""
    saved = await Conversations(path).get(visitor.principal, _ID)
    seen.read(saved.messages)
    return seen


async def chat_over_http(case: Case) -> Seen:
    """A browser and a chat with a socket between them. Answers go to another application."""
    require_asyncio()
    seen, ledger, visitor = Seen(), MemoryLedger(), _make_visitor(case)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "chats.db")

        def make_app() -> Any:
            agent = Agent(make_model(case), make_executor(case, Seen(), ledger))
            own: Any = {"database": path, "deps": lambda _: case.turn.get("deps")}
            chat = ChatApp(agent, lambda _: visitor, origins=[ORIGIN], details=True, **own)
            return _inside(case, chat)

        with anyio.fail_after(PATIENCE):
            async with serving(make_app()) as url, serving(make_app()) as other:
                await _Browser(case, seen, url, other).chat()
        return await _take(path, visitor, seen)


async def chat_durably(case: Case) -> Seen:
    """A browser, a chat, and a worker that runs the agent."""
    require_asyncio()
    seen, visitor, options = Seen(), _make_visitor(case), dict(case.options)
    if case.answers:
        options["approvals"] = Approvals(approver=defer)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "chats.db")
        agent = Agent(make_model(case), case.tools, **options)
        deps = {"joint": case.turn.get("deps")}
        runs = DurableRuns(path, {"joint": agent}, deps=deps, poll=0.05)
        own: Any = {"agent": "joint", "details": True}
        app = _inside(case, ChatApp(runs, lambda _: visitor, origins=[ORIGIN], **own))
        with anyio.fail_after(PATIENCE):
            async with runs.work(interval=0.2, drain_seconds=5), serving(app) as url:
                await _Browser(case, seen, url, url).chat()
        return await _take(path, visitor, seen)


for door in (chat_over_http, chat_durably):
    door.cancels = True  # type: ignore[attr-defined]  # the door itself, as its callers do

DOORS: dict[str, Door] = {"web chat": chat_over_http}
