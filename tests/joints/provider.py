"""A provider on the loopback that streams: in four formats, event by event, at the pace of a run."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias

from handrail import Call, CheckedCall, Hook, Text
from handrail.events import Decided, Event, Finished
from handrail.messages import Model, Reasoning
from handrail.models import anthropic, gemini, openai_chat, openai_responses
from joints.case import PATIENCE

Part: TypeAlias = Text | Reasoning | Call
Sent: TypeAlias = dict[str, Any] | str
Step: TypeAlias = tuple[Sent, str]
"""An event, and the id of the call that is complete with it, if there is one."""
USAGE = {"input_tokens": 8, "output_tokens": 7}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the provider answers to one request."""

    parts: Sequence[Part] = ()
    status: int = 200
    """If it is an error, there are no parts."""
    is_late: bool = False
    """Whether it begins only when the test says so."""
    is_cut: bool = False
    """Whether the connection breaks after the parts."""


def to_text(call: Call) -> str:
    """Return the arguments of a call as a model sends them."""
    return call.args if isinstance(call.args, str) else json.dumps(dict(call.args))


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def in_anthropic(parts: Sequence[Part]) -> Iterator[Step]:
    head = {"id": "m1", "type": "message", "role": "assistant", "model": "m-1", "content": []}
    start = {**head, "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    yield {"type": "message_start", "message": start}, ""
    for index, part in enumerate(parts):
        block, deltas = _block(part)
        yield {"type": "content_block_start", "index": index, "content_block": block}, ""
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}, ""
        yield {"type": "content_block_stop", "index": index}, _id(part)
    why = "tool_use" if _has_calls(parts) else "end_turn"
    stop = {"stop_reason": why, "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 7}}, ""
    yield {"type": "message_stop"}, ""


def _block(part: Part) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if isinstance(part, Call):
        pieces = halves(to_text(part))
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}, deltas
    if isinstance(part, Text):
        deltas = [{"type": "text_delta", "text": piece} for piece in halves(part.text)]
        return {"type": "text", "text": ""}, deltas
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in halves(part.text)]
    signed = {"type": "signature_delta", "signature": "signed"}
    return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]


def in_chat(parts: Sequence[Part]) -> Iterator[Step]:
    """A call is complete when the next one begins, or the reply ends."""
    complete = ""
    for index, part in enumerate(parts):
        for delta in _deltas(part, index):
            yield _chunk(delta), complete
            complete = ""
        complete = _id(part)
    yield _chunk({}, "tool_calls" if _has_calls(parts) else "stop"), complete
    counts = {"prompt_tokens": 8, "completion_tokens": 7, "total_tokens": 15}
    yield {**_chunk({}), "choices": [], "usage": counts}, ""
    yield "[DONE]", ""


def _deltas(part: Part, index: int) -> Iterator[dict[str, Any]]:
    if not isinstance(part, Call):
        key = "content" if isinstance(part, Text) else "reasoning_content"
        yield from ({key: piece} for piece in halves(part.text))
        return
    first, rest = halves(to_text(part))
    begins = {"index": index, "id": part.id, "type": "function"}
    yield {"tool_calls": [{**begins, "function": {"name": part.name, "arguments": first}}]}
    yield {"tool_calls": [{"index": index, "function": {"arguments": rest}}]}


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    head = {"id": "m1", "object": "chat.completion.chunk", "created": 1, "model": "m-1"}
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def in_responses(parts: Sequence[Part]) -> Iterator[Step]:
    yield {"type": "response.created", "response": _response("in_progress", [])}, ""
    items = []
    for index, part in enumerate(parts):
        at = {"item_id": f"i{index}", "output_index": index}
        begun, item, kind, pieces = _item(part, f"i{index}")
        yield {"type": "response.output_item.added", "item": begun, "output_index": index}, ""
        for piece in pieces:
            yield {"type": f"response.{kind}.delta", "delta": piece, **at}, ""
        yield {"type": "response.output_item.done", "item": item, "output_index": index}, _id(part)
        items.append(item)
    yield {"type": "response.completed", "response": _response("completed", items)}, ""


def _item(part: Part, name: str) -> tuple[dict[str, Any], dict[str, Any], str, Sequence[str]]:
    """Return an item as it begins and as it ends, the kind of its deltas, and these."""
    head: dict[str, Any] = {"id": name, "status": "completed"}
    if isinstance(part, Call):
        args = to_text(part)
        head |= {"type": "function_call", "call_id": part.id, "name": part.name}
        return (
            {**head, "arguments": "", "status": "in_progress"},
            {**head, "arguments": args},
            "function_call_arguments",
            halves(args),
        )
    if isinstance(part, Text):
        said = [{"type": "output_text", "text": part.text, "annotations": []}]
        head |= {"type": "message", "role": "assistant"}
        begun = {**head, "content": [], "status": "in_progress"}
        return begun, {**head, "content": said}, "output_text", halves(part.text)
    thought = [{"type": "summary_text", "text": part.text}]
    head |= {"type": "reasoning", "encrypted_content": "sealed"}
    begun = {**head, "summary": [], "status": "in_progress"}
    return begun, {**head, "summary": thought}, "reasoning_summary_text", halves(part.text)


def _response(status: str, output: list[Any]) -> dict[str, Any]:
    head = {"id": "m1", "object": "response", "created_at": 1, "model": "m-1", "status": status}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    return {**head, **rest, "output": output, "usage": {**USAGE, "total_tokens": 15}}


def in_gemini(parts: Sequence[Part]) -> Iterator[Step]:
    """The arguments of a call are an object, sent as a whole."""
    for part in parts:
        if isinstance(part, Call):
            args = json.loads(to_text(part))
            called = {"functionCall": {"id": part.id, "name": part.name, "args": args}}
            yield _candidate({**called, "thoughtSignature": "c2lnbmVk"}), part.id
        else:
            thought = {"thought": True} if isinstance(part, Reasoning) else {}
            for piece in halves(part.text):
                yield _candidate({"text": piece, **thought}), ""
    counts = {"promptTokenCount": 8, "candidatesTokenCount": 7}
    yield {**_candidate({"text": ""}, finishReason="STOP"), "usageMetadata": counts}, ""


def _candidate(part: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, **more}]}


def _has_calls(parts: Sequence[Part]) -> bool:
    return any(isinstance(part, Call) for part in parts)


def _id(part: Part) -> str:
    """Return the id of a call whose end can be seen: of JSON that ends too early, only the reply's is."""
    if not isinstance(part, Call):
        return ""
    try:
        json.loads(to_text(part))
    except json.JSONDecodeError:
        return ""
    return part.id


class Api(NamedTuple):
    """How to make the client of an API, and how the API sends a reply."""

    make: Callable[..., Model]
    root: str
    write: Callable[[Sequence[Part]], Iterator[Step]]


APIS: Mapping[str, Api] = {
    "anthropic": Api(anthropic, "", in_anthropic),
    "openai_chat": Api(openai_chat, "/v1", in_chat),
    "openai_responses": Api(openai_responses, "/v1", in_responses),
    "gemini": Api(gemini, "", in_gemini),
}


@dataclass
class Provider:
    """A running provider."""

    url: str
    api: Api
    answers: Sequence[Answer]
    bodies: list[Any] = field(default_factory=list[Any])
    """What it was asked."""
    late: threading.Event = field(default_factory=threading.Event)
    """Set by the test: late answers begin."""
    asked: threading.Event = field(default_factory=threading.Event)
    """Set by the first request."""
    until: tuple[type[Event], ...] = (Decided, Finished)
    """Events of a call, one of which must come before anything more of its reply is sent."""
    waits: bool = True
    """Whether it waits for calls at all. ``retrying`` passes them on when a reply is complete."""
    unanswered: list[str] = field(default_factory=list[str])
    """Complete calls that had none of these events in time."""
    _seen: dict[str, threading.Event] = field(default_factory=lambda: defaultdict(threading.Event))

    @property
    def model(self) -> Model:
        """A client of it, which does not retry."""
        return self.api.make("m-1", base_url=self.url + self.api.root, retries=0)

    @property
    def hook(self) -> Hook:
        """Sees the calls of the run that the replies are for."""

        def observe(_key: str, call: CheckedCall | Call, event: Event) -> None:
            if isinstance(event, self.until):
                self._seen[call.id].set()

        return Hook(observe=observe)

    def send(self, write: Callable[[bytes], object], answer: Answer) -> None:
        """Send a reply. After a complete call, wait until the run has begun it."""
        for sent, call_id in self.api.write(answer.parts):
            is_end = not isinstance(sent, str) and _is_end(sent)
            if answer.is_cut and is_end:
                return
            write(_frame(_event(sent)))
            if self.waits and call_id and not self._seen[call_id].wait(PATIENCE):
                self.unanswered.append(call_id)
        write(_frame(b""))

    def stop(self) -> None:
        self.late.set()
        for event in self._seen.values():
            event.set()


def _is_end(sent: dict[str, Any]) -> bool:
    """Return whether an event says that a reply is complete."""
    finish = [one.get("finish_reason") or one.get("finishReason") for one in _choices(sent)]
    return any(finish) or sent.get("type") in ("message_delta", "response.completed")


def _choices(sent: dict[str, Any]) -> list[dict[str, Any]]:
    return [*sent.get("choices", ()), *sent.get("candidates", ())]


def _event(sent: Sent) -> bytes:
    if isinstance(sent, str):
        return f"data: {sent}\n\n".encode()
    name = f"event: {sent['type']}\n" if "type" in sent else ""
    return f"{name}data: {json.dumps(sent)}\n\n".encode()


def _frame(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


@contextmanager
def streaming(name: str, *answers: Answer, **options: Any) -> Iterator[Provider]:
    """Run a provider with the format of an API. The last answer is repeated."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            number = len(served.bodies)
            served.bodies.append(json.loads(body))
            served.asked.set()
            answer = answers[min(number, len(answers) - 1)]
            if answer.is_late:
                served.late.wait(PATIENCE)
            self.close_connection = answer.is_cut
            self.send_response(answer.status)
            if answer.status != 200:
                self._refuse()
                return
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            served.send(self._write, answer)

        def _refuse(self) -> None:
            text = json.dumps({"type": "error", "error": {"type": "busy", "message": "Busy."}})
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def _write(self, data: bytes) -> None:
            try:
                self.wfile.write(data)
            except OSError:  # the run is over, or was cancelled
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base's name
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Provider(f"http://127.0.0.1:{server.server_port}", APIS[name], answers, **options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield served
    finally:
        served.stop()
        server.shutdown()
        thread.join()
        server.server_close()
