"""A chat's ASGI application: its routes, each behind the guard."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import ExitStack, aclosing
from http import HTTPStatus
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from handrail.agent import Agent
from handrail.approvals import Remembers
from handrail.messages import Prompt
from handrail.permissions import Pending
from handrail.runs import RunStore
from handrail.runs.durable import DurableRuns
from handrail.web._answers import Inbox, describe_request, describe_waiting
from handrail.web._files import Files, check_room, find_file
from handrail.web._guard import Refusal, RequestGuard, Slots, bad, read_json
from handrail.web._health import Health
from handrail.web._process import ProcessChats
from handrail.web._protocols.asked import ChatRequest, read_answer, read_chat
from handrail.web._protocols.own_events import Encoder, OwnEvents
from handrail.web._serving import Place, Serving
from handrail.web._shown import describe_conversation, describe_head
from handrail.web._streams import EventResponse
from handrail.web._visitor import Identify, Visitor
from handrail.web._wire import WireEvent
from handrail.web._workers import WorkerChats, prefix_of
from handrail.web.conversations import (
    ConversationBusy,
    ConversationHead,
    Conversations,
)

MAX_CHAT_BYTES = 1024 * 1024
MAX_STREAMS = 1_000
MAX_STREAMS_EACH = 100
"""How many streams one principal may have open."""
_LIST = 50
_LOOK_SECONDS = 0.1
"""Between two checks for a conversation that another request continues."""
_PLACE = re.compile("([0-9]{1,15}(-[0-9a-f]{1,8}-[0-9]{1,15}-[0-9]{1,15}-[0-9a-f]{0,16})?)?")
"""An event's id, without its run."""


class ChatApp:
    """Serves a chat: mount it in Starlette or FastAPI, or serve it alone.

    Each route needs a visitor from ``identify``. Without one, the answer is 401.

    Args:
        serves: An agent, which runs in this process, or ``DurableRuns``, whose workers run it.
        identify: Returns the visitor who sent a Starlette request; None for a stranger.
        origins: The origins whose pages may send messages, such as ``https://shop.example``.
        database: Stores the conversations: a path, ``postgresql://...``, or a ``RunStore``.
            Durable runs bring theirs.
        agent: The durable runs' agent, by name.
        deps: Returns the objects for the tools of a visitor's runs, in this process.
        details: Whether pages see calls' arguments and results.
        wait: Seconds a message waits for the one before in its conversation. Then it gets 409.
        linger: Seconds an agent's run continues when no one watches it. Durable runs continue.
        max_stored_bytes: How many bytes of files one principal may keep, and about how many
            more in messages.
        remember: Offers rules to remember in the inbox: see ``handrail.shared.SharedApprovals``.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        serves: Agent[Any] | DurableRuns,
        identify: Identify,
        *,
        origins: Collection[str],
        database: str | RunStore | None = None,
        agent: str = "",
        deps: Callable[[Visitor], Any] | None = None,
        details: bool = False,
        wait: float = 0.0,
        linger: float = 10.0,
        max_stored_bytes: int = 100 * 1024 * 1024,
        remember: Remembers | None = None,
    ) -> None:
        durable = None if isinstance(serves, Agent) else serves
        _check_options(durable, agent, has_deps=deps is not None, has_database=bool(database))
        where = durable.store if durable else database or ""
        self._conversations = Conversations(where)
        self._store = self._conversations.store
        self._serving: Serving
        if isinstance(serves, Agent):
            options: Any = {"deps": deps, "linger": linger, "details": details}
            self._serving = ProcessChats(serves, self._conversations, **options)
        else:
            self._serving = WorkerChats(serves, agent, self._conversations, details=details)
        self._durable = durable
        self._opening = anyio.Lock()
        self._is_open = False
        self._inbox = Inbox(self._store, remember)
        self._details = details
        self._wait = wait
        self._max_stored = max_stored_bytes
        self._streams = Slots(each=MAX_STREAMS_EACH, total=MAX_STREAMS, what="open streams")
        self._router = Router(
            self._routes(RequestGuard(identify, origins, self._prepare), max_stored_bytes)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._router(scope, receive, send)

    async def _prepare(self) -> None:
        if not self._is_open:
            await self._open()

    async def _open(self) -> None:
        """Open the database: a mounted application gets no start event."""
        async with self._opening:
            if self._is_open:
                return
            if self._durable is not None:
                await self._durable.__aenter__()
            await self._conversations.prepare()
            self._serving.open()
            self._is_open = True

    async def _ping(self) -> None:
        await self._prepare()
        await self._store.database.read("SELECT 1")

    def _routes(self, guard: RequestGuard, most: int) -> list[Route]:
        def route(path: str, handler: Any, *methods: str) -> Route:
            return Route(path, guard.protect(handler), methods=methods or ["GET"])

        files, health = Files(self._store, most), Health(self._ping)
        return [
            route("/chat", self._chat, "POST"),
            route("/ag-ui", self._chat_ag_ui, "POST"),
            route("/ui-messages", self._chat_ui_messages, "POST"),
            route("/ui-messages/{id}/stream", self._resume_ui_messages),
            route("/conversations", self._list),
            route("/conversations/{id}", self._show),
            route("/conversations/{id}", self._delete, "DELETE"),
            route("/conversations/{id}/events", self._watch),
            route("/conversations/{id}/cancel", self._cancel, "POST"),
            route("/inbox", self._show_inbox),
            route("/inbox/{id}", self._answer, "POST"),
            route("/files", files.keep, "POST"),
            route("/files/{id}", files.send),
            route("/files/{id}", files.delete, "DELETE"),
            Route("/healthz", health.show_alive),
            Route("/readyz", health.show_ready),
        ]

    # messages

    async def _chat(self, request: Request, visitor: Visitor) -> Response:
        asked = read_chat(await read_json(request, most=MAX_CHAT_BYTES))
        return await self._respond(visitor, asked, OwnEvents())

    async def _chat_ag_ui(self, request: Request, visitor: Visitor) -> Response:
        from handrail.web._protocols.ag_ui import AgUiEvents, read_ag_ui  # an extra

        asked = read_ag_ui(await read_json(request, most=MAX_CHAT_BYTES))
        return await self._respond(visitor, asked, AgUiEvents(asked.run))

    async def _chat_ui_messages(self, request: Request, visitor: Visitor) -> Response:
        from handrail.web._protocols.ui_messages import HEADERS, UiChunks, read_ui_messages

        asked = read_ui_messages(await read_json(request, most=MAX_CHAT_BYTES))
        return await self._respond(visitor, asked, UiChunks(), HEADERS)

    async def _respond(
        self,
        visitor: Visitor,
        asked: ChatRequest,
        encoder: Encoder,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        with ExitStack() as held:
            held.enter_context(self._streams.take(visitor.principal))
            if asked.answers:
                head, place = await self._use_answers(visitor, asked)
            else:
                head, place = await self._begin(visitor, asked), Place()
            texts = self._stream(visitor, head, encoder, place)
            return EventResponse(texts, headers or {}, held.pop_all())

    async def _begin(self, visitor: Visitor, asked: ChatRequest) -> ConversationHead:
        """Add a message to its conversation, and start a run."""
        prompt = await self._make_prompt(visitor, asked)
        id_, run = asked.conversation or uuid.uuid4().hex, uuid.uuid4().hex
        try:
            head = await self._conversations.begin(
                visitor.principal, id_, run, prompt, metadata=visitor.metadata
            )
        except ValueError as error:
            raise bad(str(error)) from None
        if head.run != run:
            head = await self._claim(head, run, visitor, prompt)
        messages: tuple[Any, ...] = (prompt,)
        if head.entries > 1:
            messages = (await self._conversations.get(head.principal, head.id)).messages
        await self._serving.start(head, visitor, messages)
        return head

    async def _claim(
        self, head: ConversationHead, run: str, visitor: Visitor, prompt: Prompt
    ) -> ConversationHead:
        """Claim a conversation for a new run, after the one before if it may wait."""
        until = anyio.current_time() + self._wait
        while True:
            try:
                head = await self._serving.settle(head)
                about = visitor.metadata
                return await self._conversations.claim(head, run, prompt, metadata=about)
            except ConversationBusy:
                if anyio.current_time() >= until:
                    raise
            await anyio.sleep(_LOOK_SECONDS)
            head = await self._conversations.head(head.principal, head.id)

    async def _make_prompt(self, visitor: Visitor, asked: ChatRequest) -> Prompt:
        files = [
            await find_file(self._store, visitor.principal, one)
            for one in dict.fromkeys(asked.files)
        ]
        await check_room(self._store, visitor.principal, files, most=self._max_stored)
        texts = [asked.text] if asked.text.strip() else []
        if not texts and not files:
            raise bad("The message is empty.")
        return Prompt.of(*texts, *[one.content for one in files])

    async def _use_answers(
        self, visitor: Visitor, asked: ChatRequest
    ) -> tuple[ConversationHead, Place]:
        """Answer requests of the visitor's own conversation, and return where the rest begins."""
        head = await self._conversations.head(visitor.principal, asked.conversation)
        place = await self._serving.place(head)
        for pending_id, given in asked.answers.items():
            outcome = await self._inbox.answer(visitor, pending_id, given, run=head.run)
            if not outcome.used:
                raise Refusal(HTTPStatus.CONFLICT, outcome.text)
        await self._serving.resume(head.run)
        return head, place

    # streams

    async def _stream(
        self, visitor: Visitor, head: ConversationHead, encoder: Encoder, place: Place
    ) -> AsyncGenerator[str]:
        """Yield a stream's text."""
        shown = set[str]()
        yield encoder.begin(head.id, head.run, place.calls)
        async with aclosing(self._serving.watch(head, place.after)) as batches:
            async for batch in batches:
                text, ended = "", False
                for event in batch:
                    waits = event.kind == "status" and event.data["status"] == "waiting"
                    open_ = await self._find_open(head.run, event, shown) if waits else ()
                    if waits and not open_:
                        continue  # answered since, or shown
                    for one in open_:
                        text += encoder.encode(
                            WireEvent("approval", describe_waiting(one, visitor))
                        )
                    text += encoder.encode(event)
                    ended = event.kind == "end" or (waits and not encoder.stays)
                    if ended:
                        break
                if text:
                    yield text
                if ended:
                    return

    async def _find_open(self, run: str, event: WireEvent, shown: set[str]) -> tuple[Pending, ...]:
        """Return what a waiting run asks. A reminder, without an id, is of what was not shown."""
        found = await self._inbox.wait(run)
        if not event.id:
            found = tuple([one for one in found if one.id not in shown])
        shown.update(one.id for one in found)
        return found

    async def _watch(self, request: Request, visitor: Visitor) -> Response:
        """Stream a conversation's latest run, behind the last event the client has."""
        with ExitStack() as held:
            held.enter_context(self._streams.take(visitor.principal))
            head = await self._find(request, visitor)
            if not head.run:
                raise LookupError(head.id)
            place = request.headers.get("last-event-id") or request.query_params.get("after", "")
            prefix = prefix_of(head)
            after = place.removeprefix(prefix) if place.startswith(prefix) else ""
            if not _PLACE.fullmatch(after):
                raise bad("Last-Event-ID is not an id of this stream.")
            texts = self._stream(visitor, head, OwnEvents(), Place(after))
            return EventResponse(texts, {}, held.pop_all())

    async def _resume_ui_messages(self, request: Request, visitor: Visitor) -> Response:
        """Replay the run under way from its beginning, as the AI SDK expects."""
        from handrail.web._protocols.ui_messages import HEADERS, UiChunks

        with ExitStack() as held:
            held.enter_context(self._streams.take(visitor.principal))
            head = await self._find(request, visitor)
            if not head.lease:
                return Response(status_code=HTTPStatus.NO_CONTENT)
            texts = self._stream(visitor, head, UiChunks(), Place())
            return EventResponse(texts, HEADERS, held.pop_all())

    # conversations

    async def _find(self, request: Request, visitor: Visitor) -> ConversationHead:
        found = await self._conversations.head(visitor.principal, request.path_params["id"])
        return await self._serving.settle(found)

    async def _list(self, request: Request, visitor: Visitor) -> Response:
        text = request.query_params.get("before", "")
        try:
            before = float(text) if text else None
        except ValueError:
            raise bad("`before` is a time in seconds.") from None
        heads = await self._conversations.list(visitor.principal, before=before, limit=_LIST)
        return JSONResponse({"conversations": list(map(describe_head, heads))})

    async def _show(self, request: Request, visitor: Visitor) -> Response:
        head = await self._find(request, visitor)
        saved = await self._conversations.get(visitor.principal, head.id)
        open_ = await self._inbox.open(head.run) if head.lease < 0 else ()
        waiting = [dict(describe_waiting(one, visitor)) for one in open_]
        about = describe_conversation(saved, details=self._details)
        return JSONResponse({**about, "approvals": waiting})

    async def _delete(self, request: Request, visitor: Visitor) -> Response:
        head = await self._find(request, visitor)
        if head.lease and not await self._serving.cancel(head):
            raise Refusal(HTTPStatus.CONFLICT, "Its run cannot be stopped here. Try again.")
        await self._conversations.delete(visitor.principal, head.id)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def _cancel(self, request: Request, visitor: Visitor) -> Response:
        head = await self._find(request, visitor)
        stopped = bool(head.lease) and await self._serving.cancel(head)
        return JSONResponse({"stopped": stopped})

    # approvals

    async def _show_inbox(self, _request: Request, visitor: Visitor) -> Response:
        described = [
            {**describe_request(one), "remember": [rule.rule for rule in offers]}
            for one in await self._inbox.list(visitor)
            for offers in [await self._inbox.list_offers(one)]
        ]
        return JSONResponse({"requests": described})

    async def _answer(self, request: Request, visitor: Visitor) -> Response:
        given = read_answer(await read_json(request, most=MAX_CHAT_BYTES))
        outcome = await self._inbox.answer(visitor, request.path_params["id"], given)
        if outcome.status == "used":
            await self._serving.resume(outcome.run)
        status = HTTPStatus.OK if outcome.used else HTTPStatus.CONFLICT
        return JSONResponse({"status": outcome.status, "text": outcome.text}, status)


def _check_options(
    durable: DurableRuns | None, agent: str, *, has_deps: bool, has_database: bool
) -> None:
    """Refuse the other kind's options."""
    if durable is None and (agent or not has_database):
        raise ValueError("For an Agent, pass `database`, and no `agent`.")
    if durable is not None and (has_deps or has_database or not agent):
        raise ValueError(
            "For DurableRuns, pass `agent`, its name there. They have the database, and `deps`."
        )
