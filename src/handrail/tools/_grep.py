"""grep: lines of files that match a pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from handrail import READ, Access, Context, Tool, ToolFailed, tool
from handrail.tools._excerpts import CHARACTERS, page
from handrail.tools._hits import FLOOD, Hits
from handrail.tools._scope import Ended, Mode, Place, Query
from handrail.tools._search import (
    EVERYTHING_LEFT_OUT,
    NO_RULES,
    SECONDS,
    SEEN,
    Clock,
    Engine,
    best_engine,
    left_out,
    searched,
    sees_nothing,
    unseen,
    within,
)
from handrail.tools._wanted import Wanted
from handrail.tools._workspace import Workspace

LIMIT: Final = 250
_MOST: Final = 1_000
_CONTEXT: Final = 50
_LONGEST: Final = 10_000


def grep(
    workspace: Workspace, *, seconds: float = SECONDS, engine: Engine | None = None
) -> Tool[..., Any]:
    """A tool that searches files of a workspace, with ripgrep where that is installed.

    Args:
        workspace: What is searched.
        seconds: How long one call may search; then it tells what it has found.
        engine: What searches; looked for, if left out.
    """
    chosen = engine or best_engine(workspace)

    def touches(path: str, **_: object) -> tuple[Access, ...]:
        return workspace.access(READ, path)

    @tool(
        effect=READ,
        touches=touches,
        timeout=seconds + 10,
        max_chars=CHARACTERS * 2,
        tags=workspace.tags,
    )
    async def grep(  # noqa: PLR0913  each is an argument that models know
        pattern: str,
        path: str = ".",
        glob: str = "",
        type: str = "",  # noqa: A002
        *,
        output_mode: Mode = "content",
        context: int = 0,
        before: int = 0,
        after: int = 0,
        ignore_case: bool = False,
        multiline: bool = False,
        fixed_strings: bool = False,
        include_ignored: bool = False,
        hidden: bool = False,
        limit: int = LIMIT,
        offset: int = 0,
        call: Context,
    ) -> str:
        """Search the content of files for a regular expression, and see the lines that match.

        Use it to find where something is said or defined, in one file or in all. To find files by
        their name use glob; to see a whole file use read. Files that .gitignore and the like leave
        out, and files with a leading dot, are searched only if they are named or asked for.

        Args:
            pattern: The regular expression, without look-around and backreferences.
            path: The file or folder to search.
            glob: Search only files like this, such as "*.py" or "src/**/*.ts"; "!*.min.js" for
                all others.
            type: Search only files of this type, such as "py", "js" or "rust".
            output_mode: "content" for lines, "files" for the names of files, "count" for how many
                lines match in each file.
            context: How many lines to show before and after each match.
            before: How many lines to show before each match, if that differs.
            after: How many lines to show after each match, if that differs.
            ignore_case: Whether upper and lower case are alike.
            multiline: Whether a match may go over several lines; "." then matches line ends too.
            fixed_strings: Whether the pattern is plain text.
            include_ignored: Whether files that ignore rules leave out are searched.
            hidden: Whether files with a leading dot in their path are searched.
            limit: How many matching lines (or files) to show.
            offset: How many to skip, to see the next ones.
            call: Of the executor.
        """
        need = within("offset", offset, 0, FLOOD) + within("limit", limit, 1, _MOST)
        around = within("context", context, 0, _CONTEXT)
        query = Query(
            pattern,
            fixed=fixed_strings,
            ignore_case=ignore_case,
            multiline=multiline,
            before=within("before", before, 0, _CONTEXT) or around,
            after=within("after", after, 0, _CONTEXT) or around,
            mode=output_mode,
            need=need,
            most=max(need + 1, _MOST),
        )
        _checked(query)
        if type and not chosen.knows_types:
            raise ToolFailed("type cannot be used here. Pass a glob such as '*.py' instead.")
        wanted = Wanted(glob, anywhere=True, ignored=include_ignored, hidden=hidden, kind=type)
        with searched(workspace, path, call) as place:
            search = _Search(workspace, chosen, place, query, Clock(seconds))
            answer = await search.answer(wanted)
        return _told(answer, query, offset=offset, limit=limit, seconds=seconds)

    return grep


@dataclass(frozen=True, slots=True)
class _Answer:
    hits: Hits
    ended: Ended
    flood: bool
    """Whether there is so much that not all of it was looked at."""
    notes: Sequence[str] = ()


def _checked(query: Query) -> None:
    if not query.pattern:
        raise ToolFailed("The pattern is empty. To see which files there are, use glob.")
    if len(query.pattern) > _LONGEST:
        raise ToolFailed(f"The pattern has more than {_LONGEST:,} characters. Shorten it.")
    if "\n" in query.pattern and not query.multiline:
        raise ToolFailed(
            "The pattern has a line break in it, but a search goes line by line. Search for one "
            "of the lines, or pass multiline=true to match across lines."
        )


@dataclass(frozen=True, slots=True)
class _Search:
    """One call of grep: what it asks, and asks again."""

    workspace: Workspace
    engine: Engine
    place: Place
    query: Query
    clock: Clock

    async def answer(self, wanted: Wanted) -> _Answer:
        """What is found; and where that is nothing, what could have been."""
        notes = [] if self.engine.knows_ignore_files else [NO_RULES]
        found = await self._found(wanted, self.query)
        wider = wanted.wider()
        nothing = not found.hits.count and found.ended is not Ended.LATE
        if not nothing or wider is None or self.place.file is not None:
            return replace(found, notes=notes)
        if await sees_nothing(self.engine, self.place, wanted.scope, self.clock):
            found = await self._found(wider, self.query)
            return replace(found, notes=[*notes, EVERYTHING_LEFT_OUT * bool(found.hits.count)])
        others = (await self._found(wider, replace(self.query, mode="files"))).hits
        said = left_out(others.count, [file.path for file in others.files], wanted)
        return replace(found, notes=[*notes, said])

    async def _found(self, wanted: Wanted, query: Query) -> _Answer:
        hits, ended = await self._asked(wanted, query)
        flood = ended is Ended.ENOUGH
        if flood and not self.engine.ordered:  # the first by path may not have been seen
            hits, ended = await self._asked(wanted, replace(query, ordered=True))
        return _Answer(hits, ended, flood=flood)

    async def _asked(self, wanted: Wanted, query: Query) -> tuple[Hits, Ended]:
        paths = self._paths(wanted)
        hits = Hits(query.need, paths, most=query.most, ordered=query.ordered)
        seconds = self.clock.left()
        ended = await self.engine.lines(self.place, wanted.scope, query, hits.take, seconds=seconds)
        return hits, ended

    def _paths(self, wanted: Wanted) -> Callable[[str], str | None]:
        """From what an engine calls a file to its path; None where nothing may be told of it."""
        real, concealed = self.place.real, self.workspace.hidden
        if self.place.file is not None:
            return lambda _: real
        above = f"{real}/" if real else ""

        def path(name: str) -> str | None:
            whole = f"{above}{name}"
            return whole if wanted.picks(name) and not concealed(whole) else None

        return path


def _told(answer: _Answer, query: Query, *, offset: int, limit: int, seconds: float) -> str:
    hits = answer.hits
    part = page(hits.files, query.mode, offset=offset, limit=limit)
    notes = [
        _counted(answer, query, offset, part.shown),
        "Long lines are clipped; [...] stands for what is missing." * part.clipped,
        part.unseen,
        unseen(answer.ended, seconds),
        *answer.notes,
    ]
    body = [part.text] if part.text else []
    return "\n".join([*body, *(f"[{note}]" for note in notes if note)])


def _counted(answer: _Answer, query: Query, offset: int, shown: int) -> str:
    hits = answer.hits
    if not hits.count:
        return "Nothing matches." if answer.ended in SEEN else "Nothing was found so far."
    capped = answer.flood or hits.capped
    noun = "matching line" if query.mode == "content" else "file"
    total = FLOOD if answer.flood else hits.lines
    amount = f"{'more than ' * capped}{total - (capped and not answer.flood):,}"
    where = f" in {'at least ' * answer.flood}{_several(hits.count, 'file')}"
    where = where * (query.mode == "content")
    if offset == 0 and shown == hits.lines and not capped:
        sums = f", {_several(hits.sum, 'matching line')}" * (query.mode == "count")
        return f"{_several(hits.lines, noun)}{where}{sums}."
    if not shown:
        return f"There are only {amount} {noun}s{where}: an offset of {offset:,} is past them."
    last = offset + shown
    more = f" Pass offset={last} for the next ones, or narrow the search." * (
        last < total or capped
    )
    return f"{noun.capitalize()}s {offset + 1:,} to {last:,} of {amount}{where}.{more}"


def _several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
