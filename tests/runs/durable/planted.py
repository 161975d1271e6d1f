"""Pickles in the tables of the engine, which run code if anyone reads them."""

from __future__ import annotations

import base64
import pickle
import sqlite3
from pathlib import Path
from typing import Any

import psycopg

OTHERS = {"workflow_input": "inputs", "workflow_output": "output, error"}
"""Tables of texts whose form another table has."""


class Planted:
    """Code that leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._mark,)


def make_pickle(mark: Path) -> str:
    """A text of the engine that runs code."""
    return base64.b64encode(pickle.dumps(Planted(mark))).decode()


class Attacker:
    """Someone who can write to the database, and nowhere else."""

    def __init__(self, url: str, mark: Path) -> None:
        self._url = url
        self._text = make_pickle(mark)
        self._is_postgres = url.startswith("postgresql")
        self._prefix = "dbos." if self._is_postgres else ""

    def plant_status(self, workflow: str, status: str) -> None:
        """Change the row of a workflow, and what belongs to it."""
        where = f"WHERE workflow_uuid = '{workflow}'"
        self._run(
            f"UPDATE {self._prefix}workflow_status SET serialization = 'py_pickle', "  # noqa: S608
            f"status = '{status}', inputs = '{self._text}', output = '{self._text}', "
            f"error = '{self._text}' {where}"
        )
        for table, columns in OTHERS.items():
            set_ = ", ".join(f"{name} = '{self._text}'" for name in columns.split(", "))
            self._run(f"UPDATE {self._prefix}{table} SET {set_} {where}")  # noqa: S608

    def rename(self, workflow: str, other: str) -> None:
        """Give a workflow, and what belongs to it, another id."""
        for table in ("workflow_status", *OTHERS):
            self._run(
                f"UPDATE {self._prefix}{table} SET workflow_uuid = '{other}' "  # noqa: S608
                f"WHERE workflow_uuid = '{workflow}'"
            )

    def plant_row(self, table: str, workflow: str) -> None:
        """Add a row to a table of what a workflow did."""
        texts = dict.fromkeys(("output", "message", "value"), self._text)
        values = {**texts, "workflow_uuid": workflow, "destination_uuid": workflow}
        values |= {"serialization": "py_pickle", "key": "k", "topic": "t", "function_name": "f"}
        values |= {"message_uuid": "m"}
        numbers = {"function_id": 1, "offset": 0, "created_at_epoch_ms": 1, "consumed": False}
        known = {**values, **numbers}
        names = [name for name in self._columns(table) if name in known]
        columns = ", ".join(f'"{name}"' for name in names)
        given = ", ".join(repr(known[name]) for name in names)
        self._run(f"INSERT INTO {self._prefix}{table} ({columns}) VALUES ({given})")  # noqa: S608

    def tables(self) -> set[str]:
        """The tables whose rows say in which form they are."""
        if self._is_postgres:
            rows = self._run(
                "SELECT table_name FROM information_schema.columns "
                "WHERE column_name = 'serialization' AND table_schema = 'dbos'"
            )
        else:
            rows = self._run(
                "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c "
                "WHERE c.name = 'serialization'"
            )
        return {name for (name,) in rows}

    def _columns(self, table: str) -> list[str]:
        if self._is_postgres:
            rows = self._run(
                "SELECT column_name FROM information_schema.columns "  # noqa: S608
                f"WHERE table_name = '{table}' AND table_schema = 'dbos'"
            )
        else:
            rows = self._run(f"SELECT name FROM pragma_table_info('{table}')")  # noqa: S608
        return [name for (name,) in rows]

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        if self._is_postgres:
            with psycopg.connect(self._url, autocommit=True) as server:
                done = server.execute(sql)  # type: ignore[call-overload]
                return done.fetchall() if done.description else []
        file = sqlite3.connect(self._url, timeout=30, isolation_level=None)
        try:
            return file.execute(sql).fetchall()
        finally:
            file.close()
