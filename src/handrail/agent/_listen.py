"""Listening to a model: whatever it gives can be awaited, and a stream is ended in any case."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from typing import Any, TypeVar

from handrail.messages import ModelFailed, Reply

T = TypeVar("T")


async def awaited(said: Awaitable[T]) -> T:
    """A coroutine of anything that can be awaited."""
    if not hasattr(said, "__await__"):  # a model is what anybody may have written
        raise ModelFailed(f"the model gave {type(said).__name__}, which cannot be awaited")
    return await said


def reply_in(said: object, *, called_off: bool) -> Reply | None:
    """The reply that a model gave; None, where it was called off before."""
    if isinstance(said, Reply):
        return said
    if said is None and called_off:
        return None
    raise ModelFailed(f"the model gave {type(said).__name__} where a Reply was due")


async def closed(pieces: AsyncIterator[Any]) -> None:
    """End a stream, whether or not it was heard to its end: a connection may hang on it."""
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()
