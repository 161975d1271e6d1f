"""The executor's interface for its turns."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from contextvars import Context
from typing import Any, Protocol, TypeVar

import anyio

from handrail._collection.toolset import Toolset
from handrail._turn.event_feed import EventFeed
from handrail._turn.record import Record
from handrail._values.approval import Answer
from handrail._values.call import Call
from handrail._values.pending import Pending

T_contra = TypeVar("T_contra", contravariant=True)
R = TypeVar("R", bound=Record)


class OfferedTools(Protocol):
    """An executor's tools."""

    @property
    def tools(self) -> Toolset:
        """The tools to send to a model."""
        ...

    @property
    def generation(self) -> int:
        """Their registry's generation."""
        ...

    def offer_reader(self) -> None:
        """Offer the tool for reading on, as if a result had been truncated here."""


class TurnOwner(Protocol[T_contra, R]):
    """Runs calls from turns ``T_contra``, each with a record ``R``."""

    @property
    def run_id(self) -> str:
        """The id for runs without a name."""
        ...

    @property
    def view(self) -> OfferedTools:
        """The tools for turns naming none."""
        ...

    def restrict(self, view: Any, /) -> Any:
        """Return an owner with fewer tools."""

    def new_turn_id(self) -> str:
        """Return an id for a turn without a name."""
        ...

    def bind(self) -> None:
        """Use the running event loop."""

    def stop(self, records: Sequence[Record], /) -> None:
        """Stop these calls, from any thread."""

    def record(self, turn: T_contra, call: Call, /) -> R:
        """Return a call's record."""
        ...

    def begin(
        self, records: Sequence[R], contexts: Sequence[Context] = (), *, in_callers: bool = False
    ) -> None:
        """Start calls decided together."""

    async def begin_from(
        self, turn: T_contra, calls: AsyncIterable[Call], record: Callable[[Call], R], /
    ) -> None:
        """Start calls as they arrive."""

    def resume(self, record: R, pending: Pending, answer: Answer | None, /) -> None:
        """Resume an answered pending call."""

    def take_kept(self, record: R, /) -> Callable[[], Any] | None:
        """Return the work left to a call's caller."""
        ...

    async def finish(self, record: R, work: Callable[[], Any], /) -> None:
        """Do a call's work, and set its result."""

    def listen(self, turn: T_contra, call_id: str | None, /) -> EventFeed:
        """Return a feed of events: a turn's, or one call's."""
        ...


async def stop_and_wait(
    error: BaseException, cancel: Callable[[], object], wait: Callable[[], Awaitable[object]]
) -> None:
    """Cancel calls after an error, and wait for them, whatever else is cancelled."""
    cancel()
    if not isinstance(error, GeneratorExit):  # else nothing can be awaited
        with anyio.CancelScope(shield=True):
            await wait()
