"""Threads in which programs advance. Handing work to one costs half as much as in anyio's."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import anyio
from anyio import to_thread

from handrail._support.loop import LoopBinding

T = TypeVar("T")
MAX_THREADS = 8
"""More programs than this at once advance in anyio's threads, which it limits."""


class _Job(Generic[T]):
    """Work for a thread, and its outcome."""

    def __init__(self, home: LoopBinding, work: Callable[[], T]) -> None:
        self._home = home
        self._work = work
        self.done = anyio.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:  # noqa: BLE001  raised where the work is awaited
            self._error = error

    def report(self) -> None:
        self._home.call(self.done.set)

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value


class Threads:
    """Threads waiting for work. They start when needed, and stay."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = 0
        self._free: list[SimpleQueue[_Job[Any]]] = []

    async def run(self, home: LoopBinding, work: Callable[[], T]) -> T:
        """Return what the work does in a thread. Cancelling this does not stop the work."""
        thread = self._find_free()
        if thread is None:
            return await to_thread.run_sync(work, abandon_on_cancel=True)
        job = _Job(home, work)
        thread.put(job)
        await job.done.wait()
        return job.outcome()

    def _find_free(self) -> SimpleQueue[_Job[Any]] | None:
        with self._lock:
            if self._free:
                return self._free.pop()
            if self._started >= MAX_THREADS:
                return None
            self._started += 1
        todo: SimpleQueue[_Job[Any]] = SimpleQueue()
        name = f"handrail-program-{self._started}"
        threading.Thread(target=self._serve, args=(todo,), name=name, daemon=True).start()
        return todo

    def _serve(self, todo: SimpleQueue[_Job[Any]]) -> None:
        while True:
            job = todo.get()
            job.run()
            self._free.append(todo)
            job.report()
            del job

    def forget(self) -> None:
        """Begin without threads, in a forked process."""
        self._lock = threading.Lock()
        self._started, self._free = 0, []


THREADS = Threads()
os.register_at_fork(after_in_child=THREADS.forget)
