"""Voices: everything that has something to say of a call. The strictest of them decides."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from handrail import READ, WRITE, Access, Effect
from handrail.judgement import Matched, Origin, Verdict
from handrail.policy._floor import catastrophic, protected, wrecks
from handrail.policy._index import Commands, Speaking
from handrail.policy._rule import STRENGTH, Level, Rule
from handrail.policy._shell import Line, Part, Usable, paths_in

PROTECTED = Origin("protected paths")
CATASTROPHIC = Origin("catastrophic commands")
TOO_BIG = Origin("size of a command")
_MOST_FOLDERS = 8


class Voice(NamedTuple):
    """One rule, or a part of the floor, that speaks."""

    verdict: Verdict
    level: Level
    origin: Origin
    why: str
    once: bool = False
    text: str = ""

    @property
    def rank(self) -> tuple[int, int, str, str]:
        """Which of several is named: the strictest; among those one that no order decides."""
        return (STRENGTH[self.verdict], self.level, self.origin.rule, self.text)

    @property
    def matched(self) -> Matched:
        """The voice, for an explanation."""
        return Matched(self.verdict, self.origin, self.why)


def spoken(rule: Rule, why: str, verdict: Verdict | None = None) -> Voice:
    """A rule that speaks."""
    told = f"{rule.reason} ({why})" if rule.reason and why else rule.reason or why
    return Voice(verdict or rule.decide, rule.level, rule.origin, told, rule.once, rule.text)


def against(rules: Speaking, args: Mapping[str, Any]) -> Iterator[Voice]:
    """Denies and asks that mean a call by its tool, its arguments or what it touches."""
    for rule, pairs in rules.items():
        if rule.decide == "allow" or (rule.args and not rule.fits(args)):
            continue
        meant = next((access for touch, access in pairs if touch.meets(access)), None)
        if meant is not None or not rule.touches:
            yield spoken(rule, str(meant or ""))


def perhaps_against(rules: Speaking, args: Mapping[str, Any]) -> Iterator[Voice]:
    """Asks for a call that touches so much that what a rule denies may lie in it."""
    for rule, pairs in rules.items():
        if rule.decide == "deny" and (not rule.args or rule.fits(args)):
            maybe = next((access for touch, access in pairs if touch.may_meet(access)), None)
            if maybe is not None:
                yield spoken(rule, f"it may, with {maybe}", "ask")


def in_favour(rules: Speaking, args: Mapping[str, Any], accesses: Sequence[Access]) -> list[Voice]:
    """Allows, if together they cover everything that a call touches."""
    covered: set[Access] = set()
    voices: list[Voice] = []
    everything = False
    for rule, pairs in rules.items():
        if rule.decide != "allow" or (rule.args and not rule.fits(args)):
            continue
        mine = [access for touch, access in pairs if touch.covers(access)]
        if mine or not rule.touches:
            covered.update(mine)
            everything |= not rule.touches
            voices.append(spoken(rule, ""))
    return voices if everything or (covered and covered >= set(accesses)) else []


def floor(accesses: Iterable[Access], besides: Sequence[str]) -> Iterator[Voice]:
    """Questions about protected paths, which no mode and no rule does away with."""
    for access in accesses:
        if protected(access, besides):
            why = f"{access} is protected"
            yield Voice("ask", Level.BUILT_IN, PROTECTED, why, once=True)


def against_line(rules: Commands, line: Line, usable: Usable) -> Iterator[Voice]:
    """Denies and asks that mean a command which this line might run."""
    for rule, command in rules.naming(line.rough).items():
        if usable(rule):
            yield spoken(rule, f"it may run {' '.join(command.words)}")


def floor_of_line(line: Line, besides: Sequence[str], *, denies: bool) -> Iterator[Voice]:
    """Questions about what would wreck a machine, and about what is too big to be read.

    ``denies`` says whether there is a rule that denies something.
    """
    wrecked = next((what for one in line.rough if (what := catastrophic(one))), "")
    if not wrecked and (disk := wrecks(line.files)):
        wrecked = f"writing over {disk}"
    if wrecked:
        yield Voice("ask", Level.BUILT_IN, CATASTROPHIC, f"this is {wrecked}", once=True)
    if line.too_big:
        # What was not looked into cannot be held against a deny.
        strict: Verdict = "deny" if denies and not line.looked_into else "ask"
        yield Voice(strict, Level.BUILT_IN, TOO_BIG, line.too_big, once=True)
    yield from floor((Access(WRITE, f"file:{one}") for one in line.files), besides)


def accesses_of_line(line: Line, parts: Sequence[Part]) -> list[Access]:
    """What a line would touch, as far as its words tell; more rather than less."""
    found = [Access(verb, f"file:{one}") for one in line.files for verb in (READ, WRITE)]
    for part in parts:
        verb: Effect = READ if part.command is not None and part.command.reads else WRITE
        found += [Access(verb, f"file:{path}") for path in part.paths]
        if part.rule is None:
            found += _by_words(part.argv, [part.folder])
    plain = {part.argv for part in parts}
    hidden = [argv for argv in line.rough if argv not in plain]
    words = dict.fromkeys(word for argv in hidden for word in argv[1:])
    return [*found, *_by_words(("", *words), _folders(line))]


def _folders(line: Line) -> list[str]:
    """Where the commands of a line may run, as far as its text tells."""
    folders = [""]
    for argv in line.rough:
        if argv[0] == "cd" and len(folders) < _MOST_FOLDERS:
            folders += [posixpath.join(folder, word) for folder in folders for word in argv[1:2]]
    return folders[:_MOST_FOLDERS]


def _by_words(argv: Sequence[str], folders: Sequence[str]) -> Iterator[Access]:
    """What a command would touch that no rule knows: any word may be a path, wherever it runs."""
    for word in argv[1:]:
        for folder in folders:
            for path in paths_in(word, folder):
                yield from (Access(READ, f"file:{path}"), Access(WRITE, f"file:{path}"))
