"""An approval is for the content that the question showed: a file that changed since stays."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Allow, Ask, Call, CheckedCall, Executor, Toolset
from handrail.approvals import defer
from handrail.permissions import Pending
from handrail.tools import Workspace, apply_patch, edit, read, write
from handrail.tools._files import seen

pytestmark = pytest.mark.anyio

NOTEBOOK = (
    '{"cells": [{"cell_type": "code", "source": ["two"]}], "nbformat": 4, "metadata": {"a": "one"}}'
)
PATCH = "*** Begin Patch\n*** Update File: a.txt\n@@\n-two\n+TWO\n*** End Patch"
CALLS = {
    "edit": Call("edit", {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"}),
    "several edits": Call(
        "edit",
        {
            "file_path": "a.txt",
            "old_string": "two",
            "new_string": "TWO",
            "edits": [{"old_string": "three", "new_string": "3"}],
        },
    ),
    "notebook": Call("edit", {"file_path": "a.ipynb", "old_string": "two", "new_string": "TWO"}),
    "patch": Call("apply_patch", {"input": PATCH}),
    "write": Call("write", {"file_path": "a.txt", "content": "TWO"}),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "a.ipynb").write_text(NOTEBOOK, encoding="utf-8")
    return tmp_path


def file_of(call: Call, root: Path) -> Path:
    return (
        root / dict(call.args).get("file_path", "a.txt")
        if call.name != "apply_patch"
        else root / "a.txt"
    )


async def run(
    root: Path, *calls: Call, meanwhile: Callable[[], object] = lambda: None, asks: bool = True
) -> list[str]:
    """Run calls that are approved, after something else has happened."""

    async def approve(_pending: Pending) -> Allow:
        meanwhile()
        return Allow()

    workspace = Workspace(root)
    tools = Toolset(*(make(workspace) for make in (read, write, edit, apply_patch)))
    policy: Any = (lambda call: Ask("?") if call.name != "read" else Allow()) if asks else None
    async with Executor(tools, policy=policy, approvals=approve) as executor:
        for path in ("a.txt", "a.ipynb"):
            await executor.run(Call("read", {"file_path": path}))
        return [result.text for result in await executor.run_all(calls)]


def change(path: Path) -> None:
    """Replace a line by another one of the same length, at the same time."""
    about = path.stat()
    path.write_text(path.read_text(encoding="utf-8").replace("one", "ONE"), encoding="utf-8")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.parametrize("name", CALLS)
async def test_an_approved_change_of_a_file_that_changed_is_refused(root: Path, name: str) -> None:
    """The control is the same call if nothing has changed."""
    call = CALLS[name]
    path = file_of(call, root)
    [refused] = await run(root, call, meanwhile=lambda: change(path))
    text = path.read_text(encoding="utf-8")

    assert refused == (
        f"Not changed: {path.name!r} changed after the user was asked. Read it, then call again."
    )
    assert ("ONE" in text, "TWO" in text) == (True, False)
    await run(root, call)
    assert "TWO" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["edit", "patch", "write"])
async def test_a_call_that_was_to_fail_does_not_succeed_instead(root: Path, name: str) -> None:
    call, path = CALLS[name], file_of(CALLS[name], root)
    path.unlink() if name != "write" else path.write_text("new", encoding="utf-8")

    def appear() -> None:
        path.write_text("one\ntwo\nthree\n", encoding="utf-8")

    [refused] = await run(root, call, meanwhile=appear)

    assert "Not " in refused
    assert path.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


async def test_calls_of_one_turn_may_change_the_same_file(root: Path) -> None:
    second = Call("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "ONE"})
    told = await run(root, CALLS["edit"], second, CALLS["patch"])

    assert [text.partition(",")[0] for text in told[:2]] == ["Edited 'a.txt'", "Edited 'a.txt'"]
    assert (root / "a.txt").read_text(encoding="utf-8") == "ONE\nTWO\nthree\n"


@pytest.mark.parametrize("name", ["edit", "patch", "write"])
async def test_an_approval_is_for_what_its_own_request_showed(root: Path, name: str) -> None:
    """Two requests have equal arguments. The file changed between them."""
    call, path, workspace = CALLS[name], file_of(CALLS[name], root), Workspace(root)
    tools = Toolset(*(make(workspace) for make in (read, write, edit, apply_patch)))

    def policy(checked: CheckedCall) -> Allow | Ask:
        return Ask("?") if checked.name != "read" else Allow()

    async with Executor(tools, policy=policy, approvals=defer) as executor:
        turns = [executor.turn() for _ in range(2)]
        for turn in turns:
            await executor.run(Call("read", {"file_path": path.name}))
            await turn.run(call)
            change(path)
        path.write_text("ONE\ntwo\nthree\n", encoding="utf-8")  # as the second request showed it
        told = list[str]()
        for turn in turns:
            turn.answer(turn.pending[0], Allow())
            told += [result.text for result in await turn.results()]

    assert told[0] == (
        f"Not changed: {path.name!r} changed after the user was asked. Read it, then call again."
    )
    assert "Not changed" not in told[1]
    assert "TWO" in path.read_text(encoding="utf-8")


async def test_what_was_not_asked_about_is_as_before(root: Path) -> None:
    [told] = await run(root, CALLS["edit"], asks=False)

    assert told == "Edited 'a.txt', line 2."


async def test_only_some_are_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "_MAX_KEPT", 1)
    second = Call("edit", {"file_path": "a.txt", "old_string": "one", "new_string": "ONE"})
    told = await run(root, CALLS["edit"], second)

    assert [text.partition(",")[0] for text in told] == ["Edited 'a.txt'", "Edited 'a.txt'"]
