"""What can be imported on macOS and Windows is what the FAQ says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.agent import Instructions, Notice, read_instructions

HERE = Path(__file__)
FAQ = HERE.parents[2] / "docs/get-started/faq.md"


SYSTEMS = {"darwin": "macOS", "win32": "Windows"}


@pytest.fixture(scope="module")
def missing() -> dict[str, set[str]]:
    """The packages that cannot be imported on each system, or not with all their names."""
    found = {system: set[str]() for system in (sys.platform, *SYSTEMS)}
    for line in as_other_systems("import", *SYSTEMS):
        system, _, name = line.partition(" ")
        found[system].add(".".join(name.split(".")[:2]))
    return found


def as_other_systems(what: str, *systems: str) -> list[str]:
    """What fails here, and then on each of these systems."""
    command = [sys.executable, str(HERE.with_name("systems.py")), what, *systems]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    ran = subprocess.run(  # noqa: S603  our own
        command, capture_output=True, encoding="utf-8", check=False, env=environment
    )
    assert ran.returncode == 0, ran.stderr  # pages may log warnings to it
    return ran.stdout.splitlines()


def documented(system: str) -> set[str]:
    [row] = re.findall(rf"^\| {system} \|(.*)\|$", FAQ.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"`(handrail\.\w+)`", row))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_faq_lists_what_a_system_cannot_import(
    system: str, missing: dict[str, set[str]]
) -> None:
    assert missing[system] == documented(SYSTEMS[system])


def test_what_most_people_try_first_is_not_listed() -> None:
    needs_linux = {"handrail.coding", "handrail.sandbox", "handrail.tools"}

    assert documented("Windows") | documented("macOS") <= needs_linux


def test_nothing_is_missing_here(missing: dict[str, set[str]]) -> None:
    assert missing[sys.platform] == set()


@pytest.mark.soak
@pytest.mark.parametrize("system", SYSTEMS)
def test_the_first_page_of_each_package_runs(system: str) -> None:
    assert as_other_systems("run", system) == []


def test_a_page_that_needs_another_system_is_found() -> None:
    assert as_other_systems("fail", "win32") == ["win32 fcntl: ModuleNotFoundError"]


def test_a_system_that_cannot_open_folders_safely_reads_no_instructions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "AGENTS.md").write_text("Be kind.", encoding="utf-8")
    monkeypatch.delattr(os, "O_DIRECTORY")

    assert read_instructions(tmp_path, trusted=lambda *_: True) == Instructions(
        notices=(
            Notice(
                "AGENTS.md",
                "skipped",
                "this system cannot open folders without following links",
            ),
        )
    )
