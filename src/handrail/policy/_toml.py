"""Rules as TOML text, for those that are written by a program: remembered or imported ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, time
from typing import Any

from handrail.policy._shapes import is_list, is_table


def rules_text(tables: Iterable[Mapping[str, Any]]) -> str:
    """Rule tables as a file has them."""
    return "\n".join(map(rule_text, tables))


def rule_text(table: Mapping[str, Any]) -> str:
    """One rule as a file has it, under its ``[[rule]]``."""
    lines = [f"{_key(name)} = {_value(value)}" for name, value in table.items()]
    return "\n".join(["[[rule]]", *lines, ""])


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _text(name)


def _value(value: Any) -> str:
    if is_table(value):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if is_list(value):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)  # also what is no number
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(value: str) -> str:
    """A text in quotes, with what nobody sees written out."""
    return '"' + "".join(map(_letter, value)) + '"'


def _letter(one: str) -> str:
    if one in '"\\':
        return f"\\{one}"
    return one if one.isprintable() else f"\\U{ord(one):08X}"
