"""Levels: rules that come with us, and those of a machine, a user and a workspace, made into one.

Nothing of a workspace counts before its user has trusted that exact content. A file that cannot be
read denies everything, and says why.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Literal, TypeAlias

from handrail import READ, Access
from handrail.judgement import Origin
from handrail.policy._errors import Unusable
from handrail.policy._file import RuleFile, parse, parse_unchecked
from handrail.policy._mode import Mode, strictest
from handrail.policy._places import Places
from handrail.policy._rule import Level, Rule, Touch
from handrail.policy._rulebook import Rulebook
from handrail.policy._trust import Trust, digest, read_securely

Shipped: TypeAlias = Literal["read_only", "development"]
"""Rules that come with us: commands that only read; and what a development workspace runs."""
PRIVATE = Origin("private paths")


def shipped(*names: Shipped) -> tuple[Rule, ...]:
    """Rules that come with us. Their examples are tried in our tests, and not each time again."""
    return tuple(
        rule
        for name in names
        for rule in parse_unchecked(
            files("handrail.policy").joinpath(f"{name}.toml").read_text(encoding="utf-8"),
            file=f"{name}.toml",
            level=Level.BUILT_IN,
        ).rules
    )


def load(  # noqa: PLR0913  each is an option with a default
    places: Places,
    *,
    mode: Mode | str | None = None,
    with_shipped: Iterable[Shipped] | None = None,
    sandboxed: bool = False,
    shell: Iterable[str] = ("bash",),
    protected: Iterable[str] = (),
    private: Iterable[str] = (),
) -> Rulebook:
    """All rules that count, as one policy.

    A mode that is asked for here comes before that of a file; of a user's and a workspace's mode
    the stricter one counts; a managed file's mode is a ceiling.
    Of the rules that come with us, those for development count only in a sandbox, unless they are
    asked for.
    ``protected`` are files and folders, as calls name them, that no mode lets be changed unasked;
    ``private`` are folders that are not read at all.
    """
    usual: tuple[Shipped, ...] = ("read_only", "development") if sandboxed else ("read_only",)
    rules = list(shipped(*(usual if with_shipped is None else with_shipped)))
    rules += _unread(private)
    problems: list[str] = []
    modes: list[tuple[Level, Mode]] = []
    try:
        for level, path in _files(places):
            made = _counted(path, level, places, problems)
            rules += made.rules
            if made.mode is not None:
                modes.append((level, made.mode))
    except Unusable as error:
        return Rulebook(mode=Mode.PLAN, refusal=f"the rules cannot be used: {error}")
    return Rulebook(
        rules,
        mode=_mode(modes, mode),
        sandboxed=sandboxed,
        problems=problems,
        shell=shell,
        protected=protected,
    )


def _unread(folders: Iterable[str]) -> list[Rule]:
    """A rule that denies to read what lies in some folders, where there are any."""
    reading = frozenset([READ])
    resources = (Access(READ, f"file:{one}/**").resource for one in folders)
    touches = tuple(Touch(reading, one) for one in dict.fromkeys(resources))
    return (
        [Rule(decide="deny", origin=PRIVATE, level=Level.BUILT_IN, touches=touches)]
        if touches
        else []
    )


def _files(places: Places) -> list[tuple[Level, Path]]:
    named = [
        (Level.MANAGED, places.managed),
        (Level.USER, places.user),
        (Level.USER, places.remembered),
        (Level.PROJECT, places.project),
    ]
    return [(level, path) for level, path in named if path is not None]


def _mode(modes: list[tuple[Level, Mode]], asked_for: Mode | str | None) -> Mode:
    said = [mode for level, mode in modes if level is not Level.MANAGED]
    wanted = Mode.of(asked_for) if asked_for is not None else strictest(*said or [Mode.ASK])
    return strictest(wanted, *(mode for level, mode in modes if level is Level.MANAGED))


def _counted(path: Path, level: Level, places: Places, problems: list[str]) -> RuleFile:
    """What counts of a file: all, what is strict in it, or nothing."""
    try:
        if level is Level.PROJECT and path.parent.is_symlink():
            raise OSError(errno.ELOOP, "its folder is a link")  # noqa: TRY301  told below
        content, others_may_write = read_securely(path)
    except FileNotFoundError:
        return RuleFile(())
    except OSError as error:
        if level is not Level.PROJECT:
            raise Unusable(f"{path}: {error.strerror}") from None
        problems.append(f"{path} is not read: {error.strerror}. Its rules do not count.")
        return RuleFile(())
    if level is Level.PROJECT and not _trusted(path, content, places):
        problems.append(f"{path} is not trusted as it is now. Its rules do not count.")
        return RuleFile(())
    made = parse(_text(content, path), file=str(path), level=level)
    if level is not Level.PROJECT and others_may_write:
        problems.append(f"others may write to {path}. What it allows does not count.")
        strict = tuple(rule for rule in made.rules if rule.decide != "allow")
        return RuleFile(strict, strictest(made.mode, Mode.ASK) if made.mode else None)
    return made


def _trusted(path: Path, content: bytes, places: Places) -> bool:
    return places.trust is not None and Trust(places.trust).has(path, digest(content))


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Unusable(f"{path}: it is not UTF-8") from None
