"""Sealed or compressed columns, and statement values before and after it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from handrail.runs._sealing.codec import MARK, Codec, open_text
from handrail.runs._sealing.compression import compress, decompress


class SealedTable(NamedTuple):
    """A table with texts from people, models or tools."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    """Texts, and digests of them: a digest would confirm a guess about a text."""
    long: tuple[str, ...] = ()
    """Columns with bytes: compressed texts, or sealed ones.

    A sealed text is not compressed, since its length would reveal content.
    """


SEALED: Mapping[str, SealedTable] = {  # one place, so no text is forgotten: decision 096
    "handrail_run": SealedTable(("id",), ("outcome", "metadata", "digest"), ("outcome",)),
    "handrail_state": SealedTable(("run", "segment"), ("body",), ("body",)),
    "handrail_step": SealedTable(("run", "segment", "number"), ("body",), ("body",)),
    "handrail_call": SealedTable(("key",), ("args", "result"), ("args", "result")),
    "handrail_journal": SealedTable(
        ("run", "first"), ("digest", "lines", "body"), ("lines", "body")
    ),
    "handrail_question": SealedTable(("id",), ("pending", "answer"), ("pending",)),
    "handrail_summary": SealedTable(
        ("run",), ("prompt", "why", "unfinished", "about"), ("unfinished", "about")
    ),
    "handrail_turn": SealedTable(("run", "number"), ("text",)),
    "handrail_piece": SealedTable(("run", "attempt", "number"), ("body",)),
    "handrail_conversation": SealedTable(("principal", "id"), ("title", "about")),
    "handrail_message": SealedTable(("principal", "conversation", "number"), ("body",), ("body",)),
    "handrail_file": SealedTable(("principal", "id"), ("name", "body"), ("body",)),
    "handrail_result": SealedTable(("run", "call"), ("body",), ("body",)),
    "handrail_remembered": SealedTable(("id",), ("rule",), ("rule",)),
    "handrail_vote": SealedTable(("pending", "voter"), ("answer",)),
}
"""By table. A statement has a column's value under the column's name."""
_NONE = SealedTable((), ())
_TABLE = re.compile(r"(?:INSERT INTO|UPDATE) (handrail_\w+)")
_ROWS = "rows"
"""A value with this name has rows as JSON, each by column."""


class Seals:
    """Seals the values of statements, and opens the rows of queries.

    Args:
        codec: Seals new texts; None: they are stored unsealed.
    """

    def __init__(self, codec: Codec | None) -> None:
        self.codec = codec

    def seal(self, sql: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a statement's values, to store or to search for."""
        table = _find_table(sql)
        is_sealed = self.codec is not None and bool(table.columns)
        changed = table.columns if is_sealed else table.long
        sealed = dict(values)
        for name, value in values.items():
            if isinstance(value, str) and (name in changed or value[:1] == MARK):
                sealed[name] = self._store(table, name, value)
        rows = values.get(_ROWS)
        if isinstance(rows, str) and (is_sealed or json.dumps(MARK)[1:-1] in rows):
            several: list[dict[str, Any]] = json.loads(rows)
            sealed[_ROWS] = json.dumps(
                [{name: self._store(table, name, row[name]) for name in row} for row in several]
            )
        return sealed

    def _store(self, table: SealedTable, name: str, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if value and name in table.columns and self.codec is not None:
            text = self.codec.seal(value)
            return text.encode() if name in table.long else text
        safe = f"\ufffd{value[1:]}" if value.startswith(MARK) else value
        return compress(safe) if name in table.long else safe

    def seal_text(self, text: str) -> str:
        """Return a text in the form stored outside our tables."""
        return self.codec.seal(text) if self.codec else text

    def open_text(self, stored: str) -> str:
        """Return a stored text as it was. Raises KeyMissing."""
        return open_text(self.codec, stored)

    def open(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return a query's rows with their texts open. Raises KeyMissing."""
        return [tuple(map(self._open, row)) if any(map(_is_changed, row)) else row for row in rows]

    def _open(self, value: Any) -> Any:
        text = decompress(value) if isinstance(value, bytes) else value
        return open_text(self.codec, text) if _is_changed(text) else text


def _is_changed(value: object) -> bool:
    return isinstance(value, bytes) or (isinstance(value, str) and value.startswith(MARK))


@lru_cache
def _find_table(sql: str) -> SealedTable:
    """Return the sealed columns in a statement's table."""
    table = _TABLE.match(sql)
    found = SEALED.get(table[1]) if table else None
    return found or _NONE
