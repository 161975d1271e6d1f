"""Statements adding rows, for SQLite and PostgreSQL."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

SUMMARY_COLUMNS = (
    "run, status, reason, agent, principal, prompt, labels, began, ended, changed, last_event, "
    "why, entries, turns, calls, waiting, counts, tokens, cost"
)
PUT_SUMMARY = (
    f"INSERT INTO handrail_summary ({SUMMARY_COLUMNS}, unfinished, about) VALUES "
    "(:run, :status, :reason, :agent, :principal, :prompt, :labels, :began, :ended, :changed, "
    ":last_event, :why, :entries, :turns, :calls, :waiting, :counts, :tokens, :cost, :unfinished, "
    ":about) "
    "ON CONFLICT DO NOTHING"
)
CHANGE_SUMMARY = (
    "UPDATE handrail_summary SET status = :status, reason = :reason, agent = :agent, "
    "principal = :principal, prompt = :prompt, labels = :labels, began = :began, ended = :ended, "
    "changed = :changed, last_event = :last_event, why = :why, entries = :entries, turns = :turns, "
    "calls = :calls, waiting = :waiting, counts = :counts, tokens = :tokens, cost = :cost, "
    "unfinished = :unfinished, about = :about WHERE run = :run AND entries = :base"
)
"""Changes no row if another process has written or removed the run since it was read."""
PUT_VOTE = (
    "INSERT INTO handrail_vote VALUES (:pending, :voter, :at, :via, :answer) "
    "ON CONFLICT (pending, voter) DO UPDATE SET at = excluded.at, via = excluded.via, "
    "answer = excluded.answer"
)
PUT_RUN = (
    "INSERT INTO handrail_run (id, agent, status, segment, began, changed, entries, digest) "
    "VALUES (:run, '', :status, 0, :began, :changed, :entries, :digest) "
    "ON CONFLICT (id) DO UPDATE SET status = excluded.status, changed = excluded.changed, "
    "entries = excluded.entries, digest = excluded.digest WHERE handrail_run.app IS NULL"
)
"""Adds or changes a run without a worker."""
QUEUE_RUN = (
    "INSERT INTO handrail_run (id, agent, principal, status, segment, began, changed, metadata, "
    "app) VALUES (:id, :agent, :principal, 'queued', 0, :now, :now, :metadata, :app) "
    "ON CONFLICT DO NOTHING"
)
PUT_STEP = "INSERT INTO handrail_step VALUES (:run, :segment, :step, :body) ON CONFLICT DO NOTHING"
PUT_WORKER = "INSERT INTO handrail_worker VALUES (:id, :version, :now) ON CONFLICT DO NOTHING"
PUT_NAME = "INSERT INTO handrail_approval VALUES (:name, :by) ON CONFLICT DO NOTHING"
PUT_REQUEST = (
    "INSERT INTO handrail_question VALUES (:id, :run, 0, :pending, :expires, NULL, NULL, 0) "
    "ON CONFLICT (id) DO UPDATE SET pending = excluded.pending, expires = excluded.expires "
    "WHERE handrail_question.answer IS NULL"
)
READ_VOTES = "SELECT voter, answer FROM handrail_vote WHERE pending = :id"


def add_row(table: str, columns: str, *, postgres: bool) -> str:
    """Return the statement adding a row, unless it exists, or its run was removed.

    PostgreSQL waits for a removal under way: a row must not come behind it.
    """
    lock = " FOR KEY SHARE" if postgres else ""
    exists = f"EXISTS (SELECT 1 FROM handrail_run WHERE id = :run{lock})"
    return f"INSERT INTO handrail_{table} SELECT {columns} WHERE {exists} ON CONFLICT "


class Puts(NamedTuple):
    """The statements for a journal write. All but the first write many rows."""

    block: str
    turn: str
    call: str
    label: str
    rule: str
    is_json: bool = False
    """Whether a statement gets its rows as one text, running once for all."""

    def pack(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the statement's values for these rows, one for each execution."""
        return [{"rows": json.dumps(rows)}] if self.is_json else rows


_ON_CONFLICT = {
    "turn": (
        "ON CONFLICT (run, number) DO UPDATE SET speaker = excluded.speaker, at = excluded.at, "
        "text = excluded.text, model = excluded.model, seconds = excluded.seconds, "
        "input = excluded.input, output = excluded.output, cached = excluded.cached, "
        "calls = excluded.calls, failed = excluded.failed, denied = excluded.denied, "
        "waiting = excluded.waiting, ended = excluded.ended"
    ),
    "called": (
        "ON CONFLICT (run, number) DO UPDATE SET tool = excluded.tool, status = excluded.status, "
        "ended = excluded.ended, rule = excluded.rule, pending = excluded.pending, "
        "resumed = excluded.resumed, last = excluded.last"
    ),
    "label": "ON CONFLICT DO NOTHING",
    "rule": (
        "ON CONFLICT (rule, file, line, day, outcome, labels, slot) "
        "DO UPDATE SET count = handrail_rule.count + excluded.count"
    ),
}
_VALUES = {
    "turn": (
        ":run, :number, :speaker, :reply, :at, :text, :model, :seconds, :input, :output, :cached, "
        ":calls, :failed, :denied, :waiting, :ended"
    ),
    "called": (
        ":run, :number, :call, :turn, :tool, :status, :began, :ended, :rule, :pending, :resumed, "
        ":first, :last"
    ),
    "label": ":label, :run",
    "rule": ":rule, :file, :line, :day, :outcome, :labels, :slot, :count",
}


def _put(table: str) -> str:
    return f"INSERT INTO handrail_{table} VALUES ({_VALUES[table]}) {_ON_CONFLICT[table]}"


def _put_json(table: str) -> str:
    return (
        f"INSERT INTO handrail_{table} SELECT * FROM {_rows_of(table)} AS r {_ON_CONFLICT[table]}"
    )


def _rows_of(table: str) -> str:
    return f"json_populate_recordset(CAST(NULL AS handrail_{table}), CAST(:rows AS json))"


_PUT_BLOCK = (
    "INSERT INTO handrail_journal VALUES "
    "(:run, :first, :last, {place}, :at, :digest, :lines, :segment, :step, :body) "
    "ON CONFLICT DO NOTHING"
)
_PLACE = (
    "(SELECT MAX(COALESCE(MAX(place + last - first), 0), :micros) + 1 FROM handrail_journal "
    "WHERE place = (SELECT MAX(place) FROM handrail_journal))"
)
# not a sequence: readers would miss events that commit late: decision 074
_POSTGRES_PLACE = "(CAST(CAST(pg_current_xact_id() AS text) AS bigint) << 20) + :first % 1048576"
"""The first entry's place among all runs' entries.

On SQLite, it never comes a second time, whatever was deleted; on PostgreSQL, it begins with the
number of the transaction.
"""
PUTS = Puts(
    _PUT_BLOCK.format(place=_PLACE), _put("turn"), _put("called"), _put("label"), _put("rule")
)
"""For SQLite, where another statement execution is cheap."""
POSTGRES_PUTS = Puts(
    _PUT_BLOCK.format(place=_POSTGRES_PLACE),
    _put_json("turn"),
    _put_json("called"),
    _put_json("label"),
    _put_json("rule"),
    is_json=True,
)
