"""Rules as TOML text, for rules written by handrail: remembered and imported ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, time
from typing import Any

from handrail._support import is_list, is_object


def rules_text(tables: Iterable[Mapping[str, Any]]) -> str:
    """Return rule tables as file text."""
    return "\n".join(map(rule_text, tables))


def rule_text(table: Mapping[str, Any]) -> str:
    """Return one rule as TOML, starting with ``[[rule]]``."""
    lines = [f"{_format_key(name)} = {format_value(value)}" for name, value in table.items()]
    return "\n".join(["[[rule]]", *lines, ""])


def _format_key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _quote(name)


def format_value(value: Any) -> str:
    """Return a value as TOML."""
    if is_object(value):
        pairs = (f"{_format_key(key)} = {format_value(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }" if value else "{}"
    if is_list(value):
        return "[" + ", ".join(map(format_value, value)) + "]"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)  # nan and inf too
    return _quote(value) if isinstance(value, str) else json.dumps(value)


def _quote(value: str) -> str:
    """Return a TOML string, with invisible characters escaped."""
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    if not quoted.isprintable():
        quoted = "".join(map(_escape_letter, quoted))
    return f'"{quoted}"'


def _escape_letter(letter: str) -> str:
    return letter if letter.isprintable() else f"\\U{ord(letter):08X}"
