"""Turn: one reply's calls, who they are for, and their results."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextvars import Context
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, Self, cast

from handrail._collection.toolset import Toolset
from handrail._turn.event_feed import EventFeed
from handrail._turn.owner import TurnOwner, stop_and_wait
from handrail._turn.record import Record, TurnOptions, escape, find_around, read_number
from handrail._turn.record import waiting_before as find_before
from handrail._values.access import Access
from handrail._values.approval import Answer, Approver
from handrail._values.call import Call
from handrail._values.content import Json
from handrail._values.context import D
from handrail._values.decision import Deny
from handrail._values.pending import Pending
from handrail._values.result import Result

if TYPE_CHECKING:
    from handrail.messages import Reply  # loads asyncio

_NO_OPTIONS = TurnOptions()
_NO_VIEW: Any = SimpleNamespace(tools=Toolset(), generation=0)
_NO_RECORDS: dict[Any, Any] = {}  # never written to


class Turn(Generic[D]):
    """All calls in one reply, with who they are for and what they can use.

    Created by ``Executor.turn``. It does nothing until you add calls. The executor owns their
    tasks: any task can add, await or cancel calls.
    """

    __slots__ = (
        "__weakref__",
        "_count",
        "_id",
        "_key",
        "_last",
        "_owner",
        "_records",
        "_reply",
        "_run",
        "approved",
        "background",
        "generation",
        "interrupt",
        "is_closed",
        "on_call",
        "options",
        "stop_reason",
        "tools",
        "waiting",
    )
    tools: Toolset
    """The tools the model was sent."""
    generation: int
    """Their registry's generation, if any."""
    options: TurnOptions
    stop_reason: str | None
    """Why a hook ends the run after this turn, if one does."""
    is_closed: bool
    """Whether calls added or answered from now on are cancelled."""
    interrupt: KeyboardInterrupt | None
    """The interrupt a tool raised, for the code awaiting the turn."""
    waiting: tuple[Pending, ...]
    """The pending calls, in no order."""
    approved: tuple[str, ...]
    """Request ids without a question: approved, and waiting for other calls."""
    background: tuple[str, ...]
    """The calls' ids ``Executor.run_all`` left running in the background."""
    on_call: Callable[[], object] | None  # called for each new call, if a run listens
    _key: str | None
    _last: Record | None
    _reply: Reply | None
    _records: dict[tuple[str, int], Record]

    def __init__(
        self,
        owner: TurnOwner[Turn[Any], Any] | None = None,
        id: str | None = None,  # noqa: A002  the usual name
        run: str | None = None,
        options: TurnOptions = _NO_OPTIONS,
    ) -> None:
        self._owner, self.options = owner, options
        self._id, self._run = id, run
        view = _NO_VIEW if owner is None else owner.view
        self.tools, self.generation = view.tools, view.generation
        self.stop_reason = self.interrupt = self._key = self._last = self._reply = None
        self.waiting = self.approved = self.background = ()
        self.is_closed, self._count = False, 0
        self._records, self.on_call = _NO_RECORDS, None

    @property
    def principal(self) -> str | None:
        """The user or service on whose behalf the calls run."""
        return self.options.principal

    @property
    def deps(self) -> D:
        """Objects for the tools, such as a database. Never sent to a model."""
        return cast("D", self.options.deps)

    @property
    def metadata(self) -> Mapping[str, Json]:
        """More facts for hooks, policies and tools."""
        return self.options.metadata

    @property
    def approver(self) -> Approver | None:
        """This turn's approver, in place of the executor's."""
        return self.options.approver

    @property
    def known(self) -> Mapping[str, Result]:
        """Results recorded before a restart, by call id."""
        return self.options.known

    @property
    def is_inner(self) -> bool:
        """Whether a tool made these calls: see ``Context.turn``."""
        return self.options.outer is not None

    @property
    def owner(self) -> TurnOwner[Turn[Any], Any]:
        """The executor's tasks."""
        if self._owner is None:
            raise RuntimeError("This turn has no executor. Create it with `executor.turn()`.")
        return self._owner

    @property
    def run_id(self) -> str:
        """The turn's run id."""
        if self._run is None:
            self._run = self.owner.run_id
        return self._run

    @property
    def id(self) -> str:
        """The turn's id. If you name run and turn, keys are the same after a restart."""
        if self._id is None:
            self._id = self.owner.new_turn_id()
        return self._id

    @property
    def key(self) -> str:
        """The run and turn ids, as one string."""
        if self._key is None:
            self._key = f"{escape(self.run_id)}/{escape(self.id)}"  # ids may repeat: decision 033
        return self._key

    @property
    def reply(self) -> Reply:
        """The reply with these calls, once ``Executor.run_reply`` has it."""
        if self._reply is None:
            raise RuntimeError("This turn has no reply yet. Await `executor.run_reply` first.")
        return self._reply

    @reply.setter
    def reply(self, reply: Reply) -> None:
        self._reply = reply

    @property
    def records(self) -> tuple[Record, ...]:
        """The calls, in the order in which they were added."""
        return tuple(self._records.values())

    @property
    def next_position(self) -> int:
        """The index the next call would have."""
        return self._count

    def key_of(self, call_id: str, nth: int = 1) -> str:
        """Return the run, turn and call ids as one string."""
        key = f"{self.key}/{escape(call_id)}"
        return key if nth == 1 else f"{key}#{nth}"

    def add(self, *calls: Call, contexts: Sequence[Context] = (), in_callers: bool = False) -> None:
        """Run calls as one group. All are decided before any has a side effect.

        With ``contexts``, each call runs in its own one instead of the current context. With
        ``in_callers`` too, each of their tasks must await ``run``: without hooks, its call runs in
        it.
        """
        for call in calls:
            if not isinstance(call, Call):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"A turn takes objects of type Call, got {call!r}.")
        if not contexts:
            self.owner.begin([self._record(call) for call in calls])
            return
        given = zip(contexts, calls, strict=True)
        records = [context.run(self._record, call) for context, call in given]
        self.owner.begin(records, contexts, in_callers=in_callers)

    async def add_from(self, calls: AsyncIterable[Call]) -> None:
        """Run calls arriving one by one. Read-only ones start early."""
        await self.owner.begin_from(self, calls, self._record)

    async def run(self, call: Call) -> Result:
        """Add a call unless it was added, and return its result. Cancelling this cancels it."""
        record = self._records.get((call.id, 1))
        if record is None or (record.call is not call and record.call != call):
            record = self._record(call)
            self.owner.begin([record])
        elif record.result is not None and self.interrupt is None:
            return record.result
        try:
            kept = self.owner.take_kept(record)
            if kept is not None:
                await self.owner.finish(record, kept)
            return await self.result_of(record)
        except BaseException as error:
            await stop_and_wait(error, record.cancel, record.wait)
            raise

    async def result(self, call_id: str) -> Result:
        """Return a call's result, which may be pending. Cancelling this does not cancel it."""
        record = self._records.get((call_id, 1))
        if record is None:
            raise KeyError(f"No call {call_id!r} was added to this turn.")
        return await self.result_of(record)

    async def results(self) -> list[Result]:
        """Return all results, in call order."""
        records = sorted(self._records.values(), key=attrgetter("position"))
        for record in records:
            if record.result is None:
                await self._wait(record)
        if self.interrupt is not None:
            raise self.interrupt
        return [record.result for record in records if record.result is not None]

    async def ended(self) -> None:
        """Wait until no call is running, whatever the results are."""
        for record in tuple(self._records.values()):
            await self._wait(record)

    def cancel(self, *call_ids: str) -> tuple[str, ...]:
        """Stop these calls, from any thread; without ids, the whole turn, with later calls.

        Returns the ids of the open ones.
        """
        self.is_closed = self.is_closed or not call_ids
        live = [record for record in tuple(self._records.values()) if record.result is None]
        live = [record for record in live if not call_ids or record.call.id in call_ids]
        if live:
            self.owner.stop(live)
        return tuple([record.call.id for record in live])

    def close(self, reason: str) -> None:
        """End the run for this reason: stop all calls whose tools have not started."""
        self.is_closed, self.stop_reason = True, reason
        for record in self._records.values():
            if record.result is None and not record.begun:
                record.cancel()

    def __contains__(self, call_id: object) -> bool:
        return (call_id, 1) in self._records

    def forget(self, call_id: str) -> None:
        """Drop an ended call's record. For turns as long as a session."""
        for key in [key for key in self._records if key[0] == call_id]:
            if self._records[key].result is not None:
                del self._records[key]

    def events(self, call_id: str | None = None) -> EventFeed:
        """Return the events from now on; for one call, until it has its result."""
        feed = self.owner.listen(self, call_id)
        if call_id is not None and self._has_ended((call_id, 1)):
            feed.close()
        return feed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if error is not None:
            self.cancel()
        try:
            await self.ended()
        except BaseException:
            self.cancel()
            raise

    @property
    def pending(self) -> tuple[Pending, ...]:
        """The pending calls, in call order: also those only waiting for another."""
        return tuple(sorted(self.waiting, key=attrgetter("position")))

    @property
    def questions(self) -> tuple[Pending, ...]:
        """The requests for a person, in call order, with those inside waiting calls."""
        return tuple([one for pending in self.pending for one in pending.questions])

    def answer(self, pending: Pending, answer: Answer | None = None) -> None:
        """Answer a pending call. Omit the answer if the call only waits for another.

        It runs once the calls it waits for have ended, if they are answered in this turn too.
        Otherwise it stays pending, and its answer is not used up. A second answer to the same call
        is ignored while the first is in use, or when the call has its result.
        """
        self._answer(pending, answer)

    def _answer(self, pending: Pending, answer: Answer | None) -> Record:
        outer = find_around(pending, self.waiting, self._records.values())
        if outer is not None:
            given = {} if answer is None else {pending.id: answer}
            self.options = self.options._replace(answers={**self.options.answers, **given})
            return self._answer(outer, None)
        under_way = self.find_answered(self._own(pending).key)
        if under_way is not None:
            return under_way
        nth = read_number(pending, self.key_of)
        waits = any(other.key == pending.key for other in self.waiting)
        if not waits and self._has_ended((pending.call.id, nth)):
            return self._records[pending.call.id, nth]
        record: Record = self.owner.record(self, pending.call)
        record.position, record.round = pending.position, pending.round + 1
        record.answered = (pending, answer)
        record.nth = nth
        self.waiting = tuple([other for other in self.waiting if other.key != pending.key])
        self._keep(record)
        self.owner.resume(record, pending, answer)
        return record

    async def dismiss(self, pending: Pending, reason: str = "") -> Result:
        """Deny a pending call, so waiting calls can run."""
        denied = Deny(reason) if reason else Deny.by_user()
        return await self.result_of(self._answer(pending, denied))

    def adopt(self, *pending: Pending) -> None:
        """Add calls pending in another process. Later conflicting calls wait."""
        for question in pending:
            self.mark_pending(self._own(question))

    def mark_pending(self, pending: Pending) -> None:
        """Record a pending call."""
        others = [other for other in self.waiting if other.key != pending.key]
        self.waiting = (*others, pending)
        self._count = max(self._count, pending.position + 1)

    def waiting_before(self, position: int, accesses: tuple[Access, ...]) -> tuple[str, ...]:
        """Return the keys of earlier pending calls conflicting with these accesses."""
        return find_before(self.waiting, position, accesses) if self.waiting else ()

    def find_answered(self, key: str) -> Record | None:
        """Return the call with this key, answered in this turn and without a result."""
        for record in self._records.values():
            if record.result is None and record.is_answer_to(key):
                return record
        return None

    async def _wait(self, record: Record) -> None:
        if record.result is None:
            self.owner.bind()  # if the call's loop was closed, the call has its result now
            await record.wait()

    async def result_of(self, record: Record) -> Result:
        """Return a call's result."""
        await self._wait(record)
        if self.interrupt is not None:
            raise self.interrupt
        return cast("Result", record.result)

    def _has_ended(self, name: tuple[str, int]) -> bool:
        record = self._records.get(name)
        return record is not None and record.result is not None and record.result.pending is None

    def _record(self, call: Call) -> Record:
        record: Record = self.owner.record(self, call)
        record.position, self._count = self._count, self._count + 1
        self._records = self._records or {}
        while (call.id, record.nth) in self._records:
            record.nth += 1
        record.previous, self._last = self._last, record
        self._records[call.id, record.nth] = record
        if self.on_call is not None:
            self.on_call()
        return record

    def _keep(self, record: Record) -> None:
        self._records = self._records or {}
        self._records[record.call.id, record.nth] = record
        self._count = max(self._count, record.position + 1)
        if self.on_call is not None:
            self.on_call()

    def _own(self, pending: Pending) -> Pending:
        if (pending.run_id, pending.turn_id) != (self.run_id, self.id):
            opening = f"executor.turn({pending.turn_id!r}, run={pending.run_id!r})"
            raise ValueError(f"{pending.id!r} waits in another turn. Open that turn: `{opening}`.")
        return pending
