"""Upstreams: the servers behind a gateway. Each has its own task, so none waits for another."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from handrail import DuplicateName, Executor, Exposure, HandrailError, Registry, Toolset
from handrail.mcp._client.source import McpSource

State: TypeAlias = Literal["connecting", "open", "lost", "failed"]

DEFER_OVER = 10_000
"""Definition tokens above which a client searches for the servers' tools."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Reconnect backoff in seconds: first and maximum, doubling."""
PUBLISH_SECONDS = 0.2
"""Minimum seconds between two changes to the clients' tools."""
READY_SECONDS = 10.0
"""After this time a gateway is ready, even if some servers have not answered."""
FIRST_LIST_SECONDS = 5.0
"""How long the first lists wait for servers without approved tools."""
DRAIN_SECONDS = 600.0
"""How long a removed server's calls may run on."""
OWN_TOOLS = "own tools"
"""Source name for the gateway's own tools. No server can have it."""

log = logging.getLogger("handrail.mcp")


@dataclass(frozen=True, slots=True)
class UpstreamHealth:
    """How a server behind a gateway is."""

    name: str
    state: State
    tools: int
    """How many tools it offers."""
    problem: str = ""
    """Why it is not connected or its tools are not offered, for a person."""


@dataclass(slots=True)
class _Upstream:
    source: McpSource
    tools: Toolset = field(default_factory=Toolset)
    tokens: int = 0
    problem: str = ""
    offered: Toolset | None = None
    """Its tools when they were last offered."""
    tried: anyio.Event = field(default_factory=anyio.Event)
    """Set when the first attempt to connect has ended."""
    removed: anyio.Event = field(default_factory=anyio.Event)
    """Set when it is no longer among the servers. Its running calls may end."""


class Upstreams:
    """Servers whose tools an executor offers together, next to your own tools.

    Approved tools are offered immediately, before any server has answered. An unreachable server
    delays no other one. The pauses between attempts get longer.

    Args:
        sources: The servers. Each name can be used once.
        own: Your own tools. A server can never take one of their names.
        defer_over: Definition tokens above which clients search for the servers' tools. Create the
            executor with ``call_found_by="call_tool"``.
    """

    def __init__(
        self,
        sources: Iterable[McpSource],
        *,
        own: Toolset | None = None,
        defer_over: int = DEFER_OVER,
    ) -> None:
        self.registry = Registry()
        self._defer_over = defer_over
        self._is_deferred = False
        self._changed = anyio.Event()
        """Set when tools have changed."""
        self._published = anyio.Event()
        """Set at the next change to the clients' tools."""
        self._names: set[str] = set()
        """The servers in the registry."""
        self._opened_at = float("inf")
        self._upstreams = {name: _Upstream(source) for name, source in _by_name(sources).items()}
        self._open: tuple[TaskGroup, Executor] | None = None
        """What runs while it is connected."""
        if own is not None and len(own):
            self.registry.add(own, name=OWN_TOOLS)

    @asynccontextmanager
    async def connect(self, executor: Executor) -> AsyncGenerator[None]:
        """Connect to all servers until the block ends, and keep the executor's tools up to date.

        The block begins at once. It does not wait for a server.
        """
        usable = [one for one in self._upstreams.values() if _load_approved(one)]
        await self._publish(executor)
        self._opened_at = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for upstream in usable:
                tasks.start_soon(self._keep, upstream)
            tasks.start_soon(self._keep_published, executor)
            self._open = tasks, executor
            try:
                yield
            finally:
                self._open = None
                tasks.cancel_scope.cancel()

    async def replace(self, sources: Iterable[McpSource]) -> None:
        """Serve exactly these servers from now on. Raises RuntimeError outside ``connect``.

        A server with the same configuration stays connected, and its approvals are read again. The
        calls running at a removed or changed one can end: they have ``DRAIN_SECONDS``.
        """
        if self._open is None:
            raise RuntimeError("Upstreams are replaced inside of `connect`.")
        tasks, executor = self._open
        wanted = _by_name(sources)
        for name, upstream in list(self._upstreams.items()):
            if name in wanted and wanted[name].is_like(upstream.source):
                upstream.source.check_again()
                del wanted[name]
                continue
            upstream.removed.set()
            del self._upstreams[name]
            if name not in wanted and name in self._names:
                self._names.discard(name)
                self.registry.remove(name)
        for name, source in wanted.items():
            made = self._upstreams[name] = _Upstream(source)
            if _load_approved(made):
                tasks.start_soon(self._keep, made)
        await self._publish(executor)

    async def wait_tried(self, seconds: float) -> None:
        """Wait for servers without approved tools, to avoid an empty first list.

        Returns when each has answered or failed, after ``seconds`` at the latest.
        """
        with anyio.move_on_after(seconds):
            for upstream in self._upstreams.values():
                if not len(upstream.tools):
                    await upstream.tried.wait()
            while self._find_new():
                await self._published.wait()

    @property
    def is_ready(self) -> bool:
        """Whether each server was tried and its tools are offered, or has had its time."""
        waited = anyio.current_time() - self._opened_at
        tried = (upstream.tried.is_set() for upstream in self._upstreams.values())
        is_complete = waited >= 0 and all(tried) and not self._find_new()
        return waited >= READY_SECONDS or is_complete

    async def wait_first(self) -> tuple[str, ...]:
        """Wait until each server was tried, for its first list, and name those without an answer.

        Servers with approved tools are not waited for. Each has ``FIRST_LIST_SECONDS`` from the
        gateway's start.
        """
        left = self._opened_at + FIRST_LIST_SECONDS - anyio.current_time()
        await self.wait_tried(min(FIRST_LIST_SECONDS, left))
        return tuple(
            name
            for name in sorted(self._upstreams)
            if not len(self._upstreams[name].tools) and self._upstreams[name].source.state != "open"
        )

    def health(self) -> tuple[UpstreamHealth, ...]:
        """Return how each server is, in name order."""
        return tuple(_describe(self._upstreams[name]) for name in sorted(self._upstreams))

    # -- one task for each server ----------------------------------------------------------------

    async def _keep(self, upstream: _Upstream) -> None:
        """Connect until it succeeds once. The source then reconnects by itself."""
        pause = FIRST_PAUSE
        while not upstream.removed.is_set():
            try:
                async with upstream.source.open(partial(self._take, upstream)) as tools:
                    self._take(upstream, tools)
                    upstream.problem = ""
                    await upstream.removed.wait()
                    with anyio.move_on_after(DRAIN_SECONDS):
                        await upstream.source.wait_idle()
                    return
            except Exception as error:  # noqa: BLE001  one server must not end the others
                if str(error) != upstream.problem:
                    log.warning("the MCP server %r: %s", upstream.source.name, error)
                upstream.problem = str(error)
            upstream.tried.set()
            with anyio.move_on_after(pause * random.uniform(0.5, 1)):  # noqa: S311  no secret
                await upstream.removed.wait()
            pause = min(LONGEST_PAUSE, pause * 2)

    def _take(self, upstream: _Upstream, tools: Toolset) -> None:
        upstream.tools = tools
        upstream.tried.set()
        self._changed.set()

    # -- one task to offer the tools
    # ----------------------------------------------------------------

    async def _keep_published(self, executor: Executor) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            await self._publish(executor)
            await anyio.sleep(PUBLISH_SECONDS)

    async def _publish(self, executor: Executor) -> None:
        """Offer what has changed. Counting and indexing many tools does not block the loop."""
        new = self._find_new()
        await anyio.to_thread.run_sync(_count, new)
        total = sum(upstream.tokens for upstream in self._upstreams.values())
        if total > self._defer_over and not self._is_deferred:
            self._is_deferred = True  # permanently: clients keep their list
            new = list(self._upstreams.values())
        for upstream in new:
            self._offer(upstream)
        tools = await executor.prepare_tools()
        await anyio.to_thread.run_sync(getattr, tools, "api_names")
        published, self._published = self._published, anyio.Event()
        published.set()

    def _offer(self, upstream: _Upstream) -> None:
        name, tools = upstream.source.name, upstream.tools
        upstream.offered = tools
        offered = tools.deferred(over=-1) if self._is_deferred else tools
        try:
            if name in self._names:
                self.registry.replace(name, offered)
            else:
                self.registry.add(offered, name=name)
                self._names.add(name)
        except HandrailError as error:
            upstream.problem = str(error)
            log.warning("the tools of the MCP server %r are not offered: %s", name, error)

    def _find_new(self) -> list[_Upstream]:
        """Return the servers whose tools have changed since they were last offered."""
        return [one for one in self._upstreams.values() if one.tools is not one.offered]


def _by_name(sources: Iterable[McpSource]) -> dict[str, McpSource]:
    found: dict[str, McpSource] = {}
    for source in sources:
        if source.name in found:
            raise DuplicateName(f"Two MCP servers are named {source.name!r}. Rename one.")
        found[source.name] = source
    return found


def _load_approved(upstream: _Upstream) -> bool:
    """Load the approved tools. Returns whether that worked. If not, a person must review them."""
    try:
        upstream.tools = upstream.source.approved()
    except HandrailError as error:
        upstream.problem = str(error)
        upstream.tried.set()
    return not upstream.problem


def _count(upstreams: Iterable[_Upstream]) -> None:
    for upstream in upstreams:
        direct = (one.spec for one in upstream.tools if one.spec.exposure is Exposure.DIRECT)
        upstream.tokens = sum(spec.tokens for spec in direct)


def _describe(upstream: _Upstream) -> UpstreamHealth:
    source = upstream.source
    if source.state == "open":
        state: State = "open"
    elif source.state != "closed":
        state = "lost"
    else:
        state = "failed" if upstream.tried.is_set() else "connecting"
    problem = upstream.problem or (source.problem if state == "lost" else "")
    return UpstreamHealth(source.name, state, len(upstream.tools), problem)
