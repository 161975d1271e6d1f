"""Replay a recorded run: with its replies and its results, and today's tools and rules.

No model is called, and no tool runs. Every call is checked, decided and approved again, as far as
its recorded answer goes. The result lists the differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias, cast

from handrail import (
    Allow,
    Approvals,
    Call,
    Deny,
    Executor,
    Exposure,
    Hook,
    Json,
    Result,
    Tool,
    Toolset,
)
from handrail.agent import RunState
from handrail.events import Decided, Event
from handrail.messages import Reply, ToolResults
from handrail.permissions import Answer, CheckedCall, Edit, Pending, Policy
from handrail.runs.history import read_key
from handrail.runs.lines import LineFields

_Key: TypeAlias = tuple[str, str]
"""A call: its turn's number, with the place inside another call if it is there; and its id."""
_NO_ANSWER = "Not run: the recorded run has no answer to this approval request."


@dataclass(frozen=True, slots=True)
class ReplayDifference:
    """A difference between a replay and the recorded run."""

    turn: int
    call_id: str
    """The call's id. For a call inside another one, such as a program's, also the place."""
    tool: str
    what: Literal["decision", "run", "result"]
    """The policy decides otherwise; the tool runs or not; or the result differs."""
    recorded: str
    now: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A replayed run."""

    turns: int
    calls: int
    differences: tuple[ReplayDifference, ...]


@dataclass(slots=True)
class _CallNotes:
    """One call's course."""

    decision: str = ""
    started: bool = False
    answer: Answer | None = None
    ended: bool = False


async def replay_run(  # noqa: PLR0913  each is an option with a default
    state: RunState,
    lines: Iterable[LineFields],
    tools: Toolset,
    *,
    policy: Policy | None = None,
    principal: str | None = None,
    metadata: Mapping[str, Json] | None = None,
    deps: Any = None,
) -> Replay:
    """Run the calls of a recorded run again, with recorded results.

    Args:
        state: The state of the run, which has its replies and results.
        lines: What happened in the run: decisions and answers.
        tools: The tools of today. None of them runs.
        policy: The rules of today.
        principal: The user or service on whose behalf the run was.
        metadata: More facts that the policy reads, as the run had them.
        deps: Objects that the policy reads, as the run had them.
    """
    given: dict[str, Any] = {"principal": principal, "metadata": metadata or {}, "deps": deps}
    written, turns = list(lines), list(_list_turns(state))
    recorded = {
        (str(number), result.call_id): result for number, _, results in turns for result in results
    }
    stage = _Stage(recorded, _read_notes(written))
    options: dict[str, Any] = {
        "policy": policy,
        "approvals": Approvals(approver=stage.approve),
        "hooks": [Hook(around=stage.around)],
    }
    outside, inside = Executor(tools, **options), Executor(tools.map(_show), **options)
    numbers = [number for number, _, _ in turns]
    groups = [(outside, str(number), calls) for number, calls, _ in turns]
    groups += [(inside, place, calls) for place, calls in _list_inside(written, tools, numbers)]
    groups.sort(key=lambda group: int(group[1].partition("/")[0]))
    differences: list[ReplayDifference] = []
    async with outside, inside:
        for executor, place, calls in groups:
            turn = executor.turn(place, run=state.run_id or "replay", **given)
            async with turn.events() as feed:
                turn.add(*calls)
                results = await turn.results()
            stage.note(place, [event async for event in feed])
            for call, result in zip(calls, results, strict=True):
                differences += stage.compare(place, call, result)
    return Replay(len(turns), sum(len(calls) for *_, calls in groups), tuple(differences))


def _show(tool: Tool[..., Any]) -> Tool[..., Any]:
    """Return a tool that programs can call, also if a model cannot."""
    return replace(tool, spec=replace(tool.spec, exposure=Exposure.DIRECT))


class _Stage:
    """Replaces the tools and the person, and notes what happens to each call."""

    def __init__(self, recorded: Mapping[_Key, Result], then: Mapping[_Key, _CallNotes]) -> None:
        self._recorded = recorded
        self._then = then
        self._now: dict[_Key, _CallNotes] = {}

    async def approve(self, pending: Pending) -> Answer:
        """Return the recorded answer."""
        notes = self._then.get((pending.turn_id, pending.call.id))
        if notes is None:  # a turn before a fork: only its result is recorded
            return Allow()
        return Deny(_NO_ANSWER) if notes.answer is None else notes.answer

    async def around(self, call: CheckedCall, _run: object) -> Result:
        """Return the recorded result; no tool runs."""
        key = (call.turn.id, call.id)
        self._now.setdefault(key, _CallNotes()).started = True
        return self._recorded.get(key) or Result(call.id, "")

    def note(self, place: str, events: Iterable[Event]) -> None:
        """Note the first decision about each call in a turn."""
        for event in events:
            if isinstance(event, Decided):
                notes = self._now.setdefault((place, event.call_id), _CallNotes())
                notes.decision = notes.decision or type(event.decision).__name__.lower()

    def compare(self, place: str, call: Call, result: Result) -> Iterator[ReplayDifference]:
        """Yield how a call differs from the recorded one."""
        key = (place, call.id)
        now = self._now.get(key, _CallNotes())
        then = self._then.get(key, now)
        before = self._recorded.get(key)
        number, _, inner = place.partition("/")
        about = (int(number), f"{inner}/{call.id}" if inner else call.id, call.name)
        if then.decision != now.decision:
            yield ReplayDifference(
                *about, "decision", then.decision or "none", now.decision or "none"
            )
        if then.started != now.started:
            yield ReplayDifference(
                *about, "run", _ran(started=then.started), _ran(started=now.started)
            )
        if before is not None and _outcome(before) != _outcome(result):
            yield ReplayDifference(*about, "result", _outcome(before), _outcome(result))


def _list_turns(state: RunState) -> Iterator[tuple[int, list[Call], Sequence[Result]]]:
    """Yield each turn with calls: its number, the calls, and their recorded results."""
    messages = state.transcript()
    number = state.turns - sum(isinstance(message, Reply) for message in messages)
    for message, after in pairwise((*messages, None)):
        if isinstance(message, Reply):
            number += 1
            results = after.results if isinstance(after, ToolResults) else ()
            if message.calls:
                yield number, list(message.calls), results


def _read_notes(lines: Iterable[LineFields]) -> dict[_Key, _CallNotes]:
    """Return what the journal says about each call."""
    found: dict[_Key, _CallNotes] = {}
    for line in lines:
        key = _find_key(line)
        if not key[1]:
            continue
        notes = found.get(key)
        if notes is None or (notes.ended and line["event"] == "requested"):
            notes = found[key] = _CallNotes()
        _follow(notes, line)
    return found


def _find_key(line: LineFields) -> _Key:
    turn, inner, call_id = read_key(line)
    return f"{turn}/{inner}" if inner else str(turn), call_id


def _list_inside(
    lines: Iterable[LineFields], tools: Toolset, numbers: Sequence[int]
) -> Iterator[tuple[str, list[Call]]]:
    """Yield the turns that tools made in these turns, such as programs: places and calls.

    Sub-agents have tools and rules of their own, and turns with numbers.
    """
    found: dict[str, dict[str, Call]] = {}
    for line in lines:
        (place, call_id), name = _find_key(line), str(line.get("tool", ""))
        number, *path = place.split("/")
        is_inner = path and all(one.startswith(".") for one in path[1::2])
        if is_inner and line["event"] == "requested" and int(number) in numbers and name in tools:
            args: Any = line.get("args")
            found.setdefault(place, {})[call_id] = Call(name, args, id=call_id)
    for place, calls in found.items():
        yield place, list(calls.values())


def _follow(notes: _CallNotes, line: LineFields) -> None:
    match line["event"]:
        case "decided":
            notes.decision = notes.decision or str(line.get("decision", ""))
        case "started":
            notes.started = True
        case "answered":
            notes.answer = _answer(line)
        case "finished":
            notes.ended = line.get("kind") != "pending"
        case _:
            return


def _answer(line: LineFields) -> Answer:
    """Return a recorded answer. A result given by a person is in the recorded results."""
    match line.get("answer"):
        case "allow" | "result":
            return Allow()
        case "edit":
            args: Any = line.get("args")
            known = isinstance(args, str | Mapping)
            return Edit(cast("str | Mapping[str, Any]", args) if known else "{}")
        case _:
            return Deny(str(line.get("reason", "")))


def _ran(*, started: bool) -> str:
    return "ran" if started else "did not run"


def _outcome(result: Result) -> str:
    """Return a result as one text: the failure's kind, and the text."""
    kind = str(result.failure.kind) if result.failure else "ok"
    return f"{kind}: {result.text}"
