"""A request that is too long for the model: the history is shortened once, and sent again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import cast

import pytest
from inline_snapshot import snapshot

from agent.stage import World, calls, kinds, look, owed, says, streamed
from handrail import Call, Toolset
from handrail.agent import Agent, Compaction, Limits, RunState
from handrail.messages import (
    Model,
    ModelError,
    ModelErrorKind,
    Prompt,
    Reply,
    Request,
    RequiredTool,
    StreamItem,
)

WAYS = pytest.mark.parametrize("wrap", [lambda model: model, streamed], ids=["whole", "streamed"])
COMPACTION = Compaction(window=1_000_000)
"""Much more than the models here accept: only their errors say that a request is too long."""


def is_summary(request: Request) -> bool:
    last = request.messages[-1]
    return isinstance(last, Prompt) and "summary" in repr(last)


class Small:
    """A model that looks around, and fails if a request has too many messages."""

    def __init__(self, most: int, turns: int, kind: ModelErrorKind = "too_long") -> None:
        self.most, self.turns, self.kind = most, turns, kind
        self.sent: list[str] = []
        self.choices: list[object] = []

    async def __call__(self, request: Request) -> Reply:
        size = len(request.messages)
        what = "summary" if is_summary(request) else "turn"
        if size > self.most:
            self.sent.append(f"{what} of {size} refused")
            raise ModelError("Too long.", self.kind)
        self.sent.append(f"{what} of {size}")
        if what == "summary":
            return says("We looked.")
        self.choices.append(request.tool_choice)
        self.turns -= 1
        return says("done") if self.turns < 0 else calls(look(str(self.turns), "1"))


@WAYS
async def test_a_history_that_is_too_long_is_shortened_once_and_sent_again(
    wrap: Callable[[Model], Model],
) -> None:
    world, model = World(), Small(5, 4)

    done = await Agent(wrap(model), world.tools, compaction=COMPACTION).run("go")

    assert (done.stop_reason, done.text) == ("answer", "done")
    assert model.sent == snapshot(
        [
            "turn of 1",
            "turn of 3",
            "turn of 5",
            "turn of 7 refused",
            "summary of 6 refused",
            "summary of 4",
            "turn of 3",
            "turn of 5",
        ]
    )
    assert world.did == ["look 3", "look 2", "look 1", "look 0"], "no call ran twice"
    assert kinds(done.state.messages) == ["seen 3", "seen 2", "seen 1", "seen 0"]
    owed(done.state.transcript())


@WAYS
async def test_without_compaction_the_run_fails_with_a_hint(wrap: Callable[[Model], Model]) -> None:
    world, model = World(), Small(5, 4)

    with pytest.raises(ModelError) as failure:
        await Agent(wrap(model), world.tools).run("go")

    assert model.sent == ["turn of 1", "turn of 3", "turn of 5", "turn of 7 refused"]
    assert failure.value.__notes__ == snapshot(
        ["To shorten long conversations, pass `compaction=Compaction(window=...)`."]
    )
    assert len(cast("RunState", failure.value.state).messages) == 7, "it can be resumed"


@pytest.mark.parametrize(
    ("kind", "most", "expected"),
    [
        ("overloaded", 5, ["turn of 1", "turn of 3", "turn of 5", "turn of 7 refused"]),
        ("too_long", 0, ["turn of 1 refused"]),
        ("too_long", 2, ["turn of 1", "turn of 3 refused"]),
    ],
    ids=["another error", "only a prompt", "only one turn"],
)
async def test_an_error_that_a_shorter_history_does_not_help_is_raised(
    kind: ModelErrorKind, most: int, expected: list[str]
) -> None:
    model = Small(most, 4, kind)

    with pytest.raises(ModelError) as failure:
        await Agent(model, World().tools, compaction=COMPACTION).run("go")

    assert (model.sent, hasattr(failure.value, "__notes__")) == (expected, False)


async def test_a_shorter_history_that_is_refused_too_ends_the_run() -> None:
    model = Small(5, 4)

    async def never_again(request: Request) -> Reply:
        if not is_summary(request) and any("refused" in one for one in model.sent):
            model.sent.append("refused again")
            raise ModelError("Too long.", "too_long")
        return await model(request)

    with pytest.raises(ModelError):
        await Agent(never_again, World().tools, compaction=COMPACTION).run("go")

    assert model.sent.count("refused again") == 1


async def test_a_summary_that_is_too_long_is_made_of_fewer_turns() -> None:
    """The window is much smaller than all that was said."""
    model = Small(6, 20)
    state = (await Agent(Small(100, 20), World().tools).run("go")).state

    done = await Agent(model, World().tools, compaction=COMPACTION).run("And now?", history=state)

    assert (done.stop_reason, model.sent[:6]) == (
        "answer",
        snapshot(
            [
                "turn of 43 refused",
                "summary of 42 refused",
                "summary of 22 refused",
                "summary of 12 refused",
                "summary of 6",
                "turn of 3",
            ]
        ),
    )


async def test_a_summary_that_cannot_be_made_ends_the_run() -> None:
    async def model(request: Request) -> Reply:
        if is_summary(request):
            raise ModelError("Too long.", "too_long")
        return await small(request)

    small = Small(5, 9)
    with pytest.raises(ModelError):
        await Agent(model, World().tools, compaction=COMPACTION).run("go")

    assert small.sent[-1] == "turn of 7 refused"


async def test_a_required_answer_stays_required() -> None:
    model = Small(5, 2)

    async def answers(request: Request) -> Reply:
        if isinstance(request.tool_choice, RequiredTool) and len(request.messages) <= model.most:
            model.choices.append(request.tool_choice)
            return calls(Call("final_answer", {"answer": 5}, "f"))
        return await model(request)

    done = await Agent(
        answers, World().tools, output=int, compaction=COMPACTION, limits=Limits(turns=None)
    ).run("go")

    assert (done.output, model.choices[-1]) == (5, RequiredTool("final_answer"))
    assert "turn of 7 refused" in model.sent


async def test_calls_of_a_stream_that_becomes_too_long_do_not_run_twice() -> None:
    world, sent = World(), list[str]()
    inner = Small(100, 3)

    async def model(request: Request) -> AsyncIterator[StreamItem]:
        reply = await inner(request)
        for call in reply.calls:
            yield call
        if len(sent) == 2 and not is_summary(request):
            sent.append("refused")
            inner.turns += 1
            raise ModelError("Too long.", "too_long")
        if not is_summary(request):
            sent.append("turn")
        yield reply

    done = await Agent(model, world.tools, compaction=COMPACTION).run("go")

    assert (done.stop_reason, sent) == ("answer", ["turn", "turn", "refused", "turn", "turn"])
    assert [call.args for call, _ in done.state.discarded] == ['{"path":"0"}']
    assert kinds(done.state.messages) == ["seen 2", "seen 1", "seen 0"]
    owed(done.state.transcript())


async def test_a_conversation_without_tools_is_summarized_too() -> None:
    model, state = Small(4, 0), RunState()
    model.turns = -1
    agent = Agent(model, Toolset(), compaction=COMPACTION)
    for number in range(4):
        state = (await agent.run(f"question {number}", history=state)).state

    assert (model.sent, state.shortened.start) == snapshot(
        (
            [
                "turn of 1",
                "turn of 3",
                "turn of 5 refused",
                "summary of 4",
                "turn of 3",
                "turn of 5 refused",
                "summary of 4",
                "turn of 3",
            ],
            5,
        )
    )
