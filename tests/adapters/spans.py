"""Spans in memory: those of a framework, and those of calls below them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail import READ, Call, Executor, Toolset, tool
from handrail.telemetry import Telemetry

CALLS = [Call("first", {}, "c1"), Call("second", {}, "c2")]


class Spans:
    """Two tools, and the spans of their calls."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracer = self.provider.get_tracer("host")
        self.telemetry = Telemetry(tracer_provider=self.provider)

    def executor(self) -> Executor:
        @tool(effect=READ)
        async def first() -> str:
            """Do the first thing."""
            return "1"

        @tool(effect=READ)
        async def second() -> str:
            """Do the second thing."""
            return "2"

        return Executor(Toolset(first, second), hooks=[self.telemetry.hook])

    def callers(self) -> list[tuple[str, str]]:
        """Return each call of handrail with the span at the root of its trace."""
        spans = self._memory.get_finished_spans()
        roots = {one.context.trace_id: one.name for one in spans if one.context and not one.parent}
        return sorted(
            (one.name, roots[one.context.trace_id])
            for one in spans
            if one.context and one.name.startswith("execute_tool ")
        )

    def parents(self) -> list[tuple[str, Any]]:
        """Return each call of handrail with the span above it."""
        spans = self._memory.get_finished_spans()
        by_id = {one.context.span_id: one for one in spans if one.context}
        return sorted(
            ((one.name, by_id[one.parent.span_id]) if one.parent else (one.name, None))
            for one in spans
            if one.instrumentation_scope and one.instrumentation_scope.name == "handrail"
        )
