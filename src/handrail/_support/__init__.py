"""Small modules for any package. They import nothing else from handrail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable
    from logging import Logger
    from typing import Any, TypeGuard, TypeVar

    T = TypeVar("T")


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value from JSON or TOML is an object, which TOML calls a table."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value from JSON or TOML is a list."""
    return isinstance(value, list)


def get_log() -> Logger:
    """Return handrail's logger. A program that only defines tools does not load logging."""
    from logging import getLogger

    return getLogger("handrail")


async def close_generator(given: AsyncIterable[Any]) -> None:
    """Close an async generator. Leaves other iterables alone."""
    if isinstance(given, AsyncGenerator):
        await given.aclose()


async def stream_items(answer: AsyncIterator[T] | Awaitable[T]) -> AsyncGenerator[T]:
    """Yield a model's stream items, or its reply. Closes the stream at the end."""
    if not isinstance(answer, AsyncIterator):
        yield await answer
        return
    try:
        async for item in answer:
            yield item
    finally:
        await close_generator(answer)
