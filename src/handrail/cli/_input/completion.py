"""Completes ``/commands`` at the start of a message, and ``@files`` of the workspace anywhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from handrail.cli._screen.rows import safe_line

Commands: TypeAlias = Callable[[], Iterable[tuple[str, str]]]
"""Returns the commands of the chat, each with a summary: ``("/help", "show this list")``."""
Files: TypeAlias = Callable[[str], Iterable[tuple[str, bool]]]
"""Takes a folder, and returns the names in it that may be shown, and which of them are folders."""
_MAX_COMPLETIONS = 100
_FILE = re.compile(r"(?:^|\s)@(\S*)\Z")
_COMMAND = re.compile(r"/\S*")


class ChatCompleter(Completer):
    """Completes what is before the cursor."""

    def __init__(self, commands: Commands, files: Files) -> None:
        self._commands = commands
        self._files = files

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002  part of the interface
    ) -> Iterator[Completion]:
        """Yield what can stand instead of the word before the cursor."""
        text = document.text_before_cursor
        if found := _FILE.search(text):
            yield from islice(self._find_files(found[1]), _MAX_COMPLETIONS)
        elif _COMMAND.fullmatch(text):
            for name, summary in self._commands():
                if name.startswith(text):
                    yield Completion(name, -len(text), display_meta=safe_line(summary))

    def _find_files(self, path: str) -> Iterator[Completion]:
        folder, slash, begun = path.rpartition("/")
        for name, is_folder in self._sorted(folder):
            is_wanted = begun.startswith(".") or not name.startswith(".")
            if name.startswith(begun) and is_wanted and _is_typed(name):
                spelled = f"{folder}{slash}{name}{'/' * is_folder}"
                yield Completion(spelled, -len(path), display=f"@{spelled}")

    def _sorted(self, folder: str) -> Sequence[tuple[str, bool]]:
        return sorted(self._files(folder), key=lambda entry: (not entry[1], entry[0]))


def _is_typed(name: str) -> bool:
    """Return whether a name is one that a person can have typed: no spaces, nothing hidden."""
    return safe_line(name) == name and " " not in name
