"""Searches that would take too long, find too much or break: partial answers that say so."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, FailureKind
from tools.search.stage import ask, made, program, text, tools
from tools.stage import descriptors, rounds


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return made(tmp_path / "ws", {"a.txt": "hit\n"})


def test_what_was_found_in_time_is_told(tmp_path: Path, root: Path) -> None:
    slow = program(tmp_path / "rg", r"printf './a.txt\0001:1:hit\n'; exec sleep 1000")

    assert text(root, "grep", slow, options={"seconds": 1.5}, pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file (1 line).]
[Incomplete: the search timed out after 1.5 s, so more may match. Pass a folder as path, or a narrower pattern.]\
""")


LINES = b"A\n" * 200_000


@pytest.mark.parametrize("args", [{"fixed_strings": True}, {"pattern": "[a]"}], ids=str)
def test_many_matches_in_one_file_are_no_dearer_each(root: Path, args: dict[str, Any]) -> None:
    """With the square of their number, the time of a test would not be enough."""
    made(root, {"b.txt": LINES})
    asked = {"pattern": "a", "multiline": True, "ignore_case": True, "output_mode": "count", **args}

    assert text(root, "grep", **asked) == snapshot("""\
b.txt: 200,000
[1 file, 200,000 matching lines.]\
""")


def test_files_that_were_found_in_time_are_told(tmp_path: Path, root: Path) -> None:
    slow = program(tmp_path / "rg", r"printf 'a.txt\000b.t'; exec sleep 1000")
    none = program(tmp_path / "none", "exec sleep 1000")

    assert text(root, "glob", slow, options={"seconds": 1.5}, pattern="*") == snapshot("""\
a.txt
[1 file.]
[Incomplete: the search timed out after 1.5 s, so more may match. Pass a folder as path, or a narrower pattern.]\
""")
    assert text(root, "glob", none, options={"seconds": 0.2}, pattern="*") == snapshot("""\
[No file found so far.]
[Incomplete: the search timed out after 0.2 s, so more may match. Pass a folder as path, or a narrower pattern.]\
""")
    assert text(root, "grep", none, options={"seconds": 0.2}, pattern="x") == snapshot("""\
[No matches so far.]
[Incomplete: the search timed out after 0.2 s, so more may match. Pass a folder as path, or a narrower pattern.]\
""")


def test_a_search_without_time_says_so(root: Path) -> None:
    assert text(root, "grep", options={"seconds": 0.0}, pattern="hit") == snapshot("""\
[No matches so far.]
[Incomplete: the search timed out after 0 s, so more may match. Pass a folder as path, or a narrower pattern.]\
""")
    assert text(root, "glob", options={"seconds": 0.0}, pattern="*") == snapshot("""\
[No file found so far.]
[Incomplete: the search timed out after 0 s, so more may match. Pass a folder as path, or a narrower pattern.]\
""")


def test_a_search_that_breaks_says_so(tmp_path: Path, root: Path) -> None:
    killed = program(tmp_path / "rg", r"printf './a.txt\0001:1:hit\n'; kill -9 $$")
    odd = program(tmp_path / "odd", "echo 'something else' >&2; exit 2")
    garbage = program(
        tmp_path / "garbage",
        r"yes x | tr -d '\n' | head -c 5000000; printf '\n./a.txt\0001:1:hit\n'",
    )

    assert text(root, "grep", killed, pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file (1 line).]
[Incomplete: the search was killed. Pass a folder as path, and retry.]\
""")
    assert ask(root, "grep", odd, pattern="hit").text == snapshot(
        "The search failed. Try a simpler pattern."
    )
    assert text(root, "grep", garbage, pattern="hit") == snapshot("""\
a.txt
1: hit
[1 matching line in 1 file (1 line).]\
""")


def test_a_match_far_into_a_line_is_not_held(root: Path) -> None:
    made(
        root,
        {"a.txt": "x" * 5_000_000 + "hit" + "y" * 5_000_000 + "\nhit\n" + "z" * 5_000_000 + "hit"},
    )

    assert text(root, "grep", pattern="hit") == snapshot("""\
a.txt
1: [... the match is too far into a very long line to show ...]
2: hit
3: [... the match is too far into a very long line to show ...]
[3 matching lines in 1 file.]
[Long lines are clipped at [...].]\
""")


@pytest.mark.parametrize("mode", ["content", "files", "count"])
def test_a_flood_is_the_same_every_time(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handrail.tools._search.hits.FLOOD", 500)
    monkeypatch.setattr("handrail.tools._search.page.FLOOD", 500)
    names = [f"{n % 7}/{n:03}.txt" for n in range(600)]
    made(tmp_path, dict.fromkeys(names, "hit\nhit\n"))
    args: dict[str, Any] = {"pattern": "hit", "limit": 3, "output_mode": mode}

    answers = {text(tmp_path, "grep", **args) for _ in range(3)}
    assert len(answers) == 1
    assert answers.pop().splitlines()[-1].replace("500", "N") in FLOODS[mode]


FLOODS = {
    "content": {
        "[Matching lines 1 to 3 of more than N in at least 2 files. For more, pass offset=3 or narrow the search.]",
        "[Matching lines 1 to 3 of more than N in at least 251 files. For more, pass offset=3 or narrow the search.]",
    },
    "files": {"[Files 1 to 3 of more than N. For more, pass offset=3 or narrow the search.]"},
    "count": {"[Files 1 to 3 of more than N. For more, pass offset=3 or narrow the search.]"},
}


def test_a_million_matching_lines_stay_small(tmp_path: Path) -> None:
    lines = rounds(200_000, 1_000_000)
    made(tmp_path, {f"{n}.txt": "hit and more text\n" * (lines // 20) for n in range(20)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = text(tmp_path, "grep", pattern="hit")

    assert answer.splitlines()[-1] == snapshot(
        "[Matching lines 1 to 250 of more than 19,999 in 20 files. For more, pass offset=250 or narrow the search.]"
    )
    assert len(answer) < 21_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


def test_a_page_has_room_for_so_many_characters(tmp_path: Path) -> None:
    made(tmp_path, {"a.txt": f"hit {'x' * 400}\n" * 300})
    answer = text(tmp_path, "grep", pattern="hit")

    assert len(answer) < 21_000
    assert answer.splitlines()[-1] == snapshot(
        "[Matching lines 1 to 48 of 300 in 1 file (300 lines). For more, pass offset=48 or narrow the search.]"
    )


def test_many_files_are_sorted_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.tools._search.glob.MAX_DATED_FILES", 300)
    made(tmp_path, {f"{n % 10}/{n}.txt": "" for n in range(1_500)})

    answer = text(tmp_path, "glob", pattern="**", limit=3)
    assert answer == snapshot("""\
0/0.txt
0/10.txt
0/100.txt
[3 of 1,500 files, by name because there are many. To see others, narrow the pattern or pass a folder as path.]\
""")


def test_a_file_that_goes_while_it_is_dated_comes_last(tmp_path: Path, root: Path) -> None:
    ghost = program(tmp_path / "rg", r"printf 'ghost.txt\000a.txt\000'")

    assert text(root, "glob", ghost, pattern="*.txt") == snapshot("""\
a.txt
ghost.txt
[2 files, newest first.]\
""")


async def test_a_search_that_is_cancelled_leaves_nothing_behind(tmp_path: Path) -> None:
    slow = program(tmp_path / "rg", "echo $$ > /dev/null; exec sleep 1000")
    made(tmp_path / "ws", {f"{n}/{m}": "x\n" * 50 for n in range(30) for m in range(30)})
    both = tools(tmp_path / "ws", slow)
    before, children = descriptors(), _children()  # a model server of other tests may be one
    async with Executor(both) as executor, anyio.create_task_group() as tasks:
        results = []

        async def run() -> None:
            results.append(await executor.run(Call("grep", {"pattern": "x{1,9}y"}, "c1")))

        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        executor.cancel()

    assert [one.failure and one.failure.kind for one in results] == [FailureKind.CANCELLED]
    with anyio.fail_after(5):
        while descriptors() > before:
            await anyio.lowlevel.checkpoint()
    assert _children() <= children


def _children() -> set[str]:
    """The ids of this process's child processes."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has ended
            found |= {*(task / "children").read_text(encoding="utf-8").split()}
    return found


def test_ripgrep_may_read_nothing_but_the_workspace(tmp_path: Path, root: Path) -> None:
    made(tmp_path, {"out/secret": "CANARY"})
    thief = program(
        tmp_path / "rg",
        f"printf './a.txt\\0001:1:hit\\n'; printf './b\\0001:1:'; cat {tmp_path}/out/secret || echo no",
    )

    assert text(root, "grep", thief, pattern="hit") == snapshot("""\
a.txt
1: hit

b
1: no
[2 matching lines in 2 files.]\
""")
