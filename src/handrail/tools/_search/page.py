"""Formats the matches of grep: one page, file by file, and notes on the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from handrail._support.visible import describe_unseen, spell_out
from handrail.tools._files.paths import quote_path
from handrail.tools._search.hits import FLOOD, FileHits, HitLine, Hits
from handrail.tools._search.query import OutputMode, SearchEnd
from handrail.tools._search.shared import EVERYTHING_SEEN, describe_end

MAX_PAGE_CHARS: Final = 20_000


@dataclass(frozen=True, slots=True)
class GrepAnswer:
    """The matches of a grep call, and how the search ended."""

    hits: Hits
    end: SearchEnd
    flood: bool
    """Whether there were too many matches to search everything."""
    notes: Sequence[str] = ()


class PageRequest(NamedTuple):
    """The part of the matches a model asked for, and the output mode."""

    mode: OutputMode
    offset: int
    limit: int


class _PageEntry(NamedTuple):
    """One or more lines of a page that belong together."""

    text: str
    matches: int
    clipped: bool = False
    raw: str = ""


def format_answer(answer: GrepAnswer, request: PageRequest, *, seconds: float) -> str:
    """Return the text for the model: the matches of one page, then notes in square brackets."""
    entries = _fill_page(answer.hits.files, request)
    matches = sum(entry.matches for entry in entries)
    clipped = any(entry.clipped for entry in entries)
    notes = [
        _describe_count(answer, request, matches),
        "Long lines are clipped at [...]." * clipped,
        describe_unseen("\n".join(entry.raw for entry in entries)),
        describe_end(answer.end, seconds),
        *answer.notes,
    ]
    lines = [entry.text for entry in entries]
    return "\n".join([*lines, *(f"[{note}]" for note in notes if note)])


def _fill_page(files: Sequence[FileHits], request: PageRequest) -> list[_PageEntry]:
    """Return the matches after the offset, as many as requested and as fit, at least one."""
    entries, room, has_match = list[_PageEntry](), MAX_PAGE_CHARS, False
    for entry in _excerpts(files, request) if request.mode == "content" else _names(files, request):
        room -= len(entry.text) + 1
        if room < 0 and has_match:
            break
        entries.append(entry)
        has_match |= entry.matches > 0
    return entries


def _names(files: Sequence[FileHits], request: PageRequest) -> Iterator[_PageEntry]:
    for file in files[request.offset : request.offset + request.limit]:
        count = f": {file.lines[0].number:,}" if request.mode == "count" else ""
        yield _PageEntry(f"{quote_path(file.path)}{count}", 1)


def _excerpts(files: Sequence[FileHits], request: PageRequest) -> Iterator[_PageEntry]:
    offset, left = request.offset, request.limit
    for file in files:
        if offset < file.matches and left > 0:
            gap = "\n" if left < request.limit else ""
            yield _PageEntry(f"{gap}{quote_path(file.path)}", 0)
            for entry in _file_excerpts(file, offset, left):
                left -= entry.matches
                yield entry
        offset = max(offset - file.matches, 0)


def _file_excerpts(file: FileHits, skip: int, max_matches: int) -> Iterator[_PageEntry]:
    """Yield some matching lines of a file, and their context."""
    begun = False
    for line in _window(file.lines, skip, max_matches):
        mark = ":" if line.matched else "-"
        apart = "--\n" if line.apart and begun else ""
        raw = _mark_clipping(line)
        text = f"{apart}{line.number}{mark} {spell_out(raw)}"
        yield _PageEntry(text, int(line.matched), line.clipped, raw)
        begun = True
    if not file.lines:
        yield _PageEntry("(binary file matches)", 1)
    elif file.binary:
        yield _PageEntry("(the rest of this file is binary and was not searched)", 0)


def _mark_clipping(line: HitLine) -> str:
    if line.text is None:
        return "[... the match is too far into a very long line to show ...]"
    return f"{'[...]' * line.cut_before}{line.text}{'[...]' * line.cut_after}"


def _window(lines: Sequence[HitLine], skip: int, max_matches: int) -> Iterator[HitLine]:
    before = list[HitLine]()
    for line in lines:
        if line.matched:
            skip -= 1
            if skip < 0:
                max_matches -= 1
                if max_matches < 0:
                    return
                yield from before
                yield line
            before = []
        elif skip < 0 and not line.apart and not before:
            yield line
        else:
            before = [line] if line.apart else [*before, line]


def _describe_count(answer: GrepAnswer, request: PageRequest, matches: int) -> str:
    hits, offset = answer.hits, request.offset
    if not hits.count:
        seen = answer.end in EVERYTHING_SEEN
        return "No matches." if seen else "No matches so far."
    capped = answer.flood or hits.capped
    noun = "matching line" if request.mode == "content" else "file"
    total = FLOOD if answer.flood else hits.lines
    amount = f"{'more than ' * capped}{total - (capped and not answer.flood):,}"
    where = f" in {'at least ' * answer.flood}{_pluralize(hits.count, 'file')}"
    where = f"{where}{'' if answer.flood else _describe_lengths(hits)}" * (
        request.mode == "content"
    )
    if offset == 0 and matches == hits.lines and not capped:
        sums = f", {_pluralize(hits.sum, 'matching line')}" * (request.mode == "count")
        return f"{_pluralize(hits.lines, noun)}{where}{sums}."
    if not matches:
        plural = "s" * (hits.lines != 1)
        return f"offset={offset} is past the end of {amount} {noun}{plural}{where}."
    last = offset + matches
    more = f" For more, pass offset={last} or narrow the search." * (last < total or capped)
    return f"{noun.capitalize()}s {offset + 1:,} to {last:,} of {amount}{where}.{more}"


def _describe_lengths(hits: Hits) -> str:
    """Return how many lines the files have, if they were counted."""
    totals = [file.total for file in hits.files]
    if not totals or not all(totals) or len(totals) < hits.count:
        return ""
    *most, last = (f"{total:,}" for total in totals)
    both = f"{', '.join(most)} and {last}" if most else last
    return f" ({both} line{'s' * (totals != [1])})"


def _pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
