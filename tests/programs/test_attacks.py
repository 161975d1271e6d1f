"""Hostile programs, with the worker in namespaces of its own and without."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import handrail
from programs.attacks import ATTACKS, HARMLESS, SECRET, SLOW

SPEED = ["slow"] if os.environ.get("HANDRAIL_PROFILE") == "soak" else []
MAX_SECONDS = 20.0
"""For one of them, however busy the machine is."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("wall", ["bubblewrap", pytest.param("none", marks=pytest.mark.soak)])
def test_no_hostile_program_reaches_the_host(wall: str, tmp_path: Path) -> None:
    if wall == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap")
    path = os.environ["PATH"] if wall == "bubblewrap" else str(tmp_path)
    folders = [str(Path(handrail.__file__).parents[1]), str(Path(__file__).parents[1])]
    done = subprocess.run(  # noqa: S603  our own script
        [sys.executable, str(Path(__file__).parent / "attacks.py"), *SPEED],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={"PATH": path, "PYTHONPATH": os.pathsep.join(folders), "HANDRAIL_SECRET": SECRET},
    )
    found = json.loads(done.stdout)
    names = [name for name in found if name not in HARMLESS]
    secret = [name for name, (text, *_) in found.items() if SECRET in text or "root:" in text]

    assert len(found) == len(ATTACKS) + len(SLOW) * len(SPEED) >= 90
    assert secret == []
    assert [name for name in names if not found[name][1]] == []
    assert [name for name, (text, *_) in found.items() if text.startswith("BUG")] == []
    assert [name for name, (*_, seconds) in found.items() if seconds > MAX_SECONDS] == []
