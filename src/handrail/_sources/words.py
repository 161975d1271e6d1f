"""Words: whether a text has a value as a whole, not inside a longer one."""

from __future__ import annotations

import re

from handrail._sources.spelling import is_wide

_INSIDE = re.compile(r"[\w@\-/+%&=#~]")
"""Beside one of these, a value is in a longer one."""
_JOINTS = frozenset(".:")
_HANGUL_ENDS = frozenset(
    "에게서 한테서 으로 에게 한테 까지 부터 에서 이랑 께 님께 씨에게 "
    "님에게 님 씨 에 을 를 이 가 은 는 와 과 의 로 도 만 랑".split()
)
"""Korean particles at the end of a name. After them, the word must end."""
_HANGUL = re.compile("[\uac00-\ud7a3]{1,8}")
_KANA_AFTER = frozenset("にをのへとがはもやでか")
_KANA_BEFORE = frozenset("にをのへとがはもやで")
"""Japanese particles before and after a name, without a space."""
_HAN_BEFORE = frozenset("给給向对對和跟与與把请請将將由")
_HAN_AFTER = frozenset("的和跟与與吗嗎了是")
_TITLES = ("様", "殿", "氏", "先生", "部長", "課長", "社長", "女士", "小姐", "老师", "经理")
"""Titles after a name, in Japanese and Chinese."""
_IN_PATHS = frozenset(",;!*('")
"""Inside an address, these are in its path."""
_HAN_SENT = frozenset("发發写寫打转轉寄付汇匯送")
"""Words before and after a name in Chinese. "Sent" is one only after a word such as "to"."""


def find_whole(value: str, text: str, start: int = 0) -> int:
    """Return where a value is in a text as a whole, or -1. Both are in one spelling."""
    at = text.find(value, start)
    while at >= 0 and not is_whole(value, text, at):
        at = text.find(value, at + 1)
    return at


def is_whole(value: str, text: str, at: int) -> bool:
    """Return whether a value in a text is not inside a longer one."""
    end = at + len(value)
    return _starts(value, text, at) and _ends(value, text, at, end)


def _starts(value: str, text: str, at: int) -> bool:
    if not at:
        return True
    before, earlier = text[at - 1], text[at - 2] if at > 1 else " "
    if before in "@#" and not _INSIDE.match(earlier) and value.isidentifier():
        return True  # a mention, such as @dora and #general
    if before == ":" and earlier.isalnum():
        return not value.isdigit()
    if before == "." and earlier.isalnum():
        return False
    if not _INSIDE.match(before):
        return True
    return before.isalpha() and not _is_same_word(before, value[0])


def _ends(value: str, text: str, at: int, end: int) -> bool:
    after, then = text[end : end + 1], text[end + 1 : end + 2]
    if after in _IN_PATHS and "/" in value and _INSIDE.match(then or " "):
        return False
    if not after or not _INSIDE.match(after):
        return after not in _JOINTS or not then.isalnum() or _is_wide_word(then)
    if after == "/":
        return not then or not _INSIDE.match(then)
    if not _is_wide_word(after):
        return False
    # Latin letters or digits, and then a script without spaces, are two words
    return not is_wide(value[-1]) or _ends_wide(value[-1], text, at, end)


def _is_wide_word(letter: str) -> bool:
    return bool(letter) and is_wide(letter)


def _is_same_word(before: str, first: str) -> bool:
    """Return whether two neighbouring letters belong to one word."""
    if is_wide(before) is not is_wide(first):
        return False
    kinds = _script(before), _script(first)
    if kinds == ("han", "han"):
        return before not in _HAN_BEFORE
    if kinds == ("kana", "kana"):
        return before not in _KANA_BEFORE
    return kinds[0] == kinds[1] or "hangul" in kinds


def _ends_wide(last: str, text: str, at: int, end: int) -> bool:
    """Return whether a word ends here, in a script without spaces."""
    after, kind = text[end], _script(last)
    if _script(after) != kind:
        return "hangul" not in (kind, _script(after))
    if kind == "hangul":
        rest = _HANGUL.match(text, end)
        return rest is not None and rest[0] in _HANGUL_ENDS
    if kind == "han" and text.startswith(_TITLES, end):
        return True
    if kind == "han":
        sent = after in _HAN_SENT and at > 0 and text[at - 1] in _HAN_BEFORE
        return after in _HAN_AFTER or sent
    then = text[end + 1 : end + 2]
    return after in _KANA_AFTER and _script(then) != kind


def _script(letter: str) -> str:
    if not letter or not is_wide(letter):
        return ""
    if "\u30a0" <= letter <= "\u30ff":
        return "katakana"
    return "hangul" if letter >= "\uac00" else "han" if letter >= "\u3400" else "kana"
