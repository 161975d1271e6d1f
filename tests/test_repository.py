"""The repository's root: known files only, so that nothing stray is published."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

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
