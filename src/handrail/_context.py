"""The few run-time things that a tool may ask for, by naming a parameter's type ``Context``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from handrail._access import Access


def _unheard(_words: str) -> None: ...


def _unended(_end: Callable[[], Awaitable[None]]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a tool may know of the call it serves. Never shown to a model, never filled by one."""

    call_id: str
    idempotency_key: str
    """The same for every attempt at one call, also after a restart: hand it to what you call."""
    attempt: int = 1
    accesses: tuple[Access, ...] = ()
    """What the call said that it would touch, and was judged by: a tool can hold itself to it."""
    progress: Callable[[str], None] = _unheard
    """Tell whoever watches how far it is. A model never sees it. Safe to call from any thread."""
    at_close: Callable[[Callable[[], Awaitable[None]]], None] = _unended
    """Hand over how to end what goes on after the call: it is awaited when the executor closes."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> NoReturn:
        """A model must never be able to make one up."""
        raise TypeError("a Context comes from the executor. Take it as a parameter of its own")
