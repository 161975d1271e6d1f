"""Memory: answers that are to count again, for this run, this project, or always.

What is stored is a rule like any other, shown before it is stored, listed, and taken back.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from handrail.approvals import Proposal, Scope
from handrail.judgement import Pending
from handrail.policy._errors import Unusable
from handrail.policy._file import parse
from handrail.policy._places import Places
from handrail.policy._rule import REMEMBERED, Level, Rule
from handrail.policy._rulebook import Rulebook
from handrail.policy._toml import rules_text
from handrail.policy._trust import locked, read_securely, replaced
from handrail.policy._width import Table, merged, proposed

KEPT_FOR = timedelta(days=90)
"""How long a stored yes counts: nobody remembers for ever why they said it."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A rule that an answer left behind."""

    id: str
    scope: Scope
    text: str
    """The rule as it is written."""
    file: str = ""
    line: int = 0
    expires: datetime | None = None


def _now() -> datetime:
    return datetime.now(UTC)


class Memory:
    """Proposes rules to remember, stores them, lists them, and forgets them."""

    def __init__(
        self, rulebook: Rulebook, places: Places, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._rulebook = rulebook
        self._files: dict[Scope, Path] = {}
        if places.remembered is not None:
            self._files["project"] = places.remembered
        if places.user is not None:
            self._files["always"] = places.user
        self._clock = clock

    def propose(self, pending: Pending, /) -> tuple[Proposal, ...]:
        """The rules that would have allowed this, for each scope; none, where none should be."""
        tables = self._tables(pending)
        if not tables:
            return ()
        scopes: tuple[Scope, ...] = ("run", *self._files)
        return tuple(self._proposal(tables, scope) for scope in scopes)

    def propose_all(self, pendings: Iterable[Pending]) -> tuple[Proposal, ...]:
        """The fewest rules that would have spared all of these questions, for this project."""
        tables = [table for pending in pendings for table in self._tables(pending)]
        return tuple(self._proposal([table], "project") for table in merged(tables))

    def _tables(self, pending: Pending) -> list[Table]:
        book, tool = self._rulebook, pending.call.name
        return proposed(pending, book.allowing(tool), shell=book.runs_lines(tool))

    def _proposal(self, tables: Sequence[Table], scope: Scope) -> Proposal:
        now = self._clock()
        told: dict[str, Any] = {"reason": f"remembered on {now.date().isoformat()}"}
        if scope != "run":
            told["expires"] = (now + KEPT_FOR).date()
        named = ({"id": f"{REMEMBERED}{secrets.token_hex(4)}", **one, **told} for one in tables)
        return Proposal(scope, rules_text(named), str(self._files.get(scope, "")))

    def store(self, proposal: Proposal, /) -> None:
        """Store exactly what was proposed; it counts from here on."""
        rules = parse(proposal.rule, file="this run", level=Level.RUN).rules
        if proposal.scope != "run":
            file, ids = self._files[proposal.scope], {rule.origin.rule for rule in rules}
            with locked(file):
                text = f"{_content(file).rstrip()}\n\n{proposal.rule}".lstrip("\n")
                kept = parse(text, file=str(file), level=Level.RUN).rules
                replaced(file, text)
            rules = tuple(rule for rule in kept if rule.origin.rule in ids)
        for rule in rules:
            self._rulebook.add(rule)

    def remembered(self) -> tuple[Remembered, ...]:
        """Everything that answers left behind, and that counts."""
        now = self._clock()
        found = [
            _told(rule, "run")
            for rule in self._rulebook.rules
            if rule.remembered and rule.origin.file == "this run"
        ]
        for scope, file in self._files.items():
            rules = parse(_content(file), file=str(file), level=Level.USER).rules
            found += [_told(rule, scope) for rule in rules if rule.remembered]
        return tuple(one for one in found if one.expires is None or now < one.expires)

    def forget(self, rule_id: str) -> None:
        """Take a remembered rule back; it counts no more."""
        mine = [
            rule for rule in self._rulebook.rules if rule.remembered and rule.origin.rule == rule_id
        ]
        held = False
        for file in self._files.values():
            with locked(file):
                text = _content(file)
                left = _without(text, rule_id, file)
                if left != text:
                    replaced(file, left)
                    held = True
        if not mine and not held:
            raise Unusable(f"there is no remembered rule {rule_id!r}")
        for rule in mine:
            self._rulebook.drop(rule)


def _told(rule: Rule, scope: Scope) -> Remembered:
    origin = rule.origin
    file, line = (origin.file, origin.line) if scope != "run" else ("", 0)
    return Remembered(origin.rule, scope, rule.text, file, line, rule.expires)


def _content(file: Path) -> str:
    """A file that nobody else may have written into: storing would make its rules ours."""
    try:
        content, others_may_write = read_securely(file)
        text = content.decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(f"{file} cannot be read: {error}") from None
    if others_may_write:
        raise Unusable(f"others may write to {file}: make it yours alone first")
    return text


def _without(text: str, rule_id: str, file: Path) -> str:
    """A rule file without one of its rules: the lines from its header to its last."""
    rules = parse(text, file=str(file), level=Level.USER).rules
    lines = text.split("\n")
    starts = [rule.origin.line - 1 for rule in rules] + [len(lines)]
    kept = lines[: starts[0]]
    for place, rule in enumerate(rules):
        own = lines[starts[place] : starts[place + 1]]
        gone = rule.origin.rule == rule_id and rule.remembered
        kept += own[_own_lines(own) :] if gone else own
    return "\n".join(kept)


def _own_lines(lines: Sequence[str]) -> int:
    """How many lines are a rule's own: a comment after them is about the next one."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end
