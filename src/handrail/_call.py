"""One request from a model, and its arguments once they have been checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handrail._json import canonical


@dataclass(frozen=True, slots=True)
class Call:
    """One request from a model: a tool's name, its arguments as a mapping or JSON text, an id."""

    name: str
    args: Mapping[str, Any] | str
    id: str


@dataclass(frozen=True, slots=True)
class Args:
    """Arguments that passed: typed values for the function, and the JSON they came from."""

    values: Mapping[str, Any]
    """What the function is called with; parameters that were left out are not in it."""
    text: str
    """The JSON text that was accepted, after any repair."""
    repairs: tuple[str, ...] = ()
    """What had to be mended, in words for the model."""

    @property
    def canonical(self) -> bytes:
        """The arguments as bytes that do not depend on key order or white space."""
        return canonical(json.loads(self.text))
