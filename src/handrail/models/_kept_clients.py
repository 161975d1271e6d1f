"""Clients shared between requests, one for each event loop.

A client belongs to the event loop that first used it. An async generator holds it open: both event
loops close remaining generators when they end, so a client is always closed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import copy_context
from threading import Lock
from typing import Generic, Protocol, TypeVar
from weakref import finalize

import anyio

from handrail._support.loop import LoopBinding, current_loop, spawn

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Clients(Protocol[T_co]):
    """Provides the client for requests in the current event loop."""

    async def get(self) -> T_co:
        """Return the client, and open it if there is none."""
        ...

    async def aclose(self) -> None:
        """Close the current event loop's client. The next request opens another one."""
        ...


class GivenClient(Generic[T]):
    """A client passed and closed by a caller."""

    def __init__(self, client: T) -> None:
        self._client = client

    async def get(self) -> T:
        """Return the client."""
        return self._client

    async def aclose(self) -> None:
        """Leave the client open."""


class _Kept(Generic[T]):
    """One event loop's client."""

    def __init__(self, context: AbstractAsyncContextManager[T]) -> None:
        self.home = LoopBinding()
        self.home.bind()
        self.process = os.getpid()
        self._context = context
        self._holder = self._hold()
        self._is_closing = False
        self._closed = anyio.Event()

    async def open(self) -> None:
        self.client = await self._context.__aenter__()
        await anext(self._holder)

    async def _hold(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await self._close()

    async def aclose(self) -> None:
        await self._close()
        await self._holder.aclose()

    async def _close(self) -> None:
        """Close the client once. The loop may end while a dropped model closes its client."""
        if self._is_closing:
            if not self._closed.is_set():  # else nothing is awaited, and the loop can end
                await self._closed.wait()
            return
        self._is_closing = True
        try:
            await self._context.__aexit__(None, None, None)
        finally:
            self._closed.set()

    def close_soon(self) -> None:
        """Close the client in its event loop, from any thread."""
        loop = self.home.loop
        soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
        with suppress(RuntimeError):  # the loop has ended, and closed it
            soon(self._spawn_close)

    def _spawn_close(self) -> None:
        self._task = spawn(copy_context(), self._close_alone)
        _CLOSING.add(self)

    async def _close_alone(self) -> None:
        try:
            with suppress(Exception):  # no one could act on it
                await self.aclose()
        finally:
            _CLOSING.discard(self)


_CLOSING: set[object] = set()
"""Clients closing after their model was dropped."""
_INHERITED: list[object] = []
"""A parent process's clients. Closing them would end connections in use by the parent."""


class KeptClients(Generic[T]):  # one for each request costs 40 to 75 ms: decision 027
    """Opens a client for each event loop when it is first needed, and keeps it."""

    def __init__(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._make = make
        self._kept: list[_Kept[T]] = []
        self._lock = Lock()
        finalize(self, _close_all, self._kept).atexit = False

    async def get(self) -> T:
        """Return this event loop's client, opening it if there is none."""
        kept = self._find()
        if kept is not None:
            return kept.client
        kept = _Kept(self._make())
        await kept.open()  # waits for nothing, so no other task opens one
        with self._lock:
            self._kept[:] = [one for one in self._kept if _may_be_used(one)] + [kept]
        return kept.client

    async def aclose(self) -> None:
        """Close this event loop's client. The next request opens another one."""
        kept = self._find()
        if kept is not None:
            with self._lock:
                self._kept.remove(kept)
            await kept.aclose()

    def _find(self) -> _Kept[T] | None:
        loop, process = current_loop(), os.getpid()
        for kept in tuple(self._kept):
            if kept.home.loop is loop and kept.process == process:
                return kept
        return None


def _may_be_used(kept: _Kept[T]) -> bool:
    """Whether a client must not be dropped: its loop is open, or it belongs to another process."""
    return kept.process != os.getpid() or kept.home.is_open


def _close_all(all_kept: list[_Kept[T]]) -> None:
    """Close a dropped model's clients."""
    for kept in all_kept:
        if kept.process == os.getpid():
            kept.close_soon()
        else:
            _INHERITED.append(kept)
