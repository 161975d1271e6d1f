"""Parses patches in the format V4A, as written by OpenAI models.

A patch adds, updates, moves and deletes files. An update has hunks: lines that stay, lines to
remove and lines to add, after lines that say where to look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from handrail import ToolFailed

_BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_END_OF_FILE = "*** End of File"
_ADD = "*** Add File: "
_UPDATE = "*** Update File: "
_DELETE = "*** Delete File: "
_MOVE = "*** Move to: "
_ANCHOR = "@@"
_OPERATIONS = (_ADD, _UPDATE, _DELETE)
_MAX_FILES = 100
_MAX_HUNKS = 200


@dataclass(slots=True)
class Hunk:
    """One hunk: the lines it expects and the lines it leaves."""

    anchors: list[str] = field(default_factory=list[str])
    """Lines before the change, from the outside in; the change follows the last one."""
    old: list[str] = field(default_factory=list[str])
    new: list[str] = field(default_factory=list[str])

    @property
    def is_empty(self) -> bool:
        """Whether it has no lines, only anchors."""
        return not self.old and not self.new


@dataclass(frozen=True, slots=True)
class AddFile:
    """Create a file."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete a file."""

    path: str


@dataclass(frozen=True, slots=True)
class UpdateFile:
    """Change a file, and move it if ``target`` is not empty."""

    path: str
    hunks: tuple[Hunk, ...]
    target: str = ""


def parse_patch(text: str) -> list[AddFile | DeleteFile | UpdateFile]:
    """Return a patch's operations. Raises ToolFailed if it is not one."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].rstrip() != _BEGIN or lines[-1].rstrip() != _END:
        raise ToolFailed(f"Not patched: a patch starts with {_BEGIN!r} and ends with {_END!r}.")
    body = lines[1:-1]
    starts = [at for at, line in enumerate(body) if line.startswith(_OPERATIONS)]
    if not starts or starts[0] != 0:
        raise ToolFailed(
            "Not patched: the first line must be '*** Add File: PATH', '*** Update File: PATH' or "
            "'*** Delete File: PATH'."
        )
    if len(starts) > _MAX_FILES:
        raise ToolFailed(f"Not patched: the patch changes more than {_MAX_FILES} files.")
    operations = [_parse_file(body[a:b]) for a, b in pairwise([*starts, len(body)])]
    _check_paths(operations)
    return operations


def list_paths(operation: AddFile | DeleteFile | UpdateFile) -> list[str]:
    """Return the paths an operation changes."""
    moved = [operation.target] if isinstance(operation, UpdateFile) and operation.target else []
    return [operation.path, *moved]


def _check_paths(operations: Iterable[AddFile | DeleteFile | UpdateFile]) -> None:
    seen = set[str]()
    for path in (path for operation in operations for path in list_paths(operation)):
        if path in seen:
            raise ToolFailed(f"Not patched: {path!r} occurs twice. Put its changes in one section.")
        seen.add(path)


def _parse_file(lines: list[str]) -> AddFile | DeleteFile | UpdateFile:
    head, *rest = lines
    kind = next(start for start in _OPERATIONS if head.startswith(start))
    path = head[len(kind) :].strip()
    if kind == _ADD:
        wrong = next((line for line in rest if not line.startswith("+")), None)
        if wrong is not None:
            raise ToolFailed(
                f"Not patched: a line of the new file {path!r} lacks its '+': {wrong!r}."
            )
        return AddFile(path, "".join(f"{line[1:]}\n" for line in rest))
    if kind == _DELETE:
        if any(line.strip() for line in rest):
            raise ToolFailed(f"Not patched: no lines can follow '*** Delete File: {path}'.")
        return DeleteFile(path)
    target = ""
    if rest and rest[0].startswith(_MOVE):
        target = rest.pop(0)[len(_MOVE) :].strip()
    hunks = tuple(_parse_hunks(path, rest))
    if not hunks and not target:
        raise ToolFailed(f"Not patched: the update of {path!r} has no changes.")
    return UpdateFile(path, hunks, target)


def _parse_hunks(path: str, lines: list[str]) -> Iterator[Hunk]:
    hunk, count = Hunk(), 0
    for line in lines:
        if line.startswith(_ANCHOR):
            if not hunk.is_empty:
                yield hunk
                hunk, count = Hunk(), count + 1
            hunk.anchors += filter(None, [line[len(_ANCHOR) :].strip().removesuffix("@@").strip()])
        elif line.rstrip() != _END_OF_FILE:
            _add_line(path, hunk, line)
        if count > _MAX_HUNKS:
            raise ToolFailed(f"Not patched: {path!r} has more than {_MAX_HUNKS} hunks.")
    if not hunk.is_empty:
        yield hunk


def _add_line(path: str, hunk: Hunk, line: str) -> None:
    mark, text = line[:1] or " ", line[1:]
    if mark not in (" ", "-", "+"):
        raise ToolFailed(
            f"Not patched: a line in the update of {path!r} starts with neither ' ', '-' nor '+': "
            f"{line!r}."
        )
    if mark != "+":
        hunk.old.append(text)
    if mark != "-":
        hunk.new.append(text)
