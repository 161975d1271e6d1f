"""The columns that are sealed, and the values of statements before and after that."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from handrail.runs._sealing.codec import MARK, Codec, open_text


class SealedTable(NamedTuple):
    """A table with texts that people, models or tools wrote."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    """Texts, and digests of them: a digest would tell who guesses a text that they are right."""


SEALED: Mapping[str, SealedTable] = {
    "handrail_run": SealedTable(("id",), ("outcome", "metadata", "digest")),
    "handrail_state": SealedTable(("run", "segment"), ("body",)),
    "handrail_step": SealedTable(("run", "segment", "number"), ("body",)),
    "handrail_call": SealedTable(("key",), ("args", "result")),
    "handrail_journal": SealedTable(("run", "first"), ("digest", "lines")),
    "handrail_question": SealedTable(("id",), ("pending", "answer")),
    "handrail_summary": SealedTable(("run",), ("prompt", "why", "unfinished", "about")),
    "handrail_turn": SealedTable(("run", "number"), ("text",)),
    "handrail_piece": SealedTable(("run", "attempt", "number"), ("body",)),
    "handrail_vote": SealedTable(("pending", "voter"), ("answer",)),
}
"""By table. A statement has the value of a column under the column's name."""
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
        """Return the values of a statement, to store or to search for."""
        columns = _columns(sql) if self.codec else frozenset[str]()
        sealed = {
            name: self._store(value, is_sealed=name in columns) for name, value in values.items()
        }
        rows = sealed.get(_ROWS)
        if isinstance(rows, str) and (columns or json.dumps(MARK)[1:-1] in rows):
            several: list[dict[str, Any]] = json.loads(rows)
            sealed[_ROWS] = json.dumps(
                [
                    {name: self._store(row[name], is_sealed=name in columns) for name in row}
                    for row in several
                ]
            )
        return sealed

    def _store(self, value: Any, *, is_sealed: bool) -> Any:
        if not isinstance(value, str) or not value:
            return value
        if is_sealed and self.codec is not None:
            return self.codec.seal(value)
        return f"\ufffd{value[1:]}" if value.startswith(MARK) else value

    def seal_text(self, text: str) -> str:
        """Return a text as it is stored outside of our tables."""
        return self.codec.seal(text) if self.codec else text

    def open_text(self, stored: str) -> str:
        """Return a stored text as it was. Raises KeyMissing."""
        return open_text(self.codec, stored)

    def open(self, rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return the rows of a query with their texts open. Raises KeyMissing."""
        return [tuple(map(self._open, row)) if any(map(_is_sealed, row)) else row for row in rows]

    def _open(self, value: Any) -> Any:
        return open_text(self.codec, value) if _is_sealed(value) else value


def _is_sealed(value: object) -> bool:
    return isinstance(value, str) and value.startswith(MARK)


@lru_cache
def _columns(sql: str) -> frozenset[str]:
    """Return the sealed columns of the table that a statement writes to."""
    table = _TABLE.match(sql)
    found = SEALED.get(table[1]) if table else None
    return frozenset(found.columns) if found else frozenset()
