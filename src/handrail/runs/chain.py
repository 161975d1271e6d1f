"""Verify a run's chain: find the first changed, added or removed entry."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice

from handrail.runs.journal import (
    NO_DIGEST,
    STATUS,
    JournalEntry,
    RunHead,
    chain_digest,
    parse_object,
)
from handrail.runs.store import RunStore

MAX_ENTRIES = 50_000
"""Entries ``verify_on`` checks at once."""
_HEAD = {"run": str, "entries": int, "digest": str, "summary": dict}
_HEAD_FIELDS = {*_HEAD, "began", "changed"}
_ENTRY = {"run": str, "number": int, "kind": str, "body": str, "digest": str}


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The break in a run's chain."""

    run: str
    number: int
    """The first wrong or missing entry."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCheck:
    """How far the chains were verified, and when."""

    at: float
    runs: int = 0
    """How many runs were verified up to their end."""
    entries: int = 0
    """How many entries were checked, each against the one before it."""
    rest: int = 0
    """How many runs have unchecked entries."""
    breaks: tuple[ChainBreak, ...] = ()
    anchors: Mapping[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Each run's last checked entry: its number and its digest."""


def verify(
    journal: RunStore, run: str, *, known: tuple[int, str] | None = None
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


def verify_all(journal: RunStore) -> Iterator[tuple[str, ChainBreak | None]]:
    """Verify every run, and yield its id and where its chain breaks."""
    for run in journal.names():
        yield run, verify(journal, run)


def verify_on(
    journal: RunStore,
    runs: Iterable[str],
    before: ChainCheck | None = None,
    *,
    limit: int = MAX_ENTRIES,
    clock: Callable[[], float] = time.time,
) -> ChainCheck:
    """Verify what was appended to runs since an earlier check, and return how far it got.

    Args:
        journal: The journal.
        runs: The ids of the runs.
        before: An earlier check, to continue it; default: check everything.
        limit: How many entries to check at most. Continue with the result.
        clock: Returns the time.
    """
    earlier = before or ChainCheck(at=0.0)
    known = {broken.run: broken for broken in earlier.breaks}
    anchors: dict[str, tuple[int, str]] = {}
    breaks: list[ChainBreak] = []
    whole = rest = done = 0
    for run in runs:
        anchor = anchors[run] = earlier.anchors.get(run, (0, NO_DIGEST))
        broken, ends = known.get(run), False
        if broken is None:
            anchors[run], broken, ends = _follow(journal, run, anchor, limit - done)
        done += anchors[run][0] - anchor[0]
        breaks += [] if broken is None else [broken]
        whole += ends
        rest += broken is None and not ends
    return ChainCheck(
        at=clock(),
        runs=whole,
        entries=earlier.entries + done,
        rest=rest,
        breaks=tuple(breaks),
        anchors=anchors,
    )


def _follow(
    journal: RunStore, run: str, anchor: tuple[int, str], limit: int
) -> tuple[tuple[int, str], ChainBreak | None, bool]:
    """Check entries after an anchor.

    Return the last good one, where the chain breaks, and whether the run ends there.
    """
    first = journal.head(run)
    entries = list(islice(journal.read(run, after=anchor[0]), limit))
    head = journal.head(run)  # a writer may append at any time
    if first is None or head is None:
        return anchor, ChainBreak(run, 1, "the run is not in the list of runs"), False
    number, digest = anchor
    for entry in entries:
        if reason := _find_fault(run, number + 1, digest, entry):
            return (number, digest), ChainBreak(run, number + 1, reason), False
        number, digest = entry.number, entry.digest
    if number < first.entries and len(entries) < limit:
        reason = f"the run ends here instead of at {first.entries}"
        return (number, digest), ChainBreak(run, number + 1, reason), False
    if number > head.entries:
        reason = f"the run should end at {head.entries}"
        return anchor, ChainBreak(run, head.entries + 1, reason), False
    if number == head.entries and digest != head.digest:
        reason = "the run ends with another digest than recorded"
        return anchor, ChainBreak(run, number, reason), False
    return (number, digest), None, number == head.entries


def dump_chain(journal: RunStore, run: str) -> Generator[str]:
    """Yield a run as JSON Lines: its head, then every entry. ``read_chains`` reads them back."""
    head = journal.head(run)
    if head is not None:
        yield f"{json.dumps(asdict(head))}\n"
        for entry in journal.read(run):
            yield f"{json.dumps(asdict(entry))}\n"


def read_chains(lines: Iterable[str]) -> dict[str, tuple[RunHead, list[JournalEntry]]]:
    """Return each run's head and entries, from ``dump_chain`` lines.

    Raises ValueError for a line that is neither.
    """
    found: dict[str, tuple[RunHead, list[JournalEntry]]] = {}
    for number, line in enumerate(lines, 1):
        fields = parse_object(line)
        shape: dict[str, object] = {name: type(value) for name, value in fields.items()}
        if shape.items() >= _HEAD.items() and shape.keys() == _HEAD_FIELDS:
            found[fields["run"]] = RunHead(**fields), []
        elif shape == _ENTRY and fields["run"] in found:
            found[fields["run"]][1].append(JournalEntry(**fields))
        else:
            raise ValueError(f"line {number} is not an entry of a chain")
    return found


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
