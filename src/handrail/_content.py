"""The parts that a result is made of: what a model reads, looks at or is handed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
"""A value that JSON can say."""


@dataclass(frozen=True, slots=True)
class Text:
    """Words for the model."""

    text: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture, as its bytes and their media type."""

    data: bytes
    media_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class File:
    """A document, as its bytes, their media type and a name to call it by."""

    data: bytes
    media_type: str
    name: str


Content: TypeAlias = Text | Image | File


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether this is what JSON calls an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether this is what JSON calls an array."""
    return isinstance(value, list)
