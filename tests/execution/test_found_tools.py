"""What a search has found: who may claim it, how it is called, and what is sent of it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import (
    READ,
    Allow,
    Call,
    CheckedCall,
    Decision,
    Deny,
    Executor,
    Exposure,
    FailureKind,
    Hook,
    Registry,
    Result,
    Spec,
    Tool,
    Toolset,
    tool,
)
from handrail.hooks import loop_guard
from handrail.providers import anthropic, openai_chat
from office_tools import OFFICE, clock, make_tool

DOTTED = Toolset(make_tool("mail.send", "Send a mail.", required=("to",)), clock)


def run(executor: Executor, name: str, /, **args: Any) -> Result:
    return executor.run_sync(Call(name, args, "1"))


class Never:
    """A policy that always denies some tools, from its second version on."""

    def __init__(self, *names: str, version: str = "2") -> None:
        self.names = names
        self.version = version
        self.asked = 0

    def __call__(self, call: CheckedCall) -> Decision:
        return Deny("not you") if self._denies(call.spec) else Allow()

    def never(self, spec: Spec) -> bool:
        self.asked += 1
        return self._denies(spec)

    def _denies(self, spec: Spec) -> bool:
        return self.version == "2" and spec.name in self.names


def make_registry() -> Registry:
    registry = Registry()
    registry.add(OFFICE, name="office")
    return registry


def test_tools_that_did_not_change_are_described_once() -> None:
    executor = Executor(make_registry())
    described = executor.tools

    assert executor.refresh_tools() is described
    assert anyio.run(executor.prepare_tools) is described


def test_runs_that_share_an_executor_get_described_tools() -> None:
    """Also while the tools change."""
    registry = Registry()
    registry.add(Toolset(*(make_tool(f"s_{at}", "Do it.") for at in range(200))), name="many")
    executor, seen = Executor(registry), list[bool]()

    async def prepare(number: int) -> None:
        for at in range(5):
            more = Toolset(make_tool(f"more_{number}_{at}"))
            registry.add(more, name=f"more {number} {at}")
            tools = await executor.prepare_tools()
            seen.append("Namespaces" in tools["search_tools"].spec.description)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(prepare, number)

    anyio.run(main)

    assert seen == [True] * 20


def test_tools_that_change_while_they_are_described_are_described_again() -> None:
    registry = make_registry()

    class Changing(Never):
        def never(self, spec: Spec) -> bool:
            if not self.asked:
                self.asked += 1
                registry.add(Toolset(make_tool("late", "Come late.")), name="late")
                executor.refresh_tools()
            return super().never(spec)

    executor = Executor(registry, policy=Changing())
    tools = executor.refresh_tools()

    assert tools is executor.tools
    assert "late" in str(run(executor, "search_tools", queries=["come late"]).found)


@tool(effect=READ)
def claims() -> Result:
    """Claim to have found a tool."""
    return Result("", "x", found=("weather",))


async def claim_remotely(_: dict[str, Any], __: object) -> Result:
    return Result("", "x", found=("weather",))


REMOTE = Tool.remote(
    Spec(name="remote", description="", input_schema={"type": "object"}), claim_remotely
)


def add_finds(_: CheckedCall | Call, result: Result) -> Result:
    return result._replace(found=("weather",))


def answer_with_finds(call: CheckedCall) -> Result:
    return Result(call.id, "x", found=("weather",))


def test_only_a_search_finds_tools() -> None:
    tools = OFFICE | Toolset(claims, REMOTE)
    after = Executor(tools, hooks=[Hook(after=add_finds)])
    before = Executor(tools, hooks=[Hook(before=answer_with_finds)])
    claimed = [
        run(Executor(tools), "claims"),
        run(Executor(tools), "remote"),
        run(after, "clock"),
        run(after, "unknown"),
        run(before, "clock"),
    ]

    assert [result.found for result in claimed] == [()] * 5
    assert run(Executor(tools), "search_tools", names=["slack_send"]).found == ("slack_send",)
    assert run(after, "search_tools", names=["slack_send"]).found == ("weather",)


@tool(effect=READ, exposure=Exposure.SEARCH)
def find() -> Result:
    """Find tools."""
    return Result("", "weather", found=("weather",))


def test_a_search_tool_of_the_application_answers_by_itself() -> None:
    result = Executor(OFFICE | Toolset(find)).run_sync(Call("find", {}, "1"))

    assert (result.text, result.found) == ("weather", ("weather",))


@pytest.mark.parametrize("extra", [Toolset(), Toolset(find)])
def test_a_tool_that_is_always_denied_is_never_sent(extra: Toolset) -> None:
    policy, tools = Never("weather"), OFFICE | extra
    names = [tool.spec.name for tool in tools]
    restricted = Executor(tools).restrict(*names, policy=policy)
    for executor in (Executor(tools, policy=policy), restricted):
        for api in (anthropic, openai_chat):
            sent = api.encode_tools(executor.tools, loaded=["weather", "slack_send"])
            assert "weather" not in str([one.get("name") or one["function"] for one in sent])
            assert "slack_send" in str(sent)
    everything = openai_chat.encode_tools(Executor(tools).tools, loaded=["weather"])
    assert "weather" in str(everything[-1])


def test_tools_that_you_pass_to_a_turn_are_found_and_called_as_the_policy_says() -> None:
    executor = Executor(OFFICE, policy=Never("weather"))

    async def main() -> list[tuple[str, bool]]:
        sent = await executor.prepare_tools()
        seen: list[tuple[str, bool]] = []
        for tools in (OFFICE, sent.without("clock")):
            for name, args in (("search_tools", {"names": ["weather"]}), ("weather", {})):
                turn = executor.turn(tools=tools)
                result = await executor.run(Call(name, args, "1"), turn=turn)
                seen.append((result.text.partition(".")[0], "weather" in tools))
        return seen

    unknown = "There is no tool 'weather'"
    assert anyio.run(main) == [(unknown, True)] * 2 + [(unknown, False)] * 2


def test_an_unknown_tool_may_be_found_with_a_search_tool_of_yours() -> None:
    many = Toolset(find, *(make_tool(f"server_{at}_{'x' * 20}") for at in range(20)))

    assert run(Executor(many), "zebra").text == snapshot(
        "There is no tool 'zebra'. Use one of the tools you were given, or find others with find."
    )


def test_a_found_tool_that_is_denied_later_is_denied_with_a_reason() -> None:
    policy = Never("weather", version="1")
    executor = Executor(OFFICE, policy=policy)

    async def main() -> list[str]:
        await executor.prepare_tools()
        found, unfound = executor.turn(loaded=["weather"]), executor.turn()
        policy.version = "2"
        call = Call("weather", {}, "1")
        return [(await executor.run(call, turn=turn)).text for turn in (found, unfound)]

    denied, unknown = anyio.run(main)

    assert denied == "not you"
    assert unknown.startswith("There is no tool 'weather'.")
    assert "weather" not in executor.tools


def test_call_tool_takes_both_names_of_a_tool() -> None:
    executor = Executor(DOTTED, call_found_by="call_tool")
    args = {"to": "ann"}
    called = [
        run(executor, "call_tool", name=name, arguments=args)
        for name in ("mail.send", "mail_u2e_send")
    ]

    assert [result.text for result in called] == ["mail.send ran with {'to': 'ann'}"] * 2
    assert run(executor, "call_tool", name="mail.send", arguments={}).text.splitlines()[-1] == (
        "The tool is mail.send(to: string)."
    )
    assert run(Executor(DOTTED), "mail.send").text.splitlines()[-1] == (
        "The tool is mail_u2e_send(to: string)."
    )


def test_the_search_names_the_tool_that_calls() -> None:
    @tool(effect=READ)
    def call_tool() -> str:
        """Call a taxi."""
        return "a taxi"

    executor = Executor(OFFICE | Toolset(call_tool), call_found_by="call_tool")

    assert run(executor, "call_tool").text == "a taxi"
    assert "returned with call_tool_." in executor.tools["search_tools"].spec.description
    assert run(executor, "call_tool_", name="weather", arguments={}).failure is None


def test_hooks_see_the_refused_call_that_a_proxy_means() -> None:
    seen: list[Call | CheckedCall] = []

    def note(call: CheckedCall | Call, result: Result) -> Result:
        seen.append(call)
        return result

    guard = loop_guard(most=1, except_for={"mail.send"})
    executor = Executor(DOTTED, call_found_by="call_tool", hooks=[guard, Hook(after=note)])
    kinds = [
        result.failure and result.failure.kind
        for _ in range(3)
        for result in [run(executor, "call_tool", name="mail_u2e_send", arguments={})]
    ]
    run(executor, "call_tool", name="gone", arguments={"a": 1})
    run(executor, "call_tool", name=3)

    assert kinds == [FailureKind.BAD_ARGS] * 3
    assert seen == [
        *[Call("mail.send", {}, "1")] * 3,
        Call("gone", {"a": 1}, "1"),
        Call("call_tool", {"name": 3}, "1"),
    ]


def test_hooks_see_a_broken_proxy_as_it_was_called() -> None:
    seen: list[str] = []

    def note(call: CheckedCall | Call, result: Result) -> Result:
        seen.append(call.name)
        return result

    def fail(_: object) -> Call:
        raise RuntimeError

    spec = Spec(name="door", description="", input_schema={"type": "object"})
    executor = Executor(Toolset(Tool.proxy(spec, fail)), hooks=[Hook(after=note)])

    assert run(executor, "door").failure is not None
    assert seen == ["door"]


@pytest.mark.parametrize("denied", [0, 1_000])
def test_the_policy_judges_few_tools_for_an_unknown_name(denied: int) -> None:
    names = [f"server_{at}_tool" for at in range(1_000)]
    policy = Never(*names[:denied])
    executor = Executor(Toolset(*map(make_tool, names)), policy=policy)
    text = run(executor, "server_500_tol").text

    assert 0 < policy.asked <= 40
    assert ("server_500_tool" in text) == (not denied)


def test_two_tools_that_search_are_refused() -> None:
    @tool(effect=READ, exposure=Exposure.SEARCH)
    def seek() -> str:
        """Find tools."""
        return ""

    registry = make_registry()
    registry.add(Toolset(find, seek), name="two")
    for tools in (OFFICE | Toolset(find, seek), registry):
        with pytest.raises(ValueError, match="'find' and 'seek' both have exposure"):
            Executor(tools)
    assert "find" in Executor(OFFICE | Toolset(find)).tools
