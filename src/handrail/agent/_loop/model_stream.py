"""Wait for a model: check what it returns, close its stream, and stop it in time."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar, get_args

import anyio

from handrail._support import close_generator
from handrail.agent._loop.spending import Spending
from handrail.messages import (
    ArgsDelta,
    Delta,
    Model,
    ModelError,
    Reply,
    Request,
    Restart,
    Stop,
    collect,
)

T = TypeVar("T")
USE_COMPACTION = "To shorten long conversations, pass `compaction=Compaction(window=...)`."
Waits: TypeAlias = Callable[[Callable[[], None]], None]
"""Gets a function for cancelling the model, when the model has to wait."""
Show: TypeAlias = Callable[[Delta | ArgsDelta | Restart], None]
"""Gets each streamed piece."""
_STOPS: tuple[str, ...] = get_args(Stop)
_KNOWN_STOPS = f"It must be one of {', '.join(map(repr, _STOPS))}."


async def await_any(answer: Awaitable[T]) -> T:
    """Await a model's return value. Raises ModelError if it cannot be awaited."""
    if not hasattr(answer, "__await__"):  # a custom model may return anything
        raise ModelError(
            f"The model returned {type(answer).__name__}. "
            "A model must return an awaitable Reply or an async iterator."
        )
    return await answer


async def settle(value: T | Awaitable[T], wait: Waits) -> T | None:
    """Return your application's value, awaited if it must be.

    Returns None if the run was stopped in the meantime.
    """
    return await collect(await_any(value), wait) if inspect.isawaitable(value) else value


def expect_reply(answer: object, *, cancelled: bool) -> Reply | None:
    """Return a model's reply, or None if the model was cancelled before it replied."""
    if isinstance(answer, Reply):
        if answer.stop not in _STOPS:
            raise ModelError(f"The model returned Reply(stop={answer.stop!r}). {_KNOWN_STOPS}")
        return answer
    if answer is None and cancelled:
        return None
    raise ModelError(f"The model returned {type(answer).__name__} instead of a Reply.")


async def ask(
    model: Model, request: Request, wait: Waits, show: Show | None = None
) -> Reply | None:
    """Return the reply to a request, or None if the model was cancelled.

    ``show`` gets each streamed piece.
    """
    answer = model(request)
    if not isinstance(answer, AsyncIterator):
        return expect_reply(await collect(await_any(answer), wait), cancelled=True)
    try:
        while True:
            piece = await collect(await_any(anext(answer, None)), wait)
            if piece is None or isinstance(piece, Reply):
                return expect_reply(piece, cancelled=True)
            if show is not None and isinstance(piece, Delta | ArgsDelta | Restart):
                show(piece)
    finally:
        with anyio.CancelScope(shield=True):
            await close_generator(answer)


class _AskingRun(Protocol):
    spending: Spending

    def wait_for_model(self, cancel: Callable[[], None]) -> None: ...


async def ask_for_summary(run: _AskingRun, model: Model, request: Request) -> str:
    """Return the summary a request asks for. The tools stay, so a cache is used."""
    reply = await ask(model, request, run.wait_for_model)
    if reply is None:
        return ""
    run.spending.add(reply.usage, reply.model)
    return reply.text if reply.stop == "end" else ""


async def run_within(
    seconds: float, work: Callable[[], Awaitable[T]], stop: Callable[[], None]
) -> T:
    """Run work, and stop it when the time is over. Its exceptions are raised unchanged."""
    done: list[T] = []
    failed: list[Exception] = []

    async def stop_later() -> None:
        await anyio.sleep(seconds)
        stop()

    async with anyio.create_task_group() as group:
        group.start_soon(stop_later)
        try:
            done.append(await work())
        except Exception as error:  # noqa: BLE001  raised below, outside the group
            failed.append(error)
        group.cancel_scope.cancel()
    if failed:
        raise failed[0]
    return done[0]
