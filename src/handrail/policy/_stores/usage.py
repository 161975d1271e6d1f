"""How rules are used, from counts and recorded calls: which decide, which never do, what changes.

Nothing here runs a call or writes a rule.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from handrail import Call, DefinitionError, Effect, Spec
from handrail.permissions import Verdict
from handrail.policy._decisions.replay import Recorded, read_decision, verdict_of
from handrail.policy._decisions.rulebook import Rulebook
from handrail.policy._rules.mode import Mode, strictest
from handrail.policy._rules.parse import parse
from handrail.policy._rules.rule import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUse:
    """How often a rule decided, and what people answered."""

    rule: str
    file: str = ""
    line: int = 0
    decides: str = ""
    """``allow``, ``ask`` or ``deny``, or "" for a rule missing today."""
    decided: int = 0
    answers: Mapping[str, int] = field(default_factory=dict[str, int])
    """``allow``, ``deny``, ``edit`` and ``result``, and how often people answered so."""
    note: str = ""
    """Why it never decides, or a note on its lack of use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEffect:
    """Recorded calls decided differently by a proposed rule, all with the same arguments."""

    tool: str
    args: str
    before: Verdict
    after: Verdict
    calls: int
    denied: int
    """How many a person had denied."""


class RecordedLine(Protocol):
    """A call as a journal has it."""

    @property
    def call(self) -> Call:
        """The call."""
        ...

    @property
    def accesses(self) -> Sequence[Sequence[str]]:
        """Its accesses: a verb and a resource each."""
        ...

    @property
    def decision(self) -> str:
        """The decision: ``allow``, ``ask`` or ``deny``."""
        ...

    @property
    def answer(self) -> str:
        """The person's answer, or "" if no one answered."""
        ...


class RuleLine(Protocol):
    """How often a rule led to an outcome."""

    @property
    def rule(self) -> str:
        """The rule's name."""
        ...

    @property
    def file(self) -> str:
        """Its file."""
        ...

    @property
    def line(self) -> int:
        """Its line."""
        ...

    @property
    def outcome(self) -> str:
        """A decision, or ``answer`` and the person's answer."""
        ...

    @property
    def count(self) -> int:
        """How often."""
        ...


def read_recorded(line: RecordedLine) -> Recorded | None:
    """Return a journal's call, to decide it again, or None if incomplete.

    Its tool's effect is the worst among its accesses.
    """
    found = read_decision(line.call, line.accesses, line.decision)
    if found is None:
        return None
    call, touched, decision = found
    effect = max((access.verb for access in touched), default=Effect.WRITE)
    try:
        return Recorded(call, _spec(call.name, effect), touched, decision)
    except DefinitionError:
        return None


def load_files(files: Iterable[str]) -> Rulebook:
    """Return the rules in some files as one policy, in their strictest mode."""
    texts = {name: Path(name).read_text(encoding="utf-8") for name in files}
    found = [parse(text, file=name, level=Level.USER) for name, text in texts.items()]
    modes = [one.mode for one in found if one.mode is not None]
    rules = [rule for one in found for rule in one.rules]
    return Rulebook(rules, mode=strictest(*modes or [Mode.ASK]))


@lru_cache
def _spec(name: str, effect: Effect) -> Spec:
    return Spec(name=name, description="", input_schema={"type": "object"}, effect=effect)


def count_uses(book: Rulebook | None, counts: Iterable[RuleLine]) -> tuple[RuleUse, ...]:
    """Return how the rules are used, the most used first; then those that never decide.

    Args:
        book: Today's rules; None if they are not known.
        counts: How often each rule led to an outcome.
    """
    found: dict[tuple[str, str, int], Counter[str]] = {}
    for one in counts:
        found.setdefault((one.rule, one.file, one.line), Counter())[one.outcome] += one.count
    known: dict[tuple[str, str, int], Verdict] = {
        (rule.origin.rule, rule.origin.file, rule.origin.line): rule.decide
        for rule in (book.rules if book else ())
        if rule.level is not Level.BUILT_IN
    }
    dead = {
        (one.rule.origin.rule, one.rule.origin.file, one.rule.origin.line): one.reason
        for one in (book.unreachable_rules() if book else ())
    }
    uses = [_use(key, found.get(key, Counter()), known, dead) for key in {**found, **known}]
    return tuple(sorted(uses, key=lambda use: (-use.decided, use.file, use.line, use.rule)))


def _use(
    key: tuple[str, str, int],
    counts: Counter[str],
    known: Mapping[tuple[str, str, int], Verdict],
    dead: Mapping[tuple[str, str, int], str],
) -> RuleUse:
    rule, file, line = key
    decided = sum(number for word, number in counts.items() if not word.startswith("answer "))
    answers = {
        word.removeprefix("answer "): number
        for word, number in sorted(counts.items())
        if word.startswith("answer ")
    }
    note = f"dead: {dead[key]}" if key in dead else "" if decided else "unused"
    return RuleUse(
        rule=rule,
        file=file,
        line=line,
        decides=known.get(key, ""),
        decided=decided,
        answers=answers,
        note=note,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrial:
    """The changes by proposed rules."""

    calls: int
    """How many recorded calls were decided again."""
    changed: int
    effects: tuple[RuleEffect, ...]
    """First what a person had denied."""


def try_rules(text: str, load: Callable[[], Rulebook], calls: Iterable[RecordedLine]) -> RuleTrial:
    """Decide recorded calls again, with and without proposed rules.

    Args:
        text: The rules, as in a rule file. Raises InvalidRule if they are not correct.
        load: Returns today's rules.
        calls: Recorded calls.
    """
    before, after = load(), load()
    for rule in parse(text, file="proposed", level=Level.USER).rules:
        after.add(rule)
    totals: Counter[tuple[str, str, Verdict, Verdict]] = Counter()
    denied: Counter[tuple[str, str, Verdict, Verdict]] = Counter()
    complete = 0
    for line in calls:
        if (call := read_recorded(line)) is None:
            continue
        complete += 1
        was, now = verdict_of(before(call.checked)), verdict_of(after(call.checked))
        if was != now:
            key = (call.call.name, _text(call.call.args), was, now)
            totals[key] += 1
            denied[key] += line.answer == "deny"
    effects = [
        RuleEffect(tool=tool, args=args, before=was, after=now, calls=number, denied=denied[key])
        for key, number in totals.items()
        for tool, args, was, now in [key]
    ]
    effects.sort(key=lambda one: (-one.denied, -one.calls, one.tool, one.args))
    return RuleTrial(calls=complete, changed=totals.total(), effects=tuple(effects))


def make_patch(file: str | Path, text: str) -> str:
    """Return a patch that adds rules to the end of a rule file, for `git apply` in its folder.

    Args:
        file: The rule file. It is read and not changed; it need not exist.
        text: The rules, as in a rule file.
    """
    path = Path(file)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    gap = "" if not before else "\n" if before.endswith("\n") else "\n\n"
    after = f"{before}{gap}{text.strip()}\n"
    rows = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        fromfile=f"a/{path.name}" if path.exists() else "/dev/null",
        tofile=f"b/{path.name}",
    )
    missing = "\n\\ No newline at end of file\n"
    return "".join(row if row.endswith("\n") else f"{row}{missing}" for row in rows)


def _text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(dict(args), ensure_ascii=False)
