"""Links in texts: as one expression finds them, but in time proportional to the text."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from handrail._sources.wanted import find_links

PLAIN = re.compile(
    r"(?:https?://)?[\w.+-]*@?(?:[\w-]+\.)+[a-z]{2,}(?:/[^\s'\"<>)\]]*)?|\b[A-Z]{2}\d{10,32}\b",
    re.IGNORECASE,
)
"""What is a link. Its time grows with the third power of a word's length."""
PIECES = st.sampled_from([*"ab.@-+/: 1é", "http://", "https://", "DE1234567890", "ab.com"])


@given(st.lists(PIECES, max_size=14).map("".join))
def test_links_are_those_of_the_expression(text: str) -> None:
    found = find_links(text)
    assume(all(map(PLAIN.fullmatch, found)))  # the check digits of an IBAN may be right by chance
    assert found == [match[0] for match in PLAIN.finditer(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Pay GB29NWBK60161331926819 now", ["GB29NWBK60161331926819"]),
        ("Pay GB29 NWBK 6016 1331 9268 19.", ["GB29 NWBK 6016 1331 9268 19"]),
        ("an AT61 1904 3002 3457 3201 noch heute", ["AT61 1904 3002 3457 3201"]),
        (
            "nl91abna0417164300, NL91 ABNA 0417 1643 00",
            ["nl91abna0417164300", "NL91 ABNA 0417 1643 00"],
        ),
        ("GB29NWBK60161331926818 has another digit", []),
        ("xGB29NWBK60161331926819 and GB29NWBK60161331926819x", []),
        ("commit ab12cdef34567890abcd", []),
    ],
)
def test_an_account_number_with_letters_or_in_groups_is_a_link(text: str, found: list[str]) -> None:
    assert find_links(text) == found


def steps(text: str) -> int:
    """How many calls of functions, here and in C, a search makes."""
    count = 0

    def note(_frame: object, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        find_links(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "word", ["x", "a.", "a@", "a.bc@", "-.", "a.bc/ ", "http://", "ab.cd@e", "ab12 "]
)
def test_a_text_of_any_length_is_searched_once(word: str) -> None:
    assert steps(word * 2000) <= 2.2 * steps(word * 1000)
    assert find_links(word * 50_000) is not None
