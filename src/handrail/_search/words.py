"""Words in names, texts and queries: where they are split, and which ones say nothing."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase

from handrail._search.stems import stem

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f"
_ASCII = re.compile("[A-Z]{2,64}s(?![a-z])|[A-Z]{1,64}(?![a-z])|[A-Z]?[a-z]{1,64}|[0-9]{1,64}")
"""A word. A run over 64 characters becomes several."""
_ANY = re.compile(f"{_ASCII.pattern}|[{_CJK}]+|[^\\W\\d_a-zA-Z{_CJK}]{{1,64}}")
_IS_CJK = re.compile(f"[{_CJK}]")
_LETTERS = re.compile("\\b[A-Za-z]{2,64}\\b")
_CASES = str.maketrans(dict.fromkeys(ascii_lowercase, "a") | dict.fromkeys(ascii_uppercase, "A"))
_CAMEL = re.compile("[a-z][A-Z]")
_POSSESSIVE = re.compile("['\u2019]s\\b")
_ACCENTS = re.compile("[\u0300-\u036f]")

STOP_WORDS = frozenset(
    "a about above after again all also am an and any are as at be because been before being below "
    "between both but by can could did do does doing down during each few for from further had has "
    "have having he her here hers him his how i if in into is it its itself let like me more "
    "most my myself need no nor not now of off on once only or other our ours out over own please "
    "same she should so some such than that the their them then there these they this those "
    "through to too under until up us very want was we were what when where which while who whom "
    "why will with would you your yours".split()
)
"""Words removed from a query, unless nothing else is in it."""

MAX_TEXT = 20_000
"""Characters read from a text."""
JOINED = "+"
"""Before the stem of a compound whose two words are in the text, too."""

cached_stem = lru_cache(maxsize=1 << 15)(stem)


def split(text: str) -> list[str]:
    """Return a text's words in lower case, split at case, digits and any sign.

    Chinese, Japanese and Korean text becomes pairs of characters, since it has no spaces.
    """
    text = text[:MAX_TEXT]
    if "'" in text or "\u2019" in text:
        text = _POSSESSIVE.sub("", text)
    if text.isascii():
        found: list[str] = _ASCII.findall(text)
        return " ".join(found).lower().split()
    plain = _ACCENTS.sub("", unicodedata.normalize("NFKD", text))
    words: list[str] = []
    for word in _ANY.findall(unicodedata.normalize("NFC", plain)):
        words += _pairs(word) if _IS_CJK.match(word) else [word.lower()]
    return words


def drop_stop_words(words: list[str]) -> list[str]:
    """Return words without stop words, or all if nothing else is left."""
    return [word for word in words if word not in STOP_WORDS] or words


def _pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(max(1, len(run) - 1))]


def join(words: list[str]) -> list[str]:
    """Return each two adjoining words as one: `code block` also is `codeblock`.

    A query never has letters and digits in one word, so these are not joined.
    """
    return [
        first + second
        for first, second in pairwise(words)
        if first.isdecimal() == second.isdecimal()
    ]


class Stems(dict[str, str]):
    """Each looked-up word's stem. A catalogue repeats many words."""

    def __missing__(self, word: str) -> str:
        made = self[word] = cached_stem(word)
        return made


class TextStems(dict[str, str]):
    """Each text word's stem, empty for a stop word."""

    def __init__(self, whole: Stems) -> None:
        super().__init__(dict.fromkeys(STOP_WORDS, ""))
        self._whole = whole

    def __missing__(self, word: str) -> str:
        made = self[word] = self._whole[word]
        return made


def joined_stems(words: list[str]) -> list[str]:
    """Return the stems of words written apart elsewhere, marked as such."""
    return [JOINED + cached_stem(word) for word in words]


def whole_words(text: str) -> list[str]:
    """Return a text's words divided by case, such as `GitHub`, as one word each."""
    if "aA" not in text.translate(_CASES):  # takes a third of a regular expression's time
        return []
    words = _LETTERS.findall(text[:MAX_TEXT])
    return [word.lower() for word in words if _CAMEL.search(word)]
