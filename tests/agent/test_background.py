"""Calls in the background: the model goes on, and reads their results in later messages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Image,
    Text,
    Tool,
    ToolFailed,
    tool,
)
from handrail.agent import Agent, BackgroundCall, RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Prompt, Reply, ToolResults
from handrail.testing import ScriptedModel

pytestmark = pytest.mark.anyio
RENDER, LOOK = Call("render", {"scene": 1}, "r1"), Call("look", {}, "l1")
STARTED = (
    "Started in the background, as 'r1'. Its result comes in a later message: do not call it again "
    "to get it. Continue with other work; if there is none, end your turn."
)
HEAD = (
    "[The background call 'r1' of render has ended. This is its result, and no message from the "
    "user:]\n"
)
LOST = (
    "Interrupted: the result of this call was lost. It may have taken effect: check before you "
    "call it again."
)


class Studio:
    """Renders a scene once it may."""

    def __init__(self) -> None:
        self.may_end = anyio.Event()
        self.did: list[str] = []

    def render(self, **options: Any) -> Tool[..., Any]:
        given: dict[str, Any] = {"effect": WRITE, "touches": _touch_scene, **options}

        @tool(background=True, **given)
        async def render(scene: int) -> str:
            """Render a scene."""
            self.did.append(f"begin {scene}")
            await self.may_end.wait()
            self.did.append(f"end {scene}")
            return f"scene {scene}"

        return render

    def look(self, *, ends: bool = False) -> Tool[..., Any]:
        @tool(effect=READ, touches=lambda: Access(READ, "room:window"))
        async def look() -> str:
            """Look out of the window."""
            self.did.append("look")
            if ends:
                self.may_end.set()
            return "rain"

        return look


def _touch_scene(scene: int) -> Access:
    return Access(WRITE, f"scene:{scene}")


def told(state: RunState) -> list[str]:
    """What the model reads, in order."""
    found: list[str] = []
    for message in state.messages:
        match message:
            case ToolResults(results):
                found += [result.text for result in results]
            case _:
                found += [part.text for part in message.parts if isinstance(part, Text)]
    return found


async def test_the_model_goes_on_and_reads_the_result_in_a_message() -> None:
    studio = Studio()
    model = ScriptedModel([RENDER], [LOOK], "It rains, and the scene is there.")
    done = await Agent(model, [studio.render(), studio.look(ends=True)]).run("Go")
    assert (done.stop_reason, done.state.background) == ("answer", ())
    assert studio.did == ["begin 1", "look", "end 1"]
    assert told(done.state)[:3] == ["Go", STARTED, "rain"]
    assert sorted(told(done.state)[3:]) == sorted([f"{HEAD}scene 1", done.text])


async def test_a_run_does_not_end_before_its_background_calls() -> None:
    studio = Studio()

    def on_event(event: object) -> None:
        if isinstance(event, Reply) and event.text == "I wait.":
            studio.may_end.set()

    model = ScriptedModel([RENDER], "I wait.", "Done.")
    agent = Agent(model, [studio.render()])
    done = await agent.run("Go", on_event=on_event)
    assert (done.stop_reason, done.output) == ("answer", "Done.")
    assert told(done.state) == ["Go", STARTED, "I wait.", f"{HEAD}scene 1", "Done."]


async def test_a_result_is_no_word_of_the_user() -> None:
    studio = Studio()
    studio.may_end.set()
    done = await Agent(ScriptedModel([RENDER], "I wait.", "Done."), [studio.render()]).run("Go")
    [message] = [one for one in done.state.messages if told(RunState((one,))) == [f"{HEAD}scene 1"]]
    assert isinstance(message, Prompt)
    assert message.parts == (Text(f"{HEAD}scene 1", quoted=True),)


async def test_images_and_failures_arrive_as_well() -> None:
    may_end = anyio.Event()

    @tool(effect=READ, background=True)
    async def draw() -> list[Text | Image]:
        """Draw."""
        await may_end.wait()
        return [Text("drawn"), Image(b"png")]

    @tool(effect=READ, background=True)
    async def fail() -> str:
        """Fail."""
        await may_end.wait()
        raise ToolFailed("No paper.")

    def on_event(event: object) -> None:
        may_end.set() if isinstance(event, Reply) and not event.calls else None

    model = ScriptedModel([Call("draw", {}, "d"), Call("fail", {}, "f")], "I wait.", "A.", "B.")
    done = await Agent(model, [draw, fail]).run("Go", on_event=on_event)
    prompts = [one for one in done.state.messages[1:] if isinstance(one, Prompt)]
    kinds = [[type(part) for part in one.parts] for one in prompts]
    texts = sorted(one.parts[0].text.partition("\n")[2] for one in prompts)  # type: ignore[union-attr]
    assert (sorted(kinds, key=len), texts) == ([[Text], [Text, Image]], ["No paper.", "drawn"])


async def test_a_call_that_ends_at_once_has_its_result_at_once() -> None:
    @tool(effect=READ, background=True)
    async def look() -> str:
        """Look."""
        return "rain"

    done = await Agent(ScriptedModel([LOOK], "Rain."), [look]).run("Go")
    assert told(done.state) == ["Go", "rain", "Rain."]


async def test_a_streamed_call_that_reads_is_in_the_background_too() -> None:
    studio = Studio()
    reader = studio.render(effect=READ, touches=lambda scene: Access(READ, f"scene:{scene}"))
    model = ScriptedModel([RENDER], [LOOK], "It rains.", "Done.")
    async with Agent(model, [reader, studio.look(ends=True)]).stream("Go") as events:
        async for _ in events:
            pass
        done = events.result
    assert done.stop_reason == "answer"
    assert f"{HEAD}scene 1" in told(done.state)


async def test_a_call_that_conflicts_waits_until_it_has_ended() -> None:
    studio = Studio()

    @tool(touches=_touch_scene)
    async def remove(scene: int) -> str:
        """Remove a scene."""
        studio.did.append(f"remove {scene}")
        return "removed"

    calls = [Call("remove", {"scene": 1}, "x1"), LOOK]
    done = await Agent(
        ScriptedModel([RENDER], calls, "Done.", "Yes."),
        [studio.render(), remove, studio.look(ends=True)],
    ).run("Go")
    assert done.stop_reason == "answer"
    assert studio.did == ["begin 1", "look", "end 1", "remove 1"]


def careful(call: CheckedCall) -> Decision:
    return Ask("Render?") if call.name == "render" else Allow()


async def test_approval_comes_before_the_start() -> None:
    studio = Studio()
    studio.may_end.set()
    model = ScriptedModel([RENDER], "I wait.", "Done.")
    agent = Agent(model, [studio.render()], policy=careful, approvals=defer)
    parked = await agent.run("Go")
    assert (parked.stop_reason, parked.state.background, studio.did) == ("pending", (), [])
    state = load_state(dump_state(parked.state))
    done = await agent.resume(state, answers={one.id: Allow() for one in parked.questions})
    assert told(done.state) == ["Go", STARTED, "I wait.", f"{HEAD}scene 1", "Done."]
    parked = await Agent(
        ScriptedModel([RENDER], "No."), [studio.render()], policy=careful, approvals=defer
    ).run("Go")
    denied = await agent.resume(
        parked.state, answers={one.id: Deny("Not now.") for one in parked.questions},
        model=ScriptedModel("No."),
    )  # fmt: skip
    assert told(denied.state) == ["Go", "Not now.", "No."]


async def test_a_pending_run_has_the_results_of_its_background_calls() -> None:
    studio = Studio()

    @tool(needs_approval=True, touches=lambda: Access(WRITE, "post:letter"))
    async def send() -> str:
        """Send a letter."""
        return "sent"

    async def ask(pending: Any) -> Any:
        studio.may_end.set()
        return pending

    calls = [RENDER, Call("send", {}, "s1")]
    agent = Agent(ScriptedModel(calls, "Sent."), [studio.render(), send], approvals=ask)
    done = await agent.run("Go")
    assert (done.stop_reason, done.state.background) == ("pending", ())
    assert [told(RunState((one,))) for one in done.state.inbox] == [[f"{HEAD}scene 1"]]
    end = await agent.resume(done.state, answers={one.id: Allow() for one in done.questions})
    assert told(end.state) == ["Go", STARTED, "sent", f"{HEAD}scene 1", "Sent."]


async def test_a_tool_that_asks_in_the_background_is_refused() -> None:
    @tool(background=True)
    async def book(context: Context) -> str:
        """Book."""
        seat = await context.ask("Which seat?", {"type": "object", "properties": {}})
        return f"booked {seat}"

    model = ScriptedModel([Call("book", {}, "r1")], "I wait.", "Done.")
    done = await Agent(model, [book], approvals=defer).run("Go")
    assert done.stop_reason == "answer"
    assert told(done.state)[3].endswith("It may have taken effect in part.")


async def test_an_interrupt_stops_them() -> None:
    studio = Studio()

    def on_event(event: object) -> None:
        if isinstance(event, Reply) and event.text == "I wait.":
            run.interrupt()

    run = Agent(ScriptedModel([RENDER], "I wait."), [studio.render()]).run("Go", on_event=on_event)
    done = await run
    assert (done.stop_reason, done.state.background) == ("interrupted", ())
    [prompt] = done.state.inbox
    assert studio.did == ["begin 1"]
    assert "may have taken effect" in told(RunState((prompt,)))[0]


async def test_a_message_does_not_wait_for_them() -> None:
    studio = Studio()

    def on_event(event: object) -> None:
        if isinstance(event, Reply) and event.text == "I wait.":
            run.send("And the window?")

    model = ScriptedModel([RENDER], "I wait.", [LOOK], "Rain.", "Done.")
    agent = Agent(model, [studio.render(), studio.look(ends=True)])
    run = agent.run("Go", on_event=on_event)
    done = await run
    assert (done.output, studio.did) == (done.text, ["begin 1", "look", "end 1"])
    assert told(done.state)[:5] == ["Go", STARTED, "I wait.", "And the window?", "rain"]


async def test_a_cancelled_run_leaves_nothing_running() -> None:
    studio, begun = Studio(), anyio.Event()

    @tool(background=True)
    async def render(scene: int) -> str:
        """Render."""
        begun.set()
        try:
            await studio.may_end.wait()
        finally:
            studio.did.append(f"stopped {scene}")
        return ""

    async def wait() -> None:
        await Agent(ScriptedModel([RENDER], "I wait."), [render]).run("Go")

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await begun.wait()
        group.cancel_scope.cancel()
    assert studio.did == ["stopped 1"]


async def test_a_typed_answer_is_given_again_after_their_results() -> None:
    studio = Studio()

    def answer(value: int) -> Call:
        return Call("final_answer", {"answer": value}, f"a{value}")

    def on_event(event: object) -> None:
        if isinstance(event, ToolResults) and event.results[0].call_id == "a1":
            studio.may_end.set()

    model = ScriptedModel([RENDER], [answer(1)], [answer(2)])
    done = await Agent(model, [studio.render()], output=int).run("Go", on_event=on_event)
    assert (done.stop_reason, done.output, done.state.background) == ("answer", 2, ())


def left_behind(tmp_path: Path, effect: str) -> RunState:
    """The state that a killed process has saved while a call ran in the background."""
    file = tmp_path / "state"
    ran = subprocess.run(  # noqa: S603
        [sys.executable, __file__, str(file), effect], capture_output=True, check=False
    )
    assert ran.returncode == -signal.SIGKILL, ran.stderr.decode()
    return load_state(file.read_text(encoding="utf-8"))


async def test_a_call_whose_process_died_is_reported_as_unknown(tmp_path: Path) -> None:
    state = left_behind(tmp_path, "write")
    assert state.background == (BackgroundCall(Call("render", '{"scene": 1}', "r1"), "1"),)
    given_up = state.abandon()
    assert (told(given_up), given_up.background) == (["Go", STARTED, f"{HEAD}{LOST}"], ())
    studio = Studio()
    done = await Agent(ScriptedModel("Done."), [studio.render()]).resume(state)
    assert told(done.state) == ["Go", STARTED, f"{HEAD}{LOST}", "Done."]
    assert studio.did == []


async def test_a_call_that_only_reads_runs_again(tmp_path: Path) -> None:
    state, studio = left_behind(tmp_path, "read"), Studio()
    studio.may_end.set()
    reader = studio.render(effect=READ, touches=lambda scene: Access(READ, f"scene:{scene}"))
    done = await Agent(ScriptedModel("I wait.", "Done."), [reader]).resume(state)
    assert f"{HEAD}scene 1" in told(done.state)
    assert studio.did == ["begin 1", "end 1"]


async def _die(file: Path, effect: str) -> None:
    studio = Studio()

    async def save(state: RunState) -> None:
        file.write_text(dump_state(state), encoding="utf-8")  # noqa: ASYNC240  it dies next
        if state.background:
            os.kill(os.getpid(), signal.SIGKILL)

    render = studio.render(effect=READ) if effect == "read" else studio.render()
    if effect == "read":
        render = studio.render(effect=READ, touches=lambda scene: Access(READ, f"scene:{scene}"))
    await Agent(ScriptedModel([RENDER], "I wait."), [render], save=save).run("Go")


if __name__ == "__main__":
    anyio.run(_die, Path(sys.argv[1]), sys.argv[2])
