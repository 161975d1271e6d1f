"""What a release must have, and that each check can fail."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / ".ci"))

from release import check_final, check_tree, make_sbom  # noqa: E402


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what the checks read."""
    for name in (
        "pyproject.toml",
        "CHANGELOG.md",
        "README.md",
        "mkdocs.yml",
        ".ci/pythons",
        ".github/workflows/check.yml",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def change(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after, 1), encoding="utf-8")


def test_this_version_can_be_released() -> None:
    assert list(check_tree(ROOT)) == []


@pytest.mark.parametrize(
    ("name", "before", "after", "found"),
    [
        (
            "CHANGELOG.md",
            "## 0.1.0",
            "## 0.0.9",
            "CHANGELOG.md: the first entry is not that of 0.1.0",
        ),
        (
            ".ci/pythons",
            "3.12 ",
            "",
            ".ci/pythons: tests ['3.11', '3.13', '3.14'], and the classifiers name ['3.11', '3.12', '3.13', '3.14']",
        ),
        (
            "mkdocs.yml",
            "theme:",
            "site_url: https://handrail.example/docs\ntheme:",
            "mkdocs.yml: names handrail.example; only pyproject.toml has addresses",
        ),
    ],
)
def test_each_check_of_the_sources_can_fail(  # noqa: PLR0917  a table
    tree: Path, name: str, before: str, after: str, found: str
) -> None:
    assert list(check_tree(tree)) == []

    change(tree / name, before, after)

    assert list(check_tree(tree)) == [found]


def test_a_release_has_real_addresses_a_date_and_its_tag(tree: Path) -> None:
    change(tree / "CHANGELOG.md", "(unreleased)", "(soon)")

    assert list(check_final(tree, "v0.2.0")) == [
        "pyproject.toml: the address of Documentation is a placeholder, https://handrail.example/docs",
        "pyproject.toml: the address of Source is a placeholder, https://handrail.example/source",
        "pyproject.toml: the address of Changelog is a placeholder, https://handrail.example/changelog",
        "pyproject.toml: the address of Issues is a placeholder, https://handrail.example/issues",
        "CHANGELOG.md: 0.1.0 has no date, but (soon)",
        "the tag is v0.2.0, and the version 0.1.0",
        "README.md: says 'not published yet'",
    ]
    change(tree / "CHANGELOG.md", "(soon)", "(2026-12-01)")
    change(tree / "README.md", "  # not published yet: in a clone, pip install .", "")
    file = tree / "pyproject.toml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("handrail.example", "example.org"),
        encoding="utf-8",
    )
    assert list(check_final(tree, "v0.1.0")) == []


def test_the_list_of_packages_names_each_once() -> None:
    assert make_sbom([], "0.1.0") == {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": "handrail",
                "version": "0.1.0",
                "purl": "pkg:pypi/handrail@0.1.0",
            }
        },
        "components": [],
    }
