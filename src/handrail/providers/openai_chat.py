"""OpenAI Chat Completions and compatible servers: convert tools, messages, responses, streams."""

from __future__ import annotations

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
    ToolResults,
    TruncatedCall,
    Usage,
)
from handrail.providers._formats.assemble import Assembler, CallDraft, stream_items
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
from handrail.providers._formats.ids import fit_id
from handrail.providers._formats.tolerant import (
    NO_NAMES,
    Data,
    Names,
    args_at,
    count_at,
    is_complete,
    object_at,
    objects_at,
    sendable,
    text_at,
)
from handrail.providers._schema.compile import Fitted
from handrail.providers._schema.dialects import OPENAI
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

API: Final = "openai_chat"
MAX_CALL_ID_CHARS = 40
_MAX_DESCRIPTION_CHARS = 1024
"""The length that every server of this API accepts."""

_STOPS: Mapping[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


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


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[BodyPart]:
    """Return the ``tools`` of a request, sorted by name. Tools that cannot be sent are skipped."""
    return encode_request(tools, _TOOLS)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> BodyPart:
    """Return the ``messages`` of a request. A system prompt becomes the first message."""
    first: list[BodyPart] = [{"role": "system", "content": sendable(system)}] if system else []
    return {"messages": first + _write_messages(messages, Losses(API))}


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


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return a message for everything in a history that this API cannot represent."""
    return find_losses(_write_messages, messages, API)


def decode(response: Data, *, names: Names = NO_NAMES) -> Reply:
    """Convert the first choice of a complete response."""
    stream = Stream(names=names)
    for choice in objects_at(response, "choices"):
        message = object_at(choice, "message")
        calls = [{**call, "index": at} for at, call in enumerate(objects_at(message, "tool_calls"))]
        delta = {**message, "tool_calls": calls}
        stream.feed({**response, "choices": [{**choice, "delta": delta}]})
    return stream.end()


def decode_stream(
    events: AsyncIterable[Data], *, names: Names = NO_NAMES
) -> AsyncIterator[StreamItem]:
    """Convert a stream of chunks: text as it arrives, each complete call, then the reply."""
    return stream_items(Stream(names=names), events)


class Stream:
    """Converts a stream one chunk at a time.

    Servers identify calls by index, by id, by both, or by neither. A new index begins a call. At
    a known index, a name begins a call if the id differs or the JSON before it is complete.
    """

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._draft = Assembler(API, names)
        self._names = names
        self._at: dict[object, CallDraft] = {}
        self._by_id: dict[tuple[object, str], CallDraft] = {}
        self._sent_ids: dict[CallDraft, str] = {}
        self._last: CallDraft | None = None
        self._stop: Stop = "other"

    def feed(self, event: Data) -> Iterable[Delta | Call]:
        """Process one chunk. Return new text to show, and calls that are now complete."""
        self._draft.note_response(event)
        self._draft.note_usage(_usage(event))
        out: list[Delta | Call] = []
        for choice in objects_at(event, "choices"):
            if choice.get("index") in (0, None):
                out += self._choice(choice)
        return out

    def end(self) -> Reply:
        """Return the reply after the last chunk."""
        return self._draft.reply(self._stop)

    def _choice(self, choice: Data) -> list[Delta | Call]:
        delta = object_at(choice, "delta")
        out = self._draft.continue_text(_reasoning(delta), thought=True)
        for piece in (*_content(delta), text_at(delta, "refusal")):
            out += self._draft.continue_text(piece)
        if text_at(delta, "refusal"):
            self._stop = "refused"
        for call in objects_at(delta, "tool_calls"):
            if call.get("type") in ("function", None, ""):
                out += self._call(
                    call.get("index"), text_at(call, "id"), object_at(call, "function")
                )
        if delta.get("function_call"):
            out += self._call("function_call", "", object_at(delta, "function_call"))
        if reason := text_at(choice, "finish_reason"):
            if self._stop != "refused":
                self._stop = _STOPS.get(reason, "other")
            out += self._draft.finish(self._stop)
        return out

    def _call(self, index: object, call_id: str, function: Data) -> list[Delta | Call]:
        name, args = text_at(function, "name"), args_at(function, "arguments")
        here = self._last if index is None else self._at.get(index)
        draft = self._by_id.get((index, call_id), here) if call_id else here
        out: list[Delta | Call] = []
        if draft is None or self._begins(draft, name, call_id, args):
            out += self._draft.settle_complete(marked=False)
            draft = self._draft.begin()
        elif draft.outcome is not None or (args == draft.args and is_complete(args)):
            return []
        if not draft.args and draft.name != name:
            draft.name += name
        draft.args += args
        self._draft.claim(draft, call_id)
        self._sent_ids.setdefault(draft, call_id)
        self._last = self._at[index] = self._by_id[index, call_id] = draft
        return out

    def _begins(self, draft: CallDraft, name: str, call_id: str, args: str) -> bool:
        """Whether a piece at the index of a call begins another call."""
        before = self._sent_ids[draft]
        if call_id and before and call_id != before:
            return bool(name) or is_complete(draft.args)
        if not name:
            return False
        if not draft.args:
            known = name in self._names and draft.name in self._names
            return known and not call_id and name != draft.name
        if name != draft.name:
            return True
        return is_complete(draft.args) and not (call_id and args == draft.args)


def _reasoning(delta: Data) -> str:
    """Return the reasoning that servers other than OpenAI's send, under either of its names."""
    return text_at(delta, "reasoning_content") or text_at(delta, "reasoning")


def _content(delta: Data) -> Iterable[str]:
    text = text_at(delta, "content")
    return [text] if text else [text_at(part, "text") for part in objects_at(delta, "content")]


def _usage(event: Data) -> Usage:
    counts = object_at(event, "usage")
    input_ = object_at(counts, "prompt_tokens_details")
    output = object_at(counts, "completion_tokens_details")
    return Usage(
        input_tokens=count_at(counts, "prompt_tokens"),
        output_tokens=count_at(counts, "completion_tokens"),
        cached_tokens=count_at(input_, "cached_tokens"),
        cache_write_tokens=count_at(input_, "cache_write_tokens"),
        reasoning_tokens=count_at(output, "reasoning_tokens"),
    )


def _write_messages(messages: Sequence[Message], lost: Losses) -> list[BodyPart]:
    written: list[BodyPart] = []
    for turn in place_messages(messages, MAX_CALL_ID_CHARS):
        lost.at = turn.at
        match turn.message:
            case Prompt(parts):
                content = _content_parts(parts, lost)
                written += [{"role": "user", "content": _plain(content)}] if content else []
            case Reply() as reply:
                written += _write_reply(reply, turn, lost)
            case results:
                written += _results(results, turn, lost)
    return written


def _plain(content: list[BodyPart]) -> str | list[BodyPart]:
    """Return text-only content as a string: some servers accept nothing else."""
    alone = len(content) == 1 and content[0]["type"] == "text"
    return content[0]["text"] if alone else content


def _write_reply(reply: Reply, turn: PlacedMessage, lost: Losses) -> list[BodyPart]:
    texts = [part for part in reply.parts if isinstance(part, Text) and part.text]
    thoughts = [
        part for part in reply.parts if isinstance(part, Reasoning) and not lost.is_foreign(part)
    ]
    order = [*thoughts, *texts, *turn.calls]
    if [part for part in reply.parts if any(part is placed for placed in order)] != order:
        lost.add("parts are reordered: reasoning first, then text, then calls")
    if any(thought.signature for thought in thoughts):
        lost.add("the signature of reasoning is omitted")
    if not texts and not turn.calls:
        if thoughts:
            lost.add("incomplete reasoning is omitted")
        return []
    message: BodyPart = {"role": "assistant", "content": None}
    if texts:
        message["content"] = "".join(lost.text(part.text) for part in texts)
    if thoughts:
        message["reasoning_content"] = "".join(lost.text(part.text) for part in thoughts)
    if turn.calls:
        message["tool_calls"] = [_call(call, turn.ids[call.id], lost) for call in turn.calls]
    return [message]


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
            text += f"{_gap(text)}[Images and files follow in the next message.]"
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
