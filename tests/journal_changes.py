"""Change a journal behind its back."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

from handrail.runs._sealing.compression import decompress

Edit: TypeAlias = Callable[[int, str, str], str | None]
"""Takes the number, the kind and the body of an entry. Returns its body, or None to delete it."""


def edit_entries(path: Path, edit: Edit, run: str = "") -> None:
    """Change entries, and leave their digests."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT run, first, lines FROM handrail_journal").fetchall()
        for name, first, text in rows:
            before, *several = json.loads(decompress(text) if isinstance(text, bytes) else text)
            lines = [
                [kind, new, mark]
                for number, (kind, body, mark) in enumerate(several, first)
                if (new := edit(number, kind, body)) is not None
            ]
            place = (name, first)
            if run in ("", name):
                put = "UPDATE handrail_journal SET lines = ? WHERE run = ? AND first = ?"
                gone = "DELETE FROM handrail_journal WHERE run = ? AND first = ?"
                if lines:
                    connection.execute(put, (json.dumps([before, *lines]), *place))
                else:
                    connection.execute(gone, place)
        connection.commit()
