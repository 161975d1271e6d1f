"""Opinions on commands that read files without naming them: below a folder, or in history.

A deny and an ask about reading a file apply to them too. A command that may read something a rule
denies needs approval. For an asking rule, the files are searched for on disk, because built-in
rules ask about files most workspaces do not have.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from handrail import Effect
from handrail.policy._decisions.opinions import Opinion, folders_of, locate_commands
from handrail.policy._decisions.reach import (
    LISTS_NAMES,
    Reach,
    find_glob_reach,
    find_listed,
    find_reach,
    shows_given_files,
)
from handrail.policy._decisions.safeguards import find_name_readers
from handrail.policy._decisions.wording import name_resource
from handrail.policy._decisions.workspace_files import FilePattern, WorkspaceFiles
from handrail.policy._rules.rule import Level, Rule, Touch, steps_up
from handrail.policy._rules.shell_command import MatchedCommand, ShellCommand, paths_in
from handrail.policy._shell.wrappers import program_name

_MAX_FOLDERS = 20
_COMPUTED = re.compile(r"\$[\w{(]|`|\b(?:xargs|parallel)\b")
_PATHS = ("path", "file", "subpath", "dot_path")
"""Word kinds naming a file or a folder."""


@dataclass(frozen=True, slots=True)
class GuardedFiles:
    """A rule denying or asking about reading or writing some files."""

    rule: Rule
    touches: tuple[Touch, ...]
    pattern: FilePattern

    @classmethod
    def of(cls, rule: Rule, verb: Effect = Effect.READ) -> GuardedFiles | None:
        """Return a rule's files, or None if it does not restrict this verb."""
        touches = tuple(
            touch
            for touch in rule.touches
            if verb in touch.verbs and touch.pattern.startswith(("file:", "*"))
        )
        if rule.decide == "allow" or rule.args or not touches:
            return None
        built_in = rule.level is Level.BUILT_IN
        return cls(rule, touches, FilePattern(touches, built_in=built_in))

    @property
    def denies(self) -> bool:
        """Whether reading is denied."""
        return self.rule.decide == "deny"


def recursion_objections(
    guarded: Sequence[GuardedFiles],
    command: ShellCommand,
    matched: Sequence[MatchedCommand],
    files: WorkspaceFiles,
) -> Iterator[Opinion]:
    """Yield asks for commands reading restricted files without naming them."""
    reads = list(find_unnamed_reads(command, matched)) if guarded else []
    globs = _shown_globs(command)
    for one in guarded:
        named = [glob for glob in globs if any(touch.may_name(glob) for touch in one.touches)]
        doubts = [_describe_doubt(one, name_resource(f"file:{glob}")) for glob in named]
        for why in (*doubts, *(_describe_read(one, read, files) for read in dict.fromkeys(reads))):
            if why:
                rule = one.rule
                opinion = Opinion("ask", rule.level, rule.origin, why, text=rule.text)
                yield opinion._replace(once=rule.once, approvers=rule.approvers)


def _shown_globs(command: ShellCommand) -> list[str]:
    """Return words replaced by file names in the shell, if their content may be shown."""
    if not command.globs:
        return []
    names = find_name_readers(command)
    only_named = {word for argv in names for word in argv}
    shown = {word for argv in command.possible if argv not in names for word in argv}
    return [glob for glob in command.globs if glob in shown or glob not in only_named]


def _find_glob_reads(command: ShellCommand) -> Iterator[Reach]:
    """Yield what words such as ``*.py`` read: one for each folder, or one for too many."""
    names: dict[Reach, list[str]] = {}
    for glob in _shown_globs(command):
        reach = find_glob_reach(glob)
        names.setdefault(reach._replace(names=()), []).extend(reach.names)
    if len(names) > _MAX_FOLDERS:
        yield Reach("files", tuple(path for reach in names for path in reach.paths))
    else:
        for reach, own in names.items():
            yield reach._replace(names=tuple(dict.fromkeys(own)))


def find_unnamed_reads(command: ShellCommand, matched: Sequence[MatchedCommand]) -> Iterator[Reach]:
    """Yield what a shell command reads without naming it."""
    located = locate_commands(command, matched)
    for part in located:
        yield from _find_own_reads(part)
    yield from _find_glob_reads(command)
    known = {part.argv for part in located}
    listed = any(map(shows_given_files, command.possible))
    for argv in command.possible:
        if listed and program_name(argv[0]) == "find":
            yield find_listed(argv[1:])
        reach = find_reach(argv) if argv not in known else None
        if reach is not None and reach.files in ("files", "visible files"):
            yield reach._replace(paths=tuple(_possible_folders(command, reach)))
        elif reach is not None:
            yield reach


def _find_own_reads(part: MatchedCommand) -> Iterator[Reach]:
    """Yield what a simple command reads without naming it."""
    reach = find_reach(part.argv)
    recursive = part.command is not None and part.command.is_recursive(part.argv)
    if reach is not None and reach.files in ("tracked files", "history"):
        yield reach
    elif reach is not None or recursive:
        names = program_name(part.argv[0]) in LISTS_NAMES or "--files" in part.argv
        kind = "names" if names else reach.files if reach is not None else "files"
        only = reach.names if reach is not None else ()
        paths = reach.paths if reach is not None and reach.certain else ()
        inside = [posixpath.join(part.folder, path) for path in paths]
        yield Reach(kind, tuple(inside or _named_folders(part)), only)


def _possible_folders(command: ShellCommand, reach: Reach) -> list[str]:
    """Return the folders a search may read, or none if only the shell can name them."""
    if not reach.paths or (_COMPUTED.search(command.text) and not reach.certain):
        return []
    return [posixpath.join(folder, path) for folder in folders_of(command) for path in reach.paths]


def _named_folders(part: MatchedCommand) -> list[str]:
    """Return the folders named by a simple command, or its working folder."""
    if part.command is None:
        return ["."]
    words = [word.text for word in part.words if word.kind in _PATHS]
    named = [path for word in words for path in paths_in(word, part.folder)]
    # a path used as a flag value is not where the command searches
    values = [flag.name for flag in part.command.flags or () if flag.kind in _PATHS]
    unsure = any(word.startswith(name) for word in part.argv for name in values)
    return [*named, part.folder or "."] if unsure or not named else named


def _describe_read(guarded: GuardedFiles, read: Reach, files: WorkspaceFiles) -> str:
    """Return why a read needs approval, as a clause; empty if it does not."""
    if read.files == "history" and guarded.denies:
        return _describe_doubt(guarded, "the history") if _may_be_inside(guarded, read) else ""
    if read.files in ("history", "tracked files"):
        found = files.find_tracked(guarded.pattern, read.paths)
        return _describe_found(guarded, "what git tracks", found)
    folders = _outermost_folders(read.paths or (".",))
    if len(folders) > _MAX_FOLDERS:
        return _describe_doubt(guarded, f"{len(folders)} folders")
    described = (_describe_below(guarded, read, folder, files) for folder in folders)
    return next(filter(None, described), "")


def _describe_below(guarded: GuardedFiles, read: Reach, folder: str, files: WorkspaceFiles) -> str:
    """Return why reading a folder needs approval; empty if it does not."""
    found: str | None = ""
    if guarded.denies and not files.has_hidden:
        found = None if any(touch.reaches(folder) for touch in guarded.touches) else ""
    elif read.files != "names":
        dotted = read.files != "visible files"
        found = files.find_below(
            folder, guarded.pattern, dotted=dotted, names=read.names, deep=read.deep
        )
    return _describe_found(guarded, f"everything below {folder}", found)


def _outermost_folders(paths: Iterable[str]) -> list[str]:
    """Return folders without nested ones: each file is visited once."""
    outermost: list[str] = []
    for path in sorted({posixpath.normpath(path) for path in paths}):
        if "." not in outermost and not any(path.startswith(f"{top}/") for top in outermost[-1:]):
            outermost.append(path)
    return outermost


def _may_be_inside(guarded: GuardedFiles, read: Reach) -> bool:
    """Return whether a workspace file shown by a command could match."""
    return any(
        touch.reaches(path)
        for touch in guarded.touches
        if steps_up(touch.pattern) == 0
        for path in read.paths or (".",)
    )


def _describe_found(guarded: GuardedFiles, what: str, found: str | None) -> str:
    if found is None:
        return _describe_doubt(guarded, what)
    reason = f": {guarded.rule.reason}" if guarded.rule.reason else ""
    return f"reading {what} includes {name_resource(f'file:{found}')}{reason}" if found else ""


def _describe_doubt(guarded: GuardedFiles, what: str) -> str:
    rule = guarded.rule
    reason = f": {rule.reason}" if rule.reason else ""
    verb = "denies" if guarded.denies else "asks about"
    return f"reading {what} may include what rule {rule.origin.rule!r} {verb}{reason}"
