"""Run the calls of a reply, and resume those that waited: the parts of your own loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Context,
    Decision,
    DefinitionError,
    Deny,
    Executor,
    FailureKind,
    Result,
    Toolset,
    tool,
)
from handrail.agent import RunState, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import (
    Delta,
    ModelError,
    Prompt,
    Reply,
    Restart,
    StreamItem,
    ToolResults,
    TruncatedCall,
)
from handrail.permissions import MemoryLedger

pytestmark = pytest.mark.anyio


class World:
    """Two tools, and what they did."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.reads_started = anyio.Event()

    @property
    def tools(self) -> Toolset:
        @tool(effect=READ, touches=lambda name, **_: Access(READ, f"thing:{name}"))
        async def get(name: str) -> str:
            """Get a thing."""
            self.did.append(f"get {name}")
            self.reads_started.set()
            return f"got {name}"

        @tool(effect=WRITE, touches=lambda name, **_: Access(WRITE, f"thing:{name}"))
        async def put(name: str, context: Context[Any]) -> str:
            """Put a thing."""
            self.did.append(f"put {name} {context.principal} {context.deps}")
            return f"put {name}"

        return Toolset(get, put)


def get(name: str, call_id: str) -> Call:
    return Call("get", {"name": name}, call_id)


def put(name: str, call_id: str) -> Call:
    return Call("put", {"name": name}, call_id)


def ask_about_puts(call: CheckedCall) -> Decision:
    return Ask(f"Put {call.args['name']}?") if call.name == "put" else Allow()


async def stream(*items: StreamItem) -> AsyncIterator[StreamItem]:
    for item in items:
        yield item


def texts(results: ToolResults) -> list[str]:
    return [one.text for one in results.results]


CUT = TruncatedCall("put", "c2", '{"na')


async def test_the_results_of_a_reply_are_in_call_order_also_for_truncated_calls() -> None:
    world = World()
    reply = Reply((put("a", "c1"), CUT, Call("gett", {}, "c3"), get("b", "c4")), "length")
    async with Executor(world.tools) as executor:
        turn = executor.turn()
        results = await executor.run_reply(reply, turn=turn)
        without = await executor.run_reply(Reply(()))

    assert [one.call_id for one in results.results] == ["c1", "c2", "c3", "c4"]
    assert results.results[1] == CUT.refuse()
    assert [one.failure and one.failure.kind for one in results.results] == [
        None, FailureKind.BAD_ARGS, FailureKind.UNKNOWN_TOOL, None,
    ]  # fmt: skip
    assert (turn.reply, without) == (reply, ToolResults(()))
    assert sorted(world.did) == ["get b", "put a None None"]


async def test_reads_of_a_stream_start_while_it_arrives_and_writes_when_it_is_complete() -> None:
    world, shown = World(), list[StreamItem]()
    reply = Reply((put("a", "c1"), get("b", "c2")), "calls")

    async def arriving() -> AsyncIterator[StreamItem]:
        yield Delta("Let me see.")
        yield put("a", "c1")
        yield get("b", "c2")
        await world.reads_started.wait()
        assert world.did == ["get b"]
        yield reply

    async with Executor(world.tools) as executor:
        turn = executor.turn()
        results = await executor.run_reply(arriving(), turn=turn, show=shown.append)

    assert (texts(results), turn.reply) == (["put a", "got b"], reply)
    assert shown == [Delta("Let me see."), put("a", "c1"), get("b", "c2"), reply]


@pytest.mark.parametrize(
    ("items", "reply", "expected", "did"),
    [
        pytest.param(
            [get("a", "1"), put("b", "2")], Reply((put("b", "2"), get("a", "1"))),
            ["put b", "got a"], {"get a", "put b None None"}, id="another order",
        ),
        pytest.param(
            [], Reply((put("b", "2"), get("a", "1"))),
            ["put b", "got a"], {"get a", "put b None None"}, id="none early",
        ),
        pytest.param(
            [put("a", "1"), Restart("overloaded"), put("b", "1")], Reply((put("b", "1"),)),
            ["put b"], {"put b None None"}, id="restarted",
        ),
        pytest.param([put("a", "1")], Reply(()), [], set[str](), id="not in the reply"),
        pytest.param(
            [put("a", "1")], Reply((put("b", "1"),)), ["put b"], {"put b None None"}, id="changed"
        ),
        pytest.param(
            [put("a", "1")], Reply((put("a", "1"), CUT), "refused"), [], set[str](), id="refused"
        ),
        pytest.param(
            [get("a", "1"), get("a", "1")], Reply((get("a", "1"), get("a", "1"))),
            ["got a", "got a"], {"get a"}, id="twice",
        ),
    ],
)  # fmt: skip
async def test_only_the_calls_of_the_reply_count(
    items: Sequence[StreamItem], reply: Reply, expected: list[str], did: set[str]
) -> None:
    world = World()
    async with Executor(world.tools) as executor:
        turn = executor.turn()
        results = await executor.run_reply(stream(*items, reply), turn=turn)

    assert (texts(results), set(world.did)) == (expected, did)
    assert len(turn.reply.calls) == len(expected)


async def test_a_stream_that_fails_or_has_no_reply_runs_nothing_that_changes_things() -> None:
    world, closed = World(), list[str]()

    async def failing() -> AsyncIterator[StreamItem]:
        try:
            yield put("a", "c1")
            raise ModelError("overloaded")
        finally:
            closed.append("closed")

    async with Executor(world.tools) as executor:
        for items, why in ((failing(), "overloaded"), (stream(put("a", "1")), "without a Reply")):
            with pytest.raises(ModelError, match=why):
                await executor.run_reply(items)
        with pytest.raises(ValueError, match="another executor"):
            await executor.run_reply(Reply(()), turn=Executor(world.tools).turn())
        with pytest.raises(RuntimeError, match="has no reply yet"):
            _ = executor.turn().reply

    assert (world.did, closed) == ([], ["closed"])


REPLY = Reply((put("a", "c1"), get("a", "c2"), get("b", "c3"), put("c", "c4")), "calls")


async def test_questions_are_only_what_needs_a_person_and_answers_come_later() -> None:
    world, ledger = World(), MemoryLedger()
    approvals = Approvals(approver=defer, ledger=ledger)
    async with Executor(world.tools, policy=ask_about_puts, approvals=approvals) as executor:
        turn = executor.turn("1", run="r", principal="ana")
        results = await executor.run_reply(REPLY, turn=turn)
        saved = dump_state(RunState((Prompt.of("go"), REPLY, results)))

    assert [one.id for one in turn.questions] == ["r~1~c1~0", "r~1~c4~0"]
    assert [one.id for one in turn.pending] == ["r~1~c1~0", "r~1~c2~0", "r~1~c4~0"]
    assert (results.questions, world.did) == (turn.questions, ["get b"])

    async with Executor(world.tools, policy=ask_about_puts, approvals=approvals) as executor:
        loaded: Any = load_state(saved).messages[-1]
        second = await executor.resume(loaded, {"r~1~c1~0": Allow()}, deps="db")
        third = await executor.resume(second, {"r~1~c4~0": Deny("no")})
        again = await executor.resume(loaded, {"r~1~c1~0": Allow(), "r~1~c4~0": Deny("no")})
        same = await executor.resume(third, {})

    assert texts(second)[:3] == ["put a", "got a", "got b"]
    assert [one.id for one in second.questions] == ["r~1~c4~0"]
    assert (texts(third), third.questions) == (["put a", "got a", "got b", "no"], ())
    assert same is third
    assert world.did == ["get b", "put a ana db", "get a"]
    assert [one.failure and one.failure.kind for one in again.results] == [
        FailureKind.UNKNOWN, FailureKind.UNKNOWN, None, FailureKind.UNKNOWN,
    ]  # fmt: skip


async def test_an_answer_to_a_request_that_is_not_open_is_refused() -> None:
    world = World()
    async with Executor(world.tools, policy=ask_about_puts, approvals=defer) as executor:
        results = await executor.run_reply(REPLY, turn=executor.turn("1", run="r"))
        for answers in ({"x": Allow()}, {"r~1~c2~0": Allow(), "r~1~c3~0": Allow()}):
            with pytest.raises(LookupError, match="There is no open question"):
                await executor.resume(results, answers)
        with pytest.raises(LookupError, match="Open questions: none"):
            await executor.resume(ToolResults((Result("1", "done"),)), {"x": Allow()})

    assert world.did == ["get b"]


class Shop:
    """What a tool needs."""


async def test_a_resume_without_deps_uses_no_approval() -> None:
    paid: list[Shop] = []

    @tool(effect=WRITE)
    async def pay(context: Context[Shop]) -> str:
        """Pay."""
        paid.append(context.deps)
        return "paid"

    shop = Shop()
    async with Executor(Toolset(pay), policy=lambda _: Ask("Pay?"), approvals=defer) as executor:
        saved = await executor.run_reply(
            Reply((Call("pay", {}, "c1"),)), turn=executor.turn(deps=shop)
        )
        yes = {one.id: Allow() for one in saved.questions}
        with pytest.raises(DefinitionError, match=r"Pass `deps=` to `executor.resume`"):
            await executor.resume(saved, yes)
        done = await executor.resume(saved, yes, deps=shop)

    assert ([one.text for one in done.results], paid) == (["paid"], [shop])
