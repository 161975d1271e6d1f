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
    command = [sys.executable, str(HERE.with_name("systems.py")), *SYSTEMS]
    ran = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)  # noqa: S603  our own
    assert (ran.returncode, ran.stderr) == (0, "")
    found = dict[str, set[str]]()
    for line in ran.stdout.splitlines():
        system, _, name = line.partition(" ")
        found.setdefault(system, set()).add(".".join(name.split(".")[:2]))
    return found


def documented(system: str) -> set[str]:
    [row] = re.findall(rf"^\| {system} \|(.*)\|$", FAQ.read_text(encoding="utf-8"), re.MULTILINE)
    return set(re.findall(r"`(handrail\.\w+)`", row))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_faq_lists_what_a_system_cannot_import(
    system: str, missing: dict[str, set[str]]
) -> None:
    assert missing[system] == documented(SYSTEMS[system])


def test_the_packages_most_people_try_first_are_not_listed() -> None:
    first = {"handrail", "handrail.agent", "handrail.models", "handrail.providers"}

    assert documented("Windows") & {*first, "handrail.telemetry", "handrail.testing"} == set()


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
