"""What the steps share: the environment of commands, the log, outputs, and secrets."""

from __future__ import annotations

import os
import re
import secrets
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

MAX_OUTPUT_CHARS = 100_000
"""Characters of one output. GitHub accepts 1 MB from a whole job."""
_RUNNER_FILES = {f"GITHUB_{name}" for name in ("ENV", "OUTPUT", "PATH", "STATE", "STEP_SUMMARY")}
_SECRET_NAME = re.compile(r"(?i).*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS)")
_MIN_SECRET_CHARS = 8
_UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Categories of characters that are not visible, or that change how others are shown."""


def child_environment(**more: str) -> dict[str, str]:
    """Return the variables for handrail: no inputs, no files or tokens of the runner."""
    dropped = ("ACTIONS_", "ACTION_BIN", "INPUT_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(dropped) and name not in _RUNNER_FILES
    }
    return kept | more


def printable(text: str) -> str:
    """Return text whose characters are all visible: others are escapes, except line breaks."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(
        f"\\u{{{ord(one):x}}}"
        if unicodedata.category(one) in _UNSAFE and one not in "\n\t"
        else one
        for one in lines
    )


# a runner obeys its log, and models write text from strangers: decision 099
def log(text: str) -> None:
    """Print one line that the runner cannot read as a command: `::name::` or `##[name]`."""
    line = " ".join(printable(text).split())
    print(line.replace("::", ": :").replace("##[", "# #["), flush=True)


def redact(value: Any) -> Any:
    """Return a value of JSON without the secrets of this process's environment."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: redact(one) for name, one in members.items()}
        case list():
            return [redact(one) for one in cast("Sequence[Any]", value)]
        case str():
            for secret in _secrets():
                value = value.replace(secret, "***")
            return value
        case _:
            return value


def _secrets() -> list[str]:
    key = os.environ.get("INPUT_KEY_VARIABLE", "")
    found = {
        value
        for name, value in os.environ.items()
        if (_SECRET_NAME.fullmatch(name) or name == key) and len(value) >= _MIN_SECRET_CHARS
    }
    return sorted(found, key=len, reverse=True)  # one can be part of another


def write_outputs(values: dict[str, str]) -> None:
    """Set outputs of the step. No value can end itself and set another output."""
    end = f"end-{secrets.token_hex(16)}"
    clipped = {name: clip(value, MAX_OUTPUT_CHARS) for name, value in values.items()}
    text = "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in clipped.items())
    append("GITHUB_OUTPUT", text)


def append(variable: str, text: str) -> None:
    """Append text to a file of the runner."""
    with Path(os.environ[variable]).open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)


def clip(text: str, most: int) -> str:
    """Return the start of a text that is too long, and say so."""
    return (
        text if len(text) <= most else f"{text[:most]}\n[{len(text) - most:,} characters left out]"
    )
