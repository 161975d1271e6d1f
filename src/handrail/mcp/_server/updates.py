"""Tells subscribed clients that a resource has changed, as each protocol version does."""

from __future__ import annotations

from collections import OrderedDict

import anyio
import mcp_types as types
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from handrail.mcp._server.asking import Request, name_session

MAX_SUBSCRIBERS = 1_000
"""Subscribers of one resource in the older era. The oldest one is dropped first."""
MAX_SUBSCRIBED = 10_000
"""Resources with subscribers in the older era."""
_SEND_SECONDS = 1.0
_NO_ONE: OrderedDict[str, ServerSession] = OrderedDict()


class ResourceUpdates:
    """Notifies the clients that subscribed to a resource: pass it to ``make_server``."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        """Answers subscriptions in the newer era."""
        self._older: OrderedDict[str, OrderedDict[str, ServerSession]] = OrderedDict()

    async def tell(self, uri: str) -> None:
        """Tell subscribers that this resource has changed. Waits one second for a slow client."""
        await self.bus.publish(ResourceUpdated(uri))
        async with anyio.create_task_group() as tasks:
            for session in tuple(self._older.get(uri, _NO_ONE).values()):
                tasks.start_soon(_send, session, uri)

    async def subscribe(
        self, request: Request, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        """Note a client in the older era."""
        sessions = self._older.setdefault(params.uri, OrderedDict())
        sessions[name_session(request)] = request.session
        if len(sessions) > MAX_SUBSCRIBERS:
            sessions.popitem(last=False)
        if len(self._older) > MAX_SUBSCRIBED:
            self._older.popitem(last=False)
        return types.EmptyResult()

    async def unsubscribe(
        self, request: Request, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        """Forget a client in the older era."""
        self._older.get(params.uri, _NO_ONE).pop(name_session(request), None)
        return types.EmptyResult()


async def _send(session: ServerSession, uri: str) -> None:
    with anyio.move_on_after(_SEND_SECONDS):
        await session.send_resource_updated(uri)
