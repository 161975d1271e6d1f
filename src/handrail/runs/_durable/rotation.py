"""Seal stored texts with another key, with one batch per transaction."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from handrail.runs._sealing.codec import MARK, Codec, open_text
from handrail.runs._sealing.compression import decompress
from handrail.runs._sealing.statements import SEALED
from handrail.runs._store.database import Database
from handrail.runs._store.port import Step

_BATCH = 100
"""How many rows are sealed in one transaction."""
_ENGINE = {
    "workflow_status": ("inputs", "output"),
    "workflow_input": ("inputs",),
    "workflow_output": ("output",),
}
"""Engine columns with our texts, as strings in JSON."""
_IN_JSON = re.compile(r"\\u0002([\w.-]+:[\w+/=]*)", re.ASCII)


def check_keys(database: Database) -> None:
    """Raise KeyMissing if this process cannot open the texts in the first and the last run."""
    for order in ("ASC", "DESC"):
        database.read_now(f"SELECT digest FROM handrail_run ORDER BY began {order} LIMIT 1", {})


def rotate_keys(database: Database, codec: Codec) -> int:
    """Seal all texts with another key, or none, and return how many have changed.

    The engine's unsealed texts stay unchanged. If another process changes a text first, its text
    stays. After a crash, call it again: it continues with the rest.
    """
    tables = [_Rotation(name, *table[:2], partial(_seal, codec)) for name, table in SEALED.items()]
    if database.has_engine():
        tables += [
            _Rotation(
                database.engine_table.replace("workflow_status", name),
                ("workflow_uuid",),
                columns,
                partial(_seal_json, codec),
            )
            for name, columns in _ENGINE.items()
        ]
    return sum(_rotate(database, table) for table in tables)


class _Rotation(NamedTuple):
    table: str
    keys: Sequence[str]
    columns: Sequence[str]
    seal: Callable[[str], str]

    def read(self, *, is_first: bool) -> str:
        """Return a query for rows: the first ones, or those behind a key."""
        key, names = ", ".join(self.keys), ", ".join(f":{name}" for name in self.keys)
        where = "" if is_first else f"WHERE ({key}) > ({names}) "
        columns = ", ".join((*self.keys, *self.columns))
        return f"SELECT {columns} FROM {self.table} {where}ORDER BY {key} LIMIT {_BATCH}"

    def replace(self, row: Mapping[str, Any]) -> Iterator[Step]:
        """Yield a statement for each text to seal. It changes nothing if the text has changed."""
        key = {name: row[name] for name in self.keys}
        same = "".join(f" AND {name} = :{name}" for name in self.keys)
        for column in self.columns:
            before = row[column]
            after = self._seal(before) if before else before
            if after != before:
                sql = f"UPDATE {self.table} SET {column} = :new WHERE {column} = :old{same}"
                yield sql, [{**key, "new": after, "old": before}]

    def _seal(self, before: Any) -> Any:
        if not isinstance(before, bytes):
            return self.seal(before) if isinstance(before, str) else before
        text = decompress(before)
        after = self.seal(text)
        return before if after == text else after.encode()


def _rotate(database: Database, rotation: _Rotation) -> int:
    changed, last, names = 0, dict[str, Any](), (*rotation.keys, *rotation.columns)
    while rows := database.read_stored(rotation.read(is_first=not last), last):
        found = [dict(zip(names, row, strict=True)) for row in rows]
        steps = [list(rotation.replace(row)) for row in found]
        every = [step for one in steps for step in one]
        changed += sum(database.transact_stored(every)) if every else 0
        last = {name: found[-1][name] for name in rotation.keys}
    return changed


def _seal(codec: Codec, stored: str) -> str:
    return stored if codec.has_sealed(stored) else codec.seal(open_text(codec, stored))


def _seal_json(codec: Codec, stored: str) -> str:
    """Return JSON with its sealed strings sealed again."""

    def seal(found: re.Match[str]) -> str:
        return f"\\u0002{_seal(codec, MARK + found[1])[1:]}"

    return _IN_JSON.sub(seal, stored)
