"""The interpreter: sessions of Monty in worker processes, and where a program waits."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from pydantic_monty import (
    FunctionSnapshot,
    Monty,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontyTypingError,
    NameLookupSnapshot,
    ResourceLimits,
)

from handrail.programs._isolation import find_binary

MAX_WORKERS = 8
"""Worker processes. A program that waits lends its worker to one that runs."""
MAX_WAIT_SECONDS = 30.0
"""Seconds that a program waits for a worker."""
RECURSION = 200
_SEED = "program"

Bind: TypeAlias = Callable[[str, Sequence[Any], Mapping[str, Any]], dict[str, Any]]
"""Returns the arguments of a call by name. Raises TypeError, which is raised in the program."""


class Waits(NamedTuple):
    """A program waits for calls: their numbers, functions and arguments; and the place."""

    calls: tuple[tuple[int, str, dict[str, Any]], ...]
    start: int
    """Where the waiting expression begins in the code, in bytes."""
    end: int


class Ended(NamedTuple):
    """A program has ended: its value, and the functions that were called and never awaited."""

    value: Any
    dropped: tuple[str, ...]


class Stopped(NamedTuple):
    """A program has failed: the error for a model."""

    error: str


class Rejected(NamedTuple):
    """A program did not start: the findings of the type check, as JSON text."""

    findings: str


Step: TypeAlias = Waits | Ended | Stopped | Rejected


class Crashed(Exception):
    """The worker of a program was lost. The program can begin again."""


class Settings(NamedTuple):
    """A session's options."""

    code: str
    """The program."""
    stubs: str | None
    """The functions, for the type check; None to leave it out."""
    now: datetime
    """The time that the program sees. It stands still, so that the program can begin again."""
    memory: int
    seconds: float
    calls: int
    last: str
    """The name whose value is returned if the program ends with an assignment; or empty."""


class Pool:
    """The worker processes of this process."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._monty: Monty | None = None
        self._lent = 0
        self._starter: ThreadPoolExecutor | None = None
        """Starts workers. They end with their thread, so it must live as long as the pool."""
        self._idle: dict[Session, None] = {}
        """Sessions of programs that wait, in the order in which they began to."""

    def open(self, session: Session, **options: Any) -> MontySession:
        """Return a session with a worker. Blocks until one is free; a program may be parked."""
        with self._lock:
            self._idle.pop(session, None)
            if self._starter is None:
                self._starter = ThreadPoolExecutor(1, "handrail-programs")
                atexit.register(self.close)
            starter = self._starter
            self._make_room()
            self._lent += 1
        try:
            return starter.submit(self._start, options).result()
        except BaseException:
            self.give_back()
            raise

    def _start(self, options: dict[str, Any]) -> MontySession:
        if self._monty is None:
            self._monty = Monty(
                binary_path=find_binary(),
                max_processes=MAX_WORKERS,
                checkout_timeout=MAX_WAIT_SECONDS,
            ).__enter__()
        return self._monty.checkout(**options).__enter__()

    def _make_room(self) -> None:
        """Wait until a worker is free, or take one from a program that waits."""
        if not self._lock.wait_for(self._has_room, MAX_WAIT_SECONDS):
            raise TimeoutError
        if self._lent >= MAX_WORKERS:
            oldest = next(iter(self._idle))
            del self._idle[oldest]
            oldest.park()
            self._lent -= 1

    def _has_room(self) -> bool:
        return self._lent < MAX_WORKERS or bool(self._idle)

    def give_back(self) -> None:
        """Note that a worker is free."""
        with self._lock:
            self._lent -= 1
            self._lock.notify()

    def claim(self, session: Session) -> None:
        """Resume a session: it is not parked from now on."""
        with self._lock:
            self._idle.pop(session, None)

    def lend(self, session: Session) -> None:
        """Let a session be parked when another one needs its worker."""
        with self._lock:
            self._idle[session] = None
            self._lock.notify()

    def close(self) -> None:
        """End the workers."""
        with self._lock:
            monty, self._monty, self._lent = self._monty, None, 0
            starter, self._starter = self._starter, None
            self._idle.clear()
        if monty is not None:
            monty.__exit__(None, None, None)
        if starter is not None:
            starter.shutdown(wait=False)


POOL = Pool()


class Session:
    """A program in its worker, at the place where it waits. Its methods block."""

    def __init__(
        self,
        settings: Settings,
        functions: frozenset[str],
        bind: Bind,
        show: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._functions = functions
        self._bind = bind
        self._show = show
        self._session: Any = None
        self._snapshot: Any = None
        self._parked: bytes | None = None
        self._open: dict[int, tuple[str, dict[str, Any]]] = {}
        self._pid: int | None = None
        self._count = 0

    def start(self) -> Step:
        """Run the program to its first wait, or to its end."""
        settings = self._settings
        self._check_out(typed=settings.stubs is not None)
        return self._advance(
            lambda: self._session.feed_start(settings.code, print_callback=self._show)
        )

    def start_unchecked(self) -> Step:
        """Run the program in spite of what the type check found."""
        POOL.claim(self)
        code = self._settings.code
        return self._advance(
            lambda: self._session.feed_start(code, print_callback=self._show, skip_type_check=True)
        )

    def settle(self, outcomes: Mapping[int, Any]) -> Step:
        """Resume with the outcomes of the awaited calls, by number."""
        POOL.claim(self)
        if self._parked is not None:
            self._restore(self._parked)
        for number in outcomes:
            self._open.pop(number, None)
        return self._advance(lambda: self._snapshot.resume(dict(outcomes)))

    def park(self) -> None:
        """Keep the state in memory, and free the worker. The pool calls this."""
        self._parked = self._snapshot.dump()
        session, self._session, self._snapshot = self._session, None, None
        session.__exit__(None, None, None)

    def close(self) -> None:
        """Free the worker."""
        POOL.claim(self)
        session, self._session, self._snapshot = self._session, None, None
        if session is not None:
            with suppress(MontyError, RuntimeError):
                session.__exit__(None, None, None)
            POOL.give_back()

    def kill(self) -> None:
        """End the worker in the middle of its work, from another thread."""
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def _check_out(self, *, typed: bool) -> None:
        settings = self._settings
        limits: ResourceLimits = {
            "max_memory": settings.memory,
            "max_turn_duration_secs": settings.seconds,
            "max_recursion_depth": RECURSION,
            "max_suspensions": 2 * settings.calls + 200,
        }
        self._session = POOL.open(
            self,
            limits=limits,
            type_check=typed,
            type_check_stubs=settings.stubs,
            type_check_format="json",
            os_policy={"datetime": settings.now, "random_start": {"seed": _SEED}, "sleep": "zero"},
        )
        self._pid = self._session.worker_pid

    def _restore(self, state: bytes) -> None:
        self._parked = None
        self._check_out(typed=False)
        try:
            self._snapshot = self._session.load_snapshot(state, print_callback=self._show)
        except MontyCrashedError as error:
            raise Crashed(str(error)) from error

    def _advance(self, begin: Callable[[], Any]) -> Step:
        """Run to the next wait or to the end."""
        try:
            self._snapshot = begin()
            return self._run_on()
        except MontyTypingError as error:
            return Rejected(error.display())
        except MontyCrashedError as error:
            if error.timed_out:
                return Stopped(f"The program was stopped: {error}")
            raise Crashed(str(error)) from error
        except MontyRuntimeError as error:
            return Stopped(error.display())
        except MontyError as error:
            return Stopped(str(error))

    def _run_on(self) -> Step:
        while not isinstance(self._snapshot, MontyComplete):
            if isinstance(self._snapshot, FunctionSnapshot):
                self._snapshot = self._take_call(self._snapshot)
            elif isinstance(self._snapshot, NameLookupSnapshot):
                self._snapshot = self._find_name(self._snapshot)
            else:
                return self._wait()
        return self._end(self._snapshot.output)

    def _wait(self) -> Waits:
        calls = tuple([(n, *self._open[n]) for n in sorted(self._snapshot.pending_call_ids)])
        place = self._snapshot.position
        POOL.lend(self)
        return Waits(calls, place.start, place.end)

    def _end(self, value: Any) -> Ended:
        last = self._settings.last
        if value is None and last:
            with suppress(MontyRuntimeError):
                value = self._session.feed_run(last, skip_type_check=True)
        return Ended(value, tuple([name for name, _ in self._open.values()]))

    def _take_call(self, snapshot: FunctionSnapshot) -> Any:
        """Note a call of a function. Its coroutine waits once it is awaited."""
        name = str(snapshot.function_name)
        if snapshot.is_os_function:
            return snapshot.resume_not_handled()
        if name not in self._functions:
            return snapshot.resume(_raise("NameError", f"name {name!r} is not defined"))
        self._count += 1
        if self._count > self._settings.calls:
            most = f"a program can make {self._settings.calls} calls"
            return snapshot.resume(_raise("RuntimeError", most))
        try:
            args = self._bind(name, snapshot.args, snapshot.kwargs)
        except TypeError as error:
            return snapshot.resume(_raise("TypeError", str(error)))
        self._open[snapshot.call_id] = name, args
        return snapshot.resume({"future": ...})

    def _find_name(self, snapshot: NameLookupSnapshot) -> Any:
        name = snapshot.variable_name
        if name not in self._functions:
            return snapshot.resume()

        def function() -> None: ...

        function.__name__ = name
        return snapshot.resume(value=function)


def _raise(kind: Any, message: str) -> Any:
    return {"exc_type": kind, "message": message}
