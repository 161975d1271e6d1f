"""OpenAI Chat Completions, and the many servers that speak it: plain dicts in, values out."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final

from handrail import Call, File, Image, Spec, Text, Tool, Toolset
from handrail.messages import (
    Cut,
    Delta,
    Message,
    Piece,
    Prompt,
    Reply,
    Results,
    Stop,
    Thought,
    Usage,
)
from handrail.providers._assemble import Assembler, Draft, pieces
from handrail.providers._compiled import Compiled, Quarantined, compiled, encoded
from handrail.providers._history import (
    PDF,
    PICTURES,
    Ledger,
    Request,
    Turn,
    called,
    data_url,
    lost_by,
    turns,
    viewable,
    words_of,
)
from handrail.providers._read import (
    NO_NAMES,
    Names,
    Wire,
    args_at,
    complete,
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

WIRE: Final = "openai_chat"
LONGEST_ID = 40

_STOPS: Mapping[str, Stop] = {
    "stop": "end",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


def compile(tool: Tool[..., Any] | Spec) -> Compiled | Quarantined:  # noqa: A001  what it does
    """One tool as this wire takes it, and what that loses; or why it cannot be sent."""
    return compiled(tool, WIRE)


def encode_tools(tools: Toolset | Iterable[Spec]) -> list[Request]:
    """The ``tools`` of a request, in name order; tools that cannot be sent are left out."""
    return encoded(tools, WIRE)


def encode_messages(messages: Sequence[Message], *, system: str = "") -> Request:
    """The ``messages`` of a request; the first one is the system's, where there is one."""
    first: list[Request] = [{"role": "system", "content": sayable(system)}] if system else []
    return {"messages": first + _written(messages, Ledger(WIRE))}


def losses(messages: Sequence[Message]) -> tuple[str, ...]:
    """What this wire cannot carry of a history, each in words."""
    return lost_by(_written, messages, WIRE)


def decode(response: Wire, *, names: Names = NO_NAMES) -> Reply:
    """A whole response, read: its first choice."""
    stream = Stream(names=names)
    for choice in objects_at(response, "choices"):
        message = object_at(choice, "message")
        calls = [{**one, "index": at} for at, one in enumerate(objects_at(message, "tool_calls"))]
        delta = {**message, "tool_calls": calls}
        stream.feed({**response, "choices": [{**choice, "delta": delta}]})
    return stream.end()


def decode_stream(events: AsyncIterable[Wire], *, names: Names = NO_NAMES) -> AsyncIterator[Piece]:
    """Read a stream of chunks: words as they come, each call once it is complete, the reply."""
    return pieces(Stream(names=names), events)


class Stream:
    """A stream of chunks, read one at a time.

    Servers differ in how they tell calls apart: by index, by id, by both, or by neither. A call
    begins with a new index; at a known one it begins with a name, where the id is another one or
    the JSON before it is complete.
    """

    def __init__(self, *, names: Names = NO_NAMES) -> None:
        self._made = Assembler(WIRE, names)
        self._names = names
        self._at: dict[object, Draft] = {}
        self._by_id: dict[tuple[object, str], Draft] = {}
        self._sent_ids: dict[Draft, str] = {}
        self._last: Draft | None = None
        self._stop: Stop = "other"

    def feed(self, event: Wire) -> Iterable[Delta | Call]:
        """Take one chunk in; what there is to show, and calls that are now complete."""
        self._made.head(event)
        self._made.count(_usage(event))
        out: list[Delta | Call] = []
        for choice in objects_at(event, "choices"):
            if choice.get("index") in (0, None):
                out += self._choice(choice)
        return out

    def end(self) -> Reply:
        """There are no more chunks: the reply."""
        return self._made.reply(self._stop)

    def _choice(self, choice: Wire) -> list[Delta | Call]:
        delta = object_at(choice, "delta")
        out = self._made.say(_reasoning(delta), thought=True)
        for piece in (*_content(delta), text_at(delta, "refusal")):
            out += self._made.say(piece)
        if text_at(delta, "refusal"):
            self._stop = "refused"
        for one in objects_at(delta, "tool_calls"):
            if one.get("type") in ("function", None, ""):
                out += self._call(one.get("index"), text_at(one, "id"), object_at(one, "function"))
        if delta.get("function_call"):
            out += self._call("function_call", "", object_at(delta, "function_call"))
        if reason := text_at(choice, "finish_reason"):
            if self._stop != "refused":
                self._stop = _STOPS.get(reason, "other")
            out += self._made.finish(self._stop)
        return out

    def _call(self, index: object, call_id: str, function: Wire) -> list[Delta | Call]:
        name, args = text_at(function, "name"), args_at(function, "arguments")
        here = self._last if index is None else self._at.get(index)
        draft = self._by_id.get((index, call_id), here) if call_id else here
        out: list[Delta | Call] = []
        if draft is None or self._begins(draft, name, call_id, args):
            out += self._made.move_on(marked=False)
            draft = self._made.begin()
        elif draft.made is not None or (args == draft.args and complete(args)):
            return []
        if not draft.args and draft.name != name:
            draft.name += name
        draft.args += args
        self._made.claim(draft, call_id)
        self._sent_ids.setdefault(draft, call_id)
        self._last = self._at[index] = self._by_id[index, call_id] = draft
        return out

    def _begins(self, draft: Draft, name: str, call_id: str, args: str) -> bool:
        """Whether a piece at the place of a call begins another one."""
        before = self._sent_ids[draft]
        if call_id and before and call_id != before:
            return bool(name) or complete(draft.args)
        if not name:
            return False
        if not draft.args:
            known = name in self._names and draft.name in self._names
            return known and not call_id and name != draft.name
        if name != draft.name:
            return True
        return complete(draft.args) and not (call_id and args == draft.args)


def _reasoning(delta: Wire) -> str:
    """What servers other than OpenAI's show of a model's thoughts, under either of its names."""
    return text_at(delta, "reasoning_content") or text_at(delta, "reasoning")


def _content(delta: Wire) -> Iterable[str]:
    found = text_at(delta, "content")
    return [found] if found else [text_at(one, "text") for one in objects_at(delta, "content")]


def _usage(event: Wire) -> Usage:
    told = object_at(event, "usage")
    return Usage(
        sent=count_at(told, "prompt_tokens"),
        received=count_at(told, "completion_tokens"),
        cached=count_at(object_at(told, "prompt_tokens_details"), "cached_tokens"),
    )


def _written(messages: Sequence[Message], ledger: Ledger) -> list[Request]:
    written: list[Request] = []
    for turn in turns(messages, LONGEST_ID):
        ledger.at = turn.at
        match turn.message:
            case Prompt(parts):
                content = _content_parts(parts, ledger)
                written += [{"role": "user", "content": _plain(content)}] if content else []
            case Reply() as reply:
                written += _said(reply, turn, ledger)
            case results:
                written += _results(results, turn, ledger)
    return written


def _plain(content: list[Request]) -> str | list[Request]:
    """Words alone as a text: there are servers that take nothing else."""
    alone = len(content) == 1 and content[0]["type"] == "text"
    return content[0]["text"] if alone else content


def _said(reply: Reply, turn: Turn, ledger: Ledger) -> list[Request]:
    texts = [part for part in reply.parts if isinstance(part, Text) and part.text]
    thoughts = [
        part for part in reply.parts if isinstance(part, Thought) and not ledger.foreign(part)
    ]
    order = [*thoughts, *texts, *turn.calls]
    if [part for part in reply.parts if any(part is one for one in order)] != order:
        ledger.lose("thoughts stand first, then words, then calls")
    if any(thought.sealed for thought in thoughts):
        ledger.lose("the seal of a thought is left out")
    if not texts and not turn.calls:
        if thoughts:
            ledger.lose("a thought that did not come to its end is left out")
        return []
    message: Request = {"role": "assistant", "content": None}
    if texts:
        message["content"] = "".join(ledger.text(part.text) for part in texts)
    if thoughts:
        message["reasoning_content"] = "".join(ledger.text(part.text) for part in thoughts)
    if turn.calls:
        message["tool_calls"] = [_call(call, turn.ids[call.id], ledger) for call in turn.calls]
    return [message]


def _call(call: Call | Cut, call_id: str, ledger: Ledger) -> Request:
    function = {"name": called(call), "arguments": ledger.args_text(call)}
    return {"id": call_id, "type": "function", "function": function}


def _results(results: Results, turn: Turn, ledger: Ledger) -> list[Request]:
    """A message for each result, then one with all that is not words: tools may say words only."""
    written: list[Request] = []
    shown: list[Request] = []
    for _, call_id, result in turn.answered(results):
        media = [part for part in result.parts if not isinstance(part, Text)]
        text = ledger.text(result.text)
        if media:
            ledger.lose(f"what {result.call_id!r} shows follows its result as a message of its own")
            text += f"{_gap(text)}[What it shows follows in the next message.]"
            shown.append({"type": "text", "text": f"[What the call {call_id} shows:]"})
            shown += _content_parts(media, ledger)
        written.append(
            {"role": "tool", "tool_call_id": call_id, "content": ledger.flag(result) + text}
        )
    return [*written, {"role": "user", "content": shown}] if shown else written


def _gap(text: str) -> str:
    return "\n" if text else ""


def _content_parts(parts: Iterable[Text | Image | File], ledger: Ledger) -> list[Request]:
    return [one for part in parts for one in _content_part(part, ledger)]


def _content_part(part: Text | Image | File, ledger: Ledger) -> list[Request]:
    if isinstance(part, Text):
        return [{"type": "text", "text": ledger.text(part.text)}] if part.text else []
    if viewable(part, PICTURES):
        if isinstance(part, File):
            ledger.lose(f"the name of the picture {part.name!r} is left out")
        return [{"type": "image_url", "image_url": {"url": data_url(part)}}]
    if isinstance(part, File):
        if viewable(part, PDF):
            file = {"filename": ledger.text(part.name), "file_data": data_url(part)}
            return [{"type": "file", "file": file}]
        if (words := words_of(part)) is not None:
            ledger.lose(f"the file {part.name!r} goes as words")
            return [{"type": "text", "text": f"[The file {ledger.text(part.name)!r}:]\n{words}"}]
    return [{"type": "text", "text": ledger.left_out(part)}]
