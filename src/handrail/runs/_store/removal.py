"""Remove runs completely from our tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from handrail.runs._store.database import Database
from handrail.runs._store.port import Step

_OURS = (
    *("call", "question", "state", "step", "journal", "piece", "label", "turn", "called"),
    "result",
)
"""The other tables with a run's rows, without ``handrail_``."""
_MAX_HOLDER_CHARS = 200
_DIGEST = "sha256:"
_FORGET = "DELETE FROM handrail_remembered WHERE holder = :holder AND kind = 'principal'"

_RECORDED = (
    "SELECT run FROM handrail_summary WHERE principal = :principal "
    "AND run NOT IN (SELECT id FROM handrail_run WHERE principal = :principal)"
)


def as_holder(name: str) -> str:
    """Return a name as a text every database can store, different for each name."""
    is_plain = name.isprintable() and len(name) <= _MAX_HOLDER_CHARS
    if is_plain and not name.startswith(_DIGEST):
        return name
    return _DIGEST + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def list_chat_deletions(principal: str) -> list[Step]:
    """Return the statements removing a principal's conversations and files."""
    tables = ("conversation", "message", "file")  # first the row that requests must change
    sql = "DELETE FROM handrail_{} WHERE principal = :principal"
    return [(sql.format(table), [{"principal": principal}]) for table in tables]


def list_ids(database: Database) -> str:
    """Return a table with the ids in the JSON array ``:ids``, named ``i``."""
    return f"{database.members} AS i"


def remove_runs(database: Database, runs: Sequence[str]) -> None:
    """Remove runs without a worker, in this thread."""
    database.transact_now(list_deletions(database, json.dumps(list(runs))), 0)


def erase_records(database: Database, principal: str) -> None:
    """Remove a principal's chats, remembered approvals, and runs without a worker, in this thread.

    Counts of budgets and rate limits stay until their periods end: an erasure renews no limit.
    """
    forget: Step = (_FORGET, [{"holder": as_holder(principal)}])
    database.transact_now([*list_chat_deletions(principal), forget], 0)
    rows = database.read_now(_RECORDED, {"principal": principal})
    remove_runs(database, [run for (run,) in rows])


def list_deletions(database: Database, runs: str) -> list[Step]:
    """Return the statements removing runs, given as a JSON array with ids.

    The second one changes as many rows as there are runs.
    """
    ids = list_ids(database)
    of_runs = f"run IN (SELECT i.id FROM {ids})"
    of_questions = f"FROM handrail_question WHERE {of_runs}"
    used = (
        f"SELECT a.name FROM {ids} JOIN handrail_approval a "
        "ON a.name >= '{kind} ' || i.id || '/' AND a.name < '{kind} ' || i.id || '0'"
    )
    statements = [
        # first: it waits for a worker about to write entries, and then finds these
        f"DELETE FROM handrail_summary WHERE {of_runs}",
        # next: a late worker waits for it, and then finds no run
        f"DELETE FROM handrail_run WHERE id IN (SELECT i.id FROM {ids})",
        f"DELETE FROM handrail_vote WHERE pending IN (SELECT id {of_questions})",
        *[
            f"DELETE FROM handrail_approval WHERE name IN ({used.format(kind=kind)})"
            for kind in ("claim", "end")
        ],
        *[f"DELETE FROM handrail_{table} WHERE {of_runs}" for table in _OURS],
    ]
    return [(sql, [{"ids": runs}]) for sql in statements]
