"""Runs clients' calls: one turn for each session, with an executor inside."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import mcp_types as types

from handrail import Call, Executor, Json, Result, Spec, Toolset, Turn
from handrail.events import Progressed, Yielded
from handrail.mcp._server.asking import (
    Request,
    approve,
    ask,
    current,
    has_wire,
    is_modern,
    list_questions,
    name_session,
    read_answer,
)
from handrail.mcp._server.callers import Caller, CallerFacts
from handrail.mcp._server.changes import Changes
from handrail.mcp._server.content import list_definitions, refuse, write_result
from handrail.mcp._server.places import Places
from handrail.mcp._server.principal_tools import PrincipalTools, RulesOf
from handrail.mcp._server.tasks import running_task
from handrail.permissions import Answer, Pending

if TYPE_CHECKING:
    from handrail.sources import Heard

WaitFirst: TypeAlias = Callable[[], Awaitable[Sequence[str]]]
"""Waits for what a first list needs, and returns the names of those still missing."""

MAX_SESSIONS = 10_000
"""Maximum number of sessions. The longest idle one is dropped first."""
_MAX_HEARD_CHARS = 1_000_000
"""Characters a session remembers, for rules about sources."""
MISSING = "handrail/missing"
"""The key for servers whose tools are not in a list, because they have not answered."""
_TURN = "session"
_OTHER_FACTS = (
    "Not run: this answer is to a question of a session with other permissions. Call again."
)
_BEHIND = (
    "Not run: an earlier call that it depends on is still waiting for approval. Call again when "
    "that call has its result."
)


@dataclass(slots=True)
class Session:
    """One client's calls, or in the newer era one principal's."""

    turn: Turn[Any]
    answered: anyio.Event = field(default_factory=anyio.Event)
    """Set, and replaced, when a question has been answered."""
    running: int = 0
    heard: Heard | None = None
    """What its calls have returned, if the policy may ask about it."""
    asked: dict[object, float] = field(default_factory=dict[object, float])
    """When each open question was sent. The executor's clock may be another one."""

    @property
    def is_over(self) -> bool:
        """Whether a hook has ended it, with no call running or waiting."""
        return self.turn.is_closed and not self.running and not self.turn.waiting

    def tell_answered(self) -> None:
        """Wake up the calls waiting behind an approval request."""
        self.answered.set()
        self.answered = anyio.Event()


class Calls:
    """Answers the requests about tools."""

    def __init__(  # noqa: PLR0913  each is an option of `make_server`
        self,
        executor: Executor,
        *,
        places: Places,
        answer_seconds: float,
        rules_of: RulesOf | None,
        facts: CallerFacts,
        extra: Toolset | None = None,
        wait_first: WaitFirst | None = None,
    ) -> None:
        self._executor = executor
        self._wait_first = wait_first
        self._facts = facts
        self._extra = extra
        """Tools that are called but not listed: they serve other requests."""
        self._tools = PrincipalTools(executor, rules_of)
        self._tools_change = executor.registry is not None or rules_of is not None
        self._places = places
        self._answer_seconds = answer_seconds
        self._asking = 0
        """Unanswered approval requests at older clients."""
        self.changes = None if executor.registry is None else Changes(executor.registry)
        """Notifies clients about changes, if the tools can change."""
        self._sessions: OrderedDict[tuple[str, str], Session] = OrderedDict()
        """By name and facts: two tokens for one principal can differ in what they permit."""

    async def list_tools(self, request: Request, _params: object) -> types.ListToolsResult:
        """Return the tools a client can call. From here on, calls mean these."""
        missing = () if self._wait_first is None else await self._wait_first()
        tools = await self._executor.prepare_tools()
        if self.changes is not None:
            self.changes.remember(name_session(request), request)
        principal = self._facts.find_caller().principal
        shown = await self._tools.select(tools, principal)
        named = [name for name in missing if self._tools.may_know(name, principal)]
        found = types.ListToolsResult(tools=list_definitions(shown))
        return found.model_copy(update={"meta": {MISSING: named}}) if named else found

    def find_owner(self, request: Request) -> object:
        """Return whom a request is from: what it may do must be the same."""
        caller = self._facts.find_caller()
        metadata = self._facts.read_metadata(caller)
        return name_session(request), self._facts.digest(caller, metadata)

    def find_schema(self, name: str) -> Mapping[str, Any] | None:
        """Return what a tool takes. Without this, the SDK lists all tools for each call."""
        found = self._find_spec(name)
        return None if found is None else found.input_schema

    def is_background(self, name: str) -> bool:
        """Return whether a tool's calls become tasks at once."""
        found = self._find_spec(name)
        return found is not None and found.background

    def _find_spec(self, name: str) -> Spec | None:
        tools = self._executor.turn().tools
        found = tools.find(tools.api_names.get(name, name))
        return None if found is None else found.spec

    async def call_tool(
        self, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a call, or ask about it."""
        session = self._find_session(request)
        current.set(request)
        session.running += 1
        try:
            if params.request_state is not None and is_modern(request):
                return await self._call_again(session, request, params)
            return await self._call_in_turn(session, request, params)
        finally:
            session.running -= 1

    async def _call_in_turn(
        self, session: Session, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        principal = session.turn.principal
        if refused := await self._places.enter(principal):
            return refuse(refused)
        try:
            await self._prepare(session)
            name = session.turn.tools.api_names.get(params.name, params.name)
            call_id = f"{request.request_id}-{token_hex(8)}"  # clients repeat ids: decision 065
            call = Call(name, params.arguments or {}, call_id)
            result = await _with_progress(
                session, request, call_id, partial(session.turn.run, call)
            )
            return await self._finish(session, request, call, result)
        finally:
            self._places.leave(principal)

    async def _call_again(
        self, session: Session, request: Request, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Take the answer to an earlier question, and run its call."""
        async with self._places.answer(session.turn.principal) as refused:
            if refused:
                return refuse(refused)
            await self._prepare(session)
            pending = Pending.from_json(params.request_state or "")
            if pending.run_id != session.turn.run_id:
                return refuse(_OTHER_FACTS)
            responses = params.input_responses or {}
            answers = {
                one.id: read_answer(responses.get(key), one)
                for key, one in list_questions(pending).items()
            }
            result = await self._answer(session, request, pending, answers)
            return await self._finish(session, request, pending.call, result)

    async def _prepare(self, session: Session) -> None:
        await self._drop_old_questions(session)
        if self._tools_change:
            await self._renew_tools(session.turn)

    async def _finish(
        self, session: Session, request: Request, call: Call, result: Result
    ) -> types.CallToolResult | types.InputRequiredResult:
        if result.pending is not None and not list_questions(result.pending):
            result = await self._wait_behind(session, request, result.pending)
        if result.pending is not None:
            session.asked[result.pending.key] = time.monotonic()
            return ask(result.pending)
        if session.heard is not None:
            session.heard.add(call.name, call.args, result)
        session.turn.forget(result.call_id)
        tool = session.turn.tools.find(call.name)
        return write_result(result, None if tool is None else tool.spec)

    async def _answer(
        self,
        session: Session,
        request: Request,
        pending: Pending,
        answers: Mapping[str, Answer],
    ) -> Result:
        """Run a call whose questions are answered, or that waited for another."""
        turn, call_id = session.turn, pending.call.id
        session.asked.pop(pending.key, None)
        if all(other.key != pending.key for other in turn.waiting) and call_id not in turn:
            turn.adopt(pending)  # another process asked

        async def run() -> Result:
            asked = list_questions(pending).values() if answers else (pending,)
            for one in asked:
                turn.answer(one, answers.get(one.id))
            return await turn.result(call_id)

        try:
            return await _with_progress(session, request, call_id, run)
        except BaseException:
            turn.cancel(call_id)
            raise
        finally:
            session.tell_answered()

    async def _wait_behind(self, session: Session, request: Request, pending: Pending) -> Result:
        """Run a call once the approval request before it is answered in time."""
        with anyio.move_on_after(self._answer_seconds):
            async with self._places.ask(session.turn.principal, is_scheduled=False):
                while {other.key for other in session.turn.waiting} & set(pending.after):
                    await session.answered.wait()
            return await self._answer(session, request, pending, {})
        return await session.turn.dismiss(pending, _BEHIND)

    async def _drop_old_questions(self, session: Session) -> None:
        """Deny approval requests too old for a client to answer."""
        too_old = time.monotonic() - self._answer_seconds
        for pending in session.turn.pending:
            if session.asked.get(pending.key, too_old) < too_old:
                del session.asked[pending.key]
                await session.turn.dismiss(pending)
                session.tell_answered()

    def _find_session(self, request: Request) -> Session:
        caller, name = self._facts.find_caller(), name_session(request)
        metadata = self._facts.read_metadata(caller)
        key = (name, self._facts.digest(caller, metadata))
        session = self._sessions.get(key)
        if session is None or (session.is_over and not _has_session(request)):
            turn = self._open_turn(key, caller, metadata)
            session = self._sessions[key] = Session(turn, heard=turn.options.heard)
        if session.heard is not None:
            session.heard.say(*self._facts.read_said(caller))
        self._sessions.move_to_end(key)
        too_many = len(self._sessions) - MAX_SESSIONS
        if too_many > 0:
            idle = [key for key, other in self._sessions.items() if not other.running]
            for key in idle[:too_many]:
                del self._sessions[key]
        return session

    async def _renew_tools(self, turn: Turn[Any]) -> None:
        """Let a session call the current tools: its turn may last longer than these."""
        now = self._executor.turn()
        turn.tools = await self._tools.select(now.tools, turn.principal)
        turn.generation = now.generation if turn.tools is now.tools else -1
        self._add_extra(turn)

    def _add_extra(self, turn: Turn[Any]) -> None:
        if self._extra is not None:
            turn.tools = Toolset.join((turn.tools, self._extra))
            turn.generation = -1
            lent = frozenset(tool.spec.name for tool in self._extra)
            turn.options = turn.options._replace(lent=lent)

    def _open_turn(
        self, key: tuple[str, str], caller: Caller, metadata: Mapping[str, Json]
    ) -> Turn[Any]:
        own = partial(self._approve, caller.principal)
        turn = self._executor.turn(
            _TURN,
            run=":".join(filter(None, ("mcp", *key))),
            principal=caller.principal,
            deps=self._facts.read_deps(caller),
            metadata=metadata,
            approver=own if self._executor.approver is None else None,
            heard=self._listen(),
        )
        self._add_extra(turn)
        return turn

    def _listen(self) -> Heard | None:
        """Return a memory for a session's results, if the policy may ask about them."""
        if not getattr(self._executor.policy, "uses_sources", self._executor.policy is not None):
            return None
        from handrail.sources import Heard  # which few servers need

        return Heard(follows_turns=False, max_chars=_MAX_HEARD_CHARS)

    async def _approve(self, principal: str | None, pending: Pending) -> Answer | Pending:
        """Ask the client. Until it answers, the call leaves its place to others."""
        self._asking += 1
        try:
            async with self._places.ask(principal, is_scheduled=True):
                return await approve(pending)
        finally:
            self._asking -= 1

    def count_questions(self) -> int:
        """Return how many calls wait for a person."""
        waiting = (one for session in self._sessions.values() for one in session.turn.waiting)
        return self._asking + sum(1 for one in waiting if list_questions(one))


def _has_session(request: Request) -> bool:
    """Return whether a client has a separate session, which it can begin again.

    In the newer era over HTTP, a principal's calls share one for the server's lifetime. If a hook
    ends it, running calls end, and later ones get a new one.
    """
    http = request.request
    return http is None or (not is_modern(request) and "mcp-session-id" in http.headers)


async def _with_progress(
    session: Session, request: Request, call_id: str, run: Callable[[], Awaitable[Result]]
) -> Result:
    """Run a call, and send its progress and output to an interested client."""
    if not _may_want_progress(request):
        return await run()
    feed = session.turn.events(call_id)
    results = list[Result]()
    async with anyio.create_task_group() as group:
        group.start_soon(_forward, feed, request)
        results.append(await run())
    return results[0]


def _may_want_progress(request: Request) -> bool:
    """Return whether to report progress. A client in this process has no token to ask with."""
    if running_task.get() is not None:
        return True
    if request.meta is not None and "progress_token" in request.meta:
        return True
    return request.request is None and is_modern(request) and not has_wire(request)


async def _forward(feed: Any, request: Request) -> None:
    """Send a call's progress and output to its client."""
    chars, task = 0, running_task.get()
    async for event in feed:
        if task is not None and isinstance(event, Progressed):
            task.report(event.message)
        if task is not None and task.is_handed_out:
            continue  # its request is over
        if isinstance(event, Progressed):
            fraction = 0.0 if event.fraction is None else event.fraction
            total = None if event.fraction is None else 1.0
            await request.session.report_progress(fraction, total, event.message)
        elif isinstance(event, Yielded):
            chars += len(event.text)
            await request.session.report_progress(float(chars), None, event.text)
