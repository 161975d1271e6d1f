"""One principal cannot take the places of the others, and whoever waits gets a turn."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ElicitResult

from handrail import READ, Access, Allow, Ask, CallLimits, Context, Executor, Toolset, tool
from handrail.mcp._server.places import Places
from handrail.mcp.server import make_server
from mcp_served.served import MODERN, answering, call_as, speaking, text_of
from virtual_time import Quick

pytestmark = pytest.mark.anyio
YOURS = "Not run: {} of your calls are running or waiting already. Call again when some have ended."


class Hall:
    """A tool that waits until the test says so, and calls to it that are kept.

    Nothing runs in a thread: a task that waits for one counts as blocked.
    """

    def __init__(self, **limits: Any) -> None:
        self.go = anyio.Event()
        self.started: list[str | None] = []
        self.answers: list[str] = []

        @tool(effect=READ, touches=lambda: Access("read", "note:b"))
        async def hold(context: Context) -> str:
            """Wait until the test says so."""
            self.started.append(context.principal)
            await self.go.wait()
            return "held"

        @tool(effect=READ, touches=lambda: Access("read", "note:b"))
        async def look() -> str:
            """Look."""
            return "seen"

        @tool(touches=lambda: Access("write", "note:a"))
        async def write() -> str:
            """Write."""
            return "written"

        self.executor = Executor(
            Toolset(hold, look, write),
            policy=Quick(lambda call: Ask("Write?") if call.spec.name == "write" else Allow()),
            limits=CallLimits(**limits),
        )

    async def hold(self, name: str, client: Client) -> None:
        self.answers.append(await call_as(name, client, "hold"))


async def all_ended(ended: list[str], count: int) -> None:
    with anyio.fail_after(60):
        while len(ended) < count:
            await anyio.wait_all_tasks_blocked()


@pytest.mark.parametrize("share", [0.25, 1.0])
async def test_one_principal_with_300_calls_delays_no_other_one(share: float) -> None:
    """With all places for everyone, the control, the other one is refused."""
    hall, looked = Hall(), list[str]()
    async with hall.executor, anyio.create_task_group() as group:
        server = make_server(hall.executor, principal_share=share)
        async with Client(server, mode="legacy") as client:
            for _ in range(300):
                group.start_soon(hall.hold, "alice", client)
            await anyio.wait_all_tasks_blocked()
            refused = list(hall.answers)
            with anyio.move_on_after(0.2 if share == 1 else 30):
                looked.append(await call_as("bob", client, "look"))
            running = len(hall.started)
            hall.go.set()
            await all_ended(hall.answers, 300)

    if share == 1:
        assert (running, len(refused), looked) == (128, 44, [])
    else:
        assert (running, refused, looked) == (32, [YOURS.format(64)] * 236, ["seen"])
    assert hall.answers.count("held") == 300 - len(refused)


async def test_calls_that_wait_start_in_turn_between_principals() -> None:
    hall = Hall(max_running=2)
    async with hall.executor, anyio.create_task_group() as group:
        server = make_server(hall.executor, max_calls=40, principal_share=0.5)
        async with Client(server, mode="legacy") as client:
            for name, calls in (("alice", 6), ("bob", 3), ("eve", 2)):
                for _ in range(calls):
                    group.start_soon(hall.hold, name, client)
                await anyio.wait_all_tasks_blocked()
            before = list(hall.started)
            hall.go.set()
            await all_ended(hall.answers, 11)

    assert before == ["alice", "bob"]
    assert sorted(map(str, hall.started[2:5])) == ["alice", "bob", "eve"]
    assert sorted(map(str, hall.started)) == ["alice"] * 6 + ["bob"] * 3 + ["eve"] * 2


async def test_a_new_principal_gets_a_turn_though_all_places_are_taken() -> None:
    hall, looked = Hall(max_running=1), list[str]()

    async def look() -> None:
        looked.append(await call_as("eve", client, "look"))

    async with hall.executor, anyio.create_task_group() as group:
        server = make_server(hall.executor, max_calls=4, principal_share=0.5)
        async with Client(server, mode="legacy") as client:
            for name in ("alice", "alice", "bob", "bob"):
                group.start_soon(hall.hold, name, client)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(look)
            await anyio.wait_all_tasks_blocked()
            more = [await call_as(name, client, "look") for name in ("bob", "eve")]
            hall.go.set()
            await anyio.wait_all_tasks_blocked()

    busy = "Not run: 5 calls of this server are waiting already. Call again later."
    assert (looked, more) == (["seen"], [YOURS.format(2), busy])


async def test_a_waiting_call_that_is_given_up_leaves_its_place() -> None:
    hall, looked = Hall(max_running=1), list[str]()

    async def look() -> None:
        looked.append(await call_as("alice", client, "look"))

    async with hall.executor, anyio.create_task_group() as group:
        server = make_server(hall.executor, max_calls=3, principal_share=1.0)
        async with Client(server, mode="legacy") as client:
            group.start_soon(hall.hold, "alice", client)
            await anyio.wait_all_tasks_blocked()
            async with anyio.create_task_group() as given_up:
                for _ in range(2):
                    given_up.start_soon(hall.hold, "alice", client)
                await anyio.wait_all_tasks_blocked()
                given_up.cancel_scope.cancel()
            await anyio.wait_all_tasks_blocked()
            group.start_soon(look)
            await anyio.wait_all_tasks_blocked()
            hall.go.set()
            await anyio.wait_all_tasks_blocked()

    assert (looked, hall.answers, hall.started) == (["seen"], ["held"], ["alice"])


async def test_an_open_question_takes_no_place_and_its_answer_waits_for_none() -> None:
    hall, asked = Hall(max_running=1), anyio.Event()
    answered, written = anyio.Event(), list[str]()

    async def think(_context: Any, _params: Any) -> ElicitResult:
        asked.set()
        await answered.wait()
        return ElicitResult(action="accept")

    async def write() -> None:
        written.append(await call_as("alice", client, "write"))

    async with hall.executor, anyio.create_task_group() as group:
        server = make_server(hall.executor, max_calls=2, principal_share=1.0)
        async with Client(server, mode="legacy", elicitation_callback=think) as client:
            group.start_soon(write)
            await asked.wait()
            meanwhile = await call_as("alice", client, "look")
            group.start_soon(hall.hold, "alice", client)
            await anyio.wait_all_tasks_blocked()
            full = await call_as("alice", client, "look")
            answered.set()
            hall.go.set()
            await anyio.wait_all_tasks_blocked()

    assert (meanwhile, full, written) == ("seen", YOURS.format(2), ["written"])


async def test_in_the_newer_protocol_an_answer_passes_the_calls_that_wait_for_it() -> None:
    hall, written = Hall(max_running=2), list[str]()
    ask: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    async with hall.executor, anyio.create_task_group() as group:
        server = make_server(hall.executor, max_calls=2, principal_share=1.0)
        async with Client(server, **ask) as alice:
            call: Any = {"name": "write", "arguments": {}}
            asked: Any = await alice.session.call_tool(**call, allow_input_required=True)

            async def wait_behind() -> None:
                again: Any = await alice.session.call_tool(**call, allow_input_required=True)
                written.append(again.result_type)

            for _ in range(2):
                group.start_soon(wait_behind)
            await anyio.wait_all_tasks_blocked()
            yes: Any = {
                "request_state": asked.request_state,
                "input_responses": {"approval": ElicitResult(action="accept")},
            }
            with anyio.fail_after(30):
                done: Any = await alice.session.call_tool(**call, **yes)
            await all_ended(written, 2)

    assert (text_of(done), written) == ("written", ["input_required"] * 2)


def test_a_share_is_a_part() -> None:
    for share in (0, 1.5):
        with pytest.raises(ValueError, match="principal_share must be above 0 and at most 1"):
            make_server(Hall().executor, principal_share=share)


async def test_answers_are_counted_too() -> None:
    """An answer is sent again and again while its call runs."""
    go, ran = anyio.Event(), list[str]()

    @tool
    async def pay() -> str:
        """Pay."""
        ran.append("paid")
        await go.wait()
        return "paid"

    made = Executor(Toolset(pay), policy=Quick(lambda _: Ask("Pay?")))
    ask: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    async with made, anyio.create_task_group() as group:
        async with Client(make_server(made, max_calls=1), **ask) as client:
            call: Any = {"name": "pay", "arguments": {}, "allow_input_required": True}
            asked: Any = await client.session.call_tool(**call)
            call["request_state"] = asked.request_state
            call["input_responses"] = {"approval": ElicitResult(action="accept")}
            group.start_soon(partial(client.session.call_tool, **call))
            await anyio.wait_all_tasks_blocked()
            again: Any = await client.session.call_tool(**call)
            go.set()
            await anyio.wait_all_tasks_blocked()

    assert (text_of(again), ran) == (YOURS.format(1), ["paid"])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # elsewhere, a place comes before or after
async def test_a_place_that_came_with_a_cancellation_is_free_again(anyio_backend: str) -> None:
    places = Places(calls=3, running=1, share=1.0)
    first = await places.enter("alice")
    waiting = asyncio.create_task(places.enter("alice"))
    await anyio.wait_all_tasks_blocked()
    places.leave("alice")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    with anyio.fail_after(30):
        assert (first, await places.enter("bob")) == ("", "")


class Desk:
    """A tool whose calls ask, and then run until the test says so."""

    def __init__(self, *, policy: Any = lambda _: Ask("Pay?")) -> None:
        self.go, self.yes = anyio.Event(), anyio.Event()
        self.asked, self.paid = 0, 0

        @tool(touches=lambda account: Access("write", f"account:{account}"))
        async def pay(account: int) -> str:
            """Pay."""
            self.paid += 1
            await self.go.wait()
            return f"paid {account}"

        @tool(touches=lambda account: Access("write", f"account:{account}"))
        async def close(account: int) -> str:
            """Close."""
            return f"closed {account}"

        limits = CallLimits(max_running=8)
        self.executor = Executor(Toolset(pay, close), policy=Quick(policy), limits=limits)

    async def think(self, _context: Any, _params: Any) -> ElicitResult:
        self.asked += 1
        await self.yes.wait()
        return ElicitResult(action="accept")


@pytest.mark.parametrize(("share", "running"), [(0.25, 2), (1.0, 4)])
async def test_calls_whose_questions_were_answered_stay_within_the_share(
    share: float, running: int
) -> None:
    """With all places for everyone, the control, all of them run at once."""
    desk, ended = Desk(), list[str]()

    async def pay(account: int) -> None:
        ended.append(await call_as("alice", client, "pay", account=account))

    async with desk.executor, anyio.create_task_group() as group:
        server = make_server(desk.executor, max_calls=16, principal_share=share)
        async with Client(server, mode="legacy", elicitation_callback=desk.think) as client:
            for account in range(4):
                group.start_soon(pay, account)
            await anyio.wait_all_tasks_blocked()
            desk.yes.set()
            await anyio.wait_all_tasks_blocked()
            before = (desk.asked, desk.paid)
            desk.go.set()
            await all_ended(ended, 4)

    assert (before, sorted(ended)) == ((4, running), [f"paid {account}" for account in range(4)])


@pytest.mark.parametrize(("share", "running"), [(0.25, 2), (1.0, 4)])
async def test_in_the_newer_protocol_answers_stay_within_the_share(
    share: float, running: int
) -> None:
    desk, ended = Desk(), list[str]()
    ask: Any = {"mode": MODERN, "elicitation_callback": answering("accept")}
    async with desk.executor, anyio.create_task_group() as group:
        server = make_server(desk.executor, max_calls=16, principal_share=share)
        async with Client(server, **ask) as client:

            async def send(account: int, **given: Any) -> Any:
                with speaking("alice"):
                    return await client.session.call_tool(
                        "pay", {"account": account}, allow_input_required=True, **given
                    )

            async def answer(account: int, state: str) -> None:
                yes: Any = {"approval": ElicitResult(action="accept")}
                done = await send(account, request_state=state, input_responses=yes)
                ended.append(text_of(done))

            asked = [await send(account) for account in range(4)]
            for account, question in enumerate(asked):
                group.start_soon(answer, account, question.request_state)
            await anyio.wait_all_tasks_blocked()
            before = desk.paid
            desk.go.set()
            await all_ended(ended, 4)

    assert (before, sorted(ended)) == (running, [f"paid {account}" for account in range(4)])


async def test_an_answered_call_passes_those_that_hold_all_places_and_wait_for_it() -> None:
    desk = Desk(policy=lambda call: Ask("Pay?") if call.spec.name == "pay" else Allow())
    ended = list[str]()

    async def call(name: str) -> None:
        ended.append(await call_as("alice", client, name, account=1))

    desk.go.set()
    async with desk.executor, anyio.create_task_group() as group:
        server = make_server(desk.executor, max_calls=16, principal_share=0.25)
        async with Client(server, mode="legacy", elicitation_callback=desk.think) as client:
            for name in ("pay", "close", "close"):
                group.start_soon(call, name)
                await anyio.wait_all_tasks_blocked()
            before = list(ended)
            desk.yes.set()
            await all_ended(ended, 3)

    assert (before, ended) == ([], ["paid 1", "closed 1", "closed 1"])
