"""Edits on any bytes: what is outside of the place stays, byte by byte, and nothing ever raises."""

# ruff: noqa: RUF001  characters that look alike are what some of this is about

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from handrail.tools._edit.apply import EditedContent, NoMatch, TextEdit, apply_edits
from handrail.tools._files.encoding import decode_text, media

TARGET = "    target = old_value + 1"
WORDS = {
    "utf-8": "plain naïve 你好 “x” — a\u0301",
    "utf-16-le": "plain naïve 你好 “x” — a\u0301",
    "latin-1": "plain naïve Größe",
    "gbk": "plain 你好 世界 表示",
    "shift-jis": "plain テスト 表示 ソース",
}
ends = st.sampled_from(["\n", "\r\n"])
encodings = st.sampled_from(sorted(WORDS))


@st.composite
def surroundings(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """Some text before and after a place, an encoding, and a line end for the place."""
    encoding = draw(encodings)
    words = st.sampled_from(WORDS[encoding].split())
    lines = st.lists(st.tuples(st.lists(words).map(" ".join), ends).map("".join), max_size=6)
    before, after = ("".join(draw(lines)) for _ in range(2))
    return before, after, encoding, draw(ends)


@given(
    surroundings(),
    st.sampled_from(["", "\ufeff"]),
    st.tuples(
        st.sampled_from(["    ", "\t", "", "  ", "        "]),
        st.sampled_from(["", " ", "\t "]),
        st.sampled_from(["", "\n", "\r\n"]),
    ),
)
@example(("", "", "utf-8", "\r\n"), "\ufeff", ("\t", " ", "\n"))
def test_a_line_is_changed_and_all_around_it_stays(
    around: tuple[str, str, str, str], mark: str, blanks: tuple[str, str, str]
) -> None:
    before, after, encoding, newline = around
    indent, trail, end = blanks
    mark = mark if encoding.startswith("utf") else ""
    head, tail = (mark + before).encode(encoding), after.encode(encoding)
    line = (TARGET + newline).encode(encoding)
    old = indent + TARGET.strip() + trail + end
    new = indent + "target = new_value" + end

    outcome = apply_edits(head + line + tail, [TextEdit(old, new)])

    assert isinstance(outcome, EditedContent)
    middle = outcome.data.removeprefix(head)[: len(outcome.data) - len(head) - len(tail)]
    assert outcome.data == head + middle + tail
    assert middle.decode(encoding).strip() == "target = new_value"
    assert middle.decode(encoding).endswith(newline)


@given(st.binary(max_size=80), st.binary(max_size=80), st.booleans())
def test_any_bytes_around_a_place_survive(head: bytes, tail: bytes, tolerant: bool) -> None:  # noqa: FBT001
    head, tail = head + b"\n", b"\n" + tail
    data = head + TARGET.encode() + tail
    assume(media(data) == "text" and b"target" not in head + tail)
    assume(decode_text(data).encoding in ("utf-8", "ascii", "latin-1", "cp1252"))
    old = TARGET.replace("    ", "\t") if tolerant else TARGET

    outcome = apply_edits(data, [TextEdit(old, old.replace("old", "new"))])

    assert isinstance(outcome, EditedContent)
    assert outcome.data == head + TARGET.replace("old", "new").encode() + tail


text = st.text(alphabet="ab \t\n\r\"'“’\u00a0é\u200b\\x81", max_size=40)
lined = st.lists(
    st.sampled_from(["if a:", "    b = 1", "\tb = 1", "  c(2)", "", "}", "1\tx"]), max_size=8
)
either = text | lined.map("\n".join)


@given(
    st.binary(max_size=60) | either.map(str.encode),
    st.lists(st.builds(TextEdit, either, either, st.booleans()), max_size=3),
)
@example(b"\x83e\x83X", [TextEdit("e", "f")])
@example(b"", [TextEdit("\udc80", "")])
def test_no_input_raises(data: bytes, edits: list[TextEdit]) -> None:
    outcome = apply_edits(data, edits)

    assert isinstance(outcome, EditedContent | NoMatch)
    if isinstance(outcome, EditedContent):
        assert len(outcome.changes) == len(edits)
        assert not any(one.note for one in outcome.changes if not one.how)


@given(
    st.text(alphabet="ab\n", max_size=40),
    st.text(alphabet="ab\n", min_size=1, max_size=3),
    st.text(alphabet="xy", max_size=3),
)
def test_everywhere_is_everywhere(whole: str, old: str, new: str) -> None:
    outcome = apply_edits(whole.encode(), [TextEdit(old, new, everywhere=True)])

    if old in whole:
        assert isinstance(outcome, EditedContent)
        assert outcome.data.decode() == whole.replace(old, new)
    else:
        assert isinstance(outcome, NoMatch) or outcome.changes[0].how


@given(either, st.lists(st.builds(TextEdit, either, either, st.booleans()), min_size=2, max_size=3))
def test_several_edits_are_one_after_the_other_all_or_none(
    whole: str, edits: list[TextEdit]
) -> None:
    data = whole.encode()
    failed = 0
    for number, edit in enumerate(edits, 1):
        step = apply_edits(data, [edit])
        if isinstance(step, NoMatch):
            failed = number
            break
        data = step.data

    outcome = apply_edits(whole.encode(), edits)

    if failed:
        assert isinstance(outcome, NoMatch)
        assert outcome.edit == failed
    else:
        assert isinstance(outcome, EditedContent)
        assert outcome.data == data


@given(
    st.lists(st.sampled_from(["one", "two", "  three", "four = 4"]), min_size=1, max_size=12),
    st.data(),
)
def test_a_text_that_is_there_once_is_replaced_there(lines: list[str], data: st.DataObject) -> None:
    whole = "\n".join(lines)
    start = data.draw(st.integers(0, len(whole) - 1))
    old = whole[start : data.draw(st.integers(start + 1, len(whole)))]
    assume(whole.count(old) == 1 and whole.find(old, whole.find(old) + 1) < 0)

    outcome = apply_edits(whole.encode(), [TextEdit(old, "<new>")])

    assert isinstance(outcome, EditedContent)
    assert outcome.data.decode() == whole.replace(old, "<new>")
