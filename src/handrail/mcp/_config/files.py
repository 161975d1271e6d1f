"""Files with server entries: read, never rewritten, except handrail's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from handrail import HandrailError
from handrail._support.private_files import hold_lock, read_file, replace_file
from handrail.mcp._config.entries import ServerConfig, read_entry
from handrail.mcp._config.formats import UNSUPPORTED, find_format, read_entries
from handrail.mcp._config.variables import ConfigError
from handrail.sandbox import find_placeholders

IsTrusted: TypeAlias = Callable[[Path, bytes], bool]

WORKSPACE_FILES = (
    ".mcp.json",
    ".vscode/mcp.json",
    ".cursor/mcp.json",
    ".gemini/settings.json",
    ".codex/config.toml",
)
"""Workspace files with possible server entries. Each is used only if trusted."""
_MARKS = frozenset({"command", "url", "httpUrl", "serverUrl", UNSUPPORTED})
"""Fields marking an entry as a server. One without them extends another file's entry."""


@dataclass(frozen=True, slots=True)
class Configured:
    """Configured servers by name, and the problems with files and entries."""

    servers: Mapping[str, ServerConfig]
    problems: tuple[str, ...] = ()


def read_servers(file: str | os.PathLike[str], *, workspace: str = "") -> Configured:
    """Return a file's servers.

    It may be a ``.mcp.json``, the ``mcp.json`` of VS Code or Cursor, or the configuration file from
    Claude Desktop, Codex (TOML), Gemini, Zed, opencode, Continue (YAML) or goose (YAML).
    """
    return find_servers([(Path(file), None)], workspace=workspace)


def find_servers(
    files: Iterable[tuple[Path, IsTrusted | None]], *, workspace: str = ""
) -> Configured:
    """Return the servers in these files. The first file naming a server is used.

    An entry without a command or an address adds options to the same server in later files. A file
    failing its trust check is not used.
    """
    entries: dict[str, dict[str, Any]] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    for file, is_trusted in files:
        try:
            found = _read(file, is_trusted)
        except ConfigError as error:
            problems.append(f"ignoring {file}: {error}")
            continue
        for name, entry in found.items():
            first = entries.get(name, {})
            if _MARKS.isdisjoint(first):
                entries[name] = {**entry, **first}
                origins[name] = str(file)
    servers: dict[str, ServerConfig] = {}
    for name, entry in entries.items():
        try:
            made = read_entry(name, entry, os.environ, workspace)
        except HandrailError as error:
            problems.append(f"{origins[name]}: ignoring the MCP server {name!r}: {error}")
            continue
        if made is not None:
            servers[name] = replace(made, origin=origins[name])
    return Configured(servers, tuple(problems))


def _read(file: Path, is_trusted: IsTrusted | None) -> dict[str, dict[str, Any]]:
    try:
        content = read_file(file)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        if file.name in find_placeholders(file.parent):
            return {}
        raise ConfigError(str(error.strerror)) from None
    table = parse_servers(content, suffix=file.suffix)
    if table and is_trusted is not None and not is_trusted(file, content):
        raise ConfigError("not trusted, or changed since you trusted it")
    return table


def parse_servers(content: bytes, *, suffix: str) -> dict[str, dict[str, Any]]:
    """Return a file's entries by name. Raises ConfigError if it cannot be read.

    The ``suffix`` of its name is ``.toml``, ``.yaml`` or ``.yml``; any other means JSON, perhaps
    with comments and trailing commas.
    """
    return read_entries(content, find_format(suffix))


def store_entry(file: Path, name: str, entry: Mapping[str, Any] | None) -> bool:
    """Write an entry in handrail's own file, or remove it. Returns whether there was one."""
    with hold_lock(file):
        try:
            whole: Any = json.loads(read_file(file))
        except FileNotFoundError:
            whole = {}
        except (OSError, ValueError) as error:
            raise ConfigError(f"{file} cannot be read: {error}") from None
        servers = whole.setdefault("mcpServers", {})
        had = servers.pop(name, None) is not None
        if entry is not None:
            servers[name] = dict(entry)
        if had or entry is not None:
            replace_file(file, json.dumps(whole, indent=2).encode() + b"\n")
    return had
