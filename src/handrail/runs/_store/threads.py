"""Run blocking functions in a few threads, for coroutines."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NamedTuple, TypeVar, cast

import anyio
from anyio import to_thread
from anyio.lowlevel import checkpoint_if_cancelled

from handrail._support.loop import running_loop

_T = TypeVar("_T")
_MAX_TOGETHER = 64
"""How much work is done together at most."""


class _Work(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: Any
    loop: Any


class _Done(NamedTuple):
    future: Any
    value: Any
    error: BaseException | None


class Undone(Exception):
    """A function has failed, and what was done together with it is undone. Its cause says why."""


class Threads:
    """Runs functions in order, a few at once. The threads start when they are needed.

    Threads that wake each other cost more CPU than a short statement. So a thread that finds more
    work does not sleep, and what is done together wakes its event loop once.

    Args:
        count: How many functions run at once.
        together: Surrounds all functions that wait when a thread is free, and gets their number.
            They are done when it ends: if it fails, all of them have failed. If one of them raises
            ``Undone``, each is done again alone. Without it, each function is alone.
    """

    def __init__(
        self, count: int, together: Callable[[int], AbstractContextManager[object]] | None = None
    ) -> None:
        self._count = count
        self._around = together or nullcontext
        self._at_most = _MAX_TOGETHER if together else 1
        self._changed = threading.Condition()
        self._work: deque[_Work] = deque()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._done: dict[Any, list[_Done]] = {}
        """What is done and not delivered yet, by event loop."""

    async def run(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Return what a function returns. Once it is queued, it is not cancelled."""
        await checkpoint_if_cancelled()
        loop: Any = running_loop()
        if loop is None:  # on trio
            [done] = await to_thread.run_sync(self._do, [_Work(function, arguments, None, None)])
            if done.error is not None:
                raise done.error
            return cast("_T", done.value)
        future = loop.create_future()
        self._add(_Work(function, arguments, future, loop))
        with anyio.CancelScope(shield=True):
            await future
        return cast("_T", future.result())

    def _add(self, work: _Work) -> None:
        with self._changed:
            self._work.append(work)
            if self._idle:
                self._idle -= 1
                self._changed.notify()
            elif len(self._threads) < self._count:
                thread = threading.Thread(target=self._serve, name="handrail-database", daemon=True)
                self._threads.append(thread)
                thread.start()

    def close(self) -> None:
        """End the threads after what is queued. Later work starts new ones."""
        with self._changed:
            threads, self._threads = self._threads, []
            self._idle = 0
            self._changed.notify_all()
        for thread in threads:
            thread.join()

    def _serve(self) -> None:
        while several := self._take():
            for work, done in zip(several, self._do(several), strict=True):
                self._finish(work.loop, done)

    def _do(self, several: list[_Work]) -> list[_Done]:
        try:
            with self._around(len(several)):
                return [_do_one(work) for work in several]
        except Undone as undone:
            if len(several) > 1:
                return [done for work in several for done in self._do([work])]
            return [_Done(several[0].future, None, undone.__cause__)]
        except BaseException as error:  # noqa: BLE001  raised where the results are awaited
            return [_Done(work.future, None, error) for work in several]

    def _take(self) -> list[_Work]:
        """Return the next work; none if the thread should end."""
        with self._changed:
            while not self._work:
                if threading.current_thread() not in self._threads:
                    return []
                self._idle += 1
                self._changed.wait()
            count = min(len(self._work), self._at_most)
            return [self._work.popleft() for _ in range(count)]

    def _finish(self, loop: Any, done: _Done) -> None:
        with self._changed:
            waiting = self._done.setdefault(loop, [])
            waiting.append(done)
            if len(waiting) == 1:
                with suppress(RuntimeError):  # a closed loop awaits nothing
                    loop.call_soon_threadsafe(self._deliver, loop)

    def _deliver(self, loop: Any) -> None:
        with self._changed:
            ready = self._done.pop(loop)
        for future, value, error in ready:
            if future.cancelled():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


def _do_one(work: _Work) -> _Done:
    try:
        return _Done(work.future, work.function(*work.arguments), None)
    except Undone:
        raise
    except BaseException as error:  # noqa: BLE001  raised where its result is awaited
        return _Done(work.future, None, error)
