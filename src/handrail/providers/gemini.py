"""Gemini generateContent: convert tools, messages, responses and streams."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from handrail import File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import (
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    ReplyPart,
    StreamItem,
    api_name,
)
from handrail.providers._formats.assemble import stream_items
from handrail.providers._formats.history import (
    PDF_TYPES,
    BodyPart,
    HistoryWriter,
    Losses,
    PlacedMessage,
    base64,
    call_name,
    is_viewable,
    media_type_of,
    parts_with_fields,
    text_of,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.tolerant import NO_NAMES, Data, Names, sendable
from handrail.providers._offer import make_offer
from handrail.providers._schema.compile import Fitted
from handrail.providers._schema.dialects import GOOGLE
from handrail.providers._streams.gemini import API, UNSIGNED, Stream, decode
from handrail.providers._tools import (
    CompiledTool,
    ToolFormat,
    UnsupportedTool,
    base_fields,
    compile_tool,
    deferral_losses,
    describe_examples,
)

__all__ = [
    "Stream",
    "compile",
    "decode",
    "decode_stream",
    "encode_messages",
    "encode_result",
    "encode_tools",
    "losses",
]

_IMAGE_TYPES = frozenset(f"image/{kind}" for kind in "heic heif jpeg png webp".split())
_RESULT_TYPES = _IMAGE_TYPES | PDF_TYPES
"""What a result can contain. A prompt can also contain audio."""
_AUDIO_TYPES = frozenset(f"audio/{kind}" for kind in "aac aiff flac mp3 mpeg ogg wav x-wav".split())


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


def encode_tools(tools: Toolset | Iterable[Spec], *, loaded: Iterable[str] = ()) -> list[BodyPart]:
    """Return the ``functionDeclarations``: direct tools by name, then found ones.

    Tools the API does not support are skipped.

    Args:
        tools: The tools. Deferred ones are sent only if they are loaded, or if nothing finds them.
        loaded: The names ``find_loaded_tools`` returns for the messages, in this order.
    """
    direct, finder, found = make_offer(tools, _TOOLS).encode(loaded)
    return [*direct, *finder, *found]


def encode_messages(
    messages: Sequence[Message],
    *,
    system: str = "",
    tools: Toolset | Iterable[Spec] = (),  # noqa: ARG001  as in all formats
) -> BodyPart:
    """Return a request's ``contents``, and ``systemInstruction`` if ``system`` is given.

    The tools change nothing here: some other APIs need them to write search results.
    """
    return finish_history(start_history().add(messages), system)


def start_history(tools: Toolset | Iterable[Spec] = ()) -> HistoryWriter:  # noqa: ARG001  as above
    """Return a writer for a history that grows."""
    lost = Losses(API)

    def write(turn: PlacedMessage) -> list[BodyPart]:
        role = "user"
        match turn.message:
            case Prompt(parts):
                content = _contents(parts, lost, _RESULT_TYPES | _AUDIO_TYPES)
            case Reply() as reply:
                role, content = "model", _write_reply(reply, turn, lost)
            case results:
                content = [
                    _result(call_name(call), call_id, result, lost)
                    for call, call_id, result in turn.pair_results(results)
                ]
        return [{"role": role, "parts": content}] if content else []

    return HistoryWriter(lost, write)


def finish_history(writer: HistoryWriter, system: str) -> BodyPart:
    """Return the fields of a request with all messages so far."""
    contents = [*writer.written]
    if not system:
        return {"contents": contents}
    return {"systemInstruction": {"parts": [{"text": sendable(system)}]}, "contents": contents}


def encode_result(result: Result, *, name: str) -> BodyPart:
    """Convert one result to a ``functionResponse`` part. The API requires the tool's name."""
    call_id = fit_id(result.call_id, 0, MAX_ID_CHARS)
    return _result(api_name(sendable(name)), call_id, result, Losses(API))


def losses(
    messages: Sequence[Message],
    *,
    tools: Toolset | Iterable[Spec] = (),  # noqa: ARG001  as in all formats
) -> tuple[str, ...]:
    """Return a message for everything this API cannot represent in a history."""
    return tuple(start_history().add(messages).lost.notes)


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert a response stream: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


def _write_reply(reply: Reply, turn: PlacedMessage, lost: Losses) -> list[BodyPart]:
    """Write a reply's parts. A signature without text is sent with the part after it."""
    parts: list[BodyPart] = []
    signature = ""
    for part, fields in parts_with_fields(reply, lost):
        if isinstance(part, Reasoning) and not lost.is_foreign(part):
            parts += _with_signature({"text": ""}, signature) if signature else []
            signature = part.signature
            if not part.text:
                continue
            written: BodyPart = {"text": lost.text(part.text), "thought": True}
        else:
            written = _write_part(part, fields, turn, lost)
        if isinstance(part, Opaque) and signature:  # an opaque part contains its signature
            parts += _with_signature({"text": ""}, signature)
            signature = ""
        if written:
            parts += _with_signature(written, signature)
            signature = ""
    parts += _with_signature({"text": ""}, signature) if signature else []
    return _sign_calls(parts)


def _write_part(
    part: ReplyPart | None, fields: BodyPart, turn: PlacedMessage, lost: Losses
) -> BodyPart:
    """Write one reply part, or nothing if the API does not support it."""
    match part:
        case None:
            return lost.fields(fields)
        case Text():
            return {"text": lost.text(part.text), **fields} if part.text else {}
        case Image():
            return _content(part, lost)[0]
        case Opaque():
            return lost.data(part)
        case Reasoning():
            return {}
        case _:
            call = {"id": turn.ids[part.id], "name": call_name(part), "args": lost.args(part)}
            return {"functionCall": call, **fields}


def _with_signature(part: BodyPart, signature: str) -> list[BodyPart]:
    return [{**part, "thoughtSignature": signature} if signature else part]


def _sign_calls(parts: list[BodyPart]) -> list[BodyPart]:
    """Sign another model's calls. Newer models reject calls without a signature."""
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


def _contents(
    parts: Iterable[Text | Image | File], lost: Losses, media: AbstractSet[str] = _RESULT_TYPES
) -> list[BodyPart]:
    return [block for part in parts for block in _content(part, lost, media)]


def _content(
    part: Text | Image | File, lost: Losses, media: AbstractSet[str] = _RESULT_TYPES
) -> list[BodyPart]:
    if isinstance(part, Text):
        return [{"text": lost.text(part.text)}] if part.text else []
    text = text_of(part) if isinstance(part, File) else None
    if not is_viewable(part, media) and text is None:
        return [{"text": lost.placeholder(part)}]
    kind = media_type_of(part) if text is None else "text/plain"
    blob = {"inlineData": {"mimeType": kind, "data": base64(part)}}
    if isinstance(part, Image):
        return [blob]
    lost.add(f"the name and type of the file {part.name!r} are sent as text")
    return [{"text": f"[File {lost.text(part.name)!r} ({media_type_of(part)}):]"}, blob]
