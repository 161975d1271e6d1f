"""Opinions: verdicts on a call by rules and safeguards. The strictest decides."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, NamedTuple

from handrail import READ, WRITE, Access, Effect
from handrail.permissions import Approvers, Matched, Origin, Verdict
from handrail.policy._decisions.safeguards import (
    ProtectedFiles,
    changes_nothing,
    describe_catastrophe,
    find_overwritten_disk,
    find_written_words,
    makes_repository,
)
from handrail.policy._decisions.wording import describe_access, name_resource, quote_command
from handrail.policy._decisions.workspace_files import WorkspaceFiles
from handrail.policy._rules.index import Candidates, CommandIndex
from handrail.policy._rules.mode import Mode, verdict
from handrail.policy._rules.rule import STRENGTH, Level, Rule
from handrail.policy._rules.shell_command import (
    MatchedCommand,
    ShellCommand,
    Usable,
    find_strings_in_code,
    match_spellings,
    paths_in,
    read_known_values,
)
from handrail.sources import ValueSource

PROTECTED = Origin("protected paths", kind="built-in")
CATASTROPHIC = Origin("catastrophic commands", kind="built-in")
TOO_BIG = Origin("command size limit", kind="built-in")
UNREADABLE = Origin("unreadable rules", kind="built-in")
COMPUTED = Origin("a computed program", kind="built-in")
GIT_PROGRAMS = Origin("programs of git", kind="built-in")
NO_COMMAND = Origin("shell tool without a command", kind="built-in")
_RUN_NO_PROGRAM = frozenset(
    """
    branch cat-file check-attr check-ignore config count-objects for-each-ref ls-remote ls-tree
    merge-base name-rev remote rev-list rev-parse show-ref symbolic-ref tag var version --version
    """.split()
)
"""Git commands that read neither files nor differences."""
_MAX_FOLDERS = 8
_WRITES = re.compile(r"write|['\"][wax]b?\+?['\"]|rename|replace\(|unlink|remove|copy|move|dump\(")
"""Code fragments for changing files."""
_MAX_FOLDER_CHARS = 200


class Opinion(NamedTuple):
    """A verdict on a call by a rule, a safeguard or a mode."""

    verdict: Verdict
    level: Level
    origin: Origin
    reason: str = ""
    """Why, as a clause. Empty if a rule gives no reason."""
    about: str = ""
    """The part matched by a rule, such as "reading k.pem", or "" for the whole call."""
    once: bool = False
    text: str = ""
    approvers: Approvers = Approvers()
    """Who may answer an ask."""
    sources: tuple[ValueSource, ...] = ()
    """The sources the rule is about."""
    review: bool = False
    """For an ask: whether a second model may answer it."""

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """The sort key: strictest first, then an order independent from files."""
        return (STRENGTH[self.verdict], self.level, self.origin.rule, self.text)

    @property
    def matched(self) -> Matched:
        """The opinion, for an explanation."""
        both = f"{self.about} ({self.reason})" if self.about and self.reason else ""
        return Matched(self.verdict, self.origin, both or self.about or self.reason)


NO_COMMAND_TO_CHECK = Opinion(
    "ask", Level.BUILT_IN, NO_COMMAND, "the call has no `command` to check", once=True
)


class ReadCommand(NamedTuple):
    """A shell command with the rules allowing its parts."""

    spelled: ShellCommand
    command: ShellCommand
    """The same, with paths in the workspace relative to it."""
    known: ShellCommand
    """The same, with some variable values."""
    matched: Sequence[MatchedCommand]

    @classmethod
    def of(
        cls,
        spelled: ShellCommand,
        rules: CommandIndex,
        usable: Usable,
        *,
        folders: Sequence[str],
        files: WorkspaceFiles,
    ) -> ReadCommand:
        """Return a command in a workspace with these absolute paths and these files."""
        from handrail.policy._consequences.git_commands import find_checked_out

        command = spelled.seen_from(folders)
        known = read_known_values(spelled.text).seen_from(folders)
        if words := find_checked_out(known):
            known = replace(known, paths=files.find_existing(words, folders_of(known)))
        return cls(spelled, command, known, match_spellings(spelled, command, rules, usable))


def opinion_of(rule: Rule, about: str = "") -> Opinion:
    """Return a matching rule's verdict."""
    opinion = Opinion(
        rule.decide, rule.level, rule.origin, rule.reason, about, rule.once, rule.text
    )
    return opinion._replace(approvers=rule.approvers, review=rule.review)


def is_answerable(opinion: Opinion) -> bool:
    """Return whether approving one whole command also answers this ask, from then on.

    This holds for built-in rules. Safeguards and people's rules ask every time.
    """
    return opinion.verdict == "ask" and opinion.level is Level.BUILT_IN and not opinion.once


def _doubt_of(rule: Rule, what: str) -> Opinion:
    """Return an ask for a call that may do something a rule denies."""
    reason = f": {rule.reason}" if rule.reason else ""
    doubt = f"{what} may include what rule {rule.origin.rule!r} denies{reason}"
    return Opinion("ask", rule.level, rule.origin, doubt, once=rule.once, text=rule.text)


def objections(rules: Candidates, args: Mapping[str, Any]) -> Iterator[Opinion]:
    """Yield denies and asks matching a call by its tool, its arguments or its accesses."""
    for rule, pairs in rules.items():
        if rule.decide == "allow" or (rule.args and not rule.fits(args)):
            continue
        met = next((access for touch, access in pairs if touch.meets(access)), None)
        if met is not None or not rule.touches:
            yield opinion_of(rule, describe_access(met) if met is not None else "")


def possible_objections(rules: Candidates, args: Mapping[str, Any]) -> Iterator[Opinion]:
    """Yield asks for a call whose wide accesses may include something a rule denies."""
    for rule, pairs in rules.items():
        if rule.decide == "deny" and (not rule.args or rule.fits(args)):
            wide = next((access for touch, access in pairs if touch.may_meet(access)), None)
            if wide is not None:
                unnamed = " that the tool does not name" if wide.resource == "*" else ""
                yield _doubt_of(rule, f"{describe_access(wide)}{unnamed}")


def allowances(
    rules: Candidates, args: Mapping[str, Any], accesses: Sequence[Access]
) -> list[Opinion]:
    """Return the allows, if together they cover all the call's accesses."""
    covered: set[Access] = set()
    opinions: list[Opinion] = []
    everything = False
    for rule, pairs in rules.items():
        if rule.decide != "allow" or (rule.args and not rule.fits(args)):
            continue
        mine = [access for touch, access in pairs if touch.covers(access)]
        if mine or not rule.touches:
            covered.update(mine)
            everything |= not rule.touches
            opinions.append(opinion_of(rule))
    return opinions if everything or (covered and covered >= set(accesses)) else []


def path_safeguards(accesses: Iterable[Access], protected: ProtectedFiles) -> Iterator[Opinion]:
    """Yield asks for changes to protected paths, which no mode and no rule can allow."""
    for access, why in protected.find_reasons(accesses):
        reason = f"{name_resource(access.resource)} is protected: {why}"
        yield Opinion("ask", Level.BUILT_IN, PROTECTED, reason, once=True)


def command_objections(
    rules: CommandIndex, command: ShellCommand, usable: Usable
) -> Iterator[Opinion]:
    """Yield denies and asks matching something this shell command may run."""
    for rule, named in rules.rules_against(command.possible).items():
        if usable(rule):
            words = " ".join(named.words)
            yield opinion_of(rule, "every command" if words == "*" else quote_command(words))


def command_safeguards(
    command: ShellCommand, protected: ProtectedFiles, *, denies: bool
) -> Iterator[Opinion]:
    """Yield asks for commands that could damage the system or are too big to check.

    ``denies`` says whether any rule denies something.
    """
    damage = next((why for argv in command.possible if (why := describe_catastrophe(argv))), "")
    if not damage and (disk := find_overwritten_disk(command.files)):
        damage = f"a redirection would overwrite {disk}"
    if damage:
        yield Opinion("ask", Level.BUILT_IN, CATASTROPHIC, damage, once=True)
    if command.too_big:
        # An unread command cannot be compared with a deny.
        strict: Verdict = "deny" if denies and not command.is_readable else "ask"
        yield Opinion(strict, Level.BUILT_IN, TOO_BIG, command.too_big, once=True)
    changes = (Access(WRITE, f"file:{path}") for path in command.files)
    yield from path_safeguards(changes, protected)


def mode_effect(access: Access) -> Effect:
    """Return an access's effect for the mode: sending to a host cannot be undone."""
    sends = access.verb == Effect.WRITE and access.resource.startswith("net:")
    return Effect.DESTROY if sends else access.verb


def command_allowances(commands: Sequence[MatchedCommand]) -> list[Opinion]:
    """Return the rules allowing a shell command, if every simple command in it has one."""
    rules = [part.rule for part in commands]
    if not rules or None in rules:
        return []
    return [opinion_of(rule) for rule in dict.fromkeys(rules) if rule is not None]


def is_read_only(part: MatchedCommand) -> bool:
    """Return whether a rule allows a simple command as read-only."""
    return part.command is not None and part.command.read_only


def add_mode_opinion(
    opinions: Sequence[Opinion],
    effect: Effect,
    mode: Mode,
    *,
    reason: str = "",
    caused: str | None = None,
    sandboxed: bool = False,
) -> list[Opinion]:
    """Add the mode's opinion: it decides if no rule matches, and its deny overrides rules.

    ``caused`` is a command's consequence, if any.
    """
    says: Verdict = verdict(mode, effect)
    ranked = sorted(opinions, key=lambda opinion: opinion.rank)
    if ranked and (says != "deny" or ranked[0].verdict == "deny"):
        return ranked
    origin = Origin(f"mode {mode}", kind="mode")
    if caused is not None and effect > Effect.READ and mode in (Mode.EDITS, Mode.OPEN):
        says, reason = _decide_by_consequence(caused, reason, mode, sandboxed=sandboxed)
    if says == "deny":
        reason = f"{mode} mode allows no changes"
    return [Opinion(says, Level.RUN, origin, reason), *ranked]


def _decide_by_consequence(
    caused: str, reason: str, mode: Mode, *, sandboxed: bool
) -> tuple[Verdict, str]:
    """Return a permissive mode's verdict on a command without an allowing rule.

    The sandbox contains what a command does, except for its consequences.
    """
    if caused:  # no sandbox contains it: decision 041
        return "ask", caused
    if mode is Mode.EDITS and not sandboxed:
        return "ask", reason or "commands do not run in a sandbox"
    return "allow", ""


def git_objections(
    commands: Sequence[MatchedCommand], find_program: Callable[[], str]
) -> Iterator[Opinion]:
    """Yield an ask for a read-only command if git may run a program for it.

    ``find_program`` returns the repository setting naming the program.
    """
    reads = any(
        part.argv[0] == "git" and is_read_only(part) and _RUN_NO_PROGRAM.isdisjoint(part.argv[1:2])
        for part in commands
    )
    if reads and (setting := find_program()):
        reason = f"git may run a program that {setting} names in the settings of the repository"
        yield Opinion("ask", Level.BUILT_IN, GIT_PROGRAMS, reason)


def command_accesses(
    command: ShellCommand,
    parts: Sequence[MatchedCommand],
    without: AbstractSet[tuple[str, ...]] = frozenset(),
) -> list[Access]:
    """Return everything a shell command may touch, according to its words.

    Words from the commands in ``without`` are left out.
    """
    accesses = [Access(verb, f"file:{path}") for path in command.files for verb in (READ, WRITE)]
    reading = changes_nothing(command)
    for part in locate_commands(command, parts):
        if part.argv in without:
            continue
        read_only = part.command is not None and part.command.read_only
        written = (
            set[str]()
            if reading
            else find_written_words(command.text, [part.argv], read_only=read_only)
        )
        changed = {path for word in written for path in paths_in(word, part.folder)}
        for path in part.paths:
            verb: Effect = WRITE if path in changed else READ
            accesses.append(Access(verb, f"file:{path}"))
        if part.rule is None:
            accesses += _accesses_by_word(part.argv[1:], written, [part.folder])
    simple = {part.argv for part in parts}
    simple |= without
    hidden = [argv for argv in command.possible if argv not in simple]
    words = dict.fromkeys(word for argv in hidden for word in argv[1:])
    written = set[str]() if reading else find_written_words(command.text, hidden)
    if strings := find_strings_in_code(command):
        words |= dict.fromkeys(strings)
        written |= strings if _WRITES.search(command.text) else set()
    return [*accesses, *_accesses_by_word(words, written, folders_of(command))]


def new_repository(
    command: ShellCommand, parts: Sequence[MatchedCommand], protected: ProtectedFiles
) -> list[Access]:
    """Return the `.git` a command makes at the top of a workspace without one."""
    made = (
        part.folder in ("", ".") and makes_repository(part.argv)
        for part in locate_commands(command, parts)
    )
    return [Access(WRITE, "file:.git")] if any(made) and protected.lacks_repository() else []


def spell_out(accesses: Iterable[Access], folders: Sequence[str]) -> list[Access]:
    """Return accesses to workspace files by absolute path, for rules with these."""
    return [
        Access(access.verb, f"file:{folder}/{path}")
        for access in accesses
        if (path := access.resource.removeprefix("file:")) and not path.startswith(("/", "~", ".."))
        for folder in folders
    ]


def locate_commands(command: ShellCommand, parts: Sequence[MatchedCommand]) -> list[MatchedCommand]:
    """Return simple commands with the folders they may run in.

    A command too big to read needs approval anyway, so a few folders replace the deepest ones: a
    thousand ``cd`` would give a thousand folders, each with a longer path.
    """
    if not command.too_big:
        return list(parts)
    near = [part for part in parts if len(part.folder) <= _MAX_FOLDER_CHARS]
    far = {part.argv: part for part in parts if len(part.folder) > _MAX_FOLDER_CHARS}
    folders = folders_of(command)
    return near + [replace(part, folder=folder) for part in far.values() for folder in folders]


def folders_of(command: ShellCommand) -> list[str]:
    """Return folders in which a shell command's parts may run, according to its text."""
    folders = [""]
    for argv in command.possible:
        if argv[0] == "cd" and len(folders) < _MAX_FOLDERS:
            folders += [posixpath.join(folder, word) for folder in folders for word in argv[1:2]]
    return folders[:_MAX_FOLDERS]


def _accesses_by_word(
    words: Iterable[str], written: Collection[str], folders: Sequence[str]
) -> Iterator[Access]:
    """Yield what an unmatched command may touch: any word can be a path, in any folder."""
    for word in words:
        for folder in folders:
            for path in paths_in(word, folder):
                yield Access(READ, f"file:{path}")
                if word in written:
                    yield Access(WRITE, f"file:{path}")


def written_commands(commands: Sequence[MatchedCommand]) -> set[tuple[str, ...]]:
    """Return simple commands allowed by people's rules, whatever their consequences.

    A workspace's rules can allow a command, but they do not answer for the person running it. A
    rule such as ``git *`` does not mean each git command.
    """
    return {
        part.argv
        for part in commands
        if part.rule is not None and part.rule.level not in (Level.BUILT_IN, Level.PROJECT)
        if part.command is None or not part.command.wide
    }
