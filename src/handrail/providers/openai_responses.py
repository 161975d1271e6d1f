"""OpenAI Responses: convert tools, messages, responses and streams."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from handrail import Call, Exposure, File, Image, Result, Spec, Text, Tool, Toolset
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
    parse_object,
    parts_with_fields,
    text_of,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    objects_at,
    sendable,
    text_at,
)
from handrail.providers._offer import Finds, ToolSearch, make_offer
from handrail.providers._schema.compile import Fitted, compile_arguments, compile_result
from handrail.providers._schema.dialects import OPENAI
from handrail.providers._schema.references import UnsupportedSchema
from handrail.providers._streams.openai_responses import API as _API
from handrail.providers._streams.openai_responses import Stream, decode, unanswered
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
_HOSTED = {"type": "tool_search"}
_SEARCH_TEXT = "[Result of the tool search {}:]"
"""How a message with a search's text begins. The search's own output has only tools."""
_STORED = frozenset(("id", "status"))
"""Item fields referring to the provider's store. Without the store they are rejected."""


def _write_tool(spec: Spec, fitted: Fitted) -> CompiledTool:
    searches = spec.exposure is Exposure.SEARCH
    return _write_search(spec) if searches else _write_function(spec, fitted)


def _write_function(spec: Spec, fitted: Fitted) -> CompiledTool:
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
    return CompiledTool(definition, (*losses, *deferral_losses(spec)))


def _write_search(spec: Spec) -> CompiledTool:
    """Write the finder: it has no name, and its schema is never enforced.

    The API rejects one without a description.
    """
    schema, losses = describe_examples(
        spec, compile_arguments(spec.input_schema, OPENAI, strict=False)
    )
    description = base_fields(spec).get("description", "Find tools.")
    fields = {"execution": "client", "description": description, "parameters": schema}
    if spec.strict == "on":
        losses.append("strict: the API does not enforce the schema of a search")
    return CompiledTool({"type": "tool_search", **fields}, tuple(losses))


_TOOLS = ToolFormat(OPENAI, _write_tool)
_PLAIN = ToolFormat(OPENAI, _write_function)


def _defer(definition: BodyPart) -> BodyPart:
    return {**definition, "defer_loading": True}


def compile(tool: Tool[..., Any] | Spec) -> CompiledTool | UnsupportedTool:  # noqa: A001  what it does
    """Convert a tool to this API's format, or return why it cannot be sent."""
    return compile_tool(tool, _TOOLS)


def encode_tools(
    tools: Toolset | Iterable[Spec], *, loaded: Iterable[str] = (), search: ToolSearch = "native"
) -> list[BodyPart]:
    """Return a request's ``tools``: direct tools by name, then the search for deferred ones.

    Tools the API does not support are skipped.

    Args:
        tools: The tools. Deferred ones are sent only if nothing finds them, or as ``search`` says.
        loaded: The names ``find_loaded_tools`` returns for the messages.
        search: How deferred tools get to the model. With ``"native"``, the API loads what your
            search found. With ``"hosted"``, the provider searches: it gets all deferred tools,
            including those your policy denies to this user. With ``"plain"``, found tools are sent
            like all others, for models and servers without other support. With ``"native"``, pass
            the tools to ``encode_messages``: found tools are in the messages.
    """
    offer = make_offer(tools, _PLAIN if search == "plain" else _TOOLS, search)
    named: Mapping[ToolSearch, Iterable[str]] = {"hosted": sorted(offer.deferred), "plain": loaded}
    direct, finder, found = offer.encode(named.get(search, ()))
    if search == "hosted":
        return [*direct, *([_HOSTED] if found else []), *map(_defer, found)]
    return [*direct, *finder, *found]


def encode_messages(
    messages: Sequence[Message], *, system: str = "", tools: Toolset | Iterable[Spec] = ()
) -> BodyPart:
    """Return a request's ``input``, and ``instructions`` if ``system`` is given.

    Pass the tools if some are deferred: a search's output then contains the definitions it found.
    """
    return finish_history(start_history(tools).add(messages), system)


def start_history(tools: Toolset | Iterable[Spec] = ()) -> HistoryWriter:
    """Return a writer for a history that grows."""
    finds, lost = Finds(make_offer(tools, _TOOLS)), Losses(API)
    callers: dict[str, Any] = {}

    def write(turn: PlacedMessage) -> list[BodyPart]:
        match turn.message:
            case Prompt(parts):
                content = _contents(parts, lost)
                message = {"type": "message", "role": "user", "content": content}
                return [message] if content else []
            case Reply() as reply:
                items = _write_reply(reply, turn, finds, lost)
                if asked := unanswered(items):
                    lost.add(f"no answer to {asked}")
                callers.update(_find_callers(items))
                return items
            case results:
                items = _write_results(results, turn, finds, lost)
                return [_for_caller(one, callers) for one in items]

    return HistoryWriter(lost, write, prepare=finds.note_searches)


def finish_history(writer: HistoryWriter, system: str) -> BodyPart:
    """Return the fields of a request with all messages so far."""
    items = [*writer.written]
    return {"instructions": sendable(system), "input": items} if system else {"input": items}


def encode_result(result: Result) -> BodyPart:
    """Convert one result to a ``function_call_output`` input item."""
    return _result(fit_id(result.call_id, 0, MAX_ID_CHARS), result, Losses(API))


def losses(messages: Sequence[Message], *, tools: Toolset | Iterable[Spec] = ()) -> tuple[str, ...]:
    """Return a message for everything this API cannot represent in a history."""
    return tuple(start_history(tools).add(messages).lost.notes)


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert an event stream: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


def _write_reply(reply: Reply, turn: PlacedMessage, finds: Finds, lost: Losses) -> list[BodyPart]:
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
                finds.hosted |= {*_found_names(item)}
                items += [item] if item else []
            case _:
                items.append(_write_call(part, fields, turn, (finds, lost)))
    while items and items[-1]["type"] == "reasoning":  # refused without the item after it
        items.pop()
        lost.add("incomplete reasoning is omitted")
    return items


def _found_names(item: BodyPart) -> list[str]:
    """Return the tool names in a search's output, including those in a namespace."""
    tools = list(objects_at(item, "tools")) if item.get("type") == "tool_search_output" else []
    tools += [inner for tool in tools for inner in objects_at(tool, "tools")]
    return [text_at(tool, "name") for tool in tools if tool.get("type") == "function"]


def _write_call(
    call: Call | TruncatedCall, fields: BodyPart, turn: PlacedMessage, to: tuple[Finds, Losses]
) -> BodyPart:
    (finds, lost), call_id = to, turn.ids[call.id]
    if finds.is_search(turn.at, call):
        item = {"type": "tool_search_call", "execution": "client", "call_id": call_id}
        return {**item, "arguments": lost.args(call), "status": "completed", **fields}
    item = {"type": "function_call", "call_id": call_id, "name": call_name(call)}
    item["arguments"] = lost.args_text(call)
    return {**item, **_in_namespace(call, fields, finds)}


def _in_namespace(call: Call | TruncatedCall, fields: BodyPart, finds: Finds) -> BodyPart:
    """Return a call's fields. The API puts each found tool in a namespace with its name.

    It rejects a call without its namespace, and a namespace whose tool no output defines.
    """
    own = {"namespace": call_name(call)}
    if call.name in finds.loaded:
        return {**own, **fields}
    if call_name(call) in finds.hosted:
        return fields
    return {name: value for name, value in fields.items() if (name, value) not in own.items()}


def _write_results(
    results: ToolResults, turn: PlacedMessage, finds: Finds, lost: Losses
) -> list[BodyPart]:
    """Write the results, then the text of searches finding no tool, or a tool again.

    Their outputs have no text, and the API rejects tools loaded twice.
    """
    outputs: list[BodyPart] = []
    texts: list[BodyPart] = []
    for call, call_id, result in turn.pair_results(results):
        if not finds.is_search(turn.at - 1, call):
            outputs.append(_result(call_id, result, lost))
            continue
        found = finds.take(result)
        output = {"type": "tool_search_output", "execution": "client", "call_id": call_id}
        outputs.append({**output, "status": "completed", "tools": [*map(_defer, found.new)]})
        if found.new and len(found.new) == len(found.all):
            lost.add_found(result)
        else:
            texts += _search_text(call_id, result, lost)
    return [*outputs, *texts]


def _find_callers(items: Iterable[BodyPart]) -> dict[str, Any]:
    """Return the programs that made calls, by call. A call that the provider ran has no such id."""
    return {one["call_id"]: one["caller"] for one in items if {"call_id", "caller"} <= one.keys()}


def _for_caller(item: BodyPart, callers: Mapping[str, Any]) -> BodyPart:
    """Return an output with the program that made the call: it gets the result, not the model."""
    caller = callers.get(item.get("call_id", ""))
    return item if caller is None else {**item, "caller": caller}


def _search_text(call_id: str, result: Result, lost: Losses) -> list[BodyPart]:
    parts = result.parts or (Text(result.text),)
    content = _contents((Text(lost.failure_prefix(result)), *parts), lost)
    label = {"type": "input_text", "text": _SEARCH_TEXT.format(call_id)}
    if not content:
        return []
    lost.add(f"the text of {result.call_id!r} is sent in a separate message")
    return [{"type": "message", "role": "user", "content": [label, *content]}]


def _message(text: str, fields: BodyPart) -> BodyPart:
    """Write model text. Annotations belong to its content, all other fields to the message."""
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
