"""Rule files: which ones count, what is in each, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from handrail import Spec
from handrail.cli._exits import Halt
from handrail.cli._trusted import content_of
from handrail.policy import (
    Level,
    Mode,
    Places,
    Rule,
    Rulebook,
    RuleFile,
    Unusable,
    load,
    parse_unchecked,
    tries,
)

Fault: TypeAlias = Literal["unreadable", "untrusted", "exposed", "example", "dead"]
_DENIED = "while the file counts as it is, every call is denied"
_UNUSABLE = "the rules cannot be used: "
_LINE = re.compile(r"^:(\d+)")


class Finding(NamedTuple):
    """One thing that is wrong with a rule file."""

    file: str
    line: int
    """0, where it is about the whole file."""
    fault: Fault
    message: str
    do: str
    """What to do about it."""


@dataclass(frozen=True)
class File:
    """A rule file, and whose it is."""

    name: Literal["managed", "user", "remembered", "project"]
    level: Level
    path: Path
    places: Places

    def text(self) -> str | None:
        """What it says; None, where it is not there or cannot be read."""
        try:
            return content_of(self.path).decode()
        except (OSError, UnicodeDecodeError):
            return None

    def alone(self, mode: Mode | None = None) -> Rulebook:
        """What counts of it, as if there were no other."""
        only = Places(trust=self.places.trust)
        which = replace(only, **{self.name: self.path})
        # no sandbox is needed to look: what is asked here is not judged by it
        return load(which, mode=mode, with_shipped=(), sandboxed=True)


def rule_files(places: Places) -> list[File]:
    """The files that rules are looked for in, the strongest first."""
    named: list[tuple[Literal["managed", "user", "remembered", "project"], Level]] = [
        ("managed", Level.MANAGED),
        ("user", Level.USER),
        ("remembered", Level.USER),
        ("project", Level.PROJECT),
    ]
    return [File(name, level, getattr(places, name), places) for name, level in named]


def read_rules(path: Path) -> str:
    """The text of a file that a person named."""
    try:
        return content_of(path).decode()
    except OSError as error:
        raise Halt(f"{path}: {error.strerror}", code="file", hint="check the path") from None
    except UnicodeDecodeError:
        raise Halt(f"{path}: it is not UTF-8", code="file", hint="check the path") from None


def unusable(book: Rulebook) -> str:
    """Why all rules are denied by a rulebook, with the file; empty, where they are not."""
    first = next(iter(book.problems), "")
    return first.removeprefix(_UNUSABLE) if first.startswith(_UNUSABLE) else ""


def wrong_with(file: File) -> Iterator[Finding]:
    """What is wrong with a file that counts, or would."""
    path, alone, text = str(file.path), file.alone(), file.text()
    unread = unusable(alone)
    found = list(_wrong_in(text, path)) if text is not None else []
    if unread and not found:
        found.append(_unusable(unread, path))
    for one in alone.problems if not unread else ():
        yield _problem(one, path)
    yield from found


def _problem(problem: str, path: str) -> Finding:
    """What a rulebook says of a file, and what to do about it."""
    told = problem.replace(path, "it")
    if "is not trusted" in told:
        return Finding(path, 0, "untrusted", told, "look at it with `handrail trust`")
    if told.startswith("others may write"):
        do = "make it yours alone: chmod 600 for the file, chmod 700 for its folder"
        return Finding(path, 0, "exposed", told, do)
    return Finding(path, 0, "unreadable", told, "mend it")


def wrong_in(text: str, path: str) -> tuple[list[Finding], RuleFile]:
    """What is wrong with a text of rules, and what can be read of it."""
    try:
        return list(_wrong_in(text, path)), parse_unchecked(text, file=path, level=Level.USER)
    except Unusable:
        return list(_wrong_in(text, path)), RuleFile(())


def _wrong_in(text: str, path: str) -> Iterator[Finding]:
    try:
        rules = parse_unchecked(text, file=path, level=Level.USER).rules
    except Unusable as error:
        yield _unusable(str(error), path)
        return
    for rule in rules:
        yield from _wrong_examples(rule, path)


def _unusable(message: str, path: str) -> Finding:
    """What cannot be read, with the line taken out of the words."""
    rest = message.removeprefix(path)
    at = _LINE.match(rest)
    return Finding(
        path,
        int(at[1]) if at else 0,
        "unreadable",
        rest[at.end() if at else 0 :].removeprefix(": ").lstrip(),
        f"mend it; {_DENIED}",
    )


def _wrong_examples(rule: Rule, path: str) -> Iterator[Finding]:
    line, do = rule.origin.line, f"mend the rule or the example; {_DENIED}"
    try:
        for tried in tries(rule):
            if not tried.holds:
                yield Finding(path, line, "example", str(tried), do)
    except Unusable as error:
        yield Finding(path, line, "example", str(error), do)


def dead_in(book: Rulebook, specs: Sequence[Spec]) -> Iterator[Finding]:
    """Rules that can never decide; those that come with us are nobody's mistake."""
    mine = {f"{rule.origin} ": rule.origin for rule in book.rules if rule.level}
    for told in book.dead(specs):
        begins = max((one for one in mine if told.startswith(one)), key=len, default=None)
        if begins is not None:
            origin = mine[begins]
            message = f"{origin.rule} {told.removeprefix(begins)}"
            yield Finding(origin.file, origin.line, "dead", message, _instead(told))


def _instead(told: str) -> str:
    if told.endswith("has expired"):
        return "delete it, or give it another date"
    if told.endswith("and there is none"):
        return "check the spelling, or delete it"
    return "delete it, or make the other one narrower"
