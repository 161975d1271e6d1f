"""The files of a workspace that the commands of hooks name.

Hooks run outside the sandbox. Each of these files must be trusted, with exactly its content.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

FOLDERS = ("HANDRAIL_PROJECT_DIR", "CLAUDE_PROJECT_DIR")
"""Variables that hold the workspace's path."""


def find_files(command: str, workspace: Path) -> Iterator[Path]:
    """Yield the files of a workspace that a command names."""
    for variable in FOLDERS:
        command = command.replace(f"${{{variable}}}", str(workspace))
        command = command.replace(f"${variable}", str(workspace))
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote: the shell will not run it either
        words = command.split()
    root = workspace.resolve()
    spellings = [part for word in words for part in (word, word.rpartition("=")[2]) if part]
    for spelling in dict.fromkeys(spellings):
        path = Path(os.path.normpath(workspace / spelling))
        with suppress(OSError, ValueError):
            if path.is_file() and path.resolve().is_relative_to(root):
                yield path
