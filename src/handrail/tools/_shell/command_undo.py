"""Keeps the files of a workspace while a command runs, so that undo can restore them."""

from __future__ import annotations

from dataclasses import dataclass

import anyio
from anyio import to_thread

from handrail.tools._files.workspace import Workspace
from handrail.tools._trees.kept import KeptTrees, OpenCommand

_MAX_NAMED = 5
"""Names of what is not kept, in an approval request."""


@dataclass(slots=True)
class UndoableCommand:
    """A command that is running."""

    trees: KeptTrees | None
    opened: OpenCommand | None = None
    note: str = ""
    """A note for the model, if undo cannot restore what the command changes."""

    async def begin(self, call_id: str, command: str) -> None:
        """Keep the files. A failure does not prevent the command."""
        if self.trees is not None:
            try:
                self.opened = await to_thread.run_sync(self.trees.begin, call_id, command)
            except OSError as error:
                self._explain(error)

    async def end(self) -> None:
        """Record the changes, even if the call was cancelled."""
        if self.trees is not None and self.opened is not None:
            with anyio.CancelScope(shield=True):
                try:
                    await to_thread.run_sync(self.trees.end, self.opened)
                except OSError as error:
                    self._explain(error)

    def _explain(self, error: OSError) -> None:
        self.note = (
            f"\n[The user cannot undo this command: {error.strerror or 'it cannot be recorded'}.]"
        )


class CommandUndo:
    """Keeps the files of one workspace; of none, if there is no workspace."""

    def __init__(self, workspace: Workspace | None) -> None:
        self._trees = None if workspace is None else KeptTrees(workspace)

    async def begin(self, call_id: str, command: str) -> UndoableCommand:
        """Keep the files before a command."""
        kept = UndoableCommand(self._trees)
        await kept.begin(call_id, command)
        return kept

    def preview(self, **_: object) -> list[str]:
        """Return what undo could not restore, for an approval request."""
        names = [] if self._trees is None else self._trees.list_left_out()
        if not names:
            return []
        more = [f"and {len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
        return [f"Undo cannot restore: {', '.join([*names[:_MAX_NAMED], *more])}."]
