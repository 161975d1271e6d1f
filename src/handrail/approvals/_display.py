r"""Text from outside, made safe to show: all of it can be seen, and none of it acts.

What a person says yes to is what they saw. So every character that a terminal obeys, hides or
moves is written out as ``\u{...}``, empty space that could push something out of sight is counted,
and no two texts look the same.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

LONGEST = 10_240
"""Bytes of UTF-8 that a person can be expected to judge."""

TAB = "→"
_MOST_MARKS = 3
_FILLERS = frozenset("\u115f\u1160\u3164\uffa0\u2800\u034f\u17b4\u17b5")
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_SELECTORS = re.compile("[\ufe00-\ufe0f\u180b-\u180f\U000e0100-\U000e01ef]")
_MARKER = re.compile(r"\\(?=u\{)")
"""Where the text itself looks like one of our escapes."""
_COUNTED = re.compile(r"(?<=\[)…")
"""Where the text itself looks like one of our counts."""
_SPACES = re.compile(r" {9,}")
_TABS = re.compile(r"\t{9,}")
_BLANKS = re.compile(r"\n{10,}")
_LAST_SPACE = re.compile(r" (?=\n|\Z)")
_EAST_ASIAN = frozenset(
    "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA HANGUL BOPOMOFO IDEOGRAPHIC HALFWIDTH".split()
)
"""Scripts that are written together, and together with Latin."""


@dataclass(frozen=True, slots=True)
class Displayed:
    """A text as it may be shown, and what a person should know of it."""

    text: str
    """Safe to print; its line breaks are the text's own."""
    length: int
    """In characters."""
    lines: int
    hidden: int
    """How many characters could not have been seen, and are written out."""
    mixed: tuple[str, ...]
    """Words with letters of several scripts, or in disguise; the odd letters are written out."""
    too_long: bool
    """Whether it is more than a person can be asked to judge; then the text is only its start."""


def displayed(text: str, *, most: int = LONGEST) -> Displayed:
    """Text as it may be shown, of at most so many bytes. Two texts never look the same."""
    too_long = len(text) > most or size(text) > most
    kept = text[:most]
    odd = dict(_odd_words(kept))
    hidden = sum(_is_hidden(character) for character in kept) + len(_excess_marks(kept))
    return Displayed(
        text=_shown(kept, odd),
        length=len(text),
        lines=text.count("\n") + 1,
        hidden=hidden,
        mixed=tuple(dict.fromkeys(_shown(word, {0: word}) for word in odd.values())),
        too_long=too_long,
    )


def inline(text: str) -> str:
    """Text as it may be shown on one line, with its line breaks written out."""
    return displayed(text).text.replace("\n", _escape("\n"))


def size(text: str) -> int:
    """Bytes of UTF-8, half characters counted like others."""
    return len(text.encode("utf-8", "surrogatepass"))


def wrapped(line: str, width: int, margin: str) -> Iterator[str]:
    """A line in pieces that a terminal of this width will not break by itself.

    What a terminal breaks goes on at its left edge, where a long text could then write a line of
    its own. Here it goes on after the margin. Whatever is not ASCII counts as wide, since
    terminals differ.
    """
    at = _breaks_at(line, width)
    yield line[:at]
    room = max(width - sum(map(_columns, margin)), 2)
    while at < len(line):
        until = at + _breaks_at(line[at : at + room], room)
        yield f"{margin}{line[at:until]}"
        at = until


def _breaks_at(line: str, width: int) -> int:
    used = 0
    for place, character in enumerate(line):
        used += _columns(character)
        if used > width:
            return place
    return len(line)


def _columns(character: str) -> int:
    if character.isascii():
        return 1
    return 0 if _is_mark(character) else 2


def _shown(text: str, odd: dict[int, str]) -> str:
    """Every character by itself first, then the counts; counted runs hold no other escapes."""
    escaped = _excess_marks(text)
    for start, word in odd.items():
        escaped |= {start + at for at, one in enumerate(word) if not one.isascii()}
    for pattern in (_MARKER, _COUNTED, _LAST_SPACE):
        escaped |= {found.start() for found in pattern.finditer(text)}
    pieces = list(text)
    for place, character in enumerate(text):
        if place in escaped or _is_hidden(character) or character == TAB:
            pieces[place] = _escape(character)
    for start, end, words in _runs(text):
        pieces[start:end] = [words] + [""] * (end - start - 1)
    return "".join(pieces).replace("\t", TAB)


def _runs(text: str) -> Iterator[tuple[int, int, str]]:
    for pattern, what in ((_SPACES, "spaces"), (_TABS, "tabs")):
        for found in pattern.finditer(text):
            yield found.start(), found.end(), f"[… {len(found[0])} {what} …]"
    for found in _BLANKS.finditer(text):
        yield found.start(), found.end(), f"\n[… {len(found[0]) - 1} blank lines …]\n"


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


def _is_mark(character: str) -> bool:
    return not character.isascii() and unicodedata.category(character) in {"Mn", "Me"}


def _excess_marks(text: str) -> set[int]:
    """Where marks have no letter to stand on, or pile up on one."""
    found: set[int] = set()
    marks = _MOST_MARKS
    for place, character in enumerate(text):
        if not _is_mark(character):
            marks = _MOST_MARKS if character in " \n\t" or _is_hidden(character) else 0
        elif not _is_hidden(character):
            marks += 1
            if marks > _MOST_MARKS:
                found.add(place)
    return found


def _odd_words(text: str) -> Iterator[tuple[int, str]]:
    """Where words mix scripts, or are written in letters that only look like plain ones."""
    if text.isascii():
        return
    start = 0
    for is_word, characters in itertools.groupby(text, _in_word):
        word = "".join(characters)
        scripts = {_script(one) for one in word if is_word and one.isalpha()} - {""}
        if "disguise" in scripts or len(scripts - _EAST_ASIAN) > 1:
            yield start, word
        start += len(word)


def _in_word(character: str) -> bool:
    """Marks are part of a word, so that one more mark cannot divide it."""
    return character.isalnum() or character == "_" or _is_mark(character)


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """The script of a letter, as its name in Unicode begins; none for those that all share."""
    if letter.isascii():
        return "LATIN"
    plain = unicodedata.normalize("NFKC", letter)
    if plain.isascii():
        return "disguise"
    script = unicodedata.name(letter, "").partition(" ")[0]
    return "" if script == "MODIFIER" else script
