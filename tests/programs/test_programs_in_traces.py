"""A program has one span, and each of its calls has one below it."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail import Executor
from handrail.telemetry import Telemetry
from programs.tools import Shop, run

CODE = """
import asyncio
await asyncio.gather(refund(order=1), refund(order=2))
len(await orders(user="ann"))
"""


async def test_each_call_of_a_program_has_a_span_below_that_of_the_program() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracer_provider=provider)
    async with Executor(Shop().with_program(), hooks=[telemetry.hook]) as executor:
        result = await run(executor, CODE)
    spans = exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans if span.context}
    above = sorted(
        (one.name, names.get(one.parent.span_id) if one.parent else None) for one in spans
    )

    assert result.text == "4"
    assert above == [
        ("execute_tool orders", "execute_tool run_program"),
        ("execute_tool refund", "execute_tool run_program"),
        ("execute_tool refund", "execute_tool run_program"),
        ("execute_tool run_program", None),
    ]
