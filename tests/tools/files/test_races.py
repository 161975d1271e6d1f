"""Another process swaps names as fast as it can: nothing outside is read, written or made.

In each test, the way that checks first and opens then is run against the same attacker, and loses:
were the attacker too slow, the tests would show nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import Call, Executor, FailureKind, HandrailError, Result
from handrail.tools import Workspace
from tools.files.test_openat import OPENERS
from tools.stage import Opener, attacked, kind, rounds, toolset, tree

READS = rounds(quick=1_000, soak=200_000)
WRITES = rounds(quick=150, soak=20_000)
TRIES = 300_000
"""Tries until something has to have happened: the weak way lost, or both were seen."""
CANARY = "CANARY-f3a1"

pytestmark = pytest.mark.timeout(60 if READS < 10_000 else 1_200)


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """A folder with a workspace in it, and beside it what must not be touched."""
    for folder in ("ws/a/d", "out/deep"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ws/a/d/f").write_text("inside", encoding="utf-8")
    (tmp_path / "out/f").write_text(CANARY, encoding="utf-8")
    (tmp_path / "out/deep/f").write_text(CANARY, encoding="utf-8")
    (tmp_path / "ws/a/l").symlink_to(tmp_path / "out")
    (tmp_path / "ws/a/r").symlink_to("../../out")
    return tmp_path


def every(ground: Path, opener: Opener, least: int, args: Callable[[int], Call]) -> list[Result]:
    """The results of many calls, one after the other; more, until some went well and some did not.

    On a busy machine the attacker may sleep for a while, and then there is nothing to be seen.
    """

    async def turn() -> list[Result]:
        tools = toolset(Workspace(ground / "ws", opener=opener))
        done, kinds = list[Result](), set[FailureKind | None]()
        async with Executor(tools) as executor:
            while len(done) < least or (len(kinds) < 2 and len(done) < TRIES):
                done.append(await executor.run(args(len(done))))
                kinds.add(kind(done[-1]))
        return done

    return anyio.run(turn)


def until_lost(attempt: Callable[[], bool]) -> bool:
    """Whether a weak way loses, sooner or later."""
    for _ in range(TRIES):
        with suppress(OSError):  # it may get a name in the middle of a swap
            if attempt():
                return True
    return False


def checked(root: Path, path: str) -> bool:
    """The weak way to ask whether a path is inside."""
    return (root / path).resolve().is_relative_to(root)


def naive_read(root: Path) -> bool:
    """Whether a check, and an open after it, show what is outside."""
    inside = checked(root, "a/d/f")
    return inside and (root / "a/d/f").read_text(encoding="utf-8") == CANARY


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("link", ["l", "r"])
def test_no_read_follows_a_swapped_folder_outside(ground: Path, link: str, opener: Opener) -> None:
    def one(number: int) -> Call:
        return Call("read", {"file_path": "a/d/f"}, str(number))

    with attacked(ground / "ws/a", "d", link):
        seen = every(ground, opener, READS, one)
        lost = until_lost(lambda: naive_read(ground / "ws"))

    assert not any(CANARY in result.text for result in seen)
    assert {kind(one) for one in seen} >= {None, "denied"}
    assert lost


@pytest.mark.parametrize("opener", OPENERS)
def test_no_open_file_is_ever_one_outside(ground: Path, opener: Opener) -> None:
    """The same without an executor around it, which is faster than the judgement before a call."""
    workspace = Workspace(ground / "ws", opener=opener)
    got = set[bytes]()
    with attacked(ground / "ws/a", "d", "l"):
        for number in range(TRIES):
            try:
                with workspace.file("a/d/f") as found, open(found.fd, "rb", closefd=False) as file:
                    got.add(file.read())
            except HandrailError as error:
                got.add(type(error).__name__.encode())
            if number > READS and len(got) > 1:
                break
        lost = until_lost(lambda: naive_read(ground / "ws"))

    assert got == {b"inside", b"Refused"}
    assert lost


@pytest.mark.parametrize("opener", OPENERS)
def test_no_write_lands_outside(ground: Path, opener: Opener) -> None:
    before = tree(ground / "out")

    def one(number: int) -> Call:
        return Call("write", {"file_path": f"a/d/w{number}", "content": "new"}, str(number))

    def naive() -> bool:
        if checked(ground / "ws", "a/d/naive"):
            (ground / "ws/a/d/naive").write_text("new", encoding="utf-8")
        return (ground / "out/naive").exists()

    with attacked(ground / "ws/a", "d", "l"):
        done = every(ground, opener, WRITES, one)
        after = tree(ground / "out")
        lost = until_lost(naive)

    assert after == before
    assert {kind(one) for one in done} >= {None, "denied"}
    assert lost


@pytest.mark.parametrize("opener", OPENERS)
def test_no_folder_is_made_outside(ground: Path, opener: Opener) -> None:
    before = tree(ground / "out")

    def one(number: int) -> Call:
        return Call("write", {"file_path": f"a/d/n{number}/x/f", "content": "new"}, str(number))

    def naive() -> bool:
        if checked(ground / "ws", "a/d/naive/x"):
            (ground / "ws/a/d/naive/x").mkdir(parents=True, exist_ok=True)
        return (ground / "out/naive").exists()

    with attacked(ground / "ws/a", "d", "l"):
        done = every(ground, opener, WRITES, one)
        after = tree(ground / "out")
        lost = until_lost(naive)

    assert after == before
    assert {kind(one) for one in done} >= {None, "denied"}
    assert lost


@pytest.mark.parametrize("opener", OPENERS)
def test_a_file_swapped_with_a_link_is_never_written_through(ground: Path, opener: Opener) -> None:
    """The last name of a path, and an edit of what is there."""
    (ground / "ws/a/d/l").symlink_to(ground / "out/f")
    before = tree(ground / "out")

    def one(number: int) -> Call:
        args: dict[str, Any] = {
            "file_path": "a/d/f",
            "old_string": "inside",
            "new_string": "inside",
        }
        if number % 2:
            args = {"file_path": "a/d/f", "content": f"inside {number}"}
        return Call("write" if number % 2 else "edit", args, str(number))

    def naive() -> bool:
        if checked(ground / "ws", "a/d/f"):
            (ground / "ws/a/d/f").write_text("new", encoding="utf-8")
        return (ground / "out/f").read_text(encoding="utf-8") != CANARY

    with attacked(ground / "ws/a/d", "f", "l"):
        done = every(ground, opener, WRITES, one)
        after = tree(ground / "out")
        lost = until_lost(naive)

    assert after == before
    assert not any(CANARY in result.text for result in done)
    assert lost
