"""The files of a workspace that need trust: settings, rules, tools, instructions and skills.

Each file is read once: the bytes that are shown are the bytes that are trusted.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail import HandrailError
from handrail._support import is_list
from handrail._support.private_files import read_file
from handrail.agent import Notice, find_skills, read_instructions
from handrail.cli._base.exits import Halt
from handrail.cli._base.hook_table import check_hooks, commands_of
from handrail.cli._base.printable import one_line
from handrail.cli._base.settings import OWN, files
from handrail.cli._project.hook_files import find_files
from handrail.cli._project.kit import CODING
from handrail.cli._project.own_commands import workspace_files
from handrail.cli._project.sources import code_files
from handrail.cli._project.trusted import trust_of
from handrail.mcp import WORKSPACE_FILES, parse_servers
from handrail.policy import RulePaths, digest

Kind: TypeAlias = Literal[
    "settings", "rules", "tools", "hook", "command", "instructions", "skill", "servers"
]
SKILL = "SKILL.md"


@dataclass(frozen=True, slots=True)
class TrustItem:
    """A file of a workspace, or a skill's folder, with the content that was read."""

    path: str
    """Relative to the workspace; absolute if it is outside."""
    kind: Kind
    content: bytes
    trusted: bool

    @property
    def digest(self) -> str:
        """The digest of the content, which trust is tied to."""
        return digest(self.content)


class TrustProblem(NamedTuple):
    """A file that cannot be read."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class TrustReport:
    """The files that need trust, and those that could not be read."""

    files: tuple[TrustItem, ...]
    problems: tuple[TrustProblem, ...]


class _TrustScan:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._trust = trust_of(workspace)
        self._files: dict[str, TrustItem] = {}
        self._problems: list[TrustProblem] = []

    def report(self) -> TrustReport:
        return TrustReport(tuple(self._files.values()), tuple(self._problems))

    def read(self, path: Path, kind: Kind) -> bytes:
        """Read a file and add it; return nothing if it does not exist or cannot be read."""
        try:
            content = _read(path, kind)
        except FileNotFoundError:
            return b""
        except OSError as error:
            self._add_problem(self.name(path), str(error.strerror))
            return b""
        self.add(self.name(path), kind, content)
        return content

    def read_all(self, paths: Iterable[Path], kind: Kind) -> None:
        """Read files of one kind, and add them."""
        for path in paths:
            self.read(path, kind)

    def read_servers(self, path: Path) -> None:
        """Add a file that names MCP servers. Others of the same name need no trust."""
        with suppress(OSError, HandrailError):
            content = _read(path, "servers")
            if parse_servers(content, toml=path.suffix == ".toml"):
                self.add(self.name(path), "servers", content)

    def add(self, name: str, kind: Kind, content: bytes) -> None:
        trusted = self._trust.has(self._workspace / name, digest(content))
        self._files.setdefault(name, TrustItem(name, kind, content, trusted))

    def add_notices(self, notices: tuple[Notice, ...]) -> None:
        for notice in notices:
            if notice.kind == "skipped":
                self._add_problem(notice.path, notice.message)

    def _add_problem(self, name: str, why: str) -> None:
        self._problems.append(TrustProblem(name, f"cannot read {name}: {why}"))

    def name(self, path: Path) -> str:
        """Return a path relative to the workspace; absolute if it is outside."""
        inside = path.is_relative_to(self._workspace)
        return str(path.relative_to(self._workspace) if inside else path)


def _read(path: Path, kind: Kind) -> bytes:
    if kind in {"settings", "rules"} and path.parent.is_symlink():
        raise OSError(0, "its folder is a symbolic link")
    return read_file(path)


def needing_trust(workspace: Path) -> TrustReport:
    """Return every file of a workspace that needs trust, trusted or not."""
    search, places = _TrustScan(workspace), files(workspace)
    named: list[Path] = []
    hooks: list[Path] = []
    for level in ("local", "project"):
        table = _table(search.read(places[level], "settings"))
        named += [path for source in _sources(table) for path in code_files(source, workspace)]
        hooks += _hook_files(table, workspace)
    for level in OWN:
        hooks += _hook_files(_table(_read_own(places[level])), workspace)
    search.read(cast("Path", RulePaths.of(workspace).project), "rules")  # always set here
    for name in WORKSPACE_FILES:
        search.read_servers(workspace / name)
    search.read_all(named, "tools")
    search.read_all(hooks, "hook")
    search.read_all(workspace_files(workspace), "command")
    instructions, skills = read_instructions(workspace), find_skills(workspace)  # without trust
    for file in instructions.untrusted:
        search.add(file.path, "instructions", file.content)
    for file in skills.untrusted:
        search.add(file.path, "skill", file.content)
    search.add_notices(instructions.notices + skills.notices)
    return search.report()


def _read_own(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _table(content: bytes) -> dict[str, Any]:
    """Return the settings in a file, trusted or not; none if it is invalid."""
    try:
        return tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return {}


def _hook_files(table: dict[str, Any], workspace: Path) -> list[Path]:
    """Return the files of the workspace that the hooks of a settings file name."""
    try:
        commands = commands_of(check_hooks(table.get("hooks", {})))
    except TypeError:
        return []
    return [path for command in commands for path in find_files(command, workspace)]


def _sources(table: dict[str, Any]) -> list[str]:
    """Return the sources that a settings file names."""
    tools = table.get("tools")
    named = [*(tools if is_list(tools) else []), table.get("model")]
    return [source for source in named if isinstance(source, str) and source != CODING]


def find_item(path: str, report: TrustReport, workspace: Path) -> TrustItem:
    """Return the file that the user named; a skill can be named by its folder or its SKILL.md."""
    whole = Path(os.path.normpath(workspace / path))
    search = _TrustScan(workspace)
    name = search.name(whole)
    known = {item.path: item for item in report.files}
    for spelling in (name, name.removesuffix(f"/{SKILL}")):
        if spelling in known:
            return known[spelling]
    kinds: dict[str, Kind] = {
        "AGENTS.md": "instructions",
        "CLAUDE.md": "instructions",
        ".py": "tools",
    }
    kind = kinds.get(whole.name) or kinds.get(whole.suffix)
    if kind is not None:
        search.read(whole, kind)
    found = search.report()
    if found.files:
        return found.files[0]
    problems = [*found.problems, *report.problems]
    messages = [problem.message for problem in problems if problem.path == name]
    exists = os.path.lexists(whole)
    reason = f"{name} needs no trust" if exists else f"{name} does not exist"
    raise Halt(
        one_line(next(iter(messages), reason)),
        code="nothing_to_trust",
        hint="run `handrail trust --list` to see the files that need trust",
    )
