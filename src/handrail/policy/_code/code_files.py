"""Which workspace files does a shell line run?

Every word naming an existing file counts, wherever the shell would look for it, and so do files
read by task runners. Their imports matter as well, at any depth. A file too many costs a review. A
missing one would run unseen, so an unknown program may run any file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from glob import glob
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from handrail._support.private_files import read_file
from handrail.policy._code.imports import Imports, is_code, language_of
from handrail.policy._code.loaded import find_loaded
from handrail.policy._code.programs import KnownPrograms
from handrail.policy._code.runners import (
    config_patterns,
    describe_unknown,
    find_modules,
    program_folders,
    read_scripts,
    runs_everything,
)
from handrail.policy._shell.rough import ReadLine, read_line
from handrail.policy._shell.wrappers import (
    SHELLS,
    program_name,
    runs_others,
    runs_text,
)

_MAX_FOLDERS = 64
_MAX_WORDS = 2_000
_MAX_MATCHES = 200
"""Maximum files matching one pattern."""
_MAX_LEVELS = 4
"""Nesting depth for package.json scripts running others."""
_MAX_IMPORTING = 500
"""Files whose imports are followed."""
_MAX_IMPORTING_BYTES = 5_000_000
_MAX_LOOKUPS = 20_000
"""Words, each counted for every folder in which it may name a file."""
_SEARCHED = ("PATH", "CDPATH", "PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERL5LIB")
"""Variables with folders in which programs and modules are found."""
_HARMLESS = {"?": "0", "$": "1", "#": "0", "!": "1", "IFS": " "}
_PROGRAM = re.compile(r"[@\w][@\w./-]*")
"""A program or package name."""
_PYTHON_PATH = "PYTHONPATH"
_TOO_MANY = "it names too many files"
_TOO_LARGE = "its code imports too many files"


@dataclass(frozen=True, slots=True)
class CodeFiles:
    """The workspace files run by a shell line. All paths are absolute, in real folders."""

    named: tuple[Path, ...] = ()
    """Files whose names are in the line."""
    found: tuple[Path, ...] = ()
    """Files and folders run without being named, such as a Makefile or a module."""
    elsewhere: tuple[Path, ...] = ()
    """Files outside the workspace whose names are in the line."""
    unknown: str = ""
    """Why it may run other workspace files, too; empty if these are all."""

    @property
    def all(self) -> tuple[Path, ...]:
        """All files and folders in the workspace."""
        return tuple(dict.fromkeys((*self.named, *self.found)))


def find_code_files(
    line: str,
    workspace: Path,
    *,
    folder: Path | None = None,
    variables: Mapping[str, str] | None = None,
    installed: bool = False,
) -> CodeFiles:
    """Return the workspace files a shell line runs, as of now.

    Files that Python, JavaScript, TypeScript and shell code imports or runs are found too, if its
    text names them. Computed names and imports of packages are not followed.

    Args:
        line: The line, as `sh -c` gets it. Join a list of arguments with ``shlex.join``.
        workspace: The folder whose files matter.
        folder: Where the line runs; by default in the workspace.
        variables: Its environment variables; by default those of this process.
        installed: Whether a program outside the workspace that is not known runs no workspace
            code. By default, it may run any file.
    """
    start = workspace if folder is None else folder
    given = os.environ if variables is None else variables
    values = {**given, **_HARMLESS, "PWD": str(start)}
    search = _Search(Path(os.path.realpath(workspace)), values, installed=installed)
    search.read(line, [Path(os.path.realpath(start))])
    search.follow()
    return CodeFiles(
        tuple(search.named), tuple(search.found), tuple(search.elsewhere), search.unknown
    )


class _Importing(NamedTuple):
    """A file whose imports are followed."""

    path: Path
    folders: tuple[Path, ...]
    """Where it finds Python modules."""


@dataclass(slots=True)
class _Search:
    root: Path
    variables: Mapping[str, str]
    named: dict[Path, None] = field(default_factory=dict[Path, None])
    found: dict[Path, None] = field(default_factory=dict[Path, None])
    elsewhere: dict[Path, None] = field(default_factory=dict[Path, None])
    unknown: str = ""
    folders: dict[Path, None] = field(default_factory=dict[Path, None])
    """Folders for code to run in."""
    python_path: dict[Path, None] = field(default_factory=dict[Path, None])
    lookups: int = 0
    installed: bool = False

    def read(self, line: str, folders: Sequence[Path], level: int = 0) -> None:
        """Add the files of a line running in one of these folders."""
        read = read_line(line, self.variables)
        self._note(read.unknown)
        reached = self._add_line(read, folders, level)
        for argv in read.programs:
            self._note(describe_unknown(argv))
        self._judge(line, read, reached)

    def read_script(self, text: str, folders: Sequence[Path]) -> None:
        """Add a shell script's files, reading unknown values as empty."""
        read = read_line(text, self.variables)
        self._add_line(read, folders, 1)
        for argv in filter(runs_everything, read.programs):
            self._note(describe_unknown(argv))

    def follow(self) -> None:
        """Add the files imported by the code found so far, at any depth."""
        imports, size = Imports(), 0
        seen: set[_Importing] = set()
        waiting = list(self._importing((*self.named, *self.found)))
        while waiting and not self.unknown:  # then, it is refused, with all its imports
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            content = _read_text(one.path)
            size += len(content)
            if len(seen) > _MAX_IMPORTING or size > _MAX_IMPORTING_BYTES:
                self._note(_TOO_LARGE)
            waiting += self._follow_one(one, content, imports)

    def _follow_one(
        self, one: _Importing, content: bytes, imports: Imports
    ) -> Iterator[_Importing]:
        """Add the files imported by one file. Yields those with relevant imports."""
        language = language_of(one.path, content)
        if language == "shell":
            yield from self._follow_script(one, content)
            return
        loaded: Iterable[Path] = ()
        if language == "python":
            loaded = imports.of_python(one.path, content, one.folders)
        elif language == "javascript":
            loaded = imports.of_javascript(one.path, content)
        try:
            found = [_package_of(Path(os.path.realpath(path))) for path in loaded]
        except ValueError:
            self._note(f"`{one.path.name}` is not valid Python")
            return
        self._add_inside(found)
        for path in found:
            inner = self._importing([path])
            yield from (_Importing(more.path, one.folders) for more in inner)

    def _follow_script(self, one: _Importing, content: bytes) -> Iterator[_Importing]:
        script = _Search(self.root, self.variables, lookups=self.lookups, installed=self.installed)
        script.read_script(content.decode(errors="replace"), [one.path.parent, *self.folders])
        self._note(script.unknown)
        self.lookups = script.lookups
        self.folders |= script.folders
        self.python_path |= script.python_path
        self._add_inside(script.found)
        yield from self._importing(script.found)

    def _importing(self, paths: Iterable[Path]) -> Iterator[_Importing]:
        """Yield the files at these paths with possible imports. Packages are not followed."""
        for path in (Path(os.path.realpath(path)) for path in paths):
            inside = path.is_relative_to(self.root) and path.relative_to(self.root).parts
            if not inside or "node_modules" in inside:
                continue
            folders = (path.parent, *self.python_path)
            if path.is_file():
                yield _Importing(path, folders)
            for above, _, names in os.walk(path):
                files = (Path(above, name) for name in names)
                yield from (_Importing(file, (path, *folders)) for file in files if is_code(file))

    def _add_line(self, read: ReadLine, folders: Sequence[Path], level: int) -> Sequence[Path]:
        """Add the files named by a line's words. Return the folders it may run in."""
        words = list(islice(dict.fromkeys(self._spellings(read)), _MAX_WORDS + 1))
        folders = self._reach(words, folders)
        if len(words) > _MAX_WORDS or not self._may_reach(folders):
            self._note(_TOO_MANY)
            return ()
        self.folders |= dict.fromkeys(folders)
        for folder in folders:
            for word in words:
                self._add_named(folder, word, level)
            for argv in read.commands:
                self._add_found(argv, folder, folders, level)
            for path in self._python_path(read):
                self.python_path |= dict.fromkeys(self._match(folder, path))
        return folders

    def _python_path(self, read: ReadLine) -> Iterator[str]:
        """Yield the folder names on Python's module path."""
        start = f"{_PYTHON_PATH}="
        words = (word for argv in read.commands for word in argv if word.startswith(start))
        set_by_line = (word.removeprefix(start) for word in words)
        given = self.variables.get(_PYTHON_PATH, "")
        for value in (given, *read.assigned.get(_PYTHON_PATH, ()), *set_by_line):
            yield from value.split(":")

    def _judge(self, line: str, read: ReadLine, folders: Sequence[Path]) -> None:
        """Add files loaded by options, and note an unknown program."""
        loaded = find_loaded(read, folders, self.variables, list(self.named))
        self._add_inside(map(_package_of, loaded))
        known = KnownPrograms(
            self.root, folders, self.variables, self._match, installed=self.installed
        )
        self._note(known.describe_line(line, read))

    def _note(self, reason: str) -> None:
        self.unknown = self.unknown or reason

    def _spellings(self, read: ReadLine) -> Iterator[str]:
        """Yield everything in a line that may be a file or folder name."""
        yield from read.inputs
        yield from self._searched_folders()
        for values in read.assigned.values():
            for value in values:
                yield from value.split(":")
        for argv in read.commands:
            for word in argv:
                yield from (word, word.rpartition("=")[2], word.lstrip("@"), word[2:])
                if read.unknown:  # a folder's value may be missing before it
                    yield word.lstrip("/")
            if program_name(argv[0]) in {"cd", "pushd"} and len(argv) == 1:
                yield "~"

    def _searched_folders(self) -> Iterator[str]:
        """Yield the workspace folders searched for programs and modules."""
        for name in _SEARCHED:
            for path in self.variables.get(name, "").split(":"):
                real = Path(os.path.realpath(self.root / path))
                if path and real.is_relative_to(self.root):
                    yield path

    def _reach(self, words: Sequence[str], start: Sequence[Path]) -> list[Path]:
        """Return the folders commands may run in, or look for programs in.

        A line can change its folder again and again, so each folder is tried from each other one.
        """
        reached = dict.fromkeys(start)
        waiting = list(start)
        while waiting and self._may_reach(reached):
            self.lookups += len(words)
            folder = waiting.pop()
            further = [
                self._above(folder),
                *(path for word in words for path in self._match(folder, word)),
            ]
            for path in further:
                if path is not None and path not in reached and path.is_dir():
                    reached[path] = None
                    waiting.append(path)
        return list(reached)

    def _may_reach(self, folders: Collection[Path]) -> bool:
        return len(folders) <= _MAX_FOLDERS and self.lookups <= _MAX_LOOKUPS

    def _above(self, folder: Path) -> Path | None:
        """Return the folder above, where some runners look, too."""
        inside = folder != self.root and folder.is_relative_to(self.root)
        return folder.parent if inside else None

    def _add_named(self, folder: Path, word: str, level: int) -> None:
        """Add the files named by a word, and the whole package for one in node_modules."""
        matches = self._match(folder, word)
        if len(matches) > _MAX_MATCHES:
            self._note(_TOO_MANY)
            return
        for path in filter(Path.is_file, matches):
            real = path.resolve()
            if not real.is_relative_to(self.root):
                self.elsewhere[path] = None
            elif level or _package_of(real) != real:
                self._add_inside([_package_of(real)])
            else:
                self.named[path] = None

    def _add_found(
        self, argv: tuple[str, ...], folder: Path, folders: Sequence[Path], level: int
    ) -> None:
        """Add workspace files a command runs without naming them."""
        for pattern in config_patterns(argv):
            self._add_inside(self._match(folder, pattern))
        for module in find_modules(argv):
            top = module.partition(".")[0]
            self._add_inside([*self._match(folder, top), *self._match(folder, f"{top}.py")])
        for inner in program_folders(argv):
            for word in filter(_PROGRAM.fullmatch, argv[1:]):
                self._add_inside(
                    _package_of(path.resolve()) for path in self._match(folder, f"{inner}/{word}")
                )
        if _runs_folders(argv) and not any(find_modules(argv)):
            self._add_inside(
                path for word in argv[1:] for path in self._match(folder, word) if path.is_dir()
            )
        for line in read_scripts(argv, folder):
            if level >= _MAX_LEVELS:
                self._note("its scripts run other scripts")
            else:
                self.read(line, [*folders, folder / "node_modules/.bin"], level + 1)

    def _match(self, folder: Path, word: str) -> list[Path]:
        """Return the existing paths a word may name, from a folder."""
        if not word or "\0" in word:
            return []
        home = self.variables.get("HOME", "/")
        paths = [re.sub(r"^~(?=/|$)", lambda _: home, word)]
        if any(sign in word for sign in "*?["):
            with suppress(ValueError):
                paths += islice(glob(paths[0], root_dir=folder), _MAX_MATCHES + 1)  # noqa: PTH207  absolute, too
        found: list[Path] = []
        for path in paths:
            with suppress(OSError, ValueError):
                whole = _keep_last_link(os.path.join(folder, path))  # noqa: PTH118  keeps `..`
                found += [whole] if whole.exists() else []
        return found

    def _add_inside(self, paths: Iterable[Path]) -> None:
        for path in (Path(os.path.realpath(path)) for path in paths):
            if path == self.root:
                self._note("it runs the whole workspace as a program")
            elif path.is_relative_to(self.root) and self.found.keys().isdisjoint(path.parents):
                self.found[path] = None


def _read_text(path: Path) -> bytes:
    """Return a file's content, or nothing if it cannot be read, so it cannot get trust."""
    try:
        return read_file(path)
    except OSError:
        return b""


def _runs_folders(argv: tuple[str, ...]) -> bool:
    """Return whether a command is an interpreter running a folder with a main file."""
    name = program_name(argv[0])
    return runs_others(name) and name not in SHELLS and runs_text((name,))


def _keep_last_link(path: str) -> Path:
    """Return a path with its folders' links resolved, but not its own."""
    folder, name = os.path.split(path.rstrip("/"))
    if name in {"", ".", ".."}:
        return Path(os.path.realpath(path))
    return Path(os.path.realpath(folder), name)


def _package_of(path: Path) -> Path:
    """Return the folder of a program's package, or else the path itself."""
    for above in (path, *path.parents):
        owner = above.parent
        if owner.name == "node_modules" and not above.name.startswith((".", "@")):
            return above
        if owner.name.startswith("@") and owner.parent.name == "node_modules":
            return above
    return path
