"""Events as files: JSON Lines with digests, and a table for a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from handrail.approvals import make_printable
from handrail.runs._reading.records import Records
from handrail.runs._reading.values import EventQuery, EventRecord

_PAGE = 50
"""Few, because a page is in memory as a whole, and an event can be large."""
_FORMULA = tuple("=+-@\t\r\n'")
_HEADS = ("place", "run", "number", "at", "event", "who", "tool", "rule", "digest")


def read_event_pages(
    records: Callable[[], Records], query: EventQuery | None = None
) -> Iterator[Sequence[EventRecord]]:
    """Yield all events of a search in pages, the newest first. Blocks.

    Args:
        records: Returns the records. It is called for each page, in the thread that reads it.
        query: What to search for. Default: every event.
    """
    page = records().events(query, limit=_PAGE)
    yield page.rows
    while page.next:
        page = records().events(query, before=page.next, limit=_PAGE)
        yield page.rows


def events_as_jsonl(pages: Iterable[Sequence[EventRecord]]) -> Generator[str]:
    """Yield each page's lines: an event with its digest as JSON."""
    for page in pages:
        yield "".join(f"{json.dumps(_document(event))}\n" for event in page)


def _document(event: EventRecord) -> dict[str, Any]:
    row = event.row
    about = {"place": row.place, "run": row.run, "number": row.number, "kind": row.kind}
    return {**about, "body": event.body, "digest": event.digest}


def events_as_csv(pages: Iterable[Sequence[EventRecord]]) -> Generator[str]:
    """Yield a head, then each page's rows. A spreadsheet runs no cell as a formula."""
    yield _row(_HEADS)
    for page in pages:
        yield "".join(_row(_cells(event)) for event in page)


def _cells(event: EventRecord) -> Iterator[str]:
    row = event.row
    at = datetime.fromtimestamp(row.at, UTC).isoformat(sep=" ", timespec="seconds")
    about = (row.place, row.run, row.number, at, row.kind, row.who, row.tool, row.rule)
    return map(_cell, (*about, event.digest))


def _cell(value: object) -> str:
    text = str(value)
    shown = make_printable(text, most=max(len(text.encode("utf-8", "surrogatepass")), 1)).text
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _row(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerow(cells)
    return out.getvalue()
