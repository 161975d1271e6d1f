"""Inner calls: a tool makes them through its own executor, which records them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn

from handrail._collection.toolset import Toolset
from handrail._definition.tool import AnyTool
from handrail._turn.heard_runs import InnerFeed
from handrail._turn.owner import stop_and_wait
from handrail._turn.record import EMPTY, Record
from handrail._turn.turn import Turn
from handrail._values.approval import Answer
from handrail._values.call import Call
from handrail._values.content import Json
from handrail._values.errors import Suspended, Unknown
from handrail._values.pending import Pending
from handrail._values.result import FailureKind, Result, read_result, write_result
from handrail._values.saved import save
from handrail._values.strict_json import canonical, clip


class InnerCall(NamedTuple):
    """An inner call and its result, which may be pending."""

    call: Call
    result: Result


class InnerCalls:
    """One call's inner calls, by turn.

    When the tool begins again, they are answered from here. In another process, they are read from
    the pending call.

    Args:
        outer: The call whose tool makes them.
        turn: Its turn.
        view: Its tools.
        key: Its key. The inner turns' run has it as its id.
    """

    def __init__(self, outer: Record, turn: Turn[Any], view: Any, key: str) -> None:
        self._outer = outer
        self._turn = turn
        self._view = view
        self._key = key
        self._owners: dict[tuple[str, ...], Any] = {}
        waiting = None if outer.answered is None else outer.answered[0]
        self._turns = {} if waiting is None else read_record(waiting)
        self.kept = "" if waiting is None else read_kept(waiting)
        """What the tool stored before it began again, or when it left its call pending."""
        if not self.kept and turn.options.records is not None:
            self.kept = turn.options.records.find(key)
        self._requests: tuple[Pending, ...] = ()
        self.repeated = set[str]()
        """The turns that the tool has made since it began."""
        self._heard: Any = None

    async def run(
        self, name: str, calls: Sequence[Call], tools: Sequence[AnyTool | str], **options: Any
    ) -> list[Result]:
        """Return a turn's results: recorded ones, or new ones."""
        now = options.pop("now", False)
        known, turn = self._turns.get(name), self._make_turn(name, tools, **options)
        if known is not None:
            _check_same(known, calls)
            results = await self._resume(turn, known)
        else:
            results = await _run_all(turn, calls)
        if turn.stop_reason is not None:
            self._turn.close(turn.stop_reason)
        if now:
            results = [await turn.dismiss(one.pending) if one.pending else one for one in results]
        self.repeated.add(name)
        self._turns[name] = list(map(InnerCall, calls, results))
        if any(result.pending is not None for result in results):
            raise Suspended("A call inside it waits for an answer.")
        return results

    async def ask(self, name: str, args: Mapping[str, Any], *, now: bool) -> Json:
        """Ask the user to fill in a form: see ``Context.ask``."""
        from handrail._definition.form import FILL_IN, form_tool, read_values  # loads pydantic

        call, tools = Call(FILL_IN, dict(args), name), (form_tool(),)
        results = await self.run(name, (call,), tools, whole=True, about=None, now=now)
        return read_values(args, results[0])

    def find_args(self, name: str) -> Mapping[str, Any] | None:
        """Return the only call's arguments in a turn, if the tool made it before."""
        for inner in self._turns.get(name, ()):
            args = inner.call.args
            return json.loads(args) if isinstance(args, str) else args
        return None

    async def _resume(self, turn: Turn[Any], known: Sequence[InnerCall]) -> list[Result]:
        """Run the pending calls with an answer, or without need for one."""
        results, answers = [inner.result for inner in known], self._turn.options.answers
        open_ = [result.pending for result in results if result.pending is not None]
        open_.sort(key=attrgetter("position"))
        ready = [one for one in open_ if one.id in answers or one.kind == "waiting"]
        keys = {one.key for one in open_}
        turn.adopt(*[one for one in open_ if one not in ready])
        for one in ready:
            after = tuple([key for key in one.after if key in keys])  # the others have ended
            turn.answer(replace(one, after=after), answers.get(one.id))
        ran = await _results_of(turn)
        new = {one.id: result for one, result in zip(ready, ran, strict=True)}
        return [new.get(one.pending.id, one) if one.pending else one for one in results]

    def _make_turn(
        self,
        name: str,
        tools: Sequence[AnyTool | str],
        *,
        whole: bool,
        about: Callable[[], str] | None,
    ) -> Turn[Any]:
        """Begin a turn with these tools, for the same principal and deps."""
        names = tuple([one for one in tools if isinstance(one, str)])
        own = [one for one in tools if not isinstance(one, str)]
        owner, outer = self._owners.get(names), self._turn
        if owner is None:
            view = self._view.restrict(names, None)
            tasks: Any = outer.owner
            owner = self._owners[names] = tasks.restrict(view)
        made = outer.options._replace(
            known=EMPTY,
            loaded=frozenset(names),
            outer=self._outer,
            whole=whole,
            about=about,
            heard=self._find_heard(),
            lent=frozenset(tool.spec.name for tool in own),
        )
        turn: Turn[Any] = Turn(owner, _INNER + name, self._key, made)
        if own:
            turn.tools = Toolset.join((turn.tools, Toolset(*own)))
        if outer.is_closed:
            turn.cancel()
        return turn

    @property
    def heard(self) -> Any:
        """All words from people and tools in the call's run."""
        return self._turn.options.heard

    def _find_heard(self) -> Any:
        """Return what the calls have heard: all that the run has, and the calls before them."""
        outer = self._turn.options.heard
        if outer is not None and self._heard is None:
            from handrail._sources.heard import Heard  # which few runs need

            self._heard = Heard(outer=outer)
            self._heard.follow(InnerFeed(self._turns))
        return self._heard

    @property
    def answers(self) -> Mapping[str, Answer]:
        """The answers to the requests inside the call, by id."""
        return self._turn.options.answers

    def suspend(
        self, requests: tuple[Pending, ...], kept: str, approved: tuple[str, ...]
    ) -> NoReturn:
        """Leave the call pending with these requests inside it: see ``Context.suspend``."""
        self._requests, self.kept = requests, kept
        self._turn.approved += approved
        raise Suspended("It waits for an answer to a request inside it.")

    def describe(self) -> tuple[tuple[Pending, ...], str]:
        """Return the pending calls, and the record as text, for the outer call's request."""
        every = [inner.result.pending for turn in self._turns.values() for inner in turn]
        record: dict[str, Any]
        record = {name: [_write(inner) for inner in turn] for name, turn in self._turns.items()}
        if self.kept:
            record[_KEPT] = self.kept
        own = tuple([pending for pending in every if pending is not None])
        return (*own, *self._requests), save(record) if record else ""


_INNER = "."
"""Inner turn ids begin with this. Sub-agents number their turns."""
_KEPT = ""
"""The name of the text a tool kept. No turn has it."""


async def _run_all(turn: Turn[Any], calls: Sequence[Call]) -> list[Result]:
    """Run calls. One alone runs in the caller's task, which costs less."""
    if len(calls) == 1:
        turn.add(*calls, contexts=(copy_context(),), in_callers=True)
        return [await turn.run(calls[0])]
    turn.add(*calls)
    return await _results_of(turn)


async def _results_of(turn: Turn[Any]) -> list[Result]:
    """Return a turn's results. Cancelling this cancels its calls, and waits for them."""
    try:
        return await turn.results()
    except BaseException as error:
        await stop_and_wait(error, turn.cancel, turn.ended)
        raise


def _check_same(known: Sequence[InnerCall], calls: Sequence[Call]) -> None:
    """Raise Unknown unless these are the recorded calls."""
    before, now = ([_identify(call) for call in each] for each in ([i.call for i in known], calls))
    if before == now:
        return
    pairs = zip(before, now, strict=False)
    was, is_ = next((pair for pair in pairs if pair[0] != pair[1]), (before[-1:], now[-1:]))
    raise Unknown(_DIFFERS.format(clip(str(was)), clip(str(is_))))


def _identify(call: Call) -> tuple[str, str, str]:
    return call.id, call.name, normalize_args(call.args)


def normalize_args(args: object) -> str:
    """Return arguments as text: equal ones give equal text."""
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            return str(args)
    try:
        return canonical(args).decode()
    except (TypeError, ValueError):
        return repr(args)


def _write(inner: InnerCall) -> list[Any]:
    call, result = inner
    is_open = result.pending is not None
    return [
        call.id,
        call.name,
        normalize_args(call.args),
        None if is_open else write_result(result),
    ]


def read_record(waiting: Pending) -> dict[str, list[InnerCall]]:
    """Return a pending call's record. Raises ValueError if it is damaged."""
    if not waiting.record:
        return {}
    open_ = {(one.turn_id, one.position): one for one in waiting.inner}
    turns: dict[str, list[InnerCall]] = {}
    for name, saved in json.loads(waiting.record).items():
        if name == _KEPT:
            continue
        made: list[InnerCall] = []
        turns[name] = made
        for position, (id_, called, args, result) in enumerate(saved):
            if result is None:
                pending = open_[_INNER + name, position]
                ended = Result(id_, "", pending=pending)
            else:
                ended = read_result(result)
            made.append(InnerCall(Call(called, args, id_), ended))
    return turns


def read_kept(waiting: Pending) -> str:
    """Return what a pending call's tool kept."""
    return str(json.loads(waiting.record).get(_KEPT, "")) if waiting.record else ""


def add_ended(waiting: Pending, reason: str) -> str:
    """Return why a pending call does not run, with the calls inside it that have ended."""
    if not waiting.inner:
        return reason
    records = [read_record(one) for one in waiting.requests]
    calls = [inner for turns in records for turn in turns.values() for inner in turn]
    done = [f"- {_show(inner)}" for inner in calls if inner.result.pending is None]
    if calls and not done:
        return reason
    shown, left = done[:_MAX_SHOWN_CALLS], len(done) - _MAX_SHOWN_CALLS
    listed = [_ENDED, *shown, *([f"- and {left} more"] if left > 0 else [])]
    stopped = f"{_STOPPED}{reason.removeprefix(_NOT_RUN)}"
    return "\n".join([stopped, *(listed if done else [_MAY_HAVE_ENDED])])


def add_unrepeated(record: Any, result: Result) -> Result:
    """Return a call's result after it began again, with the calls it did not repeat.

    They have ended, and the tool cannot know of them: another version of it may have made them.
    """
    waiting: Pending = record.answered[0]
    if not waiting.record or result.pending is not None:
        return result
    from handrail._definition.form import FILL_IN  # loads pydantic

    repeated = set[str]() if record.inner_calls is None else record.inner_calls.repeated
    turns = [calls for name, calls in read_record(waiting).items() if name not in repeated]
    ended = [inner for calls in turns for inner in calls if inner.result.pending is None]
    lines = [f"- {_show(inner)}" for inner in ended if inner.call.name != FILL_IN]
    if not lines:
        return result
    is_stopped = result.failure is not None and result.failure.kind is FailureKind.CANCELLED
    kind = FailureKind.CANCELLED if is_stopped else FailureKind.UNKNOWN
    text = "\n".join([result.text, "", _UNREPEATED, *lines[:_MAX_SHOWN_CALLS]])
    return Result.fail(result.call_id, kind, text)


def _show(inner: InnerCall) -> str:
    failure = inner.result.failure
    text = clip(f"{inner.call.name}({normalize_args(inner.call.args)})", _MAX_SHOWN_CHARS)
    return text if failure is None else f"{text} [{failure.kind.value}]"


_MAX_SHOWN_CALLS = 20
_MAX_SHOWN_CHARS = 200
_NOT_RUN = "Not run: "
_STOPPED = "Stopped before its end: "
_UNREPEATED = "It had begun before, and these calls of it have ended. Do not repeat them:"
_ENDED = "It had begun, and these calls inside it have ended. Do not repeat them:"
_MAY_HAVE_ENDED = (
    "It had begun, and calls inside it may have taken effect. Check before you repeat it."
)
_DIFFERS = (
    "It began again and did not repeat its calls: it made {} where it had made {} before. Its "
    "earlier calls may have taken effect."
)
