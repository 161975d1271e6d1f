"""What every test may rely on: both event loops, bounded property tests, longer ones on request."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import tiny_server

# A shell without jobs starts what runs in the background deaf to interrupts, and its children too.
signal.signal(signal.SIGINT, signal.default_int_handler)

PROFILE = os.environ.get("HANDRAIL_PROFILE", "quick")
_CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("brief", max_examples=15, derandomize=True, **_CALM)
settings.register_profile("quick", max_examples=40, derandomize=True, **_CALM)
settings.register_profile("soak", max_examples=5_000, **_CALM)
settings.load_profile(PROFILE)

ONE_LOOP = {
    "approvals",
    "cli",
    "coding",
    "models",
    "net",
    "policy",
    "providers",
    "sandbox",
    "tools",
}
"""Edges that leave loops to anyio and to the core: asyncio is enough but for `make soak`."""
BOTH_LOOPS = {"test_web_fetch.py"}
"""On asyncio, the tracer of Python 3.11 does not see the lines after a connection is made."""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both."""
    return str(request.param)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tiny_server.Tiny]:
    """A real model server. It starts for the first test that needs it."""
    with tiny_server.running(tmp_path_factory.mktemp("tiny")) as server:
        yield server


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only `make soak` runs."""
    if PROFILE == "soak":
        return
    spared = {item.nodeid for item in items if _is_for_soak(item)}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in spared])
    items[:] = [item for item in items if item.nodeid not in spared]


def _is_for_soak(item: pytest.Item) -> bool:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    params = (
        item.callspec.params
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else {}
    )
    return item.get_closest_marker("soak") is not None or (
        folder in ONE_LOOP
        and item.path.name not in BOTH_LOOPS
        and params.get("anyio_backend") == "trio"
    )
