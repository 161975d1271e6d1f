"""Gemini generateContent: convert tools, messages, responses and streams."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from handrail import Call, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import (
    Delta,
    Message,
    Prompt,
    Reasoning,
    Reply,
    Stop,
    StreamItem,
    Usage,
    api_name,
)
from handrail.providers._formats.assemble import Assembler, CallDraft, stream_items
from handrail.providers._formats.history import (
    PDF_TYPES,
    BodyPart,
    Losses,
    PlacedMessage,
    base64,
    call_name,
    find_losses,
    is_viewable,
    media_type_of,
    place_messages,
    text_of,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.partial_args import PartialArguments
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    count_at,
    object_at,
    objects_at,
    sendable,
    text_at,
)
from handrail.providers._schema.compile import Fitted
from handrail.providers._schema.dialects import GOOGLE
from handrail.providers._tools import (
    CompiledTool,
    ToolFormat,
    UnsupportedTool,
    base_fields,
    compile_tool,
    deferral_losses,
    describe_examples,
    encode_request,
)

__all__ = [
    "CompiledTool",
    "Stream",
    "UnsupportedTool",
    "compile",
    "decode",
    "decode_stream",
    "encode_messages",
    "encode_result",
    "encode_tools",
    "losses",
]

API: Final = "gemini"

UNSIGNED = "skip_thought_signature_validator"
"""The placeholder that the API accepts as the signature of calls made by another model."""

_IMAGE_TYPES = frozenset(f"image/{kind}" for kind in "heic heif jpeg png webp".split())
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


def _write_tool(spec: Spec, fitted: Fitted) -> CompiledTool:
    schema, losses = describe_examples(spec, fitted)
    if spec.strict == "on":
        losses.append("strict: the API does not enforce tool schemas")
    definition = {**base_fields(spec), "parametersJsonSchema": schema}
    return CompiledTool(definition, (*losses, *deferral_losses(spec)))


_TOOLS = ToolFormat(GOOGLE, _write_tool)


def compile(tool: Tool[..., Any] | Spec) -> CompiledTool | UnsupportedTool:  # noqa: A001  what it does
    """Convert a tool to this API's format, or return why it cannot be sent."""
    return compile_tool(tool, _TOOLS)


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[BodyPart]:
    """Return ``functionDeclarations``, sorted by name. Tools that cannot be sent are skipped."""
    return encode_request(tools, _TOOLS)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> BodyPart:
    """Return the ``contents`` of a request, and ``systemInstruction`` if ``system`` is given."""
    written = _write_messages(messages, Losses(API))
    if not system:
        return {"contents": written}
    return {"systemInstruction": {"parts": [{"text": sendable(system)}]}, "contents": written}


def encode_result(result: Result, *, name: str) -> BodyPart:
    """Convert one result to a ``functionResponse`` part. The API requires the tool's name."""
    call_id = fit_id(result.call_id, 0, MAX_ID_CHARS)
    return _result(api_name(sendable(name)), call_id, result, Losses(API))


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return a message for everything in a history that this API cannot represent."""
    return find_losses(_write_messages, messages, API)


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert the first candidate of a complete response."""
    stream = Stream(names=names)
    stream.feed(response)
    return stream.end()


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert a stream of responses: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


class Stream:
    """Converts a stream one response at a time. Keys can be in camel case or snake case."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._open: CallDraft | None = None
        self._partial = PartialArguments()
        self._stop: Stop = "other"

    def feed(self, event: Data) -> Iterable[Delta | Call]:
        """Process one response. Return new text to show, and calls that are now complete."""
        event = _camel_case(event)
        self._draft.note_response(
            {"id": event.get("responseId"), "model": event.get("modelVersion")}
        )
        self._draft.note_usage(_usage(_camel_case(object_at(event, "usageMetadata"))))
        feedback = _camel_case(object_at(event, "promptFeedback"))
        if feedback.get("blockReason"):
            self._stop = "refused"
            self._draft.stop_detail = text_at(feedback, "blockReasonMessage")
        out: list[Delta | Call] = []
        for candidate in map(_camel_case, objects_at(event, "candidates")):
            if candidate.get("index") in (0, None):
                for part in objects_at(object_at(candidate, "content"), "parts"):
                    out += self._part(_camel_case(part))
                if reason := candidate.get("finishReason"):
                    self._stop = _stop(str(getattr(reason, "value", reason)))
                    self._draft.stop_detail = text_at(candidate, "finishMessage")
                    out += self._draft.finish(self._stop)
        return out

    def end(self) -> Reply:
        """Return the reply after the last response."""
        return self._draft.reply(self._stop)

    def _part(self, part: Data) -> list[Delta | Call]:
        text, signature = text_at(part, "text"), _signature(part)
        if part.get("thought"):
            if not signature:
                return self._draft.continue_text(text, thought=True)
            return self._draft.add_text(
                self._draft.begin_text(thought=True, signature=signature), text
            )
        if signature:
            self._draft.begin_text(thought=True, signature=signature)
        if "functionCall" in part and part["functionCall"] is not None:
            return self._call(_camel_case(object_at(part, "functionCall")))
        return self._draft.continue_text(text)

    def _call(self, event: Data) -> list[Delta | Call]:
        name, more = text_at(event, "name"), bool(event.get("willContinue"))
        if self._open is None or (name and not self._continues(self._open, event)):
            if not (name or event.get("args") or more):
                return []  # a second end of the same call
            self._open = self._draft.begin(name, text_at(event, "id"))
            self._partial = PartialArguments()
        draft = self._open
        self._draft.claim(draft, text_at(event, "id"))
        self._partial.add(
            object_at(event, "args"), map(_camel_case, objects_at(event, "partialArgs"))
        )
        draft.args = self._partial.text
        if more:
            draft.args = draft.args[:-1]  # unclosed JSON, so that the call cannot run yet
            return []
        self._open = None
        return self._draft.settle(draft)

    @staticmethod
    def _continues(draft: CallDraft, event: Data) -> bool:
        same = text_at(event, "id") in (draft.id, "")
        return same and event["name"] == draft.name and bool(event.get("partialArgs"))


def _camel_case(value: Data) -> Data:
    """Return an object with camel case keys: ``functionCall``, not ``function_call``."""
    return {_HUMP.sub(lambda letter: letter[1].upper(), key): item for key, item in value.items()}


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


def _write_messages(messages: Sequence[Message], lost: Losses) -> list[BodyPart]:
    written: list[BodyPart] = []
    for turn in place_messages(messages):
        lost.at = turn.at
        role = "user"
        match turn.message:
            case Prompt(parts):
                content = _contents(parts, lost)
            case Reply() as reply:
                role, content = "model", _write_reply(reply, turn, lost)
            case results:
                content = [
                    _result(call_name(call), call_id, result, lost)
                    for call, call_id, result in turn.pair_results(results)
                ]
        if content:
            written.append({"role": role, "parts": content})
    return written


def _write_reply(reply: Reply, turn: PlacedMessage, lost: Losses) -> list[BodyPart]:
    """Write the parts of a reply. A signature without text is sent with the part after it."""
    parts: list[BodyPart] = []
    signature = ""
    for part in reply.parts:
        match part:
            case Text() if not part.text:
                continue
            case Text():
                written: BodyPart = {"text": lost.text(part.text)}
            case Reasoning():
                if lost.is_foreign(part):
                    continue
                parts += _with_signature({"text": ""}, signature) if signature else []
                signature = part.signature
                written = {"text": lost.text(part.text), "thought": True}
                if not part.text:
                    continue
            case _:
                call = {"id": turn.ids[part.id], "name": call_name(part), "args": lost.args(part)}
                written = {"functionCall": call}
        parts += _with_signature(written, signature)
        signature = ""
    parts += _with_signature({"text": ""}, signature) if signature else []
    return _sign_calls(parts)


def _with_signature(part: BodyPart, signature: str) -> list[BodyPart]:
    return [{**part, "thoughtSignature": signature} if signature else part]


def _sign_calls(parts: list[BodyPart]) -> list[BodyPart]:
    """Sign the calls of another model. Newer models reject calls without a signature."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in part for part in calls):
        calls[0]["thoughtSignature"] = UNSIGNED
    return parts


def _result(name: str, call_id: str, result: Result, lost: Losses) -> BodyPart:
    key = "error" if result.failure else "output"
    text, media = lost.text(result.text), [p for p in result.parts if not isinstance(p, Text)]
    response: BodyPart = {"id": call_id, "name": name, "response": {key: text}}
    blocks = [block for part in media for block in _contents((part,), lost)]
    if blobs := [block for block in blocks if "inlineData" in block]:
        response["parts"] = blobs
    if texts := [block["text"] for block in blocks if "text" in block]:
        response["response"] = {key: "\n".join([text, *texts] if text else texts)}
    is_text = [isinstance(part, Text) for part in result.parts if part != Text("")]
    if is_text != sorted(is_text, reverse=True):
        lost.add(f"images and files of {result.call_id!r} are moved after its text")
    return {"functionResponse": response}


def _contents(parts: Iterable[Text | Image | File], lost: Losses) -> list[BodyPart]:
    return [block for part in parts for block in _content(part, lost)]


def _content(part: Text | Image | File, lost: Losses) -> list[BodyPart]:
    if isinstance(part, Text):
        return [{"text": lost.text(part.text)}] if part.text else []
    text = text_of(part) if isinstance(part, File) else None
    if not is_viewable(part, _IMAGE_TYPES | PDF_TYPES) and text is None:
        return [{"text": lost.placeholder(part)}]
    kind = media_type_of(part) if text is None else "text/plain"
    blob = {"inlineData": {"mimeType": kind, "data": base64(part)}}
    if isinstance(part, Image):
        return [blob]
    lost.add(f"the name and type of the file {part.name!r} are sent as text")
    return [{"text": f"[File {lost.text(part.name)!r} ({media_type_of(part)}):]"}, blob]
