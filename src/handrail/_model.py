"""The seat of the model: what it is asked, and the shape of what answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal, NamedTuple, TypeAlias

from handrail._errors import HandrailError
from handrail._message import Message, Piece, Reply
from handrail._toolset import Toolset

Trouble: TypeAlias = Literal["unreachable", "refused", "busy", "other"]
"""Why a model gave no reply: nobody there, no right to ask, too much asked, or all else."""


class ModelFailed(HandrailError):
    """A model gave no reply."""

    def __init__(self, message: str, trouble: Trouble = "other") -> None:
        super().__init__(message)
        self.trouble: Trouble = trouble


class Request(NamedTuple):
    """What a model is asked: to go on from here, with these tools at hand."""

    messages: tuple[Message, ...]
    tools: Toolset = Toolset()
    system: str = ""
    max_tokens: int | None = None
    """Of the reply; the provider's own limit where it is None."""


Model: TypeAlias = Callable[[Request], AsyncIterator[Piece] | Awaitable[Reply]]
"""Replies to a request: piece by piece, with the reply at last; or with the reply alone."""
