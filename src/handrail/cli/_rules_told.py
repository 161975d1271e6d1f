"""Rules in words: for programs as data, for people on one line."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from handrail.approvals import displayed
from handrail.cli._rules_shapes import is_list, is_table
from handrail.policy import Level, Rule

NAMING = ("tools", "tags", "effects", "access", "command", "flags", "operands", "args")
"""The keys of a rule that say which calls it means."""
LEVELS: Mapping[Level, str] = {
    Level.BUILT_IN: "built in",
    Level.MANAGED: "managed",
    Level.USER: "user",
    Level.PROJECT: "project",
    Level.RUN: "run",
}


def told(rule: Rule) -> dict[str, Any]:
    """A rule as data."""
    return {
        "id": rule.origin.rule,
        "decides": rule.decide,
        "names": named(rule),
        "level": LEVELS[rule.level],
        "file": rule.origin.file,
        "line": rule.origin.line,
        "reason": rule.reason,
        "expires": rule.expires.isoformat() if rule.expires is not None else None,
        "expired": not rule.counts(datetime.now(UTC)),
        "remembered": rule.remembered,
    }


def named(rule: Rule) -> dict[str, Any]:
    """Which calls a rule means, by the keys that it is written with."""
    written = tomllib.loads(rule.text)["rule"][0]
    return {key: _plain(written[key]) for key in NAMING if key in written}


def _plain(value: Any) -> Any:
    """A value of TOML as JSON has it; what JSON has no word for, as text."""
    if is_table(value):
        return {key: _plain(one) for key, one in value.items()}
    if is_list(value):
        return [_plain(one) for one in value]
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def in_words(names: Mapping[str, Any]) -> str:
    """What a rule names, on one line."""
    return "; ".join(f"{key} {_words(value)}" for key, value in names.items())


def _words(value: Any) -> str:
    if is_list(value):
        return ", ".join(" ".join(one) if is_list(one) else _words(one) for one in value)
    if is_table(value):
        return ", ".join(f"{key} {_words(one)}" for key, one in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def one_line(text: object) -> str:
    """Text from outside on one line, safe to show."""
    return displayed(str(text)).text.replace("\n", "\\u{A}")


def short(file: str | Path, workspace: Path) -> str:
    """A path as people write it: from the workspace, or from their home."""
    path = Path(file)
    for above, begins in ((workspace, ""), (Path.home(), "~/")):
        if path.is_relative_to(above):
            return one_line(f"{begins}{path.relative_to(above)}")
    return one_line(path)


def place(file: str, line: int, workspace: Path) -> str:
    """A file and line for people."""
    return f"{short(file, workspace)}:{line}" if line else short(file, workspace)


def joined(words: Iterable[str]) -> str:
    """Several words as one phrase: a, b and c."""
    several = list(words)
    return " and ".join(filter(None, [", ".join(several[:-1]), *several[-1:]]))


def counted(number: int, what: str) -> str:
    """So many of something."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
