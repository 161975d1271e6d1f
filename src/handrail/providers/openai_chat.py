"""OpenAI Chat Completions and compatible servers: convert tools, messages, responses, streams."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from handrail import Call, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import (
    Message,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    StreamItem,
    ToolResults,
    TruncatedCall,
)
from handrail.providers._formats.assemble import stream_items
from handrail.providers._formats.history import (
    IMAGE_TYPES,
    PDF_TYPES,
    BodyPart,
    HistoryWriter,
    Losses,
    PlacedMessage,
    call_name,
    data_url,
    is_viewable,
    parts_with_fields,
    text_of,
)
from handrail.providers._formats.ids import fit_id
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    object_at,
    sendable,
    text_at,
)
from handrail.providers._offer import make_offer
from handrail.providers._schema.compile import Fitted
from handrail.providers._schema.dialects import OPENAI
from handrail.providers._streams.openai_chat import API as _API
from handrail.providers._streams.openai_chat import Stream, decode
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

API: Final = _API
_SHOWN_BELOW = "[Images and files follow in the next message.]"
"""Text for a result whose images and files are in the message after all results."""
MAX_CALL_ID_CHARS = 40
_MAX_DESCRIPTION_CHARS = 1024
"""The length accepted by every server for this API."""

_CALL_FIELDS = frozenset(("extra_content", "provider_specific_fields"))
"""Call fields servers want back: they include a Gemini signature."""
_MESSAGE_FIELDS = _CALL_FIELDS | {"audio", "reasoning_details", "thinking_blocks"}


def _write_tool(spec: Spec, fitted: Fitted) -> CompiledTool:
    schema, losses = describe_examples(spec, fitted)
    function = base_fields(spec)
    whole = function.get("description", "")
    if len(whole) > _MAX_DESCRIPTION_CHARS:
        cut = whole.rfind(" ", 0, _MAX_DESCRIPTION_CHARS) + 1 or _MAX_DESCRIPTION_CHARS
        function["description"] = whole[:cut].rstrip()
        rest = filter(None, (whole[cut:].strip(), schema.get("description")))
        schema = {**schema, "description": "\n\n".join(rest)}
    function["parameters"] = schema
    if fitted.strict:
        function["strict"] = True
    definition = {"type": "function", "function": function}
    return CompiledTool(definition, (*losses, *deferral_losses(spec)))


_TOOLS = ToolFormat(OPENAI, _write_tool)


def compile(tool: Tool[..., Any] | Spec) -> CompiledTool | UnsupportedTool:  # noqa: A001  what it does
    """Convert a tool to this API's format, or return why it cannot be sent."""
    return compile_tool(tool, _TOOLS)


def encode_tools(tools: Toolset | Iterable[Spec], *, loaded: Iterable[str] = ()) -> list[BodyPart]:
    """Return a request's ``tools``: direct tools by name, then found ones.

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
    """Return a request's ``messages``. A system prompt becomes the first message.

    The tools change nothing here: some other APIs need them to write search results.
    """
    return finish_history(start_history().add(messages), system)


def start_history(tools: Toolset | Iterable[Spec] = ()) -> HistoryWriter:  # noqa: ARG001  as above
    """Return a writer for a history that grows."""
    lost = Losses(API)

    def write(turn: PlacedMessage) -> list[BodyPart]:
        match turn.message:
            case Prompt(parts):
                content = _content_parts(parts, lost)
                return [{"role": "user", "content": _plain(content)}] if content else []
            case Reply() as reply:
                return _write_reply(reply, turn, lost)
            case results:
                return _results(results, turn, lost)

    return HistoryWriter(lost, write, longest_id=MAX_CALL_ID_CHARS)


def finish_history(writer: HistoryWriter, system: str) -> BodyPart:
    """Return the fields of a request with all messages so far."""
    first: list[BodyPart] = [{"role": "system", "content": sendable(system)}] if system else []
    return {"messages": first + writer.written}


def encode_result(result: Result) -> BodyPart:
    """Convert one result to a ``tool`` message. It holds only text, so images and PDFs are named.

    ``encode_messages`` also sends them, in a message after all results.
    """
    lost = Losses(API)
    lines = [lost.text(result.text)] if result.text else []
    for part in result.parts:
        if not isinstance(part, Text):
            [shown] = _content_part(part, lost)
            lines.append(shown.get("text") or lost.placeholder(part))
    return _result(fit_id(result.call_id, 0, MAX_CALL_ID_CHARS), result, "\n".join(lines), lost)


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
    """Convert a chunk stream: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


def _plain(content: list[BodyPart]) -> str | list[BodyPart]:
    """Return text-only content as a string: some servers accept nothing else."""
    alone = len(content) == 1 and content[0]["type"] == "text"
    return content[0]["text"] if alone else content


@dataclass(slots=True)
class _Written:
    """A reply's parts, in a message's fields for them."""

    thoughts: list[Reasoning] = field(default_factory=list[Reasoning])
    texts: list[str] = field(default_factory=list[str])
    calls: list[BodyPart] = field(default_factory=list[BodyPart])
    fields: BodyPart = field(default_factory=BodyPart)
    order: list[int] = field(default_factory=list[int])


def _write_reply(reply: Reply, turn: PlacedMessage, lost: Losses) -> list[BodyPart]:
    written = _sort_parts(reply, turn, lost)
    thoughts, texts = written.thoughts, written.texts
    if written.order != sorted(written.order):
        lost.add("parts are reordered: reasoning first, then text, then calls")
    if any(thought.signature for thought in thoughts):
        lost.add("the signature of reasoning is omitted")
    if not texts and not written.calls:
        if thoughts or written.fields:
            lost.add("incomplete reasoning is omitted")
        return []
    message: BodyPart = {"role": "assistant", "content": "".join(texts) if texts else None}
    if thoughts:
        message["reasoning_content"] = "".join(lost.text(part.text) for part in thoughts)
    if written.calls:
        message["tool_calls"] = written.calls
    return [{**message, **written.fields}]


def _sort_parts(reply: Reply, turn: PlacedMessage, lost: Losses) -> _Written:
    written = _Written()
    for part, fields in parts_with_fields(reply, lost):
        match part:
            case None:
                written.fields = _message_fields(lost.fields(fields, _MESSAGE_FIELDS))
            case Text() | Image():
                text = lost.text(part.text) if isinstance(part, Text) else lost.placeholder(part)
                written.texts += [text] if text else []
                written.order += [1] if text else []
            case Reasoning():
                own = [] if lost.is_foreign(part) else [part]
                written.thoughts += own
                written.order += [0 for _ in own]
            case Opaque():
                lost.add_unsent(part)
            case _:
                call = _call(part, turn.ids[part.id], lost)
                written.calls.append({**call, **lost.fields(fields, _CALL_FIELDS)})
                written.order.append(2)
    return written


def _message_fields(fields: BodyPart) -> BodyPart:
    """Return a reply's fields as sent back: audio only by its id."""
    if "audio" in fields:
        fields["audio"] = {"id": text_at(object_at(fields, "audio"), "id")}
    return fields


def _call(call: Call | TruncatedCall, call_id: str, lost: Losses) -> BodyPart:
    function = {"name": call_name(call), "arguments": lost.args_text(call)}
    return {"id": call_id, "type": "function", "function": function}


def _results(results: ToolResults, turn: PlacedMessage, lost: Losses) -> list[BodyPart]:
    """Write a message for each result, then one with all images and files.

    A ``tool`` message can hold only text.
    """
    written: list[BodyPart] = []
    shown: list[BodyPart] = []
    for _, call_id, result in turn.pair_results(results):
        media = [part for part in result.parts if not isinstance(part, Text)]
        text = lost.text(result.text)
        if media:
            lost.add(f"images and files of {result.call_id!r} are sent in a separate message")
            text += f"{_gap(text)}{_SHOWN_BELOW}"
            shown.append({"type": "text", "text": f"[Images and files of call {call_id}:]"})
            shown += _content_parts(media, lost)
        written.append(_result(call_id, result, text, lost))
    return [*written, {"role": "user", "content": shown}] if shown else written


def _result(call_id: str, result: Result, text: str, lost: Losses) -> BodyPart:
    return {"role": "tool", "tool_call_id": call_id, "content": lost.failure_prefix(result) + text}


def _gap(text: str) -> str:
    return "\n" if text else ""


def _content_parts(parts: Iterable[Text | Image | File], lost: Losses) -> list[BodyPart]:
    return [block for part in parts for block in _content_part(part, lost)]


def _content_part(part: Text | Image | File, lost: Losses) -> list[BodyPart]:
    if isinstance(part, Text):
        return [{"type": "text", "text": lost.text(part.text)}] if part.text else []
    if is_viewable(part, IMAGE_TYPES):
        if isinstance(part, File):
            lost.add(f"the name of the image {part.name!r} is omitted")
        return [{"type": "image_url", "image_url": {"url": data_url(part)}}]
    if isinstance(part, File):
        if is_viewable(part, PDF_TYPES):
            file = {"filename": lost.text(part.name), "file_data": data_url(part)}
            return [{"type": "file", "file": file}]
        if (text := text_of(part)) is not None:
            lost.add(f"the file {part.name!r} is sent as text")
            return [{"type": "text", "text": f"[File {lost.text(part.name)!r}:]\n{text}"}]
    return [{"type": "text", "text": lost.placeholder(part)}]
