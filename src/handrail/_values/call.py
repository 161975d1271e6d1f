"""Call: one request from a model; and its arguments once they were validated."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from handrail._values.strict_json import canonical


def _make_id() -> str:
    return f"call_{os.urandom(12).hex()}"


@dataclass(frozen=True, slots=True)
class Call:
    """One request from a model: a tool's name, its arguments as a mapping or JSON text, an id.

    Pass the id the model's API gave the call, so its result can be sent back. If you omit
    it, the call gets a random id.
    """

    name: str
    args: Mapping[str, Any] | str
    id: str = field(default_factory=_make_id)
    via: str = field(default="", repr=False)
    """The provider's program that made it, such as ``code_execution_20260120``; or empty."""


class Args(NamedTuple):
    """Valid arguments: typed values for the function, and the JSON they came from."""

    values: Mapping[str, Any]
    """The values the function is called with, without omitted parameters."""
    text: str
    """The JSON text accepted, after any repair."""
    repairs: tuple[str, ...] = ()
    """A note for the model on each repair."""

    @property
    def canonical(self) -> bytes:
        """The arguments as bytes that do not depend on key order or whitespace."""
        return canonical(json.loads(self.text))
