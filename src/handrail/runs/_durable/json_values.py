"""Reject values JSON cannot represent, naming their place."""

from __future__ import annotations

import math
from typing import cast

from handrail import HandrailError


class Unserializable(HandrailError, TypeError):
    """A value cannot be recorded. The message has its path."""


def check_json(value: object, path: str) -> None:
    """Raise Unserializable for the first inner value JSON cannot represent."""
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise Unserializable(f"{path} has the key {key!r}: keys must be strings.")
            check_json(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(cast("list[object]", value)):
            check_json(item, f"{path}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Unserializable(f"{path} is {value}, which JSON cannot represent.")
    elif not isinstance(value, str | int | float | None):
        raise Unserializable(
            f"{path} is of type {type(value).__name__}, which JSON cannot represent. "
            "Pass text, numbers, lists or dicts."
        )
