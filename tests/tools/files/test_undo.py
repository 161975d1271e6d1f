"""undo: a change is taken back while the file is still as it left it, and not otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from handrail import ToolFailed
from handrail.tools import Workspace, list_changes, undo
from handrail.tools._files.undo import FileEdit, UndoLog  # the limit has no other name
from tools.stage import results, toolset


def edit(old: str, new: str, path: str = "f") -> tuple[str, dict[str, str]]:
    return "edit", {"file_path": path, "old_string": old, "new_string": new}


def test_a_change_is_undone_and_the_mode_stays(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    path = tmp_path / "d/f"
    path.parent.mkdir()
    path.write_bytes(b"\xef\xbb\xbfold\r\n")
    path.chmod(0o750)
    results(toolset(workspace), edit("old", "new", "d/f"))
    changed = path.read_bytes()

    report = undo(workspace, "c1")

    assert changed == b"\xef\xbb\xbfnew\r\n"
    assert (report.entry.call_id, report.entry.command, report.entry.paths) == ("c1", "", ("d/f",))
    assert (report.restored, report.deleted, report.left) == (("d/f",), (), {})
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"\xef\xbb\xbfold\r\n", 0o750)


def test_several_changes_are_undone_backwards(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("a", encoding="utf-8")
    results(toolset(workspace), edit("a", "b"), edit("b", "c"))

    with pytest.raises(ToolFailed, match=r"^Not undone: 'f' has changed since 'c1'.$"):
        undo(workspace, "c1")
    undo(workspace, "c2")
    assert (tmp_path / "f").read_text(encoding="utf-8") == "b"
    undo(workspace, "c1")
    assert (tmp_path / "f").read_text(encoding="utf-8") == "a"


def test_a_file_that_was_made_is_taken_away(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    results(toolset(workspace), ("write", {"file_path": "a/f", "content": "new"}))

    assert undo(workspace, "c1").deleted == ("a/f",)
    assert list((tmp_path / "a").iterdir()) == []


def test_what_was_undone_was_seen_and_can_be_written(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("a", encoding="utf-8")
    results(toolset(workspace), edit("a", "b"))
    undo(workspace, "c1")

    [done] = results(toolset(workspace), ("write", {"file_path": "f", "content": "c"}))

    assert done.failure is None


def test_what_cannot_be_undone_is_said(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for name in "fgh":
        (tmp_path / name).write_text("a", encoding="utf-8")
    results(toolset(workspace), edit("a", "b", "f"), edit("a", "b", "g"), edit("a", "b", "h"))
    undo(workspace, "c1")
    (tmp_path / "g").write_text("theirs", encoding="utf-8")
    (tmp_path / "h").unlink()
    told: list[str] = []
    for call_id in ("c1", "c2", "c3", "c4"):
        with pytest.raises(ToolFailed) as error:
            undo(workspace, call_id)
        told.append(str(error.value))
    with pytest.raises(ToolFailed) as error:
        undo(Workspace(tmp_path), "c1")

    assert [*told, str(error.value)] == snapshot(
        [
            "Not undone: no change by 'c1' is kept. Kept: c2, c3.",
            "Not undone: 'g' has changed since 'c2'.",
            "Not undone: 'h' has changed since 'c3'.",
            "Not undone: no change by 'c4' is kept. Kept: c2, c3.",
            "Not undone: no change by 'c1' is kept. Kept: none.",
        ]
    )
    assert (tmp_path / "g").read_text(encoding="utf-8") == "theirs"


def test_a_refused_call_leaves_nothing_to_undo(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("a", encoding="utf-8")
    results(toolset(workspace), edit("gone", "b"), ("write", {"file_path": "f", "content": "a"}))

    with pytest.raises(ToolFailed, match=r"^Not undone: no change is kept.$"):
        undo(workspace)


def test_the_latest_change_of_a_call_is_undone_first(tmp_path: Path) -> None:
    """Ids are unique within a turn only."""
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("a", encoding="utf-8")
    for old, new in ("ab", "bc"):
        results(toolset(workspace), edit(old, new))
    seen = list[str]()
    for _ in range(2):
        undo(workspace, "c1")
        seen.append((tmp_path / "f").read_text(encoding="utf-8"))

    assert seen == ["b", "a"]


def test_the_latest_fifty_changes_are_kept(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    (tmp_path / "f").write_text("0", encoding="utf-8")
    results(toolset(workspace), *(edit(str(n), str(n + 1)) for n in range(60)))

    assert [entry.call_id for entry in list_changes(workspace)] == [f"c{n}" for n in range(11, 61)]


def test_the_oldest_changes_are_dropped_when_contents_are_too_large(tmp_path: Path) -> None:
    log = UndoLog(tmp_path, max_bytes=10_000)
    kept = list[list[str]]()
    for number in range(12):
        content = str(number).encode() * (1_000 if number < 11 else 11_000)
        log.put_edits(str(number), [FileEdit("f", content[:-1], content)])
        kept.append([entry.call_id for entry in UndoLog(tmp_path).entries()])

    assert (kept[8], kept[10], kept[11]) == snapshot(
        (
            ["0", "1", "2", "3", "4", "5", "6", "7", "8"],
            ["2", "3", "4", "5", "6", "7", "8", "9", "10"],
            ["2", "3", "4", "5", "6", "7", "8", "9", "10"],
        )
    )
    assert sum(file.stat().st_size for file in (tmp_path / "objects").rglob("*/*")) <= 10_000
