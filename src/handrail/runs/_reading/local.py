"""Keep the rows that pages read in the SQLite file of a local journal, in its transactions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from handrail.runs._reading.tables import OF_A_RUN, PUTS
from handrail.runs._reading.tally import READ_TALLY, STATE, Tally, storable
from handrail.runs.journal import JournalEntry

_ENTRIES = (
    "SELECT run, number, kind, body, digest FROM entries WHERE run = :run AND number > :after "
    "ORDER BY number"
)
_PUT_QUESTION = (
    "INSERT INTO handrail_question VALUES (:id, :run, 0, :pending, :expires, NULL, NULL, 0) "
    "ON CONFLICT (id) DO UPDATE SET pending = excluded.pending, expires = excluded.expires "
    "WHERE handrail_question.answer IS NULL"
)
_PUT_ANSWER = (
    "UPDATE handrail_question SET answer = :answer, answered_by = :by WHERE id = :id AND used = 0"
)
_PUT_USED = (
    "UPDATE handrail_question SET answer = COALESCE(answer, :answer), "
    "answered_by = COALESCE(answered_by, :by), used = 1 WHERE id = :id"
)


def keep_rows(connection: sqlite3.Connection, entries: Sequence[JournalEntry]) -> None:
    """Write the rows of a run after these entries were added."""
    run = entries[0].run
    tally = Tally.load(run, connection.execute(READ_TALLY, {"run": run}).fetchall())
    if tally.entries < entries[0].number - 1:  # an older version has appended
        entries = read_after(connection, run, tally.entries)
    tally.read(entries)
    for sql, values in tally.steps(PUTS):
        connection.executemany(sql, values)
    _keep_requests(connection, run, entries)


def remove_rows(connection: sqlite3.Connection, run: str) -> None:
    """Remove the rows of a run. Counts of rules stay."""
    votes = "DELETE FROM handrail_vote WHERE pending IN (SELECT id FROM handrail_question"
    connection.execute(f"{votes} WHERE run = ?)", (run,))
    for table in (*OF_A_RUN, "question"):
        connection.execute(f"DELETE FROM handrail_{table} WHERE run = ?", (run,))


def read_after(connection: sqlite3.Connection, run: str, after: int) -> list[JournalEntry]:
    """Return the entries of a run after a number, as far as they are text."""
    rows = connection.execute(_ENTRIES, {"run": run, "after": after}).fetchall()
    return [
        JournalEntry(*row)
        for row in rows
        if [type(one) for one in row] == [str, int, str, str, str]
    ]


def _keep_requests(
    connection: sqlite3.Connection, run: str, entries: Iterable[JournalEntry]
) -> None:
    about: dict[str, Callable[[JournalEntry], None]] = {
        STATE: lambda entry: _keep_open(connection, run, entry),
        "answer": lambda entry: _keep_answer(connection, entry, _PUT_ANSWER),
        "answered": lambda entry: _keep_answer(connection, entry, _PUT_USED),
    }
    for entry in entries:
        if entry.kind in about:
            about[entry.kind](entry)


def _keep_open(connection: sqlite3.Connection, run: str, entry: JournalEntry) -> None:
    """Add the requests of a state, and remove those that are gone without an answer."""
    ids: list[Any] = [run]
    state: Any = entry.content.get("state")
    if isinstance(state, dict) and cast("dict[str, Any]", state).get("waiting"):
        for pending in _read_pending(entry):
            values = {"run": run, "expires": pending.expires_at}
            values |= {"id": storable(pending.id), "pending": storable(pending.to_json())}
            connection.execute(_PUT_QUESTION, values)
            ids.append(values["id"])
    places = ", ".join("?" * (len(ids) - 1))
    connection.execute(
        f"DELETE FROM handrail_question WHERE run = ? AND answer IS NULL AND id NOT IN ({places})",
        ids,
    )


def _read_pending(entry: JournalEntry) -> list[Any]:
    from handrail.agent import InvalidState, load_state  # few programs list runs with an agent

    _, _, rest = entry.body.partition(',"state":')
    try:
        return [pending for pending in load_state(rest[:-1]).pending if pending.question]
    except InvalidState:
        return []


def _keep_answer(connection: sqlite3.Connection, entry: JournalEntry, sql: str) -> None:
    from handrail.runs._reading.answers import answer_of_line  # most entries are no answers

    line = entry.content
    values = {"id": storable(line.get("pending")), "by": storable(line.get("by")) or None}
    connection.execute(sql, {**values, "answer": answer_of_line(line)})
