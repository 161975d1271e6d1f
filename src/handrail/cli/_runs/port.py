"""The port that commands use for runs: of this user's journal, or of a durable database.

So each command has one code path for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from handrail.permissions import Pending
from handrail.runs import AnswerOutcome, JournalReader, RunHead
from handrail.runs.lines import LineFields
from handrail.runs.statuses import Standing

if TYPE_CHECKING:
    from handrail.agent import RunState


class StoredRun(Protocol):
    """A run: what happened in it, and what a person can do about it. Errors are Halts."""

    @property
    def id(self) -> str:
        """The id of the run."""
        ...

    @property
    def journal(self) -> JournalReader:
        """The journal that has the run."""
        ...

    @property
    def head(self) -> RunHead:
        """The end of its chain, and its summary."""
        ...

    @property
    def about(self) -> dict[str, Any]:
        """The summary of the run, checked."""
        ...

    @property
    def standing(self) -> Standing:
        """The status of the run, and why it ended."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a process is working on the run."""
        ...

    @property
    def is_durable(self) -> bool:
        """Whether workers run it, and not a command."""
        ...

    def lines(self) -> list[LineFields]:
        """Return what happened, as fields."""
        ...

    def state(self) -> RunState:
        """Return the messages and the pending calls."""
        ...

    def pending(self) -> Sequence[Pending]:
        """Return the calls that wait."""
        ...

    def answer(
        self, pending: Sequence[Pending], given: Mapping[str, str]
    ) -> Sequence[AnswerOutcome]:
        """Give the same answer to some of the pending calls. A Halt if one is not used."""
        ...

    def cancel(self) -> None:
        """Cancel the run, also if a process is working on it."""
        ...

    def fork(self, turn: int | None, text: str | None) -> tuple[str, int]:
        """Start another run from a turn. Return its id and the number of the turn."""
        ...

    def requeue(self) -> None:
        """Let a worker continue the run."""
        ...

    def remove(self) -> None:
        """Delete the run."""
        ...


class InboxCall(NamedTuple):
    """A call that waits, and the answer that it has."""

    run: StoredRun
    pending: Pending
    answer: str = ""


class RunStore(Protocol):
    """Runs in one place."""

    @property
    def journal(self) -> JournalReader:
        """The journal of the runs."""
        ...

    def find(self, wanted: str) -> StoredRun:
        """Return a run by its id, by the unique start of its id, or as ``last``."""
        ...

    def list(
        self, limit: int | None = None, *, status: str = "", reason: str = ""
    ) -> Sequence[StoredRun]:
        """Return runs, the newest first: of a status, and that ended for a reason."""
        ...

    def inbox(self, limit: int) -> Sequence[InboxCall]:
        """Return calls that wait, the oldest first."""
        ...
