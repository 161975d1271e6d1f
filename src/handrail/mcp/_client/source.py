"""McpSource: a server's tools as a registry source."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from handrail import Context, FailureKind, HandrailError, Json, Result, Tool, Toolset, Transient
from handrail.mcp._calls.outgoing import Kind, Outgoing
from handrail.mcp._client.definition import ListedTool
from handrail.mcp._client.effects import Effects
from handrail.mcp._client.pins import ChangedTool, Pins
from handrail.mcp._client.resources import ServerPrompt, make_resource_tools
from handrail.mcp._client.servers import HttpServer, NotConnected, Server, is_tool_name
from handrail.mcp._client.specs import make_spec

if TYPE_CHECKING:
    from handrail.mcp._client.connection import Connection
    from handrail.mcp._client.personal import PersonalConnections
    from handrail.mcp._client.session import Era
    from handrail.messages import Prompt, Reply
    from handrail.sources import OwnValues

DEFER_OVER = 10_000
"""Definition tokens per server above which a model searches for its tools."""
_NO_EFFECTS = Effects()

log = logging.getLogger("handrail.mcp")
Changed: TypeAlias = Callable[[Toolset], None]
"""Called with all of the server's tools after each change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Which of a server's tools are offered, and how."""

    effects: Effects = _NO_EFFECTS
    """What you know about the tools."""
    only: tuple[str, ...] = ()
    """Patterns for the tools to offer. All, if empty."""
    without: tuple[str, ...] = ()
    """Patterns for tools to omit."""
    timeout: float | None = None
    """Seconds for one call."""
    defer_over: int = DEFER_OVER
    """Tokens in all definitions above which a model searches for the tools."""

    own: Mapping[str, OwnValues] = field(default_factory=dict[str, "OwnValues"])
    """By pattern, a function returning the values in a result that only you or your own systems
    set, as ``Own`` does for a type. It takes the result as data, or as text."""

    def find_own(self, name: str) -> OwnValues | None:
        """Return the function for a tool's own values. The first match applies."""
        return next((one for key, one in self.own.items() if fnmatchcase(name, key)), None)

    def includes(self, name: str) -> bool:
        """Return whether this tool name is offered."""
        named = not self.only or any(fnmatchcase(name, pattern) for pattern in self.only)
        return named and not any(fnmatchcase(name, pattern) for pattern in self.without)


_ALL = Offer()


class McpSource:
    """A server's tools, for ``Registry.connect``.

    The connection stays open, and is opened again when lost. A tool whose definition changes is
    rejected as stale until ``approve``.

    Args:
        server: How the server is started or reached.
        offer: Which tools are offered, and what they can do.
        pins: Where approved definitions are stored. Default: in memory.
        era: Which protocol to speak.
        start_seconds: How long a server has to start and to list its tools.
    """

    def __init__(
        self,
        server: Server,
        *,
        offer: Offer = _ALL,
        pins: Pins | None = None,
        era: Era = "auto",
        start_seconds: float = 30.0,
    ) -> None:
        self.server = server
        self.offer = offer
        self._pins = Pins() if pins is None else pins
        self._era: Era = era
        self._start_seconds = start_seconds
        self._connection: Connection | None = None
        self._people: PersonalConnections | None = None
        """Each person's connections, if calls are sent with their own credentials."""
        self._has_resources = False
        self._is_offline = False
        """Whether a call may connect."""
        self._lock = anyio.Lock()
        self._running = 0
        self._idle: anyio.Event | None = None
        """Set when no call is running any more, if anyone waits for it."""
        self._changed: Changed | None = None
        self._listed: tuple[ListedTool, ...] = ()
        self.problems: tuple[str, ...] = ()
        """Omitted tools, and why."""
        self.changes: tuple[ChangedTool, ...] = ()
        """Tools whose definitions wait for approval."""

    @property
    def name(self) -> str:
        """The server's name."""
        return self.server.name

    @property
    def state(self) -> str:
        """``open``, ``lost``, or ``closed`` without a connection."""
        return "closed" if self._connection is None else self._connection.state

    @property
    def problem(self) -> str:
        """Why the server is not connected, with its last standard error output, for a person."""
        return "" if self._connection is None else self._connection.problem

    @property
    def definitions(self) -> tuple[ListedTool, ...]:
        """The server's last listed definitions."""
        return self._listed

    @asynccontextmanager
    async def open(self, changed: Changed) -> AsyncGenerator[Toolset]:
        """Connect, and return the tools. Raises NotConnected, or NeedsLogin."""
        connection = await self._connect()
        try:
            self._changed = changed
            yield self._make_tools()
        finally:
            self._changed = None
            await self._disconnect(connection)
            people, self._people = self._people, None
            if people is not None:
                await people.close()

    def offline(self) -> Toolset:
        """Return the approved tools without connecting. The first call connects.

        The connection ends when that call's executor closes.
        """
        self._is_offline = True
        return self.approved()

    def approved(self) -> Toolset:
        """Return the approved tools. Their calls fail until the source is open."""
        self._listed = self._pins.get(self.server)
        self._has_resources = self._pins.has_resources(self.server)
        return self._make_tools()

    def approve(self, *names: str) -> None:
        """Approve these tools' changed definitions, or all.

        Call this only for a person's decision.
        """
        wanted = [change.now for change in self.changes if not names or change.name in names]
        self._pins.approve(self.server, wanted)
        self._take(self._listed)
        if self._people is not None:
            self._people.check_again()

    def is_like(self, other: McpSource) -> bool:
        """Return whether another source offers the same tools from the same server."""
        mine = self.server, self.offer, self._era, self._start_seconds
        return mine == (other.server, other.offer, other._era, other._start_seconds)

    def check_again(self) -> None:
        """Compare what the server has listed with what is approved now."""
        if self._connection is not None:
            self._take(self._listed)
        if self._people is not None:
            self._people.check_again()

    async def wait_idle(self) -> None:
        """Wait until no call is running."""
        while self._running:
            self._idle = self._idle or anyio.Event()
            await self._idle.wait()

    # -- the connection --------------------------------------------------------------------------

    async def _connect(self) -> Connection:
        made = _load_connection()(
            self.server, self._take, era=self._era, seconds=self._start_seconds
        )
        try:
            await made.wait_open()
        except BaseException:
            await made.close()
            raise
        self._connection = made
        return made

    async def _disconnect(self, connection: Connection) -> None:
        self._connection = None
        await connection.close()

    async def _connect_for(self, context: Context) -> Connection:
        """Connect for an executor's first call."""
        if not self._is_offline:
            raise Transient(f"The MCP server {self.name!r} is not connected.")
        async with self._lock:
            made = self._connection or await self._connect()
            context.on_close(lambda: self._disconnect(made))
        return made

    def _take(self, listed: Iterable[ListedTool]) -> None:
        """Compare what the server lists with what is approved, and tell the registry."""
        self._listed = tuple(self._accept(listed))
        self.changes = self._pins.check(self.server, self._listed)
        if self._changed is not None:
            try:
                self._changed(self._make_tools())
            except (HandrailError, ExceptionGroup) as error:
                log.warning(
                    "the tools of the MCP server %r were not replaced: %s", self.name, error
                )

    def _accept(self, listed: Iterable[ListedTool]) -> Iterable[ListedTool]:
        """Yield the definitions with valid names, each name once."""
        seen: set[str] = set()
        problems: list[str] = []
        for definition in listed:
            name = definition.name
            if not is_tool_name(name) or name in seen:
                why = "its name is used twice" if name in seen else "its name is not valid"
                problems.append(f"the tool {name[:80]!r} is left out: {why}")
            elif self.offer.includes(name):
                seen.add(name)
                template, unknown = self.offer.effects.find_unknown(definition)
                if unknown:
                    why = f"{template!r} in touches names {', '.join(unknown)}"
                    problems.append(f"the tool {name!r} cannot run: {why}, which it does not take")
                yield definition
        for problem in problems:
            if problem not in self.problems:
                log.warning("the MCP server %r: %s", self.name, problem)
        self.problems = tuple(problems)

    # -- the tools -------------------------------------------------------------------------------

    def _make_tools(self) -> Toolset:
        waiting = {change.name: change.approved for change in self.changes}
        kept = [waiting.get(definition.name, definition) for definition in self._listed]
        made = [self._make_tool(definition) for definition in kept if definition is not None]
        if self._find_resources():
            taken = {definition.name for definition in self._listed}
            made += [
                tool
                for tool in make_resource_tools(self.name, self._ask)
                if (name := str(tool.spec.metadata["mcp_tool"])) not in taken
                and self.offer.includes(name)
            ]
        return Toolset(*made).deferred(over=self.offer.defer_over)

    def _find_resources(self) -> bool:
        """Return whether the server has resources, now or when it was last connected."""
        connection = self._connection
        if connection is not None and connection.has_resources and not self._has_resources:
            self._has_resources = True
            self._pins.note_resources(self.server)
        return self._has_resources

    async def _ask(self, kind: Kind, args: dict[str, Json], context: Context) -> Result:
        request = Outgoing(kind, args, _ignore, context, repeatable=True, kind=kind)
        return await self._run(request)

    async def _run(self, request: Outgoing) -> Result:
        """Send a call, which is counted until it ends: as its person, if each has a credential."""
        self._running += 1
        try:
            is_personal = isinstance(self.server, HttpServer) and bool(self.server.personal)
            connection = self._connection
            if not is_personal and connection is None:
                connection = await self._connect_for(request.context)
            if request.kind == "call" and self._is_stale(request.name):
                return self._refuse_stale(request.name)
            if is_personal or connection is None:
                return await self._find_people(request).run(request)
            return await connection.run(request)
        finally:
            self._running -= 1
            if not self._running and self._idle is not None:
                self._idle.set()
                self._idle = None

    def _find_people(self, request: Outgoing) -> PersonalConnections:
        if self._people is None:
            from handrail.mcp._client.personal import PersonalConnections

            server: Any = self.server
            self._people = PersonalConnections(
                server,
                find_changed=self._find_changed,
                refuse=self._refuse_stale,
                era=self._era,
                seconds=self._start_seconds,
            )
            request.context.on_close(self._people.close)
        return self._people

    def _find_changed(self, listed: Iterable[ListedTool]) -> frozenset[str]:
        changes = self._pins.check(self.server, self._accept(listed))
        return frozenset(change.name for change in changes)

    async def list_prompts(self) -> list[ServerPrompt]:
        """Return the connected server's prompts. Raises HandrailError if it has none."""
        return await self._get_connection().list_prompts()

    async def get_prompt(
        self, name: str, args: Mapping[str, str] | None = None
    ) -> tuple[Prompt | Reply, ...]:
        """Return a prompt's messages, to begin a conversation with.

        Their text is the server's. Raises HandrailError if the server refuses.
        """
        return await self._get_connection().get_prompt(name, dict(args or {}))

    def _get_connection(self) -> Connection:
        if self._connection is None:
            raise NotConnected(f"The MCP server {self.name!r} is not connected.")
        return self._connection

    def _make_tool(self, definition: ListedTool) -> Tool[..., Any]:
        name, effects = definition.name, self.offer.effects
        spec = make_spec(self.name, definition, effects, self.offer.timeout)
        repeatable = spec.idempotent or effects.is_read(definition)

        async def send(args: dict[str, Json], context: Context) -> Result:
            async def hear(progress: float, total: float | None, message: str | None) -> None:
                words = message or (f"{progress:g} of {total:g}" if total else f"{progress:g}")
                context.progress(words, min(1.0, progress / total) if total else None)

            return await self._run(Outgoing(name, args, hear, context, repeatable))

        touches = effects.find_touches(self.name, definition)
        origin, own = f"the MCP server {self.name!r}", self.offer.find_own(name)
        return Tool.remote(spec, send, origin=origin, touches=touches, own=own)

    def _is_stale(self, name: str) -> bool:
        return bool(self.changes) and any(change.name == name for change in self.changes)

    def _refuse_stale(self, name: str) -> Result:
        return Result.fail("", FailureKind.STALE, _STALE.format(name, self.name))


async def _ignore(progress: float, total: float | None, message: str | None) -> None: ...


_STALE = (
    "Not called: the definition of {!r} on the MCP server {!r} is not the one that was approved. "
    "A person must review the change first. Continue without this tool."
)


def _load_connection() -> type[Connection]:
    try:
        from handrail.mcp._client.connection import Connection
    except ModuleNotFoundError:
        raise HandrailError(
            "MCP servers need the package `mcp`. Install it: pip install 'handrail[mcp]'"
        ) from None
    return Connection
