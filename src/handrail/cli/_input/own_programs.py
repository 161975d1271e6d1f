"""The user's editor and pager."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def find_editor() -> list[str]:
    """Return the user's editor command, or none."""
    return split_command(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")


def split_command(named: str) -> list[str]:
    """Return a command's words, or none if it cannot be read."""
    try:
        return shlex.split(named)
    except ValueError:  # a quotation mark is missing
        return []


def edit_text(editor: list[str], text: str, name: str = "message.md") -> str | None:
    """Return a text as the person left it in the editor; None if the editor failed."""
    with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
        file = Path(folder, name)
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*editor, str(file)], check=False)  # noqa: S603  the person's own
            after = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
    return after.rstrip("\n") if done.returncode == 0 else None
