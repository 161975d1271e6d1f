"""Editing a call's arguments in the person's editor."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def find_editor() -> list[str]:
    """Return the person's editor command, or an empty list."""
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        return shlex.split(named)
    except ValueError:  # a quotation mark is missing
        return []


def edit_text(editor: list[str], args: str) -> str | None:
    """Return arguments as edited by the person, or None if the editor failed."""
    folder = tempfile.mkdtemp(prefix="handrail-")
    file = Path(folder, "arguments.json")
    try:
        file.write_text(_format(args), encoding="utf-8")
        done = subprocess.run([*editor, str(file)], check=False)  # noqa: S603  the person's own
        return file.read_text(encoding="utf-8") if done.returncode == 0 else None
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        file.unlink(missing_ok=True)
        Path(folder).rmdir()


def _format(args: str) -> str:
    """Return arguments with one value on each line. Text other than JSON stays unchanged."""
    try:
        return json.dumps(json.loads(args), indent=2) + "\n"
    except (ValueError, RecursionError):
        return args


def is_json_object(text: str) -> bool:
    """Return whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
