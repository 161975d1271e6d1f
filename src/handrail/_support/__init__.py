"""Small modules for any package. They import nothing else from handrail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable
    from logging import Logger
    from typing import Any, TypeGuard, TypeVar

    T = TypeVar("T")

_MINUTE, _MAX_DURATION = 60, 1_000 * 86_400.0


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


def format_duration(seconds: float, *, words: bool = False) -> str:
    """Return a duration in at most eight columns, as ``1m 30s``, or as ``1 minute 30 seconds``."""
    tenths = round(seconds, 1)
    if tenths < _MINUTE:
        if words:
            return f"{tenths:g} second{'s' * (tenths != 1)}"
        return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{tenths:.1f} s"
    if not seconds < _MAX_DURATION:  # or not a number
        return "years"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    amounts = (hours // 24, "day"), (hours % 24, "hour"), (minute, "minute"), (second, "second")
    first = next(at for at, (number, _) in enumerate(amounts) if number)
    shown = [(number, unit) for number, unit in amounts[first : first + 2] if number]
    if words:
        return " ".join(f"{number} {unit}{'s' * (number != 1)}" for number, unit in shown)
    return " ".join(f"{number:02}{unit[0]}" for number, unit in shown).lstrip("0")


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
