"""Load rules as one policy: built-in ones, and those from the system, the user and the workspace.

Until the user has trusted the exact content of a workspace's rules, only its denies and asks apply,
without their ids and reasons: a model would read these. If another file cannot be read, every call
is denied.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from handrail import READ, Access
from handrail._support.private_files import read_private_file
from handrail.permissions import Origin
from handrail.policy._decisions.rulebook import Rulebook
from handrail.policy._rules.errors import InvalidRule, ProblemKind, RuleProblem
from handrail.policy._rules.mode import Mode, strictest
from handrail.policy._rules.parse import RuleFile, parse
from handrail.policy._rules.paths import RulePaths
from handrail.policy._rules.rule import Level, Rule, Touch
from handrail.policy._rules.source import SourceRules
from handrail.policy._stores.trust import Trust, digest

BuiltinName: TypeAlias = Literal["read_only", "development"]
"""Built-in rules: read-only commands, and commands in a development workspace."""
_MAX_UNTRUSTED_BYTES = 65_536
_MAX_LINE_BYTES = 1_000
_STRICTEST: tuple[SourceRules, ...] = ("unattended", "strict", True)
_UNTRUSTED = "a rule that is not trusted yet"
PRIVATE = Origin("private paths", kind="built-in")


def builtin_rules(*names: BuiltinName) -> tuple[Rule, ...]:
    """Return built-in rules. Their examples are checked by tests, not on every load."""
    return tuple(rule for name in names for rule in _read_builtin(name))


@cache
def _read_builtin(name: BuiltinName) -> tuple[Rule, ...]:
    file = f"{name}.toml"
    text = files("handrail.policy").joinpath(file).read_text(encoding="utf-8")
    return parse(text, file=file, level=Level.BUILT_IN, check=False).rules


def load(  # noqa: PLR0913  each is an option with a default
    paths: RulePaths,
    *,
    mode: Mode | str | None = None,
    builtin: Iterable[BuiltinName] | None = None,
    sandboxed: bool = False,
    shell: Iterable[str] = ("bash",),
    protected: Iterable[str] = (),
    private: Iterable[str] = (),
    hides_files: bool = False,
) -> Rulebook:
    """Load all rules as one policy.

    ``mode`` overrides the modes of the user's and the workspace's files; without it, the stricter
    of the two applies. The system file's mode is an upper limit. By default the ``development``
    rules are included only if ``sandboxed``; pass ``builtin`` to choose. Changes to the files and
    folders in ``protected`` need approval in every mode, and so do changes to targets of
    ``core.hooksPath`` and ``include.path`` in the workspace. Reading the folders in ``private`` is
    always denied. ``hides_files`` says whether the sandbox hides files that rules deny or ask
    about, as ``coding_tools`` arranges: then commands can search whole folders.
    """
    usual: tuple[BuiltinName, ...] = ("read_only", "development") if sandboxed else ("read_only",)
    rules = list(builtin_rules(*(usual if builtin is None else builtin)))
    rules += _private_rules(private)
    problems: list[RuleProblem] = []
    modes: list[tuple[Level, Mode]] = []
    sources: set[SourceRules] = set()
    try:
        for level, path in _rule_paths(paths):
            read = _read_rules(path, level, paths, problems)
            rules += read.rules
            sources.add(read.sources)
            if read.mode is not None:
                modes.append((level, read.mode))
    except InvalidRule as error:
        problem = RuleProblem(
            "invalid",
            error.reason,
            error.file,
            error.line,
            outcome="denying every call:",
            hint="run `handrail rules check` for all errors",
        )
        return Rulebook(mode=Mode.PLAN, refusal=str(problem), problems=[problem])
    return Rulebook(
        rules,
        mode=_choose_mode(modes, mode),
        ceiling=_find_ceiling(modes),
        sandboxed=sandboxed,
        problems=problems,
        shell=shell,
        protected=protected,
        workspace=paths.workspace,
        hides_files=hides_files,
        sources=next((one for one in _STRICTEST if one in sources), False),
    )


def _private_rules(folders: Iterable[str]) -> list[Rule]:
    """Return a rule denying reads in these folders, if any."""
    reading = frozenset([READ])
    resources = (Access(READ, f"file:{folder}/**").resource for folder in folders)
    touches = tuple(Touch(reading, resource) for resource in dict.fromkeys(resources))
    return (
        [Rule(decide="deny", origin=PRIVATE, level=Level.BUILT_IN, touches=touches)]
        if touches
        else []
    )


def _rule_paths(paths: RulePaths) -> list[tuple[Level, Path]]:
    named = [
        (Level.MANAGED, paths.managed),
        (Level.USER, paths.user),
        (Level.USER, paths.remembered),
        (Level.PROJECT, paths.project),
    ]
    return [(level, path) for level, path in named if path is not None]


def _find_ceiling(modes: list[tuple[Level, Mode]]) -> Mode:
    return strictest(Mode.OPEN, *(mode for level, mode in modes if level is Level.MANAGED))


def _choose_mode(modes: list[tuple[Level, Mode]], requested: Mode | str | None) -> Mode:
    in_files = [mode for level, mode in modes if level is not Level.MANAGED]
    wanted = Mode.of(requested) if requested is not None else strictest(*in_files or [Mode.ASK])
    return strictest(wanted, _find_ceiling(modes))


def _read_rules(
    path: Path, level: Level, paths: RulePaths, problems: list[RuleProblem]
) -> RuleFile:
    """Return a file's applicable rules: all, only the strict ones, or none."""
    try:
        content, others_can_write = _read_file(path, level)
    except FileNotFoundError:
        return RuleFile(())
    except OSError as error:
        if level is not Level.PROJECT:
            raise InvalidRule(f"cannot be read: {error.strerror}", file=str(path)) from None
        hint = "use a readable regular file of at most 1 MiB, in a regular folder"
        problems.append(_ignored("unreadable", f"cannot be read: {error.strerror}", path, hint))
        return RuleFile(())
    if level is Level.PROJECT and not _is_trusted(path, content, paths):
        strict = _strict_rules(content, path)
        problems.append(_untrusted(path, strict))
        return RuleFile(strict)
    read = parse(_decode(content, path), file=str(path), level=level)
    if level is not Level.PROJECT and others_can_write:
        problems.append(_exposed(path))
        strict = tuple(rule for rule in read.rules if rule.decide != "allow")
        mode = strictest(read.mode, Mode.ASK) if read.mode else None
        return RuleFile(strict, mode, read.sources)
    return read


def _strict_rules(content: bytes, path: Path) -> tuple[Rule, ...]:
    """Return the applicable part of a workspace's untrusted file, or nothing if invalid.

    Parsing a long line can take seconds. No one has reviewed the file, so it may have one.
    """
    if len(content) > _MAX_UNTRUSTED_BYTES or max(map(len, content.split(b"\n"))) > _MAX_LINE_BYTES:
        return ()
    try:
        read = parse(_decode(content, path), file=str(path), level=Level.PROJECT)
    except InvalidRule:
        return ()
    return tuple(
        replace(rule, reason="", origin=replace(rule.origin, rule=_UNTRUSTED))
        for rule in read.rules
        if rule.decide != "allow"
    )


def _untrusted(path: Path, strict: tuple[Rule, ...]) -> RuleProblem:
    return RuleProblem(
        "untrusted",
        "not trusted, or changed since you trusted it",
        str(path),
        outcome="ignoring the allow rules and the mode of" if strict else "ignoring",
        hint="review it with `handrail trust`",
    )


def _ignored(kind: ProblemKind, reason: str, path: Path, hint: str) -> RuleProblem:
    return RuleProblem(kind, reason, str(path), outcome="ignoring", hint=hint)


def _exposed(path: Path) -> RuleProblem:
    return RuleProblem(
        "exposed",
        "other users can write to the file or its folder",
        str(path),
        outcome="ignoring the allow rules of",
        hint=f"run `chmod go-w {path} {path.parent}`",
    )


def _read_file(path: Path, level: Level) -> tuple[bytes, bool]:
    if level is Level.PROJECT and path.parent.is_symlink():
        raise OSError(errno.ELOOP, "its folder is a link")
    return read_private_file(path)


def _is_trusted(path: Path, content: bytes, paths: RulePaths) -> bool:
    return paths.trust is not None and Trust(paths.trust).has(path, digest(content))


def _decode(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidRule("the file is not UTF-8", file=str(path)) from None
