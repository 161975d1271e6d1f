"""Markdown in a terminal: what is drawn while it streams in, at any width and of any text."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from approvals.display_vectors import is_raw
from handrail.cli._base.columns import max_cells
from handrail.cli._screen.markdown import Markdown
from handrail.cli._screen.rows import Row, Span, plain


def drawn(*pieces: str, width: int = 79) -> list[Row]:
    text = Markdown(width)
    return [*[row for piece in pieces for row in text.feed(piece)], *text.end()]


def shown(*pieces: str, width: int = 79) -> list[str]:
    return [plain(row) for row in drawn(*pieces, width=width)]


REPLY = """\
# Why it drops a line

The loop in `parse_rows` yields a row only when it meets a newline, so a file that does not end in \
one loses its **last row**. Three of *the* four readers do this:

| Reader | Last line | Test |
|---|---|---|
| parse_rows | lost | none |
| `parse_table` | lost, and a long remark about it that takes room | skipped |

The fix flushes <b>what</b> is left, see [the docs](https://x.example/a "Loops") or \
<https://y.example>:

```python
def parse_rows(text: str) -> Iterator[Row]:
    row = Row()  # the last line has no newline
    yield row, "a long text that does not fit into a row of a narrow terminal at all", 42
```
1. Add the flush.
2. Add a test with a file that has no final newline, for all readers that there are in this module.
   - first, the small one  \nwith a break

     and a paragraph of its own
> Quoted words
> - and an item

---

Underlined
==========
    indented = code

**kwargs and a * b stay. ![A picture](p.png)
"""


def test_a_reply_is_drawn_at_80_columns() -> None:
    assert shown(REPLY) == snapshot(
        [
            "  Why it drops a line",
            "",
            "  The loop in parse_rows yields a row only when it meets a newline, so a file",
            "  that does not end in one loses its last row. Three of the four readers do",
            "  this:",
            "",
            "  Reader       Last line                                         Test",
            "  ───────────  ────────────────────────────────────────────────  ───────",
            "  parse_rows   lost                                              none",
            "  parse_table  lost, and a long remark about it that takes room  skipped",
            "",
            '  The fix flushes <b>what</b> is left, see the docs "Loops"',
            "  (https://x.example/a) or https://y.example:",
            "",
            "    def parse_rows(text: str) -> Iterator[Row]:",
            "        row = Row()  # the last line has no newline",
            '        yield row, "a long text that does not fit into a row of a narrow',
            '  ┊ terminal at all", 42',
            "",
            "  1. Add the flush.",
            "  2. Add a test with a file that has no final newline, for all readers that",
            "     there are in this module.",
            "     - first, the small one",
            "       with a break",
            "",
            "       and a paragraph of its own",
            "  │ Quoted words",
            "  │ - and an item",
            "",
            "  ──────────────────────────────────────",
            "",
            "  Underlined",
            "",
            "    indented = code",
            "",
            "  **kwargs and a * b stay. A picture (p.png)",
        ]
    )


def test_a_reply_is_drawn_at_40_columns() -> None:
    assert shown(REPLY, width=39) == snapshot(
        [
            "  Why it drops a line",
            "",
            "  The loop in parse_rows yields a row",
            "  only when it meets a newline, so a",
            "  file that does not end in one loses",
            "  its last row. Three of the four",
            "  readers do this:",
            "",
            "  Reader       Last line        Test",
            "  ───────────  ───────────────  ───────",
            "  parse_rows   lost             none",
            "  parse_table  lost, and a      skipped",
            "               long remark",
            "               about it that",
            "               takes room",
            "",
            "  The fix flushes <b>what</b> is left,",
            '  see the docs "Loops"',
            "  (https://x.example/a) or",
            "  https://y.example:",
            "",
            "    def parse_rows(text: str) ->",
            "  ┊ Iterator[Row]:",
            "        row = Row()  # the last line",
            "  ┊ has no newline",
            '        yield row, "a long text that',
            "  ┊ does not fit into a row of a",
            '  ┊ narrow terminal at all", 42',
            "",
            "  1. Add the flush.",
            "  2. Add a test with a file that has no",
            "     final newline, for all readers",
            "     that there are in this module.",
            "     - first, the small one",
            "       with a break",
            "",
            "       and a paragraph of its own",
            "  │ Quoted words",
            "  │ - and an item",
            "",
            "  ──────────────────",
            "",
            "  Underlined",
            "",
            "    indented = code",
            "",
            "  **kwargs and a * b stay. A picture",
            "  (p.png)",
        ]
    )


def test_words_have_roles() -> None:
    text = (
        "**Bold** `code` *em*, [a](b) text\n\n- x\n\n```py\ndef f(): return 'x', 1  # note\n```\n"
    )
    assert drawn(text) == snapshot(
        [
            (
                Span(text="  "),
                Span(text="Bold", role="title"),
                Span(text=" "),
                Span(text="code", role="path"),
                Span(text=" "),
                Span(text="em", role="title"),
                Span(text=", a "),
                Span(text="(b)", role="muted"),
                Span(text=" text"),
            ),
            (),
            (Span(text="  "), Span(text="-", role="accent"), Span(text=" x")),
            (),
            (
                Span(text="  "),
                Span(text="  "),
                Span(text="def", role="code.word"),
                Span(text=" "),
                Span(text="f", role="code.name"),
                Span(text="(): "),
                Span(text="return", role="code.word"),
                Span(text=" "),
                Span(text="'x'", role="code.text"),
                Span(text=", "),
                Span(text="1", role="code.number"),
                Span(text="  "),
                Span(text="# note", role="code.note"),
            ),
        ]
    )


def test_a_long_table_repeats_its_header() -> None:
    rows = shown("\n".join(["| a | b |", "|---|---|", *[f"| {n} | x |" for n in range(70)]]))

    assert (rows.count("  a   b"), len(rows)) == (2, 70 + 5)


def test_a_table_that_is_too_wide_has_one_field_on_a_row() -> None:
    table = "| Reader | Last line |\n|-|-|\n| parse_rows_of_a_file | lost entirely |\n| b | |"

    assert shown(table, width=24) == [
        "  Reader:",
        "    parse_rows_of_a_file",
        "  Last line: lost",
        "    entirely",
        "",
        "  Reader: b",
        "  Last line:",
    ]
    assert shown("| Reader_of_a_file | of_a_row |\n|-|-|", width=24) == [
        "  Reader_of_a_file:",
        "  of_a_row:",
    ]


def test_code_ends_with_its_quote_and_has_few_empty_rows() -> None:
    text = "> ```weird\n> a\n\n```\nb\n\n\n\n\nc\n```\n~~~\n``` d\n"

    assert shown(text) == [
        "  │   weird",
        "  │   a",
        "",
        "    b",
        "",
        "",
        "    c",
        "",
        "    ``` d",
    ]


def test_a_word_that_is_longer_than_a_row_breaks_at_the_width() -> None:
    assert shown(f"**{'x' * 18}**{'y' * 20}  \n  z", width=20) == [
        f"  {'x' * 18}",
        f"  {'y' * 18}",
        "  yy",
        "  z",
    ]
    assert shown("\\\nx\n\n| a", width=20) == ["", "  x", "", "  | a"]


WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=9)
PROSE = st.lists(WORDS, min_size=1, max_size=25).map(" ".join)
CELLS = st.lists(WORDS, min_size=2, max_size=4).map(lambda cells: f"| {' | '.join(cells)} |")
BLOCKS = st.one_of(
    PROSE,
    PROSE.map(lambda text: f"**{text}** `{text}`"),
    PROSE.map(lambda text: f"# {text}"),
    PROSE.map(lambda text: f"{text}\n===="),
    PROSE.map(lambda text: f"> {text}\n> - {text}"),
    PROSE.map(lambda text: f"    {text}"),
    PROSE.map(lambda text: f"[{text}](https://{text.split()[0]}.example)"),
    st.lists(PROSE, min_size=1, max_size=4).map(lambda all_: "\n".join(f"- {t}" for t in all_)),
    st.lists(PROSE, min_size=1, max_size=4).map(lambda all_: "\n  ".join(f"1. {t}" for t in all_)),
    st.lists(CELLS, min_size=1, max_size=4).map(lambda rows: "\n".join([rows[0], "|-|", *rows])),
    st.tuples(st.sampled_from(["", "python", "sh", "text"]), st.lists(PROSE, max_size=5)).map(
        lambda code: "\n".join([f"```{code[0]}", *code[1], "```"])
    ),
    st.lists(PROSE, min_size=5, max_size=40).map(". ".join),
)
DOCUMENTS = st.lists(BLOCKS, max_size=6).flatmap(
    lambda blocks: st.sampled_from(["\n", "\n\n", "\r\n\r\n"]).map(lambda end: end.join(blocks))
)
MARKUP = st.lists(
    st.sampled_from(
        [
            "#", " ", "\n", "\r\n", "\r", "\t", "-", "*", "**", "_", "`", "```", "~~~", "|", ">", "1.",
            "=", "[", "](", ")", "<", "&#27;", "\\", "a", "word", "end. ", "文", "\x1b[2J", "\u202e",
            "    ", "| a | b |\n|-|-|\n", "\n\n", "---", "!", "x" * 50,
        ]
    ),
    max_size=40,
).map("".join)  # fmt: skip
ANY = st.one_of(DOCUMENTS, MARKUP, st.text(st.characters(exclude_categories=())))
WIDTHS = st.integers(20, 130)


def split(text: str, places: list[int]) -> list[str]:
    cuts = sorted({0, len(text), *[place % (len(text) + 1) for place in places]})
    return [text[start:end] for start, end in pairwise(cuts)]


@given(ANY, st.lists(st.integers(0, 5_000), max_size=12), WIDTHS)
@example(f"{'word ' * 200}\n- x", [999, 1000, 1001, 1002], 20)
@example("```\nx\n", [4, 5], 20)
@example("end. " * 60 + "- dash # hash | bar ", list(range(0, 330, 7)), 20)
def test_what_streams_in_is_drawn_like_the_whole(text: str, places: list[int], width: int) -> None:
    whole = drawn(text, width=width)
    streamed = Markdown(width)
    settled: list[Row] = []
    so_far = ""
    for piece in split(text, places):
        settled += streamed.feed(piece)
        so_far += piece
        assert settled + streamed.tail() == drawn(so_far, width=width)

    assert settled + streamed.end() == whole


@given(ANY, WIDTHS)
@example("| abcdefghi | bcdefghij |\n|-|-|\n| a | b |", 22)
@example("- \n-\n> \n>\n# \n", 20)
@example("```\n> \r x \x0b \n", 20)
def test_nothing_raw_is_drawn_and_no_row_is_too_long(text: str, width: int) -> None:
    rows = shown(text, width=width)

    assert [row for row in rows if any(map(is_raw, row))] == []
    assert [row for row in rows if row and not row.startswith("  ")] == []
    assert [row for row in rows if max_cells(row.replace("─", "-")) > width] == []
    assert [row for row in rows if row != row.rstrip(" ")] == []


@given(DOCUMENTS, WIDTHS)
def test_every_word_is_drawn_whole_and_in_order(text: str, width: int) -> None:
    """Tables draw a cell's words below one another, so order is held without them."""
    words = [word for word in re.findall(r"[a-z]{1,9}", text) if word not in {"https", "example"}]
    words = [word for word in words if word not in {"python", "sh", "text"}]
    on_screen = re.findall(r"[a-z]+", " ".join(shown(text, width=width)))

    assert sorted(set(words) - set(on_screen)) == []
    if "|" not in text and "https" not in text and "```" not in text:
        assert on_screen == words
