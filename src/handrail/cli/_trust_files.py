"""What of a workspace needs trust: settings, rules, tools, instructions and skills, each read once.

What is shown to a user, what they say yes to and what is stored are the same bytes.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from handrail.agent import Remark, find_skills, read_instructions
from handrail.cli._exits import Halt
from handrail.cli._kit import CODING
from handrail.cli._rules_shapes import is_list
from handrail.cli._rules_told import one_line
from handrail.cli._settings import files
from handrail.cli._sources import code_of
from handrail.cli._trusted import content_of, trust_of
from handrail.policy import Places, digest

Kind: TypeAlias = Literal["settings", "rules", "tools", "instructions", "skill"]
SKILL = "SKILL.md"
INSTRUCTIONS = "AGENTS.md"


@dataclass(frozen=True, slots=True)
class Looked:
    """A file of a workspace, or a skill's folder, as it was when it was read."""

    path: str
    """From the workspace; the whole path, where it lies elsewhere."""
    kind: Kind
    content: bytes
    trusted: bool

    @property
    def digest(self) -> str:
        """What trust is bound to."""
        return digest(self.content)


@dataclass(frozen=True, slots=True)
class Found:
    """What there is, and what could not be read."""

    files: tuple[Looked, ...]
    problems: tuple[str, ...]


class _Search:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._trust = trust_of(workspace)
        self._files: dict[str, Looked] = {}
        self._problems: list[str] = []

    def done(self) -> Found:
        return Found(tuple(self._files.values()), tuple(self._problems))

    def look(self, path: Path, kind: Kind) -> bytes:
        """Read a file; nothing, where there is none or it cannot be read."""
        try:
            if kind in {"settings", "rules"} and path.parent.is_symlink():
                raise OSError(0, "its folder is a link")  # noqa: TRY301  told below
            content = content_of(path)
        except FileNotFoundError:
            return b""
        except OSError as error:
            self._problems.append(f"{self.name(path)} is not read: {error.strerror}")
            return b""
        self.take(self.name(path), kind, content)
        return content

    def take(self, name: str, kind: Kind, content: bytes) -> None:
        trusted = self._trust.has(self._workspace / name, digest(content))
        self._files.setdefault(name, Looked(name, kind, content, trusted))

    def remark(self, remarks: tuple[Remark, ...]) -> None:
        self._problems += [
            f"{one.path} is not read: {one.message}" for one in remarks if one.rule == "left out"
        ]

    def name(self, path: Path) -> str:
        """A path from the workspace; the whole path, where it lies elsewhere."""
        inside = path.is_relative_to(self._workspace)
        return str(path.relative_to(self._workspace) if inside else path)


def needing_trust(workspace: Path) -> Found:
    """All of a workspace that counts only once it is trusted, trusted or not."""
    search, places = _Search(workspace), files(workspace)
    named: list[Path] = []
    for level in ("local", "project"):
        content = search.look(places[level], "settings")
        named += [one for source in _sources(content) for one in code_of(source, workspace)]
    project = Places.of(workspace).project
    assert project is not None  # noqa: S101  the usual places have one
    search.look(project, "rules")
    for path in named:
        search.look(path, "tools")
    told, skills = read_instructions(workspace), find_skills(workspace)  # they trust nobody
    for one in told.untrusted:
        search.take(one.path, "instructions", one.content)
    for one in skills.untrusted:
        search.take(one.path, "skill", one.content)
    search.remark(told.remarks + skills.remarks)
    return search.done()


def _sources(content: bytes) -> list[str]:
    """The sources that settings name, whether the settings are trusted or not."""
    try:
        table: dict[str, Any] = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return []
    tools = table.get("tools")
    named = [*(tools if is_list(tools) else []), table.get("model")]
    return [one for one in named if isinstance(one, str) and one != CODING]


def meant(path: str, found: Found, workspace: Path) -> Looked:
    """What a path means that a person gave; a skill may be named by its folder or its file."""
    whole = Path(os.path.normpath(workspace / path))
    search = _Search(workspace)
    name = search.name(whole)
    known = {one.path: one for one in found.files}
    for one in (name, name.removesuffix(f"/{SKILL}")):
        if one in known:
            return known[one]
    kinds: dict[str, Kind] = {INSTRUCTIONS: "instructions", ".py": "tools"}
    kind = kinds.get(whole.name) or kinds.get(whole.suffix)
    if kind is not None:
        search.look(whole, kind)
    looked = search.done()
    if looked.files:
        return looked.files[0]
    told = [one for one in (*looked.problems, *found.problems) if one.startswith(f"{name} is not")]
    there = f"{name} needs no trust" if os.path.lexists(whole) else f"there is no {name}"
    raise Halt(
        one_line(next(iter(told), there)),
        code="nothing_to_trust",
        hint="`handrail trust --list` shows what needs trust",
    )
