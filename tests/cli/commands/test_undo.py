"""`handrail undo`: changes of tools and commands are undone in a later process."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

from inline_snapshot import snapshot

from cli_harness import Handrail, Ran

RUN = ("tools", "call", "--mode", "open", "bash")


def timeless(ran: Ran) -> tuple[int, str, str]:
    return ran.exit, re.sub(r"\d\d-\d\d \d\d:\d\d", "MM-DD HH:MM", ran.out), ran.err


def test_a_command_that_deleted_files_is_undone_after_a_restart(handrail: Handrail) -> None:
    tracked, untracked = handrail.write("tracked", "one\n"), handrail.write("untracked", "two\n")
    git = ["git", "-C", str(handrail.workspace), "-c", "user.name=A", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "tracked"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)  # noqa: S603  git
    ran = handrail.process(*RUN, "command=rm tracked untracked; echo x > new")
    listed = handrail.process("undo", "--list")
    undone = handrail.process("undo")

    assert (ran.exit, timeless(listed), timeless(undone)) == snapshot(
        (
            0,
            (
                0,
                """\
change  time         paths  made by
1       MM-DD HH:MM  3      rm tracked untracked; echo x > new
""",
                "",
            ),
            (
                0,
                """\
undid the command: rm tracked untracked; echo x > new
restored: tracked, untracked
deleted: new
""",
                "",
            ),
        )
    )
    assert (tracked.read_text(encoding="utf-8"), untracked.read_text(encoding="utf-8")) == (
        "one\n",
        "two\n",
    )
    assert not (handrail.workspace / "new").exists()


def test_changes_are_listed_and_undone_by_number(handrail: Handrail) -> None:
    handrail.write("a", "1")
    for line in ("echo 2 > a", "echo 3 > b"):
        handrail(*RUN, f"command={line}")
    handrail("tools", "call", "--mode", "edits", "write", "file_path=c", "content=4")
    (handrail.workspace / "c").write_text("mine", encoding="utf-8")
    ran = [
        timeless(handrail("undo", *words))
        for words in (["--list"], ["1"], ["7"], [], ["2"], ["--list"], ["x"])
    ]

    assert ran == snapshot(
        [
            (
                0,
                """\
change  time         paths  made by
3       MM-DD HH:MM  1      a change to c
2       MM-DD HH:MM  1      echo 3 > b
1       MM-DD HH:MM  1      echo 2 > a
""",
                "",
            ),
            (
                0,
                """\
undid the command: echo 2 > a
restored: a
""",
                "",
            ),
            (
                1,
                "",
                """\
handrail: Not undone: no change with the number 7 is kept.
  list the changes with `handrail undo --list`
""",
            ),
            (
                1,
                "",
                """\
handrail: Not undone: 'c' has changed since 'call'.
  list the changes with `handrail undo --list`
""",
            ),
            (
                0,
                """\
undid the command: echo 3 > b
deleted: b
""",
                "",
            ),
            (
                0,
                """\
change  time         paths  made by
3       MM-DD HH:MM  1      a change to c
""",
                "",
            ),
            (
                2,
                "",
                """\
handrail: invalid value for '[N]': must be an integer of at least 1, got 'x'
  see `handrail undo --help`
""",
            ),
        ]
    )
    (handrail.workspace / "c").write_text("4", encoding="utf-8")
    assert timeless(handrail("undo")) == (0, "undid the last change to c\n", "")
    assert [path.name for path in handrail.workspace.iterdir()] == ["a"]


def test_what_is_left_and_what_is_not_kept_is_named(handrail: Handrail) -> None:
    for number in range(12):
        handrail.write(f"f{number:02}", "1")
    with (handrail.workspace / "large.iso").open("wb") as file:
        file.truncate(1 << 30)
    handrail(*RUN, "command=for f in f*; do echo 2 > $f; done; touch $'odd\\nname'")
    (handrail.workspace / "f01").write_text("mine", encoding="utf-8")

    assert timeless(handrail("undo")) == snapshot(
        (
            1,
            """\
undid the command: for f in f*; do echo 2 > $f; done; touch $'odd\\nname'
restored: f00, f02, f03, f04, f05, f06, f07, f08, f09, f10, and 1 more
deleted: odd\\u{A}name
not restored: f01 (has changed since)
not kept: large.iso (1 GB)
""",
            "",
        )
    )


def test_a_command_that_only_reads_is_not_kept(handrail: Handrail) -> None:
    handrail.write("a", "1")
    handrail(*RUN, "command=cat a")

    assert not (handrail.state / "undo").exists()
    assert timeless(handrail("undo", "--list")) == (0, "nothing to undo\n", "")


def test_logs_of_workspaces_that_are_not_used_are_deleted_after_a_month(handrail: Handrail) -> None:
    old, recent = (handrail.state / "undo" / name for name in ("old", "recent"))
    for folder in (old, recent):
        (folder / "objects").mkdir(parents=True)
    os.utime(old, (0, time.time() - 31 * 24 * 3600))
    handrail("undo", "--list")

    assert (old.exists(), recent.exists()) == (False, True)


def test_a_log_in_the_workspace_lasts_only_for_one_process(handrail: Handrail) -> None:
    """Commands could change what undo restores."""
    inside: dict[str, str | None] = {"XDG_STATE_HOME": str(handrail.workspace / "state")}
    ran = handrail(*RUN, "command=echo x > new", env=inside)

    assert (ran.exit, timeless(handrail("undo", env=inside))) == snapshot(
        (
            0,
            (
                1,
                "",
                """\
handrail: Not undone: no change is kept.
  list the changes with `handrail undo --list`
""",
            ),
        )
    )
    assert not Path(handrail.workspace / "state/handrail/undo").exists()
