"""Users for `handrail serve`: a TOML file with each user's token, rules and limits."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handrail import HandrailError
from handrail._support import is_object
from handrail._support.private_files import read_file
from handrail.cli._base.exits import Halt
from handrail.cli._project.kit import Kit

if TYPE_CHECKING:
    from handrail.mcp.gateway import CallQuota
    from handrail.policy import Rulebook

_KEYS = frozenset({"token_env", "token_file", "rules", "calls_per_minute", "running", "metrics"})
MIN_TOKEN_CHARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A server's user."""

    name: str
    token: str = field(repr=False)
    rules: Rulebook | None = None
    """All applicable rules, if some are for this user only."""
    quota: CallQuota | None = None
    metrics: bool = False
    """Whether it may read the metrics, which name all servers and tools."""


def list_named_files(file: Path) -> list[Path]:
    """Return a file of users and the files that it names. One that cannot be read has none."""
    try:
        whole: Any = tomllib.loads(read_file(file).decode())
    except (OSError, ValueError):
        return [file]
    entries: Any = whole.get("principals", {})
    tables: list[Any] = list(entries.values()) if is_object(entries) else []
    named = [one.get(key) for one in tables if is_object(one) for key in ("rules", "token_file")]
    return [file, *(file.parent / name for name in named if isinstance(name, str))]


def read_principals(file: Path, kit: Kit) -> tuple[Principal, ...]:
    """Return the users named in a file, or a Halt if something in it cannot be used."""
    try:
        whole: Any = tomllib.loads(read_file(file).decode())
        entries: Any = whole.get("principals", {})
        if not is_object(entries) or not entries or set(whole) != {"principals"}:
            raise ValueError("it must have tables [principals.NAME], and nothing else")  # noqa: TRY301
        found = tuple(_Entry(name, entry, file, kit).read() for name, entry in entries.items())
        if len({one.token for one in found}) < len(found):
            raise ValueError("two principals have the same token")  # noqa: TRY301
    except (OSError, ValueError, HandrailError) as error:
        raise Halt(f"{file}: {error}", code="config", hint="see `handrail serve --help`") from None
    return found


class _Entry:
    """One table in the file."""

    def __init__(self, name: str, entry: Any, file: Path, kit: Kit) -> None:
        self._name = name
        self._entry: Mapping[str, Any] = entry if is_object(entry) else {"": entry}
        self._file = file
        self._kit = kit

    def read(self) -> Principal:
        unknown = sorted(set(self._entry) - _KEYS)
        if unknown or not self._name:
            known = ", ".join(sorted(_KEYS))
            raise self._fail(f"unknown key {unknown[0]!r}; use {known}" if unknown else "no name")
        return Principal(
            name=self._name,
            token=self._token(),
            rules=self._rules(),
            quota=self._quota(),
            metrics=self._flag("metrics"),
        )

    def _token(self) -> str:
        variable, path = self._text("token_env"), self._text("token_file")
        if bool(variable) == bool(path):
            raise self._fail("it needs either token_env or token_file")
        if variable:
            token = os.environ.get(variable, "")
        else:
            token = read_file(self._file.parent / path).decode().strip()
        if len(token) < MIN_TOKEN_CHARS:
            where = f"the variable {variable}" if variable else path
            raise self._fail(f"the token in {where} has less than {MIN_TOKEN_CHARS} characters")
        return token

    def _rules(self) -> Rulebook | None:
        path = self._text("rules")
        if not path:
            return None
        from handrail.policy import Level, parse, strictest

        text = read_file(self._file.parent / path).decode()
        read = parse(text, file=path, level=Level.USER)
        book = self._kit.load_rules()
        for rule in read.rules:
            book.add(rule)
        if read.mode is not None:
            book.set_mode(strictest(book.mode, read.mode))
        return book

    def _quota(self) -> CallQuota | None:
        calls, running = self._number("calls_per_minute"), self._number("running")
        if calls is None and running is None:
            return None
        from handrail.mcp.gateway import CallQuota

        return CallQuota(calls=calls, running=running)

    def _text(self, key: str) -> str:
        value = self._entry.get(key, "")
        if not isinstance(value, str):
            raise self._fail(f"{key} must be a string")
        return value

    def _flag(self, key: str) -> bool:
        value = self._entry.get(key, False)
        if not isinstance(value, bool):
            raise self._fail(f"{key} must be true or false")
        return value

    def _number(self, key: str) -> int | None:
        value = self._entry.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self._fail(f"{key} must be a whole number of at least 1")
        return value

    def _fail(self, problem: str) -> ValueError:
        return ValueError(f"principal {self._name!r}: {problem}")
