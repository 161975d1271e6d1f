"""The tables of what pages read, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

_TABLES = """
CREATE TABLE IF NOT EXISTS handrail_summary (
    run TEXT PRIMARY KEY, status TEXT NOT NULL, reason TEXT NOT NULL, agent TEXT NOT NULL,
    principal TEXT NOT NULL, prompt TEXT NOT NULL, labels TEXT NOT NULL,
    began DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, changed DOUBLE PRECISION NOT NULL,
    last_event TEXT NOT NULL,
    why TEXT NOT NULL, entries INTEGER NOT NULL, turns INTEGER NOT NULL, calls INTEGER NOT NULL,
    waiting INTEGER NOT NULL, counts TEXT NOT NULL, tokens TEXT NOT NULL, cost TEXT NOT NULL,
    unfinished TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS handrail_summary_began ON handrail_summary (began, run);
CREATE INDEX IF NOT EXISTS handrail_summary_status ON handrail_summary (status, began, run);
CREATE INDEX IF NOT EXISTS handrail_summary_waiting ON handrail_summary (status, waiting, changed)
    WHERE waiting > 0;
CREATE TABLE IF NOT EXISTS handrail_label (
    label TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (label, run));
CREATE INDEX IF NOT EXISTS handrail_label_run ON handrail_label (run);
CREATE TABLE IF NOT EXISTS handrail_turn (
    run TEXT NOT NULL, number INTEGER NOT NULL, speaker TEXT NOT NULL, reply INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL, model TEXT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cached INTEGER NOT NULL, calls INTEGER NOT NULL, failed INTEGER NOT NULL,
    denied INTEGER NOT NULL, waiting INTEGER NOT NULL, ended DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, number));
CREATE TABLE IF NOT EXISTS handrail_called (
    run TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, turn INTEGER NOT NULL,
    tool TEXT NOT NULL, status TEXT NOT NULL, began DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION NOT NULL, rule TEXT NOT NULL, pending TEXT NOT NULL,
    resumed DOUBLE PRECISION, first INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (run, number));
CREATE INDEX IF NOT EXISTS handrail_called_turn ON handrail_called (run, turn, number);
CREATE INDEX IF NOT EXISTS handrail_called_pending ON handrail_called (pending)
    WHERE pending <> '';
CREATE TABLE IF NOT EXISTS handrail_rule (
    rule TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, day TEXT NOT NULL,
    outcome TEXT NOT NULL, labels TEXT NOT NULL, slot INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (rule, file, line, day, outcome, labels, slot));
CREATE TABLE IF NOT EXISTS handrail_event (
    place {place}, run TEXT NOT NULL, number INTEGER NOT NULL, at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL, call TEXT NOT NULL, tool TEXT NOT NULL, rule TEXT NOT NULL,
    who TEXT NOT NULL, UNIQUE (run, number));
CREATE INDEX IF NOT EXISTS handrail_event_who ON handrail_event (who, place) WHERE who <> '';
CREATE INDEX IF NOT EXISTS handrail_event_rule ON handrail_event (rule, place) WHERE rule <> '';
CREATE INDEX IF NOT EXISTS handrail_question_left ON handrail_question (expires, id)
    WHERE answer IS NULL;
CREATE TABLE IF NOT EXISTS handrail_vote (
    pending TEXT NOT NULL, voter TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, via TEXT NOT NULL,
    answer TEXT NOT NULL, PRIMARY KEY (pending, voter))
"""
QUESTION = """
CREATE TABLE IF NOT EXISTS handrail_question (
    id TEXT PRIMARY KEY, run TEXT NOT NULL, segment INTEGER NOT NULL, pending TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL, answer TEXT, answered_by TEXT, used INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS handrail_question_run ON handrail_question (run);
CREATE INDEX IF NOT EXISTS handrail_question_open ON handrail_question (expires)
    WHERE answer IS NULL;
CREATE INDEX IF NOT EXISTS handrail_question_answered ON handrail_question (run)
    WHERE answer IS NOT NULL AND used = 0
"""
"""Requests that wait. Durable runs and local runs keep them alike."""
OF_A_RUN = ("summary", "label", "turn", "called", "event")
"""The tables with rows of a run, without ``handrail_``."""


def reading_tables(*, postgres: bool) -> tuple[str, ...]:
    """Return the statements that create the tables."""
    place = "BIGINT PRIMARY KEY" if postgres else "INTEGER PRIMARY KEY AUTOINCREMENT"
    return tuple(one.strip() for one in _TABLES.replace("{place}", place).split(";"))


SUMMARY_COLUMNS = (
    "run, status, reason, agent, principal, prompt, labels, began, ended, changed, last_event, "
    "why, entries, turns, calls, waiting, counts, tokens, cost"
)
PUT_SUMMARY = (
    f"INSERT INTO handrail_summary ({SUMMARY_COLUMNS}, unfinished) VALUES "
    "(:run, :status, :reason, :agent, :principal, :prompt, :labels, :began, :ended, :changed, "
    ":last_event, :why, :entries, :turns, :calls, :waiting, :counts, :tokens, :cost, :unfinished) "
    "ON CONFLICT DO NOTHING"
)
CHANGE_SUMMARY = (
    "UPDATE handrail_summary SET status = :status, reason = :reason, agent = :agent, "
    "principal = :principal, prompt = :prompt, labels = :labels, began = :began, ended = :ended, "
    "changed = :changed, last_event = :last_event, why = :why, entries = :entries, turns = :turns, "
    "calls = :calls, waiting = :waiting, counts = :counts, tokens = :tokens, cost = :cost, "
    "unfinished = :unfinished WHERE run = :run AND entries = :base"
)
"""Changes no row if another process has written or removed the run since it was read."""
PUT_VOTE = (
    "INSERT INTO handrail_vote VALUES (:pending, :voter, :at, :via, :answer) "
    "ON CONFLICT (pending, voter) DO UPDATE SET at = excluded.at, via = excluded.via, "
    "answer = excluded.answer"
)
READ_VOTES = "SELECT voter, answer FROM handrail_vote WHERE pending = :id"


class Puts(NamedTuple):
    """The statements that write rows, each of them many."""

    event: str
    turn: str
    call: str
    label: str
    rule: str
    is_json: bool = False
    """Whether a statement gets its rows as one text, so that it runs once for all of them."""

    def pack(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the values of the statement for these rows, one for each of its executions."""
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


PUTS = Puts(
    "INSERT INTO handrail_event (place, run, number, at, kind, call, tool, rule, who) "
    "VALUES (NULL, :run, :number, :at, :kind, :call, :tool, :rule, :who)",
    _put("turn"),
    _put("called"),
    _put("label"),
    _put("rule"),
)
"""For SQLite, where one more execution of a statement is cheap."""
POSTGRES_PUTS = Puts(
    "INSERT INTO handrail_event SELECT "
    "(CAST(CAST(pg_current_xact_id() AS text) AS bigint) << 20) + number % 1048576, "
    f"run, number, at, kind, call, tool, rule, who FROM {_rows_of('event')} AS r",
    _put_json("turn"),
    _put_json("called"),
    _put_json("label"),
    _put_json("rule"),
    is_json=True,
)
"""The place of an event begins with the number of the transaction. Within it, entries of a run are
in order."""
