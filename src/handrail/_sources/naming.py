"""Naming: how people name a person, a firm or a thing that your own systems list."""

# ruff: noqa: RUF001  letters of other languages

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from handrail._sources.names import type_marks
from handrail._sources.spelling import is_wide, join_groups, normalize
from handrail._sources.words import find_whole

_COMMAS, _SENTENCE_ENDS = frozenset(",;،、؛"), frozenset(".!?:؟।…")
_BREAK = re.compile(r"[\s,;،、؛]+")
_EDGES = "@#\"'.:!?,;،、؛()[]{}<>«»„“”‘’‚*_`…؟।"
_QUOTES = "\"'»”“)"
_MARKS = re.compile("(?<![aou])\u0308|[\u0300-\u0307\u0309-\u036f\u0591-\u05c7\u0640\u064b-\u0655]")
"""Accents, and vowel signs that people leave out. An umlaut has other spellings."""
_LETTERS = str.maketrans({"ı": "i", "ł": "l", "ø": "o", "đ": "d", "æ": "ae", "œ": "oe"})
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_PLAIN = str.maketrans("äöü", "aou")
_LENGTHENED = re.compile(r"(.+)([áé])(?:t|[nv][ae][kl]|h[oe]z|[tr][óő]l|b[ae]n|b[ae]|r[ae])")
"""A Hungarian ending: ``Annát`` for Anna."""
_TITLES = frozenset(
    "dr prof mr mrs ms miss mx mme mlle m madame monsieur frau herr herrn hr fr señor señora senor "
    "senora sr sra srta don dona dom senhor senhora signor signora sig pan pani pana panu pania "
    "panią bay bayan hanim bey usta meister".split()
)
_FIRMS = frozenset(
    "gmbh ag kg ug ohg sarl sas sa sl srl spa bv nv ab oy as inc llc ltd co corp plc pty".split()
)
"""What a firm's name ends with, and people leave out."""
_AND = frozenset("& + und and et y e i ve og och en и و".split())
_ADDRESS_SIGN = re.compile(r"[@/.]")
_ELIDED = frozenset("c d j l m n s t qu all dall dell nell sull un".split())
"""Words before an apostrophe, as in "l'hôtel"."""
_EVERYDAY = frozenset(
    "march may april june august mai juni juli mark will bill grant sue chase art rich".split()
)
"""Names that are everyday words, too: alone, they name no one."""
_SLAVIC = re.compile("[ąęłńśźżćěřůčšžťďňľĺŕőűА-яёіїєґ]", re.IGNORECASE)
"""Letters from languages in which names have endings."""
_ENDINGS = frozenset(
    "a u y i e o owi em iem ie om ow ami ach ego emu ym im ej iej mu m ou "
    "а я у ю е и і ы о ои еи ою ею ом ем єм ові еві ого его ому ему ым им ую оі".split()
)
"""These endings, without accents."""
_VOWELS = frozenset("aeiouyаяеоиіьы")
_ALWAYS = frozenset("s lle lta lla ssa sta".split())
"""The genitive, and Finnish endings: no other name has these."""
_GREEK = frozenset(("", "σ", "υ", "ν"))
_BEFORE = frozenset("و ف ب ل ك ال وال بال فال كال لل ول وب ו ה ב ל מ ש כ וה ול וב שה".split())
"""Arabic and Hebrew words written together with the next one."""
_MAX_CHARS, _MAX_WORDS, _LEAST_LETTERS, _LEAST_STEM = 200, 8, 4, 3
_MAX_TEXT_CHARS = 20_000
"""In a longer text, people have pasted something: there, a name must be exact."""
_SLACK = 2
"""Words inside a name, as in "the District Court in Leeds"."""


class Word(NamedTuple):
    """A word in a person's text."""

    forms: frozenset[str]
    """Its spellings without accents, also without what an apostrophe separates."""
    whole: frozenset[str]
    """The whole word's."""
    is_name: bool
    """Whether it can be a name, by its first letter."""
    is_capital: bool
    is_first: bool
    is_last: bool
    """Whether a sentence begins here, and whether a mark follows."""
    has_endings: bool
    is_owner: bool = False
    """Whether a noun follows, as in "Annas Auto"."""


_WIDE = Word(
    forms=frozenset(),
    whole=frozenset(),
    is_name=True,
    is_capital=False,
    is_first=False,
    is_last=False,
    has_endings=False,
)
"""A word in a script without spaces."""


@lru_cache(128)  # some runs' prompts
def list_words(text: str) -> tuple[Word, ...]:
    """Return the words in a text that a person wrote, or none if it is long."""
    if len(text) > _MAX_TEXT_CHARS:
        return ()
    text = type_marks(unicodedata.normalize("NFKC", text))
    is_lower, has_endings = text == text.lower(), _SLAVIC.search(text) is not None
    found: list[Word] = []
    is_first = True
    for chunk in _BREAK.sub(lambda gap: f"{gap[0].strip()} ", text).split():
        raw, end = chunk.strip(_EDGES), chunk.rstrip(_QUOTES)[-1:]
        if raw:
            plain = raw.casefold()
            forms = frozenset(form for part in _list_parts(plain) for form in _list_forms(part))
            capital = raw[0].isupper() and not is_lower
            is_name = is_lower or capital or raw[0].lower() == raw[0].upper() or chunk[0] == "@"
            whole = frozenset(_list_forms(plain))
            last = end in _SENTENCE_ENDS or end in _COMMAS
            found.append(Word(forms, whole, is_name, capital, is_first, last, has_endings))
        is_first = end in _SENTENCE_ENDS
    later = [one.is_capital for one in found[1:]]
    return tuple(
        word._replace(is_owner=capital and not word.is_last)
        for word, capital in zip(found, [*later, False], strict=True)
    )


def _list_parts(plain: str) -> list[str]:
    """Return a word, also without what an apostrophe separates, and without a Hungarian ending."""
    before, mark, after = plain.partition("'")
    parts = [plain]
    if mark:
        parts.append(after if before in _ELIDED else before)
    if long := _LENGTHENED.fullmatch(plain):
        parts.append(long[1] + ("a" if long[2] == "á" else "e"))
    return [part for part in parts if part]


@lru_cache(4_096)  # the words in own names
def _list_forms(word: str) -> tuple[str, ...]:
    """Return a word without accents. A letter with an umlaut is one letter, or two."""
    plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFD", word)))
    plain = plain.translate(_LETTERS)
    return tuple({plain.translate(_UMLAUTS), plain.translate(_PLAIN)})


@lru_cache(4_096)
def list_tokens(name: str) -> tuple[str, ...]:
    """Return a name's words that say who or what it is."""
    if len(name) > _MAX_CHARS:
        return ()
    words = [word.strip(_EDGES) for word in _BREAK.split(type_marks(normalize(name)))]
    kept = [word for word in words if word and word not in _AND and word not in _TITLES]
    kept = [word for word in kept if len(word) > 1 or not word.isascii()] or kept
    while len(kept) > 1 and kept[-1].replace(".", "") in _FIRMS:
        kept.pop()
    return tuple(kept) if len(kept) <= _MAX_WORDS else ()


def is_phrase(value: str) -> bool:
    """Return whether a value may be a name with several words: no address, number or date."""
    words = value.split()
    is_name = value[:1].upper() == value[:1] and "@" not in value
    return is_name and sum(len(word) > 1 and word.isalpha() for word in words) > 1


def spell_own(value: str, schemes: frozenset[str]) -> list[str]:
    """Return how an own value is found: also without groups, or without accents."""
    others = [] if _ADDRESS_SIGN.search(value) else _list_forms(value)
    return list(dict.fromkeys([value, join_groups(value, schemes), *others]))


def has_name(name: str, text: str, *, is_party: bool) -> bool:
    """Return whether a text has all of a name's words close together, perhaps with endings.

    A person's or a firm's may be in another order.
    """
    tokens = list_tokens(name)
    if not tokens or (len(tokens) == 1 and len(tokens[0]) < _LEAST_LETTERS):
        return False
    words = list_words(text)
    span = len(tokens) + (_SLACK if len(tokens) > 1 else 0)
    for start, word in enumerate(words):
        if not any(_is(word, token) for token in tokens):
            continue
        places = [_find(words[start : start + span], token) for token in tokens]
        if None in places:
            continue
        near = [words[start + at] for at in places if at is not None]
        is_swapped = places != sorted(places, key=lambda at: at or 0)
        if not is_swapped or (is_party and all(one.is_name for one in near)):
            return len(tokens) > 1 or word.is_name
    return False


def _find(words: Sequence[Word], token: str) -> int | None:
    return next((at for at, word in enumerate(words) if _is(word, token)), None)


def has_phrase(value: str, text: str) -> bool:
    """Return whether a text has a value's words one after the other, apart from accents.

    Commas may be missing in the text, and "and" may be another word for it.
    """
    wanted = [word.strip(_EDGES) for word in _BREAK.split(value)]
    has_and, has_comma = not _AND.isdisjoint(wanted), "," in value
    if sum(map(str.isalpha, value)) < _LEAST_LETTERS:
        return False
    if value.isascii() and text.isascii() and not has_and and not has_comma:
        return False  # it would have been found
    given = [_list_forms(word) for word in wanted if word and word not in _AND]
    words = list_words(text)
    if has_and:
        words = tuple([word for word in words if word.forms.isdisjoint(_AND)])
    count = len(given)
    return count > 0 and any(
        (has_comma or not any(word.is_last for word in words[at : at + count - 1]))
        and all(
            not word.forms.isdisjoint(forms)
            for word, forms in zip(words[at : at + count], given, strict=True)
        )
        for at in range(len(words) - count + 1)
    )


def find_one_name(name: str, text: str) -> list[Word]:
    """Return the words in a text that are one word in a person's or a firm's name."""
    tokens = [one for one in list_tokens(name) if one[0].isalpha() and one not in _EVERYDAY]
    words = list_words(text)
    wide = [one for one in tokens if is_wide(one[0])] if words else []
    joined = [one for one in wide if find_whole(one, normalize(text)) >= 0]
    return [_WIDE._replace(forms=frozenset((one,))) for one in joined if len(one) > 1] + [
        word
        for at, word in enumerate(words)
        if word.is_name
        and any(len(token) > 1 and _is(word, token) for token in tokens)
        and not _is_of_another(words, at, tokens)
    ]


def is_one_name(word: Word, name: str) -> bool:
    """Return whether a name has a word, too."""
    return any(_is(word, token) for token in list_tokens(name))


def _is_of_another(words: Sequence[Word], at: int, tokens: Iterable[str]) -> bool:
    """Return whether a word is in someone else's longer name, such as Anna in "Anna Berg"."""
    word, beside = words[at], list[Word]()
    if at and not words[at - 1].is_last and not words[at - 1].is_first:
        beside.append(words[at - 1])
    is_plain = any(not word.whole.isdisjoint(_list_forms(token)) for token in tokens)
    if is_plain and not word.is_last:
        beside += words[at + 1 : at + 2]
    return any(
        one.is_capital
        and one.forms.isdisjoint(_TITLES)
        and not any(_is(one, token) for token in tokens)
        for one in beside
    )


def _is(word: Word, token: str) -> bool:
    """Return whether a word is a name's, perhaps with an ending."""
    forms = _list_forms(token)
    if not word.forms.isdisjoint(forms):
        return True
    return len(token) >= _LEAST_STEM and any(
        _has_ending(word, form, said) for form in forms for said in word.forms
    )


def _has_ending(word: Word, form: str, said: str) -> bool:
    """Return whether a text's word is a name's with an ending, or with a word before it."""
    if said.startswith(form) and (end := said[len(form) :]) in _ALWAYS:
        return end != "s" or word.is_owner or not word.is_capital
    if said.endswith(form) and said[: -len(form)] in _BEFORE:
        return True
    if form[-1] == "σ":
        return said.startswith(form[:-1]) and said[len(form) - 1 :] in _GREEK
    if not word.has_endings:
        return False
    stems = {form, form[:-1] if form[-1] in _VOWELS else form}
    if form[-2] in "eе":  # Tomek, Tomka
        stems.add(form[:-2] + form[-1])
    return any(said.startswith(stem) and said[len(stem) :] in _ENDINGS for stem in stems)
