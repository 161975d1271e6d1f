"""Context: facts about a call, for tools with a parameter of this type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol

from handrail._values.access import Access
from handrail._values.content import Json

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default all checkers know

    from handrail._values.approval import Approver

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")


class Progress(Protocol):
    """Reports the progress of a call to listeners."""

    def __call__(self, message: str, fraction: float | None = None, /) -> None:
        """Report what is done and, if it is known, how much of it: a number from 0 to 1."""
        ...


def _report_nothing(_message: str, _fraction: float | None = None, /) -> None: ...


def _keep_nothing(_cleanup: Callable[[], Awaitable[None]]) -> None: ...


def _never() -> bool:
    return False


class Asks(Protocol):
    """A running call, which can ask for more access, or ask what another executor asks."""

    @property
    def approver(self) -> Approver | None:
        """Answers its approval requests, if anything does."""

    async def may(self, *accesses: Access) -> None:
        """Ask for accesses, and wait for them."""

    def may_sync(self, *accesses: Access) -> None:
        """Ask for accesses, and block until the call has them."""


@dataclass(slots=True, kw_only=True)  # creating a frozen one takes ten times as long
class Context(Generic[D]):
    """Facts about the call that a tool serves. Never sent to a model, never set by one.

    Each attempt at a call gets its own.
    """

    call_id: str
    idempotency_key: str
    """Identifies run, turn and call; the same for every attempt. Pass it to the service you call.

    It is the same after a restart if you name the run and the turn.
    """
    attempt: int = 1
    accesses: tuple[Access, ...] = ()
    """The accesses of the call when this attempt began, on which it was decided."""
    is_approved: bool = False
    """Whether the approver approved exactly this call, with these arguments and accesses."""
    run_id: str = ""
    turn_id: str = ""
    principal: str | None = None
    """The user or service on whose behalf the call runs."""
    deps: D = field(default=None)  # type: ignore[assignment]
    """Objects that the turn has for its tools, such as a database."""
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])
    progress: Progress = field(default=_report_nothing, repr=False)
    """Reports progress to listeners, from any thread. A model never sees it."""
    on_close: Callable[[Callable[[], Awaitable[None]]], None] = field(
        default=_keep_nothing, repr=False
    )
    """Registers a function that ends what outlives the call. It runs when the executor closes."""
    is_cancelled: Callable[[], bool] = field(default=_never, repr=False)
    """Returns whether the call was cancelled or timed out. A plain ``def`` tool has to check it."""
    _call: Asks | None = field(default=None, repr=False, compare=False)

    @property
    def approver(self) -> Approver | None:
        """Answers approval requests of this call, if anything does now.

        Pass it to the turns of another executor that the tool uses: ``turn(approver=...)``.
        """
        return None if self._call is None else self._call.approver

    async def may(self, *accesses: Access) -> None:
        """Ask for accesses that are known only now. The policy decides about the call again.

        Raises Refused if it denies them. If a person must approve them, or another call uses one,
        the tool ends here and begins again later. So await it before the tool has side effects. A
        Context that you make yourself allows everything.
        """
        if self._call is not None:
            await self._call.may(*accesses)

    def may_sync(self, *accesses: Access) -> None:
        """Do the same as ``may``, for a plain ``def`` tool."""
        if self._call is not None:
            self._call.may_sync(*accesses)

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        """Refuse a Context inside other types: a model must never be able to send one."""
        raise TypeError("the executor provides the Context. Declare it as a separate parameter")
