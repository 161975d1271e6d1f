"""Runs that wait for a person, written to a journal line by line."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from handrail import WRITE, Access, Allow, Ask, Call, Failure, FailureKind, Result
from handrail.agent import RunState
from handrail.events import Asked, Decided, Finished, Requested
from handrail.messages import Prompt, Reply, Usage
from handrail.permissions import CommandPart, FileChange, Grade, Origin, Pending
from handrail.runs import JournalLine, RunStore
from handrail.runs.lines import as_line, event_lines, prompt_line, reply_line
from handrail.runs.states import state_line

TURN = "run/1"
RULE = Origin("large refunds", "handrail.toml", 12, digest="00ff")


def make_pending(run: str, call: str = "c1", **others: Any) -> Pending:
    fields: dict[str, Any] = {
        "run_id": run,
        "turn_id": "1",
        "key": f"{run}/1/{call}",
        "position": 0,
        "round": 0,
        "call": Call("refund", {"order": "A1"}, call),
        "effect": WRITE,
        "accesses": (Access(WRITE, "order:A1"),),
        "question": "Refund A1?",
        "fingerprint": "ab",
        "asked_at": 1_000.0,
        "expires_at": 2_000.0,
        "origin": RULE,
        "headline": "Refund order A1",
        "changes": (FileChange("orders/A1", "paid\n", "refunded\n"),),
        "principal": "ana",
        "grade": Grade.LOSES,
        "parts": (CommandPart(0, 3, Grade.LOSES, ("build",)),),
    }
    return Pending(**fields | others)


def call_lines(pending: Pending, at: float = 1_000.0) -> list[JournalLine]:
    """Return the lines of a call up to its request."""
    call, question = pending.call, Ask(pending.question, pending.origin)
    events = (
        Requested(at, call, turn=TURN),
        Decided(at + 1, call.id, pending.accesses, question, turn=TURN),
        Asked(at + 2, pending, turn=TURN),
        Finished(at + 3, waiting_result(pending), turn=TURN),
    )
    return [as_line(line) for event in events for line in event_lines(event)]


def waiting_result(pending: Pending) -> Result:
    failure = Failure(FailureKind.PENDING, "Not run yet.")
    return Result(pending.call.id, "Not run yet.", failure=failure, pending=pending)


def lines_of(pending: Iterable[Pending], run: str, **about: Any) -> list[JournalLine]:
    """Return the lines of a run that waits for these requests."""
    several = list(pending)
    fields = {"status": "running", "command": "run", "principal": "ana", **about}
    reply = Reply(
        tuple(one.call for one in several),
        usage=Usage(input_tokens=10, output_tokens=5, cached_tokens=2),
        model="m",
        seconds=1.0,
    )
    state = RunState(waiting=tuple(map(waiting_result, several)), run_id=run, turns=1)
    return [
        JournalLine.of("status", at=998.0, **fields),
        as_line(prompt_line(998.5, Prompt.of("Refund order A1, please."))),
        as_line(reply_line(999.5, reply, 1)),
        *(line for one in several for line in call_lines(one)),
        state_line(state, 0, 1_004.0),
        JournalLine.of("status", at=1_005.0, status="waiting", reason=""),
    ]


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Hold the write lock of a file, and undo what was written."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


def park(journal: RunStore, run: str, *pending: Pending, **about: Any) -> None:
    journal.append(run, lines_of(pending or [make_pending(run)], run, **about))


def resume_lines(pending: Pending, at: float, by: str = "jo") -> list[JournalLine]:
    """Return the lines of a run that used an approval, and ended."""
    from handrail.events import Answered, Started

    call = pending.call.id
    events = (
        Answered(at, pending.id, call, Allow(by=by), turn=TURN),
        Started(at + 1, call, 1, turn=TURN),
        Finished(at + 2, Result(call, "done"), turn=TURN),
    )
    lines = [as_line(line) for event in events for line in event_lines(event)]
    return [*lines, JournalLine.of("status", at=at + 3, status="done", reason="answer", why="")]
