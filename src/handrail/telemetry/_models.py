"""Model request spans."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any

import anyio

from handrail import Call, Image, Text
from handrail._support import close_generator
from handrail.messages import (
    Message,
    Model,
    ModelError,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    Request,
    StreamItem,
    TruncatedCall,
    model_names,
)
from handrail.telemetry._facts import ERROR_TYPE, Value
from handrail.telemetry._instruments import Instruments, Span, as_current, end


def show_request(request: Request) -> dict[str, Value]:
    """Return a request's content."""
    tools = [
        {"type": "function", "name": spec.name, "description": spec.description}
        | {"parameters": dict(spec.input_schema)}
        for spec in request.tools.specs
    ]
    shown: dict[str, Value] = {"gen_ai.input.messages": _write(map(_show, request.messages))}
    if request.system:
        instructions = [{"type": "text", "content": request.system}]
        shown["gen_ai.system_instructions"] = _write(instructions)
    if tools:
        shown["gen_ai.tool.definitions"] = _write(tools)
    return shown


def show_reply(reply: Reply) -> dict[str, Value]:
    """Return a reply's content."""
    return {"gen_ai.output.messages": _write([_show(reply) | {"finish_reason": reply.stop}])}


def _write(items: Iterable[Any]) -> str:
    return json.dumps(list(items), ensure_ascii=False, default=repr)


def _show(message: Message) -> dict[str, Any]:
    if isinstance(message, Prompt):
        return {"role": "user", "parts": [_show_part(part) for part in message.parts]}
    if isinstance(message, Reply):
        seen = [part for part in message.parts if not isinstance(part, Opaque)]
        return {"role": "assistant", "parts": [_show_part(part) for part in seen]}
    parts = [
        {"type": "tool_call_response", "id": one.call_id, "response": one.text}
        for one in message.results
    ]
    return {"role": "tool", "parts": parts}


def _show_part(part: Any) -> dict[str, Any]:
    """Return one part. Images and files are only named: they can be large."""
    if isinstance(part, Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, Reasoning):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, Call | TruncatedCall):
        args = part.args if isinstance(part.args, str) else dict(part.args)
        return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": args}
    kind = "image" if isinstance(part, Image) else "file"
    return {"type": kind, "mime_type": part.media_type, "bytes": len(part.data)}


CONVERSATION: ContextVar[str] = ContextVar("handrail_conversation", default="")
"""The id of the run asking the model."""


@contextmanager
def in_conversation(run_id: str) -> Generator[None]:
    """Note which run asks the model."""
    token = CONVERSATION.set(run_id)
    try:
        yield
    finally:
        CONVERSATION.reset(token)


class TracedModel:
    """A model whose requests are spans."""

    def __init__(
        self, model: Model, provider: str, instruments: Instruments, *, content: bool
    ) -> None:
        self.names = model_names(model)
        """The names of the models it asks."""
        self._model = model
        self._instruments = instruments
        self._content = content
        self._common: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
        }
        if self.names[0]:
            self._common["gen_ai.request.model"] = self.names[0]

    def __call__(self, request: Request) -> AsyncIterator[StreamItem] | Awaitable[Reply]:
        """Reply to a request."""
        answer = self._model(request)
        if isinstance(answer, AsyncIterator):
            return self._stream(answer, request)
        return self._wait(answer, request)

    async def _wait(self, answer: Awaitable[Reply], request: Request) -> Reply:
        with self._chat(request, stream=False) as chat:
            with as_current(chat.span):
                reply = await answer
            chat.note(reply)
            return reply

    async def _stream(
        self, items: AsyncIterator[StreamItem], request: Request
    ) -> AsyncGenerator[StreamItem]:
        with self._chat(request, stream=True) as chat:
            try:
                while True:
                    # the span is current only while the stream works, not where its items go
                    with as_current(chat.span):
                        item = await anext(items, None)
                    if item is None:
                        return
                    chat.note(item)
                    yield item
            finally:
                await close_generator(items)

    @contextmanager
    def _chat(self, request: Request, *, stream: bool) -> Generator[_Chat]:
        chat = _Chat(self._instruments, self._common, content=self._content)
        chat.streams = stream
        attributes: dict[str, Value] = {"gen_ai.request.stream": stream}
        if request.max_tokens is not None:
            attributes["gen_ai.request.max_tokens"] = request.max_tokens
        if CONVERSATION.get():
            attributes["gen_ai.conversation.id"] = CONVERSATION.get()
        if self._content:
            attributes |= show_request(request)
        chat.start(self.names[0], attributes)
        try:
            yield chat
        except BaseException as error:
            chat.fail(error)
            raise
        finally:
            chat.end()


_FIRST = "gen_ai.response.time_to_first_chunk"


class _Chat:
    """One request, while it is answered."""

    span: Span
    streams: bool

    def __init__(
        self, instruments: Instruments, common: dict[str, Value], *, content: bool
    ) -> None:
        self._instruments = instruments
        self._content = content
        self._measured = dict(common)
        self._attributes: dict[str, Value] = {}
        self._tokens: dict[str, int] = {}
        self._message: str | None = None
        self._began = perf_counter()

    def start(self, name: str, attributes: dict[str, Value]) -> None:
        """Start the span."""
        all_of_them = self._measured | attributes
        self.span = self._instruments.start(f"chat {name}".strip(), all_of_them, "client")

    def note(self, item: StreamItem) -> None:
        """Record a stream item, or the reply."""
        if self.streams and _FIRST not in self._attributes:
            self._attributes[_FIRST] = perf_counter() - self._began
        if isinstance(item, Reply):
            self._note_reply(item)

    def _note_reply(self, reply: Reply) -> None:
        usage = reply.usage
        self._tokens = {"input": usage.input_tokens, "output": usage.output_tokens}
        self._attributes |= {
            "gen_ai.response.finish_reasons": [reply.stop],
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        }
        if reply.model:
            self._measured["gen_ai.response.model"] = reply.model
        if self._content:
            self._attributes |= show_reply(reply)

    def fail(self, error: BaseException) -> None:
        """Note why there is no reply."""
        self._measured[ERROR_TYPE] = describe_error(error)
        if self._content:
            self._message = str(error)

    def end(self) -> None:
        """End the span, and record the metrics."""
        self._instruments.record_seconds(perf_counter() - self._began, self._measured)
        for kind, tokens in self._tokens.items():
            self._instruments.record_tokens(kind, tokens, self._measured)
        end(self.span, self._measured | self._attributes, self._message)


def describe_error(error: BaseException) -> str:
    """Return an error's type, as one of few words."""
    if isinstance(error, ModelError):
        return error.kind
    cancelled = isinstance(error, GeneratorExit | anyio.get_cancelled_exc_class())
    return "cancelled" if cancelled else type(error).__qualname__
