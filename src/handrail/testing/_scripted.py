"""Scripted model: fails unless a run uses exactly its steps."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, TypeGuard, TypeVar

from handrail import Call, HandrailError, Text
from handrail._support.loop import checkpoint
from handrail.messages import ArgsDelta, Delta, Reasoning, Reply, Request, StreamItem, Usage


class AsDataclass(Protocol):
    """A dataclass instance."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class AsPydanticModel(Protocol):
    """A pydantic model instance."""

    model_fields: ClassVar[dict[str, Any]]


TypedAnswer: TypeAlias = AsPydanticModel | AsDataclass | Mapping[str, Any] | float
"""A value for the agent's ``output`` type: a model, a dataclass, a mapping or a number."""
Said: TypeAlias = str | Call | Reply | Exception | Iterable[str | Call] | TypedAnswer
"""A model's turn: text, a call, both, a whole reply, an exception to raise, or the typed answer."""
Step: TypeAlias = Said | Callable[[Request], Said]
"""A turn, or a function from the request to a turn."""


_Part = TypeVar("_Part")
_WORDS = re.compile(r"\s*\S+|\s+")
_PIECES = re.compile(r".{1,16}", re.DOTALL)
_ROUNDS = 8
"""Event loop rounds between two fragments of a reply."""


class OffScript(HandrailError, AssertionError):
    """A run needed more or fewer turns than the script has."""


class ScriptedModel:
    """Replies with a script's steps, in order. As a context manager, fails unless all are used.

    Call arguments passed as a mapping are sent as JSON text, as real models do. An exception among
    the steps is raised. Use ``ModelError`` for a failing model. A value with the agent's ``output``
    type is the final answer. Any other type raises TypeError.

    Args:
        steps: The model's turns.
        stream: Whether to stream each reply, as provider models do: text word by word, each call's
            arguments in fragments, the call, then the reply. Before the next fragment, other tasks
            run: a call can end before the next one arrives. If False, replies come whole.
        usage: The tokens for each reply without any.
    """

    def __init__(self, *steps: Step, stream: bool = True, usage: Usage | None = None) -> None:
        self._steps = [
            step if _is_function(step) else _read(step, f"Step {number} of the script")
            for number, step in enumerate(steps, 1)
        ]
        self._stream = stream
        self._usage = usage
        self.requests: list[Request] = []
        """The requests received, in order."""

    def __call__(self, request: Request) -> Awaitable[Reply] | AsyncIterator[StreamItem]:
        """Return the script's next step, as a reply or as a stream."""
        return self._pieces(request) if self._stream else self._whole(request)

    async def _whole(self, request: Request) -> Reply:
        return self._next(request)

    async def _pieces(self, request: Request) -> AsyncIterator[StreamItem]:
        reply = self._next(request)
        for part in reply.parts:
            for piece in _split(part):
                yield piece
                await _let_others_run()
        yield reply

    def _next(self, request: Request) -> Reply:
        turn = len(self.requests)
        if turn >= len(self._steps):
            raise OffScript(f"The run needs step {turn + 1}, but the script has only {turn}.")
        self.requests.append(request)
        said, name = self._steps[turn], f"step {turn + 1}"
        if callable(said):
            said = _read(said(request), f"What {name} of the script returned")
        reply = _reply(said, request, name)
        return replace(reply, usage=self._usage) if self._usage and not reply.usage.total else reply

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.check()

    def check(self) -> None:
        """Raise OffScript if steps were not used."""
        left = len(self._steps) - len(self.requests)
        if left:
            raise OffScript(f"{left} of {len(self._steps)} steps of the script were not used.")


def _split(part: object) -> list[StreamItem]:
    """Return a part of a reply in a provider's stream fragments."""
    if isinstance(part, Call):
        texts = _PIECES.findall(str(part.args))  # JSON text: see _send
        return [*[ArgsDelta(part.id, part.name, text) for text in texts], part]
    if isinstance(part, Text | Reasoning):
        thought = isinstance(part, Reasoning)
        return [Delta(word, thought) for word in _WORDS.findall(part.text)]
    return []


async def _let_others_run() -> None:
    """Let other tasks run for a few event loop rounds."""
    for _ in range(_ROUNDS):
        await checkpoint()


class _Answer(NamedTuple):
    """A typed answer, as JSON."""

    value: Any
    type: str


def _is_function(step: object) -> TypeGuard[Callable[[Request], Said]]:
    return callable(step) and not isinstance(step, type) and not _is_answer(step)


def _is_answer(said: object) -> bool:
    if isinstance(said, Mapping | float | int):
        return True
    kind = type(said)
    is_own = kind.__module__.partition(".")[0] == "handrail"
    is_named = hasattr(kind, "model_fields") or hasattr(kind, "_fields")
    return (is_dataclass(kind) or is_named) and not is_own


def _read(said: Any, name: str) -> str | Exception | Reply | _Answer | tuple[str | Call, ...]:
    """Return a turn in one of few forms. Raises TypeError for any other value."""
    if isinstance(said, str | Exception | Reply):
        return said
    if isinstance(said, Call):
        return (said,)
    if _is_answer(said):
        from pydantic_core import to_jsonable_python  # noqa: TID251  few scripts have answers

        return _Answer(to_jsonable_python(said), type(said).__name__)
    kind = f"the class {said.__name__}" if isinstance(said, type) else f"a {type(said).__name__}"
    if isinstance(said, type) or not isinstance(said, Iterable):
        raise TypeError(_NO_TURN.format(name, kind))
    given: Iterable[Any] = said  # pyright: ignore[reportUnknownVariableType]
    parts = tuple(given)
    for part in parts:
        if not isinstance(part, str | Call):
            raise TypeError(_NO_TURN.format(name, f"{kind} with a {type(part).__name__} in it"))
    return parts


def _reply(said: Any, request: Request, name: str) -> Reply:
    if isinstance(said, Exception):
        raise said
    if isinstance(said, Reply):
        return replace(said, parts=tuple(_send(part) for part in said.parts))
    if isinstance(said, _Answer):
        if request.tools.find(_FINAL) is None:
            raise OffScript(_NO_OUTPUT.format(name, said.type))
        said = (Call(_FINAL, {"answer": said.value}, name.replace(" ", "-")),)
    given = [said] if isinstance(said, str) else said
    parts = tuple(Text(part) if isinstance(part, str) else _send(part) for part in given)
    calls = any(isinstance(part, Call) for part in parts)
    return Reply(parts, "calls" if calls else "end")


def _send(part: _Part) -> _Part:
    """Return a reply's part as a model sends it: a call's arguments as JSON text."""
    if isinstance(part, Call) and not isinstance(part.args, str):
        return replace(part, args=json.dumps(dict(part.args), ensure_ascii=False))
    return part


_FINAL = "final_answer"
_NO_TURN = (
    "{} is {}. Use text, a Call, a list of both, a Reply, an exception, a function "
    "that returns one of these, or an instance of the agent's output type."
)
_NO_OUTPUT = (
    "In the script, {0} is an answer of type {1}, but the run expects text. Pass the type to the "
    "agent: `Agent(..., output={1})`."
)
