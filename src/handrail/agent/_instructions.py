"""Instructions: the ``AGENTS.md`` files of a workspace, for the head of a prompt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from handrail.agent._files import (
    MOST_PATH,
    Gone,
    NotRead,
    Place,
    Remark,
    Rule,
    Trusted,
    Untrusted,
    agreed,
    content,
    folder,
    nobody,
    text_of,
)
from handrail.agent._wrap import has_tags, one_line, unseen, wrapped

MOST_BYTES = 65_536
"""Of all files together; models pay for each of them in every turn."""
MOST_FOLDERS = 32
"""From the folder upwards, and the root."""

_HEAD = (
    "These instructions come from files of the workspace. Where two of them differ, the later one "
    "counts, since it is closer to the work. What the user says counts more than any of them."
)


@dataclass(frozen=True, slots=True)
class Instructions:
    """What the files say, as a model is told it, and what there is to tell the user of them."""

    text: str = ""
    """For the head of a prompt; empty where nothing was read."""
    files: tuple[str, ...] = ()
    """Which files it comes from, the strongest last."""
    untrusted: tuple[Untrusted, ...] = ()
    """What was found and not read, since nobody trusts it as it is now."""
    remarks: tuple[Remark, ...] = ()


def read_instructions(
    root: Place,
    within: Place = "",
    *,
    trusted: Trusted = nobody,
    names: Sequence[str] = ("AGENTS.md",),
    most: int = MOST_BYTES,
) -> Instructions:
    """Read the instructions that hold in a folder of a workspace, from the root down to it.

    Args:
        root: The workspace.
        within: Where the work is done, relative to the root.
        trusted: Whether a user has looked at this content of this file. Without a yes nothing of
            a file is read into the text.
        names: What the files are called; in each folder the first that is there counts.
        most: Bytes of all files together. Those closest to the work come first.
    """
    search = _Search(root, trusted, most)
    for path in _downwards(within)[::-1]:
        search.look(path, names)
    return search.done()


class _Search:
    """From the folder upwards: what is closest has the first claim on the room."""

    def __init__(self, root: Place, trusted: Trusted, room: int) -> None:
        self._root = os.path.realpath(root, strict=True)
        self._trusted = trusted
        self._room = room
        self._texts: list[tuple[str, str]] = []
        self._untrusted: list[Untrusted] = []
        self._remarks: list[Remark] = []

    def look(self, path: str, names: Sequence[str]) -> None:
        for name in names:
            file = f"{path}/{name}".lstrip("/")
            try:
                with folder(self._root, path) as within:
                    data = content(within, name, self._room)
                self._take(file, data)
            except Gone:
                continue
            except NotRead as reason:
                self._remark(file, "left out", str(reason))
            break

    def done(self) -> Instructions:
        texts = self._texts[::-1]
        tagged = [wrapped("instructions", text, file=file) for file, text in texts]
        return Instructions(
            text="\n\n".join([_HEAD, *tagged]) if tagged else "",
            files=tuple(file for file, _ in texts),
            untrusted=tuple(self._untrusted[::-1]),
            remarks=tuple(self._remarks[::-1]),
        )

    def _take(self, file: str, data: bytes) -> None:
        if not agreed(self._trusted, file, data):
            self._untrusted.append(Untrusted(file, data))
            self._remark(file, "untrusted", "it is not trusted as it is now, and was not read")
            return
        text = text_of(data).replace("\r\n", "\n").strip("\n")
        self._room -= len(data)
        self._texts.append((file, text))
        if hidden := unseen(text):
            self._remark(file, "unseen", f"it holds characters that cannot be seen: {hidden}")
        if has_tags(text):
            self._remark(file, "escaped", "it holds tags like those around it; they are escaped")

    def _remark(self, file: str, rule: Rule, message: str) -> None:
        self._remarks.append(Remark(one_line(file, MOST_PATH), rule, message))


def _downwards(within: Place) -> list[str]:
    """The folders on the way down, the root first; of a long way its end, and the root."""
    path = PurePosixPath(os.fspath(within))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{os.fspath(within)!r} is no path relative to the workspace")
    ways = ["/".join(path.parts[:depth]) for depth in range(len(path.parts) + 1)]
    return [ways[0], *ways[1:][-MOST_FOLDERS:]]
