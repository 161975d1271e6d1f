"""Telemetry: spans and metrics for OpenTelemetry, and structured logs.

``Telemetry`` needs the extra ``handrail[otel]``, which has only OpenTelemetry's API. Without an SDK
in your application, it does nothing. ``log_calls`` needs only the standard library. So do
``read_trace`` and ``continue_trace``, which pass a trace on to another process.
"""

from handrail._support.lazy import make_lazy

TYPE_CHECKING = bool(0)  # not False, which editors evaluate
if TYPE_CHECKING:
    from handrail.telemetry._logs import log_calls
    from handrail.telemetry._telemetry import Telemetry
    from handrail.telemetry._trace import continue_trace, read_trace
else:
    _MODULES = {
        "_logs": "log_calls",
        "_telemetry": "Telemetry",
        "_trace": "continue_trace read_trace",
    }

    __getattr__, __dir__ = make_lazy(__name__, _MODULES, globals())

__all__ = ["Telemetry", "continue_trace", "log_calls", "read_trace"]
