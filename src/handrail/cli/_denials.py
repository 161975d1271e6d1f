"""What a run was denied, and what would allow each of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal, TypeAlias

from handrail import Deny
from handrail.approvals import Proposal, displayed
from handrail.cli._journal import Line, event_line
from handrail.cli._kit import Kit
from handrail.events import Event
from handrail.judgement import Origin, Pending

MOST_ARGS = 200
"""Characters of a call's arguments that are shown."""

Cause: TypeAlias = Literal["asked", "mode", "rule", "answer", "refused"]
"""Nobody was there to answer; the mode lets nothing of it run; a rule denies it; an answer did; or
the tool refused it itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A call that was not run."""

    tool: str
    call_id: str
    args: str
    cause: Cause
    why: str
    """The question that nobody answered, or the reason that the model was given."""
    origin: Origin | None
    allow: Proposal | None = None
    """The rule that would have allowed it."""
    times: int = 1

    @property
    def advice(self) -> str:
        """What to do, if the call is wanted."""
        if self.cause == "rule":
            return f"{self.origin} denies it, and no allow can override that: change it there"
        if self.cause == "mode":
            return f"{self.origin} denies it: choose another one with --mode"
        if self.cause == "answer":
            return "it was asked about, and this came of it: tell the model, if it is wanted now"
        if self.cause == "refused":
            return "the tool itself refuses it, whatever the rules say"
        if self.allow is None:
            return "no rule can allow it beforehand: let it wait with --on-denied suspend"
        return f"this rule would allow it, in {self.allow.file}:"

    def plain(self) -> dict[str, Any]:
        """For programs."""
        origin, allow = self.origin, self.allow
        return {
            "tool": self.tool,
            "call_id": self.call_id,
            "args": self.args,
            "cause": self.cause,
            "why": self.why,
            "origin": origin and {"rule": origin.rule, "file": origin.file, "line": origin.line},
            "allow": allow and {"rule": allow.rule, "file": allow.file},
            "advice": self.advice.removesuffix(":"),
            "times": self.times,
        }

    def lines(self) -> Iterator[str]:
        """For people, safe to show."""
        often = f" ({self.times} times)" if self.times > 1 else ""
        yield f"- {on_one_line(self.tool)} {on_one_line(self.args)}{often}"
        by = f" [{self.origin}]" if self.cause == "asked" and self.origin is not None else ""
        yield f"    {on_one_line(f'{self.why}{by}')}"
        yield f"    {on_one_line(self.advice)}"
        if self.allow is not None:
            yield from (f"      {on_one_line(line)}" for line in self.allow.rule.splitlines())


@dataclass(slots=True)
class _Course:
    """What the journal tells of a call, so far."""

    place: int
    tool: str
    args: str
    question: str = ""
    origin: Origin | None = None
    denied: str = ""
    """The reason, where a rule or a mode denies it."""
    answer: str = ""
    """The reason, where an answer does."""
    started: bool = False
    waits: bool = False
    """Whether it is to come again, with an answer."""


class Denials:
    """What was denied since the last prompt: in this process, or in one before it.

    All of it is in the journal; a question that nobody can answer is denied here.
    """

    def __init__(self, kit: Kit, journal: Iterable[Line] = (), *, anew: bool = False) -> None:
        """Begin with what happened before; ``anew``, if there is a prompt now."""
        self._kit = kit
        self._calls: dict[str, _Course] = {}
        self._rules: dict[str, Proposal | None] = {}
        """The rules that would allow calls, where a question was denied here."""
        self._all: dict[tuple[str, str, str], tuple[int, Denial]] = {}
        """With the place of the first call."""
        for line in journal:
            self._take(line)
        if anew:
            self._all.clear()

    def __iter__(self) -> Iterator[Denial]:
        """In the order of the calls."""
        return (one for _, one in sorted(self._all.values(), key=itemgetter(0)))

    def __len__(self) -> int:
        return len(self._all)

    async def refuse(self, pending: Pending) -> Deny:
        """An approver that denies what is asked, and notes what would have allowed it."""
        proposals = self._kit.memory.propose(pending)
        plain = (one for one in proposals if one.scope == "project" and _is_plain(one.rule))
        self._rules[pending.call.id] = next(plain, None)
        return Deny(_unanswered(pending.question))

    def tell(self, event: Event) -> None:
        """Note what becomes of calls."""
        self._take(event_line(event))

    def _take(self, line: Line) -> None:
        name = str(line.get("call_id"))
        call = self._calls.get(name)
        match line:
            case {"event": "prompt"}:
                self._all.clear()
            case {"event": "requested", "tool": tool, "args": args}:
                if call is None or not call.waits:
                    self._calls[name] = _Course(len(self._calls), str(tool), summary(args))
            case {"event": "finished", "kind": "denied", "text": text} if call is not None:
                self._note(name, call, str(text))
            case _ if call is not None:
                _follow(call, line)
            case _:
                return  # of no call

    def _note(self, name: str, call: _Course, text: str) -> None:
        cause, why = _cause(call, text)
        key = (call.tool, call.args, why)
        denial = Denial(
            tool=call.tool,
            call_id=name,
            args=call.args,
            cause=cause,
            why=why,
            origin=call.origin,
            allow=self._rules.get(name) if cause == "asked" else None,
        )
        found = call.place, denial
        before = self._all.get(key, found)
        place, first = min(before, found, key=itemgetter(0))  # whichever of them ended first
        times = before[1].times + (key in self._all)
        self._all[key] = place, replace(first, times=times)


def _follow(call: _Course, line: Line) -> None:
    """Note the next step of a call."""
    match line:
        case {"event": "judged", **told}:
            call.tool, call.args = str(told.get("tool", call.tool)), _args(told, call)
            call.denied = str(told.get("reason")) if told.get("decision") == "deny" else ""
            call.origin = _origin(told.get("origin"))
        case {"event": "asked", "question": question}:
            call.question = str(question)
        case {"event": "answered", **told}:
            call.answer = str(told.get("reason", ""))
        case {"event": "started"}:
            call.started = True
        case {"event": "finished", "kind": kind}:
            call.waits = kind == "pending"
        case _:
            return  # nothing that a denial comes from


def _args(told: Line, call: _Course) -> str:
    return summary(told["args"]) if "args" in told else call.args


def _origin(told: Any) -> Origin | None:
    match told:
        case {"rule": str(rule), "file": str(file), "line": int(line)}:
            return Origin(rule, file, line)
        case _:
            return None


def _cause(call: _Course, text: str) -> tuple[Cause, str]:
    """Why a call was denied that ended with this text."""
    origin = call.origin
    if call.denied:
        is_mode = origin is not None and not origin.file and origin.rule.startswith("mode ")
        return ("mode" if is_mode else "rule"), call.denied
    if call.started or not call.question:
        return "refused", text
    if call.answer == _unanswered(call.question):
        return "asked", call.question
    return "answer", text


def _unanswered(question: str) -> str:
    return f"{question} Nobody is here to answer that, and so nothing was run."


def _is_plain(rule: str) -> bool:
    """Whether a rule says what it seems to say: nobody is led to add another one."""
    shown = displayed(rule)
    return not (shown.hidden or shown.mixed or shown.too_long)


def summary(args: Any) -> str:
    """A call's arguments, short."""
    text = args if isinstance(args, str) else json.dumps(args, default=_plain)
    return clipped(text, MOST_ARGS)


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    with suppress(TypeError, ValueError):  # a mapping of another kind than a dict
        return dict(value)
    return repr(value)


def clipped(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


def on_one_line(text: str) -> str:
    """A text from outside as it may be shown in a line."""
    return displayed(" ".join(text.split())).text
