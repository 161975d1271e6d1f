"""English stems by the Snowball rules, also called Porter 2: `listing` and `lists` are `list`."""

from __future__ import annotations

import re
from collections.abc import Container

_VOWELS = frozenset("aeiouy")
_NOT_SHORT = frozenset("aeiouywxY")
_BEFORE_LI = frozenset("cdeghkmnrt")
_REGION = re.compile("[^aeiouy]*[aeiouy]+[^aeiouy]")
_SPECIAL_REGION = re.compile("arsen|commun|emerg|gener|inter|later|organ|past|univers")
_DOUBLES = frozenset("bb dd ff gg mm nn pp rr tt".split())
_WHOLE = {
    "skis": "ski",
    "skies": "sky",
    "idly": "idl",
    "gently": "gentl",
    "ugly": "ugli",
    "early": "earli",
    "only": "onli",
    "singly": "singl",
    **{word: word for word in "sky news howe atlas cosmos bias andes".split()},
}
"""Words whose stem follows no rule."""
_KEEP_ING = frozenset("evening canning inning earring herring outing".split())
_KEEP_EED = frozenset("succeed proceed exceed succeedly proceedly exceedly".split())
_ENDINGS_1B = ("eedly", "ingly", "edly", "eed", "ing", "ed")
_STEP_2 = {
    "anci": "ance",
    "enci": "ence",
    "bli": "ble",
    "abli": "able",
    "alli": "al",
    "fulli": "ful",
    "lessli": "less",
    "ousli": "ous",
    "entli": "ent",
    "aliti": "al",
    "biliti": "ble",
    "iviti": "ive",
    "tional": "tion",
    "ational": "ate",
    "alism": "al",
    "ation": "ate",
    "ization": "ize",
    "izer": "ize",
    "ator": "ate",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "ogist": "og",
    "ogi": "og",
    "li": "",
}
_STEP_3 = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "tional": "tion",
    "ational": "ate",
    "ful": "",
    "ness": "",
}
_STEP_4 = dict.fromkeys(
    "ic ance ence able ible ate ive ize iti al ism ion er ous ant ent ment ement".split(), ""
)
_TAILS_2, _TAILS_3, _TAILS_4 = (
    frozenset(ending[-2:] for ending in endings) for endings in (_STEP_2, _STEP_3, _STEP_4)
)
"""Each ending's last two letters. Most words have none, and are done."""
_TAILS = _TAILS_2 | _TAILS_3 | _TAILS_4 | {"ll"}
"""Those for all words a step may change, without those in e, s, d, g and y."""


def stem(word: str) -> str:
    """Return a lower-case word's stem."""
    if len(word) <= 2 or word.isdecimal():
        return word
    if word in _WHOLE:
        return _WHOLE[word]
    if word[-1] not in "degsy" and word[-2:] not in _TAILS:
        return word
    marked = _mark_consonant_y(word) if "y" in word else word
    first = _SPECIAL_REGION.match(marked) or _REGION.match(marked)
    one = first.end() if first else len(marked)
    second = _REGION.match(marked, one)
    two = second.end() if second else len(marked)
    marked = _step_1b(_step_1a(marked), one)
    if len(marked) > 2 and marked[-1] in "yY" and marked[-2] not in _VOWELS:
        marked = marked[:-1] + "i"
    marked = _step_2(marked, one)
    marked = _step_3(marked, one, two)
    marked = _step_4(marked, two)
    return _step_5(marked, one, two).replace("Y", "y")


def _mark_consonant_y(word: str) -> str:
    """Write each consonant y as Y: at the start, and after a vowel."""
    letters = list(word)
    for place, letter in enumerate(letters):
        if letter == "y" and (place == 0 or letters[place - 1] in _VOWELS):
            letters[place] = "Y"
    return "".join(letters)


def _ends_short(word: str) -> bool:
    """Whether the last syllable is short: `hop`, `at`, but not `how`."""
    if word.endswith("past"):
        return True
    if len(word) < 2 or word[-2] not in _VOWELS:
        return False
    if len(word) == 2:
        return word[-1] not in _VOWELS
    return word[-1] not in _NOT_SHORT and word[-3] not in _VOWELS


def _step_1a(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith("s") and not word.endswith(("ss", "us")):
        return word[:-1] if _VOWELS.intersection(word[:-2]) else word
    return word


def _step_1b(word: str, one: int) -> str:
    if word[-1] not in "dgy":
        return word
    ending = next((ending for ending in _ENDINGS_1B if word.endswith(ending)), "")
    if not ending:
        return word
    rest = word[: -len(ending)]
    if ending.startswith("eed"):
        return word if len(rest) < one or word in _KEEP_EED else f"{rest}ee"
    if ending == "ing":
        if len(rest) == 2 and rest[1] == "y" and rest[0] not in _VOWELS:
            return f"{rest[0]}ie"
        if word in _KEEP_ING:
            return word
    return _after_1b(rest, one) if _VOWELS.intersection(rest) else word


def _after_1b(rest: str, one: int) -> str:
    """Return the rest of a verb without its ending, as it was before the ending."""
    if rest.endswith(("at", "bl", "iz")):
        return f"{rest}e"
    if rest[-2:] in _DOUBLES:
        return rest if len(rest) == 3 and rest[0] in "aeo" else rest[:-1]
    return f"{rest}e" if len(rest) == one and _ends_short(rest) else rest


def _longest(word: str, endings: Container[str], most: int) -> str:
    for size in range(min(most, len(word)), 1, -1):
        if (ending := word[-size:]) in endings:
            return ending
    return ""


def _step_2(word: str, one: int) -> str:
    if word[-2:] not in _TAILS_2:
        return word
    ending = _longest(word, _STEP_2, 7)
    rest = word[: len(word) - len(ending)]
    if not ending or len(rest) < one:
        return word
    before = rest[-1:]
    if (ending == "ogi" and before != "l") or (ending == "li" and before not in _BEFORE_LI):
        return word
    return rest + _STEP_2[ending]


def _step_3(word: str, one: int, two: int) -> str:
    if word[-2:] not in _TAILS_3:
        return word
    ending = _longest(word, _STEP_3, 7)
    rest = word[: len(word) - len(ending)]
    if not ending or len(rest) < (two if ending == "ative" else one):
        return word
    return rest + _STEP_3[ending]


def _step_4(word: str, two: int) -> str:
    if word[-2:] not in _TAILS_4:
        return word
    ending = _longest(word, _STEP_4, 5)
    rest = word[: len(word) - len(ending)]
    if not ending or len(rest) < two or (ending == "ion" and not rest.endswith(("s", "t"))):
        return word
    return rest


def _step_5(word: str, one: int, two: int) -> str:
    rest = word[:-1]
    if word.endswith("e"):
        gone = len(rest) >= two or (len(rest) >= one and not _ends_short(rest))
        return rest if gone else word
    return rest if word.endswith("ll") and len(rest) >= two else word
