"""Remembered approvals: stored as rules for this run, this project or all projects.

Each is a rule like any other. The person sees it before it is stored, and can list and forget it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from handrail._support.loop import in_event_loop
from handrail._support.private_files import (
    MAX_LOCK_SECONDS,
    MAX_LOOP_SECONDS,
    hold_lock,
    read_private_file,
    replace_file,
)
from handrail.approvals import Proposal, Scope
from handrail.permissions import Pending
from handrail.policy._decisions.rulebook import Rulebook
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.parse import parse
from handrail.policy._rules.paths import RulePaths
from handrail.policy._rules.rule import REMEMBERED_PREFIX, Level, Rule
from handrail.policy._rules.toml_text import rules_text
from handrail.policy._stores.proposals import (
    Table,
    explain_refusal,
    merge_tables,
    propose_rules,
)

LIFETIME = timedelta(days=90)
"""How long a stored approval applies: people forget why they gave it."""
_THIS_RUN = "this run"
"""The file name for rules without a file."""


@dataclass(frozen=True, slots=True)
class RememberedRule:
    """A remembered approval."""

    id: str
    scope: Scope
    text: str
    """The rule as TOML."""
    file: str = ""
    line: int = 0
    expires: datetime | None = None


def _now() -> datetime:
    return datetime.now(UTC)


class RememberedApprovals:
    """Proposes rules to remember, stores them, lists them, and forgets them."""

    def __init__(
        self, rulebook: Rulebook, paths: RulePaths, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._rulebook = rulebook
        self._files: dict[Scope, Path] = {}
        if paths.remembered is not None:
            self._files["project"] = paths.remembered
        if paths.user is not None:
            self._files["always"] = paths.user
        self._clock = clock

    def propose(self, pending: Pending, /) -> tuple[Proposal, ...]:
        """Return rules that would have allowed this call, for each scope the narrowest first.

        Returns none if the approval cannot be remembered; ``refusal`` says why.
        """
        scopes: tuple[Scope, ...] = ("run", *self._files)
        return tuple(
            self._proposal(rules.tables, scope, rules.width)
            for scope in scopes
            for rules in propose_rules(pending, self._rulebook)
        )

    def refusal(self, pending: Pending, /) -> str:
        """Return why a call's approval cannot be remembered, as a clause, or ""."""
        return explain_refusal(pending, self._rulebook)

    def propose_all(self, pendings: Iterable[Pending]) -> tuple[Proposal, ...]:
        """Return the fewest rules that would have allowed these calls, for this project.

        An unlimited command gets none: a person decides about each such line.
        """
        tables = [
            table
            for pending in pendings
            for rules in propose_rules(pending, self._rulebook)[:1]
            if not any("line" in table for table in rules.tables)
            for table in rules.tables
        ]
        return tuple(self._proposal([table], "project") for table in merge_tables(tables))

    def _proposal(self, tables: Sequence[Table], scope: Scope, width: str = "") -> Proposal:
        now = self._clock()
        more: dict[str, Any] = {"reason": f"remembered on {now.date().isoformat()}"}
        if scope != "run":
            more["expires"] = (now + LIFETIME).date()
        named = (
            {"id": f"{REMEMBERED_PREFIX}{secrets.token_hex(4)}", **table, **more}
            for table in tables
        )
        return Proposal(scope, rules_text(named), str(self._files.get(scope, "")), width)

    def store(self, proposal: Proposal, /) -> None:
        """Store exactly what was proposed. It applies immediately.

        Raises TimeoutError if another program holds the file's lock: after some seconds, or after a
        moment if an event loop runs in this thread.
        """
        rules = parse(proposal.rule, file=_THIS_RUN, level=Level.RUN).rules
        if proposal.scope != "run":
            file, ids = self._files[proposal.scope], {rule.origin.rule for rule in rules}
            with hold_lock(file, seconds=_lock_seconds()):
                text = f"{_read_own_file(file).rstrip()}\n\n{proposal.rule}".lstrip("\n")
                stored = parse(text, file=str(file), level=Level.RUN).rules
                replace_file(file, text.encode())
            rules = tuple(rule for rule in stored if rule.origin.rule in ids)
        for rule in rules:
            self._rulebook.add(rule)

    def remembered(self) -> tuple[RememberedRule, ...]:
        """Return all remembered approvals, except expired ones."""
        now = self._clock()
        remembered = [
            _describe_rule(rule, "run")
            for rule in self._rulebook.rules
            if rule.remembered and rule.origin.file == _THIS_RUN
        ]
        for scope, file in self._files.items():
            rules = parse(_read_own_file(file), file=str(file), level=Level.USER).rules
            remembered += [_describe_rule(rule, scope) for rule in rules if rule.remembered]
        return tuple(rule for rule in remembered if rule.expires is None or now < rule.expires)

    def forget(self, rule_id: str) -> None:
        """Forget a remembered approval. It stops applying immediately."""
        mine = [
            rule for rule in self._rulebook.rules if rule.remembered and rule.origin.rule == rule_id
        ]
        was_stored = False
        for file in self._files.values():
            with hold_lock(file, seconds=_lock_seconds()):
                text = _read_own_file(file)
                left = _remove_rule(text, rule_id, file)
                if left != text:
                    replace_file(file, left.encode())
                    was_stored = True
        if not mine and not was_stored:
            raise InvalidRule(
                f"no remembered approval has the id {rule_id!r}; `handrail rules list` shows them"
            )
        for rule in mine:
            self._rulebook.remove(rule)


def _lock_seconds() -> float:
    return MAX_LOOP_SECONDS if in_event_loop() else MAX_LOCK_SECONDS


def _describe_rule(rule: Rule, scope: Scope) -> RememberedRule:
    origin = rule.origin
    file, line = (origin.file, origin.line) if scope != "run" else ("", 0)
    return RememberedRule(origin.rule, scope, rule.text, file, line, rule.expires)


def _read_own_file(file: Path) -> str:
    """Return the text in a file only the user can write. Raises InvalidRule otherwise.

    Storing a rule rewrites the file, so rules others put there would become the user's.
    """
    try:
        content, others_can_write = read_private_file(file)
        text = content.decode()
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise InvalidRule(f"cannot be read: {error.strerror}", file=str(file)) from None
    except UnicodeDecodeError:
        raise InvalidRule("the file is not UTF-8", file=str(file)) from None
    if others_can_write:
        raise InvalidRule(
            "other users can write to the file or its folder; review it, then run "
            f"`chmod go-w {file} {file.parent}`",
            file=str(file),
        )
    return text


def _remove_rule(text: str, rule_id: str, file: Path) -> str:
    """Return a rule file's text without one rule."""
    rules = parse(text, file=str(file), level=Level.USER).rules
    lines = text.split("\n")
    starts = [rule.origin.line - 1 for rule in rules] + [len(lines)]
    left = lines[: starts[0]]
    for index, rule in enumerate(rules):
        own = lines[starts[index] : starts[index + 1]]
        is_forgotten = rule.origin.rule == rule_id and rule.remembered
        left += own[_count_own_lines(own) :] if is_forgotten else own
    return "\n".join(left)


def _count_own_lines(lines: Sequence[str]) -> int:
    """Return how many lines belong to a rule: a comment after it is about the next one."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end
