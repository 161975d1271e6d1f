"""The settings file written by `handrail init`. Settings it does not ask for stay in it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from handrail._support.private_files import hold_lock, read_file, replace_file
from handrail.cli._base.exits import Halt
from handrail.cli._rules.mode import parse_toml

_HEAD = (
    "# Settings of handrail. `handrail init` writes them; you can edit them.",
    "# `handrail config show --origin` lists every setting and where it is set.",
)
_COMMENTS = {
    "model": ("# The model, as PROVIDER:NAME. `handrail models list` lists names.",),
    "base_url": ("# The address of the model's server.",),
    "key_variable": (
        "# The environment variable with the API key. The key itself is stored nowhere.",
    ),
    "mode": (
        "# The decision for calls that no rule matches: plan, ask, edits or open.",
        "# `handrail mode --help` says what each of them allows.",
    ),
}
_EXAMPLES = (
    "# More settings, each with an example:",
    '# without = ["bash"]  # tools that the model does not get',
    "# max_turns = 50  # stop a run after N replies of the model",
    '# system = "Be brief."  # the system prompt',
)
_OURS = {*_HEAD, *_EXAMPLES, *(line for lines in _COMMENTS.values() for line in lines)}
_LINE = re.compile(rf"""[ \t]*(["']?)(?:{"|".join(_COMMENTS)})\1[ \t]*=""")


class Chosen(NamedTuple):
    """The user's chosen settings. None means a setting is not in the file."""

    model: str
    base_url: str | None = None
    key_variable: str | None = None
    mode: str | None = None

    @property
    def given(self) -> dict[str, str]:
        """The settings in the file."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def store_settings(file: Path, chosen: Chosen) -> None:
    """Write the settings to a file. Only its owner can read it."""
    real = file.resolve()  # if the file is a link, it stays one
    with hold_lock(real):
        replace_file(real, _compose(file, _read(file, real), chosen).encode())


def _read(file: Path, real: Path) -> str:
    try:
        return read_file(real).decode() if real.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise _unusable(file, f"cannot read {file}: {reason}") from None


def _compose(file: Path, before: str, chosen: Chosen) -> str:
    """Return a file's new text: the chosen settings, then its other content."""
    try:
        others = {
            name: value for name, value in tomllib.loads(before).items() if name not in _COMMENTS
        }
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unusable(file, f"{file} is not valid TOML: {error}") from None
    kept = [line for line in before.splitlines() if not (line in _OURS or _LINE.match(line))]
    rest = "\n".join(kept).strip("\n")
    after = "\n".join([*_lines(chosen), *(["", rest] if rest else []), ""])
    if parse_toml(after) != {**chosen.given, **others}:
        raise _unusable(file, f"cannot change {file}: it is written in an unusual form")
    return after


def _lines(chosen: Chosen) -> Iterator[str]:
    yield from _HEAD
    for name, value in chosen.given.items():
        yield ""
        yield from _COMMENTS[name]
        yield f"{name} = {json.dumps(value)}"
    yield ""
    yield from _EXAMPLES


def _unusable(file: Path, message: str) -> Halt:
    hint = f"nothing was changed; correct {file}, or move it away, and run `handrail init` again"
    return Halt(message, code="config", hint=hint)
