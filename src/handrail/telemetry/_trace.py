"""Pass a trace on to another process, as W3C Trace Context."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager


def read_trace() -> dict[str, str]:
    """Return the current span as headers: ``traceparent`` and ``tracestate``.

    They are empty without a current span, and in a program without OpenTelemetry.
    """
    if not _is_used():
        return {}
    from handrail.telemetry._instruments import write_headers

    return write_headers()


@contextmanager
def continue_trace(headers: Mapping[str, str]) -> Generator[None]:
    """Make the span from ``read_trace`` current, in any process.

    Without headers, nothing changes.
    """
    if not headers or not _is_used():
        yield
        return
    from handrail.telemetry._instruments import below_headers

    with below_headers(headers):
        yield


def _is_used() -> bool:
    """Return whether OpenTelemetry is loaded. Without it, there is no span, and nothing to load."""
    return "opentelemetry.trace" in sys.modules
