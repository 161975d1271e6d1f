"""The statements that write what pages read, for SQLite and PostgreSQL."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

OF_A_RUN = ("summary", "label", "turn", "called")
"""The tables with rows of a run, without ``handrail_``."""
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
READ_VOTES = "SELECT voter, answer FROM handrail_vote WHERE pending = :id"


class Puts(NamedTuple):
    """The statements that write rows, each of them many."""

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


PUTS = Puts(_put("turn"), _put("called"), _put("label"), _put("rule"))
"""For SQLite, where one more execution of a statement is cheap."""
POSTGRES_PUTS = Puts(
    _put_json("turn"), _put_json("called"), _put_json("label"), _put_json("rule"), is_json=True
)
