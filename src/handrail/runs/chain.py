"""Verify the chain of a run: find the first entry that was changed, added or removed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from handrail.runs.journal import (
    NO_DIGEST,
    STATUS,
    JournalEntry,
    JournalReader,
    RunHead,
    chain_digest,
)


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """Where the chain of a run breaks."""

    run: str
    number: int
    """The first entry that is wrong or missing."""
    reason: str


def verify(
    journal: JournalReader, run: str, *, known: tuple[int, str] | None = None
) -> ChainBreak | None:
    """Return where the chain of a run breaks, or None if it is whole.

    The chain shows changes by anyone who does not compute all later digests again. Keep a digest
    elsewhere to notice that too.

    Args:
        journal: The journal.
        run: The id of the run.
        known: The number and the digest of an entry, as they were noted earlier.
    """
    return find_break(run, journal.head(run), journal.read(run), known)


def verify_all(journal: JournalReader) -> Iterator[tuple[str, ChainBreak | None]]:
    """Verify every run, and yield its id and where its chain breaks."""
    for run in journal.names():
        yield run, verify(journal, run)


def find_break(
    run: str,
    head: RunHead | None,
    entries: Iterable[JournalEntry],
    known: tuple[int, str] | None = None,
) -> ChainBreak | None:
    """Return where a chain breaks, given its head and its entries in order."""
    if head is None:
        return ChainBreak(run, 1, "the run is not in the list of runs")
    previous, number = NO_DIGEST, 0
    summary: dict[str, object] = {}
    for number, entry in enumerate(entries, 1):
        reason = _find_fault(run, number, previous, entry) or _compare(known, entry)
        if reason:
            return ChainBreak(run, number, reason)
        previous = entry.digest
        if entry.kind == STATUS:
            summary |= entry.content
    return _find_end_fault(head, number, previous, summary) or _find_missing(run, known, number)


def _find_fault(run: str, number: int, previous: str, entry: JournalEntry) -> str:
    if entry.number != number:
        return f"the entry is missing; the next one is {entry.number}"
    if chain_digest(previous, run, number, entry) != entry.digest:
        return "the digest does not match the entry and the one before it"
    return ""


def _compare(known: tuple[int, str] | None, entry: JournalEntry) -> str:
    if known is not None and known[0] == entry.number and known[1] != entry.digest:
        return f"the digest is {entry.digest}, and the expected one is {known[1]}"
    return ""


def _find_missing(run: str, known: tuple[int, str] | None, number: int) -> ChainBreak | None:
    if known is not None and known[0] > number:
        return ChainBreak(run, number + 1, f"the run ends here, and entry {known[0]} is expected")
    return None


def _find_end_fault(
    head: RunHead, number: int, digest: str, summary: dict[str, object]
) -> ChainBreak | None:
    if number < head.entries:
        return ChainBreak(head.run, number + 1, f"the run ends here instead of at {head.entries}")
    if number > head.entries:
        return ChainBreak(head.run, head.entries + 1, f"the run should end at {head.entries}")
    if digest != head.digest:
        return ChainBreak(head.run, number, "the run ends with another digest than recorded")
    if _text(summary) != _text(head.summary):
        return ChainBreak(head.run, number, "the summary differs from the entries")
    return None


def _text(summary: Mapping[str, object]) -> str:
    return json.dumps(dict(summary), sort_keys=True)
