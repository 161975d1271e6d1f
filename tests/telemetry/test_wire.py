"""Every kind of call over the wire, in the official protocol, against the conventions' own list."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from handrail import (
    READ,
    WRITE,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    LongResults,
    Retry,
    ToolFailed,
    Toolset,
    Transient,
    tool,
    writes_file,
)
from handrail.approvals import callback
from handrail.permissions import Answer, Origin
from handrail.telemetry import Telemetry
from telemetry.receiver import Receiver, receiving
from telemetry.test_models import unlisted

PAGE = Path(__file__).parents[2] / "docs" / "production" / "telemetry.md"
SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
"""The buckets of a duration in the conventions."""


def careful(call: CheckedCall) -> Decision:
    if call.spec.effect == READ:
        return Allow(Origin("mode ask"))
    return Ask("Save it?", Origin("writes need a person", "rules.toml", 3))


def make_tools() -> Toolset:
    tries = iter([True, False])

    @tool(effect=READ, retry=Retry(attempts=2, base=0.001))
    async def ring() -> str:
        """Ring."""
        if next(tries):
            raise Transient("Busy.")
        return "a line\n" * 50

    @tool(effect=READ)
    async def fail() -> str:
        """Fail."""
        raise ToolFailed("It is broken.")

    @tool(effect=WRITE, touches=writes_file)
    async def save(path: str) -> str:
        """Save a file."""
        return f"saved {path}"

    return Toolset(ring, fail, save)


CALLS = (
    Call("ring", {}, "c1"),
    Call("fail", {}, "c2"),
    Call("save", {"path": "yes.txt"}, "c3"),
    Call("save", {"path": "no.txt"}, "c4"),
    Call("save", {"road": "a"}, "c5"),
    Call("invented", {}, "c6"),
)


@contextmanager
def exporting() -> Iterator[tuple[Telemetry, Receiver]]:
    """Yield a Telemetry, and what receives its spans and metrics. All are there at the end."""
    with receiving() as receiver:
        tracers = TracerProvider(shutdown_on_exit=False)
        spans = OTLPSpanExporter(f"{receiver.address}/v1/traces")
        tracers.add_span_processor(SimpleSpanProcessor(spans))
        metrics = OTLPMetricExporter(f"{receiver.address}/v1/metrics")
        reader = PeriodicExportingMetricReader(metrics, export_interval_millis=3_600_000)
        meters = MeterProvider([reader], shutdown_on_exit=False)
        telemetry = Telemetry(tracer_provider=tracers, meter_provider=meters, content=True)
        yield telemetry, receiver
        meters.shutdown()
        tracers.shutdown()


@pytest.fixture(scope="module")
def received() -> Receiver:
    async def run(telemetry: Telemetry) -> None:
        answers: dict[str, Answer] = {"c3": Allow(), "c4": Deny.by_user()}
        async with Executor(
            make_tools(),
            policy=careful,
            approvals=callback(lambda pending: answers[pending.call.id]),
            hooks=[telemetry.hook],
            long_results=LongResults(max_result_chars=100),
        ) as executor:
            await executor.run_all(CALLS)

    with exporting() as (telemetry, receiver):
        anyio.run(run, telemetry)
    return receiver


def read_attributes(pairs: Any) -> dict[str, Any]:
    """Return attributes by name, with values as the protocol has them."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


def by_id(receiver: Receiver) -> dict[str, Any]:
    found = {read_attributes(one.attributes)["gen_ai.tool.call.id"]: one for one in receiver.spans}
    return dict(sorted(found.items()))


def test_every_call_is_a_span_of_the_operation_and_the_kind_of_the_conventions(
    received: Receiver,
) -> None:
    spans = by_id(received)
    kinds = {one.SpanKind.Name(one.kind) for one in received.spans}
    operations = {
        read_attributes(one.attributes)["gen_ai.operation.name"] for one in received.spans
    }

    assert [one.name for one in spans.values()] == [
        "execute_tool ring",
        "execute_tool fail",
        "execute_tool save",
        "execute_tool save",
        "execute_tool save",
        "execute_tool",
    ]
    assert (len(received.spans), kinds, operations) == (6, {"SPAN_KIND_INTERNAL"}, {"execute_tool"})
    assert [read_attributes(one.attributes).get("error.type") for one in spans.values()] == [
        None,
        "failed",
        None,
        "denied",
        "bad_args",
        "unknown_tool",
    ]
    assert [one.status.code for one in spans.values()] == [0, 2, 0, 2, 2, 2]


def test_every_attribute_is_in_the_conventions_or_on_the_page(received: Receiver) -> None:
    names = {name for one in received.spans for name in read_attributes(one.attributes)}
    own = {name for name in names if name.startswith("handrail.")}
    page = PAGE.read_text(encoding="utf-8")
    short = {name.rpartition(".")[2] for name in own if f"`{name}`" not in page}

    assert unlisted(names) == set()
    assert {
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "handrail.approval.answer",
        "handrail.decision.place",
        "handrail.result.stored_chars",
        "handrail.retry.reasons",
        "handrail.wait.approval",
        "handrail.wait.retry",
        "handrail.wait.schedule",
    } <= names
    assert short == {"rule", "place"}  # the page has these as `.rule` and `.place`
    assert all(f"`.{name}`" in page for name in short)


def test_the_events_of_a_span_are_the_steps_of_its_call(received: Receiver) -> None:
    steps = {
        call_id: [event.name.removeprefix("handrail.") for event in span.events]
        for call_id, span in by_id(received).items()
    }

    assert steps == {
        "c1": ["started", "attempt_failed", "started"],
        "c2": ["started"],
        "c3": ["asked", "answered", "started"],
        "c4": ["asked", "answered"],
        "c5": [],
        "c6": [],
    }


def test_every_metric_has_the_unit_the_buckets_and_the_attributes_of_the_conventions(
    received: Receiver,
) -> None:
    metrics = {one.name: one for one in received.metrics}
    points = [point for one in received.metrics for point in one.histogram.data_points]
    names = {name for point in points for name in read_attributes(point.attributes)}
    duration = metrics["gen_ai.client.operation.duration"]
    tools = sorted(
        (read["gen_ai.tool.name"], read.get("error.type"), point.count)
        for point in duration.histogram.data_points
        for read in [read_attributes(point.attributes)]
    )

    assert {name: one.unit for name, one in metrics.items()} == {
        "gen_ai.client.operation.duration": "s",
        "handrail.call.wait": "s",
    }
    assert unlisted(names) == set()
    assert {"gen_ai.operation.name", "gen_ai.provider.name"} <= names
    assert all(list(one.explicit_bounds) == SECONDS for one in duration.histogram.data_points)
    assert tools == [("fail", "failed", 1), ("ring", None, 1), ("save", None, 1)]
