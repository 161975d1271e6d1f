"""Keeps a workspace's files while a command runs, so undo can restore them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import anyio
from anyio import to_thread

from handrail.permissions import Undoable
from handrail.tools._files.workspace import Workspace
from handrail.tools._trees.kept import KeptTrees, OpenCommand, name_left_out

OnlyReads: TypeAlias = Callable[[str], bool]
"""Returns whether a shell command changes nothing."""
_MAX_NAMED = 5
"""Names of what is not kept, in an approval request."""
_MAX_PATHS = 100
"""Paths of what is not kept. If there are more, it may be anything in the workspace."""


@dataclass(slots=True)
class UndoableCommand:
    """A command that is running."""

    trees: KeptTrees | None = None
    opened: OpenCommand | None = None
    note: str = ""
    """A note for the model, if undo cannot restore what the command changes."""

    async def end(self) -> None:
        """Record the changes, even if the call was cancelled."""
        if self.trees is not None and self.opened is not None:
            with anyio.CancelScope(shield=True):
                try:
                    await to_thread.run_sync(self.trees.end, self.opened)
                except OSError as error:
                    self.note = _describe_error(error)


def _describe_error(error: OSError) -> str:
    reason = error.strerror or "its changes cannot be recorded"
    return f"\n[The user cannot undo this command: {reason}.]"


def _reads_and_writes(_command: str) -> bool:
    return False


class CommandUndo:
    """Keeps the files of one workspace; of none, if there is no workspace."""

    def __init__(self, workspace: Workspace | None, only_reads: OnlyReads | None) -> None:
        self._trees = None if workspace is None else KeptTrees(workspace)
        self._only_reads = only_reads or _reads_and_writes

    async def begin(self, call_id: str, command: str) -> UndoableCommand:
        """Keep the files before a command. A failure does not prevent the command."""
        return await to_thread.run_sync(self._begin, call_id, command)

    def _begin(self, call_id: str, command: str) -> UndoableCommand:
        if self._trees is None or self._only_reads(command):
            return UndoableCommand()
        try:
            return UndoableCommand(self._trees, self._trees.begin(call_id, command))
        except OSError as error:
            return UndoableCommand(note=_describe_error(error))

    def preview(self, **_: object) -> list[Undoable]:
        """Return what undo could restore, for an approval request."""
        if self._trees is None:
            return []
        left_out = self._trees.find_left_out()
        names = name_left_out(left_out)
        more = [f"and {len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
        said = f"Undo cannot restore: {', '.join([*names[:_MAX_NAMED], *more])}." if names else ""
        return [Undoable(tuple(sorted(left_out)) if len(left_out) <= _MAX_PATHS else (".",), said)]
