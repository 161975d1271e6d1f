"""The repository's root: known files only, so that nothing stray is published."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = {
    ".git",  # in a worktree it is a file
    ".gitignore",
    ".pre-commit-config.yaml",
    "AGENTS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "SECURITY.md",
    "VERSIONING.md",
    "action.yml",
    "constraints.txt",
    "mkdocs.yml",
    "pyproject.toml",
}


def strays(root: Path) -> list[str]:
    """The files at the root that nobody knows, those left out that git ignores."""
    ignored = (root / ".gitignore").read_text(encoding="utf-8").split()
    built = [pattern for pattern in ignored if pattern != "*.whl"]  # a wheel belongs into dist/
    return sorted(
        path.name
        for path in root.iterdir()
        if path.is_file()
        and path.name not in FILES
        and not any(fnmatch(path.name, pattern) for pattern in built)
    )


def test_the_root_has_known_files_only() -> None:
    assert strays(ROOT) == []


def test_a_stray_file_is_found(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(".coverage*\n*.whl\n", encoding="utf-8")
    for name in ("README.md", "notes.txt", "other-2.16-py3-none-any.whl", ".coverage.1"):
        (tmp_path / name).touch()

    assert strays(tmp_path) == ["notes.txt", "other-2.16-py3-none-any.whl"]


def find_conflicts(root: Path) -> list[str]:
    """The files with marks that a merge has left."""
    marks = tuple(f"{sign * 7} " for sign in "<>")
    several = (path for kind in ("py", "md", "toml", "yaml") for path in root.rglob(f"*.{kind}"))
    return sorted(
        str(path.relative_to(root))
        for path in several
        if any(line.startswith(marks) for line in path.read_text(encoding="utf-8").splitlines())
    )


@pytest.mark.parametrize("folder", ["src", "docs", "tests", "examples", "bench"])
def test_no_file_has_the_marks_of_a_conflict(folder: str) -> None:
    assert find_conflicts(ROOT / folder) == []


def test_the_marks_of_a_conflict_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"{'<' * 7} HEAD\na\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("<<\n", encoding="utf-8")

    assert find_conflicts(tmp_path) == ["a.md"]
