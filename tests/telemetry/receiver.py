"""An OTLP/HTTP receiver on loopback, which parses the official protocol; and spans in memory."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail.telemetry import Telemetry

MESSAGES: dict[str, Any] = {
    "/v1/traces": (ExportTraceServiceRequest, ExportTraceServiceResponse),
    "/v1/metrics": (ExportMetricsServiceRequest, ExportMetricsServiceResponse),
}


class Receiver:
    """What was received: spans and metrics, as the protocol defines them."""

    def __init__(self) -> None:
        self.address = ""
        self.spans: list[Any] = []
        self.metrics: list[Any] = []

    def take(self, path: str, body: bytes) -> bytes:
        request, response = MESSAGES[path]
        message = request.FromString(body)
        for resource in getattr(message, "resource_spans", ()):
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        for resource in getattr(message, "resource_metrics", ()):
            self.metrics += [one for scope in resource.scope_metrics for one in scope.metrics]
        return bytes(response().SerializeToString())


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            answer = receiver.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()


class Seen:
    """A Telemetry whose spans and metrics stay in memory."""

    def __init__(self, *, content: bool = False) -> None:
        self._spans = InMemorySpanExporter()
        self._metrics = InMemoryMetricReader()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider([self._metrics], shutdown_on_exit=False)
        self.telemetry = Telemetry(
            content=content, tracer_provider=self.tracers, meter_provider=meters
        )
        self.tracer = self.tracers.get_tracer("test")

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def tree(self) -> list[tuple[str, str]]:
        """Return each span with its parent, in the order of their starts."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        ordered = sorted(self.spans, key=lambda span: span.start_time or 0)
        return [(one.name, names[one.parent.span_id] if one.parent else "") for one in ordered]

    def find(self, name: str) -> ReadableSpan:
        [span] = [one for one in self.spans if one.name == name]
        return span

    def attributes(self, name: str) -> dict[str, Any]:
        return dict(self.find(name).attributes or {})

    def points(self, name: str) -> list[tuple[dict[str, Any], int]]:
        """Return the attributes and the counts of a metric."""
        data = self._metrics.get_metrics_data()
        return [
            (dict(point.attributes or {}), int(getattr(point, "count", 0)))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
