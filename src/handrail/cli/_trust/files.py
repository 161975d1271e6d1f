"""Workspace files needing trust: settings, rules, tools, instructions and skills.

Each file is read once: the bytes shown are the bytes trusted.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from handrail import HandrailError
from handrail._support import is_list
from handrail._support.private_files import read_file
from handrail.agent import Notice, find_skills, read_instructions
from handrail.cli._base.exits import Halt
from handrail.cli._base.hook_table import check_hooks, programs_of
from handrail.cli._base.printable import one_line
from handrail.cli._base.settings import OWN, files
from handrail.cli._project import servers
from handrail.cli._project.kit import CODING
from handrail.cli._project.own_commands import workspace_files
from handrail.cli._project.settings_hooks import line_of
from handrail.cli._project.sources import code_files
from handrail.cli._project.trusted import trust_of
from handrail.cli._project.workspace_code import StartedLine, UntrustedCode, read_code
from handrail.mcp import WORKSPACE_FILES, parse_servers
from handrail.policy import RulePaths, digest

Kind: TypeAlias = Literal[
    "settings", "rules", "tools", "hook", "server", "command", "instructions", "skill", "servers"
]
SKILL = "SKILL.md"
_WORKSPACE = ("local", "project")


@dataclass(frozen=True, slots=True)
class TrustItem:
    """A workspace file, or a skill's folder, with the content read."""

    path: str
    """Relative to the workspace; absolute if it is outside."""
    kind: Kind
    content: bytes
    trusted: bool
    folder: bool = False
    """Whether it is a code folder: the content lists its files."""

    @property
    def digest(self) -> str:
        """The content's digest, which trust is tied to."""
        return digest(self.content)


class TrustProblem(NamedTuple):
    """An unreadable file."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class TrustReport:
    """The files needing trust, and the unreadable ones."""

    files: tuple[TrustItem, ...]
    problems: tuple[TrustProblem, ...]
    notes: tuple[str, ...] = ()
    """What runs outside the sandbox, or with more rights than a command."""


class _TrustScan:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._trust = trust_of(workspace)
        self._files: dict[str, TrustItem] = {}
        self._problems: list[TrustProblem] = []
        self._notes: list[str] = []

    def report(self) -> TrustReport:
        return TrustReport(tuple(self._files.values()), tuple(self._problems), tuple(self._notes))

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
        """Read files with one kind, and add them."""
        for path in paths:
            self.read(path, kind)

    def read_code(self, line: StartedLine, kind: Kind) -> None:
        """Add the files and folders run by a line."""
        for path in line.find_pinned(self._workspace):
            try:
                self.add(self.name(path), kind, read_code(path), folder=path.is_dir())
            except UntrustedCode as error:
                self._problems.append(TrustProblem(self.name(path), str(error)))

    def note(self, what: str, line: StartedLine, rights: str) -> None:
        """Say what something can do, and why it is refused."""
        self._notes.append(f"{what}{rights}")
        if unknown := line.find_code(self._workspace).unknown:
            self._notes.append(f"{what} is refused: {unknown}")

    def read_servers(self, path: Path) -> None:
        """Add a file naming MCP servers. Others with the same name need no trust."""
        with suppress(OSError, HandrailError):
            content = _read(path, "servers")
            if parse_servers(content, suffix=path.suffix):
                self.add(self.name(path), "servers", content)

    def add(self, name: str, kind: Kind, content: bytes, *, folder: bool = False) -> None:
        trusted = self._trust.has(self._workspace / name, digest(content))
        self._files.setdefault(name, TrustItem(name, kind, content, trusted, folder))

    def add_notices(self, notices: tuple[Notice, ...]) -> None:
        for notice in notices:
            if notice.kind == "skipped":
                self._add_problem(notice.path, notice.message)

    def _add_problem(self, name: str, why: str) -> None:
        self._problems.append(TrustProblem(name, f"cannot read {name}: {why}"))

    def name(self, path: Path) -> str:
        """Return a path relative to the workspace; absolute if it is outside."""
        above = (self._workspace, self._workspace.resolve())
        root = next((folder for folder in above if path.is_relative_to(folder)), None)
        return str(path.relative_to(root) if root else path)


def _read(path: Path, kind: Kind) -> bytes:
    if kind in {"settings", "rules"} and path.parent.is_symlink():
        raise OSError(0, "its folder is a symbolic link")
    return read_file(path)


def needing_trust(workspace: Path) -> TrustReport:
    """Return every workspace file needing trust, trusted or not."""
    search, places = _TrustScan(workspace), files(workspace)
    named: list[Path] = []
    tables = {level: _table(search.read(places[level], "settings")) for level in _WORKSPACE}
    for table in tables.values():
        named += [path for source in _sources(table) for path in code_files(source, workspace)]
    tables |= {level: _table(_read_own(places[level])) for level in OWN}
    search.read(cast("Path", RulePaths.of(workspace).project), "rules")  # always set here
    for name in WORKSPACE_FILES:
        search.read_servers(workspace / name)
    search.read_all(named, "tools")
    for table in tables.values():
        _read_hooks(search, table, workspace, outside=_runs_outside(tables))
    _read_server_code(search, workspace)
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


def _runs_outside(tables: Mapping[str, dict[str, Any]]) -> bool:
    """Return whether the user's own settings let all hooks run outside the sandbox."""
    own = [tables[level].get("unsandboxed_hooks") is True for level in OWN]
    return any(own) or os.environ.get("HANDRAIL_UNSANDBOXED_HOOKS") == "true"


def _read_hooks(
    search: _TrustScan, table: dict[str, Any], workspace: Path, *, outside: bool
) -> None:
    """Add the workspace files run by a settings file's hooks."""
    try:
        hooks = list(programs_of(check_hooks(table.get("hooks", {}))))
    except TypeError:
        return
    for hook in hooks:
        line = line_of(hook, workspace, outside=outside or not hook.sandboxed)
        search.read_code(line, "hook")
        if line.privileged:
            what = f"the {hook.event} hook `{hook.command}`"
            search.note(what, line, " runs outside the sandbox, with your rights")


def _read_server_code(search: _TrustScan, workspace: Path) -> None:
    """Add the workspace files run by MCP servers."""
    for server in servers.started_servers(workspace, trusted=False):
        line = servers.line_of(server)
        search.read_code(line, "server")
        if rights := servers.describe_rights(server, workspace):
            search.note(f"the MCP server {server.name}", line, f": {rights}")


def _sources(table: dict[str, Any]) -> list[str]:
    """Return the sources named in a settings file."""
    tools = table.get("tools")
    named = [*(tools if is_list(tools) else []), table.get("model")]
    return [source for source in named if isinstance(source, str) and source != CODING]


def find_item(path: str, report: TrustReport, workspace: Path) -> TrustItem:
    """Return the file named by the user; a skill can be named by its folder or its SKILL.md."""
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
