"""Rule files for tests, written from tables as plainly as can be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from handrail.policy import Level, Rule, parse


def rule_file(*tables: Mapping[str, Any]) -> str:
    """Tables of strings, numbers, booleans, lists and tables of these as TOML."""
    return "".join(
        "\n".join(["[[rule]]", *(f"{json.dumps(key)} = {_value(table[key])}" for key in table), ""])
        for table in tables
    )


def read_rule(**keys: Any) -> Rule:
    """The rule that a file with these keys has."""
    [rule] = parse(rule_file(keys), file="r.toml", level=Level.USER).rules
    return rule


def _value(value: Any) -> str:
    if isinstance(value, dict):
        items = ", ".join(f"{json.dumps(key)} = {_value(value[key])}" for key in value)
        return f"{{ {items} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
