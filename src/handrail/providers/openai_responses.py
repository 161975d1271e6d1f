"""OpenAI Responses: convert tools, messages, responses and streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from handrail import Call, Exposure, File, Image, Result, Spec, Text, Tool, Toolset
from handrail.messages import Delta, Message, Prompt, Reasoning, Reply, Stop, StreamItem, Usage
from handrail.providers._formats.assemble import Assembler, CallDraft, TextDraft, stream_items
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
    place_messages,
    text_of,
)
from handrail.providers._formats.ids import MAX_ID_CHARS, fit_id
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    args_at,
    count_at,
    dump,
    is_broken_off,
    object_at,
    objects_at,
    sendable,
    text_at,
)
from handrail.providers._schema.compile import Fitted, compile_result
from handrail.providers._schema.dialects import OPENAI
from handrail.providers._schema.references import UnsupportedSchema
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
    "decode_stream",
    "encode_messages",
    "encode_result",
    "encode_tools",
    "losses",
]

API: Final = "openai_responses"

_ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
_CUTS: Mapping[str, Stop] = {"max_output_tokens": "length", "content_filter": "refused"}
_TEXT_DELTAS = {"response.output_text.delta": "text", "response.refusal.delta": "refusal"}
_REASONING_DELTAS = {
    "response.reasoning_summary_text.delta": "summary_index",
    "response.reasoning_text.delta": "content_index",
}


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


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert a complete response."""
    stream = Stream(names=names)
    stream.feed({"type": "response.completed", "response": response})
    return stream.end()


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert a stream of events: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


class _Item:
    """One output item that is being received."""

    __slots__ = ("call_id", "draft", "id", "index", "kind", "over", "texts", "thought")

    def __init__(self, kind: str, index: object, item_id: str) -> None:
        self.kind = kind
        self.index = index
        self.id = item_id
        self.call_id = ""
        self.draft: CallDraft | None = None
        self.thought: TextDraft | None = None
        self.texts: dict[object, TextDraft] = {}
        self.over = False

    def likeness(self, event: Data) -> int:
        """Return how well an item in an event matches this one: 0 means not at all."""
        if self.kind != text_at(event, "type"):
            return 0
        if self.id and self.id == text_at(event, "id"):
            return 4
        call_id = text_at(event, "call_id")
        if call_id and self.call_id:
            return 3 if call_id == self.call_id else 0
        return 1 if self.id and text_at(event, "id") else 2


class Stream:
    """Converts a stream one event at a time."""

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._items: list[_Item] = []
        self._open: list[_Item] = []
        self._stop: Stop = "other"
        self._refused = False

    def feed(self, event: Data) -> Iterable[Delta | Call]:
        """Process one event. Return new text to show, and calls that are now complete."""
        kind = text_at(event, "type")
        self._draft.note_response(object_at(event, "response"))
        if kind in _ENDS:
            return self._finish(object_at(event, "response"))
        if kind == "response.output_item.added":
            return self._add_item(event.get("output_index"), object_at(event, "item"))
        if kind == "response.output_item.done":
            data = object_at(event, "item")
            known = self._find_item(event.get("output_index"), data)
            out = [] if known else self._add_item(event.get("output_index"), data)
            return [*out, *self._done(known or self._items[-1], data, marked=True)]
        if kind in _TEXT_DELTAS:
            return self._add_output_text(event, refused=_TEXT_DELTAS[kind] == "refusal")
        if kind in _REASONING_DELTAS:
            return self._add_reasoning(event, _REASONING_DELTAS[kind])
        if kind.startswith("response.function_call_arguments."):
            self._arguments(event)
        return []

    def end(self) -> Reply:
        """Return the reply after the last event."""
        return self._draft.reply("refused" if self._refused else self._stop)

    def _add_item(self, index: object, data: Data) -> list[Delta | Call]:
        """Begin an item, unless it was added before."""
        known = self._find_item(index, data)
        again = known and not known.over and known.likeness(data) > 1
        out = [] if again else self._draft.settle_complete()
        self._fill(known if known and again else self._new(text_at(data, "type"), index), data)
        return out

    def _fill(self, item: _Item, data: Data) -> None:
        """Fill in the fields of an item that were not known before."""
        item.id = item.id or text_at(data, "id")
        if item.draft is not None:
            item.call_id = item.call_id or text_at(data, "call_id")
            item.draft.name = item.draft.name or text_at(data, "name")
            item.draft.args = item.draft.args or args_at(data, "arguments")
            self._draft.claim(item.draft, item.call_id)

    def _find_item(self, index: object, data: Data) -> _Item | None:
        """Find the best matching item at this index."""
        here = [item for item in self._items if item.index == index and item.likeness(data)]
        return max(reversed(here), key=lambda item: item.likeness(data), default=None)

    def _new(self, kind: str, index: object) -> _Item:
        item = _Item(kind, index, "")
        self._items.append(item)
        if kind == "function_call":
            item.draft = self._draft.begin()
        elif kind == "reasoning":
            item.thought = self._draft.begin_text(thought=True)
        return item

    def _item_of(self, event: Data, kind: str) -> _Item:
        """Return the item of a piece: at the same index, and with its id if there are several."""
        index, item_id = event.get("output_index"), text_at(event, "item_id")
        here = [item for item in self._items if item.kind == kind and index in (item.index, None)]
        same = [item for item in here if item_id and item.id == item_id]
        meant = (same or here)[-1:]
        return meant[0] if meant else self._new(kind, index)

    def _add_output_text(self, event: Data, *, refused: bool) -> list[Delta | Call]:
        self._refused = self._refused or refused
        part = self._part(self._item_of(event, "message"), event.get("content_index"))
        return self._draft.add_text(part, text_at(event, "delta"))

    def _part(self, item: _Item, at: object) -> TextDraft:
        if at not in item.texts:
            item.texts[at] = self._draft.begin_text(thought=False)
        return item.texts[at]

    def _add_reasoning(self, event: Data, key: str) -> list[Delta | Call]:
        item = self._item_of(event, "reasoning")
        thought = cast("TextDraft", item.thought)
        gap = "\n\n" if item.texts and event.get(key) not in item.texts else ""
        item.texts[event.get(key)] = thought
        return self._draft.add_text(thought, gap + text_at(event, "delta"))

    def _arguments(self, event: Data) -> None:
        draft = self._item_of(event, "function_call").draft
        if draft is not None and draft.outcome is None:
            draft.args = args_at(event, "arguments") or draft.args + text_at(event, "delta")

    def _done(self, item: _Item, data: Data, *, marked: bool) -> list[Delta | Call]:
        """Process the final state of an item."""
        item.over = True
        if item.draft is not None:
            self._fill(item, data)
            return self._finish_call(item.draft, data, marked=marked)
        if item.thought is not None:
            item.thought.replace_text(_reasoning_text(data))
            item.thought.signature = dump({k: v for k, v in data.items() if v is not None})
        out: list[Delta | Call] = []
        for at, part in enumerate(objects_at(data, "content")):
            is_shown = at in item.texts or None in item.texts  # some servers send no index
            if item.kind == "message" and not is_shown:
                self._refused = self._refused or part.get("type") == "refusal"
                text = text_at(part, "text") or text_at(part, "refusal")
                out += self._draft.add_text(self._part(item, at), text)
        return out

    def _finish_call(self, draft: CallDraft, data: Data, *, marked: bool) -> list[Delta | Call]:
        if draft.outcome is not None:
            return []
        draft.args = args_at(data, "arguments") or draft.args
        status = text_at(data, "status")
        if status in ("completed", "incomplete"):
            # some servers report a truncated call as completed
            return self._draft.settle(
                draft, cut=status == "incomplete" or is_broken_off(draft.args)
            )
        return self._draft.mark(draft) if marked else []

    def _finish(self, response: Data) -> list[Delta | Call]:
        self._draft.note_usage(_usage(response))
        out: list[Delta | Call] = []
        streamed, self._open = bool(self._items), list(self._items)
        for at, data in enumerate(objects_at(response, "output")):
            item = self._match_item(at, data)
            if item is None and (text_at(data, "call_id") or not streamed):
                out += self._draft.settle_complete(marked=False)
                item = self._new(text_at(data, "type"), at)
                self._fill(item, data)
            out += self._done(item, data, marked=False) if item else []
        self._stop = _stop(response)
        return [*out, *self._draft.finish("refused" if self._refused else self._stop)]

    def _match_item(self, at: int, data: Data) -> _Item | None:
        """Find the streamed item that matches an item of the final output, each only once."""
        alike = [
            item for item in self._open if item.likeness(data) > (2 if item.index != at else 0)
        ]
        match = max(alike, key=lambda item: item.likeness(data), default=None)
        self._open = [item for item in self._open if item is not match]
        return match


def _stop(response: Data) -> Stop:
    status = response.get("status")
    if status == "incomplete":
        return _CUTS.get(text_at(object_at(response, "incomplete_details"), "reason"), "other")
    return "end" if status in ("completed", None) else "other"


def _reasoning_text(item: Data) -> str:
    summary = [text_at(part, "text") for part in objects_at(item, "summary")]
    return "\n\n".join(summary or [text_at(part, "text") for part in objects_at(item, "content")])


def _usage(response: Data) -> Usage:
    counts = object_at(response, "usage")
    input_ = object_at(counts, "input_tokens_details")
    output = object_at(counts, "output_tokens_details")
    return Usage(
        input_tokens=count_at(counts, "input_tokens"),
        output_tokens=count_at(counts, "output_tokens"),
        cached_tokens=count_at(input_, "cached_tokens"),
        cache_write_tokens=count_at(input_, "cache_write_tokens"),
        reasoning_tokens=count_at(output, "reasoning_tokens"),
    )


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
    other_parts = [at for at, part in enumerate(reply.parts) if not isinstance(part, Reasoning)]
    for at, part in enumerate(reply.parts):
        match part:
            case Text():
                message = {"type": "message", "role": "assistant"}
                message["content"] = lost.text(part.text)
                items += [message] if part.text else []
            case Reasoning():
                items += _write_thought(part, lost, last=at > max(other_parts, default=-1))
            case _:
                call = {"type": "function_call", "call_id": turn.ids[part.id]}
                call |= {"name": call_name(part), "arguments": lost.args_text(part)}
                items.append(call)
    return items


def _write_thought(thought: Reasoning, lost: Losses, *, last: bool) -> list[BodyPart]:
    if lost.is_foreign(thought):
        return []
    if last or not thought.signature:
        lost.add("incomplete reasoning is omitted")
        return []
    return [json.loads(thought.signature)]


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
    if isinstance(part, File) and (is_viewable(part, PDF_TYPES) or text_of(part) is not None):
        name = lost.text(part.name)
        return [{"type": "input_file", "filename": name, "file_data": data_url(part)}]
    return [{"type": "input_text", "text": lost.placeholder(part)}]
