"""Receive a model's reply: check what it returns, and close its stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any, TypeVar

from handrail.messages import ModelError, Reply

T = TypeVar("T")


async def await_any(answer: Awaitable[T]) -> T:
    """Await a model's return value. Raises ModelError if it cannot be awaited."""
    if not hasattr(answer, "__await__"):  # a custom model may return anything
        raise ModelError(
            f"The model returned {type(answer).__name__}. "
            "A model must return an awaitable Reply or an async iterator."
        )
    return await answer


def expect_reply(answer: object, *, cancelled: bool) -> Reply | None:
    """Return a model's reply, or None if the model was cancelled before it replied."""
    if isinstance(answer, Reply):
        return answer
    if answer is None and cancelled:
        return None
    raise ModelError(f"The model returned {type(answer).__name__} instead of a Reply.")


async def close_stream(pieces: AsyncIterator[Any]) -> None:
    """Close a stream, even if it was not read to its end: it may hold a connection open."""
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()
