"""The table with the clients of four APIs: a server streams, and waits for each call to begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from handrail import READ, Call, Executor, Text, Toolset, tool
from handrail.agent import Agent
from handrail.events import Finished
from handrail.messages import Delta, ModelError, Reasoning
from handrail.models import retrying
from joints.agent_doors import run_agent
from joints.case import PATIENCE, Case, Door, Seen, Shown
from joints.provider import APIS, Answer, streaming
from joints.rows import ROWS

pytestmark = pytest.mark.anyio
every_api = pytest.mark.parametrize("api", APIS)
NOT_SENT = {
    ("malformed JSON", "gemini"),
    ("a key twice", "gemini"),
    ("malformed JSON", "openai_responses"),
}
"""Gemini sends arguments as an object. In Responses, JSON that ends too early was cut off: see below."""
CELLS = [(row, api) for row in ROWS for api in APIS if (row, api) not in NOT_SENT]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


def door_of(api: str) -> Door:
    """Return a door whose model is the client of an API."""

    async def door(case: Case) -> Seen:
        answers = [Answer(parts=calls) for calls in case.replies]
        with streaming(api, *answers, Answer(parts=[Text("done")])) as served:
            hooks = [*case.options.get("hooks", ()), served.hook]
            options = {**case.options, "hooks": hooks}
            seen = await run_agent(replace(case, options=options, model=served.model))
        assert served.unanswered == []
        return seen

    return door


def first_api(row: str) -> str:
    """Return the API that a row is tried with in every check."""
    apis = [api for api in APIS if (row, api) in CELLS]
    return apis[list(ROWS).index(row) % len(apis)]


@pytest.mark.parametrize(("row", "api"), [one for one in CELLS if first_api(one[0]) == one[1]])
async def test_a_row_holds_with_the_client_of_an_api(row: str, api: str) -> None:
    with anyio.fail_after(PATIENCE):
        await ROWS[row](door_of(api))


@pytest.mark.soak
@pytest.mark.parametrize(("row", "api"), [one for one in CELLS if first_api(one[0]) != one[1]])
async def test_a_row_holds_with_the_client_of_every_other_api(row: str, api: str) -> None:
    with anyio.fail_after(PATIENCE):
        await ROWS[row](door_of(api))


class Desk:
    """A tool that reads and one that writes, and what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []

        @tool(effect=READ)
        async def look(at: str) -> str:
            """Look at something."""
            self.did.append(f"look {at}")
            return f"saw {at}"

        @tool
        async def pay(euros: int) -> str:
            """Pay."""
            self.did.append(f"pay {euros}")
            return f"paid {euros}"

        self.tools = Toolset(look, pay)


LOOK, AGAIN = Call("look", {"at": "a"}, "c1"), Call("look", {"at": "b"}, "c2")
PAY = Call("pay", {"euros": 5}, "c3")
DONE = Answer(parts=[Text("All done.")])


@every_api
async def test_a_call_ends_before_the_rest_of_its_reply_is_sent(api: str) -> None:
    """The server sends nothing more until the first call has its result."""
    desk, parts = Desk(), [Reasoning("Let me think."), Text("I look."), LOOK, AGAIN]
    with streaming(api, Answer(parts=parts), DONE, until=(Finished,)) as served:
        executor = Executor(desk.tools, hooks=[served.hook])
        async with executor, Agent(served.model, executor).stream("go") as events:
            deltas = [event async for event in events if isinstance(event, Delta)]

    assert (events.result.output, desk.did) == ("All done.", ["look a", "look b"])
    assert "".join(one.text for one in deltas if one.thought) == "Let me think."
    assert "".join(one.text for one in deltas if not one.thought) == "I look.All done."
    assert served.unanswered == []


@every_api
@pytest.mark.parametrize("status", [429, 529])
async def test_a_busy_provider_is_asked_again(api: str, status: int) -> None:
    desk, answers = Desk(), [Answer(status=status), Answer(parts=[PAY]), Answer(status=status)]
    with streaming(api, *answers, DONE, waits=False) as served:
        async with Executor(desk.tools) as executor:
            done = await Agent(retrying(served.model, wait=0), executor).run("go")

    assert (done.output, desk.did) == ("All done.", ["pay 5"])
    assert served.bodies[0] == served.bodies[1] != served.bodies[2] == served.bodies[3]


@every_api
async def test_a_reply_that_breaks_off_runs_no_call_twice(api: str) -> None:
    desk, parts = Desk(), [Text("I look."), LOOK, PAY]
    answers = [Answer(parts=parts, is_cut=True), Answer(parts=parts), DONE]
    with streaming(api, *answers, waits=False) as served:
        async with Executor(desk.tools) as executor:
            done = await Agent(retrying(served.model, wait=0), executor).run("go")

    assert (done.output, desk.did) == ("All done.", ["look a", "pay 5"])


@every_api
async def test_a_write_of_a_reply_that_breaks_off_does_not_run(api: str) -> None:
    desk = Desk()
    with streaming(api, Answer(parts=[LOOK, AGAIN, PAY], is_cut=True)) as served:
        executor = Executor(desk.tools, hooks=[served.hook])
        async with executor:
            with pytest.raises(ModelError):
                await Agent(served.model, executor).run("go")

    assert desk.did == ["look a", "look b"]
    assert served.unanswered == []


@every_api
async def test_the_loop_is_free_while_a_provider_starts_slowly(api: str) -> None:
    desk = Desk()
    with streaming(api, Answer(parts=[PAY], is_late=True), DONE) as served:
        executor = Executor(desk.tools, hooks=[served.hook])
        async with executor, anyio.create_task_group() as group:

            async def work() -> None:
                done = await Agent(served.model, executor).run("go")
                desk.did.append(done.text)

            group.start_soon(work)
            with anyio.fail_after(PATIENCE):
                await anyio.to_thread.run_sync(served.asked.wait)
            desk.did.append((await executor.run(LOOK)).text)
            served.late.set()

    assert desk.did == ["look a", "saw a", "pay 5", "All done."]


async def test_json_that_ends_too_early_was_cut_off_in_responses() -> None:
    """Some servers report such a call as complete."""
    cut = Call("look", '{"at": "a', "c1")
    case = Case(replies=((cut,),), tools=tuple(Desk().tools))
    text = (
        "Not run: the reply was too long, and the arguments were truncated. Call again with less "
        "text at a time."
    )

    assert (await door_of("openai_responses")(case)).results == {"c1": Shown(text, failed=True)}


@every_api
async def test_a_server_that_hears_of_no_call_says_so(api: str, monkeypatch: Any) -> None:
    """A control: the gate of the server is real."""
    monkeypatch.setattr("joints.provider.PATIENCE", 0.01)
    desk = Desk()
    with streaming(api, Answer(parts=[LOOK]), DONE) as served:
        async with Executor(desk.tools) as executor:
            await Agent(served.model, executor).run("go")

    assert served.unanswered == ["c1"]
