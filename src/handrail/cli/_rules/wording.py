"""Rules as output: JSON data for programs, one line for people."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from handrail._support import is_list, is_object
from handrail.cli._base.printable import short
from handrail.policy import Level, Rule

NAMING = ("tools", "tags", "effects", "access", "command", "flags", "operands", "args")
"""A rule's keys for choosing its calls."""
LEVELS: Mapping[Level, str] = {
    Level.BUILT_IN: "built in",
    Level.MANAGED: "managed",
    Level.USER: "user",
    Level.PROJECT: "project",
    Level.RUN: "run",
}


def describe_rule(rule: Rule) -> dict[str, Any]:
    """Return a rule as a JSON document."""
    return {
        "id": rule.origin.rule,
        "decides": rule.decide,
        "names": rule_conditions(rule),
        "level": LEVELS[rule.level],
        "file": rule.origin.file,
        "line": rule.origin.line,
        "reason": rule.reason,
        "expires": rule.expires.isoformat() if rule.expires is not None else None,
        "expired": not rule.is_active(datetime.now(UTC)),
        "remembered": rule.remembered,
    }


def rule_conditions(rule: Rule) -> dict[str, Any]:
    """Return a rule's conditions, by the keys in its file."""
    written = tomllib.loads(rule.text)["rule"][0]
    return {key: _plain(written[key]) for key in NAMING if key in written}


def _plain(value: Any) -> Any:
    """Convert a TOML value to JSON; values unknown to JSON become strings."""
    if is_object(value):
        return {key: _plain(part) for key, part in value.items()}
    if is_list(value):
        return [_plain(part) for part in value]
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def in_words(names: Mapping[str, Any]) -> str:
    """Return a rule's conditions on one line."""
    return "; ".join(f"{key} {_words(value)}" for key, value in names.items())


def _words(value: Any) -> str:
    if is_list(value):
        return ", ".join(" ".join(part) if is_list(part) else _words(part) for part in value)
    if is_object(value):
        return ", ".join(f"{key} {_words(part)}" for key, part in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def place(file: str, line: int, workspace: Path) -> str:
    """Return a file and line, for people."""
    return f"{short(file, workspace)}:{line}" if line else short(file, workspace)


def join_words(words: Iterable[str]) -> str:
    """Join words into a phrase: a, b and c."""
    several = list(words)
    return " and ".join(filter(None, [", ".join(several[:-1]), *several[-1:]]))
