"""Send a run's events to a browser, and notice when it has gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

BEAT_SECONDS = 15.0
"""Between two comments on a silent stream: proxies close those that are longer silent."""


class EventResponse(Response):
    """Sends texts as server-sent events, until they end or the client leaves."""

    media_type = "text/event-stream"

    def __init__(self, texts: AsyncGenerator[str], headers: Mapping[str, str]) -> None:
        super().__init__(headers={**headers, "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._texts = texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the stream."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async with aclosing(self._texts), anyio.create_task_group() as group:
            group.start_soon(_wait_for_disconnect, receive, group.cancel_scope)
            group.start_soon(_beat, send)
            async for text in self._texts:
                await _send(send, text)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            group.cancel_scope.cancel()


async def _send(send: Send, text: str) -> None:
    body = text.encode("utf-8", "replace")
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _beat(send: Send) -> None:
    while True:
        await anyio.sleep(BEAT_SECONDS)
        await _send(send, ":\n\n")


async def _wait_for_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
