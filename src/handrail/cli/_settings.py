"""Settings: flag > environment > local > project > user > machine > built in, each with its origin.

Nothing of a workspace counts before its user has trusted that exact file. What is left out by
``without`` is left out at whatever level it stands.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from handrail.cli._exits import Halt

MACHINE = Path("/etc/handrail/config.toml")
MOST_BYTES = 1 << 20
OWN = ("user", "machine")
"""Levels of those who run the program, or its machine; the other files are a workspace's."""


class Origin(NamedTuple):
    """Where a value comes from."""

    level: str
    """flag, environment, local, project, user, machine or built in."""
    where: str = ""
    """An option, a variable, or a file and line."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that count."""

    values: Mapping[str, Any]
    origins: Mapping[str, Origin]
    problems: tuple[str, ...] = ()
    """What is not as it should be, in words for whoever runs the program."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TypeError("a whole number from 1 on")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number above 0")
    if not 0 < value <= sys.float_info.max:
        raise TypeError("a number above 0")
    return float(value)


def _texts(value: Any) -> list[str]:
    several: Any = value
    if not isinstance(value, list) or not all(isinstance(one, str) for one in several):
        raise TypeError("a list of texts")
    return list(several)


def _mode(value: Any) -> str:
    if value not in ("plan", "ask", "edits", "open"):
        raise TypeError("plan, ask, edits or open")
    return str(value)


class Known(NamedTuple):
    """A setting: how its value is checked, and what it is where nobody says."""

    check: Callable[[Any], Any]
    built_in: Any


KNOWN: Mapping[str, Known] = MappingProxyType(
    {
        "tools": Known(_texts, ["coding"]),
        "without": Known(_texts, []),
        "mode": Known(_mode, None),
        "hosts": Known(_texts, []),
        "model": Known(_text, None),
        "base_url": Known(_text, None),
        "system": Known(_text, ""),
        "max_tokens": Known(_count, None),
        "max_turns": Known(_count, 50),
        "max_calls": Known(_count, None),
        "max_usage": Known(_count, None),
        "max_seconds": Known(_seconds, None),
    }
)


class _Found(NamedTuple):
    name: str
    value: Any
    origin: Origin


def read_settings(workspace: Path, flags: Mapping[str, Any]) -> Settings:
    """The settings that count in a workspace."""
    problems: list[str] = []
    found = [*_flags(flags), *_environment(problems)]
    for level, file in files(workspace).items():
        found += _in_file(level, file, workspace, problems)
    values = {name: known.built_in for name, known in KNOWN.items()}
    origins = {name: Origin("built in") for name in KNOWN}
    for name, value, origin in reversed(found):  # the strongest comes last
        values[name], origins[name] = value, origin
    left_out = [one for one in found if one.name == "without" and one.value]
    if left_out:
        values["without"] = sorted({name for one in left_out for name in one.value})
        where = ", ".join(one.origin.where for one in left_out)
        origins["without"] = Origin(left_out[0].origin.level, where)
    return Settings(MappingProxyType(values), MappingProxyType(origins), tuple(problems))


def files(workspace: Path) -> dict[str, Path]:
    """Where settings are looked for, by level, the strongest first."""
    return {
        "local": workspace / ".handrail" / "local.toml",
        "project": workspace / "handrail.toml",
        "user": _config_home() / "handrail" / "config.toml",
        "machine": MACHINE,
    }


def _config_home() -> Path:
    """Where a user's settings lie; a relative path is none, or a workspace could choose it.

    The same place as that of ``handrail.policy``, which takes longer to load than most commands
    need without it.
    """
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return given if given.is_absolute() else home() / ".config"


def home() -> Path:
    """The user's home; that of a relative path is none, or a workspace could be it."""
    try:
        given = Path.home()
        return given if given.is_absolute() else Path(pwd.getpwuid(os.getuid()).pw_dir)
    except (KeyError, RuntimeError):  # a user whom the system does not know
        hint = "set HOME to a whole path"
        raise Halt("there is no home folder", code="config", hint=hint) from None


def _flags(flags: Mapping[str, Any]) -> Iterator[_Found]:
    for name, value in flags.items():
        option = "--host" if name == "hosts" else f"--{name.replace('_', '-')}"
        yield _Found(name, value, Origin("flag", option))


def _environment(problems: list[str]) -> Iterator[_Found]:
    variables = {f"HANDRAIL_{name.upper()}": name for name in KNOWN}
    for variable, name in variables.items():
        text = os.environ.get(variable)
        if text:
            value = _from_text(KNOWN[name], text, variable)
            yield _Found(name, value, Origin("environment", variable))
    for variable in sorted(os.environ):
        is_known = variable in variables or not variable.startswith("HANDRAIL_")
        if not is_known and (near := close(variable, variables, likeness=0.8)):
            problems.append(f"{variable} is no setting; did you mean {near}?")


def _from_text(known: Known, text: str, variable: str) -> Any:
    """A value from the environment: lists are written with commas, numbers as such."""
    value: Any = text
    if known.check is _texts:
        value = [one.strip() for one in text.split(",") if one.strip()]
    elif known.check in (_count, _seconds):
        value = _number(text)
    return _checked(known, value, variable)


def _number(text: str) -> Any:
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        return text


def _checked(known: Known, value: Any, where: str) -> Any:
    try:
        return known.check(value)
    except TypeError as wanted:
        raise Halt(f"{where} must be {wanted}", code="config", hint="mend it there") from None


def _in_file(level: str, file: Path, workspace: Path, problems: list[str]) -> Iterator[_Found]:
    """What counts of a file."""
    if level not in OWN and not _usable(file, problems):
        return
    try:
        content, others_may_write = _read(file)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if level in OWN:  # it may say what is left out
            raise Halt(f"{file}: {error.strerror}", code="config", hint="mend it there") from None
        problems.append(f"{file} is not read, and does not count: {error.strerror}")
        return
    if level not in OWN and not trusted(workspace, file, content):
        problems.append(
            f"{file} is not trusted as it is now, and does not count: look at it with "
            "`handrail trust`"
        )
        return
    for one in _said(level, file, content, problems):
        if level not in OWN or not others_may_write or one.name == "without":
            yield one
        else:
            problems.append(
                f"others may write to {file}: {one.name} there does not count; take that from "
                "them with `chmod go-w`, for the file and its folder"
            )


def _usable(file: Path, problems: list[str]) -> bool:
    """Whether a file of a workspace is where it seems to be: a link could lead to anything."""
    for one in (file, file.parent) if file.parent.name == ".handrail" else (file,):
        if one.is_symlink():
            problems.append(f"{file} is not read, and does not count: {one.name} is a link")
            return False
    return True


def _read(file: Path) -> tuple[bytes, bool]:
    """A file's content, and whether others may write to it or to its folder."""
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as opened:  # noqa: PTH123  no path, but a descriptor
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is no regular file")
        if about.st_size > MOST_BYTES:
            raise OSError(0, f"it has more than {MOST_BYTES} bytes")
        content = opened.read(MOST_BYTES)
    others = any(
        one.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or one.st_uid not in (0, os.geteuid())
        for one in (about, file.parent.stat())
    )
    return content, others


def trusted(workspace: Path, file: Path, content: bytes) -> bool:
    """Whether a user has looked at this content of a file of a workspace."""
    from handrail.policy import Places, Trust, digest  # noqa: PLC0415  slow, and seldom needed

    kept = Places.of(workspace).trust
    return kept is not None and Trust(kept).has(file, digest(content))


def _said(level: str, file: Path, content: bytes, problems: list[str]) -> Iterator[_Found]:
    """The settings in a file."""
    import tomllib  # noqa: PLC0415  most workspaces have no such file

    try:
        text = content.decode()
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise Halt(f"{file}: {error}", code="config", hint="mend it there") from None
    for name, value in table.items():
        where = f"{file}:{_line(text, name)}"
        if name in KNOWN:
            checked = _checked(KNOWN[name], value, f"{where}: {name}")
            yield _Found(name, checked, Origin(level, where))
        else:
            near = close(name, KNOWN)
            meant = f"; did you mean {near!r}?" if near else ""
            problems.append(f"{where}: there is no setting {name!r}{meant}")


def _line(text: str, name: str) -> int:
    """Where a setting stands in a file."""
    found = re.search(rf"""(?m)^[ \t\[]*["']?{re.escape(name)}["']?\s*[]=.]""", text)
    return text.count("\n", 0, found.start()) + 1 if found else 1


def close(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """The name that somebody who wrote this one may have meant; empty where there is none."""
    from difflib import get_close_matches  # noqa: PLC0415  seldom needed

    return next(iter(get_close_matches(name, list(known), 1, likeness)), "")
