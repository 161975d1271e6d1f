"""An approval request as one value, made once. Each place showing it only lays it out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Any

from handrail import READ
from handrail._support import is_list, is_object
from handrail.approvals._display import MAX_PROMPT_BYTES, count_bytes, make_printable
from handrail.approvals._form import read_form
from handrail.permissions import FileChange, Grade, Pending, Undoable
from handrail.sources import describe_sources, split_question

_MAX_STEPS = 30
"""Lines to compare for each character: more take too long."""

TAGS: dict[Grade, str] = {
    Grade.UNKNOWN: "",
    Grade.CHANGE: "",
    Grade.UNCONFINED: "! no sandbox contains it",
    Grade.LEAVES: "! leaves this machine",
    Grade.LOSES: "!! cannot be undone",
}
"""A person's text for a call's grade."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """An approval request in the terminal's words, for your pages.

    Its texts are not yet safe to show: see ``make_printable``.
    """

    pending: Pending
    args: Mapping[str, Any]
    """The arguments by name, or what a form asks for.

    A value other than an object is named ``arguments``.
    """
    size: int
    """Bytes of untrusted text."""
    hidden: int
    """How many invisible characters it has, which are shown as escapes."""
    mixed: tuple[str, ...]
    """Words with mixed scripts or look-alike letters, safe to show."""

    @property
    def too_long(self) -> bool:
        """Whether the request is longer than a person can be expected to read."""
        return self.size > MAX_PROMPT_BYTES

    @property
    def title(self) -> str:
        """The headline, as a question."""
        if self.pending.kind == "login":
            return f"Sign in for {self.pending.call.name}?"
        return f"{self.pending.headline or f'Call {self.pending.call.name}'}?"

    @property
    def grade(self) -> Grade:
        """The call's grade, one step graver if there are signs of deceit."""
        grade = self.pending.grade
        return Grade(min(grade + 1, Grade.LOSES)) if self.hidden or self.mixed else grade

    @property
    def tag(self) -> str:
        """The grade in a few words, or how many lines change."""
        grade, pending = self.grade, self.pending
        if pending.kind == "form":
            return TAGS[grade]
        verbs = {access.verb for access in pending.accesses}
        if grade is Grade.UNKNOWN and not pending.parts and verbs == {READ}:
            return "reads only"
        changed = "" if TAGS[grade] else self._count_lines()
        return changed or name_grade(grade, is_command=bool(pending.parts))

    @property
    def command(self) -> str:
        """The shell command, or "" if there is none."""
        command = self.args.get("command")
        return command if isinstance(command, str) else ""

    @property
    def beside(self) -> dict[str, Any]:
        """The arguments without the command."""
        return {n: value for n, value in self.args.items() if n != "command" or not self.command}

    @property
    def files(self) -> tuple[FileChange, ...]:
        """The changes to files."""
        return tuple([one for one in self.pending.changes if isinstance(one, FileChange)])

    @property
    def notes(self) -> tuple[str, ...]:
        """Texts by the tool about the call, such as what undo cannot restore."""
        said = [
            one.description if isinstance(one, Undoable) else one
            for one in self.pending.changes
            if not isinstance(one, FileChange)
        ]
        return tuple(filter(None, said))

    @property
    def question(self) -> str:
        """The policy's question, without the sources."""
        return split_question(self.pending.question, self.pending.sources)

    @property
    def sources(self) -> list[str]:
        """Who named the values in the call, if not its user."""
        return describe_sources(self.pending.sources)

    def measure(self) -> tuple[int, int]:
        """Return the characters in all changing files, and how many line pairs are compared."""
        texts = [(change.before or "", change.after or "") for change in self.files]
        compared = sum((old.count("\n") + 1) * (new.count("\n") + 1) for old, new in texts)
        return sum(len(old) + len(new) for old, new in texts), compared

    def _count_lines(self) -> str:
        signs = [sign for change in self.files for sign, _, _ in diff_rows(change, 0)]
        return f"+{signs.count('+')} -{signs.count('-')}" if self.files else ""


def view_request(pending: Pending) -> RequestView:
    """Return an approval request as every place shows it."""
    args = _read_args(pending)
    about, inside = tuple(_texts_about(pending)), tuple(_texts(args))
    size = sum(map(count_bytes, (*about, *map(str, args), *map(write_value, args.values()))))
    texts = (*about, *inside) if size <= MAX_PROMPT_BYTES else ()
    shown = [make_printable(text) for text in texts]
    return RequestView(
        pending=pending,
        args=args,
        size=size,
        hidden=sum(text.hidden for text in shown),
        mixed=tuple(dict.fromkeys(word for text in shown for word in text.mixed)),
    )


def is_clear(pending: Pending, most: int) -> bool:
    """Return whether a request has at most this many bytes, none in a misleading character."""
    texts = (*_texts_about(pending), *_texts(_read_args(pending)))
    short = sum(map(count_bytes, texts)) <= most
    return short and all(make_printable(text, most=most).is_plain for text in texts)


def write_value(value: Any) -> str:
    """Return an argument as text: a string unchanged, unless it is empty, and others as JSON."""
    return value if isinstance(value, str) and value else write_json(value)


def write_json(value: Any) -> str:
    """Return a value as JSON for a person."""
    return json.dumps(value, ensure_ascii=False, default=repr)


class Comparison(SequenceMatcher[str]):
    """Compares lines, or words, in limited steps. Parts not compared by then differ."""

    def __init__(self, before: Sequence[str], after: Sequence[str], steps: int) -> None:
        super().__init__(None, before, after, autojunk=False)
        self._before, self._after, self.steps = before, after, steps
        counts = Counter(after)
        self._work = [0, *accumulate(1 + counts[one] for one in before)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        """Return the longest part in both, or a part at an end if too slow."""
        end = len(self._before) if ahi is None else ahi
        last = len(self._after) if bhi is None else bhi
        work = self._work[end] - self._work[alo]
        if work <= self.steps:
            self.steps -= work
            return super().find_longest_match(alo, end, blo, last)
        most, same = min(end - alo, last - blo), 0
        while same < most and self._before[alo + same] == self._after[blo + same]:
            same += 1
        if same:
            return Match(alo, blo, same)
        while same < most and self._before[end - 1 - same] == self._after[last - 1 - same]:
            same += 1
        return Match(end - same, last - same, same)


def name_grade(grade: Grade, *, is_command: bool = False) -> str:
    """Return how grave a call is by its grade, or "" for a change."""
    if grade is Grade.UNKNOWN:
        return "unknown command" if is_command else "unknown effect"
    return TAGS[grade]


def diff_rows(change: FileChange, context: int = 3) -> Iterator[tuple[str, int, str]]:
    """Yield a diff's lines: their sign, their number and their text. ``@`` is a gap.

    Lines end only at line feeds, as in the tools for files. The texts are not yet safe to
    show.
    """
    texts = (change.before or "", change.after or "")
    shared = "\n" * all(text.endswith("\n") for text in texts if text)  # else it differs
    before, after = (text.removesuffix(shared).split("\n") if text else [] for text in texts)
    matcher = Comparison(before, after, _MAX_STEPS * sum(map(len, texts)))
    for number, group in enumerate(matcher.get_grouped_opcodes(context)):
        if number and context:
            yield "@", 0, ""
        for kind, first, last, start, end in group:
            if kind != "equal":
                yield from (("-", change.line + at, before[at]) for at in range(first, last))
            sign = " " if kind == "equal" else "+"
            yield from ((sign, change.line + at, after[at]) for at in range(start, end))


def _read_args(pending: Pending) -> Mapping[str, Any]:
    if pending.kind == "form":
        return {field.label: field.describe() for field in read_form(pending).fields}
    text = str(pending.call.args)  # a pending call has them as text
    try:
        args: Any = json.loads(text)
    except (ValueError, RecursionError):
        return {"arguments": text}
    return args if is_object(args) else {"arguments": args}


def _texts_about(pending: Pending) -> Iterator[str]:
    """Yield every untrusted text shown beside the arguments."""
    yield from (pending.call.name, pending.call.id, pending.question)
    yield from (access.resource for access in pending.accesses)
    if pending.origin is not None:
        yield str(pending.origin)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_object(value):
        for key, field in value.items():
            yield str(key)
            yield from _texts(field)
    elif is_list(value):
        for item in value:
            yield from _texts(item)
    else:
        yield write_json(value)
