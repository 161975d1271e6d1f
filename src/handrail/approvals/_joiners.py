"""Find invisible characters that writing needs: inside emoji, and between letters they join.

A selector makes a sign an emoji, and a joiner makes one emoji from two. Persian and Indian words
have joiners between letters. Anywhere else, these characters are only hidden.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_JOINERS = re.compile("[\u200c\u200d\ufe0e\ufe0f]")
_JOIN = "\u200d"
_SELECTORS = "\ufe0e\ufe0f"
_KEYCAP = "\u20e3"
_ON_KEYCAPS = frozenset("0123456789#*")
_OTHER_EMOJI = frozenset(
    "\u203c\u2049\u2139\u2194\u2934\u2935\u25fb\u25fc\u25fd\u25fe\u3030\u303d"
    "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
)
"""Emoji, and their skin tones, outside Unicode's other symbols."""
_SCRIPTS = frozenset(
    "ARABIC SYRIAC MONGOLIAN DEVANAGARI BENGALI GURMUKHI GUJARATI ORIYA TAMIL TELUGU KANNADA "
    "MALAYALAM SINHALA MYANMAR KHMER".split()
)
"""Scripts whose letters are joined, or kept apart, by these characters."""


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
