"""Context: facts about a call, for tools with a parameter of this type."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, cast

from handrail._values.access import Access
from handrail._values.call import Call
from handrail._values.content import Json
from handrail._values.result import Result

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # whose default all checkers know

    from handrail._values.approval import Answer, Approver
    from handrail._values.pending import Pending

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")


NO_FIELDS: Mapping[str, Any] = MappingProxyType({"type": "object", "properties": {}})
"""A form to which the user only agrees."""


class Progress(Protocol):
    """Reports a call's progress to listeners."""

    def __call__(self, message: str, fraction: float | None = None, /) -> None:
        """Report what is done and, if it is known, how much of it: a number from 0 to 1."""
        ...


def _report_nothing(_message: str, _fraction: float | None = None, /) -> None: ...


def _keep_nothing(_cleanup: Callable[[], Awaitable[None]]) -> None: ...


def _never() -> bool:
    return False


class Inside(Protocol):
    """The requests inside a call, and the text that its tool kept."""

    kept: str

    @property
    def heard(self) -> Any:
        """All words from people and tools in the call's run."""
        ...

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The answers to the requests inside the call."""
        ...

    def suspend(
        self, requests: tuple[Pending, ...], kept: str, approved: tuple[str, ...]
    ) -> NoReturn:
        """Leave the call pending."""
        ...


class Asks(Protocol):
    """A running call, which can ask for more access, make calls, or ask what others ask."""

    @property
    def approver(self) -> Approver | None:
        """Answers its approval requests, if anything does."""

    async def may(self, *accesses: Access) -> None:
        """Ask for accesses, and wait for them."""

    def block(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Await work of the call from its thread."""
        ...

    async def find_credential(self, name: str, context: Any, refused: str, /) -> str:
        """Return the principal's credential for a service."""
        ...

    async def run_inner(
        self, name: str, calls: Sequence[Call], tools: Sequence[Any], /, **options: Any
    ) -> list[Result]:
        """Run the tool's calls."""
        ...

    async def ask(self, name: str, args: Mapping[str, Json], /, *, now: bool) -> Json:
        """Ask the user to fill in a form."""
        ...

    def find_asked(self, name: str, /) -> Mapping[str, Json] | None:
        """Return a question's arguments from before the tool began again."""
        ...

    def find_record(self) -> str:
        """Return the text that the tool stored before it began again."""
        ...

    async def store_record(self, record: str, /) -> bool:
        """Store what the tool needs if it begins again."""
        ...

    @property
    def has_begun(self) -> bool:
        """Whether the call has made calls in another process."""
        ...

    @property
    def inner(self) -> Inside:
        """The requests inside the call."""
        ...


@dataclass(slots=True, kw_only=True)  # creating a frozen one takes ten times as long
class Context(Generic[D]):
    """Facts about the call a tool serves. Never sent to a model, never set by one.

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
    """Objects the turn has for its tools, such as a database."""
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

        Pass it to the turns of another executor the tool uses: ``turn(approver=...)``.
        """
        return None if self._call is None else self._call.approver

    async def may(self, *accesses: Access) -> None:
        """Ask for accesses known only now. The policy decides about the call again.

        Raises Refused if it denies them. If a person must approve them, or another call uses one,
        the tool ends here and begins again later. So await it before the tool has side effects. A
        Context you make yourself allows everything.
        """
        if self._call is not None:
            await self._call.may(*accesses)

    def may_sync(self, *accesses: Access) -> None:
        """Do the same as ``may``, for a plain ``def`` tool."""
        if self._call is not None:
            self._call.block(partial(self._call.may, *accesses))

    async def credential(self, name: str, *, refused: str = "") -> str:
        """Return the credential that this call's principal has for a service.

        Never another principal's. Raises NeedsLogin if the principal must sign in first, and
        ToolFailed if there is none: see ``Executor(credentials=...)``. Do not log or return it.

        Args:
            name: The service, such as ``github``.
            refused: The credential the service has refused. Another one is returned.
        """
        if self._call is None:
            raise RuntimeError(_NO_EXECUTOR)
        return await self._call.find_credential(name, self, refused)

    def credential_sync(self, name: str, *, refused: str = "") -> str:
        """Do the same as ``credential``, for a plain ``def`` tool."""
        if self._call is None:
            raise RuntimeError(_NO_EXECUTOR)
        found: str = self._call.block(partial(self.credential, name, refused=refused))
        return found

    async def turn(
        self,
        name: str,
        calls: Iterable[Call],
        *,
        tools: Iterable[Any],
        whole: bool = False,
        about: Callable[[], str] | None = None,
    ) -> list[Result]:
        """Run calls of these tools through this call's own executor.

        They are decided, approved, ordered and recorded like a model's calls, for the same
        principal and deps. If one waits for an answer, Suspended is raised: do not catch it. The
        tool then ends, and begins again once there is an answer. Calls that have ended do not run
        again: their results are those of before. Raises Unknown if the calls differ from those.

        The rest of the tool must be safe to repeat, and must lead to the same calls.

        Args:
            name: This turn's name, unique in the call.
            calls: The calls. Each needs an id, unique in this turn.
            tools: The tools to allow: names of the executor's tools, or your own tools.
            whole: Whether code reads the results. They are then complete, or failures.
            about: Returns text for the approver of one of these calls.
        """
        if self._call is None:
            raise RuntimeError(_NO_EXECUTOR)
        return await self._call.run_inner(
            name, tuple(calls), tuple(tools), whole=whole, about=about
        )

    def suspend(self, *requests: Pending, record: str, approved: Iterable[str] = ()) -> NoReturn:
        """Leave the call pending until one of these requests is answered. Raises Suspended.

        For a tool that works with another executor, whose requests are then asked like the call's
        own. Once there is an answer, the tool begins again, perhaps in another process.

        Args:
            requests: The other executor's requests.
            record: Text to continue from: see ``record``.
            approved: The ids of requests that need no answer: they only wait for other calls.
        """
        if self._call is None:
            raise RuntimeError(_NO_EXECUTOR)
        self._call.inner.suspend(requests, record, tuple(approved))

    @property
    def heard(self) -> Any:
        """All words from people and tools in this run, for ``turn(heard=...)``."""
        return None if self._call is None else self._call.inner.heard

    @property
    def record(self) -> str:
        """The last text from ``suspend`` or ``store_record``, if the tool begins again."""
        return "" if self._call is None else self._call.find_record()

    async def store_record(self, record: str) -> bool:
        """Store text for ``record``, such as the id of a job that another service runs.

        If this process ends, the tool of a durable run begins again in another one, and reads it.
        Without a stored text, it would not run again: the call may have taken effect. Returns
        whether the text outlives this process.
        """
        return self._call is not None and await self._call.store_record(record)

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The answers to the requests inside the call, by ``Pending.id``: see ``suspend``."""
        return {} if self._call is None else self._call.inner.answers

    async def ask(  # noqa: PLR0913  each is an option with a default
        self,
        question: str,
        form: Mapping[str, Json] = NO_FIELDS,
        *,
        name: str = "question",
        asker: str = "",
        url: str = "",
        state: Json = None,
        now: bool = False,
    ) -> Mapping[str, Json] | None:
        """Ask the user for values, by a form. Returns them, or None if the user declines.

        The form is a JSON Schema: an object whose properties are texts, numbers, booleans or
        choices. Without properties, the user only agrees. The question is answered like an approval
        request, by a person and never by a model. If it is answered later, the tool ends, and
        begins again once there is an answer: see ``turn``.

        Args:
            question: The text to show.
            form: What to ask for.
            name: The question's name, unique in the call.
            asker: Who asks, if not the tool itself, such as ``the MCP server 'docs'``.
            url: An address to open, outside of the form.
            state: What the tool needs when it begins again: see ``asked``. It is not shown.
            now: Whether a question no one answers at once is declined.
        """
        if self._call is None:
            raise RuntimeError(_NO_EXECUTOR)
        more = {"asker": asker, "url": url, "state": state}
        args: dict[str, Json] = {"question": question, "form": dict(form)}
        args |= {key: value for key, value in more.items() if value}
        values = await self._call.ask(name, args, now=now)
        return cast("Mapping[str, Json] | None", values)

    def asked(self, name: str = "question") -> Mapping[str, Json] | None:
        """Return what this call has asked before the tool began again, or None.

        The keys are those of ``ask``: ``question``, ``form``, and ``state`` if it was given.
        """
        return None if self._call is None else self._call.find_asked(name)

    @property
    def has_begun(self) -> bool:
        """Whether the tool has made calls before, and begins again in another process."""
        return self._call is not None and self._call.has_begun

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        """Refuse a Context inside other types: a model must never be able to send one."""
        raise TypeError("the executor provides the Context. Declare it as a separate parameter")


_NO_EXECUTOR = "This Context has no executor. Run the tool through one to use this."
