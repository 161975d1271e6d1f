"""A trace goes on in another process, and in a service."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from opentelemetry import baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import get_current_span

from handrail import Call, Executor
from handrail.openapi import tools
from handrail.telemetry import continue_trace, read_trace
from openapi.service import Service, document, parameter
from telemetry.receiver import Seen

pytestmark = pytest.mark.anyio


def header(span: Any) -> str:
    known = span.context
    return f"00-{known.trace_id:032x}-{known.span_id:016x}-{known.trace_flags:02x}"


def test_the_current_span_is_read_and_continued() -> None:
    tracer = Seen().tracer
    assert read_trace() == {}
    with tracer.start_as_current_span("mine") as span:
        token = attach(baggage.set_baggage("user", "ada"))
        headers = read_trace()
        detach(token)
    with continue_trace(headers):
        continued = get_current_span().get_span_context()
    with continue_trace({}):
        assert not get_current_span().get_span_context().is_valid

    assert headers == {"traceparent": header(span)}
    assert (continued.trace_id, continued.is_remote) == (span.get_span_context().trace_id, True)
    assert read_trace() == {}


def test_without_opentelemetry_nothing_is_read_and_nothing_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tracer = Seen().tracer
    with tracer.start_as_current_span("mine"):
        headers = read_trace()
        monkeypatch.delitem(sys.modules, "opentelemetry.trace")
        assert read_trace() == {}
    with continue_trace(headers):
        assert "opentelemetry.trace" not in sys.modules


async def test_a_request_to_a_service_has_the_span_of_its_call() -> None:
    seen, service = Seen(), Service()
    made = tools(document(), service.client)
    async with Executor(made, hooks=[seen.telemetry.hook]) as executor:
        await executor.run(Call("call_it", {}, "c1"))
    [span] = seen.spans

    assert service.received[0].headers["traceparent"] == header(span)


async def test_a_header_of_the_document_is_sent_in_its_place() -> None:
    seen, service = Seen(), Service()
    given = document(parameters=[parameter("Traceparent", "header")])
    async with Executor(tools(given, service.client), hooks=[seen.telemetry.hook]) as executor:
        await executor.run(Call("call_it", {"Traceparent": "own"}, "c1"))

    assert service.received[0].headers["traceparent"] == "own"
