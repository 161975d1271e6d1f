"""OpenAI Agents SDK as a host of the kit, bare and with handrail; and approvals across processes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents import (
    Agent,
    RunConfig,
    Runner,
    RunContextWrapper,
    RunState,
    ToolApprovalItem,
    function_tool,
    set_trace_processors,
    set_tracing_disabled,
)
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.tool import ToolOutputImage, ToolOutputText
from agents.testing import assistant_message, function_call
from agents.tracing.processor_interface import TracingProcessor
from agents.usage import Usage

from handrail import (
    DESTROY,
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Executor,
    File,
    Hook,
    Image,
    NeedsLogin,
    Text,
    Toolset,
    tool,
)
from handrail.adapters.openai_agents import question, run_config, source, tools
from handrail.approvals import callback
from conformance import Conversation, Read, Setup, Skipped
from processes import Asked, Outcome
from spans import CALLS, Spans
import real_model

set_tracing_disabled(True)
Run = Callable[[Conversation], Awaitable[None]]
Script = Callable[[Sequence[Any]], Sequence[Call]]


class Scripted(Model):
    """Replies with the calls that a function returns."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:  # noqa: A002
        calls = self.script([] if isinstance(input, str) else input)
        made = [function_call(one.name, to_text(one.args), call_id=one.id) for one in calls]
        return ModelResponse(
            output=[*(made or [assistant_message("done")])],
            usage=Usage(requests=1),
            response_id=None,
        )

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def to_text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args)


def read_items(items: Sequence[Any]) -> list[Read]:
    """Return what the model reads since its last reply."""
    new: list[Read] = []
    for item in items:
        if item.get("type") == "function_call":
            new = []
        elif item.get("type") == "function_call_output":
            blocks = item["output"] if isinstance(item["output"], list) else []
            images = sum(one["type"] == "input_image" for one in blocks)
            texts = [one["text"] for one in blocks if one["type"] == "input_text"]
            text = "".join(texts) if blocks else str(item["output"])
            new.append(Read(item["call_id"], text, images))
    return new


async def converse(
    setup: Setup, conversation: Conversation, made: Any, *, config: RunConfig, ask_for: Any
) -> None:
    model = Scripted(lambda items: conversation.reply(read_items(items)))
    agent = Agent(name="a", tools=made, model=model)
    result = await Runner.run(agent, "go", run_config=config)
    while result.interruptions:
        state = result.to_state()
        for one in result.interruptions:
            word = setup.ask(str(one.call_id), ask_for(one))
            if not isinstance(word, bool):
                raise Skipped("edited approvals")
            (state.approve if word else state.reject)(one)
        result = await Runner.run(agent, state, run_config=config)


def bare(setup: Setup) -> Run:
    setup.require("approvals", "streams")
    functions = [fn for fn in setup.world.functions() if fn.__name__ != "draw"]
    made = []
    for fn in functions:
        limit = setup.tool_timeout if iscoroutinefunction(fn) else None
        asks = fn.__name__ in setup.needs_approval
        made.append(function_tool(fn, needs_approval=asks, timeout=limit))

    def show(request: Any) -> str:
        return f"{request.name} {request.arguments}"  # all that the request has

    options: Any = {"config": RunConfig(), "ask_for": show}
    return lambda conversation: converse(setup, conversation, made, **options)


def railed(setup: Setup, **given: Any) -> Run:
    return make_railed(setup, setup.executor(), **given)


def make_railed(setup: Setup, executor: Executor, **given: Any) -> Run:
    made = tools(executor, **given)
    options: Any = {"config": run_config(), "ask_for": partial(question, executor)}
    return lambda conversation: converse(setup, conversation, made, **options)


def switched(setup: Setup) -> Run:
    return make_railed(setup, setup.executor(asks_person=True))


PROGRAMS_ASK = switched
"""The SDK asks only before a tool runs."""
SWITCHED = ("approval edited",)
"""What an approver of the executor makes right."""
HOST_DECIDES = {"approval edited": "n/a", "a repeated call id": "dies"}
BARE = {
    "unknown name": "dies",
    "two writers": "lost update",
    "a long result": "whole",
    "approval expired": "runs",
    "approval edited": "n/a",
    "a read behind a question": "overtakes",
    "two turns at once": "lost update",
    "an image": "n/a",
    "a stream": "not read",
    "the rest of a long result": "whole",
    "a stale tool": "n/a",
    "an unknown outcome": "not said",
    "a repeated call id": "dies",
    "upper and lower case": "dies",
}


def make_agent(executor: Executor, script: Script) -> Agent[Any]:
    return Agent(name="a", tools=tools(executor), model=Scripted(script))


async def ask(executor: Executor, calls: Sequence[Call], store: Path) -> Asked:
    """Run until the agent is interrupted, and save its state."""
    result = await Runner.run(make_agent(executor, lambda _: calls), "go")
    (store / "state.json").write_text(result.to_state().to_string(), encoding="utf-8")
    return [(str(one.call_id), question(executor, one)) for one in result.interruptions]


async def resume(executor: Executor, store: Path, words: dict[str, bool]) -> Outcome:
    """Continue in another process."""
    seen: list[Read] = []

    def script(items: Sequence[Any]) -> Sequence[Call]:
        seen.extend(read_items(items))
        return ()

    agent = make_agent(executor, script)
    state = await RunState.from_string(agent, (store / "state.json").read_text(encoding="utf-8"))
    for one in state.get_interruptions():
        assert question(executor, one).startswith("Append ")
        (state.approve if words[str(one.call_id)] else state.reject)(one)
    result = await Runner.run(agent, state)
    again = [str(one.call_id) for one in result.interruptions]
    return again, sorted((read.call_id, read.text) for read in seen)


def run_once(executor: Executor, call: Call, **options: Any) -> list[Any]:
    """Run an agent whose first reply is this call, and return the output of the call."""
    seen: list[Any] = []

    def script(items: Sequence[Any]) -> Sequence[Call]:
        seen.extend(item for item in items if item.get("type") == "function_call_output")
        return () if seen else [call]

    agent: Agent[Any] = Agent(name="a", tools=tools(executor, **options), model=Scripted(script))
    anyio.run(partial(Runner.run, agent, "go", context="deps"))
    return [item["output"] for item in seen]


def test_the_tools_get_the_context_the_principal_and_the_name_of_the_run() -> None:
    @tool(effect=READ)
    async def whoami(context: Context[str]) -> list[Text | File]:
        """Say who calls."""
        who = f"{context.principal} {context.deps} {context.idempotency_key}"
        return [Text(who), File(b"1", "text/plain", "one.txt")]

    executor = Executor(Toolset(whoami))
    options: Any = {"principal": lambda _: "alice", "run": lambda _: "r1"}
    [[text, file]] = run_once(executor, Call("whoami", {}, "c1"), **options)

    assert text == {"type": "input_text", "text": "alice deps r1/1/c1"}
    assert (file["type"], file["filename"]) == ("input_file", "one.txt")


def test_an_approver_of_the_executor_answers_in_place_of_the_host() -> None:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def careful(call: CheckedCall) -> Decision:
        return Ask(f"Pay {call.args['amount']}?")

    executor = Executor(Toolset(pay), policy=careful, approvals=callback(lambda _: True))
    [doubled] = run_once(executor, Call("pay", '{"amount": 5, "amount": 6}', "c1"))

    assert doubled.startswith("Not run")
    assert run_once(executor, Call("pay", {"amount": 5}, "c1")) == ["paid 5"]


MALFORMED = {
    '{"count": 1': "the JSON ends too early",
    '{"count": NaN}': "NaN is not valid JSON",
    "[1]": "expected an object",
    "": "- count: ",
    '```json\n{"count": 1}\n```': "are not a plain JSON object. Call again with the object alone",
}


@pytest.mark.parametrize("sent", MALFORMED)
@pytest.mark.parametrize("decision", [Allow(), Ask("May it?")], ids=["allow", "ask"])
def test_the_model_reads_that_its_arguments_are_not_json_and_no_person_does(
    sent: str, decision: Decision
) -> None:
    counted: list[int] = []
    results: list[str] = []

    @tool(effect=READ)
    async def typed(count: int) -> str:
        """Count."""
        counted.append(count)
        return "counted"

    executor = Executor(
        Toolset(typed), policy=lambda _: decision, hooks=[Hook(after=note(results))]
    )
    made = tools(executor)

    async def run(config: RunConfig) -> tuple[int, list[str]]:
        seen: list[Read] = []

        def script(items: Sequence[Any]) -> Sequence[Call]:
            seen.extend(read_items(items))
            return () if seen else [Call("typed", sent, "c1")]

        agent: Agent[Any] = Agent(name="a", tools=made, model=Scripted(script))
        result = await Runner.run(agent, "go", run_config=config)
        return len(result.interruptions), [one.text for one in seen]

    asked, [text] = anyio.run(run, run_config())
    heard = list(results)

    assert (asked, counted, MALFORMED[sent] in text) == (0, [], True)
    assert heard == ([] if "plain" in text else [text])  # hooks hear of what fails
    assert anyio.run(run, RunConfig()) == (1, [])  # without it, the SDK asks a person


def note(results: list[str]) -> Any:
    def after(_: object, result: Any) -> Any:
        results.append(result.text)
        return result

    return after


LOGIN = (
    "Not run: it needs the user first. Sign in. https://sign.in Tell the user, and call again after "
    "that."
)


def test_a_login_is_asked_for_in_words_and_the_next_call_runs() -> None:
    """The SDK interrupts before a tool runs, and a tool says that it needs a login when it runs."""
    signed_in: list[str] = []

    @tool(effect=READ)
    async def private() -> str:
        """Show what only a user can see."""
        if not signed_in:
            raise NeedsLogin("Sign in.", url="https://sign.in")
        return "private data"

    def script(items: Sequence[Any]) -> Sequence[Call]:
        seen = [one["output"] for one in items if one.get("type") == "function_call_output"]
        if seen:
            signed_in.append("ada")
        return [] if len(seen) == 2 else [Call("private", {}, f"c{len(seen)}")]

    async def run() -> Any:
        agent = Agent(name="a", tools=tools(Executor(Toolset(private))), model=Scripted(script))
        return await Runner.run(agent, "go", run_config=run_config())

    done = anyio.run(run)
    outputs = [one.output for one in done.new_items if one.type == "tool_call_output_item"]

    assert (outputs, done.interruptions) == ([LOGIN, "private data"], [])


def test_a_question_is_that_of_the_policy_or_shows_the_call() -> None:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def careful(call: CheckedCall) -> Decision:
        return Ask(f"Pay {call.args['amount']} for {call.turn.principal}?")

    executor = Executor(Toolset(pay), policy=careful)
    agent: Agent[Any] = Agent(name="a", tools=[*tools(executor), add])
    requests = [
        ToolApprovalItem(agent, function_call(name, args, call_id="c1"))
        for name, args in (("pay", '{"amount": 5}'), ("add", '{"a": 1}'))
    ]

    assert [question(executor, one, principal="alice") for one in requests] == [
        "Pay 5 for alice?",
        'add({"a": 1})',
    ]


class Bridge(TracingProcessor):
    """Makes a span of OpenTelemetry of each span of the SDK."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.open: dict[str, Any] = {}

    def on_trace_start(self, trace: Any) -> None: ...

    def on_trace_end(self, trace: Any) -> None: ...

    def on_span_start(self, span: Any) -> None:
        name = f"{span.span_data.type} {span.span_data.export().get('name')}"
        current = self.tracer.start_as_current_span(name)
        current.__enter__()
        self.open[span.span_id] = current

    def on_span_end(self, span: Any) -> None:
        self.open.pop(span.span_id).__exit__(None, None, None)

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


def test_the_span_of_each_call_is_below_the_span_of_the_host() -> None:
    spans = Spans()
    agent: Agent[Any] = Agent(
        name="a",
        tools=tools(spans.executor()),
        model=Scripted(lambda items: () if read_items(items) else CALLS),
    )
    set_trace_processors([Bridge(spans.tracer)])
    set_tracing_disabled(False)
    try:
        anyio.run(partial(Runner.run, agent, "go"))
    finally:
        set_tracing_disabled(True)
        set_trace_processors([])

    assert [(name, host.name) for name, host in spans.parents()] == [
        ("execute_tool first", "function first"),
        ("execute_tool second", "function second"),
    ]


@pytest.mark.skipif(not real_model.URL, reason="needs the tiny model")
def test_a_real_model_calls_a_tool_through_the_adapter() -> None:
    adder = real_model.Adder()
    from agents import OpenAIChatCompletionsModel
    from openai import AsyncOpenAI

    with real_model.serving() as (address, seen):
        client = AsyncOpenAI(base_url=address, api_key="none")
        model = OpenAIChatCompletionsModel(model="local", openai_client=client)
        agent: Agent[Any] = Agent(name="a", tools=tools(adder.executor()), model=model)
        result = anyio.run(partial(Runner.run, agent, real_model.PROMPT))

    assert (len(adder.sums), bool(result.final_output)) == (1, True)
    assert real_model.read_result(seen) == str(adder.sums[0])


@function_tool(needs_approval=True)
def add(ctx: RunContextWrapper[int], a: int) -> str:
    """Add to the context."""
    return str(ctx.context + a)


@function_tool(failure_error_function=None)
def crash() -> str:
    """Crash."""
    raise OSError("cannot open /srv/secret")


@function_tool
def draw(url: str) -> list[Any]:
    """Draw."""
    return [ToolOutputText(text="a chart"), ToolOutputImage(image_url=url)]


def test_function_tools_run_under_the_rules_of_an_executor() -> None:
    theirs = source([add, crash, draw], effects={"add": READ})
    executor = Executor(theirs)
    calls = [
        Call("add", {"a": 2}, "c1"),
        Call("add", {"a": "two"}, "c2"),
        Call("crash", {}, "c3"),
        Call("draw", {"url": "data:image/png;base64,MQ=="}, "c4"),
        Call("draw", {"url": "https://example.com/a.png"}, "c5"),
    ]
    results = anyio.run(partial(executor.run_all, calls, turn=executor.turn(deps=40)))
    kinds = [one.failure and one.failure.kind.value for one in results]

    assert [spec.effect for spec in theirs.specs] == [READ, DESTROY, DESTROY]
    assert kinds[:4] == [None, "bad_args", "bug", None]
    assert results[0].text == "42"
    assert "secret" not in results[2].text
    assert results[3].parts == (Text("a chart"), Image(b"1", "image/png"))
    assert "https://example.com/a.png" in results[4].text
