"""Writes a file that must not exist yet."""

from __future__ import annotations

import os
from pathlib import Path

from handrail.cli._base.exits import Exit, Halt


def write_new_file(path: Path, text: str, other: str) -> int:
    """Write a new file only its owner can read, and return its size in bytes.

    ``other`` says how to choose another file, for hints.
    """
    content = text.encode(errors="surrogateescape")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        hint = f"{other}, or delete this one"
        raise Halt(f"{path} already exists", code="exists", hint=hint) from None
    except OSError as error:
        raise Halt(
            f"cannot write {path}: {error.strerror}",
            code="unwritable",
            hint=other,
            exits=Exit.FAILED,
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return len(content)
