"""OpenAI Responses: convert tools, messages, responses and streams."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any, Final

from handrail import Exposure, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import Message, Opaque, Prompt, Reasoning, Reply, StreamItem
from handrail.providers._formats.assemble import stream_items
from handrail.providers._formats.history import (
    IMAGE_TYPES,
    PDF_TYPES,
    BodyPart,
    Losses,
    PlacedMessage,
    call_name,
    data_url,
    find_losses,
    is_viewable,
    parse_object,
    parts_with_fields,
    place_messages,
    text_of,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.tolerant import NO_NAMES, Data, Names, sendable
from handrail.providers._readers.openai_responses import decode_messages
from handrail.providers._schema.compile import Fitted, compile_result
from handrail.providers._schema.dialects import OPENAI
from handrail.providers._schema.references import UnsupportedSchema
from handrail.providers._streams.openai_responses import API as _API
from handrail.providers._streams.openai_responses import Stream, decode
from handrail.providers._tools import (
    CompiledTool,
    ToolFormat,
    UnsupportedTool,
    base_fields,
    compile_tool,
    describe_examples,
    encode_request,
)

__all__ = [
    "CompiledTool",
    "Stream",
    "UnsupportedTool",
    "compile",
    "decode",
    "decode_messages",
    "decode_stream",
    "encode_messages",
    "encode_result",
    "encode_tools",
    "losses",
]

API: Final = _API
_OFFICE = frozenset(
    f"application/{kind}"
    for kind in (
        "msword",
        "rtf",
        "vnd.ms-excel",
        "vnd.ms-powerpoint",
        "vnd.oasis.opendocument.text",
        "vnd.openxmlformats-officedocument.presentationml.presentation",
        "vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "vnd.openxmlformats-officedocument.wordprocessingml.document",
    )
)
_STORED = frozenset(("id", "status"))
"""Fields of an item that refer to the provider's store. Without the store they are refused."""


def _write_tool(spec: Spec, fitted: Fitted) -> CompiledTool:
    schema, losses = describe_examples(spec, fitted)
    fields = base_fields(spec)
    definition = {"type": "function", **fields, "parameters": schema, "strict": fitted.strict}
    if spec.output_schema is not None and spec.output_schema.get("type") in ("object", "array"):
        try:
            output = compile_result(spec.output_schema)
            definition["output_schema"] = output.schema
            losses += (f"output_schema: {loss}" for loss in output.losses)
        except UnsupportedSchema as error:
            losses.append(f"output_schema: omitted: {error}")
    if spec.exposure is Exposure.DEFERRED:
        definition["defer_loading"] = True
    return CompiledTool(definition, tuple(losses))


_TOOLS = ToolFormat(OPENAI, _write_tool)


def compile(tool: Tool[..., Any] | Spec) -> CompiledTool | UnsupportedTool:  # noqa: A001  what it does
    """Convert a tool to this API's format, or return why it cannot be sent."""
    return compile_tool(tool, _TOOLS)


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[BodyPart]:
    """Return the ``tools`` of a request, sorted by name. Tools that cannot be sent are skipped."""
    return encode_request(tools, _TOOLS)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> BodyPart:
    """Return the ``input`` of a request, and ``instructions`` if ``system`` is given."""
    written = _write_messages(messages, Losses(API))
    return {"instructions": sendable(system), "input": written} if system else {"input": written}


def encode_result(result: Result) -> BodyPart:
    """Convert one result to a ``function_call_output`` item of the input."""
    return _result(fit_id(result.call_id, 0, MAX_ID_CHARS), result, Losses(API))


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return a message for everything in a history that this API cannot represent."""
    return find_losses(_write_messages, messages, API)


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert a stream of events: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


def _write_messages(messages: Sequence[Message], lost: Losses) -> list[BodyPart]:
    written: list[BodyPart] = []
    for turn in place_messages(messages):
        lost.at = turn.at
        match turn.message:
            case Prompt(parts):
                content = _contents(parts, lost)
                message = {"type": "message", "role": "user", "content": content}
                written += [message] if content else []
            case Reply() as reply:
                written += _write_reply(reply, turn, lost)
            case results:
                written += [
                    _result(id_, result, lost) for _, id_, result in turn.pair_results(results)
                ]
    return written


def _write_reply(reply: Reply, turn: PlacedMessage, lost: Losses) -> list[BodyPart]:
    items: list[BodyPart] = []
    for part, fields in parts_with_fields(reply, lost):
        match part:
            case None:
                lost.fields(fields)
            case Text():
                items += [_message(lost.text(part.text), fields)] if part.text else []
            case Image():
                items.append(_message(lost.placeholder(part), {}))
            case Reasoning():
                items += _write_thought(part, lost)
            case Opaque():
                item = lost.data(part)
                items += [item] if item else []
            case _:
                call = {"type": "function_call", "call_id": turn.ids[part.id]}
                call |= {"name": call_name(part), "arguments": lost.args_text(part)}
                items.append({**call, **fields})
    while items and items[-1]["type"] == "reasoning":  # refused without the item after it
        items.pop()
        lost.add("incomplete reasoning is omitted")
    return items


def _message(text: str, fields: BodyPart) -> BodyPart:
    """Write text of a model. Annotations belong to its content, all other fields to the message."""
    message: BodyPart = {"type": "message", "role": "assistant", "content": text}
    others = {name: value for name, value in fields.items() if name != "annotations"}
    if "annotations" in fields:
        content = {"type": "output_text", "text": text, "annotations": fields["annotations"]}
        message["content"] = [content]
    return {**message, **others}


def _write_thought(thought: Reasoning, lost: Losses) -> list[BodyPart]:
    """Write a reasoning item: encrypted without its id, or as text if a server sent it as text."""
    if lost.is_foreign(thought):
        return []
    item = parse_object(thought.signature)
    if item.get("encrypted_content"):
        sent = {name: value for name, value in item.items() if name not in _STORED}
        return [sent if "summary" in sent else {**sent, "summary": []}]
    if item.get("content"):
        return [item]
    lost.add(
        "reasoning without encrypted content is omitted"
        if item
        else "incomplete reasoning is omitted"
    )
    return []


def _result(call_id: str, result: Result, lost: Losses) -> BodyPart:
    prefix = lost.failure_prefix(result)
    output: str | list[BodyPart] = prefix + lost.text(result.text)
    if any(not isinstance(part, Text) for part in result.parts):
        output = _contents((Text(prefix), *result.parts), lost)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _contents(parts: Iterable[Text | Image | File], lost: Losses) -> list[BodyPart]:
    return [block for part in parts for block in _content(part, lost)]


def _content(part: Text | Image | File, lost: Losses) -> list[BodyPart]:
    if isinstance(part, Text):
        return [{"type": "input_text", "text": lost.text(part.text)}] if part.text else []
    if is_viewable(part, IMAGE_TYPES):
        if isinstance(part, File):
            lost.add(f"the name of the image {part.name!r} is omitted")
        return [{"type": "input_image", "image_url": data_url(part), "detail": "auto"}]
    readable = is_viewable(part, PDF_TYPES | _OFFICE)
    if isinstance(part, File) and (readable or text_of(part) is not None):
        name = lost.text(part.name)
        return [{"type": "input_file", "filename": name, "file_data": data_url(part)}]
    return [{"type": "input_text", "text": lost.placeholder(part)}]
