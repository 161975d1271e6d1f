"""write: whole files, made or replaced; never over what nobody has looked at."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, FailureKind, Result
from handrail.tools import Workspace
from tools.files.test_openat import OPENERS
from tools.stage import Opener, kind, results, toolset

READ = ("read", {"file_path": "f"})


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    found: Opener = request.param
    return found


def write(root: Path, path: str, content: str = "new\n", **options: Opener) -> Result:
    args = {"file_path": path, "content": content}
    [done] = results(toolset(Workspace(root, **options)), ("write", args))
    return done


def rewritten(root: Path, before: bytes, content: str) -> tuple[str, bytes]:
    """What is said, and what the file holds, once it was read and written."""
    (root / "f").write_bytes(before)
    args = {"file_path": "f", "content": content}
    [_, done] = results(toolset(Workspace(root)), READ, ("write", args))
    return done.text, (root / "f").read_bytes()


def names(root: Path) -> list[str]:
    return sorted(str(one.relative_to(root)) for one in root.rglob("*"))


def test_what_a_model_is_told_of_it(tmp_path: Path) -> None:
    spec = toolset(Workspace(tmp_path))["write"].spec

    assert (spec.description, spec.input_schema, spec.effect.name) == snapshot(
        (
            """\
Create or overwrite a file and report its number of lines. Parent folders are created.

Use it for new files and complete rewrites, not to change a part. Read an existing file first: the call fails if the file was not read, or changed since then. It keeps its encoding and line endings.\
""",
            {
                "type": "object",
                "properties": {
                    "file_path": {
                        "type": "string",
                        "description": "Path of the file, relative to the workspace.",
                    },
                    "content": {"type": "string", "description": "The whole new content."},
                },
                "required": ["file_path", "content"],
                "additionalProperties": False,
            },
            "WRITE",
        )
    )


# ---------------------------------------------------------------- making files


def test_a_file_is_made_with_the_folders_above_it(tmp_path: Path, opener: Opener) -> None:
    (tmp_path / "there").mkdir()
    told = [
        write(tmp_path, path, opener=opener).text
        for path in ("f", "a/b/c/f", "there/f", "there/./g", "there/../h", f"{tmp_path}/i")
    ]

    assert told == snapshot(
        [
            "Created 'f' with 1 line.",
            "Created 'a/b/c/f' with 1 line.",
            "Created 'there/f' with 1 line.",
            "Created 'there/g' with 1 line.",
            "Created 'h' with 1 line.",
            "Created 'i' with 1 line.",
        ]
    )
    assert names(tmp_path) == snapshot(
        ["a", "a/b", "a/b/c", "a/b/c/f", "f", "h", "i", "there", "there/f", "there/g"]
    )
    assert (tmp_path / "a/b/c/f").read_bytes() == b"new\n"


def test_a_new_file_has_the_mode_that_new_files_have(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(tmp_path, "a/f")
    finally:
        os.umask(old)

    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/f")] == [
        0o750,
        0o640,
    ]


def test_how_much_was_written_is_said(tmp_path: Path) -> None:
    told = [write(tmp_path, f"f{n}", text).text for n, text in enumerate(("", "a", "a\nb", "é\n"))]

    assert told == snapshot(
        [
            "Created 'f0' with 0 lines.",
            "Created 'f1' with 1 line.",
            "Created 'f2' with 2 lines.",
            "Created 'f3' with 1 line.",
        ]
    )
    assert (tmp_path / "f3").read_bytes() == "é\n".encode()


def test_names_that_would_trap_somebody_are_not_made(tmp_path: Path) -> None:
    paths = [
        "CON",
        "lpt1",
        "a/nul/b",
        "a\\b",
        "%2e%2e/x",
        "f::$DATA",
        "a\x1bb",
        "e\u0301",
        " a",
        "b ",
    ]
    told = [write(tmp_path, path) for path in paths]

    assert [f"{kind(one)}: {one.text}" for one in told] == snapshot(
        [
            "failed: Not created: 'CON' is a device name on Windows.",
            "failed: Not created: 'lpt1' is a device name on Windows.",
            "failed: Not created: 'nul' is a device name on Windows.",
            "failed: Not created: 'a\\\\b' has a backslash; write / between folders.",
            "failed: Not created: '%2e%2e' has percent-encoded characters; write them directly.",
            "denied: Not run: 'f::$DATA' is outside the workspace: it starts with a drive letter. Use a path inside it.",
            "failed: Not created: 'a\\x1bb' has control characters.",
            "failed: Not created: 'é' has combining accents; write each letter as one character.",
            "failed: Not created: ' a' starts or ends with whitespace.",
            "failed: Not created: 'b ' starts or ends with whitespace.",
        ]
    )
    assert names(tmp_path) == []


def test_such_a_name_that_is_there_is_written_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "CON").write_text("x", encoding="utf-8")
    tools = toolset(Workspace(tmp_path))
    calls = ("read", {"file_path": "CON"}), ("write", {"file_path": "CON", "content": "new"})

    [_, done] = results(tools, *calls)

    assert done.text == snapshot("Overwrote 'CON' with 1 line.")


def test_what_is_no_place_for_a_file_is_said(tmp_path: Path, opener: Opener) -> None:
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    (root / "f").write_text("x", encoding="utf-8")
    os.mkfifo(root / "pipe")
    (root / "out").symlink_to("..")
    (root / "dangling").symlink_to("gone")
    (root / "lost").symlink_to("../gone")
    before = names(tmp_path)
    paths = [
        "d",
        "d/",
        ".",
        "f/x",
        "pipe",
        "out/x",
        "dangling",
        "dangling/x",
        "lost",
        "new/",
        "..",
        "",
    ]
    paths += ["gone/../x", "x" * 256]
    told = [write(root, path, opener=opener) for path in paths]

    assert [f"{kind(one)}: {one.text[:150]}" for one in told] == snapshot(
        [
            "failed: 'd' is a folder.",
            "failed: 'd' is a folder.",
            "failed: '.' is a folder.",
            "failed: 'f/x' uses a file as a folder.",
            "failed: 'pipe' is not a regular file.",
            "denied: Not run: 'out/x' is or passes through a link out of the workspace.",
            "denied: Not run: 'dangling' is or passes through a broken link.",
            "denied: Not run: 'dangling/x' is or passes through a broken link.",
            "denied: Not run: 'lost' is or passes through a link out of the workspace.",
            "failed: 'new/' does not exist. Use glob to find it.",
            "denied: Not run: '..' is outside the workspace. Use a path inside it.",
            "failed: The path is empty. Pass the path of a file in the workspace.",
            "failed: 'gone/../x' does not exist. Use glob to find it.",
            "failed: 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        ]
    )
    assert names(tmp_path) == before


# ---------------------------------------------------------------- replacing files


def test_what_was_not_read_is_left_alone_and_the_difference_is_shown(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("one\ntwo\nthree\n\x1b", encoding="utf-8")
    done = write(tmp_path, "f", "one\n2\nthree\n\x1b")

    assert (kind(done), done.text) == (
        FailureKind.FAILED,
        snapshot("""\
Not written: 'f' already exists and was not read. Read it, then write again. It would have changed:
--- now
+++ yours
@@ -1,3 +1,3 @@
 one
-two
+2
 three\
"""),
    )
    assert (tmp_path / "f").read_text(encoding="utf-8") == "one\ntwo\nthree\n\x1b"


def test_a_long_difference_is_shown_in_part_and_a_very_long_one_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old\n" * 100, encoding="utf-8")
    (tmp_path / "g").write_text("old\n" * 60_000, encoding="utf-8")

    assert len(write(tmp_path, "f").text.splitlines()) == 41
    assert write(tmp_path, "g").text == snapshot(
        "Not written: 'g' already exists and was not read. Read it, then write again."
    )


def test_what_changed_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    """By its content: size, date and file are as they were."""
    path = tmp_path / "f"
    path.write_bytes(b"one")
    about = path.stat()
    tools = toolset(Workspace(tmp_path))
    results(tools, READ)
    path.write_bytes(b"two")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))

    [done] = results(tools, ("write", {"file_path": "f", "content": "new"}))

    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (about.st_mtime_ns, about.st_ino)
    assert (kind(done), done.text) == (
        FailureKind.FAILED,
        snapshot("""\
Not written: 'f' changed since it was read. Read it, then write again. It would have changed:
--- now
+++ yours
@@ -1 +1 @@
-two
+new\
"""),
    )
    assert path.read_bytes() == b"two"


def test_a_date_alone_is_no_change(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one")
    tools = toolset(Workspace(tmp_path))
    results(tools, READ)
    os.utime(path, ns=(1, 1))

    [done] = results(tools, ("write", {"file_path": "f", "content": "new"}))

    assert (done.text, path.read_bytes()) == (
        snapshot("Overwrote 'f' with 1 line."),
        b"new",
    )


def test_what_was_written_was_seen(tmp_path: Path) -> None:
    tools = toolset(Workspace(tmp_path))
    calls = [("write", {"file_path": "f", "content": content}) for content in "abb"]

    assert [one.text for one in results(tools, *calls)] == snapshot(
        [
            "Created 'f' with 1 line.",
            "Overwrote 'f' with 1 line.",
            "'f' already has this content. Nothing was changed.",
        ]
    )


def test_what_holds_just_that_already_needs_no_reading(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"same")
    before = (tmp_path / "f").stat()

    told = write(tmp_path, "f", "same").text

    assert told == snapshot("'f' already has this content. Nothing was changed.")
    assert (tmp_path / "f").stat().st_ino == before.st_ino


def test_a_file_seen_long_ago_is_still_known(tmp_path: Path) -> None:
    """More files than are kept whole, and all of them can be written."""
    for number in range(30):
        (tmp_path / str(number)).write_text(str(number), encoding="utf-8")
    tools = toolset(Workspace(tmp_path))
    results(tools, *(("read", {"file_path": str(number)}) for number in range(30)))
    (tmp_path / "3").write_text("other", encoding="utf-8")

    done = results(
        tools,
        *(("write", {"file_path": str(number), "content": "new"}) for number in range(30)),
    )

    assert [n for n, one in enumerate(done) if one.failure] == [3]
    assert "changed since it was read" in done[3].text


def test_line_ends_and_encodings_are_kept(tmp_path: Path) -> None:
    cases = {
        "crlf": (b"a\r\nb\r\n", "c\nd\n"),
        "crlf meant": (b"a\r\nb\r\n", "c\r\nd\n"),
        "mark": (b"\xef\xbb\xbfa\n", "b\n"),
        "utf-16": ("a\r\n".encode("utf-16"), "é\n"),
        "latin-1": ("un caf\xe9 noir\n".encode("latin-1"), "thé\n"),
        "latin-1 has no such letter": ("un caf\xe9 noir\n".encode("latin-1"), "猫\n"),
        "empty": (b"", "é\n"),
        "cr": (b"a\rb\r", "c\nd\n"),
        "mixed": (b"a\r\nb\nc\n", "d\n"),
    }

    assert {name: rewritten(tmp_path, *case) for name, case in cases.items()} == snapshot(
        {
            "crlf": (
                "Overwrote 'f' with 2 lines. It keeps its line endings (CRLF).",
                b"c\r\nd\r\n",
            ),
            "crlf meant": ("Overwrote 'f' with 2 lines.", b"c\r\nd\n"),
            "mark": (
                "Overwrote 'f' with 1 line. It keeps its encoding (utf-8, with a byte order mark).",
                b"\xef\xbb\xbfb\n",
            ),
            "utf-16": (
                "Overwrote 'f' with 1 line. It keeps its line endings (CRLF) and its encoding (utf-16-le, with a byte order mark).",
                b"\xff\xfe\xe9\x00\r\x00\n\x00",
            ),
            "latin-1": (
                "Overwrote 'f' with 1 line. It keeps its encoding (latin-1).",
                b"th\xe9\n",
            ),
            "latin-1 has no such letter": (
                "Not written: the file is latin-1, which has no U+732B (cjk unified ideograph-732b). Use other characters, or convert the file first.",
                b"un caf\xe9 noir\n",
            ),
            "empty": ("Overwrote 'f' with 1 line.", b"\xc3\xa9\n"),
            "cr": ("Overwrote 'f' with 2 lines.", b"c\nd\n"),
            "mixed": ("Overwrote 'f' with 1 line.", b"d\n"),
        }
    )


def test_what_was_no_text_becomes_text(tmp_path: Path) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256))

    assert rewritten(tmp_path, picture, "café\n") == snapshot(
        ("Overwrote 'f' with 1 line.", b"caf\xc3\xa9\n")
    )


def test_the_mode_is_kept_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "f"
    modes = []
    for mode in (0o755, 0o600, 0o4711):
        path.write_bytes(b"old")
        path.chmod(mode)
        write_over(tmp_path)
        modes.append(oct(stat.S_IMODE(path.stat().st_mode)))
        path.unlink()

    assert modes == ["0o755", "0o600", "0o711"]


def write_over(root: Path, path: str = "f") -> str:
    tools = toolset(Workspace(root))
    calls = ("read", {"file_path": path}), ("write", {"file_path": path, "content": "new"})
    return results(tools, *calls)[1].text


def test_the_owner_is_kept_where_that_may_be(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    groups = [one for one in (*os.getgroups(), 12_345) if one != os.getegid()]
    mine = os.geteuid() == 0 or groups[0] in os.getgroups()
    if mine:
        os.chown(path, -1 if os.geteuid() else 12_345, groups[0])
    before = path.stat()

    write_over(tmp_path)

    assert path.read_bytes() == b"new"
    assert (path.stat().st_uid, path.stat().st_gid) == (before.st_uid, before.st_gid)


def test_a_link_inside_stays_a_link(tmp_path: Path, opener: Opener) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_bytes(b"old")
    (tmp_path / "l").symlink_to("d/f")
    (tmp_path / "m").symlink_to("d")
    tools = toolset(Workspace(tmp_path, opener=opener))
    calls = [
        ("read", {"file_path": "l"}),
        ("write", {"file_path": "l", "content": "new"}),
        ("write", {"file_path": "m/f", "content": "newer"}),
        ("write", {"file_path": "m/g", "content": "newest"}),
    ]

    told = [one.text for one in results(tools, *calls)[1:]]

    assert told == snapshot(
        [
            "Overwrote 'd/f' with 1 line.",
            "Overwrote 'd/f' with 1 line.",
            "Created 'd/g' with 1 line.",
        ]
    )
    assert (tmp_path / "l").is_symlink()
    assert (tmp_path / "m").is_symlink()
    assert [(tmp_path / "d" / name).read_bytes() for name in "fg"] == [b"newer", b"newest"]


def test_another_name_of_the_same_file_keeps_the_old_content(tmp_path: Path) -> None:
    """A hard link may lead outside; what has that name is never changed."""
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "outside").write_bytes(b"old")
    (root / "f").hardlink_to(tmp_path / "outside")
    before = (tmp_path / "outside").stat()

    write_over(root)

    after = (tmp_path / "outside").stat()
    assert [(root / "f").read_bytes(), (tmp_path / "outside").read_bytes()] == [b"new", b"old"]
    assert (after.st_mtime_ns, after.st_mode, after.st_nlink) == (
        before.st_mtime_ns,
        before.st_mode,
        1,
    )


def test_a_file_too_large_to_be_held_is_not_changed(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)

    assert write(tmp_path, "f").text == snapshot(
        "'f' is too large to change (67,108,865 bytes). Use a command."
    )


def test_writes_of_one_turn_to_one_file_go_in_order(tmp_path: Path) -> None:
    async def turn() -> list[Result]:
        async with Executor(toolset(Workspace(tmp_path))) as executor:
            return await executor.run_all(
                [
                    Call("write", {"file_path": path, "content": str(number)}, str(number))
                    for number in range(20)
                    for path in ["./f" if number % 2 else "f"]
                ]
            )

    done = anyio.run(turn)

    assert {kind(one) for one in done} == {None}
    assert (tmp_path / "f").read_text(encoding="utf-8") == "19"
