"""What every test may rely on: both event loops, bounded property tests, longer ones on request."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A shell without jobs starts what runs in the background deaf to interrupts, and its children too.
signal.signal(signal.SIGINT, signal.default_int_handler)

_CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("brief", max_examples=15, **_CALM)
settings.register_profile("quick", max_examples=60, **_CALM)
settings.register_profile("soak", max_examples=5_000, **_CALM)
settings.load_profile(os.environ.get("HANDRAIL_PROFILE", "quick"))


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every async test runs on both."""
    return str(request.param)
