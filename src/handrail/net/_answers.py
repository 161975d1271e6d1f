"""Bounds on servers' answers: not compressed, so a few bytes stay a few bytes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import httpx2
from typing_extensions import override

Hooks: TypeAlias = dict[str, list[Callable[..., Awaitable[None]]]]


def bounded_hooks(most: float) -> Hooks:
    """Return event hooks for an httpx2 client whose answers have at most this many bytes.

    Requests ask for plain answers. Reading a compressed or longer one raises ``httpx2.ReadError``.
    """
    return {"request": [ask_plain], "response": [partial(bound_answer, most=most)]}


async def ask_plain(request: httpx2.Request) -> None:
    """Ask for an uncompressed answer."""
    request.headers["Accept-Encoding"] = "identity"  # clients unpack without a bound: decision 086


async def bound_answer(response: httpx2.Response, *, most: float = math.inf) -> None:
    """Let reading an answer fail if it is compressed, or longer than ``most`` bytes."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        why = f"the answer is compressed ({encoding[:40]!a}), though a plain one was asked for"
        most = -1
    else:
        why = f"the answer has more than {most:.0f} bytes"
    response.stream = _Bounded(response.stream, most, why)


class _Bounded(httpx2.AsyncByteStream):
    """A body whose reading fails after a limit in bytes."""

    def __init__(self, stream: Any, most: float, why: str) -> None:
        self._stream = stream
        self._most = most
        self._why = why

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        if left < 0:
            raise httpx2.ReadError(self._why)
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(self._why)
            yield piece

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()
