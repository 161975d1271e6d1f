"""Spellings: one form for texts and values, so that the same name is found in both."""

from __future__ import annotations

import re
import unicodedata

_INVISIBLE = re.compile(
    "[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\U000e0000-\U000e007f]"
)
_URL = re.compile(r"https?:/+")
_DECIMAL = re.compile(r"\d+(?:\.\d+)?")
_MAX_DECIMAL_CHARS = 15
_EDGES = " '\"<>()[],;"
_GAP = r"[ .\-/()]{0,3}"
_GAPS = re.compile(r"[ .\-/()]")
_CODE = re.compile(r"[a-z0-9]{12,}")
_NUMBER = re.compile(r"\+?\d{7,}")
_WORD = "[^\\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]"
"""A letter or digit, except in scripts without spaces: there, a digit beside it is a word."""
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
_LEAST_DIGITS = 6
_MAX_CODE_CHARS = 80
_LEAST_CHARS = 4
_LEAST_WIDE_CHARS = 2


def normalize(text: str) -> str:
    """Return a text in one spelling: NFKC, one case, nothing invisible, no URL scheme."""
    if not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    text = text.casefold()
    if "://" in text or "http:/" in text or "https:/" in text:
        text = _URL.sub("", text)
    return " ".join(text.split())


def spell_plainly(text: str) -> str:
    """Return a person's text with ASCII digits and straight apostrophes, as a value may have."""
    if text.isascii():
        return text
    plain = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    return plain.replace("\u2019", "'")


def normalize_value(value: str) -> str:
    """Return a value in one spelling, without quotes and brackets around it."""
    return normalize(value).strip(_EDGES).rstrip("/").removeprefix("./")


def is_plain(value: str) -> bool:
    """Return whether a value is what it looks like.

    A tool gets the characters that the model wrote. So only these count, and not what they become
    in one spelling: a full-width letter in a known address makes another address.
    """
    if value.isascii():
        return value.isprintable() or all(c.isprintable() or c in "\t\n\r" for c in value)
    return unicodedata.normalize("NFKC", value) == value and not _INVISIBLE.search(value)


def is_short(value: str) -> bool:
    """Return whether a value is likely to be in a text by chance: ``13``, ``ok``, ``2024``."""
    if value.isascii():
        is_number = value.isdigit() and len(value) < _LEAST_DIGITS
        return len(value) < _LEAST_CHARS or is_number
    wide = any(is_wide(letter) for letter in value)
    return len(value) < (_LEAST_WIDE_CHARS if wide else _LEAST_CHARS - 1)


def is_wide(letter: str) -> bool:
    """Return whether two such letters can be a name."""
    return letter >= "\u1100" and (
        "\u3040" <= letter <= "\u30ff"
        or "\u3400" <= letter <= "\u9fff"
        or "\uac00" <= letter <= "\ud7a3"
    )


def spell_number(value: str) -> list[str]:
    """Return how a text may spell a value: for ``1000.0`` also 1000, 1,000 and 1,000.00."""
    if not value.isascii() or not _DECIMAL.fullmatch(value) or len(value) > _MAX_DECIMAL_CHARS:
        return [value]
    number = float(value)
    short = [f"{number:.0f}", f"{number:,.0f}"] if number == int(number) else []
    if value.isdigit():
        return list(dict.fromkeys([value, *short])) if value[0] != "0" else [value]
    return list(dict.fromkeys([value, *short, f"{number:.2f}", f"{number:,.2f}"]))


def find_groups(value: str) -> re.Pattern[str] | None:
    """Return a pattern for a long code or a phone number that is written in groups.

    Returns None for anything else. ``GB29 NWBK 6016 1331 9268 19`` and ``+49 (30) 123-4567`` are
    such. More digits before or after it make another code.
    """
    if len(value) > _MAX_CODE_CHARS:
        return None
    code = _GAPS.sub("", value)
    is_code = _CODE.fullmatch(code) and sum(map(str.isdigit, code)) >= _LEAST_DIGITS
    if not is_code and not _NUMBER.fullmatch(code):
        return None
    letters = [re.escape(letter) for letter in code]
    if code.startswith(("+", "00")):  # both begin an international number
        letters[: 1 if code[0] == "+" else 2] = [r"(?:\+|00)"]
    before = r"(?<!\d[ .\-/])" if code[0].isdigit() else ""
    before = rf"(?<!{_WORD})(?<![+@/.\-]){before}"
    after = r"(?![.\-/ ](?=[a-z]*\d))" if code[-1].isdigit() else ""
    spelled = _GAP.join(letters)
    return re.compile(rf"{before}{spelled}(?!{_WORD}|@){after}(?![.\-/]\w)")
