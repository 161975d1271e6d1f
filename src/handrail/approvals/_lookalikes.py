"""Find look-alike letters and signs, and words displayed in another order.

These are words with mixed scripts, words made from look-alikes of Latin letters, and signs looking
like ASCII ones. A terminal may reverse the order of Hebrew or Arabic words in a line with others.
Letters from rare scripts can still look like Latin ones.

Also find invisible characters that writing needs, inside emoji and between joined letters. Anywhere
else, these characters only hide.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_EAST_ASIAN = frozenset(
    "CJK HIRAGANA KATAKANA KATAKANA-HIRAGANA HANGUL BOPOMOFO IDEOGRAPHIC HALFWIDTH".split()
)
"""Scripts mixed with each other and with Latin."""
_LETTERS = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u04cf\u0475"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405\u04ae\u051a\u051c"
    "\u03b1\u03bd\u03b9\u03bf\u03c1\u03c5\u03f2\u0391\u0392\u0395\u0396\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
    "\u0570\u0575\u0578\u057d\u0581\u0585\u054d\u0555"
)
"""Cyrillic, Greek and Armenian letters resembling Latin ones."""
_SIGNS = frozenset(
    "\u02cd\u02d7\u02dc\u2010\u2011\u2012\u2043\u204e\u2044\u2212\u2215\u2216\u2217\u2223\u2236"
    "\u223c\u2571\u29f5\u29f8\ua789"
)
"""Signs resembling ASCII ones without being their variants."""
_EN_DASH = "\u2013"
_JOINERS = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
_JOIN = "\u200d"
_SELECTORS = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"
_ON_KEYCAPS = frozenset("0123456789#*")
_OTHER_EMOJI = frozenset(
    "\u203c\u2049\u2139\u2194\u2934\u2935\u25fb\u25fc\u25fd\u25fe\u3030\u303d"
    "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
)
"""Emoji and skin tones outside of the category "other symbols" in Unicode."""
_SCRIPTS = frozenset(
    "ARABIC SYRIAC MONGOLIAN DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA "
    "MALAYALAM SINHALA MYANMAR KHMER".split()
)
"""Scripts whose letters are joined, or kept apart, by these characters."""


def find_lookalikes(text: str) -> Iterator[tuple[int, str]]:
    """Yield look-alike words and signs, each with its position."""
    start = 0
    for line in text.split("\n"):
        if not line.isascii():
            for at, found in (*_find_words(line), *_find_signs(line)):
                yield start + at, found
        start += len(line) + 1


def is_mark(character: str) -> bool:
    """Return whether a character is drawn on the one before it."""
    return not character.isascii() and unicodedata.category(character) in {"Mn", "Me"}


def _find_words(line: str) -> Iterator[tuple[int, str]]:
    words = list(_words(line))
    both_ways = any(letter.isascii() and letter.isalnum() for letter in line)
    for index, (at, word) in enumerate(words):
        beside = [other for _, other in words[max(index - 1, 0) : index + 2] if other != word]
        if _is_odd(word, beside) or (both_ways and any(map(_is_reversed, word))):
            yield at, word


def _words(line: str) -> Iterator[tuple[int, str]]:
    at = 0
    for is_word, characters in itertools.groupby(line, _in_word):
        word = "".join(characters)
        if is_word:
            yield at, word
        at += len(word)


def _in_word(character: str) -> bool:
    """Return whether a character is part of a word. Marks are, so a mark cannot split a word."""
    return character.isalnum() or character == "_" or is_mark(character)


def _is_odd(word: str, beside: list[str]) -> bool:
    """Return whether a word mixes scripts, or looks like one in another script.

    A single letter is a word in many languages, so it is clear beside a clear word.
    """
    letters = [letter for letter in word if letter.isalpha()]
    scripts = {_script(letter) for letter in letters} - {""}
    if "look-alike" in scripts or len(scripts - _EAST_ASIAN) > 1:
        return True
    if not letters or not _LETTERS.issuperset(letters):
        return False
    return len(letters) > 1 or not any(
        scripts == {_script(letter) for letter in other} and not _LETTERS.issuperset(other)
        for other in beside
    )


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the script of a letter, from its Unicode name; empty if all scripts share it."""
    if letter.isascii():
        return "LATIN"
    plain = unicodedata.normalize("NFKC", letter)
    if plain.isascii():
        return "look-alike"
    script = unicodedata.name(letter, "").partition(" ")[0]
    return "" if script == "MODIFIER" else script


def _is_reversed(character: str) -> bool:
    return unicodedata.bidirectional(character) in {"R", "AL"}


def _find_signs(line: str) -> Iterator[tuple[int, str]]:
    for at, sign in enumerate(line):
        before, after = line[at - 1 : at], line[at + 1 : at + 2]
        if sign == _EN_DASH:
            unclear = after == "-" or (after.isascii() and after.isalpha())
        else:
            unclear = _imitates(sign) and not (_is_wide(sign) and _is_wide(before.strip() or after))
        if unclear:
            yield at, sign


@lru_cache(maxsize=4096)
def _imitates(sign: str) -> bool:
    """Return whether a sign looks like one of ASCII."""
    if sign.isascii() or sign.isalnum():
        return False
    plain = unicodedata.normalize("NFKC", sign)
    return sign in _SIGNS or (len(plain) == 1 and "!" <= plain <= "~")


def _is_wide(character: str) -> bool:
    """Return whether a character is a wide one, as in East Asian text."""
    return any(unicodedata.east_asian_width(one) in {"W", "F"} for one in character)


def find_joined(text: str) -> frozenset[int]:
    """Return the positions of joiners and selectors that belong to an emoji or a word."""
    if text.isascii():
        return frozenset()
    found = (match.start() for match in _JOINERS.finditer(text))
    return frozenset([at for at in found if _is_joined(text, at)])


def _is_joined(text: str, at: int) -> bool:
    sign, before, after = text[at], text[at - 1 : at], text[at + 1 : at + 2]
    if sign in _SELECTORS:
        return _is_emoji(before) or (before in _ON_KEYCAPS and after == _KEYCAP)
    if sign == _JOIN and _is_emoji(after):
        is_selected = before == _SELECTORS[1] and _is_emoji(text[at - 2 : at - 1])
        return is_selected or _is_emoji(before)
    return _is_joinable(before) and _is_joinable(after)


@lru_cache(maxsize=1024)
def _is_emoji(character: str) -> bool:
    if not character or character.isascii():
        return False
    return unicodedata.category(character) == "So" or character in _OTHER_EMOJI


@lru_cache(maxsize=1024)
def _is_joinable(character: str) -> bool:
    """Return whether a character is a letter, or a mark on one, of a script with joiners."""
    if not character or unicodedata.category(character)[0] not in "LM":
        return False
    return unicodedata.name(character, "").partition(" ")[0] in _SCRIPTS
