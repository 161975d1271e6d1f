"""OpenTelemetry's API: the only file importing it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from opentelemetry.context import attach, detach
from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter
from opentelemetry.trace import (
    Span,
    SpanKind,
    Status,
    StatusCode,
    TracerProvider,
    get_tracer,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from handrail.telemetry._facts import ERROR_TYPE, Value
from handrail.telemetry._measures import Measured, Values

__all__ = [
    "Instruments",
    "MeterProvider",
    "Span",
    "TracerProvider",
    "as_current",
    "below_headers",
    "end",
    "write_headers",
]

Kind: TypeAlias = Literal["internal", "client"]
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_TOKENS = [4.0**power for power in range(14)]
"""The conventions' buckets."""
_HEADERS = TraceContextTextMapPropagator()
_WAITS = [0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 86_400.0]


class Instruments:
    """Starts spans and records metrics."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self._tracer = get_tracer("handrail", tracer_provider=tracers)
        self._meter = meter = get_meter("handrail", meter_provider=meters)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._waits = meter.create_histogram(
            "handrail.call.wait",
            unit="s",
            description="How long a call waited before it ran.",
            explicit_bucket_boundaries_advisory=_WAITS,
        )

    def observe(self, measure: Measured, read: Callable[[str], Values]) -> None:
        """Let the SDK read a number whenever it exports."""

        def callback(_options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value, labels) for labels, value in read(measure.name)]

        meter = self._meter
        is_counter = measure.kind == "counter"
        make = meter.create_observable_counter if is_counter else meter.create_observable_gauge
        make(measure.name, [callback], unit=measure.unit, description=measure.text)

    def start(self, name: str, attributes: Mapping[str, Value], kind: Kind = "internal") -> Span:
        """Start a span below the current one."""
        return self._tracer.start_span(name, kind=_KINDS[kind], attributes=attributes)

    def record_seconds(self, seconds: float, attributes: Mapping[str, Value]) -> None:
        """Record how long an operation took."""
        self._duration.record(seconds, attributes)

    def record_tokens(self, kind: str, tokens: int, attributes: Mapping[str, Value]) -> None:
        """Record a reply's tokens."""
        self._tokens.record(tokens, {**attributes, "gen_ai.token.type": kind})

    def record_wait(self, kind: str, seconds: float, tool: str) -> None:
        """Record how long a call waited, and for what."""
        self._waits.record(seconds, {"gen_ai.tool.name": tool, "handrail.wait.kind": kind})


@contextmanager
def as_current(span: Span) -> Generator[None]:
    """Make a span the current one. It is not ended, and errors are not recorded in it."""
    with use_span(span, record_exception=False, set_status_on_exception=False):
        yield


def write_headers() -> dict[str, str]:
    """Return the headers naming the current span, without baggage, which can be private."""
    headers: dict[str, str] = {}
    _HEADERS.inject(headers)
    return headers


@contextmanager
def below_headers(headers: Mapping[str, str]) -> Generator[None]:
    """Make the span in the headers the current one."""
    token = attach(_HEADERS.extract(headers))
    try:
        yield
    finally:
        detach(token)


def end(span: Span, attributes: Mapping[str, Any], message: str | None = None) -> None:
    """End a span. It failed if its attributes have an error type."""
    span.set_attributes(attributes)
    if ERROR_TYPE in attributes:
        span.set_status(Status(StatusCode.ERROR, message or attributes[ERROR_TYPE]))
    span.end()
