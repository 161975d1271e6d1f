"""Spans of models and agents; and all of them over the wire, against the conventions' own list."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import anyio
import pytest
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from handrail import READ, Call, File, Image, Text, Toolset, tool
from handrail.agent import Agent
from handrail.messages import (
    Delta,
    Model,
    ModelError,
    Opaque,
    Prompt,
    Reasoning,
    Reply,
    Request,
    StreamItem,
    ToolResults,
    TruncatedCall,
    Usage,
    model_names,
)
from handrail.telemetry import Telemetry
from handrail.testing import ScriptedModel
from telemetry.receiver import Seen, receiving

CANARY = "canary-9b21"
USAGE = Usage(input_tokens=20, output_tokens=5, cached_tokens=4, reasoning_tokens=2)
DONE = Reply((Text("done"),), usage=USAGE, model="tiny-1")
pytestmark = pytest.mark.anyio


@tool(effect=READ)
async def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def asks(name: str, args: dict[str, Any]) -> Reply:
    return Reply((Call(name, args, "c1"),), "calls", usage=USAGE, model="tiny-1")


def streamed(model: ScriptedModel) -> Model:
    async def pieces(request: Request) -> AsyncIterator[StreamItem]:
        reply = await model(request)
        yield Delta("d")
        for call in reply.calls:
            yield call
        yield reply

    return pieces


def make_family(seen: Telemetry, *, streams: bool = False) -> Agent[str]:
    """Return an agent with a sub-agent, both traced."""
    inner = ScriptedModel(asks("add", {"a": 1, "b": 2}), DONE, stream=False)
    outer = ScriptedModel(asks("helper", {"task": CANARY}), DONE, stream=False)
    models = [streamed(one) if streams else one for one in (inner, outer)]
    helper = Agent(
        seen.model(models[0], provider="openai"),
        [add],
        hooks=[seen.hook],
        around=seen.agent("helper"),
    )
    tools = Toolset(helper.as_tool("helper", "Help."))
    around = seen.agent("main", description="The first.")
    return Agent(seen.model(models[1]), tools, hooks=[seen.hook], around=around)


@pytest.mark.parametrize("streams", [False, True])
async def test_the_spans_of_an_agent_and_its_sub_agent_are_one_tree(*, streams: bool) -> None:
    seen = Seen()
    result = await make_family(seen.telemetry, streams=streams).run("go")
    attributes = seen.attributes("invoke_agent main")

    assert result.output == "done"
    assert sorted(seen.tree()) == [
        ("chat", "invoke_agent helper"),
        ("chat", "invoke_agent helper"),
        ("chat", "invoke_agent main"),
        ("chat", "invoke_agent main"),
        ("execute_tool add", "invoke_agent helper"),
        ("execute_tool helper", "invoke_agent main"),
        ("invoke_agent helper", "execute_tool helper"),
        ("invoke_agent main", ""),
    ]
    assert attributes.pop("gen_ai.conversation.id") == result.state.run_id
    assert attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "handrail",
        "gen_ai.agent.name": "main",
        "gen_ai.agent.description": "The first.",
        "gen_ai.usage.input_tokens": 80,
        "gen_ai.usage.output_tokens": 20,
        "handrail.run.stop_reason": "answer",
        "handrail.run.turns": 2,
        "handrail.run.calls": 1,
    }
    own = [one for one in seen.spans if (one.attributes or {}).get("gen_ai.conversation.id")]
    assert len(own) == 8


async def test_a_span_of_a_model_has_its_tokens_and_so_have_the_metrics() -> None:
    seen, model = Seen(), ScriptedModel(DONE, stream=False)
    model.names = ("tiny",)  # type: ignore[attr-defined]
    traced = seen.telemetry.model(model, provider="openai")
    request = Request((Prompt.of("go"),), max_tokens=9)

    answer: Any = traced(request)
    assert await answer == DONE
    assert model_names(traced) == ("tiny",)
    assert (seen.spans[0].name, seen.spans[0].kind.name) == ("chat tiny", "CLIENT")
    assert seen.attributes("chat tiny") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.stream": False,
        "gen_ai.response.model": "tiny-1",
        "gen_ai.response.finish_reasons": ("end",),
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.usage.reasoning.output_tokens": 2,
    }
    common = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "tiny",
        "gen_ai.response.model": "tiny-1",
    }
    assert seen.points("gen_ai.client.operation.duration") == [(common, 1)]
    assert seen.points("gen_ai.client.token.usage") == [
        (common | {"gen_ai.token.type": "input"}, 1),
        (common | {"gen_ai.token.type": "output"}, 1),
    ]


@pytest.mark.parametrize("content", [False, True])
async def test_a_model_that_fails_ends_its_span_and_that_of_the_run(*, content: bool) -> None:
    seen = Seen(content=content)

    async def full(_: Request) -> Reply:
        raise ModelError(f"Slow down {CANARY}.", "rate_limited")

    agent = Agent(seen.telemetry.model(full), [add], around=seen.telemetry.agent("a"))
    with pytest.raises(ModelError):
        await agent.run("go")

    for name in ("chat", "invoke_agent a"):
        assert seen.attributes(name)["error.type"] == "rate_limited"
    assert (CANARY in seen.find("chat").to_json()) == content


async def test_a_stream_that_is_left_ends_its_span_as_cancelled() -> None:
    seen = Seen()
    traced = seen.telemetry.model(streamed(ScriptedModel(DONE, stream=False)))
    stream: Any = traced(Request((Prompt.of("go"),)))
    assert await anext(stream) == Delta("d")
    await stream.aclose()

    assert seen.attributes("chat")["error.type"] == "cancelled"
    assert seen.attributes("chat")["gen_ai.response.time_to_first_chunk"] >= 0


async def test_a_stream_of_any_kind_is_read_to_its_end() -> None:
    seen = Seen()

    class Stream:
        def __init__(self) -> None:
            self.items: list[StreamItem] = [DONE]

        def __aiter__(self) -> Stream:
            return self

        async def __anext__(self) -> StreamItem:
            if not self.items:
                raise StopAsyncIteration
            return self.items.pop()

    stream: Any = seen.telemetry.model(lambda _: Stream())(Request(()))

    assert [item async for item in stream] == [DONE]
    assert "error.type" not in seen.attributes("chat")


async def test_a_cancelled_reply_and_an_odd_error_have_few_words() -> None:
    seen = Seen(content=True)

    async def never(_: Request) -> Reply:
        await anyio.sleep_forever()
        raise AssertionError

    async def wrong(_: Request) -> Reply:
        raise LookupError(CANARY)

    async def ask(model: Model) -> None:
        answer: Any = seen.telemetry.model(model)(Request(()))
        await answer

    with anyio.move_on_after(0.01):
        await ask(never)
    with pytest.raises(LookupError):
        await ask(wrong)

    types = [(one.attributes or {})["error.type"] for one in seen.spans]
    assert types == ["cancelled", "LookupError"]


def test_a_model_can_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    traced = Seen().telemetry.model("openai:gpt-5")

    assert model_names(traced) == ("gpt-5",)


@pytest.mark.parametrize("content", [False, True])
async def test_messages_are_in_spans_only_if_asked_for(*, content: bool) -> None:
    seen = Seen(content=content)
    call = Call("add", {"a": CANARY}, "c1")
    spoken = Reply(
        (
            Reasoning(f"why {CANARY}"),
            Opaque("{}", "openai"),
            call,
            TruncatedCall("add", "c2", '{"a"'),
        ),
        "calls",
    )
    results = ToolResults(((await _run(call)),))
    prompt = Prompt.of(f"hi {CANARY}", Image(b"12"), File(b"1", "text/plain", "a.txt"))
    request = Request((prompt, spoken, results), Toolset(add), f"system {CANARY}")
    answer: Any = seen.telemetry.model(ScriptedModel(Reply((Text(CANARY),)), stream=False))(request)
    await answer
    attributes = seen.attributes("chat")

    assert (CANARY in str(attributes)) == content  # with content: the control
    if content:
        [user, assistant, results_shown] = json.loads(attributes["gen_ai.input.messages"])
        assert user["parts"] == [
            {"type": "text", "content": f"hi {CANARY}"},
            {"type": "image", "mime_type": "image/png", "bytes": 2},
            {"type": "file", "mime_type": "text/plain", "bytes": 1},
        ]
        assert [part["type"] for part in assistant["parts"]] == [
            "reasoning",
            "tool_call",
            "tool_call",
        ]
        assert results_shown["parts"][0]["id"] == "c1"
        assert json.loads(attributes["gen_ai.output.messages"]) == [
            {
                "role": "assistant",
                "parts": [{"type": "text", "content": CANARY}],
                "finish_reason": "end",
            }
        ]
        assert json.loads(attributes["gen_ai.tool.definitions"])[0]["name"] == "add"
        assert CANARY in attributes["gen_ai.system_instructions"]


async def _run(call: Call) -> Any:
    from handrail import Executor

    async with Executor(Toolset(add)) as executor:
        return await executor.run(call)


def listed() -> set[str]:
    """Return the attributes and metrics of the conventions."""
    root = "opentelemetry.semconv"
    modules = (
        f"{root}._incubating.attributes.gen_ai_attributes",
        f"{root}._incubating.metrics.gen_ai_metrics",
        f"{root}.attributes.error_attributes",
    )
    values = [value for name in modules for value in vars(import_module(name)).values()]
    return {value for value in values if isinstance(value, str)}


def unlisted(names: set[str]) -> set[str]:
    """Return names that are neither in the conventions nor ours."""
    return {name for name in names - listed() if not name.startswith("handrail.")}


async def test_over_the_wire_every_name_is_in_the_conventions_or_ours() -> None:
    with receiving() as receiver:
        spans = OTLPSpanExporter(f"{receiver.address}/v1/traces")
        metrics = OTLPMetricExporter(f"{receiver.address}/v1/metrics")
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(spans))
        reader = PeriodicExportingMetricReader(metrics, export_interval_millis=3_600_000)
        meters = MeterProvider([reader], shutdown_on_exit=False)
        telemetry = Telemetry(tracer_provider=tracers, meter_provider=meters, content=True)
        agent = make_family(telemetry, streams=True)
        await anyio.to_thread.run_sync(agent.run_sync, "go")
        await anyio.to_thread.run_sync(meters.force_flush)
        await anyio.to_thread.run_sync(meters.shutdown)
        tracers.shutdown()
    attributes = {pair.key for span in receiver.spans for pair in span.attributes}
    operations = {value.split()[0] for value in (span.name for span in receiver.spans)}
    module = import_module("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    known = {one.value for one in module.GenAiOperationNameValues}
    [roots, ids] = (
        [span.name for span in receiver.spans if not span.parent_span_id],
        {span.trace_id for span in receiver.spans},
    )

    assert (len(receiver.spans), roots, len(ids)) == (8, ["invoke_agent main"], 1)
    assert unlisted(attributes) == set()
    assert unlisted(attributes | {"gen_ai.invented"}) == {"gen_ai.invented"}  # the control
    assert operations <= known
    assert {metric.name for metric in receiver.metrics} == {
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "handrail.call.wait",
    }
    assert {metric.unit for metric in receiver.metrics} == {"s", "{token}"}
