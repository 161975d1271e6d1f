"""Spellings: one form for texts and values, so that the same name is found in both."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote, unquote_to_bytes

from handrail._sources.names import drop_title_dots, type_marks

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
_SIGNS = ("@", "#")
_HANDLE = re.compile(r"[\w\-]+")
_SWAPPED = str.maketrans(",.", ".,")
_SENTENCE = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z]+[\s,'])")
_ADDRESS, _MAX_ADDRESS_CHARS = re.compile(r"[.@/][^\s.]*$"), 200
"""A full stop before a sentence without a space; and before it, the address in front of it."""
_TRUNK_ZERO = re.compile(r"(\+\d{1,3} ?)\(0\)")
_VERSION = re.compile(r"(v?)(\d+\.\d+\.\d[\w.+\-]*)")
_VERSION_STARTS = frozenset("v0123456789")
_ENCODED, _OTHER_LETTERS = re.compile(r"(?:%[89a-f][0-9a-f])+"), re.compile(r"[^\x00-\x7f]+")
"""Letters outside ASCII in an address: encoded and not."""
_HOST = re.compile(r"[^/?#:]+\.[^/?#:]+")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
GROUPED = frozenset("tel phone mobile fax sms number account iban card".split())
"""Schemes whose numbers are written in groups."""
_MOST_COUNTRY_DIGITS, _LEAST_ABROAD = 3, 10
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


def spell_said(text: str) -> list[str]:
    """Return a person's text in one spelling, and in a plainer one if it differs.

    The plain one has ASCII digits, apostrophes and dashes, and no dots after titles. It has no zero
    in brackets after a country's code, and a space after a sentence that ends with an address.
    """
    plain = _SENTENCE.sub(_end_sentence, text)
    if not plain.isascii():
        plain = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), plain)
        plain = type_marks(plain)
    plain = drop_title_dots(_TRUNK_ZERO.sub(r"\1", normalize(plain)))
    return list(dict.fromkeys([normalize(text), plain]))


def _end_sentence(stop: re.Match[str]) -> str:
    before = stop.string[max(0, stop.start() - _MAX_ADDRESS_CHARS) : stop.start()]
    return ". " if _ADDRESS.search(before) else "."


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
    # normalized, a strange name would be a known one: decision 156
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


def spell_value(value: str) -> list[str]:
    """Return how a text may spell a value: a channel without its sign, numbers, titles, versions.

    A letter outside ASCII in an address is also found as ``%c3%bc``, or the other way round.
    """
    if value[:1] in _SIGNS and _HANDLE.fullmatch(value[1:]) and not is_short(value[1:]):
        return [value, value[1:]]
    if ". " in value:
        return list(dict.fromkeys([value, drop_title_dots(value)]))
    if value[0] in _VERSION_STARTS and (version := _VERSION.fullmatch(value)):
        return [value, version[2] if version[1] else f"v{value}"]
    if "/" in value and ("%" in value or not value.isascii()):
        return list(dict.fromkeys([value, _spell_letters(value)]))
    return _spell_number(value)


def spell_host(address: str) -> list[str]:
    """Return a web address with its host in other forms: without ``www``, and in ASCII or not."""
    host = _HOST.match(address)
    if host is None or "@" in host[0]:
        return []
    hosts, path = [host[0]], address[host.end() :]
    try:
        if "xn--" in host[0]:
            hosts.append(host[0].encode().decode("idna"))
        elif not host[0].isascii():
            hosts.append(host[0].encode("idna").decode())
    except UnicodeError:
        pass  # no host's name
    bare = [one.removeprefix("www.") for one in hosts]
    return [f"{one}{path}" for one in (*hosts[1:], *bare, *(f"www.{one}" for one in bare))]


def _spell_letters(value: str) -> str:
    """Return an address with letters outside ASCII in the other form."""
    if not value.isascii():
        return _OTHER_LETTERS.sub(lambda letters: quote(letters[0]).lower(), value)
    try:
        plain = _ENCODED.sub(lambda letters: unquote_to_bytes(letters[0]).decode(), value)
    except UnicodeDecodeError:
        return value
    return normalize(plain) if plain.isprintable() and is_plain(plain) else value


def _spell_number(value: str) -> list[str]:
    """Return spellings of a number: for ``1000.0`` also 1000, 1,000, 1,000.00 and 1.000,00."""
    if not value.isascii() or not _DECIMAL.fullmatch(value) or len(value) > _MAX_DECIMAL_CHARS:
        return [value]
    number = float(value)
    short = [f"{number:.0f}", f"{number:,.0f}"] if number == int(number) else []
    if value.isdigit():
        return list(dict.fromkeys([value, *short])) if value[0] != "0" else [value]
    long = f"{number:,.2f}"
    elsewhere = [long.translate(_SWAPPED).replace(".", mark) for mark in (".", "", " ", "'")]
    elsewhere.append(long.replace(",", "'"))
    return list(dict.fromkeys([value, *short, f"{number:.2f}", long, *elsewhere]))


def find_groups(
    value: str, schemes: frozenset[str] = GROUPED, *, is_local: bool = False
) -> re.Pattern[str] | None:
    """Return a pattern for a long code or a phone number that is written in groups.

    Returns None for anything else. ``GB29 NWBK 6016 1331 9268 19`` and ``+49 (30) 123-4567`` are
    such. More digits before or after it make another code. A number that is neither a phone's nor,
    by its schemes, an account's has no groups: two numbers beside each other are two. With
    ``is_local``, a phone number is also found as people in its country dial it.
    """
    if len(value) > _MAX_CODE_CHARS or "@" in value:
        return None
    code = _GAPS.sub("", value)
    is_code = _CODE.fullmatch(code) and sum(map(str.isdigit, code)) >= _LEAST_DIGITS
    if not is_code and not (_NUMBER.fullmatch(code) and _has_groups(code, schemes)):
        return None
    if is_local and code[0] == "+" and len(code) > _LEAST_ABROAD:
        return re.compile("|".join(map(_spell_groups, _list_local(code))))
    return re.compile(_spell_groups(code))


def _list_local(number: str) -> list[str]:
    """Return an international number, and what people in its country dial."""
    if number.startswith("+1"):
        return [number, number[2:]]
    return [number, *(f"0{number[1 + count :]}" for count in range(1, _MOST_COUNTRY_DIGITS + 1))]


def _spell_groups(code: str) -> str:
    letters = [re.escape(letter) for letter in code]
    if code.startswith(("+", "00")):  # both begin an international number
        letters[: 1 if code[0] == "+" else 2] = [r"(?:\+|00)"]
    before = r"(?<!\d[ .\-/])" if code[0].isdigit() else ""
    before = rf"(?<!{_WORD})(?<![+@/.\-]){before}"
    after = r"(?![.\-/ ](?=[a-z]*\d))" if code[-1].isdigit() else ""
    spelled = _GAP.join(letters)
    return rf"{before}{spelled}(?!{_WORD}|@){after}(?![.\-/]\w|,\d{{1,3}}(?!\d))"


def join_groups(value: str, schemes: frozenset[str]) -> str:
    """Return a long code or a phone number without groups, and anything else unchanged."""
    return value if find_groups(value, schemes) is None else _GAPS.sub("", value)


def _has_groups(number: str, schemes: frozenset[str]) -> bool:
    return number[0] in "+0" or not schemes.isdisjoint(GROUPED)
