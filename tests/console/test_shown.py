"""Text from outside: every character is visible, and two texts never look the same."""

from __future__ import annotations

import time
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from approvals.display_vectors import is_raw
from handrail.approvals import make_printable
from handrail.console._shown import Clear, escaped, finish, one_line, pieces, shown

TEXTS = st.text(
    st.characters() | st.sampled_from("\\u{}[…] \n\t\u202e\u200b\x1b\u0430<>&\"'/A20C"), max_size=40
)


def joined(text: str) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in pieces(text))


@given(TEXTS, TEXTS)
def test_two_texts_never_look_the_same(one: str, other: str) -> None:
    assert (joined(one) == joined(other)) == (one == other)


@given(TEXTS)
def test_the_table_is_the_terminals_and_nothing_is_left_to_obey(text: str) -> None:
    most = max(len(text.encode("utf-8", "surrogatepass")), 1)
    looks = shown(text)

    assert looks == make_printable(text, most=most).text
    assert [one for one in looks if is_raw(one) and one != "\u00a0"] == []


def test_what_stands_for_a_character_is_marked() -> None:
    [line] = pieces("a\u202eb")
    [other] = pieces(r"a\u{202E}b")

    assert [(piece.text, piece.mark) for piece in line] == [
        ("a", ""),
        (r"\u{202E}", "hid"),
        ("b", ""),
    ]
    assert "".join(piece.text for piece in other) == r"a\u{5C}u{202E}b"


def test_many_characters_that_are_written_out_take_little_time() -> None:
    start = time.process_time()
    parts = one_line("a\u202e" * 10_000, None)

    assert [piece.mark for piece in parts] == ["", "hid"] * 10_000
    assert time.process_time() - start < 2  # comparing each with all takes 5


def test_parts_of_a_text_are_marked_only_where_the_page_has_the_same_places() -> None:
    marks = [(4, 10, "grave")]

    assert [
        [(piece.text, piece.mark) for piece in line] for line in pieces("ls;\nrm -rf x", marks)
    ] == [[("ls;", "")], [("rm -rf", "grave"), (" x", "")]]
    assert [piece.mark for line in pieces("l\x1b;\nrm -rf x", marks) for piece in line] == [
        "",
        "hid",
        "",
        "",
    ]


def test_a_line_of_a_list_ends_with_the_length_of_the_text() -> None:
    assert [(piece.text, piece.mark) for piece in one_line("ab\ncd", 3)] == [
        ("ab", ""),
        (r"\u{A}", "hid"),
        ("… (5 characters)", "cut"),
    ]


def test_a_template_prints_nothing_that_is_not_visible() -> None:
    class Html(str):
        __slots__ = ()

        def __html__(self) -> str:
            return self

    kept = [Clear("a\u00a0b"), 3, 1.5, Html("<b>")]

    assert [finish(one) is one for one in kept] == [True] * 4
    assert (finish("a\u00a0b"), finish(None)) == (r"a\u{A0}b", "None")
    assert [piece.mark for piece in escaped(r"a\u{430}")] == ["", "hid"]
    assert unicodedata.category("\u00a0") == "Zs"
