"""A turn that was stopped is closed: no call that arrives or is answered later starts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import anyio
import pytest

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    Executor,
    FailureKind,
    Hook,
    NeedsLogin,
    Result,
    Toolset,
    Turn,
    tool,
)
from handrail.agent import Agent, dump_state, load_state
from handrail.approvals import defer
from handrail.messages import Reply, Request
from handrail.permissions import Answer, Pending
from turn.doors import (
    AGENTS,
    ANSWERED,
    AT_ONCE,
    ONE_BY_ONE,
    REASON,
    STOP,
    Door,
    Side,
    Stage,
    count_pieces,
    let_all_run,
    results_of,
)
from virtual_time import Quick

DOORS = {**AT_ONCE, **ONE_BY_ONE, **AGENTS}
ENDED = f"Not run: a check ended the run. {REASON}"
NOT_BEGUN = "Not run: the call was cancelled before it started."
LOST = (
    "Interrupted: the result of this call was lost. It may have taken effect: check before you "
    "call it again."
)
SIDES: tuple[Side, ...] = ("before", "around", "after")


def order(*names: str) -> list[Call]:
    return [Call(name, f'{{"n": "{n}"}}', f"{n}") for n, name in enumerate(names)]


MIXED = order("look", "pay", "look", "pay")


def starts_after_stop(stage: Stage) -> list[str]:
    """The calls that started after the hook had ended the run."""
    assert stage.log.count(STOP) == 1
    return stage.log[stage.log.index(STOP) + 1 :]


def outcome(result: Result) -> tuple[str, FailureKind | None]:
    return result.text, None if result.failure is None else result.failure.kind


def expect(stage: Stage, calls: Sequence[Call], side: Side) -> list[Result]:
    """What each call must have got: it ran, ended the run, or was cancelled."""
    did = {"look": "saw", "pay": "paid"}
    ran = [Result(call.id, f"{did[call.name]} {call.id}") for call in calls]
    denied = Result.fail(stage.at, FailureKind.DENIED, ENDED)
    started = set(stage.log)
    return [
        denied
        if one.call_id == stage.at and side != "after"
        else one
        if one.call_id in started
        else Result.fail(one.call_id, FailureKind.CANCELLED, ENDED)
        for one in ran
    ]


def plain(results: Sequence[Result]) -> list[Result]:
    """Results without how long they took."""
    return [one._replace(metadata={}) for one in results]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_no_call_starts_after_a_hook_has_ended_the_run(door: Door, side: Side) -> None:
    for call in MIXED:
        stage = Stage(side, call.id)
        results = door(stage, MIXED)

        assert starts_after_stop(stage) == []
        assert plain(results) == expect(stage, MIXED, side)


@pytest.mark.parametrize("door", AGENTS.values(), ids=AGENTS)
def test_a_reply_that_still_streams_starts_nothing_after_the_stop(door: Door) -> None:
    """The hook ends the run at each piece of the reply after the first call."""
    for chunk in range(5, count_pieces(MIXED)):
        stage = Stage("after", "0")
        stage.chunk = chunk
        results = door(stage, MIXED)

        assert starts_after_stop(stage) == []
        assert plain(results) == expect(stage, MIXED, "after")


@pytest.mark.parametrize("side", ["around", "after"])
@pytest.mark.parametrize("door", ANSWERED.values(), ids=ANSWERED)
def test_an_answer_starts_no_call_of_a_closed_turn(door: Door, side: Side) -> None:
    for call in MIXED:
        stage = Stage(side, call.id)
        results = door(stage, MIXED)

        assert starts_after_stop(stage) == []
        assert plain(results) == expect(stage, MIXED, side)


@pytest.mark.parametrize(
    "door", [*ONE_BY_ONE.values(), *AGENTS.values()], ids=[*ONE_BY_ONE, *AGENTS]
)
def test_a_turn_that_stays_open_is_caught(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the closed state, the checks above fail at each of these doors."""
    monkeypatch.setattr(Turn, "is_closed", property(lambda _: False, lambda *_: None))
    stage = Stage("before", "0")
    door(stage, MIXED)

    assert starts_after_stop(stage) != []


def test_an_answer_in_a_turn_that_stays_open_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turn, "is_closed", property(lambda _: False, lambda *_: None))
    stage = Stage("after", "0")
    ANSWERED["Turn.answer"](stage, MIXED)

    assert starts_after_stop(stage) == ["1", "2", "3"]


# -- turn.cancel and executor.cancel ---------------------------------------------------------------


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("by", ["turn", "executor", "view"])
async def test_a_cancelled_turn_starts_no_call_that_arrives_later(by: str, at: int) -> None:
    stage = Stage("after", "none")
    async with stage.executor() as executor:
        own = executor.restrict("look", "pay") if by == "view" else executor
        other = executor.turn()
        turn = own.turn()

        async def stream() -> AsyncIterator[Call]:
            for n, call in enumerate(MIXED):
                if n == at:
                    stage.log.append(STOP)
                    _ = turn.cancel() if by == "turn" else own.cancel()
                yield call
                await let_all_run()

        results = await own.run_all(stream(), turn=turn)
        later = await own.run(Call("pay", {"n": "9"}, "9"), turn=turn)
        free = await executor.run(Call("pay", {"n": "8"}, "8"), turn=other)

    ran = [call.id for call in MIXED[:at] if call.name == "look"]
    assert stage.log == [*ran, STOP, "8"]
    assert plain(results) == [
        Result(call.id, f"saw {call.id}")
        if call.id in ran
        else Result.fail(call.id, FailureKind.CANCELLED, NOT_BEGUN)
        for call in MIXED
    ]
    assert later == Result.fail("9", FailureKind.CANCELLED, NOT_BEGUN)
    assert (free.text, turn.is_closed, turn.stop_reason, other.is_closed) == (
        "paid 8",
        True,
        None,
        False,
    )


async def test_an_executor_that_cancels_its_calls_leaves_other_views_alone() -> None:
    """A view cancels the streams of its own calls only."""
    stage = Stage("after", "none")
    async with stage.executor() as executor:
        view, turn = executor.restrict("look"), executor.turn()

        async def stream() -> AsyncIterator[Call]:
            view.cancel()
            yield MIXED[1]

        results = await executor.run_all(stream(), turn=turn)

    assert [one.text for one in results] == ["paid 1"]


async def test_one_cancelled_call_does_not_close_its_turn() -> None:
    stage = Stage("after", "none")
    async with stage.executor() as executor:
        turn = executor.turn()
        turn.add(*MIXED[:2])
        turn.cancel("0")
        turn.add(*MIXED[2:])
        results = await turn.results()

    assert [one.text for one in results] == [NOT_BEGUN, "paid 1", "saw 2", "paid 3"]


async def test_a_wrong_call_of_a_closed_turn_is_cancelled_too() -> None:
    seen: list[str] = []

    def note(call: object, result: Result) -> Result:
        seen.append(type(call).__name__)
        return result

    stage = Stage("before", "0")
    hooks = [Hook(after=note), stage.hook]
    wrong = [Call("pay", "{", "1"), Call("no_such_tool", {}, "2"), Call("pay", {"n": "3"}, "3")]
    async with Executor(stage.tools(), hooks=hooks) as executor:
        turn = executor.turn()
        turn.add(MIXED[0])
        await turn.results()
        turn.add(*wrong)
        results = await turn.results()

    cancelled = [Result.fail(call.id, FailureKind.CANCELLED, ENDED) for call in wrong]
    assert results[1:] == cancelled
    assert seen == ["CheckedCall", "Call", "Call", "CheckedCall"]


async def test_a_result_that_is_known_stays_in_a_closed_turn() -> None:
    stage = Stage("before", "0")
    async with stage.executor() as executor:
        turn = executor.turn("1", run="r", known={"1": Result("1", "paid before")})
        turn.add(MIXED[0])
        await turn.results()
        turn.add(MIXED[1])
        results = await turn.results()

    assert [one.text for one in results] == [ENDED, "paid before"]


# -- calls that wait for a person ------------------------------------------------------------------


async def test_a_call_that_waits_for_a_login_does_not_go_on() -> None:
    """It has started, but only to say that it needs a login."""
    signed_in: list[str] = []
    stage = Stage("before", "1")

    @tool
    async def private() -> str:
        """Show what only a user can see."""
        if not signed_in:
            raise NeedsLogin("Sign in.", url="https://sign.in")
        stage.log.append("private")
        return "secret"

    asked, answered = anyio.Event(), anyio.Event()

    async def person(_: Pending) -> Answer:
        asked.set()
        await answered.wait()
        signed_in.append("ada")
        return Allow()

    tools = Toolset(private, *stage.tools())
    async with Executor(tools, hooks=[stage.hook], approvals=person) as executor:
        turn = executor.turn()
        turn.add(Call("private", {}, "0"))
        await asked.wait()
        turn.add(MIXED[1])
        await turn.result("1")
        answered.set()
        results = await turn.results()

    assert stage.log == [STOP]
    assert [outcome(one) for one in results] == [
        (
            "Cancelled while it ran. It may have taken effect: check before you call it again.",
            FailureKind.UNKNOWN,
        ),
        (ENDED, FailureKind.DENIED),
    ]


async def test_a_run_that_a_hook_ended_waits_for_no_answer() -> None:
    """The state has no pending call that an answer could start."""
    stage = Stage("before", "2")
    model = stage.model(MIXED)
    tools = list(stage.tools())

    def asks(call: object) -> Allow | Ask:
        return Ask("Pay?") if getattr(call, "name", "") == "pay" else Allow()

    options = {"hooks": [stage.hook], "policy": asks, "approvals": defer}
    done = await Agent(model, tools, **options).run("go")
    kept = load_state(dump_state(done.state))
    resumed = await Agent(model, tools, **options).resume(kept)

    assert (done.stop_reason, kept.pending) == ("stopped", ())
    assert [one.text for one in results_of(kept)] == ["saw 0", ENDED, ENDED, ENDED]
    assert (resumed.text, stage.log) == ("done", ["0", STOP])


async def test_a_pending_call_of_a_run_that_a_hook_ended_is_cancelled() -> None:
    """It was asked about before another call ended the run."""
    stage = Stage("after", "0")
    questions: list[Pending] = []

    async def later(pending: Pending) -> Answer | Pending:
        questions.append(pending)
        return pending

    @tool(effect=READ)
    async def peek() -> str:
        """Read something that needs approval."""
        stage.log.append("peek")
        return "seen"

    def asks(call: object) -> Allow | Ask:
        return Ask("Peek?") if getattr(call, "name", "") == "peek" else Allow()

    calls = [
        Call("look", '{"n": "0"}', "0"),
        Call("peek", "{}", "1"),
        Call("look", '{"n": "2"}', "2"),
    ]
    stage.chunk = 8  # once the other call waits
    agent = Agent(
        stage.model(calls),
        [peek, *stage.tools()],
        hooks=[stage.hook],
        policy=Quick(asks),
        approvals=later,
    )
    done = await agent.run("go")
    kept = load_state(dump_state(done.state))

    assert (done.stop_reason, len(questions), kept.pending) == ("stopped", 1, ())
    assert [outcome(one) for one in results_of(kept)] == [
        ("saw 0", None),
        (ENDED, FailureKind.CANCELLED),
        (ENDED, FailureKind.CANCELLED),
    ]
    assert stage.log == ["0", STOP]


async def test_a_sub_agent_that_waits_is_given_up_when_the_run_ends() -> None:
    """It may have done a part of its work."""
    stage = Stage("after", "0")

    async def inner(request: Request) -> Reply:
        return Reply((Call("peek", "{}", "p"),), "calls")

    @tool
    async def peek() -> str:
        """Read something that needs approval."""
        stage.log.append("peek")
        return "seen"

    def asks(call: object) -> Allow | Ask:
        return Ask("Peek?") if getattr(call, "name", "") == "peek" else Allow()

    helper = Agent(inner, [peek], policy=asks, approvals=defer).as_tool(
        "helper", "Helps.", effect=READ
    )
    calls = [Call("look", '{"n": "0"}', "0"), Call("helper", '{"task": "go"}', "1")]
    stage.chunk = 8  # once the other call waits
    calls.append(Call("look", '{"n": "2"}', "2"))
    done = await Agent(stage.model(calls), [helper, *stage.tools()], hooks=[stage.hook]).run("go")
    kept = load_state(dump_state(done.state))

    assert (done.stop_reason, kept.requests) == ("stopped", ())
    assert [outcome(one) for one in results_of(kept)][1] == (
        LOST,
        FailureKind.UNKNOWN,
    )
    assert stage.log == ["0", STOP]
