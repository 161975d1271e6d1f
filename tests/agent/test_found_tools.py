"""What a conversation has found is loaded again by a resume, a fork, and another process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from handrail import READ, Allow, Ask, Call, Executor, FailureKind, Result, Text, Toolset, tool
from handrail.agent import Agent, Compaction, RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Reply, Request, ToolResults, find_loaded_tools
from handrail.testing import ScriptedModel
from office_tools import OFFICE

FIND = Call("search_tools", {"queries": ["weather"]}, "1")
FIND_AGAIN = Call("search_tools", {"queries": ["weather message"]}, "2")
LOADED = "weather() - Get the weather [loaded]"


def results(state: RunState) -> list[Result]:
    return [
        result
        for message in state.messages
        if isinstance(message, ToolResults)
        for result in message.results
    ]


def run(*steps: str | Call, history: RunState | None = None, stream: bool = False) -> RunState:
    with ScriptedModel(*steps, stream=stream) as model:
        return Agent(model, OFFICE).run_sync("go", history=history).state


@pytest.mark.parametrize("stream", [False, True])
def test_a_later_search_knows_what_was_found(*, stream: bool) -> None:
    state = run(FIND, FIND_AGAIN, Call("weather", {}, "3"), "done", stream=stream)
    first, second, called = results(state)

    assert first.text == "weather() - Get the weather"
    assert second.text.splitlines()[0] == LOADED
    assert find_loaded_tools(state.messages) == ("weather", "slack_send")
    assert called.text == "weather ran with {}"


def test_a_new_prompt_and_two_forks_know_it_too() -> None:
    begun = run(FIND, "done")
    one, two = (run(FIND_AGAIN, "done", history=begun) for _ in range(2))
    fresh = run(FIND_AGAIN, "done")

    assert results(one)[1].text.splitlines()[0] == LOADED
    assert results(two) == results(one)
    assert LOADED not in results(fresh)[0].text


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from office_tools import OFFICE
from handrail import Call
from handrail.agent import Agent, dump_state, load_state
from handrail.testing import ScriptedModel

state = load_state(sys.stdin.read())
again = Call("search_tools", {{"queries": ["weather message"]}}, "2")
done = Agent(ScriptedModel(again, "done"), OFFICE).run_sync("go", history=state)
sys.stdout.write(dump_state(done.state))
"""


def test_another_process_knows_it_too() -> None:
    begun = run(FIND, "done")
    script = SCRIPT.format(paths=[str(Path(__file__).parents[1])])
    done = subprocess.run(  # noqa: S603  our own script
        [sys.executable, "-c", script],
        input=dump_state(begun),
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    there = load_state(done.stdout)

    assert results(there) == results(run(FIND_AGAIN, "done", history=begun))
    assert find_loaded_tools(there.messages) == ("weather", "slack_send")


def test_what_compaction_left_out_must_be_found_again() -> None:
    seen: list[tuple[str, ...]] = []
    wide = Call("search_tools", {"queries": ["weather"]}, "1")
    long = Call("github_create_issue", {"repo": "x" * 3_000, "title": "t"}, "2")
    said: list[Call | Text] = [wide, long, FIND_AGAIN, Text("done")]

    async def model(request: Request) -> Reply:
        if request.tool_choice == "none":
            return Reply((Text("a summary"),))
        seen.append(find_loaded_tools(request.messages))
        return Reply((said.pop(0),))

    state = Agent(model, OFFICE, compaction=Compaction(window=1_800, keep_turns=1)).run_sync("go")

    assert seen == [(), ("weather",), (), ("weather", "slack_send")]
    assert LOADED not in results(state.state)[2].text


def test_a_find_whose_text_is_left_out_stays_loaded() -> None:
    left_out: list[tuple[str, ...]] = []
    names = ["github_merge", "github_create_issue", "github_list_issues", "slack_send", "weather"]
    wide = Call("search_tools", {"names": [*names, "x" * 200]}, "1")
    said: list[Call | Text] = [wide, *(Call("page", {}, str(at)) for at in "abc"), Text("done")]

    async def model(request: Request) -> Reply:
        searched = request.messages[2] if len(request.messages) > 1 else None
        if isinstance(searched, ToolResults) and searched.results[0].text.startswith("[Left out"):
            left_out.append(find_loaded_tools(request.messages))
        return Reply((said.pop(0),))

    compaction = Compaction(window=2_900, keep_turns=1)
    Agent(model, OFFICE | Toolset(page), compaction=compaction).run_sync("go")

    assert left_out == [tuple(names)] * 2


@tool(effect=READ)
def page() -> str:
    """Return a long page."""
    return "x" * 2_500


def test_a_failure_loads_nothing() -> None:
    failed = Result.fail("1", FailureKind.FAILED, "No.")._replace(found=("weather",))
    found = Result("2", "weather()", found=("weather",))

    assert find_loaded_tools([ToolResults((failed,))]) == ()
    assert find_loaded_tools([ToolResults((failed, found))]) == ("weather",)


def test_a_search_that_was_approved_later_knows_what_was_found() -> None:
    begun = run(FIND, "done")
    executor = Executor(OFFICE, policy=lambda _: Ask("May it?"), approvals=defer)

    async def resume() -> RunState:
        with ScriptedModel(FIND_AGAIN, "done") as model:
            agent = Agent(model, executor)
            paused = await agent.run("go", history=begun)
            [pending] = paused.state.pending
            return (await agent.resume(paused.state, answers={pending.id: Allow()})).state

    assert results(anyio.run(resume))[1].text.splitlines()[0] == LOADED


def test_a_search_that_was_interrupted_is_run_again() -> None:
    begun = run(FIND, "done")
    calls = (FIND_AGAIN, Call("call_tool", {"name": "weather", "arguments": {}}, "3"))
    writes = Call("call_tool", {"name": "slack_channels", "arguments": {}}, "4")
    cut = begun._replace(messages=(*begun.messages[:-1], Reply((*calls, writes))))
    executor = Executor(OFFICE, call_found_by="call_tool")

    async def resume() -> RunState:
        with ScriptedModel("done") as model:
            return (await Agent(model, executor).resume(cut)).state

    again = results(anyio.run(resume))[1:]

    assert [result.failure for result in again] == [None] * 3
    assert [json.loads(line)["name"] for line in again[0].text.splitlines()][:1] == ["weather"]
    assert [result.text for result in again[1:]] == [
        "weather ran with {}",
        "slack_channels ran with {}",
    ]


def test_a_call_that_may_have_changed_something_is_not_run_again() -> None:
    begun = run(FIND, "done")
    args = {"name": "slack_send", "arguments": {"channel": "a", "text": "b"}}
    cut = begun._replace(messages=(*begun.messages[:-1], Reply((Call("call_tool", args, "3"),))))
    executor = Executor(OFFICE, call_found_by="call_tool")

    async def resume() -> RunState:
        with ScriptedModel("done") as model:
            return (await Agent(model, executor).resume(cut)).state

    assert "ran with" not in results(anyio.run(resume))[1].text
