"""Turns for frameworks passing one reply's calls one at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import replace
from typing import Any, cast
from weakref import WeakValueDictionary

import anyio
from pydantic_core import from_json

from handrail import Allow, Call, Deny, Executor, Result, Spec, Turn
from handrail._support.loop import checkpoint, running_loop, spawn
from handrail.approvals import defer
from handrail.messages import api_name
from handrail.permissions import Answer, Edit, Pending

TICKS = 8  # frameworks pass a reply's calls one at a time: decision 061
"""Event loop rounds to wait for other calls in the same reply."""
MAX_OPEN = 1000
"""Turns whose unanswered requests are kept. The oldest are dropped first."""
BEHIND = (
    "Not run: it waits for an earlier call of the same reply that needs the user's approval. "
    "Call again when that call has its result."
)


FIRST = "Not run: it needs the user first. {} Tell the user, and call again after that."
_TEXT = (str, bytes, bytearray)


class _Group:
    """Calls from one reply arriving at the same time, each in its task's context."""

    def __init__(self, turn: Turn[Any]) -> None:
        self.is_added = anyio.Event()
        self.error: Exception | None = None
        self._turn, self._loop = turn, running_loop()
        self._waiters: list[Any] = []
        self._arrived: dict[str, tuple[Call, Context]] = {}
        # in a separate task: a framework's task is resumed through many functions
        self.task = spawn(copy_context(), self._add)

    def put(self, call: Call) -> Awaitable[Any]:
        """Note a call, and return what ends when it is added: a future where there are such."""
        self._arrived[call.id] = (call, copy_context())
        if self._loop is None:
            return self.is_added.wait()
        waiter = self._loop.create_future()  # an event costs more
        self._waiters.append(waiter)
        return waiter

    def remove(self, call: Call) -> None:
        self._arrived.pop(call.id, None)

    async def _add(self) -> None:
        """Add the calls to the turn, once no other is likely to arrive."""
        try:
            await _wait_for_others()
            if self._arrived:
                calls, contexts = zip(*self._arrived.values(), strict=True)
                self._turn.add(*calls, contexts=contexts, in_callers=True)
        except Exception as error:  # noqa: BLE001  raised where the calls wait
            self.error = error
        self.is_added.set()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class Ended:
    """Runs and replies ended by a hook, by a unique name or object.

    They are dropped after a while, the oldest first. Objects are stored, to keep others from
    getting their ids.
    """

    def __init__(self, known: OrderedDict[object, tuple[str, object]], *names: object) -> None:
        self._known, self._names = known, names

    @property
    def reason(self) -> str | None:
        """Why the run has ended, if it has."""
        found = [self._known[_key(name)] for name in self._names if _key(name) in self._known]
        return found[0][0] if found else None

    def note(self, reason: str) -> None:
        """Record the run as ended."""
        for name in self._names:
            self._known[_key(name)] = (reason, name)
        while len(self._known) > MAX_OPEN:
            self._known.popitem(last=False)


def _key(name: Any) -> object:
    named: object = name
    return named if isinstance(name, str | tuple) else id(named)


class OpenTurn:
    """One turn, whose calls arrive one at a time, in the framework's tasks."""

    def __init__(self, turn: Turn[Any], ended: Ended) -> None:
        self.turn = turn
        self._ended = ended
        self.approved: set[str] = set()
        """The ids of the calls approved by a person, if the framework reports it."""
        self.sent: dict[str, Any] = {}
        """The reply's call arguments as the model sent them, for adapters needing them."""
        self._group: _Group | None = None
        self._answers: dict[str, tuple[Pending, Answer]] = {}
        self._ids: set[str] = set()
        self._left: object = None
        """The task ending calls whose own tasks were cancelled, and those before it."""

    async def run(self, call: Call, *, early: bool = False) -> Result:
        """Run a call together with those arriving at the same time. Cancelling cancels it.

        With ``early``, for a call that only reads, it does not wait for others unless one waits.
        """
        while call.id in self._ids:
            call = replace(call, id=f"{call.id}+")  # the model has used one id twice
        self._ids.add(call.id)
        if self._group is None or self._group.is_added.is_set():
            if early:
                self.turn.add(call, contexts=(copy_context(),), in_callers=True)
                return self._noted(await self.turn.run(call))
            self._group = _Group(self.turn)
        group = self._group
        try:
            await group.put(call)
        except BaseException:
            group.remove(call)
            if call.id in self.turn:  # it was added, and nothing else ends it
                self.turn.cancel(call.id)
                self._left = spawn(copy_context(), self._leave, call, self._left)
            raise
        if group.error is not None:
            raise group.error
        return self._noted(await self.turn.run(call))

    def _noted(self, result: Result) -> Result:
        """Record whether a hook has ended the run. Later calls in the run are then cancelled."""
        if self.turn.stop_reason is not None:
            self._ended.note(self.turn.stop_reason)
        return result

    async def _leave(self, call: Call, _others: object) -> None:
        with suppress(Exception):
            await self.turn.run(call)

    def find_pending(self, call_id: str) -> Pending | None:
        """Return the request about a call, if it is pending."""
        return next((one for one in self.turn.pending if one.call.id == call_id), None)

    async def answer(self, pending: Pending, answer: Answer) -> Result:
        """Answer a request, or the first inside it, with others arriving at the same time.

        They are answered in call order. Earlier calls still unapproved now were denied: the
        framework does not report it.
        """
        self._answers[pending.call.id] = (pending, answer)
        try:
            await _wait_for_others()
        except BaseException:
            self._answers.pop(pending.call.id, None)
            raise
        answers = sorted(self._answers.values(), key=lambda one: one[0].position)
        self._answers = {}
        for one in answers:
            await self._dismiss_before(one[0].position)
            self.turn.answer(find_asked(one[0]), one[1])
        try:
            return self._noted(await self.turn.result(pending.call.id))
        except BaseException:
            self.turn.cancel(pending.call.id)
            with anyio.CancelScope(shield=True):
                await self.turn.ended()
            raise

    async def _dismiss_before(self, position: int) -> None:
        for other in self.turn.pending:
            if other.position < position and other.call.id not in self.approved:
                await self.turn.dismiss(other)


async def _wait_for_others() -> None:
    for _ in range(TICKS):
        await checkpoint()


async def _wait_for_those_before(turn: Turn[Any], pending: Pending) -> None:
    """Wait two event loop rounds for each: the last call to end is one round ahead."""
    for other in turn.pending:
        if other.position < pending.position:
            await checkpoint()
            await checkpoint()


class Turns:
    """An executor's turns in use or with unanswered requests."""

    def __init__(self, executor: Executor, *, max_open: int = MAX_OPEN) -> None:
        self._executor, self._max_open = executor, max_open
        self._live: WeakValueDictionary[tuple[str, str], OpenTurn] = WeakValueDictionary()
        self._pending: OrderedDict[tuple[str, str], tuple[tuple[Pending, ...], set[str]]]
        self._pending = OrderedDict()
        self._ended: OrderedDict[object, tuple[str, object]] = OrderedDict()

    def open(
        self, run: str, turn: str, given: Mapping[str, Any], *, within: object = None
    ) -> OpenTurn:
        """Return one reply's turn: the same one while its calls run, with its requests.

        ``within`` is one host run: its name, or an object unique to it. If a hook has ended the
        reply or the run, the turn is closed.
        """
        found = self._live.get((run, turn))
        if found is None:
            names = [(run, turn)] if within is None else [(run, turn), within]
            found = self._make(open_turn(self._executor, run, turn, given), *names)
            # a resumed run can have other deps, so it gets a new turn
            waiting, found.approved = self._pending.get((run, turn), ((), found.approved))
            found.turn.adopt(*waiting)
            self._live[run, turn] = found
        return found

    def gather(self, owner: object, given: Mapping[str, Any]) -> OpenTurn:
        """Return the turn for the current calls of one object, such as the host's context.

        For a host neither naming replies nor asking. Only the executor's own approver is asked. If
        the host has the same object for all replies in a run, a hook ends the run for it.
        """
        key = "", str(id(owner))  # no other object has it while the turn is in use
        found = self._live.get(key)
        if found is None:
            names = [] if owner is None else [owner]
            found = self._make(self._executor.turn(**given), *names)
            self._live[key] = found
        return found

    def _make(self, turn: Turn[Any], *names: object) -> OpenTurn:
        ended = Ended(self._ended, *names)
        if ended.reason is not None:
            turn.close(ended.reason)
        return OpenTurn(turn, ended)

    async def settle(self, opened: OpenTurn, result: Result, *, can_ask: bool = True) -> Result:
        """Deny a call only waiting for another one: frameworks have no place for it.

        A reply's requests are returned in call order: a framework asks in this order. If the host
        cannot ask now, the model tells the user what a call needs, such as a login.
        """
        pending = result.pending
        if pending is not None:
            await opened.turn.ended()
            if opened.turn.is_closed:  # nothing is asked any more
                result = await opened.turn.dismiss(pending)
            elif not can_ask and pending.questions:
                question = find_asked(pending).question
                result = await opened.turn.dismiss(pending, FIRST.format(question))
            elif pending.questions:
                await _wait_for_those_before(opened.turn, pending)
            else:
                result = await opened.turn.dismiss(pending, BEHIND)
        self.keep(opened)
        return result

    def keep(self, opened: OpenTurn) -> None:
        """Store a turn's requests until they are answered."""
        if not opened.turn.waiting and not self._pending:
            return
        key = opened.turn.run_id, opened.turn.id
        self._pending.pop(key, None)
        if opened.turn.pending:
            self._pending[key] = (opened.turn.pending, opened.approved)
        while len(self._pending) > self._max_open:
            self._pending.popitem(last=False)


class Unchecked:
    """The tools listed for one reply. As a validator, it leaves arguments unchanged."""

    def __init__(self, offered: Sequence[tuple[str, Spec]]) -> None:
        self.names = {name: spec.name for name, spec in offered}
        """Each tool's own name, by its API name."""
        self.find_turn: Callable[[], OpenTurn | None] = lambda: None
        """Returns the reply's turn during its calls, once one has started."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> Any:  # noqa: A002
        """Return a call's arguments, which the executor checks later."""
        return parse_object(input)

    def validate_python(self, input: Any, **_: Any) -> Any:  # noqa: A002
        """Return a call's arguments, which the executor checks later."""
        return input


def offer_tools(executor: Executor) -> list[tuple[str, Spec]]:
    """Return the current tools, each with the name valid in every API."""
    return [(api_name(spec.name), spec) for spec in executor.refresh_tools().specs]


def own_name(executor: Executor, name: str) -> str:
    """Return the own name of a tool called by its API name."""
    return executor.tools.api_names.get(name, name)


def open_turn(executor: Executor, run: str, turn: str, given: Mapping[str, Any]) -> Turn[Any]:
    """Return one reply's turn. Without an approver in the executor, requests stay pending."""
    return executor.turn(turn, run=run, approver=executor.approver or defer, **given)


def describe(pending: Pending, opened: OpenTurn) -> dict[str, Any]:
    """Return a request as JSON, with everything another process needs to continue the turn."""
    waiting = [one.to_json() for one in opened.turn.pending]
    asked = find_asked(pending)
    shown = {"kind": asked.kind, "question": asked.question, "headline": asked.headline}
    return {**shown, "handrail": waiting}


def find_asked(pending: Pending) -> Pending:
    """Return the request to ask: the call's own, or the first inside it.

    A framework has one answer for a call. The other requests inside it are asked after it.
    """
    return pending.questions[0] if pending.questions else pending


def answer_saved(turn: Turn[Any], saved: Pending, answer: Answer) -> None:
    """Answer a request of an earlier turn, or the first inside it."""
    turn.adopt(saved)
    turn.answer(find_asked(saved), answer)


def parse_object(text: Any) -> Any:
    """Return arguments as the framework shows them to hooks, or none for anything but an object."""
    try:
        parsed = from_json(text) if isinstance(text, _TEXT) else text
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def read_word(word: Any) -> Answer:
    """Return what a person said as an answer. Anything but True and arguments is a denial."""
    if isinstance(word, Mapping):
        return Edit(dict(cast("Mapping[str, Any]", word)))
    return Allow() if word is True else Deny.by_user(word if isinstance(word, str) else "")
