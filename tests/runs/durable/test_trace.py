"""A durable run continues the trace of the program that started it, in any worker."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

import anyio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handrail import Allow, Approvals, Ask, Call, CheckedCall, Decision, Text, tool
from handrail.agent import Agent
from handrail.approvals import defer
from handrail.messages import ModelError, Reply, Request, ToolResults
from handrail.runs.durable import CallQueue, DurableRuns
from handrail.telemetry import Telemetry


@tool
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


async def model(request: Request) -> Reply:
    if any(isinstance(message, ToolResults) for message in request.messages):
        return Reply((Text("done"),))
    return Reply((Call("mail", {"to": "ada"}, "c1"), Call("pay", {"euros": 1}, "c2")), "calls")


def ask_to_pay(call: CheckedCall) -> Decision:
    return Ask("Pay?") if call.name == "pay" else Allow()


class Traced:
    """An agent whose spans are kept."""

    def __init__(self) -> None:
        self.memory, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.memory))
        self.tracer = provider.get_tracer("test")
        self.telemetry = telemetry = Telemetry(tracer_provider=provider)
        options: Any = {"approvals": Approvals(approver=defer), "policy": ask_to_pay}
        around = telemetry.agent("shop")

        @tool
        async def mail(to: str) -> str:
            """Mail."""
            with self.tracer.start_as_current_span("smtp"):
                return f"mailed {to}"

        self.agent = Agent(model, [mail, pay], hooks=[telemetry.hook], around=around, **options)

    def spans(self) -> list[tuple[str, str | None]]:
        """Each span with the one above it, as they ended."""
        spans = self.memory.get_finished_spans()
        names = {one.context.span_id: one.name for one in spans if one.context}
        return [(one.name, names[one.parent.span_id] if one.parent else None) for one in spans]


async def run_to_its_end(database: str, traced: Traced, *, in_span: bool) -> None:
    """Start a run in one object, and work on it in another, which shares no memory with it."""
    queues = {"post": CallQueue(tools=["mail"])}
    span = traced.tracer.start_as_current_span("request") if in_span else nullcontext()
    async with DurableRuns(database, {"shop": traced.agent}, queues=queues) as starting:
        with span:
            run = await starting.start("shop", "go")
    runs = DurableRuns(database, {"shop": traced.agent}, queues=queues, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        with anyio.fail_after(30):
            while (await runs.wait(run)).status == "waiting":
                for pending in await runs.inbox():
                    await runs.answer(pending.id, Allow())
        assert (await runs.get(run)).status == "done"


async def test_the_spans_of_all_segments_and_queued_calls_are_below_the_callers(
    sqlite: str,
) -> None:
    traced = Traced()
    await run_to_its_end(sqlite, traced, in_span=True)

    assert Counter(traced.spans()) == Counter(
        [
            ("request", None),
            ("invoke_agent shop", "request"),  # until the question
            ("execute_tool mail", "invoke_agent shop"),
            ("smtp", "execute_tool mail"),  # on the queue
            ("execute_tool pay", "invoke_agent shop"),
            ("invoke_agent shop", "request"),  # after the answer
            ("execute_tool pay", "invoke_agent shop"),
        ]
    )


async def test_a_run_that_is_started_outside_of_a_span_has_spans_of_its_own(sqlite: str) -> None:
    traced = Traced()
    await run_to_its_end(sqlite, traced, in_span=False)

    assert traced.spans().count(("invoke_agent shop", None)) == 2


async def test_a_run_that_is_resumed_continues_below_the_span_of_that_call(sqlite: str) -> None:
    traced, failing = Traced(), [True]

    async def fail_once(request: Request) -> Reply:
        if failing.pop() if failing else False:
            raise ModelError("Overloaded.", kind="overloaded")
        return Reply((Text("done"),))

    agent = Agent(fail_once, [pay], around=traced.telemetry.agent("shop"))
    runs = DurableRuns(sqlite, {"shop": agent}, poll=0.05)
    async with runs.work(interval=0.1, drain_seconds=5):
        run = await runs.start("shop", "go")
        assert (await runs.wait(run)).status == "failed"
        with traced.tracer.start_as_current_span("repair"):
            await runs.resume(run)
        assert (await runs.wait(run)).status == "done"

    assert Counter(traced.spans()) == Counter(
        [("invoke_agent shop", None), ("repair", None), ("invoke_agent shop", "repair")]
    )
