"""Earlier chats' messages, in a file only the user can read: one JSON text per line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from handrail._support.private_files import make_private_folder, read_file, replace_file

_MAX_MESSAGES = 1_000
_MAX_CHARS = 20_000
"""Longest message to keep."""
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC


class SavedHistory(History):
    """Messages in a file. Without the file, they last as long as the chat."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def load_history_strings(self) -> Iterable[str]:
        """Return the messages, the last one first."""
        with suppress(OSError):
            lines = read_file(self._file).splitlines()
            if len(lines) > 2 * _MAX_MESSAGES:
                replace_file(self._file, b"".join(b"%s\n" % x for x in lines[-_MAX_MESSAGES:]))
            return list(reversed(_read(lines[-_MAX_MESSAGES:])))
        return []

    def store_string(self, string: str) -> None:
        """Add a message to the file."""
        if len(string) > _MAX_CHARS:
            return
        with suppress(OSError):
            make_private_folder(self._file.parent)
            handle = os.open(self._file, _APPEND, 0o600)
            try:
                os.fchmod(handle, 0o600)
                os.write(handle, f"{json.dumps(string)}\n".encode())
            finally:
                os.close(handle)


def _read(lines: Sequence[bytes]) -> list[str]:
    messages: list[str] = []
    for line in lines:
        with suppress(ValueError, RecursionError):  # another program wrote it
            message = json.loads(line)
            if isinstance(message, str):
                messages.append(message)
    return messages
