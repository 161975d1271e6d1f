"""Whatever reads from outside is bounded in what a body unpacks to, not in what arrives."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
MOST_MEGABYTES = 96
"""For six bodies at once, each of 160 MB when it is unpacked."""
READERS = (
    "MCP: JSON",
    "MCP: events",
    "MCP: error",
    "MCP: login",
    "MCP: served",
    "OIDC: discovery",
    "OIDC: token",
    "OIDC: keys",
    "OpenAPI: JSON",
    "OpenAPI: error",
    "web_fetch",
    "notify",
    "console: form",
    "models: list",
    "OpenAI chat: events",
    "OpenAI chat: JSON",
    "OpenAI chat: error",
    "OpenAI responses: events",
    "Anthropic: events",
    "Anthropic: JSON",
    "Anthropic: error",
    "Gemini: events",
    "Gemini: JSON",
    "Gemini: error",
)
ENCODINGS = ["br", "chunked", "deflate", "gzip", "gzip,gzip", "zstd"]


@cache
def measured() -> dict[str, tuple[int, list[str]]]:
    """The megabytes of each reader, and the encodings that it got; in one process for all."""
    done = subprocess.run(
        [sys.executable, "-m", "net.readers"],
        cwd=TESTS,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    found: dict[str, tuple[int, list[str]]] = json.loads(done.stdout)
    return found


@pytest.mark.timeout(300)  # the first one measures all of them
@pytest.mark.parametrize("reader", READERS)
def test_small_bodies_stay_small_when_they_are_read(reader: str) -> None:
    taken, arrived = measured()[reader]

    assert (taken <= MOST_MEGABYTES, arrived) == (True, ENCODINGS), taken


def test_a_reader_without_a_bound_is_caught() -> None:
    taken, arrived = measured()["control"]

    assert ({*READERS, "control"}, arrived) == (set(measured()), ["gzip"])
    assert taken > 2 * MOST_MEGABYTES
