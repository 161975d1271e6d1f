"""Notifies clients about changed tools, as each protocol version does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextvars import copy_context
from typing import Any
from weakref import WeakMethod

import anyio
from mcp.server import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from typing_extensions import override

from handrail import Registry
from handrail._support.loop import LoopBinding, spawn
from handrail.mcp._server.asking import Request, is_modern
from handrail.mcp._server.updates import ResourceUpdates

PAUSE_SECONDS = 0.1
"""Changes following each other within this time are one change."""
MAX_CLIENTS = 1_000
"""Notified clients in the older era. Others have to list the tools again."""
_SEND_SECONDS = 1.0


class ToolServer(Server[Any]):
    """An SDK server reporting whether its tools can change."""

    tools_change = False

    @override
    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *args: Any, **more: Any
    ) -> Any:
        wanted = notification_options or NotificationOptions(tools_changed=self.tools_change)
        return super().create_initialization_options(wanted, *args, **more)


class Changes:
    """Watches a registry, and notifies the clients with a list of its tools."""

    def __init__(self, registry: Registry) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        """Answers change subscriptions in the newer era."""
        self._older: OrderedDict[str, ServerSession] = OrderedDict()
        self._home = LoopBinding()
        self._task: object = None
        self._is_dirty = False
        weak_note = WeakMethod(self._note)
        stop: list[Callable[[], None]] = []

        def watch(_event: object) -> None:
            note = weak_note()
            if note is not None:
                note()
            else:  # the server is gone
                stop[0]()

        stop.append(registry.watch(watch))

    def serve(self, updates: ResourceUpdates | None) -> ListenHandler:
        """Return what answers subscriptions, to changes of tools and to those of resources."""
        if updates is not None:
            self._bus, self.listen = updates.bus, updates.listen
        return self.listen

    def remember(self, name: str, request: Request) -> None:
        """Notify a request's client about later changes."""
        if not self._home.is_open:
            self._home.bind()
            self._task = None  # a task in another loop never ends
        if not is_modern(request):
            self._older[name] = request.session
            self._older.move_to_end(name)
            if len(self._older) > MAX_CLIENTS:
                self._older.popitem(last=False)

    def _note(self) -> None:
        """Record a change, in the thread making it."""
        if self._home.is_open:
            self._home.call(self._start)

    def _start(self) -> None:
        self._is_dirty = True
        if self._task is None:
            self._task = spawn(copy_context(), self._tell)

    async def _tell(self) -> None:
        try:
            while self._is_dirty:
                await anyio.sleep(PAUSE_SECONDS)
                self._is_dirty = False
                await self._bus.publish(ToolsListChanged())
                async with anyio.create_task_group() as tasks:
                    for session in tuple(self._older.values()):
                        tasks.start_soon(_send, session)
        finally:
            self._task = None


async def _send(session: ServerSession) -> None:
    with anyio.move_on_after(_SEND_SECONDS):  # do not wait for a client not reading
        await session.send_tool_list_changed()
