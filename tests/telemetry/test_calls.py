"""Spans of calls: what they say, when they end, and where they hang."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    WRITE,
    Allow,
    Approvals,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    HandrailError,
    Hook,
    LongResults,
    Result,
    Retry,
    ToolFailed,
    Toolset,
    Transient,
    reads_file,
    tool,
    writes_file,
)
from handrail.approvals import callback, defer
from handrail.events import Event, Finished, Requested
from handrail.permissions import Answer, Origin, Pending
from handrail.telemetry import Telemetry, log_calls
from telemetry.receiver import Seen

CANARY = "canary-7f3a"
pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@tool(effect=READ, touches=reads_file)
async def look(path: str) -> str:
    """Look at a file."""
    if path == "broken":
        raise ToolFailed("It is broken.")
    return f"text of {path}"


@tool(effect=WRITE, touches=writes_file)
async def save(path: str) -> str:
    """Save a file."""
    return "saved"


@tool(effect=READ)
async def sleep() -> str:
    """Sleep for ever."""
    await anyio.sleep_forever()
    raise AssertionError


TOOLS = Toolset(look, save, sleep)
RULE = Origin("writes need a person", "rules.toml", 3)


def careful(call: CheckedCall) -> Decision:
    if call.spec.effect == READ:
        return Allow(Origin("mode ask"))
    return Ask(f"Save {call.args['path']}?", RULE)


def without_times(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes without what a clock says."""
    times = ("handrail.seconds", "handrail.wait.schedule")
    assert all(isinstance(attributes.pop(name, 0.0), float) for name in times)
    return attributes


async def test_a_span_says_what_a_call_did_and_who_allowed_it() -> None:
    seen = Seen()
    async with Executor(TOOLS, policy=careful, hooks=[seen.telemetry.hook]) as executor:
        turn = executor.turn("3", run="order/77")
        await turn.run(Call("look", {"path": "a.txt"}, "c1"))

    assert without_times(seen.attributes("execute_tool look")) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Look at a file.",
        "gen_ai.conversation.id": "order/77",
        "handrail.turn.id": "3",
        "handrail.effect": "read",
        "handrail.accesses": ("read file",),
        "handrail.decision": "allow",
        "handrail.decision.rule": "mode ask",
        "handrail.attempts": 1,
        "handrail.outcome": "ok",
        "handrail.result.chars": 13,
    }
    assert [event.name for event in seen.find("execute_tool look").events] == ["handrail.started"]


@pytest.mark.parametrize(
    ("call", "name", "kind"),
    [
        (Call("look", {"path": "broken"}, "c1"), "execute_tool look", "failed"),
        (Call("look", {"road": "a"}, "c1"), "execute_tool look", "bad_args"),
        (Call("x" * 100, {}, "c1"), "execute_tool", "unknown_tool"),
        (Call("sleep", {}, "c1"), "execute_tool sleep", "timeout"),
        (Call("save", {"path": "a"}, "c1"), "execute_tool save", "denied"),
    ],
)
async def test_a_failure_is_an_error_of_its_kind(call: Call, name: str, kind: str) -> None:
    seen, limits = Seen(), CallLimits(timeout=0.01)
    options: Any = {"policy": careful, "limits": limits, "hooks": [seen.telemetry.hook]}
    async with Executor(TOOLS, **options) as executor:
        result = await executor.run(call)
    span, attributes = seen.find(name), seen.attributes(name)

    assert result.failure
    assert (attributes["error.type"], attributes["handrail.outcome"]) == (kind, kind)
    assert (span.status.status_code.name, span.status.description) == ("ERROR", kind)
    assert attributes["gen_ai.tool.name"] == call.name[:80]


@pytest.mark.parametrize("name", ["sleep", "save"])
async def test_a_cancelled_call_ends_its_span_while_it_runs_or_waits_for_a_person(
    name: str,
) -> None:
    seen, asked = Seen(), anyio.Event()

    async def never(_: Pending) -> Answer:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    def started(_: str, __: CheckedCall | Call, event: Event) -> None:
        if type(event).__name__ == "Started":
            asked.set()

    hooks = [seen.telemetry.hook, Hook(observe=started)]
    executor = Executor(TOOLS, policy=careful, approvals=never, hooks=hooks)
    async with executor, anyio.create_task_group() as group:
        args = {"path": "a"} if name == "save" else {}
        group.start_soon(executor.run, Call(name, args, "c1"))
        with anyio.fail_after(20):
            await asked.wait()
        group.cancel_scope.cancel()

    assert seen.attributes(f"execute_tool {name}")["error.type"] in ("cancelled", "unknown")


async def test_a_span_says_how_long_a_person_took() -> None:
    seen, clock = Seen(), Clock()

    async def slow(_: Pending) -> Answer:
        clock.now += 90
        return Allow()

    approvals = Approvals(approver=slow)
    hooks = [seen.telemetry.hook]
    async with Executor(
        TOOLS, policy=careful, approvals=approvals, hooks=hooks, clock=clock
    ) as executor:
        await executor.run(Call("save", {"path": "a"}, "c1"))
    attributes = seen.attributes("execute_tool save")

    assert {name: value for name, value in attributes.items() if "handrail" in name} | {
        "handrail.seconds": 0
    } == {
        "handrail.turn.id": "~1",
        "handrail.effect": "write",
        "handrail.accesses": ("write file",),
        "handrail.decision": "ask",
        "handrail.decision.rule": "writes need a person",
        "handrail.decision.place": "rules.toml:3",
        "handrail.approval.answer": "allow",
        "handrail.wait.approval": 90.0,
        "handrail.wait.schedule": 0.0,
        "handrail.attempts": 1,
        "handrail.outcome": "ok",
        "handrail.result.chars": 5,
        "handrail.seconds": 0,
    }
    steps = [event.name for event in seen.find("execute_tool save").events]
    assert steps == ["handrail.asked", "handrail.answered", "handrail.started"]
    assert seen.points("handrail.call.wait") == [
        ({"gen_ai.tool.name": "save", "handrail.wait.kind": "approval"}, 1),
        ({"gen_ai.tool.name": "save", "handrail.wait.kind": "schedule"}, 1),
    ]


async def test_a_call_that_is_answered_in_another_process_has_two_spans() -> None:
    before, after, clock = Seen(), Seen(), Clock()
    options: Any = {"policy": careful, "approvals": defer, "clock": clock}
    async with Executor(TOOLS, hooks=[before.telemetry.hook], **options) as executor:
        turn = executor.turn("1", run="r")
        await turn.run(Call("save", {"path": "a"}, "c1"))
        [pending] = turn.pending
    clock.now += 3600
    async with Executor(TOOLS, hooks=[after.telemetry.hook], **options) as executor:
        turn = executor.turn("1", run="r")
        turn.answer(Pending.from_json(pending.to_json()), Allow())
        [result] = await turn.results()
    first = before.attributes("execute_tool save")

    assert (first["handrail.outcome"], "error.type" in first) == ("pending", False)
    assert result.text == "saved"
    assert after.attributes("execute_tool save")["handrail.wait.approval"] == 3600.0


async def test_a_denied_call_says_so() -> None:
    seen = Seen()
    approvals = callback(lambda _: Deny.by_user())
    hooks = [seen.telemetry.hook]
    async with Executor(TOOLS, policy=careful, approvals=approvals, hooks=hooks) as executor:
        await executor.run(Call("save", {"path": "a"}, "c1"))
    attributes = seen.attributes("execute_tool save")

    assert (attributes["handrail.approval.answer"], attributes["error.type"]) == ("deny", "denied")
    assert "handrail.attempts" not in attributes


async def test_retries_and_long_results_are_attributes() -> None:
    seen, tries = Seen(), iter([True, True, False])

    @tool(effect=READ, retry=Retry(attempts=3, base=0.001))
    async def ring() -> str:
        """Ring."""
        if next(tries):
            raise Transient("Busy.")
        return "a line\n" * 50

    options: Any = {"long_results": LongResults(max_result_chars=100)}
    async with Executor(Toolset(ring), hooks=[seen.telemetry.hook], **options) as executor:
        await executor.run(Call("ring", {}, "c1"))
    attributes = seen.attributes("execute_tool ring")

    assert attributes["handrail.attempts"] == 3
    assert attributes["handrail.retry.reasons"] == ("transient", "transient")
    assert attributes["handrail.wait.retry"] > 0
    assert attributes["handrail.result.stored_chars"] == 350


async def test_a_span_is_current_inside_its_tool_and_below_the_span_of_its_caller() -> None:
    seen = Seen()

    @tool(effect=READ)
    async def inner(name: str) -> str:
        """Start a span."""
        with seen.tracer.start_as_current_span(f"in {name}"):
            await anyio.lowlevel.checkpoint()
        return name

    @tool(effect=READ)
    async def outer() -> str:
        """Make a call."""
        return (await executor.run(Call("inner", {"name": "nested"}, "c9"))).text

    calls = [Call("inner", {"name": name}, name) for name in ("a", "b")]
    async with Executor(Toolset(inner, outer), hooks=[seen.telemetry.hook]) as executor:
        with seen.tracer.start_as_current_span("request"):
            await executor.run_all(calls)
            await executor.run(Call("outer", {}, "c3"))

    assert sorted(seen.tree()) == [
        ("execute_tool inner", "execute_tool outer"),
        ("execute_tool inner", "request"),
        ("execute_tool inner", "request"),
        ("execute_tool outer", "request"),
        ("in a", "execute_tool inner"),
        ("in b", "execute_tool inner"),
        ("in nested", "execute_tool inner"),
        ("request", ""),
    ]


async def test_calls_of_one_turn_can_have_their_own_contexts() -> None:
    seen, user = Seen(), ContextVar[str]("user")

    @tool(effect=READ)
    async def who() -> str:
        """Say who calls."""
        return user.get()

    contexts = [copy_context() for _ in "ab"]
    for name, context in zip("ab", contexts, strict=True):
        context.run(user.set, name)
    async with Executor(Toolset(who)) as executor:
        turn = executor.turn()
        turn.add(Call("who", {}, "c1"), Call("who", {}, "c2"), contexts=contexts)
        results = await turn.results()

    assert ([one.text for one in results], seen.spans) == (["a", "b"], [])


async def test_a_call_from_a_thread_without_a_loop_is_below_the_span_of_that_thread() -> None:
    seen = Seen()

    def work() -> None:
        with seen.tracer.start_as_current_span("thread"):
            Executor(TOOLS, hooks=[seen.telemetry.hook]).run_sync(Call("look", {"path": "a"}, "c1"))

    await anyio.to_thread.run_sync(work)

    assert seen.tree() == [("thread", ""), ("execute_tool look", "thread")]


async def test_two_calls_with_one_id_have_a_span_each() -> None:
    seen = Seen()
    calls = [Call("look", {"path": path}, "c1") for path in ("a", "bb")]
    async with Executor(TOOLS, hooks=[seen.telemetry.hook]) as executor:
        await executor.run_all(calls)
    lengths = [dict(span.attributes or {})["handrail.result.chars"] for span in seen.spans]

    assert sorted(lengths) == [9, 10]


def written(seen: Seen) -> str:
    return "".join(span.to_json() for span in seen.spans)


@pytest.mark.parametrize("content", [False, True])
async def test_no_span_has_an_argument_or_a_result_unless_asked_for(*, content: bool) -> None:
    seen = Seen(content=content)
    policy = careful
    calls = [
        Call("look", {"path": CANARY}, "c1"),
        Call("look", {CANARY: 1}, "c2"),
        Call("save", f'{{"path": "{CANARY}"}}', "c3"),
    ]
    approvals = callback(lambda _: True)
    hooks = [seen.telemetry.hook]
    async with Executor(TOOLS, policy=policy, approvals=approvals, hooks=hooks) as executor:
        results = await executor.run_all(calls)
    count = written(seen).count(CANARY)

    assert (CANARY in results[0].text, len(seen.spans)) == (True, 3)
    assert (count > 0) == content  # the control: with content, the same search finds it
    if content:
        shown = seen.attributes("execute_tool save")
        assert shown["gen_ai.tool.call.arguments"] == f'{{"path": "{CANARY}"}}'
        assert shown["gen_ai.tool.call.result"] == "saved"
        assert shown["handrail.accesses"] == (f"write file:{CANARY}",)


async def test_an_observer_that_raises_is_logged_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events: list[tuple[str, str, str]] = []

    def fails(_: str, __: CheckedCall | Call, ___: Event) -> None:
        raise ValueError("no")

    def keeps(key: str, call: CheckedCall | Call, event: Event) -> None:
        events.append((key, type(call).__name__, type(event).__name__))

    hooks = [Hook(observe=fails), Hook(observe=keeps)]
    async with Executor(TOOLS, hooks=hooks) as executor:
        result = await executor.turn("1", run="r").run(Call("look", {"path": "a"}, "c1"))

    assert result == Result("c1", "text of a")
    assert events == [
        ("r/1/c1", "Call", "Requested"),
        ("r/1/c1", "CheckedCall", "Decided"),
        ("r/1/c1", "CheckedCall", "Started"),
        ("r/1/c1", "CheckedCall", "Finished"),
    ]
    assert [one.getMessage() for one in caplog.records] == [
        "an observer of a call of 'look' failed"
    ] * 4


async def test_observers_stay_when_feeds_come_and_go() -> None:
    kinds: list[str] = []
    hook = Hook(observe=lambda _, __, event: kinds.append(type(event).__name__))
    executor = Executor(TOOLS, hooks=[hook])
    async with executor, executor.events():
        await executor.run(Call("look", {"path": "a"}, "c1"))
    async with executor:
        await executor.run(Call("look", {"path": "a"}, "c2"))

    assert kinds == ["Requested", "Decided", "Started", "Finished"] * 2


@pytest.mark.parametrize("content", [False, True])
async def test_a_log_has_a_structured_record_for_every_result(
    caplog: pytest.LogCaptureFixture, *, content: bool
) -> None:
    caplog.set_level(logging.INFO, logger="handrail.calls")
    calls = [Call("look", {"path": CANARY}, "c1"), Call("save", {"path": "a"}, "c2")]
    async with Executor(TOOLS, policy=careful, hooks=[log_calls(content=content)]) as executor:
        await executor.run_all(calls)
    own = [one for one in caplog.records if one.name == "handrail.calls"]
    records = sorted(own, key=lambda one: one.levelno)

    assert [(one.levelname, one.getMessage()) for one in records] == [
        ("INFO", "execute_tool look: ok"),
        ("WARNING", "execute_tool save: denied"),
    ]
    assert vars(records[0])["gen_ai.tool.call.id"] == "c1"
    assert vars(records[1])["handrail.decision.rule"] == "writes need a person"
    assert (CANARY in str(vars(records[0]))) == content


async def test_a_log_can_go_to_a_logger_of_yours(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("shop")
    caplog.set_level(logging.INFO, logger="shop")
    async with Executor(TOOLS, hooks=[log_calls(log)]) as executor:
        await executor.run(Call("look", {"path": "a"}, "c1"))

    assert [one.name for one in caplog.records] == ["shop"]


async def test_without_an_sdk_nothing_happens() -> None:
    async with Executor(TOOLS, hooks=[Telemetry().hook]) as executor:
        assert await executor.run(Call("look", {"path": "a"}, "c1")) == Result("c1", "text of a")


def test_without_the_api_a_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("handrail.telemetry._")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    from handrail.telemetry._telemetry import Telemetry as Again

    with pytest.raises(HandrailError, match=r"pip install 'handrail\[otel\]'"):
        Again()


def test_the_extra_has_only_the_api() -> None:
    text = Path(__file__).parents[2].joinpath("pyproject.toml").read_text(encoding="utf-8")

    assert 'otel = ["opentelemetry-api>=1.45,<2"]\n' in text


def test_events_of_a_key_begin_with_the_request_and_end_with_the_result() -> None:
    ends: list[type] = []
    hook = Hook(observe=lambda _, __, event: ends.append(type(event)))
    Executor(TOOLS, hooks=[hook]).run_sync(Call("none", {}, "c1"))

    assert ends == [Requested, Finished]


@pytest.mark.parametrize("answer", [Allow(), Deny("No."), Result("c1", "By hand.")])
async def test_the_span_of_a_call_that_is_answered_elsewhere_names_the_tool(answer: Answer) -> None:
    seen = Seen()

    def make_executor() -> Executor:
        return Executor(
            Toolset(look), policy=lambda _: Ask("?"), approvals=defer, hooks=[seen.telemetry.hook]
        )

    async with make_executor() as executor:
        turn = executor.turn("1", run="r")
        turn.add(Call("look", {"path": "a"}, "c1"))
        await turn.results()
        [pending] = turn.pending
    async with make_executor() as executor:
        turn = executor.turn("1", run="r")
        turn.answer(pending, answer)
        await turn.results()

    assert [span.name for span in seen.spans] == ["execute_tool look"] * 2
