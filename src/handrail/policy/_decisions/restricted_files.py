"""Finds workspace files that rules deny or ask about, for the sandbox to restrict.

A program reads and writes files its command does not name. So a command's text alone cannot enforce
rules about files: the sandbox hides the files, or holds them read-only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from handrail import READ, WRITE, Access, Effect, Spec
from handrail.policy._decisions.git_index import TrackedFiles
from handrail.policy._decisions.hard_links import find_hard_links
from handrail.policy._decisions.opinions import command_accesses
from handrail.policy._decisions.reach import Reach
from handrail.policy._decisions.recursion import GuardedFiles, find_unnamed_reads
from handrail.policy._decisions.safeguards import find_name_readers
from handrail.policy._decisions.tool_rules import SHELL_TAG
from handrail.policy._decisions.workspace_files import MAX_ENTRIES, FilePattern, folders_above
from handrail.policy._rules.index import CommandIndex
from handrail.policy._rules.rule import Level, Rule, Touch
from handrail.policy._rules.shell_command import Usable, match_commands, read_shell_command
from handrail.policy._shell.wrappers import may_expand

Restriction: TypeAlias = Literal["hidden", "read-only"]
_EVERYTHING = frozenset(["*", "file:", "file:**", "file:**/*"])
"""Patterns matching every file. If a sandbox hid everything, no command could run."""
_SETTLED_NS = 2_000_000_000
"""A recently changed folder is listed again: file system clocks are coarse."""


class RuleFiles:  # a program opens files its command does not name: decision 047
    """The files restricted by rules, in one folder or several."""

    def __init__(self, rules: tuple[Rule, ...], shell: Iterable[str]) -> None:
        self.rules = rules
        specs = [_shell_spec(name) for name in sorted(shell) or ["bash"]]
        about_files = [rule for rule in rules if rule.touches and rule.decide != "allow"]
        self._of_shell = [rule for rule in about_files if any(map(rule.concerns, specs))]
        self._commands = CommandIndex(rule for rule in rules if rule.commands)
        self._folders: dict[str, RestrictedFiles] = {}

    def find_restricted(
        self, folder: str | os.PathLike[str], command: str, usable: Usable, *, searched: bool
    ) -> dict[str, Restriction]:
        """Return the files in a folder that a command may not read or change.

        ``searched`` says whether a command reading a whole folder needed approval.
        """
        parsed = read_shell_command(command)
        matched = match_commands(parsed.simple or (), self._commands, usable)
        kinds = ("tracked files", "history")
        found = find_unnamed_reads(parsed, matched)
        reads = tuple(read for read in found if searched or read.files in kinds)
        names = find_name_readers(parsed)  # they need no approval, so others do not see the file
        others = names if not names.issuperset(parsed.possible) else frozenset[tuple[str, ...]]()
        shown = command_accesses(parsed, matched, others)
        named = _NamedFiles(shown, reads)
        return self._in_folder(folder).find(named, frozenset(filter(usable, self._of_shell)))

    def find_asked(self, folder: str | os.PathLike[str], usable: Usable) -> set[str]:
        """Return files in a folder whose reading needs approval under these rules."""
        return self._in_folder(folder).find_asked(frozenset(filter(usable, self.rules)))

    def _in_folder(self, folder: str | os.PathLike[str]) -> RestrictedFiles:
        real = os.path.realpath(folder)
        if real not in self._folders:
            self._folders[real] = RestrictedFiles(real, self.rules)
        return self._folders[real]


class _NamedFiles(NamedTuple):
    """The files a command names, and those it reads without naming them."""

    accesses: Sequence[Access] = ()
    reads: Sequence[Reach] = ()


class _Folder(NamedTuple):
    """A folder, relative to the workspace."""

    path: str
    below: bool
    """Whether its name, or the name of a folder above it, may match."""


class _Listing(NamedTuple):
    """A folder's entries at listing time."""

    state: tuple[int, int]
    """Its inode, and when it last changed."""
    settled: bool
    """Whether a later change would certainly change its time."""
    size: int
    """The entry count."""
    folders: tuple[_Folder, ...]
    files: tuple[str, ...]
    """Paths of possibly matching files."""


@dataclass(frozen=True, slots=True)
class _FileRule:
    """Files restricted by a rule in one way."""

    rule: Rule
    restriction: Restriction
    touches: tuple[Touch, ...]
    pattern: FilePattern
    whole: tuple[Touch, ...]
    """Those matching everything in a folder."""

    @property
    def built_in(self) -> bool:
        return self.rule.level is Level.BUILT_IN

    def covers(self, folder: str) -> bool:
        """Return whether everything in a folder matches, whatever its name is."""
        return any(touch.fits(f"file:{folder}/\x1f") for touch in self.whole)

    def matches(self, path: str) -> bool:
        """Return whether a file matches."""
        skipped = self.pattern.skipped_folders
        return self.pattern.matches(path) and (
            not skipped or skipped.isdisjoint(path.split("/")[:-1])
        )


class RestrictedFiles:
    """The files in one workspace restricted by some rules. Unchanged folders are listed once."""

    def __init__(self, root: str, rules: Iterable[Rule]) -> None:
        self._root = root
        guards = [guard for rule in rules for guard in _guards_of(rule)]
        self._guards = sorted(guards, key=lambda guard: guard.restriction, reverse=True)
        """Guards hiding files come last, and override the others."""
        touches = [touch for guard in guards for touch in guard.touches]
        self._any = FilePattern(touches, built_in=all(guard.built_in for guard in guards))
        in_git = any(".git" in re.split("[:/]", touch.pattern) for touch in touches)
        self._skipped = self._any.skipped_folders | (frozenset[str]() if in_git else {".git"})
        self._known: dict[str, _Listing] = {}
        self._tracked = TrackedFiles(self._root)

    def find(self, named: _NamedFiles, active: frozenset[Rule]) -> dict[str, Restriction]:
        """Return the files restricted by these rules, except those approved for use.

        If a rule asks about a file named by a command, the command runs only with approval.
        """
        guards = [guard for guard in self._guards if guard.rule in active]
        folders, files = self._walk() if guards else ([], [])
        restricted: dict[str, Restriction] = {}
        for guard in guards:
            approved = _Approved(guard, named, self._tracked)
            whole = set(_find_whole(guard, folders, approved))
            restricted |= dict.fromkeys(whole, guard.restriction)
            matches = self._find_matches(guard, files, approved)
            outside = (path for path in matches if not _is_below(path, whole))
            restricted |= dict.fromkeys(outside, guard.restriction)
        return restricted | find_hard_links(self._root, restricted)

    def find_asked(self, active: frozenset[Rule]) -> set[str]:
        """Return files whose reading needs approval under these rules."""
        guards = [
            guard
            for guard in self._guards
            if guard.restriction == "hidden" and guard.rule.decide == "ask" and guard.rule in active
        ]
        files = self._walk()[1] if guards else []
        return {path for path in files if any(guard.matches(path) for guard in guards)}

    def _find_matches(
        self, guard: _FileRule, files: Sequence[str], approved: _Approved
    ) -> Iterator[str]:
        for path in files:
            if guard.matches(path) and not approved.has(path) and not self._is_known(guard, path):
                yield path

    def _is_known(self, guard: _FileRule, path: str) -> bool:
        """Return whether programs can read a file from git anyway."""
        return guard.built_in and self._tracked.has_content(path)

    def _walk(self) -> tuple[list[str], list[str]]:
        """Return all folders, and possibly matching files: those in the upper folders first.

        If there are too many, the others are missing.
        """
        count, listings = 0, dict[str, _Listing]()
        files: list[str] = []
        waiting = [_Folder("", self._any.fits_folder("."))]
        for folder in waiting:  # grows while it is read
            listing = self._list(folder) if count <= MAX_ENTRIES else None
            if listing is not None:
                listings[folder.path] = listing
                count += listing.size
                files += listing.files
                waiting += listing.folders
        self._known = listings
        return [folder.path for folder in waiting[1:]], files

    def _list(self, folder: _Folder) -> _Listing | None:
        """Return what is in a folder; None if it is gone or cannot be read."""
        path, below = folder
        real = f"{self._root}/{path}"
        try:
            about = os.lstat(real)
            state = about.st_ino, about.st_ctime_ns
            known = self._known.get(path)
            if known is not None and known.settled and known.state == state:
                return known
            settled = time.time_ns() - about.st_ctime_ns > _SETTLED_NS
            with os.scandir(real) as scanned:
                entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scanned]
        except OSError:
            return None
        above = f"{path}/" if path else ""
        fits_name, fits_folder = self._any.fits_name, self._any.fits_folder
        return _Listing(
            state,
            settled,
            len(entries),
            tuple(
                _Folder(above + name, below or fits_folder(name))
                for name, is_folder in entries
                if is_folder and name not in self._skipped
            ),
            tuple(
                above + name
                for name, is_folder in entries
                # a link may be named like a folder
                if not is_folder and (below or fits_name(name) or fits_folder(name))
            ),
        )


class _Approved:
    """A rule's files for whose use a command was approved."""

    def __init__(self, guard: _FileRule, named: _NamedFiles, tracked: TrackedFiles) -> None:
        asks, hides = guard.rule.decide == "ask", guard.restriction == "hidden"
        met = [
            access.resource.removeprefix("file:").removeprefix(f"{tracked.root}/")
            for access in named.accesses
            if asks and (hides or access.verb != READ)
            if any(
                touch.meets(access) or touch.may_name(access.resource.removeprefix("file:"))
                for touch in guard.rule.touches
            )
        ]
        self._named = frozenset(met)
        self._globs = [name for name in met if set(name) & set("*?[")]
        self._reads = named.reads if asks and hides else ()
        self._tracked = tracked

    def has(self, path: str) -> bool:
        """Return whether a file may be used."""
        if self._named and not self._named.isdisjoint([path, *folders_above(path)]):
            return True
        if any(_is_match(path, name) for name in self._globs):
            return True
        return any(self._includes(read, path) for read in self._reads)

    def has_inside(self, folder: str) -> bool:
        """Return whether a folder, or something in it, may be used."""
        return bool(self._reads or self._globs) or any(
            name == folder or name.startswith(f"{folder}/") or folder.startswith(f"{name}/")
            for name in self._named
        )

    def _includes(self, read: Reach, path: str) -> bool:
        """Return whether a command needed approval because it reads this file too."""
        tops = [os.path.normpath(top) for top in read.paths or (".",)]
        rest = [_below(path, top) for top in tops]
        if read.files == "names":
            return False
        if read.files in ("tracked files", "history"):
            return any(rest) and self._tracked.has_path(path)
        name = path.rpartition("/")[2]
        if read.names and not any(may_expand(glob, name) for glob in read.names):
            return False
        dotted = read.files == "files"
        return any(
            part and (dotted or "/." not in f"/{part}") and (read.deep or "/" not in part)
            for part in rest
        )


def _shell_spec(name: str) -> Spec:
    """Return what rules see in a tool for shell commands."""
    schema = {"type": "object", "properties": {"command": {"type": "string"}}}
    return Spec(
        name=name,
        description="Run a command.",
        input_schema=schema,
        effect=Effect.DESTROY,
        tags=frozenset([SHELL_TAG]),
    )


def _guards_of(rule: Rule) -> Iterator[_FileRule]:
    """Yield what a rule restricts: reading, which hides files, and writing."""
    verbs: tuple[tuple[Effect, Restriction], ...] = ((READ, "hidden"), (WRITE, "read-only"))
    for verb, restriction in verbs:
        guarded = GuardedFiles.of(rule, verb)
        touches = guarded.touches if guarded is not None else ()
        narrow = tuple(touch for touch in touches if touch.pattern not in _EVERYTHING)
        if narrow:
            built_in = rule.level is Level.BUILT_IN
            whole = tuple(
                touch for touch in narrow if not built_in and touch.pattern.endswith("/**")
            )
            pattern = FilePattern(narrow, built_in=built_in)
            yield _FileRule(rule, restriction, narrow, pattern, whole)


def _find_whole(guard: _FileRule, folders: Sequence[str], approved: _Approved) -> Iterator[str]:
    """Yield the outermost folders in which everything matches."""
    whole: set[str] = set()
    for path in folders if guard.whole else ():
        if guard.covers(path) and not _is_below(path, whole) and not approved.has_inside(path):
            whole.add(path)
            yield path


def _is_below(path: str, folders: Collection[str]) -> bool:
    return bool(folders) and any(above in folders for above in folders_above(path))


def _is_match(path: str, glob: str) -> bool:
    """Return whether a shell may replace a glob by a path."""
    parts, globs = path.split("/"), glob.split("/")
    return len(parts) == len(globs) and all(map(may_expand, globs, parts))


def _below(path: str, top: str) -> str:
    """Return a path relative to a folder, or its name if it is the folder; else empty."""
    if top in (".", path):
        return path.rpartition("/")[2] if top == path else path
    return path[len(top) + 1 :] if path.startswith(f"{top}/") else ""
