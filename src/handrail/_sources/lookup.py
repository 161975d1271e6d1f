"""Lookup: who named one value, by what a run has heard."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from handrail._labels.sources import SOURCE_KINDS, ValueSource
from handrail._sources.heard import Heard, ReadText
from handrail._sources.names import list_stems
from handrail._sources.naming import (
    Word,
    find_one_name,
    has_name,
    has_phrase,
    is_one_name,
    spell_own,
)
from handrail._sources.numbers import find_number, is_numbered
from handrail._sources.rows import OwnEntry
from handrail._sources.spelling import (
    find_groups,
    is_plain,
    is_short,
    normalize_value,
    spell_host,
    spell_value,
)
from handrail._sources.words import find_whole

_HOSTS = frozenset(("net", "host"))
"""Schemes for hosts."""
_MAIL = re.compile(r"(?<![^\s<>,;\"])[^\s<>,;\"@]++@[^\s<>,;\"]++")
_BESIDE_MAIL = re.compile(r"[<,;]")
_NAMED_MAIL = rf"(?:[^<>@,;]*+<{_MAIL.pattern}>|{_MAIL.pattern})"
_MAILS = re.compile(rf"{_NAMED_MAIL}(?:[,;]\s*+{_NAMED_MAIL})*+")
"""Addresses, perhaps with names, as in ``Anna <anna@example.com>, bo@example.com``."""
_PAGES = frozenset(("url", "link", "page", "website", "net address"))
_FILES = frozenset(("file", "filename", "path", "document", "attachment"))
_CATALOGUES = frozenset(("hotel", "restaurant", "company", "booking"))
"""Schemes for things with cities and everyday words in their names: one word is not enough."""
_FILE_WORDS = (
    "file|datei|fichier|archivo|fichero|ficheiro|arquivo|document|documento|dokument|plik|dosya"
    "|файл|документ|फ़ाइल|ملف"
)
_STEM = re.compile(r"(.{4,})\.[a-z][a-z0-9]{1,4}")
_CODE_PARTS, _CODE_PART = re.compile(r"[a-z]{1,8}(?:[\-_/. ]?\d++)++"), re.compile(r"[a-z]+|\d+")
_LEAST_DIGITS = 4
_PARTS = re.compile(r"[\s/?&=:@,;#]+")
_ADDRESS_SIGN = re.compile(r"[@/.:]")
_IS_ADDRESS, _CODE = re.compile(r"[/?=]"), re.compile(r"\d{4}")
_WORD = re.compile(r"[^\s?#]*+(?:[\s?#]+|$)")
_HOST = re.compile(r"(?<![\w@.\-])[\w\-]++(?:\.[\w\-]++)++/")
_PATH_ENDS = "/?#,;)>\"'"
_MIN_PART_CHARS = 4
_MAX_PARTS, _MAX_VALUE_CHARS = 20, 2_000
"""How much of a value from nowhere is looked up in parts."""
YOURS = "your words"


class Wanted(NamedTuple):
    """A value to look up."""

    value: str
    name: str
    """The resource's scheme, or the argument's name."""
    schemes: frozenset[str] = frozenset()
    """Its schemes and other words for it."""
    verb: str = ""
    is_link: bool = False
    is_extra: bool = False
    """Whether the call has too many links to look this one up alone."""


def find_source(heard: Heard, wanted: Wanted) -> ValueSource:
    """Return who named a value: the best source among its spellings.

    Mail addresses in one value are looked up one by one: the worst source counts.
    """
    found = _find_source(heard, wanted)
    value = wanted.value
    if found.kind == "person" or not _BESIDE_MAIL.search(value) or not _MAILS.fullmatch(value):
        return found
    each = [_find_source(heard, wanted._replace(value=one)) for one in _MAIL.findall(value)]
    return replace(max(each, key=lambda one: SOURCE_KINDS.index(one.kind)), value=value)


def _find_source(heard: Heard, wanted: Wanted) -> ValueSource:
    if not is_plain(wanted.value):
        return _make(wanted, "person" if _is_repeated(heard, wanted.value) else "nowhere")
    value = normalize_value(wanted.value)
    if not value:
        return _make(wanted, "nowhere")
    spellings = spell_value(value)
    if wanted.is_link or not wanted.schemes.isdisjoint(_PAGES):
        spellings = list(dict.fromkeys([*spellings, *spell_host(value)]))
    return (
        _find_person(heard, wanted, spellings)
        or _find_own(heard, wanted, spellings)
        or _find_read(heard, wanted, spellings)
        or _describe_made_up(heard, wanted, value)
    )


def _is_repeated(heard: Heard, value: str) -> bool:
    """Return whether a person wrote an unusual value, character for character."""
    texts = (text for one in heard.around for text in one.unchanged)
    return not is_short(value) and any(find_whole(value, text) >= 0 for text in texts)


def _make(wanted: Wanted, kind: str, **more: str) -> ValueSource:
    about = {"value": wanted.value, "name": wanted.name, "kind": kind, "verb": wanted.verb}
    return ValueSource(**about, **more, is_link=wanted.is_link)  # type: ignore[arg-type]  # a kind


def _find_person(heard: Heard, wanted: Wanted, spellings: list[str]) -> ValueSource | None:
    for one in heard.around:
        for text in one.said:
            for value in spellings:
                if is_said(value, text, wanted):
                    return _make(wanted, "person")
    if not _ADDRESS_SIGN.search(spellings[0]) and any(
        has_phrase(spellings[0], text) for one in heard.around for text in one.unchanged
    ):
        return _make(wanted, "person")
    return None


def is_said(value: str, text: str, wanted: Wanted) -> bool:
    """Return whether a person has named a value in a text. Both are in one spelling."""
    if is_short(value):
        return value.isdigit() and is_numbered(value, text, wanted.schemes)
    if find_whole(value, text) >= 0:
        return True
    if "@" in value and wanted.schemes.isdisjoint(_HOSTS):
        return False
    if (groups := find_groups(value, wanted.schemes, is_local=True)) is not None and groups.search(
        text
    ):
        return True
    if not wanted.schemes.isdisjoint(_FILES) and _is_without_ending(value, text):
        return True
    return _is_in_address(value, text, wanted) or _is_code(value, text)


def _is_without_ending(value: str, text: str) -> bool:
    """Return whether a text has a file's name without its ending. One word needs "file" before."""
    if any(find_whole(stem, text) >= 0 for stem in list_stems(value)):
        return True
    stem = _STEM.fullmatch(value)
    if stem is None or stem[1] not in text:
        return False
    alone = rf"\b(?:{_FILE_WORDS}) [\"'„“«]?{re.escape(stem[1])}(?!\w|[.\-]\w)"
    return re.search(alone, text) is not None


def _is_code(value: str, text: str) -> bool:
    """Return whether a text has a code with other marks between its parts, as in "inv 2027/42"."""
    if not _CODE_PARTS.fullmatch(value) or sum(map(str.isdigit, value)) < _LEAST_DIGITS:
        return False
    code = r"[ \-_/.#]?".join(_CODE_PART.findall(value))
    return re.search(rf"(?<![\w@/.\-+]){code}(?!\w|[@\-/.]\w| \d)", text) is not None


def _is_in_address(value: str, text: str, wanted: Wanted) -> bool:
    """Return whether a value is the host, or a whole part, in an address."""
    if value not in text:
        return False
    if wanted.schemes & _HOSTS:
        port = r"(?::\d+)?(?:/|(?<=\d)(?![\w:@\-]|\.\w))" if ":" not in value else "/"
        return re.search(rf"(?<![\w@.\-/]){re.escape(value)}{port}", text) is not None
    if "." in value.partition("/")[0] or value.isdigit():
        return False
    return _is_in_path(value, text)


def _is_in_path(value: str, text: str) -> bool:
    """Return whether a value is a whole part in the path of an address.

    The time is linear in the text.
    """
    words = _WORD.finditer(text)
    word, path = next(words), -1
    at = text.find(value)
    while at >= 0:
        while word.end() <= at:
            word, path = next(words), -1
        if path < 0:
            host = _HOST.search(text, word.start(), word.end())
            path = host.end() if host else len(text)
        end = text[at + len(value) : at + len(value) + 1]
        if at >= path and text[at - 1] == "/" and (not end or end.isspace() or end in _PATH_ENDS):
            return True
        at = text.find(value, at + 1)
    return False


def _find_own(heard: Heard, wanted: Wanted, spellings: list[str]) -> ValueSource | None:
    best: ValueSource | None = None
    known = [one for one in heard.around if one.own]
    names = spellings if known else []
    keys = [key for value in names for key in spell_own(value, wanted.schemes)]
    for one in known:
        for entry in (entry for key in dict.fromkeys(keys) for entry in one.own.get(key, ())):
            if entry.own.scheme and entry.own.scheme.casefold() not in wanted.schemes:
                continue
            best = _describe_own(heard, wanted, entry)
            if best.kind == "person":
                return best
    short = [] if best is not None else [value for value in spellings if is_short(value)]
    if short and any(_is_just_written(one, short) for one in heard.around):
        return _make(wanted, "own", place=YOURS)
    return best


def _is_just_written(heard: Heard, short: list[str]) -> bool:
    """Return whether a person has written a short value, perhaps about something else."""
    return any(find_whole(value, text) >= 0 for value in short for text in heard.said)


def _describe_own(heard: Heard, wanted: Wanted, entry: OwnEntry) -> ValueSource:
    named = (
        entry.is_new
        or _is_number_said(heard, wanted, entry)
        or any(_is_named(heard, wanted, name, entry) for name in entry.names)
    )
    about = {"call_id": entry.call_id, "tool": entry.tool, "place": entry.own.place}
    return _make(wanted, "person" if named else "own", **about, title=entry.title)


def _is_number_said(heard: Heard, wanted: Wanted, entry: OwnEntry) -> bool:
    """Return whether a person has named an own id by its number, as in "order 4471"."""
    number = find_number(normalize_value(entry.own.value))
    return bool(number) and any(
        is_numbered(number, text, wanted.schemes) for one in heard.around for text in one.said
    )


def _is_named(heard: Heard, wanted: Wanted, name: str, entry: OwnEntry) -> bool:
    """Return whether a person has named an own row by this name."""
    said = [text for one in heard.around for text in one.said]
    if not is_short(name) and any(find_whole(name, text) >= 0 for text in said):
        return True
    raw = [text for one in heard.around for text in one.unchanged]
    if any(has_name(name, text, is_party=entry.is_party) for text in raw):
        return True
    if not entry.is_party or not wanted.schemes.isdisjoint(_CATALOGUES):
        return False
    found = [word for text in raw for word in find_one_name(name, text)]
    return any(not _is_shared(heard, word, entry) for word in found)


def _is_shared(heard: Heard, word: Word, entry: OwnEntry) -> bool:
    """Return whether a word is also in someone else's name, or in a place's."""
    return any(
        is_one_name(word, value)
        for one in heard.around
        for value, others in one.own.items()
        for other in others
        if other.is_about_place or (other.is_party and not other.is_same_row(entry))
    )


def _find_read(heard: Heard, wanted: Wanted, spellings: list[str]) -> ValueSource | None:
    code = _find_code(spellings[0]) if len(spellings) == 1 and heard.reads else ""
    for one in heard.around:
        for value in spellings:
            if (found := _search(one, value, code)) is not None:
                place, words = found.quote(value)
                about = {"call_id": found.call_id, "tool": found.tool, "place": place}
                return _make(wanted, "read", **about, quote=words)
    return None


def _find_code(value: str) -> str:
    """Return a code in an address, which is worth naming if it was read."""
    parts = _list_parts(value) if find_groups(value) is None else []
    codes = [part for part in parts if _CODE.search(part)]
    return codes[0] if codes else ""


def _search(heard: Heard, value: str, code: str = "") -> ReadText | None:
    """Return the first result with a value. No result is searched twice.

    A text without a code in the value has no value either. So both are searched in one pass.
    """
    start, reads = heard.progress.get(value, 0), heard.reads
    groups = find_groups(value) if start < len(reads) else None
    code = code if start == heard.progress.get(code, 0) else ""
    needle, code_at = code or value, -1
    for index in range(start, len(reads)):
        text = reads[index].text
        has_needle = needle in text
        if code and has_needle and code_at < 0 and find_whole(code, text) >= 0:
            code_at = index
        found = has_needle and find_whole(value, text) >= 0
        if found or (groups is not None and groups.search(text)):
            heard.progress[value] = index
            return reads[index]
    heard.progress[value] = len(reads)
    if code:
        heard.progress[code] = code_at if code_at >= 0 else len(reads)
    return None


@lru_cache(16)  # the last value, which is asked for twice
def _list_parts(value: str) -> list[str]:
    """Return the parts in a value from nowhere that may have been read: first the numbers."""
    is_mail = not _IS_ADDRESS.search(value)  # a mail host says little
    if is_mail and not _CODE.search(value):
        return []
    several = _PARTS.split(value[:_MAX_VALUE_CHARS], _MAX_PARTS)[:_MAX_PARTS]
    parts = [part for part in several if _MIN_PART_CHARS <= len(part) < len(value)]
    if is_mail:
        parts = [part for part in parts if _CODE.search(part)]
    return sorted(parts, key=lambda part: not part.isdigit()) if len(parts) > 1 else parts


def _describe_made_up(heard: Heard, wanted: Wanted, value: str) -> ValueSource:
    """Describe a value from nowhere, with the first part that was read."""
    for part in _list_parts(value):
        if any(find_whole(part, text) >= 0 for one in heard.around for text in one.said):
            continue
        for one in heard.around:
            if (found := _search(one, part)) is not None:
                place, words = found.quote(part)
                about = {"call_id": found.call_id, "tool": found.tool, "place": place}
                return _make(wanted, "nowhere", **about, quote=words, part=part)
    return _make(wanted, "nowhere")
