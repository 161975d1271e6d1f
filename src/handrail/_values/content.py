"""The parts of a result: text, images and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
"""A value that JSON can represent."""

EMPTY: Mapping[str, Json] = MappingProxyType({})
"""No metadata: one shared object."""

_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Text:
    """Text for the model."""

    text: str
    quoted: bool = field(default=False, kw_only=True, repr=False)
    """In a prompt: whether it quotes others, as pasted text does. Rules about sources then read it
    as a tool's text, not as the user's words."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image: its bytes and their media type."""

    data: bytes
    media_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class File:
    """A file: its bytes, their media type and its name."""

    data: bytes
    media_type: str
    name: str


Content: TypeAlias = Text | Image | File
"""A part of a prompt or a result."""


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text costs: a quarter of its characters."""
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
