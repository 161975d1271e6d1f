"""Completes commands and their choices, and workspace ``@files`` anywhere."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from heapq import nsmallest
from itertools import islice

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from handrail.cli._input.lines import Choices, Commands, Files, Tree
from handrail.cli._screen.rows import safe_line

_MAX_COMPLETIONS = 100
_TREE_SECONDS = 5.0
"""How long a file list is reused."""
_FILE = re.compile(r"(?:^|\s)@(\S*)\Z")
_COMMAND = re.compile(r"/\S*")
_PICKED = re.compile(r"/([a-z]+) ([^\n]*)\Z")


class ChatCompleter(Completer):
    """Completes what is before the cursor."""

    def __init__(self) -> None:
        self._commands: Commands = tuple
        self._files: Files = lambda _folder: ()
        self._tree: Tree = tuple
        self.choices: Choices = lambda _command: ()
        """What commands choose from. Each conversation sets its own."""
        self._all: Sequence[str] = ()
        self._listed_at = float("-inf")

    def show(self, commands: Commands, files: Files, tree: Tree) -> None:
        """Set what there is to complete. It is not known when the input is drawn first."""
        self._commands, self._files, self._tree = commands, files, tree
        self._listed_at = float("-inf")

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002  part of the interface
    ) -> Iterator[Completion]:
        """Yield replacements for the word before the cursor."""
        text = document.text_before_cursor
        if found := _FILE.search(text):
            yield from islice(self._find_files(found[1]), _MAX_COMPLETIONS)
        elif picked := _PICKED.fullmatch(text):
            yield from self._pick(picked[1], picked[2])
        elif _COMMAND.fullmatch(text):
            for name, summary in self._commands():
                if name.startswith(text):
                    yield Completion(name, -len(text), display_meta=safe_line(summary))

    def _pick(self, command: str, typed: str) -> Iterator[Completion]:
        """Yield a command's choices with all typed words."""
        words = typed.lower().split()
        for choice in islice(self.choices(command), _MAX_COMPLETIONS):
            text = f"{choice.value} {choice.label} {choice.about}".lower()
            if all(word in text for word in words):
                yield Completion(
                    choice.value,
                    -len(typed),
                    display=safe_line(choice.label),
                    display_meta=safe_line(choice.about),
                )

    def _find_files(self, path: str) -> Iterator[Completion]:
        """Yield the names in the typed folder, then matching files anywhere."""
        folder, slash, begun = path.rpartition("/")
        shown: set[str] = set()
        for name, is_folder in self._sorted(folder):
            is_wanted = begun.startswith(".") or not name.startswith(".")
            if name.startswith(begun) and is_wanted and _is_typed(name):
                spelled = f"{folder}{slash}{name}{'/' * is_folder}"
                shown.add(spelled)
                yield Completion(spelled, -len(path), display=f"@{spelled}")
        for name in find_fuzzy(path, self._list_tree()) if begun else ():
            if name not in shown and _is_typed(name):
                yield Completion(name, -len(path), display=f"@{name}")

    def _list_tree(self) -> Sequence[str]:
        if time.monotonic() - self._listed_at > _TREE_SECONDS:
            self._all, self._listed_at = self._tree(), time.monotonic()
        return self._all

    def _sorted(self, folder: str) -> Sequence[tuple[str, bool]]:
        return sorted(self._files(folder), key=lambda entry: (not entry[1], entry[0]))


def find_fuzzy(typed: str, paths: Iterable[str]) -> list[str]:
    """Return the paths with these letters in this order, the best match first.

    The start of a file's name is better than its middle, then the middle of a path, then letters
    apart. A shorter path is better than a longer one.
    """
    small = typed.lower()
    ranked = (
        (_rank(path.lower(), small), len(path), path)
        for path in paths
        if _has_in_order(path.lower(), small)
    )
    return [path for _, _, path in nsmallest(_MAX_COMPLETIONS, ranked)]


def _has_in_order(path: str, typed: str) -> bool:
    """Return whether a path has these letters in this order, with others between them."""
    rest = iter(path)
    return all(letter in rest for letter in typed)


def _rank(path: str, typed: str) -> int:
    at = path.rpartition("/")[2].find(typed)
    return 0 if not at else 1 if at > 0 else 2 if typed in path else 3


def _is_typed(name: str) -> bool:
    """Return whether a user can have typed a name: no spaces, nothing hidden."""
    return safe_line(name) == name and " " not in name
