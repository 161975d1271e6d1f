"""List a workspace's files, for a person to choose from."""

from __future__ import annotations

from handrail import ToolFailed
from handrail.tools._files.workspace import Workspace
from handrail.tools._search.query import SearchPlace, SearchScope
from handrail.tools._search.ripgrep import Ripgrep

_SECONDS = 5.0
_MAX_FILES = 200_000


async def list_files(workspace: Workspace, *, seconds: float = _SECONDS) -> list[str]:
    """Return a workspace's files that ``.gitignore`` and the rules leave in a search.

    Paths are relative to the root. The list is empty without ripgrep, and incomplete if the time is
    not enough.
    """
    program = Ripgrep.find(outside=workspace.root)
    found: list[str] = []

    def take(names: list[str]) -> bool:
        found.extend(names)
        return len(found) < _MAX_FILES

    if program is not None:
        with workspace.folder(".") as folder:
            place = SearchPlace(workspace.root, folder.fd, "")
            try:
                await program.names(place, SearchScope(), take, seconds=seconds)
            except ToolFailed:  # ripgrep does not start
                return []
    return [name for name in found if not workspace.is_hidden(name)]
