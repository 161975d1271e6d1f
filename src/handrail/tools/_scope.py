"""What a search is asked: in which files, for what, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, TypeAlias

Mode: TypeAlias = Literal["content", "files", "count"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search begins: a folder, held open; or one file, and the folder that it is in."""

    root: str
    """Of the workspace: a search reads nothing outside of it."""
    folder: int
    real: str
    """The path of what is searched, relative to the root; empty for the root itself."""
    file: int | None = None


@dataclass(frozen=True, slots=True)
class Scope:
    """Which of the files there are searched."""

    ignored: bool = False
    """Also those that ignore files leave out."""
    hidden: bool = False
    """Also those with a leading dot in their path."""
    git: bool = False
    """Also what git keeps for itself."""
    last: tuple[str, ...] = ()
    """Only those whose last name is like one of these."""
    type: str = ""
    """Only those of this type."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for in each file, and what is told of it."""

    pattern: str
    fixed: bool = False
    ignore_case: bool = False
    multiline: bool = False
    before: int = 0
    after: int = 0
    mode: Mode = "content"
    need: int = 250
    """Matches that are wanted."""
    most: int = 1_000
    """Matching lines that are told of one file."""
    ordered: bool = False
    """By path, which takes longer: for who will not listen to the end."""


class Line(NamedTuple):
    """One line of a file: that it matches, or stands near one that does."""

    name: str
    """The file, relative to the folder where the search began; empty between two excerpts."""
    number: int
    """Of the line. How many there are, where only that was asked for."""
    column: int
    """Where in the line a match begins, counted in bytes from 1; 0 for a line that is near."""
    text: bytes
    whole: bool = True
    """Whether the text is the whole line."""
    binary: bool = False
    """No line at all: the file matches, and is no text."""


class Ended(Enum):
    """How far a search came."""

    WHOLE = "everything was searched"
    UNREADABLE = "some files could not be opened"
    LATE = "the time was over"
    ENOUGH = "enough was found"
    LARGE = "there are too many files"
    BROKEN = "it was ended from outside"
