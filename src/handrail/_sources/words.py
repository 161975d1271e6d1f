"""Words: whether a text has a value as a whole, not inside a longer one."""

from __future__ import annotations

import re
import unicodedata

from handrail._sources.spelling import is_wide

_INSIDE = re.compile(r"[\w@\-\u2010/+%&=#~]")
"""Beside one of these, a value is in a longer one."""
_FIRST_MARK = "\u0300"
"""Vowel signs and accents begin here. They belong to the letter before them."""
_JOINTS = frozenset(".:")
_PARTICLES = (
    "에게서 한테서 으로 에게 한테 까지 부터 에서 이랑 께서 "
    "께 에 을 를 이 가 은 는 와 과 의 로 도 만 랑"
).split()
_HANGUL_END = re.compile(rf"(?:님|씨)?(?:{'|'.join(_PARTICLES)})?(?![\uac00-\ud7a3])")
"""A Korean title and a particle after a name. After them, the word must end."""
_KANA_AFTER = frozenset("にをのへとがはもやでか")
_KANA_BEFORE = frozenset("にをのへとがはもやで")
"""Japanese particles before and after a name, without a space."""
_HAN_BEFORE = frozenset("给給向对對和跟与與把请請将將由在")
_HAN_WORDS_BEFORE = tuple(
    "删除 刪除 取消 预订 預訂 预定 預定 通知 告诉 告訴 联系 聯繫 聯絡 邀请 邀請 打开 打開".split()
)
_HAN_WORDS_AFTER = tuple("参加 參加 加入 开会 開會 见面 見面 频道 頻道".split())
"""Verbs before and after a name in Chinese, and the word for a channel."""
_HAN_AFTER = frozenset("的和跟与與吗嗎了是")
_TITLES = (
    "さん",
    "さま",
    "くん",
    "ちゃん",
    "様",
    "殿",
    "氏",
    "先生",
    "部長",
    "課長",
    "社長",
    "女士",
    "小姐",
    "老师",
    "经理",
)
"""Titles after a name, in Japanese and Chinese."""
_THOUSANDS = frozenset(",'")
_THREE, _DIGITS = re.compile(r"\d{3}(?!\d)"), re.compile(r"\d{1,3}(?!\d)")
"""Digits after a mark that separates thousands, or the cents."""
_KEY, _MAX_KEY_CHARS = re.compile(r"(?:^|[\s(])[a-z_]\w*=$"), 40
"""A key before a value, as in id=4711. In an address, more is before it."""
_BEFORE_PATHS = frozenset(("", *" '\"`(<["))
"""Before the ``./`` at the beginning of a path."""
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


def _is_inside(letter: str) -> bool:
    if _INSIDE.match(letter):
        return True
    return letter >= _FIRST_MARK and unicodedata.category(letter).startswith("M")


def _starts(value: str, text: str, at: int) -> bool:
    if not at:
        return True
    before = text[at - 1]
    if (marked := _is_after_mark(value, text, at)) is not None:
        return marked
    if not _is_inside(before):
        return True
    if not before.isalpha():
        return False
    return text.endswith(_HAN_WORDS_BEFORE, 0, at) or not _is_same_word(before, value[0])


def _is_after_mark(value: str, text: str, at: int) -> bool | None:
    """Return whether a mark separates a value from what is before it. None for no such mark."""
    before, earlier = text[at - 1], text[max(at - 2, 0) : at - 1]
    if before in "@#" and not _INSIDE.match(earlier):  # a mention, such as @dora and #dev-ops
        return value.replace("-", "_").isidentifier()
    if before == "=":
        return _KEY.search(text, max(at - _MAX_KEY_CHARS, 0), at) is not None
    if not earlier.isalnum():
        is_here = before == "/" and earlier == "."
        return True if is_here and text[max(at - 3, 0) : at - 2] in _BEFORE_PATHS else None
    if before in _THOUSANDS and earlier.isdigit():
        return None if _THREE.match(text, at) is None else False
    is_name = before == "'" and earlier == "o" and not text[max(at - 3, 0) : at - 2].isalnum()
    if before == "." or is_name:  # O'Neil
        return False
    return not value.isdigit() if before == ":" else None


def _ends(value: str, text: str, at: int, end: int) -> bool:
    after, then = text[end : end + 1], text[end + 1 : end + 2]
    if after in _IN_PATHS and "/" in value and _INSIDE.match(then or " "):
        return False
    if after in _THOUSANDS and value[-1].isdigit() and _DIGITS.match(text, end + 1):
        return False
    if not after or not _is_inside(after):
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
    if kind != "hangul" and text.startswith(_TITLES, end):
        return True
    if _script(after) != kind:
        return "hangul" not in (kind, _script(after))
    if kind == "hangul":
        return _HANGUL_END.match(text, end) is not None
    if kind == "han" and text.startswith(_HAN_WORDS_AFTER, end):
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
