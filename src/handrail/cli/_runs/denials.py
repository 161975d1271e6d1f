"""A run's denied calls, and the rule allowing each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal, TypeAlias

from handrail import Deny
from handrail.approvals import Proposal, make_printable
from handrail.cli._base.printable import clip
from handrail.cli._project.calls import advise_declaring
from handrail.cli._project.kit import Kit
from handrail.events import Event
from handrail.permissions import Origin, Pending
from handrail.runs.lines import LineFields, event_lines

MAX_ARGS_CHARS = 200
"""Characters shown from a call's arguments."""

Cause: TypeAlias = Literal["asked", "mode", "rule", "answer", "refused"]
"""No one was available to approve it; the mode denies it; a rule denies it; the user denied it; or
the tool refused it."""
NO_APPROVER = Origin("no approver", kind="built-in")
"""Marks the answer when no one was available to approve a call."""
_APPROVE_IT = "no rule can allow it; to approve it yourself, pass `--on-denied suspend`"
_KINDS: Mapping[str, Literal["mode", "built-in"]] = {"mode": "mode", "built-in": "built-in"}
_NO_APPROVER = (
    "Not run: this needs the user's approval, and no one is available to give it. Do what you can "
    "without it, and report it at the end. Request: {}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A call that was not run."""

    tool: str
    call_id: str
    args: str
    cause: Cause
    why: str
    """The unanswered approval request, or the reason given to the model."""
    origin: Origin | None
    allow: Proposal | None = None
    """The rule that would have allowed it."""
    declare: str = ""
    """What to declare, if no rule can allow it since the tool does not name what it touches."""
    times: int = 1

    @property
    def advice(self) -> str:
        """How to allow the call."""
        if self.cause == "rule":
            return f"denied by {self.origin}; no allow rule can override that, so change this rule"
        if self.cause == "mode":
            return f"denied by {self.origin}; choose another mode with `--mode`"
        if self.cause == "answer":
            return "denied by the user; if you want it now, say so in the next prompt"
        if self.cause == "refused":
            return "refused by the tool itself; no rule can change that"
        if self.allow is None:
            return self.declare or _APPROVE_IT
        return f"to allow it, add this rule to {self.allow.file}:"

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
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
        """Yield it as lines for people, safe to print."""
        often = f" ({self.times} times)" if self.times > 1 else ""
        yield f"- {on_one_line(self.tool)} {on_one_line(self.args)}{often}"
        by = f" [{self.origin}]" if self.cause == "asked" and self.origin is not None else ""
        yield f"    {on_one_line(f'{self.why}{by}')}"
        yield f"    {on_one_line(self.advice)}"
        if self.allow is not None:
            yield from (f"      {on_one_line(line)}" for line in self.allow.rule.splitlines())


@dataclass(slots=True)
class _CallNotes:
    """A call's state, as far as the journal has been read."""

    place: int
    tool: str
    args: str
    question: str = ""
    origin: Origin | None = None
    denied: str = ""
    """The reason, if a rule or the mode denies it."""
    answered_by: Origin | None = None
    """NO_APPROVER, if no one was available to approve it."""
    started: bool = False
    waits: bool = False
    """Whether the call is pending and will run again with an answer."""


class Denials:
    """Calls denied since the last prompt, in this process or an earlier one.

    They are read from the journal. Calls needing approval are denied here.
    """

    def __init__(
        self, kit: Kit, journal: Iterable[LineFields] = (), *, new_prompt: bool = False
    ) -> None:
        """Read the journal so far. With a new prompt, earlier denials are dropped."""
        self._kit = kit
        self._calls: dict[str, _CallNotes] = {}
        self._rules: dict[str, Proposal | None] = {}
        """Rules that would allow the calls denied here, by call id."""
        self._undeclared: dict[str, str] = {}
        """What to declare for calls denied here that no rule can allow, by call id."""
        self._all: dict[tuple[str, str, str], tuple[int, Denial]] = {}
        """Each with its first call's position."""
        for line in journal:
            self._take(line)
        if new_prompt:
            self._all.clear()

    def __iter__(self) -> Iterator[Denial]:
        """Iterate in call order."""
        return (denial for _, denial in sorted(self._all.values(), key=itemgetter(0)))

    def __len__(self) -> int:
        return len(self._all)

    async def refuse(self, pending: Pending) -> Deny:
        """Deny a call needing approval, and note the rule that would allow it; an approver."""
        proposals = self._kit.memory.propose(pending)
        readable = (
            proposal
            for proposal in proposals
            if proposal.scope == "project" and make_printable(proposal.rule).is_plain
        )
        name = pending.call.id
        self._rules[name] = next(readable, None)
        if self._rules[name] is None:
            self._undeclared[name] = advise_declaring(
                self._kit, pending.call.name, pending.accesses
            )
        return Deny(_NO_APPROVER.format(pending.question), NO_APPROVER)

    def on_event(self, event: Event) -> None:
        """Note an executor event."""
        for line in event_lines(event):
            self._take(line)

    def _take(self, line: LineFields) -> None:
        name = str(line.get("call_id"))
        call = self._calls.get(name)
        match line:
            case {"event": "prompt"}:
                self._all.clear()
            case {"event": "requested", "tool": tool, "args": args}:
                if call is None or not call.waits:
                    self._calls[name] = _CallNotes(len(self._calls), str(tool), summary(args))
            case {"event": "finished", "kind": "denied", "text": text} if call is not None:
                self._note(name, call, str(text))
            case _ if call is not None:
                _follow(call, line)
            case _:
                return  # not about a call

    def _note(self, name: str, call: _CallNotes, text: str) -> None:
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
            declare=self._undeclared.get(name, "") if cause == "asked" else "",
        )
        candidate = call.place, denial
        before = self._all.get(key, candidate)
        place, first = min(before, candidate, key=itemgetter(0))  # calls can end in any order
        times = before[1].times + (key in self._all)
        self._all[key] = place, replace(first, times=times)


def _follow(call: _CallNotes, line: LineFields) -> None:
    """Note a call's next step."""
    match line:
        case {"event": "decided", **fields}:
            call.tool, call.args = str(fields.get("tool", call.tool)), _args(fields, call)
            call.denied = str(fields.get("reason")) if fields.get("decision") == "deny" else ""
            call.origin = _origin(fields.get("origin"))
        case {"event": "asked", "question": question}:
            call.question = str(question)
        case {"event": "answered", **fields}:
            call.answered_by = _origin(fields.get("origin"))
        case {"event": "started"}:
            call.started = True
        case {"event": "finished", "kind": kind}:
            call.waits = kind == "pending"
        case _:
            return  # not related to a denial


def _args(fields: LineFields, call: _CallNotes) -> str:
    return summary(fields["args"]) if "args" in fields else call.args


def _origin(value: Any) -> Origin | None:
    match value:
        case {"rule": str(rule), "file": str(file), "line": int(line), **rest}:
            return Origin(rule, file, line, kind=_KINDS.get(str(rest.get("kind")), "rule"))
        case _:
            return None


def _cause(call: _CallNotes, text: str) -> tuple[Cause, str]:
    """Return a denial's cause, and the text to show for it."""
    origin = call.origin
    if call.denied:
        is_mode = origin is not None and origin.kind == "mode"
        return ("mode" if is_mode else "rule"), call.denied
    if call.started or not call.question:
        return "refused", text
    if call.answered_by == NO_APPROVER:
        return "asked", call.question
    return "answer", text


def summary(args: Any) -> str:
    """Return a call's arguments, shortened."""
    text = args if isinstance(args, str) else json.dumps(args, default=repr)
    return clip(text, MAX_ARGS_CHARS)


def on_one_line(text: str) -> str:
    """Return untrusted text on one line, safe to print."""
    return make_printable(" ".join(text.split())).text
