"""Naming: how people name a person, a firm or a thing that your own systems list."""

# ruff: noqa: RUF001  letters of other languages

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from handrail._sources.names import type_marks
from handrail._sources.spelling import join_groups, normalize

_COMMAS, _SENTENCE_ENDS = frozenset(",;،、؛"), frozenset(".!?:؟।…")
_BREAK = re.compile(r"[\s,;،、؛]+")
_EDGES = "\"'.:!?,;،、؛()[]{}<>«»„“”‘’‚*_`…؟।"
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
    "gmbh ag kg ug ohg se sarl sas sa sl srl spa bv nv ab oy as inc llc ltd limited co corp plc pty".split()
)
"""What a firm's name ends with, and people leave out."""
_AND = frozenset("& + und and et y e i ve og och en и و".split())
_MOST_ELIDED, _ADDRESS_SIGN = 2, re.compile(r"[@/.]")
_EVERYDAY = frozenset(
    "may april june august mai juni juli mark will bill grant sue chase art rich".split()
)
"""Names that are everyday words, too: alone, they name no one."""
_SLAVIC = re.compile("[ąęłńśźżćěřůčšžťďňľĺŕőűА-яёіїєґ]", re.IGNORECASE)
"""Letters of languages in which names have endings."""
_ENDINGS = frozenset(
    "a u y i e o owi em iem ie om ow ami ach ego emu ym im ej iej mu m ou "
    "а я у ю е и і ы о ои еи ою ею ом ем єм ові еві ого его ому ему ым им ую оі".split()
)
"""These endings, without accents."""
_VOWELS = frozenset("aeiouyаяеоиіьы")
_ALWAYS = frozenset("lle lta lla ssa sta".split())
"""Finnish endings: no other name has them."""
_GREEK = frozenset(("", "σ", "υ", "ν"))
_BEFORE = frozenset("و ف ب ل ك ال وال بال فال كال لل ول وب ו ה ב ל מ ש כ וה ול וב שה".split())
"""Arabic and Hebrew words written together with the next one."""
_MAX_CHARS, _MAX_WORDS, _LEAST_LETTERS, _LEAST_STEM = 200, 8, 4, 3
_SLACK = 2
"""Words between those of a name, as in "the District Court in Leeds"."""


class Word(NamedTuple):
    """A word in a person's text."""

    forms: frozenset[str]
    """Its spellings without accents, also without what an apostrophe separates."""
    whole: frozenset[str]
    """Those of the whole word."""
    is_name: bool
    """Whether it can be a name, by its first letter."""
    is_capital: bool
    is_first: bool
    is_last: bool
    """Whether a sentence begins here, and whether a mark follows."""
    has_endings: bool
    is_owner: bool = False
    """Whether a noun follows, as in "Annas Auto"."""


@lru_cache(16)  # the last prompts
def list_words(text: str) -> tuple[Word, ...]:
    """Return the words of a text that a person wrote."""
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
            is_name = is_lower or capital or raw[0].lower() == raw[0].upper()
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
        parts.append(before if len(before) > _MOST_ELIDED else after)
    if long := _LENGTHENED.fullmatch(plain):
        parts.append(long[1] + ("a" if long[2] == "á" else "e"))
    return [part for part in parts if part]


@lru_cache(4_096)  # the words of own names
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
    while len(kept) > 1 and kept[-1].replace(".", "") in _FIRMS:
        kept.pop()
    return tuple(kept) if len(kept) <= _MAX_WORDS else ()


def is_phrase(value: str) -> bool:
    """Return whether a value may be a name of several words: no address, number or date."""
    words = value.split()
    return sum(len(word) > 1 and word.isalpha() for word in words) > 1 and "@" not in value


def spell_own(value: str, schemes: frozenset[str]) -> list[str]:
    """Return how an own value is found: also without groups, or without accents."""
    others = [] if _ADDRESS_SIGN.search(value) else _list_forms(value)
    return list(dict.fromkeys([value, join_groups(value, schemes), *others]))


def has_name(name: str, text: str) -> bool:
    """Return whether a text has all words of a name close together, perhaps with endings."""
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
        if places == sorted(places, key=lambda at: at or 0) or all(one.is_name for one in near):
            return len(tokens) > 1 or word.is_name
    return False


def _find(words: Sequence[Word], token: str) -> int | None:
    return next((at for at, word in enumerate(words) if _is(word, token)), None)


def has_phrase(value: str, text: str) -> bool:
    """Return whether a text has a value's words one after the other, apart from accents."""
    if sum(map(str.isalpha, value)) < _LEAST_LETTERS:
        return False
    wanted = [word.strip(_EDGES) for word in _BREAK.split(type_marks(value))]
    given = [_list_forms(word) for word in wanted if word and word not in _AND]
    words = [word for word in list_words(text) if word.forms.isdisjoint(_AND)]
    return bool(given) and any(
        all(
            not word.forms.isdisjoint(forms) for word, forms in zip(words[at:], given, strict=False)
        )
        for at in range(len(words) - len(given) + 1)
    )


def find_one_name(name: str, text: str) -> list[Word]:
    """Return the words in a text that are one word of a person's or a firm's name."""
    tokens = [one for one in list_tokens(name) if one[0].isalpha() and one not in _EVERYDAY]
    words = list_words(text)
    return [
        word
        for at, word in enumerate(words)
        if word.is_name
        and any(len(token) > 1 and _is(word, token) for token in tokens)
        and not _is_of_another(words, at, tokens)
    ]


def is_one_name(word: Word, name: str) -> bool:
    """Return whether a word is one of a name's, too."""
    return any(_is(word, token) for token in list_tokens(name))


def _is_of_another(words: Sequence[Word], at: int, tokens: Iterable[str]) -> bool:
    """Return whether a word is in a longer name of someone else, such as Anna in "Anna Berg"."""
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
    """Return whether a word is one of a name's, perhaps with an ending."""
    forms = _list_forms(token)
    if not word.forms.isdisjoint(forms):
        return True
    return len(token) >= _LEAST_STEM and any(
        _has_ending(word, form, said) for form in forms for said in word.forms
    )


def _has_ending(word: Word, form: str, said: str) -> bool:
    if said.startswith(form):
        end = said[len(form) :]
        if end == "s":
            return word.is_owner or not word.is_capital
        if end in _ALWAYS or (word.has_endings and end in _ENDINGS):
            return True
    if said.endswith(form) and said[: -len(form)] in _BEFORE:
        return True
    if form[-1] == "σ":
        return said.startswith(form[:-1]) and said[len(form) - 1 :] in _GREEK
    if not word.has_endings:
        return False
    if form[-1] in _VOWELS and said.startswith(form[:-1]) and said[len(form) - 1 :] in _ENDINGS:
        return True
    stem = form[:-2] + form[-1]  # Tomek, Tomka
    return form[-2] in "eе" and said.startswith(stem) and said[len(stem) :] in _ENDINGS
