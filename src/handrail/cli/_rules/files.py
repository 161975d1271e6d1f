"""Rule files: where they are, what is in each, and problems with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from handrail import Spec
from handrail._support.private_files import read_file
from handrail.cli._base.exits import Halt
from handrail.policy import (
    InvalidRule,
    Level,
    Mode,
    Rule,
    Rulebook,
    RuleFile,
    RulePaths,
    RuleProblem,
    check_examples,
    load,
    parse,
)

FindingKind: TypeAlias = Literal["unreadable", "untrusted", "exposed", "example", "unreachable"]
_DENIED = "until then, every call is denied"


class RuleFinding(NamedTuple):
    """A problem with a rule file."""

    file: str
    line: int
    """0 if it is about the whole file."""
    fault: FindingKind
    message: str
    do: str
    """How to fix it."""


@dataclass(frozen=True)
class OwnedRuleFile:
    """A rule file, and its rules' level."""

    name: Literal["managed", "user", "remembered", "project"]
    level: Level
    path: Path
    places: RulePaths

    def text(self) -> str | None:
        """Return its content; None if it does not exist or cannot be read."""
        try:
            return read_file(self.path).decode()
        except (OSError, UnicodeDecodeError):
            return None

    def alone(self, mode: Mode | None = None) -> Rulebook:
        """Load its rules as if there were no other file."""
        only = RulePaths(trust=self.places.trust)
        which = replace(only, **{self.name: self.path})
        # only the problems and the mode are used, and neither depends on a sandbox
        return load(which, mode=mode, builtin=(), sandboxed=True)


def rule_files(places: RulePaths) -> list[OwnedRuleFile]:
    """Return the rule files, the strongest first."""
    named: list[tuple[Literal["managed", "user", "remembered", "project"], Level]] = [
        ("managed", Level.MANAGED),
        ("user", Level.USER),
        ("remembered", Level.USER),
        ("project", Level.PROJECT),
    ]
    return [OwnedRuleFile(name, level, getattr(places, name), places) for name, level in named]


def read_rules(path: Path) -> str:
    """Return the text in a file named by the user, or a Halt if it cannot be read."""
    try:
        return read_file(path).decode()
    except OSError as error:
        message, hint = f"cannot read {path}: {error.strerror}", "pass the path of a readable file"
        raise Halt(message, code="file", hint=hint) from None
    except UnicodeDecodeError:
        hint = "save it as UTF-8, or pass another file"
        raise Halt(f"{path} is not UTF-8 text", code="file", hint=hint) from None


def why_unusable(book: Rulebook) -> str:
    """Return why a rulebook denies every call, with the file; empty if it does not."""
    problem = _find_invalid(book)
    return str(replace(problem, outcome="", hint="")) if problem is not None else ""


def _find_invalid(book: Rulebook) -> RuleProblem | None:
    return next((problem for problem in book.problems if problem.kind == "invalid"), None)


def check_file(file: OwnedRuleFile) -> Iterator[RuleFinding]:
    """Yield the problems with a rule file."""
    path, alone, text = str(file.path), file.alone(), file.text()
    invalid = _find_invalid(alone)
    findings = list(_findings_in(text, path)) if text is not None else []
    if invalid is not None and not findings:
        findings.append(_unreadable_finding(invalid, path))
    for problem in alone.problems if invalid is None else ():
        yield _problem_finding(problem, path)
    yield from findings


def _problem_finding(problem: RuleProblem, path: str) -> RuleFinding:
    """Return a problem with a file as a finding."""
    kind: FindingKind = "unreadable" if problem.kind == "invalid" else problem.kind
    message = f"{problem.outcome} this file: {problem.reason}"
    return RuleFinding(path, problem.line, kind, message, problem.hint)


def check_text(text: str, path: str) -> tuple[list[RuleFinding], RuleFile]:
    """Return the problems in a rule text, and the readable rules."""
    try:
        return list(_findings_in(text, path)), parse(text, file=path, level=Level.USER, check=False)
    except InvalidRule:
        return list(_findings_in(text, path)), RuleFile(())


def _findings_in(text: str, path: str) -> Iterator[RuleFinding]:
    try:
        rules = parse(text, file=path, level=Level.USER, check=False).rules
    except InvalidRule as error:
        yield _unreadable_finding(error, path)
        return
    for rule in rules:
        yield from _example_findings(rule, path)


def _unreadable_finding(error: InvalidRule | RuleProblem, path: str) -> RuleFinding:
    """Return an error in a file as a finding."""
    return RuleFinding(path, error.line, "unreadable", error.reason, f"correct it; {_DENIED}")


def _example_findings(rule: Rule, path: str) -> Iterator[RuleFinding]:
    line, do = rule.origin.line, f"correct the rule or the example; {_DENIED}"
    try:
        for example in check_examples(rule):
            if not example.holds:
                yield RuleFinding(path, line, "example", str(example), do)
    except InvalidRule as error:
        yield RuleFinding(path, line, "example", str(error), do)


def unreachable_rules(book: Rulebook, specs: Sequence[Spec]) -> Iterator[RuleFinding]:
    """Yield rules that can never decide a call, except built-in ones."""
    for found in book.unreachable_rules(specs):
        origin = found.rule.origin
        if found.rule.level is not Level.BUILT_IN:
            message = f"{origin.rule}: {found.reason}"
            yield RuleFinding(origin.file, origin.line, "unreachable", message, found.hint)
