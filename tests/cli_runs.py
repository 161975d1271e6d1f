"""Saved runs as they are in the journal: read and changed as any program could."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from cli_harness import Handrail
from handrail.agent import RunState
from handrail.runs import RunStore, open_runs
from handrail.runs.record import RunRecord
from journal_changes import Edit, edit_entries


@dataclass(frozen=True)
class JournalRun:
    """A run of the journal."""

    record: RunRecord

    @property
    def id(self) -> str:
        """The run's."""
        return self.record.id

    @property
    def about(self) -> dict[str, Any]:
        """What a list of runs is made from."""
        return dict(self.record.head.summary)

    @property
    def standing(self) -> tuple[str, str]:
        """The status of the run, and why it ended."""
        return standing_of(self.about)

    @property
    def answers(self) -> dict[str, dict[str, str]]:
        """Answers to calls that still wait."""
        waiting = {pending.id for pending in self.state().pending}
        kept = ("answer", "reason")
        return {
            name: {key: given[key] for key in kept if key in given}
            for name, given in self.record.answers.items()
            if name in waiting
        }

    def state(self) -> RunState:
        """All that was said, and what waits."""
        return self.record.state()

    def change_about(self, **changes: Any) -> None:
        """Change what is known of the run."""
        self.record.set_status(**changes)

    def write_answers(self, answers: Mapping[str, Mapping[str, str]]) -> None:
        """Answer calls that wait."""
        line = {"event": "answer", "at": time.time()}
        self.record.note([{**line, "pending": one, **given} for one, given in answers.items()])

    def write_state(self, state: RunState) -> None:
        """Put another state behind the one that is there."""
        self.record.keep(state)

    def add_to_journal(self, lines: Iterable[dict[str, Any]]) -> None:
        """Write lines to the end of the journal."""
        self.record.note(lines)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Work on the run, as far as others can see."""
        with self.record.journal.hold(self.id):
            yield


def change_journal(handrail: Handrail, statement: str, *values: object) -> None:
    """Change the journal behind its back."""
    with closing(sqlite3.connect(handrail.state / "runs" / "journal.db")) as connection:
        connection.execute(statement, values)
        connection.commit()


def edit_journal(handrail: Handrail, edit: Edit, run: str = "") -> None:
    """Change entries of the journal behind its back."""
    edit_entries(handrail.state / "runs" / "journal.db", edit, run)


def journal_of(handrail: Handrail) -> RunStore:
    """The journal of all commands."""
    return open_runs(handrail.state / "runs" / "journal.db")


def journal_run(handrail: Handrail, id_: str) -> JournalRun:
    """A run, which need not be there yet."""
    return JournalRun(RunRecord(journal_of(handrail), id_))


def journal_runs(handrail: Handrail) -> list[JournalRun]:
    """All that there are."""
    return [journal_run(handrail, head.run) for head in journal_of(handrail).runs()]


def standing_of(document: Mapping[str, Any]) -> tuple[str, str]:
    """The status and the reason in a document."""
    return document["status"], document["reason"]


def standings(handrail: Handrail) -> list[tuple[str, str]]:
    """How all saved runs stand, the newest first."""
    return [standing_of(one) for one in handrail("runs", "list", "--json").json["runs"]]
