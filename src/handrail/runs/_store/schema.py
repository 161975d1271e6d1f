"""The run tables, as numbered migrations: written by hand, only forward.

A released migration never changes. Within a minor version, a new one adds tables, columns with NULL
allowed, and indexes. One incompatible with an older process is marked as breaking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from handrail.runs._store.database import Database
from handrail.runs._store.port import FIND_TABLE, DatabaseDenied, DatabaseError, Select


class Migration(NamedTuple):  # not by Alembic, which needs models of the tables: decision 092
    """Changes the tables. Each text has statements ending with a semicolon."""

    number: int
    sqlite: str
    postgres: str
    is_breaking: bool = False
    """Whether a process without it must not use the database."""

    def list_statements(self, *, postgres: bool) -> list[str]:
        """Return its statements, and the one recording it."""
        text, now = (self.postgres, _NOW[1]) if postgres else (self.sqlite, _NOW[0])
        row = f"{self.number}, {int(self.is_breaking)}, {now}"
        several = [statement.strip() for statement in text.split(";")]
        return [*filter(None, several), f"INSERT INTO handrail_schema VALUES ({row})"]


_NOW = ("CAST(strftime('%s', 'now') AS REAL)", "extract(epoch FROM now())")
_TABLES = """
CREATE TABLE handrail_schema (
    number INTEGER PRIMARY KEY, breaking INTEGER NOT NULL, at DOUBLE PRECISION NOT NULL);
CREATE TABLE handrail_run (
    id TEXT PRIMARY KEY, agent TEXT NOT NULL, principal TEXT, status TEXT NOT NULL,
    segment INTEGER NOT NULL, began DOUBLE PRECISION NOT NULL,
    changed DOUBLE PRECISION NOT NULL, outcome TEXT,
    entries INTEGER NOT NULL DEFAULT 0, digest TEXT NOT NULL DEFAULT '',
    metadata TEXT NOT NULL DEFAULT '{}', app TEXT);
CREATE INDEX handrail_run_began ON handrail_run (began);
CREATE INDEX handrail_run_status ON handrail_run (status, began);
CREATE INDEX handrail_run_ended ON handrail_run (changed, id)
    WHERE status IN ('done', 'failed', 'cancelled');
CREATE INDEX handrail_run_principal ON handrail_run (principal, id);
CREATE TABLE handrail_state (
    run TEXT NOT NULL, segment INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (run, segment));
CREATE TABLE handrail_step (
    run TEXT NOT NULL, segment INTEGER NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (run, segment, number));
CREATE TABLE handrail_call (
    key TEXT PRIMARY KEY, run TEXT NOT NULL, turn TEXT NOT NULL, call TEXT NOT NULL,
    tool TEXT NOT NULL, args TEXT NOT NULL, began DOUBLE PRECISION NOT NULL, result TEXT,
    writer TEXT);
CREATE INDEX handrail_call_turn ON handrail_call (run, turn);
CREATE TABLE handrail_approval (name TEXT PRIMARY KEY, claimant TEXT NOT NULL);
CREATE TABLE handrail_journal (
    run TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, place BIGINT NOT NULL,
    at DOUBLE PRECISION NOT NULL, digest TEXT NOT NULL, lines TEXT NOT NULL,
    PRIMARY KEY (run, first));
CREATE INDEX handrail_journal_place ON handrail_journal (place, at);
CREATE TABLE handrail_worker (
    id TEXT PRIMARY KEY, version TEXT NOT NULL, began DOUBLE PRECISION NOT NULL);
"""
"""What only workers need."""
_READING_TABLES = """
CREATE TABLE handrail_question (
    id TEXT PRIMARY KEY, run TEXT NOT NULL, segment INTEGER NOT NULL, pending TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL, answer TEXT, answered_by TEXT, used INTEGER NOT NULL);
CREATE INDEX handrail_question_run ON handrail_question (run);
CREATE INDEX handrail_question_open ON handrail_question (expires)
    WHERE answer IS NULL;
CREATE INDEX handrail_question_answered ON handrail_question (run)
    WHERE answer IS NOT NULL AND used = 0;
CREATE TABLE handrail_summary (
    run TEXT PRIMARY KEY, status TEXT NOT NULL, reason TEXT NOT NULL, agent TEXT NOT NULL,
    principal TEXT NOT NULL, prompt TEXT NOT NULL, labels TEXT NOT NULL,
    began DOUBLE PRECISION NOT NULL, ended DOUBLE PRECISION, changed DOUBLE PRECISION NOT NULL,
    last_event TEXT NOT NULL,
    why TEXT NOT NULL, entries INTEGER NOT NULL, turns INTEGER NOT NULL, calls INTEGER NOT NULL,
    waiting INTEGER NOT NULL, counts TEXT NOT NULL, tokens TEXT NOT NULL, cost TEXT NOT NULL,
    unfinished TEXT NOT NULL, about TEXT NOT NULL);
CREATE INDEX handrail_summary_began ON handrail_summary (began, run);
CREATE INDEX handrail_summary_status ON handrail_summary (status, began, run);
CREATE INDEX handrail_summary_waiting ON handrail_summary (status, waiting, changed)
    WHERE waiting > 0;
CREATE TABLE handrail_label (
    label TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (label, run));
CREATE INDEX handrail_label_run ON handrail_label (run);
CREATE TABLE handrail_turn (
    run TEXT NOT NULL, number INTEGER NOT NULL, speaker TEXT NOT NULL, reply INTEGER NOT NULL,
    at DOUBLE PRECISION NOT NULL, text TEXT NOT NULL, model TEXT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL, input INTEGER NOT NULL, output INTEGER NOT NULL,
    cached INTEGER NOT NULL, calls INTEGER NOT NULL, failed INTEGER NOT NULL,
    denied INTEGER NOT NULL, waiting INTEGER NOT NULL, ended DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, number));
CREATE TABLE handrail_called (
    run TEXT NOT NULL, number INTEGER NOT NULL, call TEXT NOT NULL, turn INTEGER NOT NULL,
    tool TEXT NOT NULL, status TEXT NOT NULL, began DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION NOT NULL, rule TEXT NOT NULL, pending TEXT NOT NULL,
    resumed DOUBLE PRECISION, first INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (run, number));
CREATE INDEX handrail_called_pending ON handrail_called (pending)
    WHERE pending <> '';
CREATE TABLE handrail_rule (
    rule TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, day TEXT NOT NULL,
    outcome TEXT NOT NULL, labels TEXT NOT NULL, slot INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (rule, file, line, day, outcome, labels, slot));
CREATE INDEX handrail_question_left ON handrail_question (expires, id)
    WHERE answer IS NULL;
CREATE TABLE handrail_vote (
    pending TEXT NOT NULL, voter TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, via TEXT NOT NULL,
    answer TEXT NOT NULL, PRIMARY KEY (pending, voter));
"""
"""What pages read, as in SQLite."""
_FIRST = _TABLES + _READING_TABLES
_PIECES = """
CREATE TABLE handrail_piece (
    run TEXT NOT NULL, turn INTEGER NOT NULL, attempt TEXT NOT NULL, number INTEGER NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (run, attempt, number));
"""
"""Replies under way. The journal has them once they are complete."""
_INDEXES = """
DROP INDEX handrail_summary_waiting;
CREATE INDEX handrail_summary_waiting ON handrail_summary (status, waiting, run) WHERE waiting > 0;
DROP INDEX handrail_run_principal;
CREATE INDEX handrail_run_principal ON handrail_run (principal, id) WHERE principal IS NOT NULL;
"""
"""No index on summaries has the last change's time: PostgreSQL changes rows in their place."""
_LONG_TEXTS = """
ALTER TABLE handrail_journal ALTER lines TYPE BYTEA USING convert_to(lines, 'UTF8');
ALTER TABLE handrail_step ALTER body TYPE BYTEA USING convert_to(body, 'UTF8');
ALTER TABLE handrail_state ALTER body TYPE BYTEA USING convert_to(body, 'UTF8');
ALTER TABLE handrail_run ALTER outcome TYPE BYTEA USING convert_to(outcome, 'UTF8');
ALTER TABLE handrail_call ALTER args TYPE BYTEA USING convert_to(args, 'UTF8'),
    ALTER result TYPE BYTEA USING convert_to(result, 'UTF8');
ALTER TABLE handrail_question ALTER pending TYPE BYTEA USING convert_to(pending, 'UTF8');
ALTER TABLE handrail_summary ALTER unfinished TYPE BYTEA USING convert_to(unfinished, 'UTF8'),
    ALTER about TYPE BYTEA USING convert_to(about, 'UTF8');
ALTER TABLE handrail_summary SET (fillfactor = 60);
"""
"""Compressed texts are bytes. SQLite stores them in any column."""
_CONVERSATIONS = """
CREATE TABLE handrail_conversation (
    principal TEXT NOT NULL, id TEXT NOT NULL, title TEXT NOT NULL, about TEXT NOT NULL,
    began DOUBLE PRECISION NOT NULL, changed DOUBLE PRECISION NOT NULL, entries INTEGER NOT NULL,
    run TEXT, lease DOUBLE PRECISION NOT NULL, PRIMARY KEY (principal, id));
CREATE INDEX handrail_conversation_changed ON handrail_conversation (principal, changed);
CREATE INDEX handrail_conversation_run ON handrail_conversation (run);
CREATE TABLE handrail_message (
    principal TEXT NOT NULL, conversation TEXT NOT NULL, number INTEGER NOT NULL, run TEXT,
    body {bytes} NOT NULL, PRIMARY KEY (principal, conversation, number));
CREATE TABLE handrail_file (
    principal TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
    size INTEGER NOT NULL, at DOUBLE PRECISION NOT NULL, body {bytes} NOT NULL,
    PRIMARY KEY (principal, id));
"""
"""Each key begins with the principal: no query finds another one's rows."""
_BUDGETS = """
CREATE TABLE handrail_budget (
    budget TEXT NOT NULL, holder TEXT NOT NULL, began DOUBLE PRECISION NOT NULL,
    ends DOUBLE PRECISION NOT NULL, unit TEXT NOT NULL, most BIGINT NOT NULL,
    raised BIGINT NOT NULL, spent BIGINT NOT NULL, reserved BIGINT NOT NULL,
    PRIMARY KEY (budget, holder, began));
CREATE INDEX handrail_budget_ends ON handrail_budget (ends);
CREATE TABLE handrail_budget_part (
    budget TEXT NOT NULL, holder TEXT NOT NULL, began DOUBLE PRECISION NOT NULL,
    part TEXT NOT NULL, spent BIGINT NOT NULL, PRIMARY KEY (budget, holder, began, part));
CREATE TABLE handrail_reservation (
    id TEXT PRIMARY KEY, budget TEXT NOT NULL, holder TEXT NOT NULL,
    began DOUBLE PRECISION NOT NULL, part TEXT NOT NULL, amount BIGINT NOT NULL,
    expires DOUBLE PRECISION NOT NULL);
CREATE INDEX handrail_reservation_budget ON handrail_reservation (budget, holder, began, expires);
"""
"""Amounts are integers: billionths of a currency, tokens or calls."""
_SHARED = """
CREATE TABLE handrail_result (
    run TEXT NOT NULL, call TEXT NOT NULL, at DOUBLE PRECISION NOT NULL, body {bytes} NOT NULL,
    PRIMARY KEY (run, call));
CREATE TABLE handrail_rate (
    name TEXT NOT NULL, holder TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL,
    times TEXT NOT NULL, PRIMARY KEY (name, holder));
CREATE INDEX handrail_rate_expires ON handrail_rate (expires);
CREATE TABLE handrail_remembered (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, holder TEXT NOT NULL,
    rule {bytes} NOT NULL, at DOUBLE PRECISION NOT NULL, expires DOUBLE PRECISION NOT NULL);
CREATE INDEX handrail_remembered_holder ON handrail_remembered (holder, kind, name);
CREATE INDEX handrail_remembered_expires ON handrail_remembered (expires);
"""
"""Long results, the times of limited calls as JSON, and rules that people have approved."""
_RECORDS = """
ALTER TABLE handrail_journal ADD COLUMN segment INTEGER;
ALTER TABLE handrail_journal ADD COLUMN step INTEGER;
ALTER TABLE handrail_journal ADD COLUMN body {bytes};
CREATE UNIQUE INDEX handrail_journal_step ON handrail_journal (run, segment, step)
    WHERE step IS NOT NULL;
"""
"""A run's initial state in its first row, and the record of a turn in the row with its events."""
MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        _FIRST,
        _FIRST.replace("name TEXT PRIMARY KEY", 'name TEXT COLLATE "C" PRIMARY KEY'),
    ),
    Migration(
        2,
        _PIECES,
        _PIECES.replace("CREATE", "CREATE UNLOGGED").replace(
            "attempt TEXT", 'attempt TEXT COLLATE "C"'
        ),
    ),
    Migration(3, _INDEXES, _INDEXES + _LONG_TEXTS, is_breaking=True),
    Migration(4, _CONVERSATIONS.format(bytes="TEXT"), _CONVERSATIONS.format(bytes="BYTEA")),
    Migration(5, _BUDGETS, _BUDGETS),
    Migration(6, _SHARED.format(bytes="TEXT"), _SHARED.format(bytes="BYTEA")),
    Migration(7, _RECORDS.format(bytes="TEXT"), _RECORDS.format(bytes="BYTEA"), is_breaking=True),
)


def migrate(
    database: Database, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[Migration, ...]:
    """Apply a database's missing migrations, and return them. One process at a time.

    Raises DatabaseError if its tables have another version.
    """
    if not find_missing(database.read_now, migrations, postgres=database.is_postgres):
        return ()  # a role without the right to create tables can use them
    done: list[Migration] = []

    def choose(select: Select) -> list[str]:
        done[:] = find_missing(select, migrations, postgres=database.is_postgres)
        return _list_statements(done, postgres=database.is_postgres)

    try:
        database.run_alone(choose)
    except DatabaseDenied as error:
        raise DatabaseDenied(f"{str(error).rstrip('.')}; {_HINT}") from error
    return tuple(done)


def find_missing(
    select: Select, migrations: Sequence[Migration] = MIGRATIONS, *, postgres: bool
) -> list[Migration]:
    """Return a database's missing migrations.

    Raises DatabaseError if this process must not use it.
    """
    applied = _read_applied(select, postgres=postgres)
    known = {migration.number for migration in migrations}
    newer = [number for number, breaking in applied.items() if breaking and number not in known]
    if newer:
        raise DatabaseError(
            f"A newer version of handrail has changed these tables of runs (migration {newer[0]}): "
            "install that version, or a later one."
        )
    return [migration for migration in migrations if migration.number not in applied]


def check_schema(select: Select, *, postgres: bool) -> None:
    """Raise DatabaseError unless this version's readers can use the tables."""
    missing = find_missing(select, postgres=postgres)
    if missing:
        raise DatabaseError(f"These tables of runs lack migration {missing[0].number}; {_HINT}")


def write_sql(database: Database, migrations: Sequence[Migration] = MIGRATIONS) -> str:
    """Return the text of a database's missing migrations, or ""."""
    postgres = database.is_postgres
    missing = find_missing(database.read_now, migrations, postgres=postgres)
    statements = _list_statements(missing, postgres=postgres)
    whole = [*database.begin_alone, *statements, "COMMIT"] if statements else []
    return "".join(f"{statement};\n" for statement in whole)


_HINT = "run `handrail runs migrate` as a user who may create tables."


def _read_applied(select: Select, *, postgres: bool) -> dict[int, int]:
    """Return the applied migrations' numbers, and whether each is breaking."""

    def has(table: str) -> bool:
        return bool(select(FIND_TABLE[postgres], {"name": table}))

    if not has("handrail_schema"):
        if not has("handrail_summary"):
            return {}
        if not has("handrail_schema"):  # else another process has just created them all
            raise DatabaseError(
                "An earlier version of handrail has written these runs, and this one cannot read "
                "them: choose another file or database."
            )
    rows = select("SELECT number, breaking FROM handrail_schema ORDER BY number", {})
    return dict(rows)


def _list_statements(missing: Sequence[Migration], *, postgres: bool) -> list[str]:
    return [one for migration in missing for one in migration.list_statements(postgres=postgres)]
