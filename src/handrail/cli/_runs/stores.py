"""Where commands find runs: the journal of this user, or a database of durable runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from handrail.cli._base.app import App
from handrail.cli._base.exits import Halt
from handrail.cli._runs.port import InboxCall, RunStore
from handrail.cli._runs.saved import (
    SavedRun,
    find_head,
    list_runs,
    open_journal,
    open_run,
    readable_runs,
)

if TYPE_CHECKING:
    from handrail.cli._runs.durable_store import DurableStore


def open_store(app: App) -> RunStore:
    """Return where the runs are: `--database`, the setting `database`, or this user's journal."""
    return open_durable(app) or LocalStore(app)


def open_durable(app: App) -> DurableStore | None:
    """Return the database of durable runs; None if the runs are those of this user."""
    address = app.settings["database"]
    if not address:
        return None
    from handrail.cli._runs.durable_store import DurableStore  # loads the engine

    return DurableStore(address, app.workspace)


class LocalStore:
    """The journal of this user."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.journal = open_journal()

    def find(self, wanted: str) -> SavedRun:
        """Return a run; see ``RunStore``."""
        return open_run(find_head(self.journal, wanted).run, self.journal)

    def list(
        self, limit: int | None = None, *, status: str = "", reason: str = ""
    ) -> Sequence[SavedRun]:
        """Return runs, the newest first."""
        if not (status or reason):
            return list_runs(limit=limit)
        heads = self.journal.runs(status=status, reason=reason)
        heads += self.journal.runs(status="running")  # those without a process were interrupted
        names = {(head.began, head.run): head.run for head in heads}
        runs = [open_run(names[key], self.journal) for key in sorted(names, reverse=True)]
        readable = readable_runs(runs, self._app.say)
        return [run for run in readable if _matches(run, status, reason)][:limit]

    def inbox(self, limit: int) -> Sequence[InboxCall]:
        """Return calls that wait, the oldest first."""
        runs = readable_runs(list_runs(status="waiting"), self._app.say)
        calls = [call for run in runs for call in self._waiting(run)]
        return sorted(calls, key=lambda call: call.pending.asked_at)[:limit]

    def _waiting(self, run: SavedRun) -> Sequence[InboxCall]:
        try:
            pending = run.pending()
        except Halt as halt:
            self._app.say(str(halt))
            return []
        answers = run.record.answers
        return [InboxCall(run, one, answers.get(one.id, {}).get("answer", "")) for one in pending]


def _matches(run: SavedRun, status: str, reason: str) -> bool:
    standing = run.standing
    return status in ("", standing.status) and reason in ("", standing.reason)
