"""The executor's interface for its turns."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Sequence
from contextvars import Context
from typing import Any, Protocol, TypeVar

from handrail._collection.toolset import Toolset
from handrail._turn.event_feed import EventFeed
from handrail._turn.record import Record
from handrail._values.approval import Answer
from handrail._values.call import Call
from handrail._values.pending import Pending

T_contra = TypeVar("T_contra", contravariant=True)
R = TypeVar("R", bound=Record)


class OfferedTools(Protocol):
    """The tools of an executor."""

    @property
    def tools(self) -> Toolset:
        """The tools to send to a model."""
        ...

    @property
    def generation(self) -> int:
        """The generation of the registry that they come from."""
        ...


class TurnOwner(Protocol[T_contra, R]):
    """Runs the calls of turns ``T_contra``, each with a record ``R``."""

    @property
    def run_id(self) -> str:
        """The id of runs without a name."""
        ...

    @property
    def view(self) -> OfferedTools:
        """The tools of turns that name none."""
        ...

    def restrict(self, view: Any, /) -> Any:
        """Return an owner with fewer tools."""

    def new_turn_id(self) -> str:
        """Return an id for a turn without a name."""
        ...

    def bind(self) -> None:
        """Use the event loop that runs now."""

    def record(self, turn: T_contra, call: Call, /) -> R:
        """Return the record of a call."""
        ...

    def begin(
        self, records: Sequence[R], contexts: Sequence[Context] = (), *, in_callers: bool = False
    ) -> None:
        """Start calls that are decided together."""

    async def begin_from(
        self, turn: T_contra, calls: AsyncIterable[Call], record: Callable[[Call], R], /
    ) -> None:
        """Start calls as they arrive."""

    def resume(self, record: R, pending: Pending, answer: Answer | None, /) -> None:
        """Resume a pending call that was answered."""

    def take_kept(self, record: R, /) -> Callable[[], Any] | None:
        """Return the work of a call that its caller does."""
        ...

    async def finish(self, record: R, work: Callable[[], Any], /) -> None:
        """Do the work of a call, and set its result."""

    def listen(self, turn: T_contra, call_id: str | None, /) -> EventFeed:
        """Return a feed of the events of a turn, or of one call."""
        ...
