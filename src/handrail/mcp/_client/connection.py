"""Connection: one owner task per server, keeping transport failures away from callers.

The owner opens the session, receives change notices, detects the end, and reconnects. Callers use
the session from their own tasks, and only wait for answers.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context as Variables
from contextvars import copy_context
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

import anyio
from mcp import MCPError
from mcp_types import CONNECTION_CLOSED, URL_ELICITATION_REQUIRED, InputRequiredResult

from handrail import (
    File,
    HandrailError,
    Image,
    NeedsLogin,
    Result,
    Text,
    ToolFailed,
    Transient,
    Unknown,
)
from handrail._support.loop import spawn
from handrail._support.visible import spell_out
from handrail.mcp._calls.content import (
    read_contents,
    read_listing,
    read_messages,
    read_result,
)
from handrail.mcp._calls.following import find_handle, follow
from handrail.mcp._calls.outgoing import Outgoing
from handrail.mcp._calls.shapes import CreatedTask
from handrail.mcp._client.definition import ListedTool
from handrail.mcp._client.resources import ServerPrompt
from handrail.mcp._client.servers import HttpServer, NotConnected, Server
from handrail.mcp._client.session import Era, Session, open_session
from handrail.mcp._client.watch import Watch
from handrail.mcp._login.flow import Login
from handrail.mcp._questions.questions import Sent, call_and_ask, find_address
from handrail.messages import Prompt, Reply

State: TypeAlias = Literal["opening", "open", "lost", "closed"]
Listed: TypeAlias = Callable[[list[ListedTool]], None]
"""Receives all of a server's definitions after each listing."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
"""Reconnect backoff in seconds: first and maximum, doubling."""
STEADY_SECONDS = 5.0
"""After a connection this long, the backoff starts again."""
RELIST_SECONDS = 0.2
"""Minimum seconds between two listings, however often a server reports changed tools."""
CAUSE_SECONDS = 1.0
"""How long a call waits to learn why its connection was lost."""

log = logging.getLogger("handrail.mcp")
_E = TypeVar("_E", bound=Exception)
_T = TypeVar("_T")


class Connection:
    """A server, connected until ``close``."""

    def __init__(
        self,
        server: Server,
        listed: Listed,
        *,
        era: Era,
        seconds: float,
        is_personal: bool = False,
    ) -> None:
        self._server = server
        self._listed = listed
        self._is_personal = is_personal
        """Whether it is for one person's calls: it then opens again only for a call."""
        self._era: Era = era
        self._seconds = seconds
        self.state: State = "opening"
        self.problem = ""
        """Why it is not connected, for a person."""
        self._challenge = ""
        """What the server said about a login."""
        self._session: Session | None = None
        self._turned = anyio.Event()
        """Set at the next state change."""
        self._wanted = anyio.Event()
        """Set by a call needing a connection, to end the pause before the next attempt."""
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        variables: Variables = copy_context()
        self._task = spawn(variables, self._own, lost=self._ended.set)

    # -- the owner's task ------------------------------------------------------------------------

    async def _own(self) -> None:
        """Keep the server connected. Never raises, except if the event loop ends."""
        try:
            with self._scope:
                pause = FIRST_PAUSE
                while True:
                    began = anyio.current_time()
                    expired = await self._live()
                    if expired or anyio.current_time() - began > STEADY_SECONDS:
                        pause = FIRST_PAUSE
                    if not expired:
                        await self._pause(math.inf if self._is_personal else pause)
                        pause = min(LONGEST_PAUSE, pause * 2)
        finally:
            self._turn("closed")
            self._ended.set()

    async def _pause(self, seconds: float) -> None:
        """Wait before the next attempt to connect, less if a call needs the connection."""
        await anyio.sleep(FIRST_PAUSE * random.uniform(0.5, 1))  # noqa: S311  no secret
        with anyio.move_on_after(seconds - FIRST_PAUSE):
            await self._wanted.wait()
        self._wanted = anyio.Event()

    async def _live(self) -> bool:
        """Connect, and stay connected. Returns whether only the session has expired."""
        watch = Watch()
        error: Exception | None = None
        try:
            with anyio.fail_after(self._seconds) as limit:
                async with open_session(self._server, watch, self._era) as session:
                    listed = await session.list_tools()
                    if not self._is_personal:
                        await session.find_resources()
                    self._session = session
                    self._listed(listed)
                    limit.deadline = math.inf
                    self._turn("open")
                    await self._attend(session)
        except Exception as failed:  # noqa: BLE001 from the transport, the SDK or the server
            error = failed
        self.problem = self._describe_end(watch, error)
        log.info("the MCP server %r: %s", self.name, self.problem)
        watch.over.set()
        self._turn("lost")
        return watch.expired

    async def _attend(self, session: Session) -> None:
        """Wait until the connection ends. Until then, list the tools again after changes."""
        try:
            async with anyio.create_task_group() as tasks:
                if not self._is_personal:
                    tasks.start_soon(session.subscribe)
                tasks.start_soon(self._relist, session)
                await session.watch.lost.wait()
                tasks.cancel_scope.cancel()
        finally:
            self._session = None  # no call should use it from here on

    async def _relist(self, session: Session) -> None:
        while True:
            await session.watch.changed.wait()
            session.watch.changed = anyio.Event()
            try:
                self._listed(await session.list_tools())
            except (MCPError, ValueError) as error:
                log.warning("the MCP server %r did not list its tools: %s", self.name, error)
            await anyio.sleep(RELIST_SECONDS)

    def _turn(self, state: State) -> None:
        self.state = state
        turned, self._turned = self._turned, anyio.Event()
        turned.set()

    def _describe_end(self, watch: Watch, error: Exception | None) -> str:
        if isinstance(error, TimeoutError):
            why = f"it did not answer within {self._seconds:g} s"
        else:
            why = (watch.why or _describe(error)).removesuffix(".")
        tail = spell_out(watch.tail.decode(errors="replace")).strip()
        self._challenge = watch.challenge
        if watch.needs_login:
            why = "it asks for a login"
        return f"{why}. Its last words:\n{tail}" if tail else f"{why}."

    # -- for callers -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The server's name."""
        return self._server.name

    async def wait_open(self) -> None:
        """Wait for the first connection. Raises NotConnected or NeedsLogin if it fails."""
        while self.state == "opening":
            await self._turned.wait()
        if self.state != "open":
            raise await self._refuse(NotConnected)

    async def close(self) -> None:
        """Disconnect and stop everything started. Ignores cancellation. Safe to repeat."""
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    async def run(self, request: Outgoing) -> Result:
        """Call a tool, reconnecting first if needed. The server's questions go to the user.

        Raises Unknown if the connection was lost during the call. Raises Transient instead if the
        call is repeatable or was not sent.
        """
        for _ in range(2):
            result = await call_and_ask(partial(self._send, request), request.context, self.name)
            if result is not None:
                return result
            await self._wait_session()
        raise Transient(f"The MCP server {self.name!r} forgets its sessions.")

    async def _send(self, request: Outgoing, responses: Any, state: str | None) -> Sent:
        """Call a tool in the current session, or wait for the work that the call has begun.

        Returns None if the session expired before the call was read.
        """
        session = self._session or await self._wait_session()
        try:
            if handle := find_handle(request):
                return await follow(self._ask, request, handle, self.name)
            sent = await session.send(request, self.name, responses=responses, state=state)
            if isinstance(sent, CreatedTask):
                return await follow(self._ask, request, sent.task_id, self.name)
            return sent if isinstance(sent, InputRequiredResult) else _READERS[request.kind](sent)
        except MCPError as error:
            if session.watch.expired and error.code != CONNECTION_CLOSED:  # else it may have run
                return None
            explained = await self._explain(session, error, repeatable=request.repeatable)
            raise explained from error
        except ValueError as error:
            message = f"The MCP server {self.name!r} sent an answer that is not a result."
            raise _with_note(ToolFailed(message), str(error)) from error

    async def _ask(self, request: Any, kind: type[Any]) -> Any:
        """Send a request about long work. Raises Transient if the connection is lost."""
        session = self._session or await self._wait_session()
        try:
            return await session.ask(request, kind)
        except MCPError as error:
            watch = session.watch
            if error.code != CONNECTION_CLOSED and not (watch.expired or watch.needs_login):
                raise
            raise await self._explain(session, error, repeatable=True) from error

    async def list_prompts(self) -> list[ServerPrompt]:
        """Return the server's prompts. Raises HandrailError if it has none."""
        return [_read_prompt(one) for one in await self._request(lambda one: one.list_prompts())]

    async def get_prompt(self, name: str, args: dict[str, str]) -> tuple[Prompt | Reply, ...]:
        """Return a prompt's messages. Raises HandrailError if the server refuses."""
        sent = await self._request(lambda one: one.get_prompt(name, args))
        return tuple(
            Prompt((_quote(part),)) if is_user else Reply((_say(part),))
            for is_user, part in read_messages(sent)
        )

    async def _request(self, send: Callable[[Session], Awaitable[_T]]) -> _T:
        session = self._session or await self._wait_session()
        try:
            return await send(session)
        except MCPError as error:
            raise await self._explain(session, error, repeatable=True) from error
        except (ValueError, RuntimeError) as error:
            message = f"The MCP server {self.name!r} sent an answer that is not a result."
            raise _with_note(ToolFailed(message), str(error)) from error

    @property
    def has_resources(self) -> bool:
        """Whether the server offers resources. False while it is not connected."""
        return self._session is not None and self._session.has_resources

    async def _wait_session(self) -> Session:
        """Wait for the next attempt to connect. Raises Transient or NeedsLogin if it fails."""
        with anyio.move_on_after(self._seconds):
            if self.state == "open":  # its end was noticed, but is not known yet
                await self._turned.wait()
            self._wanted.set()
            await self._turned.wait()
        session = self._session
        if session is None:
            raise await self._refuse(Transient)
        return session

    async def _explain(
        self, session: Session, error: MCPError, *, repeatable: bool
    ) -> ToolFailed | Transient | Unknown | NeedsLogin:
        """Return the exception explaining an error to a model."""
        if session.watch.needs_login:
            self._challenge = session.watch.challenge
            return await self._needs_login()
        if error.code == URL_ELICITATION_REQUIRED and (url := find_address(error.data)):
            return NeedsLogin(f"The MCP server {self.name!r} asks you to open an address.", url=url)
        if error.code != CONNECTION_CLOSED:
            message = f"The MCP server {self.name!r} refused the call: {spell_out(error.message)}"
            return ToolFailed(message)
        with anyio.move_on_after(CAUSE_SECONDS):
            await session.watch.over.wait()
        kind = Transient if repeatable else Unknown
        lost = kind(f"The connection to the MCP server {self.name!r} was lost during the call.")
        known = session.watch.over.is_set()  # else the program is still being stopped
        return _with_note(lost, self.problem if known else session.watch.why)

    async def _refuse(self, kind: type[NotConnected | Transient]) -> HandrailError:
        if self.problem.startswith("it asks for a login"):
            return await self._needs_login()
        first, _, rest = self.problem.partition("\n")
        message = f"The MCP server {self.name!r} is not connected: {first or 'closed.'}"
        return _with_note(kind(message.removesuffix(" Its last words:")), rest)

    async def _needs_login(self) -> NeedsLogin:
        """Return the failure for a person. Raises ToolFailed if the login cannot begin."""
        server: HttpServer = cast("Any", self._server)  # no program asks for a login
        auth, url = server.auth, server.url
        if isinstance(auth, Login):
            url = await auth.start(server.url, self._challenge)
        return NeedsLogin(f"The MCP server {self.name!r} needs a login.", url=url)


_READERS: Mapping[str, Callable[[Any], Result]] = {
    "call": read_result,
    "read": read_contents,
    "list": read_listing,
}


def _read_prompt(listed: Any) -> ServerPrompt:
    return ServerPrompt(
        spell_out(listed.name),
        spell_out(listed.description or listed.title or ""),
        tuple((spell_out(one.name), bool(one.required)) for one in listed.arguments or ()),
    )


def _quote(part: Text | Image | File) -> Text | Image | File:
    """Return a part as words of a server, and not of the user."""
    return Text(part.text, quoted=True) if isinstance(part, Text) else part


def _say(part: Text | Image | File) -> Text:
    return part if isinstance(part, Text) else Text("[content other than text]")


def _with_note(error: _E, note: str) -> _E:
    if note:
        error.add_note(note)
    return error


def _describe(error: BaseException | None) -> str:
    """Return what went wrong first, in a word or two."""
    if isinstance(error, BaseExceptionGroup):
        inside = cast("BaseExceptionGroup[BaseException]", error)
        return _describe(inside.exceptions[0])
    if error is None:
        return "the connection ended"
    return spell_out(str(error)) or type(error).__name__
