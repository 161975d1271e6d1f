"""Settings: flag > environment > local > project > user > system > default, each with its origin.

A workspace's settings file is ignored until the user has trusted its exact content. A tool excluded
with ``without`` on any level is excluded, and hooks on all levels run.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from handrail._support.private_files import find_runs_folder, read_private_file
from handrail._support.systems import find_home
from handrail.cli._base.exits import Halt
from handrail.cli._base.hook_table import EXAMPLE, check_hooks, merge_hooks, programs_of
from handrail.cli._base.redact import redact_url

SYSTEM_FILE = Path("/etc/handrail/config.toml")
OWN = ("user", "system")
"""Levels for files outside the workspace. They need no trust."""


_VARIABLE = re.compile("[A-Z_][A-Z0-9_]{0,63}")
_MAX_VALUE_CHARS = 60
"""Characters shown from an invalid value in an error message."""


class SettingOrigin(NamedTuple):
    """Where a value was set."""

    level: str
    """flag, environment, local, project, user, system or default."""
    where: str = ""
    """An option, a variable, or a file and line."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The applicable settings."""

    values: Mapping[str, Any]
    origins: Mapping[str, SettingOrigin]
    problems: tuple[str, ...] = ()
    """Ignored files and settings, each as a message for the user."""

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a string")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TypeError("an integer of at least 1")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number greater than 0")
    if not 0 < value <= sys.float_info.max:
        raise TypeError("a number greater than 0")
    return float(value)


def _texts(value: Any) -> list[str]:
    several: Any = value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in several):
        raise TypeError("a list of strings")
    return list(several)


def _mode(value: Any) -> str:
    if value not in ("plan", "ask", "edits", "open"):
        raise TypeError('"plan", "ask", "edits" or "open"')
    return str(value)


def _variable(value: Any) -> str:
    if not is_variable(value):
        raise TypeError("the name of an environment variable")
    return str(value)


def is_variable(value: object) -> bool:
    """Return whether a value can be an environment variable's name, not an API key."""
    return isinstance(value, str) and _VARIABLE.fullmatch(value) is not None


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("true or false")
    return value


def _theme(value: Any) -> str:
    if value not in ("auto", "dark", "light", "ansi"):
        raise TypeError('"auto", "dark", "light" or "ansi"')
    return str(value)


class SettingSpec(NamedTuple):
    """A setting."""

    check: Callable[[Any], Any]
    """Returns the value, or raises a TypeError saying what it must be."""
    built_in: Any
    """The default."""
    example: Any
    """A valid value, for hints."""


KNOWN: Mapping[str, SettingSpec] = MappingProxyType(
    {
        "tools": SettingSpec(_texts, ["coding"], ["coding", "tools.py"]),
        "without": SettingSpec(_texts, [], ["bash"]),
        "programs": SettingSpec(_switch, built_in=False, example=True),
        "mode": SettingSpec(_mode, None, "ask"),
        "allowed_hosts": SettingSpec(_texts, [], ["pypi.org"]),
        "model": SettingSpec(_text, None, "openai:NAME"),
        "base_url": SettingSpec(_text, None, "http://127.0.0.1:8080/v1"),
        "key_variable": SettingSpec(_variable, None, "OPENAI_API_KEY"),
        "system": SettingSpec(_text, "", "Be brief."),
        "hooks": SettingSpec(check_hooks, {}, EXAMPLE),
        "unsandboxed_hooks": SettingSpec(_switch, built_in=False, example=True),
        "database": SettingSpec(_text, "", "runs.db"),
        "codec": SettingSpec(_text, "", "keys:codec"),
        "theme": SettingSpec(_theme, "auto", "dark"),
        "model_tries": SettingSpec(_count, 10, 3),
        "max_tokens": SettingSpec(_count, None, 8192),
        "max_turns": SettingSpec(_count, 50, 50),
        "max_calls": SettingSpec(_count, None, 100),
        "max_total_tokens": SettingSpec(_count, None, 200_000),
        "max_seconds": SettingSpec(_seconds, None, 600),
        "max_cost_per_day": SettingSpec(_seconds, None, 5.0),
        "max_cost_per_month": SettingSpec(_seconds, None, 50.0),
    }
)


class _Assignment(NamedTuple):
    name: str
    value: Any
    origin: SettingOrigin


def read_settings(workspace: Path, flags: Mapping[str, Any]) -> Settings:
    """Return a workspace's applicable settings."""
    problems: list[str] = []
    assignments = [*_flags(flags), *_environment(problems)]
    for level, file in files(workspace).items():
        assignments += _assignments_in(level, file, workspace, problems)
    values = {name: known.built_in for name, known in KNOWN.items()}
    origins = {name: SettingOrigin("default") for name in KNOWN}
    for name, value, origin in reversed(assignments):  # the strongest comes last
        values[name], origins[name] = value, origin
    for name, merge in _MERGED.items():
        given = [one for one in assignments if one.name == name and one.value]
        if given:
            values[name] = merge([one.value for one in reversed(given)])
            where = ", ".join(one.origin.where for one in given)
            origins[name] = SettingOrigin(given[0].origin.level, where)
    return Settings(MappingProxyType(values), MappingProxyType(origins), tuple(problems))


def _merge_names(several: list[list[str]]) -> list[str]:
    return sorted({name for names in several for name in names})


_MERGED: Mapping[str, Callable[[list[Any]], Any]] = {
    "without": _merge_names,
    "hooks": merge_hooks,
    "max_cost_per_day": min,
    "max_cost_per_month": min,
}
"""Settings where all levels count: a workspace cannot raise what its user may spend."""


def files(workspace: Path) -> dict[str, Path]:
    """Return the settings files' paths by level, the strongest first."""
    return {
        "local": workspace / ".handrail" / "local.toml",
        "project": workspace / "handrail.toml",
        "user": _config_home() / "handrail" / "config.toml",
        "system": SYSTEM_FILE,
    }


def _config_home() -> Path:
    """Return the user's settings folder.

    A relative path is ignored: it would let a workspace choose the folder. ``handrail.policy`` has
    the same function, but takes longer to import than most commands run.
    """
    given = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return given if given.is_absolute() else home() / ".config"


def home() -> Path:
    """Return the user's home folder. A relative path is ignored: it could be a workspace."""
    with _needing_home():
        return find_home()


def runs_folder() -> Path:
    """Return the folder with saved runs.

    A relative path is ignored: a workspace could choose it.
    """
    with _needing_home():
        return find_runs_folder()


@contextmanager
def _needing_home() -> Generator[None]:
    try:
        yield
    except (KeyError, RuntimeError):  # the system does not know this user
        message = f"the user with ID {os.getuid()} has no home folder"
        hint = "set `HOME` to an absolute path: `export HOME=/PATH`"
        raise Halt(message, code="config", hint=hint) from None


def _flags(flags: Mapping[str, Any]) -> Iterator[_Assignment]:
    for name, value in flags.items():
        option = "--allow-host" if name == "allowed_hosts" else f"--{name.replace('_', '-')}"
        yield _Assignment(name, value, SettingOrigin("flag", option))


def _environment(problems: list[str]) -> Iterator[_Assignment]:
    variables = {f"HANDRAIL_{name.upper()}": name for name in KNOWN}
    for variable, name in variables.items():
        text = os.environ.get(variable)
        if text:
            value = _from_text(name, text, variable)
            yield _Assignment(name, value, SettingOrigin("environment", variable))
    for variable in sorted(os.environ):
        is_known = variable in variables or not variable.startswith("HANDRAIL_")
        if not is_known and (near := closest_name(variable, variables, likeness=0.8)):
            problems.append(f"unknown setting `{variable}`; did you mean `{near}`?")


def _from_text(name: str, text: str, variable: str) -> Any:
    """Parse an environment value. List items are separated by commas."""
    value: Any = text
    if KNOWN[name].check is _texts:
        value = [part.strip() for part in text.split(",") if part.strip()]
    elif KNOWN[name].check in (_count, _seconds):
        value = _number(text)
    elif KNOWN[name].check is _switch:
        value = {"true": True, "false": False}.get(text, text)
    example = KNOWN[name].example
    hint = f"set a valid value, as in `export {variable}={example}`, or `unset {variable}`"
    return _check_value(name, value, f"`{variable}`", hint)


def _number(text: str) -> Any:
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        return text


def _check_value(name: str, value: Any, where: str, hint: str) -> Any:
    try:
        return KNOWN[name].check(value)
    except TypeError as wanted:
        got = "" if KNOWN[name].check is _variable else f", got {_shown(value)}"  # it may be a key
        message = f"{where} must be {wanted}{got}"
        raise Halt(message, code="config", hint=hint) from None


def _shown(value: Any) -> str:
    """Return an invalid value for an error message, without secrets."""
    text: str = redact_url(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"


def _assignments_in(
    level: str, file: Path, workspace: Path, problems: list[str]
) -> Iterator[_Assignment]:
    """Read a file's applicable settings."""
    if level not in OWN and not _is_real(file, problems):
        return
    try:
        content, others_may_write = read_private_file(file, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        if level in OWN:  # it may exclude tools
            message = f"cannot read {file}: {error.strerror}"
            hint = f"fix its permissions, or move it away: `mv {_quote(file)} {_quote(file)}.old`"
            raise Halt(message, code="config", hint=hint) from None
        problems.append(f"ignoring {file}: {error.strerror}")
        return
    if level not in OWN and not is_trusted(workspace, file, content):
        problems.append(
            f"ignoring {file}: not trusted, or changed since you trusted it; "
            "review it with `handrail trust`"
        )
        return
    for assignment in _parse_settings(level, file, content, problems):
        if level not in OWN or not others_may_write or assignment.name == "without":
            yield assignment
        else:
            problems.append(
                f"ignoring `{assignment.name}` in {file}: other users can write to the file or "
                f"its folder; run `chmod go-w {_quote(file.parent)} {_quote(file)}`"
            )


def _is_real(file: Path, problems: list[str]) -> bool:
    """Return whether a workspace file is not a symbolic link, which could lead anywhere."""
    for path in (file, file.parent) if file.parent.name == ".handrail" else (file,):
        if path.is_symlink():
            problems.append(f"ignoring {file}: `{path.name}` is a symbolic link; replace it")
            return False
    return True


def is_trusted(workspace: Path, file: Path, content: bytes) -> bool:
    """Return whether the user has trusted a file with this content."""
    from handrail.policy import RulePaths, Trust, digest  # slow, and rarely needed

    file_of_trust = RulePaths.of(workspace).trust
    return file_of_trust is not None and Trust(file_of_trust).has(file, digest(content))


def _parse_settings(
    level: str, file: Path, content: bytes, problems: list[str]
) -> Iterator[_Assignment]:
    """Parse the settings in a file."""
    import tomllib  # most workspaces have no settings file

    try:
        text = content.decode()
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"{file} is not valid TOML: {error}"
        hint = 'write settings as in `model = "openai:NAME"`, and strings in quotes'
        raise Halt(message, code="config", hint=hint) from None
    for name, value in table.items():
        where = f"{file}:{_line_number(text, name)}"
        if name in KNOWN:
            hint = f"write a valid value, as in `{name} = {json.dumps(KNOWN[name].example)}`"
            checked = _check_value(name, value, f"{where}: `{name}`", hint)
            if level not in OWN:
                _refuse_own(name, checked, where)
            yield _Assignment(name, checked, SettingOrigin(level, where))
        else:
            near = closest_name(name, KNOWN)
            meant = f"; did you mean `{near}`?" if near else ""
            problems.append(f"{where}: unknown setting {name!r}{meant}")


def _refuse_own(name: str, value: Any, where: str) -> None:
    """Raise a Halt if a workspace file lets code run outside the sandbox."""
    free = name in ("unsandboxed_hooks", "codec")
    if name == "hooks":
        free = not all(hook.sandboxed for hook in programs_of(value))
    if free:
        what = f"`{name}`" if name != "hooks" else "a hook with `sandbox = false`"
        message = f"{where}: {what} is not allowed in a workspace's settings"
        hint = f"only your own settings can do that: move it to {files(Path())['user']}"
        raise Halt(message, code="config", hint=hint)


def _line_number(text: str, name: str) -> int:
    """Return a setting's line in a file."""
    match = re.search(rf"""(?m)^[ \t\[]*["']?{re.escape(name)}["']?\s*[]=.]""", text)
    return text.count("\n", 0, match.start()) + 1 if match else 1


def _quote(path: Path) -> str:
    from shlex import quote  # rarely needed

    return quote(str(path))


def closest_name(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str:
    """Return the known name most similar to a name; empty if none is."""
    from difflib import get_close_matches  # rarely needed

    return next(iter(get_close_matches(name, list(known), 1, likeness)), "")
