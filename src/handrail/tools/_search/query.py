"""A search's values: in which files, for what, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

OutputMode: TypeAlias = Literal["content", "files", "count"]


@dataclass(frozen=True, slots=True)
class SearchPlace:
    """Where a search starts: an open folder, or one open file and the workspace folder."""

    root: str
    """The workspace's root. A search reads nothing outside it."""
    folder: int
    real: str
    """The path searched, relative to the root; empty for the root itself."""
    file: int | None = None


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Which files are searched."""

    ignored: bool = False
    """Whether to include files that .gitignore and similar exclude."""
    hidden: bool = False
    """Whether to include files with a leading dot in their path."""
    git: bool = False
    """Whether to include the .git folder."""
    last: tuple[str, ...] = ()
    """Simple patterns: only files whose name matches one of them."""
    type: str = ""
    """Only files of this type."""


@dataclass(frozen=True, slots=True)
class Query:
    """The pattern to search for in each file, and the matches to return."""

    pattern: str
    fixed: bool = False
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    mode: OutputMode = "content"
    max_matches: int = 250
    """Matches to return."""
    max_file_matches: int = 1_000
    """Matching lines to return of one file."""
    ordered: bool = False
    """Whether to search files in the order of their paths, which is slower."""
    binary: bool = False
    """Whether to search binary files too, and no file that is large."""


class SearchLine(NamedTuple):
    """A matching line of a file, or a line of its context."""

    name: str
    """The file, relative to the folder where the search started; empty between two excerpts."""
    number: int
    """The number of the line; in the mode "count", the number of matching lines."""
    column: int
    """Where the match starts, in bytes from 1; 0 for a line of context."""
    text: bytes
    whole: bool = True
    """Whether the text is the whole line."""
    binary: bool = False
    """Whether this is not a line, but a binary file that matches."""


class SearchEnd(Enum):
    """How a search ended."""

    WHOLE = "everything was searched"
    UNREADABLE = "some files could not be opened"
    LATE = "it timed out"
    ENOUGH = "enough was found"
    BROKEN = "it was killed"
