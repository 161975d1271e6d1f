r"""Make untrusted text safe to show: every character is visible, and none controls the terminal.

A person approves what they see. So every character a terminal would obey, hide or move is shown as
``\u{...}``. Long whitespace runs, which could push text out of sight, are replaced with a count.
Look-alike letters and signs are shown as escapes too.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol, TypeAlias

from handrail.approvals._lookalikes import find_joined, find_lookalikes, is_mark

Look: TypeAlias = Literal[
    "plain", "title", "muted", "added", "removed", "ask", "warning", "bad", "picked", "changed"
]
"""A text's look: its role, not its color."""
Span: TypeAlias = tuple[int, int, Look]
"""A part of a line with a different look."""

MAX_PROMPT_BYTES = 10_240
"""UTF-8 bytes a person can be expected to read."""

TAB = "→"
_MAX_MARKS = 3
_MARGINS = " │┊"
_Run: TypeAlias = tuple[int, int, str]
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_SELECTORS = re.compile("[\ufe00-\ufe0f\u180b-\u180f\U000e0100-\U000e01ef]")
_MARKER = re.compile(r"\\(?=u\{)")
"""Text resembling our escapes."""
_COUNTED = re.compile(r"(?<=\[)…")
"""Text resembling our counts."""
_SPACES = re.compile(r" {9,}")
_TABS = re.compile(r"\t{9,}")
_EMPTY_LINES = re.compile(r"\n{10,}")
_LAST_SPACE = re.compile(r" (?=\n|\Z)")
_JSON_TEXT = re.compile(r'("(?:[^"\\]|\\.)*+"?)|[ \t\r\n]+')
"""A JSON string, or whitespace outside strings."""
_JSON_ESCAPE = re.compile(r"\\(?:u.{4}|.)")


@dataclass(frozen=True, slots=True)
class Printable:
    """A text safe to show, and facts about it for the reader."""

    text: str
    """Safe to print, with the original's line breaks."""
    length: int
    """The original's, in characters."""
    lines: int
    hidden: int
    """How many invisible characters are shown as escapes."""
    mixed: tuple[str, ...]
    """Words with mixed scripts or look-alike letters. These letters are shown as escapes."""
    too_long: bool
    """Whether the text is longer than the limit. Then only its start is shown."""
    condensed: bool = False
    """Whether long whitespace runs are replaced with a count."""

    @property
    def is_plain(self) -> bool:
        """Whether it is whole, and nothing in it is invisible or looks like another letter."""
        return not (self.hidden or self.mixed or self.too_long)


@dataclass(frozen=True, slots=True)
class RenderedLine:
    """One line in an approval request, safe to print."""

    text: str
    look: Look = "plain"
    condensed: bool = False
    """Whether the line shows a count instead of a long whitespace run."""
    spans: tuple[Span, ...] = ()
    """Parts of the line with a different look."""


class Screen(Protocol):
    """A screen for showing requests."""

    @property
    def width(self) -> int:
        """The width in columns."""
        ...

    @property
    def height(self) -> int:
        """The height in rows."""
        ...

    @property
    def has_keys(self) -> bool:
        """Whether rows can be drawn again, to answer with single keys."""
        ...

    def show(self, lines: Iterable[RenderedLine]) -> None:
        """Print each line on its own row."""
        ...

    def ask(self, line: RenderedLine) -> None:
        """Print a line, and leave the cursor after it."""
        ...

    def draw(self, lines: Sequence[RenderedLine], *, ends: bool = False) -> None:
        """Print rows in place of those drawn last, for the last time if it ``ends``."""
        ...


def render_line(
    template: str, *texts: str, look: Look = "plain", prose: bool = False
) -> RenderedLine:
    """Return a line with these untrusted texts, each on one line and safe to print."""
    shown = [
        make_printable(text, most=max(len(text), MAX_PROMPT_BYTES), prose=prose) for text in texts
    ]
    text = template.format(*map(_on_one_line, shown))
    return RenderedLine(text, look, any(printable.condensed for printable in shown))


def make_printable(text: str, *, most: int = MAX_PROMPT_BYTES, prose: bool = False) -> Printable:
    """Return text that is safe to show, up to ``most`` bytes. Escapes are unambiguous.

    In ``prose``, invisible characters inside emoji, or between letters they join, stay unchanged.
    Names and commands are not prose: two that look the same could then differ.
    """
    too_long = len(text) > most or count_bytes(text) > most
    start = text[:most]
    joined = find_joined(start) if prose else frozenset[int]()
    odd = dict(find_lookalikes(start))
    excess = _excess_marks(start, joined)
    hidden = sum(map(_is_hidden, start)) - len(joined) + len(excess)
    runs = list(_runs(start))
    return Printable(
        text=_write_out(start, odd, runs, joined),
        length=len(text),
        lines=text.count("\n") + 1,
        hidden=hidden,
        mixed=tuple(dict.fromkeys(_write_out(word, {0: word}, ()) for word in odd.values())),
        too_long=too_long,
        condensed=bool(runs),
    )


def inline(text: str, *, most: int = MAX_PROMPT_BYTES, prose: bool = False) -> str:
    """Return text that is safe to show on one line, with line breaks as escapes."""
    return _on_one_line(make_printable(text, most=most, prose=prose))


def inline_json(text: str) -> str:
    """Return JSON text on one line, without whitespace between values, and safe to show.

    Invisible characters are JSON escapes, so the value stays the same.
    """
    compact = _JSON_TEXT.sub(lambda found: found[1] or "", text)
    plain = _JSON_ESCAPE.sub(lambda escape: " " * len(escape[0]), compact)
    unclear = _unclear(plain, dict(find_lookalikes(plain)))
    return "".join(
        json.dumps(character)[1:-1] if at in unclear or _is_hidden(character) else character
        for at, character in enumerate(compact)
    )


def _on_one_line(shown: Printable) -> str:
    return shown.text.replace("\n", _escape("\n"))


def count_bytes(text: str) -> int:
    """Return a text's size in UTF-8 bytes, including lone surrogates."""
    return len(text.encode("utf-8", "surrogatepass"))


def wrap(line: str, width: int, margin: str) -> Iterator[str]:
    """Split a line into rows a terminal of this width will not break itself.

    A terminal continues a broken line at its left edge, where a long text could imitate a prompt
    line. These rows continue after the margin. A row ends at a space if it has one, to keep words
    whole if they fit on a row. Every non-ASCII character is assumed wide, since terminals differ.
    """
    at = _breaks_at(line, width)
    yield line[:at]
    room = max(width - sum(map(_columns, margin)), 2)
    while at < len(line):
        until = at + _breaks_at(line[at : at + room + 1], room)
        yield f"{margin}{line[at:until]}"
        at = until


def wrap_line(line: RenderedLine, width: int, margin: str) -> Iterator[RenderedLine]:
    """Split a rendered line into rows. Its parts look the same in them."""
    done = 0
    for number, row in enumerate(wrap(line.text, width, margin)):
        left = len(margin) if number else 0
        end = done + len(row) - left
        spans: tuple[Span, ...] = tuple(
            (max(first, done) - done + left, min(last, end) - done + left, look)
            for first, last, look in line.spans
            if first < end and last > done
        )
        yield RenderedLine(row, line.look, line.condensed, spans)
        done = end


def _breaks_at(line: str, width: int) -> int:
    used = 0
    for index, character in enumerate(line):
        used += _columns(character)
        if used > width:
            return _last_break(line, index)
    return len(line)


def _last_break(line: str, end: int) -> int:
    """Return the end of a row with at most ``end`` characters: after its last space."""
    blank = line.rfind(" ", 0, end)
    return blank + 1 if blank > 0 and line[:blank].strip(_MARGINS) else end


def count_columns(text: str) -> int:
    """Return the most columns a text can have."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    return 0 if is_mark(character) else 2


def _write_out(
    text: str, odd: dict[int, str], runs: Iterable[_Run], joined: AbstractSet[int] = frozenset()
) -> str:
    """Escape single characters, then replace runs of whitespace, which contain no escapes."""
    escaped = _unclear(text, odd, joined)
    for pattern in (_MARKER, _COUNTED, _LAST_SPACE):
        escaped |= {match.start() for match in pattern.finditer(text)}
    pieces = list(text)
    for index, character in enumerate(text):
        is_hidden = _is_hidden(character) and index not in joined
        if index in escaped or is_hidden or character == TAB:
            pieces[index] = _escape(character)
    for start, end, count in runs:
        pieces[start:end] = [count] + [""] * (end - start - 1)
    return "".join(pieces).replace("\t", TAB)


def _unclear(text: str, odd: dict[int, str], joined: AbstractSet[int] = frozenset()) -> set[int]:
    """Return the positions of characters that could pass for others."""
    unclear = _excess_marks(text, joined)
    for start, word in odd.items():
        unclear |= {start + at for at, letter in enumerate(word) if not letter.isascii()}
    return unclear


def _runs(text: str) -> Iterator[_Run]:
    """Yield long whitespace runs: start, end, and their replacement."""
    for pattern, what in ((_SPACES, "spaces"), (_TABS, "tabs")):
        for run in pattern.finditer(text):
            yield run.start(), run.end(), f"[… {len(run[0])} {what} …]"
    for run in _EMPTY_LINES.finditer(text):
        yield run.start(), run.end(), f"\n[… {len(run[0]) - 1} blank lines …]\n"


def _escape(character: str) -> str:
    return f"\\u{{{ord(character):X}}}"


@lru_cache(maxsize=4096)
def _is_hidden(character: str) -> bool:
    if " " <= character <= "~" or character in "\n\t":
        return False
    return (
        unicodedata.category(character) in _UNSEEN
        or character in _FILLERS
        or _SELECTORS.match(character) is not None
    )


def _excess_marks(text: str, joined: AbstractSet[int]) -> set[int]:
    """Return the positions of marks without a letter, and of too many marks on one letter."""
    excess: set[int] = set()
    marks = _MAX_MARKS
    for index, character in enumerate(text):
        if index in joined:
            continue
        if not is_mark(character):
            marks = _MAX_MARKS if character in " \n\t" or _is_hidden(character) else 0
        elif not _is_hidden(character):
            marks += 1
            if marks > _MAX_MARKS:
                excess.add(index)
    return excess
