"""Decode Gemini generateContent responses."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from handrail import Image
from handrail.messages import Reply, Stop, Usage
from handrail.providers._formats.assemble import Assembler, Piece
from handrail.providers._formats.drafts import CallDraft
from handrail.providers._formats.partial_args import PartialArguments
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    count_at,
    more_fields,
    object_at,
    objects_at,
    read_bytes,
    text_at,
)

API: Final = "gemini"
UNSIGNED: Final = "skip_thought_signature_validator"
"""Placeholder the API accepts as a signature for calls made by another model."""

_STOPS: Mapping[str, Stop] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "MALFORMED_FUNCTION_CALL": "malformed",
    "MALFORMED_RESPONSE": "malformed",
    "UNEXPECTED_TOOL_CALL": "malformed",
    "TOO_MANY_TOOL_CALLS": "malformed",
}
_REFUSALS = re.compile("SAFETY|RECITATION|BLOCKLIST|PROHIBITED|SPII|LANGUAGE")
_HUMP = re.compile(r"_([a-z])")
_READ = frozenset(("text", "thought", "thoughtSignature", "functionCall"))
_ABOUT = ("citationMetadata", "groundingMetadata", "urlContextMetadata")
"""Fields about a response's text. A request cannot contain them."""


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert a complete response's first candidate."""
    stream = Stream(names=names)
    stream.feed(response)
    return stream.end()


class Stream:
    """Converts a stream one response at a time. Keys can be in camel case or snake case."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._open: CallDraft | None = None
        self._partial: dict[CallDraft, PartialArguments] = {}
        self._stop: Stop = "other"

    def feed(self, event: Data) -> Iterable[Piece]:
        """Process one response. Return new text to show, and newly complete calls."""
        event = camel_case(event)
        self._draft.note_response(
            {"id": event.get("responseId"), "model": event.get("modelVersion")}
        )
        if counts := object_at(event, "usageMetadata"):
            self._draft.note_usage(_usage(camel_case(counts)))
        feedback = camel_case(object_at(event, "promptFeedback"))
        if feedback.get("blockReason"):
            self._stop = "refused"
            self._draft.stop_detail = text_at(feedback, "blockReasonMessage")
        out: list[Piece] = []
        for candidate in map(camel_case, objects_at(event, "candidates")):
            if candidate.get("index") in (0, None):
                out += self._candidate(candidate)
        return out

    def end(self) -> Reply:
        """Return the reply after the last response."""
        self._cut_off()
        return self._draft.reply(self._stop)

    def _candidate(self, candidate: Data) -> list[Piece]:
        out: list[Piece] = []
        for part in objects_at(object_at(candidate, "content"), "parts"):
            out += self._part(camel_case(part))
        about = {key: candidate[key] for key in _ABOUT if key in candidate}
        self._draft.fields |= more_fields(about, ())
        if reason := candidate.get("finishReason"):
            self._stop = _stop(str(getattr(reason, "value", reason)))
            self._draft.stop_detail = text_at(candidate, "finishMessage")
            self._cut_off()
            out += self._draft.finish(self._stop)
        return out

    def _cut_off(self) -> None:
        """Write the arguments of incomplete calls. Unclosed JSON is never run."""
        for draft, partial in self._partial.items():
            draft.args.replace(partial.text[:-1])
        self._partial = {}

    def _part(self, part: Data) -> list[Piece]:
        signature, fields = _signature(part), more_fields(part, _READ)
        image = None if part.get("thought") else _image(part, fields)
        call = object_at(part, "functionCall")
        is_call = part.get("functionCall") is not None
        if fields and not (is_call or image or isinstance(part.get("text"), str)):
            self._draft.begin_opaque({key: item for key, item in part.items() if item is not None})
            return []
        if part.get("thought"):
            return self._thought(text_at(part, "text"), signature)
        if signature:
            self._draft.begin_text(thought=True, signature=signature)
        if is_call:
            return self._call(camel_case(call), fields)
        if image:
            self._draft.add_image(image)
        return self._text(text_at(part, "text"), {} if image else fields)

    def _thought(self, text: str, signature: str) -> list[Piece]:
        if not signature:
            return self._draft.continue_text(text, thought=True)
        return self._draft.add_text(self._draft.begin_text(thought=True, signature=signature), text)

    def _text(self, text: str, fields: dict[str, Any]) -> list[Piece]:
        if not fields:
            return self._draft.continue_text(text)
        draft = self._draft.begin_text(thought=False)
        draft.fields = fields
        return self._draft.add_text(draft, text)

    def _call(self, event: Data, fields: dict[str, Any]) -> list[Piece]:
        name, more = text_at(event, "name"), bool(event.get("willContinue"))
        draft, out = self._open, list[Piece]()
        begins = draft is None or (bool(name) and not self._continues(draft, event))
        if draft is None or begins:
            if not (name or event.get("args") or more):
                return []  # the same call ends again
            draft = self._open = self._draft.begin(name, text_at(event, "id"))
            self._partial[draft] = PartialArguments()
        draft.fields |= fields
        self._draft.claim(draft, text_at(event, "id"))
        partial = self._partial[draft]
        shown = partial.add(
            object_at(event, "args"), map(camel_case, objects_at(event, "partialArgs"))
        )
        if more or not begins:  # a whole call is not shown piece by piece
            out = self._draft.add_args(draft, shown if more else shown + partial.end())
        if more:
            return out
        draft.args.replace(partial.text)
        self._open = None
        del self._partial[draft]
        return [*out, *self._draft.settle(draft)]

    @staticmethod
    def _continues(draft: CallDraft, event: Data) -> bool:
        same = text_at(event, "id") in (draft.id, "")
        return same and event["name"] == draft.name and bool(event.get("partialArgs"))


def camel_case(value: Data) -> dict[str, Any]:
    """Return an object with camel case keys: ``functionCall``, not ``function_call``."""
    return {_camel_key(key) if "_" in key else key: item for key, item in value.items()}


def _camel_key(key: str) -> str:
    return _HUMP.sub(lambda letter: letter[1].upper(), key)


def _image(part: Data, fields: dict[str, Any]) -> Image | None:
    """Return a part's image if it contains only that, or None."""
    blob = camel_case(object_at(part, "inlineData"))
    kind, data = text_at(blob, "mimeType"), read_bytes(blob.get("data"))
    alone = fields.keys() == {"inlineData"} and not more_fields(blob, ("data", "mimeType"))
    return Image(data, kind) if alone and data and kind.startswith("image/") else None


def _signature(part: Data) -> str:
    signature = part.get("thoughtSignature")
    return (
        b64encode(signature).decode()
        if isinstance(signature, bytes)
        else text_at(part, "thoughtSignature")
    )


def _stop(reason: str) -> Stop:
    return "refused" if _REFUSALS.search(reason) else _STOPS.get(reason, "other")


def _usage(counts: Data) -> Usage:
    return Usage(
        input_tokens=count_at(counts, "promptTokenCount")
        + count_at(counts, "toolUsePromptTokenCount"),
        output_tokens=count_at(counts, "candidatesTokenCount")
        + count_at(counts, "thoughtsTokenCount"),
        cached_tokens=count_at(counts, "cachedContentTokenCount"),
        reasoning_tokens=count_at(counts, "thoughtsTokenCount"),
    )
