"""Runs visible to commands: this user's, or those in a database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from handrail.cli._base.app import App
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.redact import redact_url
from handrail.cli._runs.saved import (
    SavedRun,
    find_head,
    open_journal,
    open_run,
    readable_runs,
)
from handrail.permissions import Pending
from handrail.runs import Codec, RunHead, RunStore, open_runs
from handrail.runs.answers import read_record
from handrail.runs.record import RunRecord

if TYPE_CHECKING:
    from handrail.cli._runs.durable_run import DurableSavedRun

StoredRun: TypeAlias = "SavedRun | DurableSavedRun"
"""A run: what happened in it, and what a person can do about it. Its errors are Halts."""


class InboxCall(NamedTuple):
    """A waiting call, and its answer."""

    run: StoredRun
    pending: Pending
    answer: str = ""


def open_store(app: App) -> CommandRuns:
    """Return the runs in `--database`, in the setting `database`, or this user's."""
    address = app.settings["database"]
    if not address:
        return CommandRuns(app, open_journal())
    if "://" not in address:
        address = str(app.workspace / Path(address).expanduser())
        if not Path(address).is_file():
            raise _unusable(address, "the file does not exist")
    codec = load_codec(app)
    try:
        store = open_runs(address, codec=codec)
        store.runs(limit=1)
    except Exception as error:
        raise _unusable(address, str(error).partition("\n")[0]) from error
    return CommandRuns(app, store)


def load_codec(app: App) -> Codec | None:
    """Return the codec in the setting `codec`, if there is one."""
    name: str = app.settings["codec"]
    if not name:
        return None
    module, _, attribute = name.partition(":")
    hint = "name a module that Python can import and a Codec in it, such as `keys:codec`"
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Halt(f"cannot load the codec {name!r}: {error}", code="config", hint=hint) from error
    if not isinstance(found, Codec):
        message = f"{name!r} is a {type(found).__name__}, not a Codec"
        raise Halt(message, code="config", hint=hint)
    return found


class CommandRuns:
    """Runs in one place. A command continues some, and workers or web applications the others."""

    def __init__(self, app: App, store: RunStore) -> None:
        self._app = app
        self.journal = store

    def find(self, wanted: str) -> StoredRun:
        """Return a run by its id, by a unique start of its id, or as ``last``."""
        return self._open(find_head(self.journal, wanted))

    def _open(self, head: RunHead) -> StoredRun:
        is_web = head.summary.get("command") == "web"
        if not is_web and "application" not in head.summary:
            return open_run(head.run, self.journal)
        from handrail.cli._runs.durable_run import DurableSavedRun, WebRun  # loads the agent

        if is_web:
            return WebRun(RunRecord(self.journal, head.run), self.journal)
        return DurableSavedRun(self.journal, head.run)

    def list(
        self, limit: int | None = None, *, status: str = "", reason: str = ""
    ) -> Sequence[StoredRun]:
        """Return runs, the newest first: with a status, and a reason for their end."""
        if not (status or reason):
            return [self._open(head) for head in self.journal.runs(limit=limit)]
        heads = self.journal.runs(status=status, reason=reason)
        heads += self.journal.runs(status="running")  # those without a process were interrupted
        found = {(head.began, head.run): head for head in heads}
        runs = self._readable(self._open(found[key]) for key in sorted(found, reverse=True))
        return [run for run in runs if _matches(run, status, reason)][:limit]

    def inbox(self, limit: int) -> Sequence[InboxCall]:
        """Return waiting calls, the most urgent first."""
        requests = self.journal.requests(limit=limit)
        names = dict.fromkeys(one.run for one in requests)
        heads = [self.journal.head(name) or RunHead(name) for name in names]
        runs = {run.id: run for run in self._readable(map(self._open, heads))}
        return [
            InboxCall(runs[name], pending, "" if given is None else read_record("", given).answer)
            for name, pending, given in requests
            if name in runs
        ]

    def _readable(self, runs: Iterable[StoredRun]) -> Sequence[StoredRun]:
        return readable_runs(runs, self._app.say)


def _matches(run: StoredRun, status: str, reason: str) -> bool:
    standing = run.standing
    return status in ("", standing.status) and reason in ("", standing.reason)


def _unusable(address: str, reason: str) -> Halt:
    return Halt(
        f"cannot read runs in {redact_url(address)}: {reason}",
        code="unreadable",
        hint="pass the file or the URL of your DurableRuns with `--database`",
        exits=Exit.FAILED,
    )
