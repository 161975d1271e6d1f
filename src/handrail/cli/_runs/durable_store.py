"""Durable runs for commands: read from their journal, and acted on by the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio

from handrail import HandrailError
from handrail.agent import RunState
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.redact import redact_url
from handrail.cli._runs.claims import check_outcome, read_given
from handrail.cli._runs.port import InboxCall
from handrail.cli._runs.saved import check_about, find_head, standing_of
from handrail.permissions import Pending
from handrail.runs import AnswerOutcome, JournalReader, RunHead, is_durable
from handrail.runs.durable import DurableRuns
from handrail.runs.lines import EVENTS, LineFields, as_fields
from handrail.runs.statuses import WORKED_ON, Standing

T = TypeVar("T")


class DurableStore:
    """A database of durable runs.

    Args:
        address: A path of a SQLite file, or ``postgresql://...``.
        folder: A relative path starts here.
    """

    def __init__(self, address: str, folder: Path) -> None:
        if "://" not in address:
            address = str(folder / Path(address).expanduser())
            if not Path(address).is_file():
                raise _unusable(address, "the file does not exist")
        self._address = address
        try:
            self.journal: JournalReader = self.open().journal
            is_durable(address)  # checks the tables
            self.journal.runs(limit=1)
        except Exception as error:
            reason = str(getattr(error, "orig", None) or error).partition("\n")[0]
            raise _unusable(address, reason) from error

    def open(self, **options: Any) -> DurableRuns:
        """Return the runs, without agents."""
        return DurableRuns(self._address, {}, **options)

    def find(self, wanted: str) -> DurableSavedRun:
        """Return a run; see ``RunStore``."""
        return DurableSavedRun(self, find_head(self.journal, wanted).run)

    def list(
        self, limit: int | None = None, *, status: str = "", reason: str = ""
    ) -> Sequence[DurableSavedRun]:
        """Return runs, the newest first."""
        heads = self.journal.runs(status=status, reason=reason, limit=limit)
        return [DurableSavedRun(self, head.run) for head in heads]

    def inbox(self, limit: int) -> Sequence[InboxCall]:
        """Return calls that wait, the most urgent first."""
        pending = self.act(lambda runs: runs.inbox(limit=limit))
        return [InboxCall(DurableSavedRun(self, one.run_id), one) for one in pending]

    def prune(self, older_than: float, max_seconds: float | None) -> int:
        """Delete runs that ended more than N seconds ago, and return their number."""
        return self.act(lambda runs: runs.prune(older_than=older_than, max_seconds=max_seconds))

    def erase(self, principal: str) -> int:
        """Delete all runs on behalf of a principal, and return their number."""
        return self.act(lambda runs: runs.erase(principal))

    def act(self, work: Callable[[DurableRuns], Awaitable[T]], **options: Any) -> T:
        """Do something with the runs, and return its result."""

        async def inside() -> T:
            async with self.open(**options) as runs:
                return await work(runs)

        return anyio.run(inside)


class DurableSavedRun:
    """A durable run; see ``StoredRun``."""

    is_durable = True

    def __init__(self, store: DurableStore, run: str) -> None:
        self._store = store
        self.id = run
        self.journal = store.journal

    @property
    def head(self) -> RunHead:
        """The end of its chain, and its summary."""
        return self.journal.head(self.id) or RunHead(self.id)

    @property
    def about(self) -> dict[str, Any]:
        """The summary of the run, checked."""
        return check_about(self.id, self.head)

    @property
    def standing(self) -> Standing:
        """The status of the run, and why it ended."""
        return standing_of(self.about)

    @property
    def busy(self) -> bool:
        """Whether a worker works on it, or will without an answer."""
        return self.head.status in WORKED_ON

    def lines(self) -> list[LineFields]:
        """Return what happened, as fields."""
        return [as_fields(entry) for entry in self.journal.read(self.id, kinds=EVENTS)]

    def state(self) -> RunState:
        """Return the messages of a run that has ended."""
        state = self._act(lambda runs: runs.get(self.id)).state
        if state is None:
            hint = f"see its events with `handrail runs show {self.id}`"
            raise Halt(f"run {self.id} has not ended", code="unreadable", hint=hint)
        return state

    def pending(self) -> Sequence[Pending]:
        """Return the calls that wait for a person."""
        return self._act(lambda runs: runs.inbox(run_id=self.id))

    def answer(
        self, pending: Sequence[Pending], given: Mapping[str, str]
    ) -> Sequence[AnswerOutcome]:
        """Give the same answer to some of the pending calls."""
        answer, claimant = read_given(given)

        async def work(runs: DurableRuns) -> list[AnswerOutcome]:
            outcomes = [await runs.claim(one.id, answer, claimant) for one in pending]
            return [check_outcome(outcome, self.id) for outcome in outcomes]

        return self._act(work)

    def cancel(self) -> None:
        """Cancel the run: its tools are stopped."""
        self._act(lambda runs: runs.cancel(self.id))

    def fork(self, turn: int | None, text: str | None) -> tuple[str, int]:
        """Start another run from a turn. Return its id and the number of the turn."""
        new = self._act(lambda runs: runs.fork(self.id, turn=turn, text=text))
        return new, int(DurableSavedRun(self._store, new).head.summary["forked_at"])

    def requeue(self) -> None:
        """Let a worker continue a run that failed."""
        self._act(lambda runs: runs.resume(self.id))

    def remove(self) -> None:
        """Delete the run."""
        self._act(lambda runs: runs.remove(self.id))

    def _act(self, work: Callable[[DurableRuns], Awaitable[T]]) -> T:
        """Act as the application that started the run."""
        summary = self.head.summary
        names = {"name": summary.get("application"), "version": summary.get("version")}
        options = {key: value for key, value in names.items() if isinstance(value, str)}
        try:
            return self._store.act(work, **options)
        except (LookupError, ValueError, HandrailError) as error:
            hint = f"see `handrail runs show {self.id}`"
            raise Halt(str(error), code="refused", hint=hint) from None


def _unusable(address: str, reason: str) -> Halt:
    return Halt(
        f"cannot read durable runs in {redact_url(address)}: {reason}",
        code="unreadable",
        hint="pass the file or the URL of your DurableRuns with `--database`",
        exits=Exit.FAILED,
    )
