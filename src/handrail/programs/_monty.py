"""The interpreter: Monty sessions in worker processes, and where a program waits."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Mapping
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
from handrail.programs._prelude import CALL, Framed, Unfit, read_value

MAX_WORKERS = 8
"""Worker processes. A waiting program lends its worker to a running one."""
MAX_WAIT_SECONDS = 30.0
"""Seconds a program waits for a worker."""
RECURSION = 200
_SEED = "program"

Bind: TypeAlias = Callable[[str, str], dict[str, Any]]
"""Returns a call's arguments by name, from JSON text. Raises TypeError, in the program."""


class Waits(NamedTuple):
    """A program waits for calls: their numbers, functions and arguments; and the place."""

    calls: tuple[tuple[int, str, dict[str, Any]], ...]
    start: int
    """Where the waiting expression begins in the code, in bytes."""
    end: int


class Ended(NamedTuple):
    """A program has ended: its value, and the functions called but never awaited."""

    value: Any
    dropped: tuple[str, ...]


class Stopped(NamedTuple):
    """A program has failed: the error for a model."""

    error: str


class Rejected(NamedTuple):
    """A program did not start: the type check's findings, as JSON text."""

    findings: str


Step: TypeAlias = Waits | Ended | Stopped | Rejected


class Crashed(Exception):
    """A program's worker was lost. The program can begin again."""


class Settings(NamedTuple):
    """A session's options."""

    program: Framed
    prelude: str
    """Code that defines the functions."""
    stubs: str | None
    """The functions, for the type check; None to leave it out."""
    now: datetime
    """The time a program sees. It stands still, so the program can begin again."""
    memory: int
    seconds: float
    calls: int


class Pool:
    """This process's worker processes."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._monty: Monty | None = None
        self._lent = 0
        self._starter: ThreadPoolExecutor | None = None
        """Starts workers. They end with their thread, so it must live as long as the pool."""
        self._is_forked = False
        self._idle: dict[Session, None] = {}
        """Sessions of waiting programs, the longest waiting first."""

    def open(self, session: Session, **options: Any) -> MontySession:
        """Return a session with a worker. Blocks until one is free; a program may be parked."""
        if self._is_forked:
            raise RuntimeError(_FORKED)
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
        for _ in range(MAX_WORKERS):
            with suppress(MontyCrashedError):  # each free one may have been killed
                return self._monty.checkout(**options).__enter__()
        raise Crashed("No worker starts.")

    def _make_room(self) -> None:
        """Wait until a worker is free, or take one from a waiting program."""
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
        """Note a free worker."""
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

    def forget(self) -> None:
        """Refuse to use the parent process's workers: both would read from them."""
        self._lock = threading.Condition()
        self._is_forked = self._monty is not None

    def close(self) -> None:
        """End the workers."""
        if self._is_forked:
            return
        with self._lock:
            monty, self._monty, self._lent = self._monty, None, 0
            starter, self._starter = self._starter, None
            self._idle.clear()
        if monty is not None:
            monty.__exit__(None, None, None)
        if starter is not None:
            starter.shutdown(wait=False)


POOL = Pool()
os.register_at_fork(after_in_child=POOL.forget)
_FORKED = (
    "This process was forked from one that had run programs, and the interpreter cannot be used in "
    "both. Fork before the first program, or use the start method 'spawn'."
)
_MAX_PARKED_BYTES = 4_000_000
"""A program with more state than this begins again when it resumes."""


class Session:
    """A program in its worker, at the place where it waits. Its methods block."""

    def __init__(
        self,
        settings: Settings,
        bind: Bind,
        show: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._bind = bind
        self._show = show
        self._session: Any = None
        self._snapshot: Any = None
        self._parked: bytes | None = None
        self._open: dict[int, tuple[str, dict[str, Any]]] = {}
        self._pid: int | None = None
        self._count = 0
        self._is_ready = False

    def open(self) -> None:
        """Get a worker."""
        self._check_out(typed=self._settings.stubs is not None)

    def start(self) -> Step:
        """Run the program to its first wait, or to its end."""
        if self._session is None:
            self.open()
        return self._begin(skip_type_check=False)

    def start_unchecked(self) -> Step:
        """Run the program in spite of what the type check found."""
        POOL.claim(self)
        return self._begin(skip_type_check=True)

    def _begin(self, *, skip_type_check: bool) -> Step:
        program, prelude = self._settings.program, self._settings.prelude
        options = {"print_callback": self._show, "skip_type_check": skip_type_check}

        def feed() -> Any:
            if not self._is_ready:
                self._snapshot = self._session.feed_start(prelude, skip_type_check=True)
                self._run_on()
                self._is_ready = True
            return self._session.feed_start(program.code, **options)

        return self._advance(feed)

    def settle(self, outcomes: Mapping[int, Any]) -> Step:
        """Resume with the awaited calls' outcomes, by number."""
        POOL.claim(self)
        if self._session is None:
            self._restore()
        for number in outcomes:
            self._open.pop(number, None)
        return self._advance(lambda: self._snapshot.resume(dict(outcomes)))

    def lend(self) -> None:
        """Let another program have the worker while this one waits."""
        POOL.lend(self)

    def park(self) -> None:
        """Keep the state in memory, and free the worker. The pool calls this."""
        session, self._session, self._pid = self._session, None, None
        snapshot, self._snapshot = self._snapshot, None
        with suppress(MontyError, RuntimeError):  # its worker may be lost
            state = snapshot.dump()
            self._parked = state if len(state) <= _MAX_PARKED_BYTES else None
        with suppress(MontyError, RuntimeError):
            session.__exit__(None, None, None)

    def close(self) -> None:
        """Free the worker."""
        POOL.claim(self)
        session, self._session, self._snapshot = self._session, None, None
        self._pid = None
        if session is not None:
            with suppress(MontyError, RuntimeError):
                session.__exit__(None, None, None)
            POOL.give_back()

    def kill(self) -> None:
        """End the worker while it works, from another thread."""
        pid = self._pid  # which another thread can set
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

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

    def _restore(self) -> None:
        """Load the state into a worker. Raises Crashed if there is none."""
        state, self._parked = self._parked, None
        if state is None:
            raise Crashed("It was not kept.")
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
            return Stopped(self._settings.program.read_error(error.display()))
        except MontyError as error:
            return Stopped(self._settings.program.read_error(str(error)))
        except Unfit as error:
            return Stopped(f"It ran to its end, but {error}.")

    def _run_on(self) -> Step:
        while not isinstance(self._snapshot, MontyComplete):
            if isinstance(self._snapshot, FunctionSnapshot):
                self._snapshot = self._take_call(self._snapshot)
            elif isinstance(self._snapshot, NameLookupSnapshot):
                self._snapshot = self._find_name(self._snapshot)
            else:
                return self._wait()
        return Ended(self._read_value(), tuple([name for name, _ in self._open.values()]))

    def _wait(self) -> Waits:
        calls = tuple([(n, *self._open[n]) for n in sorted(self._snapshot.pending_call_ids)])
        place, find = self._snapshot.position, self._settings.program.find_place
        return Waits(calls, find(place.start), find(place.end))

    def _read_value(self) -> Any:
        """Return the program's value. Only its text is read: see ``_prelude``."""
        for ask in self._settings.program.asks * self._is_ready:
            try:
                value = read_value(self._session.feed_run(ask, skip_type_check=True))
            except MontyRuntimeError as error:
                why = error.display().rpartition("\n")[2]
                if not why.startswith("NameError"):  # else it ended before it assigned the name
                    raise Unfit(f"its value cannot be returned: {why}") from None
            else:
                if value is not None:
                    return value
        return None

    def _take_call(self, snapshot: FunctionSnapshot) -> Any:
        """Note a function call. Its coroutine waits once it is awaited."""
        if snapshot.is_os_function:
            return snapshot.resume_not_handled()
        if snapshot.function_name != CALL:
            unknown = f"name {snapshot.function_name!r} is not defined"
            return snapshot.resume(_raise("NameError", unknown))
        self._count += 1
        if self._count > self._settings.calls:
            most = f"a program can make {self._settings.calls} calls"
            return snapshot.resume(_raise("RuntimeError", most))
        name, text = snapshot.args  # two texts, as the prelude sends them
        try:
            args = self._bind(name, text)
        except TypeError as error:
            return snapshot.resume(_raise("TypeError", str(error)))
        self._open[snapshot.call_id] = name, args
        return snapshot.resume({"future": ...})

    def _find_name(self, snapshot: NameLookupSnapshot) -> Any:
        """Resolve the name only the prelude can use."""
        if self._is_ready or snapshot.variable_name != CALL:
            return snapshot.resume()

        def function() -> None: ...

        function.__name__ = CALL
        return snapshot.resume(value=function)


def _raise(kind: Any, message: str) -> Any:
    return {"exc_type": kind, "message": message}
