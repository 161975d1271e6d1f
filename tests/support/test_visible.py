"""Characters that cannot be seen: spelled out alike in everything that a model reads from files."""

# ruff: noqa: RUF001  characters that look alike are what some of this is about

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, Toolset
from handrail.agent import read_instructions
from handrail.approvals import make_printable
from handrail.tools import Workspace, grep, read

SHAPELESS = [
    *map(chr, (0xAD, 0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x200B, 0x2028, 0x2029, 0x2800)),
    *map(chr, (0x3164, 0xFEFF, 0xFFA0)),
    *map(chr, range(0x180B, 0x1810)),
    *map(chr, range(0x2060, 0x2066)),
    *map(chr, range(0x206A, 0x2070)),
    *map(chr, range(0xFE00, 0xFE0E)),
    *map(chr, range(0xFFF0, 0xFFFC)),
    *map(chr, range(0x13430, 0x13440)),
    *map(chr, range(0x1BCA0, 0x1BCA4)),
    *map(chr, range(0x1D173, 0x1D17B)),
    *map(chr, (0xE0000, 0xE0041, 0xE0FFF)),
]
DIRECTIONS = list(map(chr, (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def read_text(root: Path, text: str) -> tuple[str, str]:
    """What a model reads of a file: its text, and the last note."""
    (root / "a.txt").write_bytes(text.encode("utf-8", "surrogateescape"))
    call = Call("read", {"file_path": "a.txt"}, "1")
    lines = Executor(Toolset(read(Workspace(root)))).run_sync(call).text.split("\n")
    notes = [line.strip("[]") for line in lines if line.startswith("[")]
    return "\n".join(line.partition("\t")[2] for line in lines if "\t" in line), (*notes, "")[0]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ttext\n", "plain\ttext"),
        ("naïve 你好", "naïve 你好"),
        ("bell\x07 escape\x1b[0m\r.\n", "bell\\x07 escape\\x1b[0m\\x0d."),
        ("äöü \x85 \udc81", "äöü \\x85 \\x81"),
        ("admin\u202e // nimda\u202c", "admin\\u{202e} // nimda\\u{202c}"),
        ("zero\u200bwidth so\xadft", "zero\\u{200b}width so\\u{ad}ft"),
        (
            "a\u200db می\u200cخواهم 👨\u200d👩 👁\ufe0f\u200d🗨\ufe0f 1\ufe0f\u20e3",
            "a\\u{200d}b می\u200cخواهم 👨\u200d👩 👁\ufe0f\u200d🗨\ufe0f 1\ufe0f\u20e3",
        ),
        ("tag\U000e0041", "tag\\u{e0041}"),
    ],
)
def test_what_cannot_be_seen_is_spelled_out(tmp_path: Path, text: str, seen: str) -> None:
    assert read_text(tmp_path, text)[0] == seen


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("plain\n", snapshot("")),
        ("naïve", snapshot("")),
        (
            "if a:\u202e",
            snapshot(
                "The text has characters that change the reading direction (\\u{202e}): what a person sees may not be what runs. They are spelled out here."
            ),
        ),
        (
            "plain text" * 99 + "".join(map(chr, range(1, 12))),
            snapshot(
                "The text has invisible characters (\\x01, \\x02, \\x03, \\x04, \\x05, \\x06, \\x07, \\x08 ...). They are spelled out here."
            ),
        ),
    ],
)
def test_a_model_is_told_of_what_cannot_be_seen(tmp_path: Path, text: str, note: str) -> None:
    assert read_text(tmp_path, text)[1] == note


def test_the_same_characters_are_spelled_out_wherever_a_model_reads(tmp_path: Path) -> None:
    characters = [*SHAPELESS, *DIRECTIONS]
    text = "".join(f"<{character}>\n" for character in characters)
    spellings = [f"<\\u{{{ord(character):x}}}>" for character in characters]
    (tmp_path / "AGENTS.md").write_text(text, encoding="utf-8")
    workspace = Workspace(tmp_path)
    calls = [
        Call("read", {"file_path": "AGENTS.md"}, "1"),
        Call("grep", {"pattern": "<", "output_mode": "content"}, "2"),
    ]

    async def answers() -> list[str]:
        async with Executor(Toolset(read(workspace), grep(workspace))) as executor:
            return [result.text for result in await executor.run_all(calls)]

    page, matches = anyio.run(answers)
    told = read_instructions(tmp_path, trusted=lambda *_: True).text
    assert [line.partition("\t")[2] for line in page.splitlines()][: len(spellings)] == spellings
    assert [line.partition(" ")[2] for line in matches.splitlines() if "<" in line] == spellings
    assert [line for line in told.splitlines() if line.startswith("<\\")] == spellings


def test_a_person_is_shown_whatever_is_spelled_out_for_a_model() -> None:
    for character in [*SHAPELESS, *DIRECTIONS, *map(chr, range(0x7F, 0xA0))]:
        assert make_printable(f"<{character}>").text == f"<\\u{{{ord(character):X}}}>"
