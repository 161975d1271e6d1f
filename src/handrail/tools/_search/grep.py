"""The grep tool: finds lines of files that match a pattern."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio.to_thread

from handrail import READ, Access, Context, Refused, Tool, ToolFailed, tool
from handrail.tools._descriptions import GREP_DESCRIPTION
from handrail.tools._files.workspace import Workspace
from handrail.tools._habits import GREP_INSTEAD_OF, GREP_SYNONYMS
from handrail.tools._search.hits import FLOOD, FileHits, Hits
from handrail.tools._search.page import MAX_PAGE_CHARS, GrepAnswer, PageRequest, format_answer
from handrail.tools._search.query import OutputMode, Query, SearchEnd, SearchPlace
from handrail.tools._search.ripgrep import Ripgrep
from handrail.tools._search.selection import FileSelection
from handrail.tools._search.shared import (
    FOLDER_EXCLUDED,
    SECONDS,
    Clock,
    check_range,
    describe_excluded,
    describe_left_out,
    is_excluded,
    list_examples,
    open_place,
)

_DEFAULT_LIMIT: Final = 250
_MAX_LIMIT: Final = 1_000
_MAX_CONTEXT_LINES: Final = 50
_MAX_PATTERN_CHARS: Final = 10_000
_MAX_COUNTED_FILES: Final = 3
_MAX_COUNTED_BYTES: Final = 1024 * 1024
"""Files whose lines are counted for a result, and the size up to which they are."""
_BINARY_SECONDS: Final = 2.0
"""Seconds to search binary files if nothing else matches."""
_SPECIAL: Final = re.compile(r"[\\^$.|?*+()\[\]{}]")
"""Characters with a meaning in regular expressions."""


def grep(
    workspace: Workspace, *, seconds: float = SECONDS, ripgrep: str | None = None
) -> Tool[..., Any]:
    """Make a tool that searches files of a workspace with ripgrep.

    Args:
        workspace: The workspace to search.
        seconds: The time limit of a call; after it, the matches found so far are returned.
        ripgrep: The program's path. By default it is searched for outside the workspace.
    """
    program = Ripgrep(ripgrep) if ripgrep else Ripgrep.find(outside=workspace.root)

    def touches(path: str, **_: object) -> tuple[Access, ...]:
        return workspace.access(READ, path)

    @tool(
        description=GREP_DESCRIPTION,
        effect=READ,
        touches=touches,
        timeout=seconds + 10,
        max_chars=MAX_PAGE_CHARS * 2,
        tags=workspace.tags,
        synonyms=GREP_SYNONYMS,
        instead_of=GREP_INSTEAD_OF,
    )
    async def grep(  # noqa: PLR0913  each is an argument models know
        pattern: str,
        path: str = ".",
        glob: str = "",
        type: str = "",  # noqa: A002
        *,
        output_mode: OutputMode = "content",
        context: int = 0,
        before: int = 0,
        after: int = 0,
        ignore_case: bool = False,
        multiline: bool = False,
        fixed_strings: bool = False,
        include_ignored: bool = False,
        hidden: bool = False,
        limit: int = _DEFAULT_LIMIT,
        offset: int = 0,
        call: Context,
    ) -> str:
        """Search file contents.

        Args:
            pattern: Regular expression, without look-around and backreferences.
            path: File or folder to search, without wildcards.
            glob: Search only matching files, such as "*.py" or "src/**/*.ts"; "!*.min.js"
                excludes files.
            type: Search only files of this type, such as "py", "js" or "rust".
            output_mode: "content" for matching lines, "files" for file names, "count" for the
                number of matching lines per file.
            context: Lines to show before and after each match, at most 50.
            before: Lines before each match, if not context.
            after: Lines after each match, if not context.
            ignore_case: Ignore case.
            multiline: Let matches span lines; "." also matches line breaks.
            fixed_strings: Treat the pattern as plain text.
            include_ignored: Also search files matched by .gitignore and similar.
            hidden: Also search files with a leading dot in their path.
            limit: Matching lines (or files) to show, at most 1000.
            offset: Matching lines (or files) to skip, for the next page.
            call: The call's context.
        """
        engine = program or Ripgrep.require(outside=workspace.root)
        wanted = check_range("limit", limit, 1, _MAX_LIMIT)
        wanted += check_range("offset", offset, 0, FLOOD)
        around = check_range("context", context, 0, _MAX_CONTEXT_LINES)
        query = Query(
            pattern,
            fixed=fixed_strings,
            ignore_case=ignore_case,
            multiline=multiline,
            before=check_range("before", before, 0, _MAX_CONTEXT_LINES) or around,
            after=check_range("after", after, 0, _MAX_CONTEXT_LINES) or around,
            mode=output_mode,
            max_matches=wanted,
            max_file_matches=max(wanted + 1, _MAX_LIMIT),
        )
        selection = FileSelection(
            glob, anywhere=True, ignored=include_ignored, hidden=hidden, kind=type
        )
        with open_place(workspace, path, call, instead=_as_glob(path)) as place:
            search = _GrepSearch(workspace, engine, place, query, Clock(seconds))
            answer = await search.answer(selection)
        return format_answer(answer, PageRequest(output_mode, offset, limit), seconds=seconds)

    return grep


def _as_glob(path: str) -> str:
    """Return the argument to pass instead of a path with wildcards."""
    last = path.rstrip("/").rpartition("/")[2]
    names_files = "." in last or "*" in last
    return f"glob={path if names_files else path.rstrip('/') + '/**'!r}"


def _check_pattern(query: Query) -> None:
    if not query.pattern:
        raise ToolFailed("The pattern is empty. To list files, use glob.")
    if len(query.pattern) > _MAX_PATTERN_CHARS:
        raise ToolFailed(
            f"The pattern has more than {_MAX_PATTERN_CHARS:,} characters. Shorten it."
        )
    if "\n" in query.pattern and not query.multiline:
        raise ToolFailed(
            "The pattern contains a line break, but the search goes line by line. Search for one "
            "line, or pass multiline=true to match across lines."
        )


def _count_lines(workspace: Workspace, files: Sequence[FileHits]) -> None:
    """Count the lines of files, so a model knows how much a read would show."""
    for file in files:
        with suppress(OSError, Refused, ToolFailed), workspace.file(file.path) as found:
            if file.lines and found.stat.st_size <= _MAX_COUNTED_BYTES:
                data = os.read(found.fd, _MAX_COUNTED_BYTES)
                file.total = data.count(b"\n") + (not data.endswith(b"\n"))


@dataclass(frozen=True, slots=True)
class _GrepSearch:
    """The searches of one grep call."""

    workspace: Workspace
    ripgrep: Ripgrep
    place: SearchPlace
    query: Query
    clock: Clock
    left_out: set[str] = field(default_factory=set[str])
    """Files that may be read only with approval, whether they match or not."""

    async def answer(self, selection: FileSelection) -> GrepAnswer:
        """Search, count the files' lines if few match, and describe what is left out."""
        _check_pattern(self.query)
        answer = await self._find(selection)
        hits = answer.hits
        if self.query.mode == "content" and hits.count <= _MAX_COUNTED_FILES:
            await anyio.to_thread.run_sync(_count_lines, self.workspace, hits.files)
        return replace(answer, notes=[*answer.notes, describe_left_out(self.left_out)])

    async def _find(self, selection: FileSelection) -> GrepAnswer:
        """Search. If nothing matches, find out what could have matched."""
        await self._leave_out(selection)
        answer = await self._search(selection, self.query)
        if answer.hits.count or answer.end is SearchEnd.LATE:
            return answer
        wider = selection.wider()
        if wider is not None and self.place.file is None:
            answer = await self._search_wider(answer, selection, wider)
        if answer.hits.count:
            return answer
        more = [await self._describe_binary(selection), await self._describe_plain(selection)]
        return replace(answer, notes=[*answer.notes, *more])

    async def _search_wider(
        self, answer: GrepAnswer, selection: FileSelection, wider: FileSelection
    ) -> GrepAnswer:
        """Search ignored and hidden files: for a note, or because the model named the folder."""
        if await is_excluded(self.ripgrep, self.place, selection.scope, self.clock):
            await self._leave_out(wider)
            answer = await self._search(wider, self.query)
            return replace(answer, notes=[FOLDER_EXCLUDED * bool(answer.hits.count)])
        others = (await self._search(wider, replace(self.query, mode="files"))).hits
        note = describe_excluded(others.count, [file.path for file in others.files], selection)
        return replace(answer, notes=[note])

    async def _describe_binary(self, selection: FileSelection) -> str:
        """Return a note if binary files match. Large ones are not searched, nor for long."""
        if self.place.file is not None:  # a named file is searched even if it is binary
            return ""
        query = replace(self.query, mode="files", binary=True)
        hits = (await self._search(selection, query)).hits
        if not hits.count:
            return ""
        files = "1 binary file matches" if hits.count == 1 else f"{hits.count:,} binary files match"
        return f"{files}: {list_examples(hits.count, [file.path for file in hits.files])}."

    async def _describe_plain(self, selection: FileSelection) -> str:
        """Return a note if the pattern would match as plain text."""
        if self.query.fixed or not _SPECIAL.search(self.query.pattern):
            return ""
        plain = replace(self.query, fixed=True, mode="files")
        hits = (await self._search(selection, plain)).hits
        if not hits.count:
            return ""
        files = list_examples(hits.count, [file.path for file in hits.files])
        return f"As plain text it would match in {files}: pass fixed_strings=true."

    async def _leave_out(self, selection: FileSelection) -> None:
        """Note the selected files that need approval.

        All are noted. If only those with matches were, a model could guess what is in them.
        """
        if self.place.file is not None:
            return
        known = await anyio.to_thread.run_sync(self.workspace.list_asked)
        if known is not None and not known:
            return
        above = f"{self.place.real}/" if self.place.real else ""

        def take(names: list[str]) -> bool:
            picked = (f"{above}{name}" for name in names if selection.picks(name))
            asked = (path for path in picked if known is None or path in known)
            self.left_out.update(path for path in asked if self.workspace.hiding(path) == "ask")
            return True

        seconds = self.clock.seconds_left()
        await self.ripgrep.names(self.place, selection.scope, take, seconds=seconds)

    async def _search(self, selection: FileSelection, query: Query) -> GrepAnswer:
        hits, end = await self._run_query(selection, query)
        flood = end is SearchEnd.ENOUGH
        if flood:  # files come in any order, so the first by path may be missing
            hits, end = await self._run_query(selection, replace(query, ordered=True))
        return GrepAnswer(hits, end, flood=flood)

    async def _run_query(self, selection: FileSelection, query: Query) -> tuple[Hits, SearchEnd]:
        hits = Hits(
            self._make_path(selection),
            max_matches=query.max_matches,
            max_file_matches=query.max_file_matches,
            ordered=query.ordered,
        )
        left = self.clock.seconds_left()
        seconds = min(left, _BINARY_SECONDS) if query.binary else left
        end = await self.ripgrep.lines(
            self.place, selection.scope, query, hits.take, seconds=seconds
        )
        return hits, end

    def _make_path(self, selection: FileSelection) -> Callable[[str], str | None]:
        """Return a function from ripgrep's file names to paths; None for files not to show."""
        real, hiding = self.place.real, self.workspace.hiding
        if self.place.file is not None:
            return lambda _: real
        above = f"{real}/" if real else ""

        def path(name: str) -> str | None:
            whole = f"{above}{name}"
            return whole if selection.picks(name) and not hiding(whole) else None

        return path
