"""A pytest plugin with the fixture ``recorded_run``.

Add ``pytest_plugins = ["handrail.testing.fixtures"]`` to your ``conftest.py``. Record with
``pytest --record-runs``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import pytest

from handrail.messages import Model
from handrail.testing._recorded_run import RecordedRun

MakeRecordedRun: TypeAlias = Callable[[Model], RecordedRun]
"""Returns a test's recorded run. It uses the model only while recording."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the recording option."""
    parser.addoption(
        "--record-runs",
        action="store_true",
        help="Record runs with real models and tools, instead of replaying them.",
    )


@pytest.fixture
def recorded_run(request: pytest.FixtureRequest) -> Iterator[MakeRecordedRun]:
    """Return a function from a model to the recorded run of this test.

    The recording is in a folder ``recordings`` beside the test's file. When the test ends, the run
    must have used the whole recording.
    """
    name = re.sub(r"[^\w.-]", "_", request.node.name)
    folder = request.path.parent / "recordings" / f"{request.path.stem}.{name}"
    records = bool(request.config.getoption("--record-runs"))
    with ExitStack() as stack:

        def make(model: Model) -> RecordedRun:
            return stack.enter_context(RecordedRun(folder, model if records else None))

        yield make
