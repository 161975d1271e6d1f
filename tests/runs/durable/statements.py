"""Count what this process asks its databases: a count needs no clock."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import Engine, event


@contextmanager
def counting(wanted: str) -> Generator[list[str]]:
    """Collect the statements of this process that contain a text, or have it as a parameter."""
    seen: list[str] = []

    def add(_c: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        if wanted in statement or wanted in str(parameters):
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", add)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", add)
