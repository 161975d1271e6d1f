"""What every test may rely on: both event loops, bounded property tests, longer ones on request."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage
from hypothesis import HealthCheck, settings

import tiny_server

# A shell without jobs starts what runs in the background deaf to interrupts, and its children too.
signal.signal(signal.SIGINT, signal.default_int_handler)

PROFILE = os.environ.get("HANDRAIL_PROFILE", "quick")
if PROFILE != "soak":  # there, other programs are installed over HTTPS
    os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "data" / "certificate.txt")
    # One certificate in place of all that a machine trusts: to read those takes each client 50 ms.
_CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("brief", max_examples=8, derandomize=True, **_CALM)
settings.register_profile("quick", max_examples=15, derandomize=True, **_CALM)
settings.register_profile("soak", max_examples=5_000, **_CALM)
settings.load_profile(PROFILE)

ONE_LOOP = {
    "agent",
    "approvals",
    "cli",
    "coding",
    "credentials",
    "joints",
    "mcp_client",
    "mcp_gateway",
    "mcp_served",
    "models",
    "net",
    "openapi",
    "policy",
    "programs",
    "promises",
    "providers",
    "runs",
    "sandbox",
    "shared",
    "sources",
    "telemetry",
    "testing",
    "tools",
}
"""Edges that leave loops to anyio and to the core: asyncio is enough but for `make soak`."""
BOTH_LOOPS = {
    "test_call_recorder.py",
    "test_event_stream.py",
    "test_interrupt.py",
    "test_seconds.py",
    "test_time_and_order.py",
    "test_web_fetch.py",
}
"""Loops differ in how they cancel. A database has other code for trio; and on asyncio, the tracer of
Python 3.11 does not see the lines after a connection is made."""
UNTRACED = {
    "agent/test_faults.py",
    "agent/test_kill.py",
    "agent/test_ledger.py",
    "cli/test_forked.py",
    "cli/test_screens_in_tmux.py",
    "console/test_accessibility.py",
    "console/test_races.py",
    "execution/test_approval_properties.py",
    "execution/test_execution_properties.py",
    "execution/test_memory.py",
    "execution/test_one_path.py",
    "execution/test_parallelism.py",
    "policy/decisions/test_index_oracle.py",
    "policy/rules/test_real_programs.py",
    "policy/shell/test_strict_fuzz.py",
    "providers/formats/test_stream_properties.py",
    "search/test_quality.py",
    "search/test_use.py",
    "test_architecture.py",
    "test_docs.py",
    "test_english.py",
    "test_examples.py",
    "test_messages.py",
    "test_more_vectors.py",
    "test_vectors.py",
    "test_vocabulary.py",
    "values/test_saved_answers.py",
}
"""Tests whose lines other tests cover as well. Tracing would double their time."""


def pytest_configure() -> None:
    """Tell coverage how to measure the processes that tests start."""
    if (measured := Coverage.current()) is not None:
        place = measured.get_option("run:data_file")
        started = Coverage(str(place), config_file=str(Path(__file__).with_name("measured.ini")))
        os.environ["COVERAGE_PROCESS_CONFIG"] = started.config.serialize()


def pytest_unconfigure() -> None:
    """End a process that hangs after its last test, and print where each thread stands."""
    faulthandler.dump_traceback_later(120, exit=True)


def pytest_collection() -> None:
    """Collect no garbage while thousands of tests are collected: there is hardly any."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave the collected tests out of every later collection, which would read all of them."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both."""
    return str(request.param)


@pytest.fixture(scope="module", autouse=True)
def tracing(request: pytest.FixtureRequest) -> Iterator[None]:
    """Coverage is measured, in this process and in those that it starts, except in `UNTRACED`."""
    measured = Coverage.current()
    name = request.path.relative_to(Path(__file__).parent).as_posix()
    if measured is None or name not in UNTRACED:
        yield
        return
    config = os.environ.pop("COVERAGE_PROCESS_CONFIG")
    measured.stop()
    yield
    measured.start()
    os.environ["COVERAGE_PROCESS_CONFIG"] = config


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tiny_server.Tiny]:
    """A real model server. It starts for the first test that needs it."""
    with tiny_server.running(tmp_path_factory.mktemp("tiny")) as server:
        yield server


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a failed test for .ci/run, which may try it again."""
    if report.failed and (noted := os.environ.get("FAILED_TESTS")):
        with Path(noted).open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")


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
