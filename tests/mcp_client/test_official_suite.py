"""The official conformance suite against our client, which lists a server's tools and calls each.

It needs the packages from npm that `make setup` installs.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_served.test_official_suite import BIN, node_environment

CLIENT = Path(__file__).parent / "suite_client.py"
CURRENT = "2025-11-25"
"""The newest protocol that the suite has."""
PATIENCE = 120

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not (BIN / "conformance").exists(), reason="needs the suite: `make setup`"),
]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        [str(BIN / "conformance"), *words],
        cwd=folder,
        env=node_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=2 * PATIENCE,
    )


def list_scenarios(folder: Path) -> list[str]:
    """Return the scenarios for clients of the current protocol."""
    listed = run(folder, "list").stdout.partition("Client scenarios")[2]
    rows = re.findall(r"^ +- (\S+) \[(.+)\]$", listed, re.MULTILINE)
    return [name for name, versions in rows if CURRENT in versions.split(",")]


def passes(folder: Path, scenario: str, *, client: Path = CLIENT) -> bool:
    command = shlex.join((sys.executable, str(client)))
    words = ("--command", command, "--scenario", scenario, "--timeout", str(PATIENCE * 1000))
    said = run(folder, "client", *words).stderr  # a client without any check passes, too
    return "OVERALL: PASSED" in said and bool(re.search(r"^Passed: [1-9]", said, re.MULTILINE))


def test_every_scenario_passes(tmp_path: Path) -> None:
    scenarios = list_scenarios(tmp_path)

    assert len(scenarios) >= 18
    assert [name for name in scenarios if not passes(tmp_path, name)] == []


def test_the_suite_fails_for_a_client_that_does_nothing(tmp_path: Path) -> None:
    idle = tmp_path / "idle.py"
    idle.touch()

    assert [passes(tmp_path, name, client=idle) for name in ("tools_call", "initialize")] == [
        False,
        False,
    ]
