"""What is kept and shown of any output at all: properties of cleaning and of collecting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail.tools._shell.head_and_tail import HeadAndTail, drop_partial_character
from handrail.tools._shell.jobs import describe_exit
from handrail.tools._shell.terminal_text import clean_output, is_utf8
from tools.shell.stage import told


@pytest.fixture
def anyio_backend() -> str:
    """What is said does not depend on it."""
    return "asyncio"


UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\U000e0000-\U000e007f]"
)
NOISE = st.lists(
    st.sampled_from(
        [
            *(b"\x1b[", b"\x1b]", b"\x1b", b"\r", b"\b", b"\x1b[K", b"\x1b[2K", b"31m", b"\x07"),
            *(
                b"\x1b\\",
                b"\n",
                b"\r\n",
                b"word",
                b"\xff",
                "é漢\u202e\x9b".encode(),
                b"\x00",
                b"\t",
                b" ",
            ),
        ]
    )
).map(b"".join)


@given(st.binary() | NOISE)
def test_nothing_that_steers_a_terminal_is_left(raw: bytes) -> None:
    assert UNSEEN.search(clean_output(raw)) is None


@given(st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" \t\n")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert clean_output(text.encode()) == text


@given(NOISE)
def test_what_was_cleaned_is_clean(raw: bytes) -> None:
    once = clean_output(raw)

    assert clean_output(once.encode()) == once


@pytest.mark.parametrize(
    "raw",
    [
        b"a" * 200_000 + b"\r" * 200_000 + b"b\b" * 100_000,
        b"\x1b]" * 200_000,
        b"\x1b[" + b"1;" * 200_000,
        b"a\x1b[2K" * 100_000,
        b"\x1bP" * 200_000,
        b"a" * 300_000 + b"\x1b[K\r" * 50_000,
        *("\x9d\x90\x98\x9e\x9f".encode() * 50_000, "\x9d".encode() * 250_000),
    ],
    ids=lambda raw: repr(raw[-4:]),
)
def test_no_output_is_dear_to_clean(raw: bytes) -> None:
    """What grew with the square of these lengths would not end within the time of a test."""
    assert len(clean_output(raw)) <= 4 * len(raw)


INTRODUCERS = ["\x1b", "[", "]", "P", "X", "\\", "\x07", "\x90", "\x98", "\x9b", "\x9c", "\x9d"]
UNITS = st.text(st.sampled_from([*INTRODUCERS, "\x9e", "0", ";", " ", "(", "\r", "\b", "K", "2"]))


@given(UNITS, UNITS.filter(bool))
def test_nothing_that_repeats_is_dear_to_clean(before: str, unit: str) -> None:
    """The time of a test is the limit: with the square of this length, one alone takes a minute."""
    raw = (before + unit * (65_536 // len(unit))).encode()

    assert len(clean_output(raw)) <= 4 * len(raw)


PIECES = st.lists(st.text(st.sampled_from("aé漢\U0001f600\n"), max_size=30), max_size=30)


@given(PIECES, st.integers(1, 40), st.integers(1, 40))
def test_the_beginning_and_the_end_are_kept_and_no_character_is_cut(
    pieces: list[str], head: int, tail: int
) -> None:
    collected = HeadAndTail(head, tail)
    for piece in pieces:
        collected.write(piece.encode())
    everything = "".join(pieces)
    text = collected.text()

    assert collected.total == len(everything.encode())
    if not collected.missing:
        assert text == everything
        return
    before, gap, after = text.partition("\n[")
    _, _, end = after.partition("look at all of it.]\n")
    assert gap
    assert everything.startswith(before)
    assert everything.endswith(end)
    assert "\ufffd" not in text


@given(st.lists(st.binary(max_size=100)), st.integers(1, 50), st.integers(1, 50))
def test_no_more_is_kept_than_said(pieces: list[bytes], head: int, tail: int) -> None:
    collected = HeadAndTail(head, tail)
    for piece in pieces:
        collected.write(piece)

    assert collected.missing >= 0
    assert collected.total == sum(map(len, pieces))


@given(st.text(), st.integers(0, 3))
def test_a_cut_character_waits_for_its_rest(text: str, cut: int) -> None:
    raw = text.encode()
    part = raw[: len(raw) - cut]

    assert is_utf8(drop_partial_character(part))
    assert len(part) - len(drop_partial_character(part)) < 4


@given(st.binary())
def test_what_is_no_text_is_not_held_back(raw: bytes) -> None:
    assert len(raw) - len(drop_partial_character(raw)) < 4


SCREENS = {
    b"plain\n": snapshot("plain"),
    b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b(Bset\x1b7\n": snapshot(
        "red link set"
    ),
    b"10%\r20%\r100%\ndone\r\n": snapshot("""\
100%
done\
"""),
    b"long progress\r\x1b[Kshort\n": snapshot("short"),
    b"first\x1b[2Ksecond\n": snapshot("second"),
    b"abc\rX\n": snapshot("Xbc"),
    b"man\x08n\x08\x08\x08\x08o\n": snapshot("oan"),
    b"nul \x00 bell \x07 escape \x1b cut \x1b[\n": snapshot(
        "nul \\x00 bell \\x07 escape \\x1b cut \\x1b["
    ),
    "bidi \u202e zero \u200b tag \U000e0041 c1 \x9b31m bom \ufeff\n".encode(): snapshot(
        "bidi \\u{202e} zero \\u{200b} tag \\u{e0041} c1  bom \\u{feff}"
    ),
    b"\x1b]0;never ended\nshown\n": snapshot("""\
\\x1b]0;never ended
shown\
"""),
    b"not \xff utf-8\n": snapshot("""\
not � utf-8
[Bytes that are not UTF-8 show as �.]\
"""),
    "tab\tand ünïcödé 漢字 \U0001f600\n".encode(): snapshot("tab\tand ünïcödé 漢字 😀"),
    b"\x1bPdevice\x1b\\string\n": snapshot("string"),
    "a\x9done\x9dtwo\x9cb\x90c\x9dd\x07e\n".encode(): snapshot("a\\x9doneb\\x90ce"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("printed", SCREENS)
async def test_output_is_cleaned_for_a_model(tmp_path: Path, printed: bytes) -> None:
    (tmp_path / "printed").write_bytes(printed)

    text = await told(tmp_path, "cat printed")

    assert text.removesuffix("\n[exit code 0, N s]") == SCREENS[printed]


def test_how_a_command_ended_is_said_in_a_few_words() -> None:
    codes = (0, 1, 137, 200, -9, -100, None)

    assert [describe_exit(code) for code in codes] == snapshot(
        [
            "exit code 0",
            "exit code 1",
            "exit code 137 (SIGKILL)",
            "exit code 200",
            "killed by SIGKILL",
            "killed by signal 100",
            "stopped",
        ]
    )
