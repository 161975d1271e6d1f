"""Calls from the command line: their arguments, their explanation, and rules to allow them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from handrail import Access, Ask, Call, Deny, Executor, Spec
from handrail.approvals import make_printable
from handrail.cli._base.app import App
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._project.kit import Kit
from handrail.permissions import Explanation, Origin, Pending

if TYPE_CHECKING:
    from handrail.approvals import Proposal

_MAX_INPUT_CHARS = 1 << 24
_FORMS = "use one JSON object, key=value pairs, or - to read JSON from stdin"


def call_of(spec: Spec, args: Sequence[str]) -> Call:
    """Return the call for a command line: JSON, key=value pairs, or JSON from stdin."""
    return Call(spec.name, _text(spec, args), id="call")


def _text(spec: Spec, args: Sequence[str]) -> str:
    if list(args) == ["-"]:
        text = sys.stdin.read(_MAX_INPUT_CHARS + 1)
        if len(text) > _MAX_INPUT_CHARS:
            message = f"stdin has more than {_MAX_INPUT_CHARS:,} characters"
            raise Halt(message, code="bad_args", hint="send less, or let the tool read a file")
        return text
    if len(args) == 1 and args[0].lstrip().startswith("{"):
        return args[0]
    pairs: dict[str, Any] = {}
    for arg in args:
        name, equals, value = arg.partition("=")
        if not equals or not name:
            raise Halt(f"{arg!r} is not an argument", code="bad_args", hint=_FORMS)
        if name in pairs:
            hint = f"keep one {name}=VALUE; for several values, pass one JSON object"
            raise Halt(f"{name!r} is given twice", code="bad_args", hint=hint)
        pairs[name] = _value(spec, name, value)
    return json.dumps(pairs)


def _value(spec: Spec, name: str, text: str) -> Any:
    """Return a string if the tool takes one; otherwise JSON, or a string if it is not JSON."""
    schema: Any = spec.input_schema.get("properties", {}).get(name)
    if schema and schema is not True and schema.get("type") == "string":
        return text
    return as_data(text)


def as_data(args: str | Mapping[str, Any]) -> Any:
    """Return arguments as JSON data, or as a string if they are not valid JSON.

    Numbers missing from JSON, such as NaN, become strings. Text with a key twice stays text.
    """
    text = args if isinstance(args, str) else json.dumps(dict(args), default=repr)
    try:
        return json.loads(text, parse_constant=str, parse_float=_finite, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return text


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key occurs twice")
    return made


def _finite(number: str) -> float | str:
    value = float(number)
    return value if isfinite(value) else number


def explain_call(kit: Kit, call: Call) -> Explanation:
    """Explain a call without running it."""
    kit.report_misnamed(kit.tools)
    return Executor(kit.tools, policy=kit.rules).explain(call)


def show_explanation(app: App, kit: Kit, explanation: Explanation) -> Exit:
    """Print an explanation, and return an exit code: a call with invalid arguments is an error."""
    rules = rules_that_allow(kit, explanation)
    app.print(
        explanation_document(explanation, rules), make_printable(str(explanation)).text.split("\n")
    )
    advice = describe_allowing_rule(rules) if rules else advise(kit, explanation)
    if advice and app.output == "text":
        app.say(make_printable(f"\n{advice}").text)
    return Exit.DONE if explanation.refusal is None else Exit.USAGE


def explanation_document(explanation: Explanation, rules: Sequence[Proposal]) -> dict[str, Any]:
    """Return an explanation as a JSON document."""
    refusal = explanation.refusal.failure if explanation.refusal is not None else None
    return {
        "call": {"name": explanation.call.name, "args": as_data(explanation.call.args)},
        "tool": explanation.tool or None,
        "refusal": refusal and {"kind": refusal.kind.value, "message": refusal.message},
        "repairs": list(explanation.repairs),
        "accesses": [
            {"verb": access.verb.name.lower(), "resource": access.resource}
            for access in explanation.accesses
        ],
        "matched": [
            {"verdict": match.verdict, **_origin(match.origin), "why": match.why}
            for match in explanation.matched
        ],
        "decision": _decision(explanation),
        "would_allow": proposal_documents(rules),
    }


def _decision(explanation: Explanation) -> dict[str, Any] | None:
    decision = explanation.decision
    if decision is None:
        return None
    text = ""
    if isinstance(decision, Ask):
        text = decision.question
    elif isinstance(decision, Deny):
        text = decision.reason
    return {"verdict": type(decision).__name__.lower(), "text": text, **_origin(decision.origin)}


def _origin(origin: Origin | None) -> dict[str, Any]:
    known = origin or Origin("")
    return {"rule": known.rule or None, "file": known.file or None, "line": known.line or None}


def rules_that_allow(kit: Kit, explanation: Explanation) -> tuple[Proposal, ...]:
    """Return rules allowing a call that needs approval, one for each file to put it in."""
    asks = explanation.decision
    if not isinstance(asks, Ask):
        return ()
    pending = Pending(
        run_id="",
        turn_id="",
        key=explanation.call.id,
        position=0,
        round=0,
        call=explanation.call,
        effect=kit.tool(explanation.tool).spec.effect,
        accesses=explanation.accesses,
        question=asks.question,
        fingerprint="",
        asked_at=0.0,
        expires_at=0.0,
        origin=asks.origin,
        once=asks.once,
    )
    return tuple(proposal for proposal in kit.memory.propose(pending) if proposal.scope != "run")


def proposal_documents(rules: Sequence[Proposal]) -> list[dict[str, str]]:
    """Return proposed rules as JSON documents."""
    return [
        {"scope": proposal.scope, "file": proposal.file, "rule": proposal.rule}
        for proposal in rules
    ]


def advise(kit: Kit, explanation: Explanation) -> str:
    """Return advice for a call no rule can allow, or ""."""
    asks = isinstance(explanation.decision, Ask)
    return advise_declaring(kit, explanation.tool, explanation.accesses) if asks else ""


def advise_declaring(kit: Kit, name: str, accesses: Sequence[Access]) -> str:
    """Return what to declare, for a tool's call with undeclared accesses, or ""."""
    called = kit.tools.find(name)
    if called is None or called.touches is not None or "mcp_tool" in called.spec.metadata:
        return ""
    verb = next((one.verb.name.lower() for one in accesses if one.resource == "*"), "")
    access = f'Access("{verb}", "{called.spec.name}:all")'
    return (
        f"declare what the tool touches, so that rules can allow it: `touches=lambda **_: {access}`"
        if verb
        else ""
    )


def describe_allowing_rule(rules: Sequence[Proposal]) -> str:
    """Return the narrowest rule as text, with its file."""
    first = rules[0]
    lines = first.rule.strip().split("\n")
    return "\n".join(
        [f"to allow it, add this rule to {first.file}:", *(f"    {line}" for line in lines)]
    )
