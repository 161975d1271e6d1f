"""Calls from a command line: their arguments, what would become of them, what would allow them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from handrail import Ask, Call, Deny, Executor, Spec
from handrail.approvals import displayed
from handrail.cli._app import App
from handrail.cli._exits import Exit, Halt
from handrail.cli._kit import Kit
from handrail.judgement import Explanation, Origin, Pending

if TYPE_CHECKING:
    from handrail.approvals import Proposal

_MOST_INPUT = 1 << 24
_HOW = "give one JSON object, key=value pairs, or - to read JSON from stdin"


def call_of(spec: Spec, args: Sequence[str]) -> Call:
    """The call that a command line means: JSON, pairs, or what stdin says."""
    return Call(spec.name, _text(spec, args), id="call")


def _text(spec: Spec, args: Sequence[str]) -> str:
    if list(args) == ["-"]:
        text = sys.stdin.read(_MOST_INPUT + 1)
        if len(text) > _MOST_INPUT:
            words = f"stdin has more than {_MOST_INPUT} characters"
            raise Halt(words, code="bad_args", hint=_HOW)
        return text
    if len(args) == 1 and args[0].lstrip().startswith("{"):
        return args[0]
    pairs: dict[str, Any] = {}
    for one in args:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise Halt(f"{one!r} is no argument", code="bad_args", hint=_HOW)
        if name in pairs:
            raise Halt(f"{name!r} is given twice", code="bad_args", hint=_HOW)
        pairs[name] = _value(spec, name, value)
    return json.dumps(pairs)


def _value(spec: Spec, name: str, text: str) -> Any:
    """A text where the tool takes one; else JSON, and where it is none, a text."""
    about: Any = spec.input_schema.get("properties", {}).get(name)
    if about and about is not True and about.get("type") == "string":
        return text
    return as_data(text)


def as_data(args: str | Mapping[str, Any]) -> Any:
    """What JSON says, or arguments, as data that any program can read; as text where it is none.

    Numbers that JSON has not, such as NaN, are words in it.
    """
    text = args if isinstance(args, str) else json.dumps(dict(args), default=repr)
    try:
        return json.loads(text, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        return text


def _finite(number: str) -> float | str:
    found = float(number)
    return found if isfinite(found) else number


def explained(kit: Kit, call: Call) -> Explanation:
    """What would become of a call; nothing is run."""
    return Executor(kit.tools, policy=kit.rules).explain(call)


def show(app: App, kit: Kit, told: Explanation) -> Exit:
    """Tell an explanation; a call that is no good ends in another exit code than one that is."""
    rules = allowing(kit, told)
    app.print(explanation(told, rules), displayed(str(told)).text.split("\n"))
    if rules and app.output == "text":
        app.say(displayed(f"\n{would_allow(rules)}").text)
    return Exit.DONE if told.refusal is None else Exit.USAGE


def explanation(told: Explanation, rules: Sequence[Proposal]) -> dict[str, Any]:
    """An explanation as a document."""
    refusal = told.refusal.failure if told.refusal is not None else None
    return {
        "call": {"name": told.call.name, "args": as_data(told.call.args)},
        "tool": told.tool or None,
        "refusal": refusal and {"kind": refusal.kind.value, "message": refusal.message},
        "repairs": list(told.repairs),
        "accesses": [
            {"verb": one.verb.name.lower(), "resource": one.resource} for one in told.accesses
        ],
        "matched": [
            {"verdict": one.verdict, **_origin(one.origin), "why": one.why} for one in told.matched
        ],
        "decision": _decision(told),
        "would_allow": proposals(rules),
    }


def _decision(told: Explanation) -> dict[str, Any] | None:
    made = told.decision
    if made is None:
        return None
    words = ""
    if isinstance(made, Ask):
        words = made.question
    elif isinstance(made, Deny):
        words = made.reason
    return {"verdict": type(made).__name__.lower(), "words": words, **_origin(made.origin)}


def _origin(origin: Origin | None) -> dict[str, Any]:
    said = origin or Origin("")
    return {"rule": said.rule or None, "file": said.file or None, "line": said.line or None}


def allowing(kit: Kit, told: Explanation) -> tuple[Proposal, ...]:
    """The rules that would allow a call that is asked about, by where each would be kept."""
    asks = told.decision
    if not isinstance(asks, Ask):
        return ()
    pending = Pending(
        id="",
        call=told.call,
        effect=kit.tool(told.tool).spec.effect,
        accesses=told.accesses,
        question=asks.question,
        fingerprint="",
        asked_at=0.0,
        expires_at=0.0,
        origin=asks.origin,
        once=asks.once,
    )
    return tuple(one for one in kit.memory.propose(pending) if one.scope != "run")


def proposals(rules: Sequence[Proposal]) -> list[dict[str, str]]:
    """Rules that would allow a call, as documents."""
    return [{"scope": one.scope, "file": one.file, "rule": one.rule} for one in rules]


def would_allow(rules: Sequence[Proposal]) -> str:
    """The narrowest of these rules, in words."""
    first = rules[0]
    lines = first.rule.strip().split("\n")
    return "\n".join([f"This would allow it, in {first.file}:", *(f"    {one}" for one in lines)])
