"""PersonalConnections: each person's calls in own sessions, with their own credential.

A connection is opened with one person's headers, and never used for another person or with other
headers: what a server keeps in a session stays with that person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import anyio

from handrail import NeedsLogin, Result, ToolFailed, Transient
from handrail._support.loop import spawn
from handrail.mcp._calls.outgoing import Outgoing
from handrail.mcp._client.connection import Connection
from handrail.mcp._client.definition import ListedTool
from handrail.mcp._client.servers import HttpServer, NotConnected

if TYPE_CHECKING:
    from handrail.mcp._client.session import Era

MAX_CONNECTIONS = 1_000
"""Connections of all persons to one server. Idle ones are closed before more are refused."""
IDLE_SECONDS = 60.0
"""A connection without a call for this long is closed."""

Headers: TypeAlias = tuple[tuple[str, str], ...]
FindChanged: TypeAlias = Callable[[list[ListedTool]], frozenset[str]]
"""Returns names: the tools listed otherwise than approved."""
Refuse: TypeAlias = Callable[[str], Result]
"""Returns the result for a changed tool."""


@dataclass(slots=True, eq=False)
class _OpenConnection:
    """One person's connection."""

    listed: list[ListedTool] = field(default_factory=list[ListedTool])
    changed: frozenset[str] = frozenset()
    """The tools that differ from the approved ones, for this person."""
    connection: Connection = field(init=False)
    running: int = 0
    used_at: float = 0.0


class PersonalConnections:
    """Connections to one server, each for one person and one credential."""

    def __init__(
        self,
        server: HttpServer,
        *,
        find_changed: FindChanged,
        refuse: Refuse,
        era: Era,
        seconds: float,
    ) -> None:
        self._server = server
        self._find_changed = find_changed
        self._refuse = refuse
        self._era: Era = era
        self._seconds = seconds
        # by credential, since servers keep things in sessions: decision 131
        self._open: dict[tuple[str | None, Headers], _OpenConnection] = {}
        self._reaping: object = None

    async def run(self, request: Outgoing) -> Result:
        """Send a call with its person's credential. A refused one is replaced once."""
        headers = await self._find_headers(request, {})
        try:
            return await self._run(request, headers)
        except NeedsLogin:
            if not isinstance(self._server.personal, str):
                raise
        return await self._run(request, await self._find_headers(request, headers))

    def check_again(self) -> None:
        """Compare what was listed with what is approved now."""
        for own in self._open.values():
            own.changed = self._find_changed(own.listed)

    async def close(self) -> None:
        """Close all connections."""
        closing, self._open = list(self._open.values()), {}
        for own in closing:
            await own.connection.close()

    async def _find_headers(self, request: Outgoing, refused: Mapping[str, str]) -> dict[str, str]:
        """Return the headers for a call, with another credential than the refused one."""
        personal, context = self._server.personal, request.context
        if isinstance(personal, str):
            old = refused.get("Authorization", "").removeprefix("Bearer ")
            return {"Authorization": f"Bearer {await context.credential(personal, refused=old)}"}
        found = personal(context)
        headers = found if isinstance(found, Mapping) else await found
        if not all(_is_header(name, value) for name, value in headers.items()):
            raise ToolFailed("Not run: the headers of this user cannot be used. Tell the user.")
        return dict(headers)

    async def _run(self, request: Outgoing, headers: Mapping[str, str]) -> Result:
        if len(self._open) >= MAX_CONNECTIONS:
            await self._drop_idle()
        own = self._find(request.context.principal, headers)
        own.running += 1  # nothing is awaited in between, so it is not closed as idle
        try:
            await _wait_open(own.connection)
            if request.kind == "call" and request.name in own.changed:
                return self._refuse(request.name)
            return await own.connection.run(request)
        finally:
            own.running -= 1
            own.used_at = anyio.current_time()

    def _find(self, principal: str | None, headers: Mapping[str, str]) -> _OpenConnection:
        """Return the connection for exactly this person and these headers."""
        key = principal, tuple(sorted(headers.items()))
        own = self._open.get(key)
        if own is not None and own.connection.state != "closed":
            return own
        made = _OpenConnection(used_at=anyio.current_time())
        server = replace(self._server, headers=dict(headers), auth=None, personal="")

        def take(listed: list[ListedTool]) -> None:
            made.listed, made.changed = listed, self._find_changed(listed)

        made.connection = Connection(
            server, take, era=self._era, seconds=self._seconds, is_personal=True
        )
        self._open[key] = made
        if self._reaping is None:
            self._reaping = spawn(copy_context(), self._reap, lost=self._forget_reaper)
        return made

    async def _drop_idle(self) -> None:
        idle = [(own.used_at, key) for key, own in self._open.items() if not own.running]
        if not idle:
            raise Transient(f"The MCP server {self._server.name!r} has too many users at once.")
        key = min(idle, key=lambda one: one[0])[1]
        await self._open.pop(key).connection.close()

    async def _reap(self) -> None:
        """Close idle connections, until there are none."""
        while self._open:
            await anyio.sleep(IDLE_SECONDS / 2)
            before = anyio.current_time() - IDLE_SECONDS
            idle = [key for key, own in self._open.items() if not own.running]
            for key in [key for key in idle if self._open[key].used_at < before]:
                own = self._open.pop(key, None)
                if own is not None:
                    await own.connection.close()
        self._forget_reaper()

    def _forget_reaper(self, *_: object) -> None:
        self._reaping = None


async def _wait_open(connection: Connection) -> None:
    """Wait for the first connection, which also lists this person's tools."""
    if connection.state == "opening":
        try:
            await connection.wait_open()
        except NotConnected as error:
            raise Transient(str(error)) from error


def _is_header(name: object, value: object) -> bool:
    return (
        isinstance(name, str)
        and isinstance(value, str)
        and name.replace("-", "").replace("_", "").isalnum()
        and name.isascii()
        and value.isascii()
        and value.isprintable()
    )
