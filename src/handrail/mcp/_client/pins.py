"""Pins: approved tool definitions, by server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handrail._support import is_list
from handrail._support.private_files import hold_lock, replace_file
from handrail.mcp._client.definition import ListedTool, canonical, describe_change
from handrail.mcp._client.servers import Server, check_server_name
from handrail.mcp._private_table import read_private_table


@dataclass(frozen=True, slots=True)
class ChangedTool:
    """A tool whose definition is not the approved one. Its calls are refused until it is."""

    name: str
    """The tool's name on its server."""
    approved: ListedTool | None
    """None for a tool never approved."""
    now: ListedTool

    @property
    def difference(self) -> str:
        """The change as lines with + and -, or the whole definition for a new tool."""
        if self.approved is None:
            return self.now.to_text()
        return describe_change(self.approved, self.now) or "The server has another identity now."


class Pins:
    """Approved definitions, in memory or in a folder writable only by its owner.

    Args:
        folder: Where approvals are stored. Without one, they last as long as this object.
        first_use: Whether to approve a definition when first seen, by default only in memory. A
            changed one is never approved. With a folder, new tools of a known server are not.
    """

    def __init__(self, folder: Path | None = None, *, first_use: bool | None = None) -> None:
        self._folder = folder
        self._held: dict[str, Any] = {}
        self._first_use = folder is None if first_use is None else first_use

    def get(self, server: Server) -> tuple[ListedTool, ...]:
        """Return a server's approved definitions, or none if its identity has changed."""
        entry = self._load(server.name)
        tools: Any = entry.get("tools") if _is_of(entry, server) else None
        return tuple(ListedTool.read(tool) for tool in tools) if is_list(tools) else ()

    def is_reviewed(self, server: Server) -> bool:
        """Return whether anything from this server was approved under this identity."""
        return _is_of(self._load(server.name), server)

    def check(self, server: Server, listed: Iterable[ListedTool]) -> tuple[ChangedTool, ...]:
        """Compare what a server lists with what is approved, and return the differences."""
        now = tuple(listed)
        approved = {definition.name: definition for definition in self.get(server)}
        new = [definition for definition in now if definition.name not in approved]
        is_first = self._folder is None or not self.is_reviewed(server)
        if self._first_use and new and is_first:
            self.approve(server, new)
            approved |= {definition.name: definition for definition in new}
        changed = [tool for tool in now if not _is_same(approved.get(tool.name), tool, server)]
        return tuple(ChangedTool(tool.name, approved.get(tool.name), tool) for tool in changed)

    def approve(self, server: Server, definitions: Iterable[ListedTool]) -> None:
        """Approve more of a server's definitions. Call this only for a person's decision."""
        kept = {definition.name: definition for definition in self.get(server)}
        kept |= {definition.name: definition for definition in definitions}
        tools = [dict(kept[name].listed) for name in sorted(kept)]
        more = {"resources": True} if self.has_resources(server) else {}
        self._store(server.name, {"identity": server.identity, "tools": tools, **more})

    def has_resources(self, server: Server) -> bool:
        """Return whether a reviewed server had resources when it was last connected."""
        entry = self._load(server.name)
        return _is_of(entry, server) and entry.get("resources") is True

    def note_resources(self, server: Server) -> None:
        """Note that a reviewed server has resources."""
        if self.is_reviewed(server) and not self.has_resources(server):
            self._store(server.name, {**self._load(server.name), "resources": True})

    def forget(self, name: str) -> bool:
        """Forget all of a server's approvals. Returns whether there were any."""
        had = bool(self._load(name))
        if self._folder is None:
            self._held.pop(name, None)
        else:
            self._file(self._folder, name).unlink(missing_ok=True)
        return had

    def _load(self, name: str) -> dict[str, Any]:
        if self._folder is None:
            held: Any = self._held.get(name, {})
            return dict(held)
        return read_private_table(self._file(self._folder, name))

    def _store(self, name: str, entry: dict[str, Any]) -> None:
        if self._folder is None:
            self._held[name] = json.loads(json.dumps(entry))
            return
        file = self._file(self._folder, name)
        with hold_lock(file):
            replace_file(file, json.dumps(entry, indent=1, sort_keys=True).encode())

    @staticmethod
    def _file(folder: Path, name: str) -> Path:
        return folder / f"{check_server_name(name)}.json"


def _is_of(entry: dict[str, Any], server: Server) -> bool:
    return canonical(entry.get("identity")) == canonical(server.identity)


def _is_same(approved: ListedTool | None, now: ListedTool, server: Server) -> bool:
    identity = server.identity
    return approved is not None and approved.fingerprint(identity) == now.fingerprint(identity)
