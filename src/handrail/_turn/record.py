"""Records for a turn's calls, and the turn's options."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import anyio

from handrail._values.access import Access
from handrail._values.approval import Answer, Approver
from handrail._values.call import Call
from handrail._values.content import Json
from handrail._values.pending import Pending
from handrail._values.result import Result

if TYPE_CHECKING:
    from handrail._sources.heard import Heard  # which few runs need
    from handrail._support.loop import Stop  # loads asyncio

EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(slots=True, eq=False, repr=False, init=False)
class Record:
    """One call in a turn: its position, its result, and how to stop it."""

    call: Call
    """The call as the model sent it."""
    position: int
    """Its index in the turn."""
    nth: int
    """Its number among the turn's calls with the same id, from 1."""
    round: int
    """How many times it needed approval before."""
    answered: tuple[Pending, Answer | None] | None
    """The approval request it waited for, and the answer."""
    result: Result | None
    done: anyio.Event | None
    """Set once it has its result."""
    begin: anyio.Event | None
    """Set once the tool was called, or the call has its result."""
    entered: anyio.Event | None
    """Set once it is in the schedule or has its result. Only then can the next one enter."""
    previous: Record | None
    """The call before it in the turn, while it may have to wait for one to enter."""
    attempts: int
    """How many times the tool was called."""
    stopped: bool
    """Whether it was asked to stop."""
    stop: Stop | None
    gate: anyio.Event | None
    """Set when it can start, or never will."""

    @property
    def begun(self) -> bool:
        """Whether the tool was called."""
        return self.attempts > 0

    def is_answer_to(self, key: str) -> bool:
        """Return whether it resumes the pending call with this key."""
        return self.answered is not None and self.answered[0].key == key

    def cancel(self) -> None:
        """Stop the call in any state."""
        self.stopped = True
        if self.stop is not None:
            self.stop()
        self.wake()

    def wake(self) -> None:
        """Let a waiting call check again whether it can start."""
        if self.gate is not None:
            with suppress(RuntimeError):  # its event loop was closed
                self.gate.set()

    def may_wait(self, stop: Stop) -> None:
        """Record a waiting call, and how to stop it."""
        self.stop = stop
        if self.stopped:
            stop()

    async def wait(self) -> None:
        """Wait until the call has its result."""
        if self.result is None:
            if self.done is None:
                self.done = anyio.Event()
            await self.done.wait()

    async def wait_begun(self) -> None:
        """Wait until the tool was called, or the call has its result."""
        if self.result is None and not self.begun:
            self.begin = self.begin or anyio.Event()
            await self.begin.wait()

    @property
    def goes_on(self) -> bool:
        """Whether its tool was called, runs in the background, and has not returned."""
        raise NotImplementedError

    def finish(self, result: Result) -> None:
        """Set the call's result."""
        self.result = result
        if self.done is not None:
            _set(self.done)
        if self.begin is not None:
            _set(self.begin)


def _set(event: anyio.Event) -> None:
    with suppress(RuntimeError):  # the event loop was closed, with those who wait
        event.set()


class CallRecords(Protocol):
    """Stores texts for calls that a restart interrupts. For durable engines."""

    def find(self, key: str, /) -> str:
        """Return what the call with this key stored before the restart, or ""."""
        ...

    def has_begun(self, key: str, /) -> bool:
        """Return whether the call with this key made calls before the restart."""
        ...

    async def store(self, key: str, text: str, /) -> bool:
        """Store a running call's text; its last one counts. Returns False if it was not stored."""
        ...


class TurnOptions(NamedTuple):
    """Options for ``Executor.turn``."""

    principal: str | None = None
    deps: Any = None
    metadata: Mapping[str, Json] = EMPTY
    approver: Approver | None = None
    credentials: Any = None
    """Finds credentials, if the executor does not."""
    known: Mapping[str, Result] = EMPTY
    claimant: str | None = None
    records: CallRecords | None = None
    loaded: frozenset[str] = frozenset()
    answers: Mapping[str, Answer] = EMPTY
    outer: Any = None
    """The call whose tool made these calls."""
    whole: bool = False
    """Whether code reads the results: they are not truncated."""
    about: Callable[[], str] | None = None
    """Returns text to show with a request for approval."""
    lent: frozenset[str] = frozenset()
    """Tools that no registry has: they are given for this turn, and never stale."""
    heard: Heard | None = None
    """What the run has heard, to say who named a call's values."""

    @property
    def changes(self) -> tuple[str, ...]:
        """The text to show with a request, beside its own changes."""
        return () if self.about is None else (self.about(),)

    @property
    def new_claimant(self) -> str:
        """Who uses an approval: the given id, or a new one for each use."""
        return self.claimant or os.urandom(16).hex()


_OPTIONS = frozenset(
    {*TurnOptions._fields, "id", "run", "said", "tools"} - {"about", "lent", "outer", "whole"}
)


def make_options(options: Mapping[str, Any], loaded: Iterable[str]) -> TurnOptions:
    """Return a turn's options. Refuses those that do not exist, and results of other calls."""
    for name in options.keys() - _OPTIONS:
        known = ", ".join(sorted(_OPTIONS))
        raise TypeError(f"A turn has no option {name!r}. Its options are {known}.")
    made = TurnOptions(**options, loaded=frozenset(loaded))
    for name, result in made.known.items():
        if result.call_id != name:
            raise ValueError(f"The known result of {name!r} has the call id {result.call_id!r}.")
    return made


def waiting_before(
    waiting: Iterable[Pending], position: int, accesses: tuple[Access, ...]
) -> tuple[str, ...]:
    """Return the keys of earlier pending calls conflicting with these accesses."""
    earlier = [other for other in waiting if other.position < position]
    return tuple(
        [
            other.key
            for other in earlier
            if any(mine.conflicts(theirs) for mine in accesses for theirs in other.accesses)
        ]
    )


def find_around(
    pending: Pending, waiting: Iterable[Pending], records: Iterable[Record]
) -> Pending | None:
    """Return the pending outer call, if it waits or was resumed."""
    resumed = [one.answered[0] for one in records if one.answered and one.result is None]
    for outer in (*waiting, *resumed):
        if any(pending.key == inner.key for inner in outer.requests[1:]):
            return outer
    return None


def escape(name: str) -> str:
    """Return a name as one part of a key. Escapes separators."""
    if not ("/" in name or "%" in name or "#" in name or "?" in name):
        return name
    from urllib.parse import quote  # few names need it

    return quote(name, safe="")


def read_number(pending: Pending, key_of: Callable[[str, int], str]) -> int:
    """Return a pending call's number among those with its id. Raises ValueError."""
    suffix = pending.key.partition("#")[2] or "1"
    number = int(suffix) if suffix.isdecimal() else 0
    if number < 1 or pending.key != key_of(pending.call.id, number):  # one key per call
        raise ValueError(f"{pending.id!r} is not a request about the call {pending.call.id!r}.")
    return number
