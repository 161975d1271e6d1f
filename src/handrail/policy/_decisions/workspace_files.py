"""Finds workspace files for rules: on disk, and in the git index."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from handrail._support.git_settings import find_git_program
from handrail.policy._decisions.git_index import (
    find_git_folder,
    has_branch,
    read_regular_file,
    read_tracked_paths,
)
from handrail.policy._rules.glob import compile_segments
from handrail.policy._rules.rule import Touch
from handrail.policy._shell.wrappers import may_expand

MAX_ENTRIES = 100_000
"""Files and folders checked. With more, the answer is "perhaps"."""
_MAX_IGNORE_BYTES = 1 << 20
_INSTALLED = frozenset(["node_modules", "site-packages", "dist-packages", ".git"])
"""Folders with other people's files: a certificate in a package is not a secret."""
_EXAMPLES = (".example", ".sample", ".template", ".dist")
"""Name endings such as ``.env.example``, for files with the form but not the secrets."""
_ANYTHING = ("", "**")
"""Last pattern segments matching every file below a folder."""
_IGNORE_FILES = frozenset([".gitignore", ".ignore", ".rgignore"])


class FilePattern:
    """Tests many paths against the resources in rules, by their last names first.

    A built-in rule's pattern skips installed packages, and examples such as ``.env.example``.
    """

    def __init__(self, touches: Sequence[Touch], *, built_in: bool = False) -> None:
        self._touches = touches
        self._skipped = _EXAMPLES if built_in else ()
        self.skipped_folders = _INSTALLED if built_in else frozenset[str]()
        paths = [touch.pattern.partition(":")[2].split("/") for touch in touches]
        folders = [("**", *path)[-2] for path in paths if path[-1] in _ANYTHING]
        self.fits_name = compile_segments(path[-1] for path in paths if path[-1] not in _ANYTHING)
        """Whether a file with this name may match by it."""
        self.fits_folder: Callable[[str], bool] = (
            compile_segments(folders) if "**" not in folders else lambda _: True
        )
        """Whether files below a folder with this name may match by it."""

    def matches(self, path: str) -> bool:
        """Return whether a path matches."""
        return not path.endswith(self._skipped) and any(
            touch.fits(f"file:{path}") for touch in self._touches
        )


class _Place(NamedTuple):
    """A file or folder on disk, relative to the workspace."""

    path: str
    dotted: bool
    """Whether a name in its path below the searched folder starts with a dot."""
    below: bool
    """Whether it is below a folder whose name may match."""


class _TooManyFilesError(Exception):
    """There are more files than are checked."""


FindHidden: TypeAlias = Callable[[], AbstractSet[str]]
"""Returns the files and folders hidden by a sandbox."""


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders above a path."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


class WorkspaceFiles:
    """The files in the folder where commands start."""

    def __init__(self, root: str | os.PathLike[str], find_hidden: FindHidden | None = None) -> None:
        self._root = Path(root)
        self._find_hidden = find_hidden

    @property
    def has_hidden(self) -> bool:
        """Whether a sandbox hides files. ``find_below`` skips them."""
        return self._find_hidden is not None

    def find_below(
        self,
        folder: str,
        pattern: FilePattern,
        *,
        dotted: bool,
        names: Sequence[str] = (),
        deep: bool = True,
    ) -> str | None:
        """Return a matching file in or below a folder; empty if there is none, None if unknown.

        Without ``dotted``, files with a leading dot in their path are skipped, unless an ignore
        file makes an exception for them. With ``names``, only files with such a name count. Without
        ``deep``, only files in the folder itself do.
        """
        skipped, ignore_files = list[str](), list(_ignore_files_above(folder))
        hidden: AbstractSet[str] | None = None
        try:
            for place in self._walk(folder, pattern, deep=deep):
                name = place.path.rpartition("/")[2]
                if name in _IGNORE_FILES:
                    ignore_files.append(place.path)
                elif names and not any(may_expand(glob, name) for glob in names):
                    continue
                elif pattern.matches(place.path):
                    hidden = self._hidden() if hidden is None else hidden
                    if hidden and not hidden.isdisjoint((place.path, *folders_above(place.path))):
                        continue
                    if dotted or not place.dotted:
                        return place.path
                    skipped.append(place.path)
        except (_TooManyFilesError, OSError, ValueError):  # a path may be too long, or invalid
            return None
        exceptions = [line for path in ignore_files for line in self._read_exceptions(path)]
        return next((path for path in skipped if _is_exception(path, exceptions)), "")

    def _hidden(self) -> AbstractSet[str]:
        return frozenset() if self._find_hidden is None else self._find_hidden()

    def find_tracked(self, pattern: FilePattern, paths: Sequence[str]) -> str | None:
        """Return a matching file tracked by git, "" if there is none, or None if unknown.

        With ``paths``, only files in or below these count.
        """
        try:
            found = find_git_folder(self._root)
            tracked = {} if found is None else read_tracked_paths(found.git / "index")
        except (OSError, ValueError):
            return None
        if tracked is None:
            return None
        wanted = tuple(os.path.normpath(path) for path in paths)
        for path in tracked:
            *folders, name = path.split("/")
            may_match = pattern.fits_name(name) or any(map(pattern.fits_folder, [".", *folders]))
            if may_match and pattern.matches(path) and _is_in(path, wanted):
                return path
        return ""

    def find_existing(self, words: Iterable[str], folders: Sequence[str]) -> frozenset[str]:
        """Return the words naming a file or a folder, in one of these workspace folders.

        A name shared with a branch means the branch.
        """
        found = find_git_folder(self._root)
        return frozenset(
            word
            for word in words
            if any(os.path.lexists(self._root / folder / word) for folder in folders)
            if found is None or not has_branch(found.git, word)
        )

    def find_git_program(self) -> str:
        """Return a repository setting with a program git may run to read."""
        found = find_git_folder(self._root)
        return "" if found is None else find_git_program(os.path.realpath(found.top))

    def _walk(self, folder: str, pattern: FilePattern, *, deep: bool) -> Iterator[_Place]:
        """Yield possibly matching files in and below a folder, and ignore files.

        Links are not followed.
        """
        top, count = os.path.normpath(folder), 0
        above = any(map(pattern.fits_folder, top.split("/")))
        waiting = [_Place("" if top == "." else top, dotted=False, below=above)]
        if (self._root / top).is_file():
            yield waiting.pop()
        while waiting:
            path, dotted, below = waiting.pop()
            entries = _list_folder(self._root / path)
            count += len(entries)
            if count > MAX_ENTRIES:
                raise _TooManyFilesError
            for entry in entries:
                name = entry.name
                inside = f"{path}/{name}" if path else name
                is_dotted = dotted or name[0] == "."
                if entry.is_dir(follow_symlinks=False):
                    if deep and name not in pattern.skipped_folders:
                        waiting.append(
                            _Place(inside, is_dotted, below or pattern.fits_folder(name))
                        )
                elif below or pattern.fits_name(name) or name in _IGNORE_FILES:
                    yield _Place(inside, is_dotted, below)

    def _read_exceptions(self, path: str) -> Iterator[str]:
        """Yield an ignore file's patterns starting with an exclamation mark."""
        file = self._root / path
        text = read_regular_file(file, _MAX_IGNORE_BYTES)
        if text is None:
            text = b"!*" if file.exists() else b""
        for line in text.decode("utf-8", "replace").split("\n"):
            if line.startswith("!"):
                yield line[1:].strip()


def _ignore_files_above(folder: str) -> Iterator[str]:
    """Yield possible ignore file paths in folders above one in the workspace."""
    for above in PurePosixPath(os.path.normpath(folder)).parents:
        yield from (f"{above}/{name}" for name in sorted(_IGNORE_FILES))


def _list_folder(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:  # removed, or not readable: then a command cannot read it either
        return []


def _is_exception(path: str, patterns: Iterable[str]) -> bool:
    """Return whether an ignore file's exception may include a path."""
    ends = [pattern.strip("/").rpartition("/")[2] for pattern in patterns]
    return any(fnmatchcase(name, end) for name in path.split("/") for end in ends)


def _is_in(path: str, folders: Sequence[str]) -> bool:
    return not folders or any(
        folder in (".", path) or path.startswith(f"{folder}/") for folder in folders
    )


def spell_folder(folder: str | os.PathLike[str] | None) -> tuple[str, ...]:
    """Return a folder's absolute paths: as spelled, and where its links lead."""
    if folder is None:
        return ()
    spelled = (os.path.abspath(folder), os.path.realpath(folder))  # noqa: PTH100  links stay
    return tuple(path for path in dict.fromkeys(spelled) if path != "/")
