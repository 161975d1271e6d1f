"""read: what a model sees of a file, word for word; pages that put together are the file."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import FailureKind, File, Image, Result, Text
from handrail.tools import Workspace
from tools.stage import kind, results, toolset

NEXT = re.compile(r"To read on, pass offset=(\d+)\.\]$")
CLIPPED = " [clipped: "


def read(root: Path, name: str = "f", **args: object) -> Result:
    [done] = results(toolset(Workspace(root)), ("read", {"file_path": name, **args}))
    return done


def shown(root: Path, content: bytes | str, **args: object) -> str:
    """What a model sees of a file with this content."""
    data = content.encode() if isinstance(content, str) else content
    (root / "f").write_bytes(data)
    return read(root, **args).text


def png(width: int = 1, height: int = 1) -> bytes:
    """A picture, all of it black."""

    def chunk(name: bytes, data: bytes) -> bytes:
        checked = name + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" * (width + 1) for _ in range(height)))
    body = chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def test_what_a_model_is_told_of_it(tmp_path: Path) -> None:
    spec = toolset(Workspace(tmp_path))["read"].spec

    assert (spec.description, spec.input_schema, spec.effect.name) == snapshot(
        (
            """\
Read a text file, list a folder, or show an image or PDF.

Each line is shown with its number and a tab, which are not part of the file. Long files come in pages of up to 2,000 lines; the last line says how to read on. Lines over 2,000 characters are clipped. A notebook (.ipynb) is shown as its cells.\
""",
            {
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "Path of the file or folder, relative to the workspace.",
                    },
                    "offset": {
                        "type": "integer",
                        "description": "First line to read, from 1.",
                        "default": 1,
                    },
                    "limit": {
                        "type": "integer",
                        "description": "Number of lines to read, at most 5000.",
                        "default": 2000,
                    },
                    "view_range": {
                        "description": "First and last line, such as [10, 20], instead of offset and limit. A last line of -1 means up to 2000 lines.",
                        "anyOf": [
                            {"type": "array", "items": {"type": "integer"}},
                            {"type": "null"},
                        ],
                        "default": None,
                    },
                },
                "required": ["file_path"],
                "additionalProperties": False,
            },
            "READ",
        )
    )


# ---------------------------------------------------------------- lines and pages


def test_lines_are_numbered_and_the_last_needs_no_end(tmp_path: Path) -> None:
    texts = ("one\ntwo\n", "one\ntwo", "\n", "\n\nx", "")

    assert [shown(tmp_path, text).split("\n") for text in texts] == [
        ["     1\tone", "     2\ttwo"],
        ["     1\tone", "     2\ttwo"],
        ["     1\t"],
        ["     1\t", "     2\t", "     3\tx"],
        ["[The file is empty.]"],
    ]


def test_a_part_is_read_and_how_to_go_on_is_said(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 8))

    assert {
        str(args): shown(tmp_path, text, **args)
        for args in (
            {"offset": 3, "limit": 2},
            {"offset": 6},
            {"limit": 6},
            {"limit": 7},
            {"offset": 0, "limit": 0},
            {"view_range": [2, 3]},
            {"view_range": [6, -1]},
            {"view_range": [0, 1]},
            {"view_range": [7, 99]},
        )
    } == snapshot(
        {
            "{'offset': 3, 'limit': 2}": """\
     3	line 3
     4	line 4
[Lines 3 to 4 of 7. To read on, pass offset=5.]\
""",
            "{'offset': 6}": """\
     6	line 6
     7	line 7\
""",
            "{'limit': 6}": """\
     1	line 1
     2	line 2
     3	line 3
     4	line 4
     5	line 5
     6	line 6
[Lines 1 to 6 of 7. To read on, pass offset=7.]\
""",
            "{'limit': 7}": """\
     1	line 1
     2	line 2
     3	line 3
     4	line 4
     5	line 5
     6	line 6
     7	line 7\
""",
            "{'offset': 0, 'limit': 0}": """\
     1	line 1
[Lines 1 to 1 of 7. To read on, pass offset=2.]\
""",
            "{'view_range': [2, 3]}": """\
     2	line 2
     3	line 3
[Lines 2 to 3 of 7. To read on, pass offset=4.]\
""",
            "{'view_range': [6, -1]}": """\
     6	line 6
     7	line 7\
""",
            "{'view_range': [0, 1]}": """\
     1	line 1
[Lines 1 to 1 of 7. To read on, pass offset=2.]\
""",
            "{'view_range': [7, 99]}": "     7\tline 7",
        }
    )


def test_what_cannot_be_a_part_is_said(tmp_path: Path) -> None:
    assert [
        shown(tmp_path, "one\ntwo\n", **args)
        for args in (
            {"offset": 3},
            {"offset": 2**70},
            {"view_range": [2**70, 0]},
            {"view_range": [3, 2]},
            {"view_range": [1]},
            {"view_range": [1, 2, 3]},
        )
    ] == snapshot(
        [
            "The file has 2 lines; line 3 does not exist.",
            "The file has 2 lines; line 1,000,000,000,000 does not exist.",
            "The file has 2 lines; line 1,000,000,000,000 does not exist.",
            "view_range [3, 2] ends before it begins.",
            "view_range must be two numbers: the first and last line.",
            "view_range must be two numbers: the first and last line.",
        ]
    )
    assert shown(tmp_path, "one\ntwo\n", limit=2**70) == "     1\tone\n     2\ttwo"
    assert shown(tmp_path, "one\ntwo\n", view_range=[2, 2**70]) == "     2\ttwo"


def test_a_long_file_comes_in_pages(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 5_001))
    page = shown(tmp_path, text).splitlines()

    assert [page[0], page[1_999], page[2_000:]] == snapshot(
        [
            "     1\tline 1",
            "  2000\tline 2000",
            ["[Lines 1 to 2,000 of 5,000. To read on, pass offset=2001.]"],
        ]
    )


def test_a_long_line_is_clipped(tmp_path: Path) -> None:
    lines = shown(tmp_path, f"{'x' * 2_500}\nshort\n{'y' * 2_000}\n").splitlines()

    assert [(len(line), line[:10], line[2_000:]) for line in lines] == snapshot(
        [
            (2051, "     1\txxx", "xxxxxxx [clipped: 500 more characters in this line]"),
            (12, "     2\tsho", ""),
            (2007, "     3\tyyy", "yyyyyyy"),
        ]
    )


def test_a_line_that_fills_more_than_a_page_stands_alone(tmp_path: Path) -> None:
    lines = shown(tmp_path, f"{'x' * 200_000}\nshort\n").splitlines()
    alone = shown(tmp_path, "x" * 200_000).splitlines()

    assert [line[-90:] for line in lines] == snapshot(
        [
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx [clipped: 198,000 more characters in this line]",
            "[Lines 1 to 1 of 2. To read on, pass offset=2.]",
        ]
    )
    assert [line[-60:] for line in alone] == snapshot(
        ["xxxxxxxxxxxx [clipped: 198,000 more characters in this line]"]
    )


def pages(root: Path, data: bytes, limit: int) -> list[str]:
    """All pages of a file, each where the one before said; without the notes."""
    (root / "f").write_bytes(data)
    found, offset = list[str](), 1
    while offset:
        text = read(root, offset=offset, limit=limit).text
        more = NEXT.search(text)
        found += [line for line in text.split("\n") if re.match(r" *\d+\t", line)]
        offset = int(more[1]) if more else 0
    return found


LINE = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]))
SHAPELESS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\ufff0-\ufff8\U000e0000-\U000e0fff]"
)


@given(
    lines=st.lists(LINE.map(lambda line: SHAPELESS.sub("", line)), min_size=1, max_size=30),
    ends=st.booleans(),
    limit=st.integers(1, 12),
    long=st.integers(0, 3),
)
def test_all_pages_together_are_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    *,
    ends: bool,
    limit: int,
    long: int,
) -> None:
    lines = [line * 10**long for line in lines]
    ends = ends or not lines[-1]
    text = "\n".join(lines) + "\n" * ends

    got = [one.partition("\t") for one in pages(tmp_path_factory.mktemp("p"), text.encode(), limit)]

    assert [int(number) for number, _, _ in got] == list(range(1, len(lines) + 1))
    assert [line.partition(CLIPPED)[0] for _, _, line in got] == [line[:2_000] for line in lines]


@pytest.mark.parametrize(
    "data",
    [
        b"\n" * 100_000,
        (b"\x1b" * 99 + b"\n") * 700,
        ("\u202e" * 400 + "\n").encode() * 100,
        (b"x" * 1_999 + b"\n") * 200,
        (b"\x1b" * 1_999 + b"\n") * 20,
    ],
    ids=["empty lines", "controls", "directions", "long lines", "long lines of controls"],
)
def test_no_page_is_cut_in_the_middle(tmp_path: Path, data: bytes) -> None:
    """Whatever the lines hold, and however many are asked for: each is shown on some page."""
    got = pages(tmp_path, data, 1_000_000)

    numbers = [int(line.partition("\t")[0]) for line in got]
    assert numbers == list(range(1, data.count(b"\n") + 1))


# ---------------------------------------------------------------- what is in it


def test_line_ends_are_told_apart(tmp_path: Path) -> None:
    assert [
        shown(tmp_path, data)
        for data in ("a\r\nb\r\n", "a\rb\r", "a\r\nb\nc\r\n", "a\nb\r\nc\n", "a\n\rb\n")
    ] == snapshot(
        [
            """\
     1	a
     2	b
[Lines end in CRLF.]\
""",
            """\
     1	a
     2	b
[Lines end in CR.]\
""",
            """\
     1	a
     2	b
     3	c
[Line endings are mixed: LF, CRLF or CR.]\
""",
            """\
     1	a
     2	b
     3	c
[Line endings are mixed: LF, CRLF or CR.]\
""",
            """\
     1	a
     2	\\x0db
[The text has invisible characters (\\x0d). They are spelled out here.]\
""",
        ]
    )


def test_encodings_are_told_and_nothing_is_lost_in_silence(tmp_path: Path) -> None:
    assert [
        shown(tmp_path, data)
        for data in (
            "\ufeffmark".encode(),
            "wide é".encode("utf-16"),
            "big é".encode("utf-16-be"),
            "32".encode("utf-32"),
            "caf\xe9 au lait".encode("latin-1"),
            b"broken \xff byte, but \xc3\xa9 and \xc3\xa9",
            b"\x81\x82\x83 who knows",
        )
    ] == snapshot(
        [
            """\
     1	mark
[The file is UTF-8 with a byte order mark, which is kept.]\
""",
            """\
     1	wide é
[The file is UTF-16-LE with a byte order mark, which is kept.]\
""",
            """\
     1	big é
[The file is UTF-16-BE.]\
""",
            """\
     1	32
[The file is UTF-32-LE with a byte order mark, which is kept.]\
""",
            """\
     1	café au lait
[The file is not UTF-8. It is read and written as latin-1.]\
""",
            """\
     1	broken \\xff byte, but é and é
[The file is UTF-8 with invalid bytes (1), which are shown as \\xNN and kept.]
[The text has invisible characters (\\xff). They are spelled out here.]\
""",
            """\
     1	\\x81\\x82\\x83 who knows
[The file is text in an unknown encoding, not UTF-8. Bytes outside ASCII are shown as \\xNN and kept; only ASCII can be written.]
[The text has invisible characters (\\x81, \\x82, \\x83). They are spelled out here.]\
""",
        ]
    )


def test_what_cannot_be_seen_is_spelled_out(tmp_path: Path) -> None:
    text = "a\x1b[2Jb\nif user != 'admin\u202e \u2066# x\u2069':\nz\u200bw\n"

    assert shown(tmp_path, text) == snapshot("""\
     1	a\\x1b[2Jb
     2	if user != 'admin\\u{202e} \\u{2066}# x\\u{2069}':
     3	z\\u{200b}w
[The text has characters that change the reading direction (\\u{200b}, \\u{202e}, \\u{2066}, \\u{2069}, \\x1b): what a person sees may not be what runs. They are spelled out here.]\
""")


def test_a_picture_is_shown_as_one(tmp_path: Path) -> None:
    picture = png()
    (tmp_path / "dot.png").write_bytes(picture)
    (tmp_path / "no-name").write_bytes(b"GIF89a\x01\x00\x01\x00\x00")

    assert [read(tmp_path, name) for name in ("dot.png", "no-name")] == [
        Result(
            "c1",
            f"dot.png: png, {len(picture)} bytes",
            (Text(f"dot.png: png, {len(picture)} bytes"), Image(picture, "image/png")),
        ),
        Result(
            "c1",
            "no-name: gif, 11 bytes",
            (Text("no-name: gif, 11 bytes"), Image(b"GIF89a\x01\x00\x01\x00\x00", "image/gif")),
        ),
    ]


def test_a_document_is_handed_on(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/doc.pdf").write_bytes(b"%PDF-1.7\n%%EOF\n")

    assert read(tmp_path, "d/doc.pdf") == Result(
        "c1",
        "doc.pdf: pdf, 15 bytes",
        (
            Text("doc.pdf: pdf, 15 bytes"),
            File(b"%PDF-1.7\n%%EOF\n", "application/pdf", "doc.pdf"),
        ),
    )


def test_what_is_no_text_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "elf").write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 100)
    (tmp_path / "big.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 4_000_000)
    with (tmp_path / "huge.pdf").open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(100 * 1024**3)
    told = [read(tmp_path, name) for name in ("elf", "big.png", "huge.pdf")]

    assert [f"{kind(one)}: {one.text}" for one in told] == snapshot(
        [
            "failed: 'elf' is a binary file (107 bytes). Inspect it with a command such as `file` or `xxd`.",
            "failed: 'big.png' is too large to show (png, 4,000,008 bytes; limit 3,900,000).",
            "failed: 'huge.pdf' is too large to show (pdf, 107,374,182,400 bytes; limit 3,900,000).",
        ]
    )


def test_of_a_very_large_file_the_beginning_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes((b"x" * 63 + b"\n") * 300_000)
    first, last = read(tmp_path), read(tmp_path, offset=262_144)
    after = read(tmp_path, offset=262_145)

    assert first.text.splitlines()[-1] == snapshot(
        "[Lines 1 to 781 of a file of 19,200,000 bytes. To read on, pass offset=782.]"
    )
    assert last.text.splitlines() == snapshot(
        [
            "262144\txxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "[Only the first 16,777,216 bytes of the file were read. Use grep or a command for the rest.]",
        ]
    )
    assert after.text == snapshot(
        "The first 16,777,216 bytes of the file have 262,144 lines; line 262,145 does not exist. Use grep or a command for the rest."
    )


def test_what_was_cut_was_not_seen(tmp_path: Path) -> None:
    """So it cannot be replaced as a whole."""
    (tmp_path / "f").write_bytes(b"x\n" * 9_000_000)
    tools = toolset(Workspace(tmp_path))
    calls = ("read", {"file_path": "f"}), ("write", {"file_path": "f", "content": "new"})
    [_, wrote] = results(tools, *calls)

    assert wrote.text == snapshot(
        "Not written: 'f' is too large to read in full, so it cannot be overwritten."
    )
    assert kind(wrote) is FailureKind.FAILED


def test_a_path_from_the_root_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x", encoding="utf-8")

    assert read(tmp_path, f"{tmp_path}/f").text == "     1\tx"


def test_many_can_be_read_at_once(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).write_text(str(number), encoding="utf-8")
    calls = [("read", {"file_path": str(number)}) for number in range(20)]

    done = results(toolset(Workspace(tmp_path)), *calls)

    assert [one.text for one in done] == [f"     1\t{number}" for number in range(20)]


def test_a_sparse_file_is_no_text(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(100 * 1024**3)

    assert read(tmp_path).text == snapshot(
        "'f' is a binary file (107,374,182,400 bytes). Inspect it with a command such as `file` or `xxd`."
    )
