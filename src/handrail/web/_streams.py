"""Send a run's events to a browser, and notice when it has gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, aclosing

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

BEAT_SECONDS = 15.0
"""Between two comments on a silent stream: proxies close those that are longer silent."""
STALL_SECONDS = 60.0
"""How long a client may leave what was sent unread. Then its stream ends."""


class EventResponse(Response):
    """Sends texts as server-sent events, until they end or the client leaves.

    Args:
        texts: The events.
        headers: More headers.
        held: Closed after the stream.
    """

    media_type = "text/event-stream"

    def __init__(
        self, texts: AsyncGenerator[str], headers: Mapping[str, str], held: ExitStack
    ) -> None:
        super().__init__(headers={**headers, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._texts = texts
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the stream."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        is_whole = False
        with self._held:
            await send(start)
            async with aclosing(self._texts), anyio.create_task_group() as group:
                group.start_soon(_wait_for_disconnect, receive, group.cancel_scope)
                group.start_soon(_beat, send, group.cancel_scope)
                async for text in self._texts:
                    await _send(send, text)
                is_whole = True
                group.cancel_scope.cancel()
            if is_whole:  # after the last comment: none may follow
                with anyio.move_on_after(STALL_SECONDS):
                    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, text: str) -> None:
    body = text.encode("utf-8", "replace")
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _beat(send: Send, scope: anyio.CancelScope) -> None:
    """Send comments. One that cannot be sent means that the client does not read."""
    while True:
        await anyio.sleep(BEAT_SECONDS)
        with anyio.move_on_after(STALL_SECONDS) as sending:
            await _send(send, ":\n\n")
        if sending.cancelled_caught:
            scope.cancel()


async def _wait_for_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
