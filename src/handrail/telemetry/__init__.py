"""Telemetry: spans and metrics for OpenTelemetry, and structured logs.

``Telemetry`` needs the extra ``handrail[otel]``, which has only OpenTelemetry's API. Without an SDK
in your application, it does nothing. ``log_calls`` needs only the standard library.
"""

from handrail._support.lazy import make_lazy

TYPE_CHECKING = bool(0)  # not False, which editors evaluate
if TYPE_CHECKING:
    from handrail.telemetry._logs import log_calls
    from handrail.telemetry._telemetry import Telemetry
else:
    _HOMES = {"Telemetry": "_telemetry", "log_calls": "_logs"}

    __getattr__, __dir__ = make_lazy(__name__, _HOMES, globals())

__all__ = ["Telemetry", "log_calls"]
