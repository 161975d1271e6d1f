"""Which mode counts, and who said so."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from handrail.cli._exits import Halt
from handrail.cli._kit import Kit
from handrail.cli._rules_files import File, rule_files, unusable
from handrail.cli._rules_store import locked, replaced
from handrail.cli._rules_told import LEVELS
from handrail.cli._trusted import content_of
from handrail.policy import Mode, Unusable, parse_unchecked

MEANS = {
    "plan": "nothing is changed: what would change something is denied",
    "ask": "what would change something is asked about",
    "edits": "what would destroy something is asked about",
    "open": "only what is protected is asked about, and what a rule asks about",
}
_KEY = re.compile(r"""(?m)^([ \t]*(?:mode|"mode"|'mode')[ \t]*=[ \t]*)("[^"\n]*"|'[^'\n]*')""")


class Said(NamedTuple):
    """A mode, and where it comes from."""

    mode: str
    level: str
    """flag, environment, local, project, user, machine, built in or managed."""
    where: str = ""


@dataclass(frozen=True)
class Counting:
    """The mode that counts, who asked for it, and what holds it back."""

    mode: str
    wanted: Said
    ceiling: Said | None = None
    """The machine's: no mode is looser than this."""
    broken: str = ""
    """Why rules cannot be read; then every call is denied, whatever the mode."""

    def told(self) -> dict[str, Any]:
        """All of it as data."""
        return {
            "mode": self.mode,
            "wanted": self.wanted._asdict(),
            "ceiling": self.ceiling._asdict() if self.ceiling is not None else None,
            "broken": self.broken,
        }


def counting(kit: Kit) -> Counting:
    """The mode that counts now."""
    found = [(file, said) for file in rule_files(kit.places) if (said := _said(file)) is not None]
    below = [said for file, said in found if file.name != "managed"]
    ceiling = next((said for file, said in found if file.name == "managed"), None)
    value, origin = kit.app.settings["mode"], kit.app.settings.origins["mode"]
    if value is not None:
        wanted = Said(value, origin.level, origin.where)
    else:  # of those that rule files ask for, the strictest
        wanted = min(below, key=lambda one: Mode.of(one.mode), default=Said("ask", "built in"))
    return Counting(str(kit.rules.mode), wanted, ceiling, unusable(kit.rules))


def _said(file: File) -> Said | None:
    """The mode that a rule file asks for, as far as it counts."""
    text = file.text()
    try:
        asked = parse_unchecked(text or "", file=str(file.path), level=file.level).mode
    except Unusable:
        return None
    book = file.alone(Mode.OPEN if file.name == "managed" else None)
    if text is None or asked is None or any("do not count" in one for one in book.problems):
        return None
    line = text.count("\n", 0, found.start()) + 1 if (found := _KEY.search(text)) else 1
    return Said(str(book.mode), LEVELS[file.level], f"{file.path}:{line}")


def store(file: Path, mode: str) -> None:
    """Set the mode in a user's settings; all else stays as it is, byte for byte."""
    real = file.resolve()  # a link of the user's own stays one
    with locked(real):
        _store(file, real, mode)


def _store(file: Path, real: Path, mode: str) -> None:
    try:
        before = content_of(real).decode() if real.exists() else ""
        table = tomllib.loads(before)
    except OSError as error:
        raise Halt(f"{file}: {error.strerror}", code="config", hint="mend it there") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise Halt(f"{file}: {error}", code="config", hint="mend it there") from None
    after = _changed(before, table, mode)
    if after is None:
        raise Halt(
            f"{file}: its mode cannot be changed by a program",
            code="config",
            hint=f'write mode = "{mode}" there',
        )
    replaced(real, after.encode())


def _changed(before: str, table: dict[str, Any], mode: str) -> str | None:
    """The text with another mode: the one change that makes just this difference."""
    new = f'mode = "{mode}"'
    drafts = [
        f"{before[: found.start()]}{found[1]}{new.removeprefix('mode = ')}{before[found.end() :]}"
        for found in _KEY.finditer(before)
    ]
    if "mode" not in table:
        drafts = [f"{new}{_newline(before)}{before}"]
    return next((one for one in drafts if _reads(one) == {**table, "mode": mode}), None)


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _reads(text: str) -> object:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None
