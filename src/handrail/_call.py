"""One request from a model, and its arguments once they have been checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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


# A frozen dataclass sets its fields by name, at twice the price; every call makes one of these.
_new = object.__new__
_set_values: Callable[[Args, Mapping[str, Any]], None] = vars(Args)["values"].__set__
_set_text: Callable[[Args, str], None] = vars(Args)["text"].__set__
_set_repairs: Callable[[Args, tuple[str, ...]], None] = vars(Args)["repairs"].__set__


def unmended(values: Mapping[str, Any], text: str) -> Args:
    """Arguments that needed no repair, made fast."""
    made = _new(Args)
    _set_values(made, values)
    _set_text(made, text)
    _set_repairs(made, ())
    return made
