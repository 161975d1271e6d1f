"""Answers an orchestrator: whether the process lives, and whether it reaches its database."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import anyio
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from handrail import HandrailError

_CHECK_SECONDS = 2.0
_FRESH_SECONDS = 1.0
"""How long an answer of the database counts. Anyone can ask."""


class Health:
    """The two routes without a visitor. They reveal nothing else.

    Args:
        check: Reads from the database.
        seconds: How long it may take.
    """

    def __init__(
        self, check: Callable[[], Awaitable[object]], seconds: float = _CHECK_SECONDS
    ) -> None:
        self._check = check
        self._seconds = seconds
        self._checking = anyio.Lock()
        self._checked = float("-inf")
        self._is_ready = False

    async def show_alive(self, _request: Request) -> Response:
        """Answer while the process does."""
        return PlainTextResponse("alive")

    async def show_ready(self, _request: Request) -> Response:
        """Answer 503 without a database."""
        async with self._checking:
            if time.monotonic() - self._checked >= _FRESH_SECONDS:
                self._is_ready = False
                try:
                    self._is_ready = await self._ask()
                finally:
                    self._checked = time.monotonic()
        if self._is_ready:
            return PlainTextResponse("ready")
        return PlainTextResponse("not ready", HTTPStatus.SERVICE_UNAVAILABLE)

    async def _ask(self) -> bool:
        with anyio.move_on_after(self._seconds):
            try:
                await self._check()
            except HandrailError:
                return False
            return True
        return False
