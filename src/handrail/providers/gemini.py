"""Gemini's generateContent: tools, histories, replies and streams, as plain dicts."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from handrail import Call, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import (
    Cut,
    Delta,
    Message,
    Piece,
    Prompt,
    Reply,
    Stop,
    Thought,
    Usage,
)
from handrail.providers._assemble import Assembler, Draft, pieces
from handrail.providers._compiled import Compiled, Quarantined, compiled, encoded
from handrail.providers._history import (
    PDF,
    Ledger,
    Request,
    Turn,
    base64,
    called,
    kind_of,
    lost_by,
    turns,
    viewable,
    words_of,
)
from handrail.providers._partial import Partial
from handrail.providers._read import (
    NO_NAMES,
    Names,
    Wire,
    count_at,
    object_at,
    objects_at,
    sayable,
    text_at,
)

__all__ = [
    "Compiled",
    "Quarantined",
    "Stream",
    "compile",
    "decode",
    "decode_stream",
    "encode_messages",
    "encode_tools",
    "losses",
]

WIRE: Final = "gemini"

UNSIGNED = "skip_thought_signature_validator"
"""What the provider takes in place of a signature, for calls that another model made."""

_PICTURES = frozenset(f"image/{kind}" for kind in "heic heif jpeg png webp".split())
_STOPS: Mapping[str, Stop] = {"STOP": "end", "MAX_TOKENS": "length", "CONTINUATION": "length"}
_REFUSALS = re.compile("SAFETY|RECITATION|BLOCKLIST|PROHIBITED|SPII|LANGUAGE")
_HUMP = re.compile(r"_([a-z])")


def compile(tool: Tool[..., Any] | Spec) -> Compiled | Quarantined:  # noqa: A001  what it does
    """One tool as this wire takes it, and what that loses; or why it cannot be sent."""
    return compiled(tool, WIRE)


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[Request]:
    """The ``functionDeclarations`` of a tool, in name order; what cannot be sent is left out."""
    return encoded(tools, WIRE)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> Request:
    """The ``contents`` of a request, and ``systemInstruction`` where there is one."""
    written = _written(messages, Ledger(WIRE))
    if not system:
        return {"contents": written}
    return {"systemInstruction": {"parts": [{"text": sayable(system)}]}, "contents": written}


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """What this wire cannot carry of a history, each in words."""
    return lost_by(_written, messages, WIRE)


def decode(response: Wire, *, names: Names = NO_NAMES) -> Reply:
    """A whole response, read: its first candidate."""
    stream = Stream(names=names)
    stream.feed(response)
    return stream.end()


def decode_stream(events: AsyncIterable[Wire], *, names: Names = NO_NAMES) -> AsyncIterator[Piece]:
    """Read a stream of responses: words as they come, each call once it is complete, the reply."""
    return pieces(Stream(names=names), events)


class Stream:
    """A stream of responses, read one at a time. Keys may be in either of the SDK's spellings."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._made = Assembler(WIRE, names)
        self._open: Draft | None = None
        self._partial = Partial()
        self._stop: Stop = "other"

    def feed(self, event: Wire) -> Iterable[Delta | Call]:
        """Take one response in; what there is to show, and calls that are now complete."""
        event = _humped(event)
        self._made.head({"id": event.get("responseId"), "model": event.get("modelVersion")})
        self._made.count(_usage(_humped(object_at(event, "usageMetadata"))))
        if _humped(object_at(event, "promptFeedback")).get("blockReason"):
            self._stop = "refused"
        out: list[Delta | Call] = []
        for candidate in map(_humped, objects_at(event, "candidates")):
            if candidate.get("index") in (0, None):
                for part in objects_at(object_at(candidate, "content"), "parts"):
                    out += self._part(_humped(part))
                if reason := candidate.get("finishReason"):
                    self._stop = _stop(str(getattr(reason, "value", reason)))
                    out += self._made.finish(self._stop)
        return out

    def end(self) -> Reply:
        """There are no more responses: the reply."""
        return self._made.reply(self._stop)

    def _part(self, part: Wire) -> list[Delta | Call]:
        text, signature = text_at(part, "text"), _signature(part)
        if part.get("thought"):
            if not signature:
                return self._made.say(text, thought=True)
            return self._made.told(self._made.said(thought=True, sealed=signature), text)
        if signature:
            self._made.said(thought=True, sealed=signature)
        if "functionCall" in part and part["functionCall"] is not None:
            return self._call(_humped(object_at(part, "functionCall")))
        return self._made.say(text)

    def _call(self, told: Wire) -> list[Delta | Call]:
        name, more = text_at(told, "name"), bool(told.get("willContinue"))
        if self._open is None or (name and not self._goes_on(self._open, told)):
            if not (name or told.get("args") or more):
                return []  # the end of a call that has ended
            self._open = self._made.begin(name, text_at(told, "id"))
            self._partial = Partial()
        draft = self._open
        self._made.claim(draft, text_at(told, "id"))
        self._partial.add(object_at(told, "args"), map(_humped, objects_at(told, "partialArgs")))
        draft.args = self._partial.text
        if more:
            draft.args = draft.args[:-1]  # open, as the arguments are: nobody may run them yet
            return []
        self._open = None
        return self._made.settle(draft)

    @staticmethod
    def _goes_on(draft: Draft, told: Wire) -> bool:
        same = text_at(told, "id") in (draft.id, "")
        return same and told["name"] == draft.name and bool(told.get("partialArgs"))


def _humped(value: Wire) -> Wire:
    """An object with its keys as they are on the wire: ``functionCall``, not ``function_call``."""
    return {_HUMP.sub(lambda found: found[1].upper(), key): one for key, one in value.items()}


def _signature(part: Wire) -> str:
    found = part.get("thoughtSignature")
    return (
        b64encode(found).decode() if isinstance(found, bytes) else text_at(part, "thoughtSignature")
    )


def _stop(reason: str) -> Stop:
    return "refused" if _REFUSALS.search(reason) else _STOPS.get(reason, "other")


def _usage(told: Wire) -> Usage:
    return Usage(
        sent=count_at(told, "promptTokenCount") + count_at(told, "toolUsePromptTokenCount"),
        received=count_at(told, "candidatesTokenCount") + count_at(told, "thoughtsTokenCount"),
        cached=count_at(told, "cachedContentTokenCount"),
    )


def _written(messages: Sequence[Message], ledger: Ledger) -> list[Request]:
    written: list[Request] = []
    for turn in turns(messages):
        ledger.at = turn.at
        role = "user"
        match turn.message:
            case Prompt(parts):
                content = _contents(parts, ledger)
            case Reply() as reply:
                role, content = "model", _said(reply, turn, ledger)
            case results:
                content = [_result(*answer, ledger) for answer in turn.answered(results)]
        if content:
            written.append({"role": role, "parts": content})
    return written


def _said(reply: Reply, turn: Turn, ledger: Ledger) -> list[Request]:
    """The parts of a reply; a seal without words goes with the part that it came with."""
    parts: list[Request] = []
    seal = ""
    for part in reply.parts:
        match part:
            case Text() if not part.text:
                continue
            case Text():
                made: Request = {"text": ledger.text(part.text)}
            case Thought():
                if ledger.foreign(part):
                    continue
                parts += _sealed({"text": ""}, seal) if seal else []
                seal, made = part.sealed, {"text": ledger.text(part.text), "thought": True}
                if not part.text:
                    continue
            case _:
                call = {"id": turn.ids[part.id], "name": called(part), "args": ledger.args(part)}
                made = {"functionCall": call}
        parts += _sealed(made, seal)
        seal = ""
    parts += _sealed({"text": ""}, seal) if seal else []
    return _signed(parts)


def _sealed(part: Request, seal: str) -> list[Request]:
    return [{**part, "thoughtSignature": seal} if seal else part]


def _signed(parts: list[Request]) -> list[Request]:
    """Calls of another model have no signature; without any, newer models refuse them."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in part for part in calls):
        calls[0]["thoughtSignature"] = UNSIGNED
    return parts


def _result(call: Call | Cut, call_id: str, result: Result, ledger: Ledger) -> Request:
    key = "error" if result.failure else "output"
    text, media = ledger.text(result.text), [p for p in result.parts if not isinstance(p, Text)]
    response: Request = {"id": call_id, "name": called(call), "response": {key: text}}
    shown = [one for part in media for one in _contents((part,), ledger)]
    if blobs := [one for one in shown if "inlineData" in one]:
        response["parts"] = blobs
    if words := [one["text"] for one in shown if "text" in one]:
        response["response"] = {key: "\n".join([text, *words] if text else words)}
    words_first = [isinstance(part, Text) for part in result.parts if part != Text("")]
    if words_first != sorted(words_first, reverse=True):
        ledger.lose(f"what {result.call_id!r} shows stands after its words")
    return {"functionResponse": response}


def _contents(parts: Iterable[Text | Image | File], ledger: Ledger) -> list[Request]:
    return [one for part in parts for one in _content(part, ledger)]


def _content(part: Text | Image | File, ledger: Ledger) -> list[Request]:
    if isinstance(part, Text):
        return [{"text": ledger.text(part.text)}] if part.text else []
    words = words_of(part) if isinstance(part, File) else None
    if not viewable(part, _PICTURES | PDF) and words is None:
        return [{"text": ledger.left_out(part)}]
    kind = kind_of(part) if words is None else "text/plain"
    blob = {"inlineData": {"mimeType": kind, "data": base64(part)}}
    if isinstance(part, Image):
        return [blob]
    ledger.lose(f"the name and type of the file {part.name!r} are said in words")
    return [{"text": f"[The file {ledger.text(part.name)!r} ({kind_of(part)}):]"}, blob]
