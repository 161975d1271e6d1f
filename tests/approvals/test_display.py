"""Text from outside on a screen: all of it is seen, none of it acts, no two look the same."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from approvals import display_vectors
from approvals.display_vectors import is_raw
from approvals.questions import asked
from handrail.approvals import Printable, make_printable, render_request

DATA = Path(__file__).parent.parent / "data" / "vectors-display.json"
VECTORS = display_vectors.load(DATA.read_text(encoding="utf-8"))
ANYTHING = st.characters(exclude_categories=())
RUNS = [" " * 9, "\t" * 9, "\n" * 10, "[… 9 spaces …]"]
PIECES = ["u{", "\\u{41}", "\\u{20}", "p\u0430y", *" \t\n\r\\[]…→}1x\u0301\u200b\ud83d\ude00\uff41"]
NASTY = st.sampled_from(RUNS + PIECES)
TEXTS = st.lists(NASTY | ANYTHING, max_size=30).map("".join)


def read_back(shown: str) -> str:
    """The text that was shown: that there is a way back means that no two look the same."""

    def original(found: re.Match[str]) -> str:
        code, count, what = found.groups()
        if code:
            return chr(int(code, 16))
        if what == "blank lines":
            return "\n" * (int(count) - 1)
        return {"spaces": " ", "tabs": "\t"}.get(what, "\t") * int(count or 1)

    return re.sub(r"\\u\{([0-9A-F]+)\}|\[… (\d+) (spaces|tabs|blank lines) …\]|→", original, shown)


def question_rows(text: str, *, width: int) -> list[str]:
    """A question on one line, as it is broken for a screen; without the margin of what goes on."""
    rows = [line.text for line in render_request(asked({}, question=text), width=width).lines]
    start = next(at for at, row in enumerate(rows) if row.startswith("question: "))
    rest = itertools.takewhile(lambda row: row.startswith("┊ "), rows[start + 1 :])
    return [rows[start], *(row.removeprefix("┊ ") for row in rest)]


@given(TEXTS)
def test_nothing_that_a_terminal_obeys_hides_or_moves_is_printed(text: str) -> None:
    shown = make_printable(text, most=100_000)

    assert not any(map(is_raw, shown.text))
    assert re.search(r" {9}|\n{10}", shown.text) is None
    shown.text.encode()  # no half character is left


@given(TEXTS)
@example("\\u{20}")
@example("\\" * 3 + "u{41}")
@example("[… 12 tabs …]")
@example("[" + "…" * 3)
@example(" " * 9 + "\n" * 12 + " ")
def test_no_two_texts_look_the_same(text: str) -> None:
    assert read_back(make_printable(text, most=100_000).text) == text
    assert read_back("".join(question_rows(text, width=80))) == f"question: {text}"


def test_the_check_for_raw_characters_can_fail() -> None:
    assert [is_raw(one) for one in "\x1b\u202e\ud800\u3164a文😀"] == [True] * 4 + [False] * 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("ls -l\n\tcat", "ls -l\n→cat"),
        ("x\x1b[2Ky", r"x\u{1B}[2Ky"),
        ("a\u0301\u0301\u0301\u0301", "a\u0301\u0301\u0301\\u{301}"),
        ("\u0301a", "\\u{301}a"),
        ("a \u0301", "a \\u{301}"),
        ("end \n end ", "end\\u{20}\n end\\u{20}"),
        ("a→b", r"a\u{2192}b"),
        (r"\u{41}", r"\u{5C}u{41}"),
        ("[… 9 tabs …]", r"[\u{2026} 9 tabs …]"),
        ("naïve Straße привет 日本語のテスト file文件 한국어漢字", "naïve Straße привет 日本語のテスト file文件 한국어漢字"),
        ("😀 … 你好", "😀 … 你好"),
        ("я иду \u0441 тобой; οδός", "я иду \u0441 тобой; οδός"),
        ("\uff08你好\uff09\uff1b再见\uff0cpages 3\u20135 \u2013 a\u2019s", "\uff08你好\uff09\uff1b再见\uff0cpages 3\u20135 \u2013 a\u2019s"),
        ("שלום עולם, 文", "שלום עולם, 文"),
    ],
)  # fmt: skip
def test_what_can_be_read_stays_as_it_is(text: str, shown: str) -> None:
    assert make_printable(text).text == shown


@pytest.mark.parametrize(
    ("text", "mixed"),
    [
        ("p\u0430ypal", (r"p\u{430}ypal",)),
        ("p\u0301\u0430\u0430", ("p\\u{301}\\u{430}\\u{430}",)),
        ("\u03c1aypal and \u03c1aypal", (r"\u{3C1}aypal",)),
        ("\U0001d42b\U0001d426 \uff52\uff4d", (r"\u{1D42B}\u{1D426}", r"\u{FF52}\u{FF4D}")),
        ("привет мир", ()),
        ("./\u0441\u043e\u0440\u0443 a b", (r"\u{441}\u{43E}\u{440}\u{443}",)),
        ("rm \u0430 привет", ()),
        ("rm \u0430 b", (r"\u{430}",)),
        ("rm \u0430 \u043e", (r"\u{430}", r"\u{43E}")),
        ("a\u2215b \u2024ssh ls\uff1brm", (r"\u{2215}", r"\u{2024}", r"\u{FF1B}")),
        ("\uff1bls", (r"\u{FF1B}",)),
        ("rm \u2010rf \u2013r \u2013-all", (r"\u{2010}", r"\u{2013}")),
        ("mv א ב", (r"\u{5D0}", r"\u{5D1}")),
        ("Hawai\u02bbi", ()),
        ("file文件", ()),
    ],
)
def test_a_word_of_several_scripts_is_named(text: str, mixed: tuple[str, ...]) -> None:
    assert make_printable(text).mixed == mixed


def test_a_text_is_measured() -> None:
    assert make_printable("a\u200b\nb\u202e") == Printable(
        text="a\\u{200B}\nb\\u{202E}", length=5, lines=2, hidden=2, mixed=(), too_long=False
    )


@pytest.mark.parametrize(("text", "too_long"), [("ü" * 5_120, False), ("ü" * 5_121, True)])
def test_a_text_is_too_long_from_ten_kibibytes_on(text: str, *, too_long: bool) -> None:
    assert make_printable(text).too_long is too_long


def test_of_a_text_that_is_too_long_only_the_start_is_worked_on() -> None:
    shown = make_printable("a" * 1_000_000, most=10)

    assert (shown.text, shown.length, shown.too_long) == ("a" * 10, 1_000_000, True)


@given(TEXTS, st.integers(10, 60))
def test_a_terminal_has_nothing_left_to_break(text: str, width: int) -> None:
    [line] = question_rows(text, width=100_000)
    first, *rest = question_rows(text, width=width)

    assert first + "".join(rest) == line
    assert max(len(first), *(len(row) + 2 for row in rest), 0) <= width or not line.isascii()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda one: f"{one['id']} {one['title']}")
def test_a_hostile_text_is_held(vector: dict[str, Any]) -> None:
    assert display_vectors.holds(vector)


def test_raw_printing_is_caught() -> None:
    assert (len(VECTORS), display_vectors.control_caught(VECTORS)) == (38, 34)


def test_a_mask_and_a_renderer_are_caught() -> None:
    held = {
        show.__name__: [one["id"] for one in VECTORS if not display_vectors.holds(one, show)]
        for show in (display_vectors.as_masked, display_vectors.as_rendered)
    }

    assert held == {"as_masked": ["display-038"], "as_rendered": ["display-035"]}


def test_no_character_is_printed_raw() -> None:
    """Of the planes that have more than ideographs, or nothing, in them."""
    everything = "".join(map(chr, [*range(0x2_0000), *range(0xE_0000, 0xE_0200), 0x10_FFFF]))
    shown = make_printable(everything, most=10_000_000).text

    assert [hex(ord(one)) for one in set(shown) if is_raw(one)] == []
    assert read_back(shown) == everything


@pytest.mark.parametrize(
    "text",
    [
        "Done ✔️ and ⚠️ careful ❤️",
        "👩‍💻 🏳️‍🌈 🤷🏽‍♀️ 1️⃣ ↔️ 🇩🇪",
        "می‌خواهم رفته‌اند",
        "क्‍ष हिन्दी র‍্য",
        "ภาษาไทย น้ำ ก็ได้",
    ],
)
def test_emoji_and_words_with_joiners_are_prose(text: str) -> None:
    shown = make_printable(text, prose=True)

    assert (shown.text, shown.hidden) == (text, 0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("pass\u200dword", r"pass\u{200D}word"),
        ("a\ufe0f", r"a\u{FE0F}"),
        ("1\ufe0f", r"1\u{FE0F}"),
        ("\u200d⚠", "\\u{200D}⚠"),
        ("می\u200c", "می\\u{200C}"),
        ("می\u200c\u200cمی", "می\\u{200C}\\u{200C}می"),
        ("rm \u202egnp.x", r"rm \u{202E}gnp.x"),
        ("🏴\U000e0067\U000e007f", r"🏴\u{E0067}\u{E007F}"),
        ("p\u0430ypal ⚠\ufe0f", "p\\u{430}ypal ⚠\ufe0f"),
    ],
)
def test_what_hides_or_deceives_is_spelled_out_in_prose_too(text: str, shown: str) -> None:
    assert make_printable(text, prose=True).text == shown


def test_names_and_commands_are_not_prose() -> None:
    shown = make_printable("⚠️ می‌خواهم")

    assert (shown.text, shown.hidden) == ("⚠\\u{FE0F} می\\u{200C}خواهم", 2)


@given(TEXTS)
def test_no_two_texts_look_the_same_in_prose(text: str) -> None:
    assert read_back(make_printable(text, most=100_000, prose=True).text) == text
