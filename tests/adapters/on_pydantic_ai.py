"""Pydantic AI as a host of the kit, bare and with handrail; and approvals across processes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelRetry,
    RunContext,
    ToolDenied,
    ToolReturn,
)
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.tools import ToolApproved

from handrail import DESTROY, READ, Call, Context, Executor, File, Image, Text, Toolset, tool
from handrail.adapters.pydantic_ai import source, toolset
from conformance import Conversation, Read, Setup
from processes import Asked, Outcome, make_executor
from spans import CALLS, Spans
import real_model

Run = Callable[[Conversation], Awaitable[None]]
DONE = ModelResponse(parts=[TextPart("done")])


def to_parts(calls: Sequence[Call]) -> ModelResponse:
    parts = [ToolCallPart(call.name, json.dumps(call.args), call.id) for call in calls]
    return ModelResponse(parts=parts)


def read_parts(messages: Sequence[ModelMessage]) -> list[Read]:
    """Return what the model reads in the requests since its last reply."""
    new: list[Read] = []
    for message in messages:
        if isinstance(message, ModelResponse):
            new = []
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, ToolReturnPart):
                images = sum(isinstance(file, BinaryContent) for file in part.files)
                new.append(Read(part.tool_call_id, part.model_response_str(), images))
    return new


def scripted(conversation: Conversation) -> FunctionModel:
    async def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        calls = conversation.reply(read_parts(messages))
        return to_parts(calls) if calls else DONE

    return FunctionModel(model)


def read_question(_: ToolCallPart, metadata: dict[str, Any]) -> str:
    return str(metadata["question"])


async def converse(
    setup: Setup, conversation: Conversation, tools: Any, ask_for: Any = read_question
) -> None:
    """Run an agent, with the person's answers to its requests, until it is done."""
    agent = Agent(scripted(conversation), toolsets=[tools], output_type=[str, DeferredToolRequests])
    result = await agent.run("go")
    while isinstance(result.output, DeferredToolRequests):
        approvals: dict[str, Any] = {}
        for call in result.output.approvals:
            details = result.output.metadata.get(call.tool_call_id, {})
            word = setup.ask(call.tool_call_id, ask_for(call, details))
            approvals[call.tool_call_id] = (
                word if isinstance(word, bool) else ToolApproved(override_args=dict(word))
            )
        result = await agent.run(
            message_history=result.all_messages(),
            deferred_tool_results=result.output.build_results(approvals=approvals),
        )


def bare(setup: Setup) -> Run:
    setup.require("approvals", "streams")
    tools: FunctionToolset[Any] = FunctionToolset(timeout=setup.tool_timeout)
    for fn in setup.world.functions():
        if fn.__name__ != "draw":
            tools.add_function(fn, requires_approval=fn.__name__ in setup.needs_approval)

    def show(call: ToolCallPart, _: dict[str, Any]) -> str:
        return f"{call.tool_name} {call.args}"  # all that the request has

    return lambda conversation: converse(setup, conversation, tools, show)


def railed(setup: Setup, **given: Any) -> Run:
    tools = toolset(setup.executor(), **given)
    return lambda conversation: converse(setup, conversation, tools)


def make_agent(executor: Executor, model: Any) -> Any:
    return Agent(model, toolsets=[toolset(executor)], output_type=[str, DeferredToolRequests])


async def ask(executor: Executor, calls: Sequence[Call], store: Path) -> Asked:
    """Run until the agent needs approvals, and save what another process needs."""

    async def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        return to_parts(calls)

    result = await make_agent(executor, FunctionModel(model)).run("go")
    requests = result.output
    (store / "messages.json").write_bytes(result.all_messages_json())
    (store / "metadata.json").write_text(json.dumps(requests.metadata), encoding="utf-8")
    return [
        (one.tool_call_id, requests.metadata[one.tool_call_id]["question"])
        for one in requests.approvals
    ]


async def resume(executor: Executor, store: Path, words: dict[str, bool]) -> Outcome:
    """Continue in another process."""
    seen: list[Read] = []

    async def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen.extend(read_parts(messages))
        return DONE

    history = ModelMessagesTypeAdapter.validate_json((store / "messages.json").read_bytes())
    metadata = json.loads((store / "metadata.json").read_text(encoding="utf-8"))
    approvals: Any = {name: word or ToolDenied("No.") for name, word in words.items()}
    results = DeferredToolResults(approvals=approvals, metadata=metadata)
    result = await make_agent(executor, FunctionModel(model)).run(
        message_history=history, deferred_tool_results=results
    )
    again = [one.tool_call_id for one in getattr(result.output, "approvals", [])]
    return again, [(read.call_id, read.text) for read in seen]


HOST_DECIDES = {"a repeated call id": "dies"}
DENIED_PROGRAM = (
    ["The tool call was denied."],
    ["counted 1", "appended 1"],
    ["Append '1' to a?", "Append '2' to a?"],
)
"""The host does not pass a denial on. The program ends there."""
BARE = {
    "a tool raises": "dies",
    "two writers": "lost update",
    "a long result": "whole",
    "approval expired": "runs",
    "a read behind a question": "overtakes",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "dies",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "dies",
    "a repeated call id": "dies",
}


def run_once(executor: Executor, response: ModelResponse, **options: Any) -> list[Read]:
    """Run an agent whose first reply is this one, and return what it reads then."""
    seen: list[Read] = []

    async def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        seen.extend(read_parts(messages))
        return DONE if seen else response

    agent = Agent(FunctionModel(model), toolsets=[toolset(executor, **options)], deps_type=str)
    agent.run_sync("go", deps="alice")
    return seen


def test_arguments_are_read_as_the_model_sent_them(tmp_path: Path) -> None:
    parts = [
        ToolCallPart("show", '{"path": "a", "path": "b"}', "c1"),
        ToolCallPart("show", '["a"]', "c2"),
        ToolCallPart("show", '{"path": ', "c3"),
    ]
    read = run_once(make_executor(tmp_path), ModelResponse(parts=parts))

    assert ["path" in one.text and "Not run" in one.text for one in read] == [True, False, False]
    assert all("Not run" in one.text for one in read)


def test_the_tools_get_the_deps_and_the_principal_of_the_run() -> None:
    @tool(effect=READ)
    async def whoami(context: Context[str]) -> str:
        """Say who calls."""
        return f"{context.principal} {context.deps}"

    response = ModelResponse(parts=[ToolCallPart("whoami", None, "c1")])
    executor = Executor(Toolset(whoami))
    read = run_once(executor, response, principal=lambda ctx: f"user {ctx.deps}", name="mine")

    assert read == [Read("c1", "user alice alice")]


def test_the_span_of_each_call_is_below_the_span_of_the_host() -> None:
    spans = Spans()

    async def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        return DONE if read_parts(messages) else to_parts(CALLS)

    agent: Any = Agent(FunctionModel(model), toolsets=[toolset(spans.executor())])
    agent.instrument = InstrumentationSettings(tracer_provider=spans.provider)
    anyio.run(agent.run, "go")

    assert [
        (name, host.instrumentation_scope.name, host.attributes["gen_ai.tool.call.id"])
        for name, host in spans.parents()
    ] == [
        ("execute_tool first", "pydantic-ai", "c1"),
        ("execute_tool second", "pydantic-ai", "c2"),
    ]


@pytest.mark.skipif(not real_model.URL, reason="needs the tiny model")
def test_a_real_model_calls_a_tool_through_the_adapter() -> None:
    adder = real_model.Adder()
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    with real_model.serving() as (address, seen):
        provider = OpenAIProvider(base_url=address, api_key="none")
        model = OpenAIChatModel("local", provider=provider)
        agent: Any = Agent(model, toolsets=[toolset(adder.executor())])
        result = anyio.run(agent.run, real_model.PROMPT)

    assert (len(adder.sums), bool(result.output)) == (1, True)
    assert real_model.read_result(seen) == str(adder.sums[0])


def add(ctx: RunContext[int], a: int) -> int:
    """Add to the deps."""
    return ctx.deps + a


def fail(kind: str) -> str:
    """Fail."""
    raise {"soft": ModelRetry("Try 7."), "hard": OSError("/srv/secret")}[kind]


def draw(kind: str) -> Any:
    """Draw."""
    image, file = (
        BinaryContent(b"1", media_type="image/png"),
        BinaryContent(b"2", media_type="text/csv"),
    )
    return {"one": image, "many": ["a chart", image, file], "wrapped": ToolReturn("done")}[kind]


def test_toolsets_of_pydantic_ai_run_under_the_rules_of_an_executor() -> None:
    async def run() -> tuple[Any, list[Any]]:
        theirs = await source(FunctionToolset([add, fail, draw]), effects={"add": READ})
        executor = Executor(theirs)
        turn = executor.turn(deps=40)
        calls = [
            Call("add", {"a": 2}, "c1"),
            Call("add", {"a": "two"}, "c2"),
            Call("fail", {"kind": "soft"}, "c3"),
            Call("fail", {"kind": "hard"}, "c4"),
            *[Call("draw", {"kind": kind}, kind) for kind in ("one", "many", "wrapped")],
        ]
        return theirs, await executor.run_all(calls, turn=turn)

    theirs, results = anyio.run(run)
    kinds = [one.failure and one.failure.kind.value for one in results]

    effects = [(spec.name, spec.effect) for spec in theirs.specs]
    assert dict(effects) == {"add": READ, "fail": DESTROY, "draw": DESTROY}
    assert kinds == [None, "bad_args", "failed", "bug", None, None, None]
    assert [results[one].text for one in (0, 2, 6)] == ["42", "Try 7.", "done"]
    assert "secret" not in results[3].text
    assert results[4].parts == (Image(b"1", "image/png"),)
    assert [type(one) for one in results[5].parts] == [Text, Image, File]


SAVE = '{"path": "report.md", "text": "The first half, and the second."}'


@pytest.mark.parametrize("finish", ["length", None])
def test_a_call_that_was_cut_off_does_not_run(finish: Any) -> None:
    """For each prefix of the arguments: all of them arrive, or the tool does not run."""
    files: list[tuple[str, str]] = []

    @tool
    async def save(path: str = "unnamed", text: str = "") -> str:
        """Save a file."""
        files.append((path, text))
        return "saved"

    tools, first = toolset(Executor(Toolset(save))), 0 if finish else 1
    for end in range(first, len(SAVE) + 1):

        def model(messages: list[ModelMessage], _: AgentInfo, end: int = end) -> ModelResponse:
            if len(messages) > 1:
                return DONE
            return ModelResponse([ToolCallPart("save", SAVE[:end], "c1")], finish_reason=finish)

        Agent(FunctionModel(model), toolsets=[tools]).run_sync("go")

    assert files == [("report.md", "The first half, and the second.")]
