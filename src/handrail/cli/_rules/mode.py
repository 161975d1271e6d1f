"""The active mode, and where it was set."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from handrail._support.private_files import hold_lock, read_file, replace_file
from handrail.cli._base.exits import Halt
from handrail.cli._base.printable import one_line
from handrail.cli._project.kit import Kit
from handrail.cli._rules.files import OwnedRuleFile, rule_files, why_unusable
from handrail.cli._rules.wording import LEVELS
from handrail.policy import InvalidRule, Mode, Rulebook, parse

_PLAN = "reading runs; secrets need approval; everything else is denied"
_OPEN = (
    "catastrophic commands, commands that cannot be checked, changes of settings, changes of other "
    "machines, other package indexes, protected files, secrets and commands that print them need "
    "approval; everything else runs"
)
WITH_SANDBOX = {
    "plan": _PLAN,
    "ask": "reading and common development commands run; secrets and everything else need approval",
    "edits": "commands that cannot be checked, lose work, change settings, use credentials or "
    "reach other machines, protected files and secrets need approval; everything else runs",
    "open": _OPEN,
}
"""What runs without approval in each mode, under the built-in rules. A test decides such calls."""
WITHOUT_SANDBOX = {
    "plan": _PLAN,
    "ask": "reading runs; secrets and everything else need approval",
    "edits": "reading and file changes run; protected files, secrets and everything else need "
    "approval",
    "open": _OPEN,
}
"""The same if a command may run outside a sandbox."""
_KEY = re.compile(r"""(?m)^([ \t]*(?:mode|"mode"|'mode')[ \t]*=[ \t]*)("[^"\n]*"|'[^'\n]*')""")


class ModeOrigin(NamedTuple):
    """A mode, and where it was set."""

    mode: str
    level: str
    """flag, environment, local, project, user, system, default or managed."""
    where: str = ""


@dataclass(frozen=True)
class ActiveMode:
    """The effective mode, the requested mode, and its limit."""

    mode: str
    means: str
    """What runs without approval."""
    wanted: ModeOrigin
    ceiling: ModeOrigin | None = None
    """The mode in the system rules. No mode can be more permissive."""
    broken: str = ""
    """Why the rules cannot be read. Every call is then denied in any mode."""

    def document(self) -> dict[str, Any]:
        """Return it as a JSON document."""
        return {
            "mode": self.mode,
            "means": self.means,
            "wanted": self.wanted._asdict(),
            "ceiling": self.ceiling._asdict() if self.ceiling is not None else None,
            "broken": self.broken,
        }


def active_mode(kit: Kit) -> ActiveMode:
    """Return the effective mode."""
    origins = [
        (file, origin_in_file)
        for file in rule_files(kit.places)
        if (origin_in_file := _mode_in(file)) is not None
    ]
    below = [origin for file, origin in origins if file.name != "managed"]
    ceiling = next((origin for file, origin in origins if file.name == "managed"), None)
    value, origin = kit.app.settings["mode"], kit.app.settings.origins["mode"]
    if value is not None:
        wanted = ModeOrigin(value, origin.level, origin.where)
    else:  # the strictest mode in all rule files
        wanted = min(
            below, key=lambda origin: Mode.of(origin.mode), default=ModeOrigin("ask", "default")
        )
    book = kit.rules
    return ActiveMode(str(book.mode), describe_mode(book), wanted, ceiling, why_unusable(book))


def describe_mode(book: Rulebook) -> str:
    """Return what runs without approval in the current mode."""
    if why := why_unusable(book):
        return one_line(f"every call is denied: {why}")
    mode = str(book.mode)
    if book.is_sandboxed:
        return f"with a sandbox, {WITH_SANDBOX[mode]}"
    return f"without a sandbox, {WITHOUT_SANDBOX[mode]}"


def _mode_in(file: OwnedRuleFile) -> ModeOrigin | None:
    """Return a rule file's mode, unless the file is ignored."""
    text = file.text()
    try:
        mode = parse(text or "", file=str(file.path), level=file.level, check=False).mode
    except InvalidRule:
        return None
    book = file.alone(Mode.OPEN if file.name == "managed" else None)
    if text is None or mode is None or _is_ignored(book):
        return None
    line = text.count("\n", 0, match.start()) + 1 if (match := _KEY.search(text)) else 1
    return ModeOrigin(str(book.mode), LEVELS[file.level], f"{file.path}:{line}")


def _is_ignored(book: Rulebook) -> bool:
    return any(problem.kind in ("untrusted", "unreadable") for problem in book.problems)


def store_mode(file: Path, mode: str) -> None:
    """Set the mode in the user's settings. The file's rest is unchanged, byte for byte."""
    real = file.resolve()  # if the file is a link, it stays one
    with hold_lock(real):
        _store_mode(file, real, mode)


def _store_mode(file: Path, real: Path, mode: str) -> None:
    try:
        before = read_file(real).decode() if real.exists() else ""
        table = tomllib.loads(before)
    except OSError as error:
        hint = f"make it a file that you can read, or pass `--mode {mode}` to each command"
        raise Halt(f"cannot read {file}: {error.strerror}", code="config", hint=hint) from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        hint = f'correct it, and add `mode = "{mode}"`'
        raise Halt(f"{file} is not valid TOML: {error}", code="config", hint=hint) from None
    after = _change_mode(before, table, mode)
    if after is None:
        raise Halt(
            f"cannot change the mode in {file}: it is written in an unusual form",
            code="config",
            hint=f'edit the file, and write `mode = "{mode}"`',
        )
    replace_file(real, after.encode())


def _change_mode(before: str, table: dict[str, Any], mode: str) -> str | None:
    """Return the text with another mode and no other difference, or None if impossible."""
    new = f'mode = "{mode}"'
    drafts = [
        f"{before[: match.start()]}{match[1]}{new.removeprefix('mode = ')}{before[match.end() :]}"
        for match in _KEY.finditer(before)
    ]
    if "mode" not in table:
        newline = "\r\n" if "\r\n" in before else "\n"
        drafts = [f"{new}{newline}{before}"]
    return next((draft for draft in drafts if parse_toml(draft) == {**table, "mode": mode}), None)


def parse_toml(text: str) -> object:
    """Return a TOML text as a table, or None if it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
