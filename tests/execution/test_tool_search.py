"""Deferred tools: found by a search, called by name or with call_tool, and judged like any other."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any
from weakref import ref

import anyio
import pytest
from inline_snapshot import snapshot

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
    Exposure,
    FailureKind,
    Hook,
    Registry,
    Result,
    Spec,
    Toolset,
    tool,
)
from handrail.events import Event, Finished
from handrail.permissions import Pending
from office_tools import OFFICE, clock, make_tool


def run(executor: Executor, name: str, /, **args: Any) -> Result:
    return executor.run_sync(Call(name, args, "1"))


def names(executor: Executor) -> list[str]:
    return [spec.name for spec in executor.tools.specs]


def test_a_search_tool_is_offered_only_with_tools_to_find() -> None:
    assert names(Executor(Toolset(clock))) == ["clock"]
    assert "search_tools" in names(Executor(OFFICE))
    assert "call_tool" not in names(Executor(OFFICE))
    assert {"search_tools", "call_tool"} < {*names(Executor(OFFICE, call_found_by="call_tool"))}


def test_a_tool_of_yours_keeps_its_name() -> None:
    @tool(effect=READ)
    def search_tools() -> str:
        """Search the shed."""
        return "a hammer"

    executor = Executor(OFFICE | Toolset(search_tools), call_found_by="call_tool")

    assert run(executor, "search_tools").text == "a hammer"
    assert run(executor, "search_tools_", names=["weather"]).metadata["hits"] == ["weather"]
    assert executor.tools["call_tool"].spec.description == snapshot(
        "Call a tool that search_tools_ has returned."
    )


def test_a_search_tool_of_yours_is_used() -> None:
    @tool(effect=READ, exposure=Exposure.SEARCH)
    def find() -> Result:
        """Find tools."""
        return Result("", "weather", found=("weather",))

    executor = Executor(OFFICE | Toolset(find))

    async def in_a_turn() -> Result:
        usual = Executor(OFFICE)
        return await usual.run(Call("find", {}, "1"), turn=usual.turn(tools=Toolset(find)))

    assert "search_tools" not in names(executor)
    assert run(executor, "find").found == ("weather",)
    assert anyio.run(in_a_turn).found == ("weather",)


def test_a_deferred_tool_runs_without_having_been_found() -> None:
    assert run(Executor(OFFICE), "weather").text == "weather ran with {}"


def test_the_refusal_of_a_tool_that_was_not_found_has_its_signature() -> None:
    executor = Executor(OFFICE)
    refused = run(executor, "github_merge", repo="x")

    assert (refused.failure and refused.failure.kind, refused.text) == snapshot(
        (
            FailureKind.BAD_ARGS,
            """\
Not run: invalid arguments.
- number: required, missing
Fix these and call again.
The tool is github_merge(repo: string, number: string).\
""",
        )
    )

    async def when_loaded() -> Result:
        turn = executor.turn(loaded=["github_merge"])
        return await executor.run(Call("github_merge", {"repo": "x"}, "1"), turn=turn)

    assert anyio.run(when_loaded).text == snapshot("""\
Not run: invalid arguments.
- number: required, missing
Fix these and call again.\
""")


def test_an_unknown_tool_may_be_found() -> None:
    many = Toolset(*(make_tool(f"server_{at}_{'x' * 20}") for at in range(20)))

    assert run(Executor(many), "zebra").text == snapshot(
        "There is no tool 'zebra'. Use one of the tools you were given, or find others with search_tools."
    )
    assert run(Executor(OFFICE), "slack_sent").text == snapshot(
        "There is no tool 'slack_sent'. Did you mean slack_send?"
    )


def test_a_search_ends_in_an_event_with_queries_hits_and_time() -> None:
    async def main() -> list[Event]:
        async with Executor(OFFICE) as executor:
            feed = executor.events()
            await executor.run(Call("search_tools", {"queries": ["rain"]}, "1"))
        return [event async for event in feed]

    (finished,) = [event for event in anyio.run(main) if isinstance(event, Finished)]
    assert finished.result.metadata == {"queries": ["rain"], "names": [], "hits": ["weather"]}
    assert finished.result.seconds is not None


def test_call_tool_is_judged_as_the_tool_itself() -> None:
    seen: list[tuple[str, str, tuple[Any, ...]]] = []

    def policy(call: CheckedCall) -> Decision:
        seen.append((call.name, call.via, call.accesses))
        return Deny("not now") if call.name == "slack_send" else Allow()

    executor = Executor(OFFICE, policy=policy, call_found_by="call_tool")
    args = {"channel": "a", "text": "b"}
    direct = run(executor, "slack_send", **args)
    through = run(executor, "call_tool", name="slack_send", arguments=args)

    assert direct == through
    assert (direct.failure and direct.failure.kind) is FailureKind.DENIED
    assert [(name, accesses) for name, _, accesses in seen[:1]] == [
        (name, accesses) for name, _, accesses in seen[1:]
    ]
    assert [via for _, via, _ in seen] == ["", "call_tool"]
    assert run(executor, "call_tool", name="weather", arguments={}).text == "weather ran with {}"


def test_call_tool_asks_as_the_tool_itself() -> None:
    asked: list[Pending] = []

    async def approver(pending: Pending) -> Deny:
        asked.append(pending)
        return Deny("no")

    executor = Executor(
        OFFICE,
        policy=lambda call: Ask(f"Run {call.name}?"),
        approvals=approver,
        call_found_by="call_tool",
    )
    run(executor, "weather")
    run(executor, "call_tool", name="weather", arguments={})

    first, second = asked
    assert (first.question, first.accesses) == (second.question, second.accesses)
    assert (second.call.name, second.question) == ("weather", "Run weather?")


def test_call_tool_searches_and_calls_no_proxy() -> None:
    executor = Executor(OFFICE, call_found_by="call_tool")
    found = run(executor, "call_tool", name="search_tools", arguments={"names": ["weather"]})

    assert found == run(executor, "search_tools", names=["weather"])
    assert run(executor, "call_tool", name="call_tool", arguments={}).text == snapshot(
        "There is no tool 'call_tool'. Available tools: clock, github_create_issue, github_list_issues, github_merge, search_tools, slack_channels, slack_send, weather."
    )


def test_an_unknown_way_of_calling_is_rejected() -> None:
    with pytest.raises(ValueError, match="call_found_by='x'"):
        Executor(OFFICE, call_found_by="x")  # type: ignore[arg-type]


def test_a_restricted_executor_finds_only_its_tools() -> None:
    part = Executor(OFFICE).restrict("slack_send", "weather", "clock")

    assert run(part, "search_tools").text == snapshot("""\
2 tools in 1 namespace. To list the tools of one, pass its name as a query.
other (2): Send a message to a channel\
""")
    assert run(part, "search_tools", queries=["github issue"]).found == ()
    assert run(part, "search_tools", names=["github_merge"]).text == snapshot(
        "There is no tool 'github_merge'. Search for it in other words."
    )
    assert run(part, "github_merge").text == snapshot(
        "There is no tool 'github_merge'. Available tools: clock, search_tools, slack_send, weather."
    )
    assert "github" not in part.tools["search_tools"].spec.description


def test_a_turn_finds_only_its_tools() -> None:
    executor = Executor(OFFICE)
    other = make_tool("weather", "Get the weather of another planet.")

    async def main() -> list[str]:
        texts: list[str] = []
        for tools in (OFFICE.only("weather"), executor.tools.only("weather"), Toolset(other)):
            for _ in range(2):
                turn = executor.turn(tools=tools)
                call = Call("search_tools", {"queries": ["weather planet message"]}, "1")
                texts.append((await executor.run(call, turn=turn)).text)
        return texts

    plain, special = "weather() - Get the weather", "weather() - Get the weather of another planet"
    assert anyio.run(main) == [plain] * 4 + [special] * 2


def test_a_turn_without_deferred_tools_has_no_search() -> None:
    executor = Executor(OFFICE)

    async def main() -> Result:
        turn = executor.turn(tools=OFFICE.only("clock"))
        return await executor.run(Call("search_tools", {}, "1"), turn=turn)

    assert anyio.run(main).text == snapshot(
        "There is no tool 'search_tools'. Available tools: clock."
    )


def test_changed_tools_are_found() -> None:
    registry = Registry()
    registry.add(OFFICE, name="office")
    executor = Executor(registry)
    part = executor.restrict("weather")
    before = executor.tools["search_tools"].spec
    assert run(executor, "search_tools", queries=["planet"]).found == ()

    registry.add(Toolset(make_tool("stars_planet", "Show a planet.")), name="stars")

    assert executor.tools["search_tools"].spec == before
    assert "stars_planet" in executor.refresh_tools()
    assert run(executor, "search_tools", queries=["planet"]).found == ("stars_planet",)
    part.refresh_tools()
    assert run(part, "search_tools", queries=["weather planet"]).found == ("weather",)


def test_a_removed_tool_is_stale_and_the_search_is_not() -> None:
    registry = Registry()
    registry.add(OFFICE, name="office")
    executor = Executor(registry)

    async def main() -> list[str]:
        turn = executor.turn()
        registry.replace("office", OFFICE.without("weather"))
        calls = Call("weather", {}, "1"), Call("search_tools", {"names": ["weather"]}, "2")
        return [(await executor.run(call, turn=turn)).text for call in calls]

    assert anyio.run(main) == snapshot(
        [
            "Not run: the tool 'weather' has changed since you received it. Read its new definition and call again.",
            "weather() - Get the weather",
        ]
    )


def test_policies_that_change_change_what_is_found() -> None:
    class Switch:
        version = "1"

        def __call__(self, _: CheckedCall) -> Decision:
            return Allow()

        def never(self, spec: Spec) -> bool:
            return self.version == "2" and spec.name == "weather"

    switch = Switch()
    executor = Executor(OFFICE, policy=switch)
    whole = [tool.spec.name for tool in OFFICE]
    both = executor.restrict(*whole, policy=lambda _: Allow())
    assert [run(one, "search_tools", queries=["rain"]).found for one in (executor, both)] == [
        ("weather",),
        ("weather",),
    ]
    assert "other 1" in executor.tools["search_tools"].spec.description

    switch.version = "2"

    assert run(executor, "search_tools", queries=["rain"]).found == ()
    assert "other" not in executor.tools["search_tools"].spec.description
    assert run(both, "search_tools", queries=["rain"]).found == ()


def test_a_policy_that_fails_to_say_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, _: CheckedCall) -> Decision:
            return Allow()

        def never(self, _: Spec) -> bool:
            raise RuntimeError

    found = run(Executor(OFFICE, policy=Broken()), "search_tools", queries=["rain"])

    assert found.found == ("weather",)
    assert "failed to say whether it denies every call" in caplog.text


def test_hooks_see_a_search() -> None:
    seen: list[str] = []

    def before(call: CheckedCall) -> CheckedCall:
        seen.append(f"{call.name} {call.spec.effect.name} {call.accesses}")
        return call

    run(Executor(OFFICE, hooks=[Hook(before=before)]), "search_tools")

    assert seen == ["search_tools READ ()"]


class Counting:
    """A policy that counts what it is asked, slowly."""

    def __init__(self) -> None:
        self.asked = 0
        self.threads: set[int] = set()

    def __call__(self, _: CheckedCall) -> Decision:
        return Allow()

    def never(self, spec: Spec) -> bool:
        self.asked += 1
        self.threads.add(threading.get_ident())
        return spec.name.endswith("7")


def many_tools(count: int) -> Toolset:
    return Toolset(*(make_tool(f"server{at % 50}_tool_{at}", "Do it.") for at in range(count)))


def test_two_searches_judge_and_index_once_and_off_the_event_loop() -> None:
    policy, tools = Counting(), many_tools(1_000)

    async def main() -> set[int]:
        async with Executor(tools, policy=policy) as executor:
            async with anyio.create_task_group() as group:
                for at in range(3):
                    call = Call("search_tools", {"queries": [f"tool {at}"]}, str(at))
                    group.start_soon(executor.run, call)
            await executor.prepare_tools()
        return {threading.get_ident()}

    loop = anyio.run(main)

    assert policy.asked == len(tools)
    assert policy.threads.isdisjoint(loop)


def test_an_executor_of_many_tools_judges_none() -> None:
    policy, tools = Counting(), many_tools(200)
    executor = Executor(tools, policy=policy)

    assert run(executor, "server1_tool_1").failure is None
    assert policy.asked == 1
    assert "server" in executor.tools["search_tools"].spec.description
    assert policy.asked == 1 + len(tools)


def test_many_tools_do_not_block_the_event_loop() -> None:
    tools, busy = many_tools(2_000), list[float]()

    async def beat(stop: anyio.Event) -> None:
        while not stop.is_set():
            before = time.thread_time()
            await anyio.sleep(0.001)
            busy.append(time.thread_time() - before)

    async def main() -> None:
        stop = anyio.Event()
        executor = Executor(tools, policy=Counting())
        async with executor, anyio.create_task_group() as group:
            group.start_soon(beat, stop)
            await executor.prepare_tools()
            await executor.run(Call("search_tools", {"queries": ["tool 5"]}, "1"))
            stop.set()

    anyio.run(main)

    assert max(busy) < 0.05, "seconds that the thread of the event loop itself worked"


def test_an_index_lives_as_long_as_its_tools() -> None:
    def search_once() -> Toolset:
        tools = many_tools(5)
        run(Executor(tools), "search_tools", queries=["tool"])
        return tools

    left = ref(search_once())
    for _ in range(100):
        run(Executor(OFFICE), "search_tools")  # a worker thread keeps its last call for a while
        gc.collect()
        if left() is None:
            break

    assert left() is None


def test_large_sets_are_deferred() -> None:
    @tool(effect=READ)
    def big(name: str) -> str:
        """Do much."""
        return name

    tools = Toolset(clock, big)
    cost = sum(spec.tokens for spec in tools.specs)

    assert tools.deferred() is tools
    assert tools.deferred(over=cost) is tools
    deferred = tools.deferred(keep=["clock"], over=cost - 1)
    assert {spec.name: spec.exposure for spec in deferred.specs} == {
        "big": Exposure.DEFERRED,
        "clock": Exposure.DIRECT,
    }
    assert deferred.deferred(over=0) == tools.deferred(over=0)
    with pytest.raises(LookupError, match="No tool is named 'clok'"):
        tools.deferred(keep=["clok"], over=0)


def test_an_always_denied_direct_tool_is_denied_and_not_suggested() -> None:
    class NoWeather:
        def __call__(self, call: CheckedCall) -> Decision:
            return Deny("no weather") if self.never(call.spec) else Allow()

        def never(self, spec: Spec) -> bool:
            return spec.name == "weather"

    direct = make_tool("weather", effect=WRITE, exposure=Exposure.DIRECT)
    executor = Executor(Toolset(direct, clock), policy=NoWeather())

    assert run(executor, "weather").text == "no weather"
    assert run(executor, "wether").text == snapshot(
        "There is no tool 'wether'. Available tools: clock."
    )


@pytest.mark.anyio
async def test_an_unknown_name_among_many_tools_without_a_search_lists_none() -> None:
    @tool(effect=READ)
    def look() -> str:
        """Look."""
        return ""

    many = [tool(name=f"look_at_number_{n}", effect=READ)(look.fn) for n in range(60)]
    async with Executor(Toolset(*many)) as executor:
        result = await executor.run(Call("zebra", {}))

    assert result.text == "There is no tool 'zebra'. Use one of the tools you were given."
