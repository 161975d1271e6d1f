"""The loop guard: a model that sends the same failing call again and again is told to stop."""

from __future__ import annotations

import itertools

import pytest

from handrail import (
    READ,
    WRITE,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Executor,
    FailureKind,
    Hook,
    Image,
    Result,
    Text,
    ToolFailed,
    Toolset,
    tool,
)
from handrail.approvals import defer
from handrail.hooks import loop_guard


@tool(effect=READ)
async def find(word: str, page: int = 1) -> str:
    """Find a word."""
    if word == "lost":
        raise ToolFailed("not there")
    return word


TOOLS = Toolset(find)
LOST = '{"word": "lost"}'
STOP = Result.fail(
    "c",
    FailureKind.DENIED,
    "Not run: this call of 'find' failed 2 times in a row. Change its arguments, use another tool, or tell the user what is wrong.",
    "refused by handrail.hooks.loop_guard",
)._replace(metadata={"refused_by": "handrail.hooks.loop_guard"})


def guarded(most: int = 2, *, except_for: tuple[str, ...] = ()) -> Executor:
    guard = loop_guard(most=most, except_for=except_for)
    return Executor(TOOLS, hooks=[guard])


async def ended(executor: Executor, *args: str) -> list[str]:
    """How calls with these arguments end, one after the other."""
    made: list[str] = []
    for one in args:
        outcome = await executor.run(Call("find", one, "c"))
        made.append(outcome.failure.kind.value if outcome.failure else "ok")
    return made


async def test_the_same_call_is_refused_once_it_has_failed_often_enough() -> None:
    async with guarded() as executor:
        first = await ended(executor, LOST, LOST)
        third = await executor.run(Call("find", LOST, "c"))
        fourth = await executor.run(Call("find", LOST, "c"))

    assert first == ["failed", "failed"]
    assert (third, fourth) == (STOP, STOP)


async def test_the_same_arguments_in_another_order_are_the_same_call() -> None:
    async with guarded() as executor:
        assert await ended(
            executor,
            '{"word": "lost", "page": 2}',
            '{"page":2,"word":"lost"}',
            '{ "page" : 2, "word": "lost" }',
        ) == ["failed", "failed", "denied"]


async def test_another_call_in_between_begins_the_count_anew() -> None:
    other = '{"word": "lost", "page": 2}'
    async with guarded() as executor:
        assert await ended(executor, LOST, LOST, other, LOST, LOST, LOST) == [
            *["failed"] * 5,
            "denied",
        ]


async def test_a_success_begins_the_count_anew() -> None:
    answers = ["failed", "ok", "failed", "failed", "unreached"]

    @tool(effect=READ)
    async def poll() -> str:
        """Poll."""
        if (answer := answers.pop(0)) != "ok":
            raise ToolFailed(answer)
        return answer

    guard = loop_guard(most=2)
    tools = Toolset(poll)
    async with Executor(tools, hooks=[guard]) as executor:
        outcomes = [await executor.run(Call("poll", {}, str(n))) for n in range(5)]

    kinds = [one.failure and one.failure.kind for one in outcomes]
    assert kinds == [
        FailureKind.FAILED,
        None,
        FailureKind.FAILED,
        FailureKind.FAILED,
        FailureKind.DENIED,
    ]
    assert answers == ["unreached"]


async def test_calls_of_one_batch_count_too() -> None:
    async with guarded() as executor:
        together = await executor.run_all(Call("find", LOST, str(n)) for n in range(3))
        after = await executor.run(Call("find", LOST, "c"))

    assert {one.failure.kind for one in together if one.failure} == {FailureKind.FAILED}
    assert after == STOP


async def test_wrong_arguments_are_failures() -> None:
    wrong = '{"wrod": "a"}'
    async with guarded() as executor:
        assert await ended(executor, wrong, wrong, wrong) == ["bad_args", "bad_args", "denied"]


async def test_a_tool_that_does_not_exist_is_a_failure_too() -> None:
    async with guarded() as executor:
        ended = [await executor.run(Call("fnid", {"word": "a"}, "c")) for _ in range(4)]

    stop = STOP.text.replace("'find'", "'fnid'")
    refused = Result.fail(
        "c", FailureKind.DENIED, stop, "refused by handrail.hooks.loop_guard"
    )._replace(metadata={"refused_by": "handrail.hooks.loop_guard"})
    assert [one.failure and one.failure.kind for one in ended[:2]] == [FailureKind.UNKNOWN_TOOL] * 2
    assert ended[2:] == [refused, refused]


async def test_a_call_that_passes_the_check_in_between_begins_the_count_anew() -> None:
    wrong = '{"wrod": "a"}'
    async with guarded() as executor:
        assert await ended(executor, wrong, wrong, '{"word": "a"}', wrong, LOST, LOST, wrong) == [
            *["bad_args", "bad_args", "ok"],
            *["bad_args", "failed", "failed", "bad_args"],
        ]


async def test_wrong_arguments_of_a_tool_that_is_left_alone_do_not_count() -> None:
    wrong = '{"wrod": "a"}'
    async with guarded(except_for=("find",)) as executor:
        assert await ended(executor, wrong, wrong, wrong) == ["bad_args"] * 3


async def test_a_call_that_came_too_late_is_not_the_models_failure() -> None:
    executor = guarded(most=1)
    async with executor:
        pass
    assert await ended(executor, LOST, LOST, LOST) == ["cancelled"] * 3


async def test_a_result_of_an_earlier_call_does_not_count_for_a_later_one() -> None:
    async with guarded(most=1) as executor:
        await executor.run_all([Call("find", LOST, "c1"), Call("find", '{"word": "b"}', "c2")])
        assert await ended(executor, '{"word": "b"}', LOST) == ["ok", "failed"]
        last = await executor.run(Call("find", LOST, "c"))

    assert "failed 1 time in a row." in last.text


async def test_a_call_that_a_later_hook_rewrites_is_still_the_same() -> None:
    guard = loop_guard(most=1)

    def second_page(call: CheckedCall) -> Call:
        return call.with_args(page=2)

    async with Executor(TOOLS, hooks=[guard, Hook(before=second_page)]) as executor:
        assert await ended(executor, LOST, LOST) == ["failed", "denied"]


async def test_tools_that_are_polled_may_be_left_alone() -> None:
    async with guarded(except_for=("find",)) as executor:
        assert await ended(executor, LOST, LOST, LOST) == ["failed"] * 3


async def test_a_call_that_waits_for_approval_has_not_failed() -> None:
    asks = Approvals(approver=defer)
    guard = loop_guard(most=1)
    async with Executor(
        TOOLS, hooks=[guard], policy=lambda _: Ask("Find?"), approvals=asks
    ) as executor:
        assert await ended(executor, LOST, LOST, LOST) == ["pending"] * 3


NOTE = "\n[Note: this call of {!r} ran 2 times in a row. Do not repeat it.]"
REFUSED = (
    "Not run: this call of {!r} ran 2 times in a row. Use the result that you have, change the "
    "arguments, or use another tool."
)


@tool(effect=READ)
async def tick() -> str:
    """Tell the time."""
    return str(next(TIMES))


@tool(effect=WRITE)
async def order(sku: str) -> list[Text | Image]:
    """Order an article."""
    return [Text(f"order {next(TIMES)} of {sku}"), Image(b"\x89PNG", "image/png")]


TIMES = itertools.count()


async def texts(executor: Executor, *calls: Call) -> list[str]:
    return [(await executor.run(one)).text for one in calls]


async def test_a_call_that_brings_nothing_new_is_noted_and_then_refused() -> None:
    tea, other = Call("find", {"word": "tea"}, "c"), Call("find", {"word": "cake"}, "c")
    async with Executor(TOOLS, hooks=[loop_guard(repeats=2)]) as executor:
        said = await texts(executor, tea, tea, tea, tea, other, tea, tea)

    note, refused = NOTE.format("find"), REFUSED.format("find")
    assert said == ["tea", "tea" + note, refused, refused, "cake", "tea", "tea" + note]


async def test_a_read_with_a_new_result_is_no_repetition() -> None:
    async with Executor(Toolset(tick), hooks=[loop_guard(repeats=2)]) as executor:
        said = await texts(executor, *[Call("tick", {}, "c")] * 5)

    assert all(one.isdigit() for one in said)


async def test_a_write_is_one_whatever_its_result() -> None:
    call = Call("order", {"sku": "T1"}, "c")
    async with Executor(Toolset(order), hooks=[loop_guard(repeats=2)]) as executor:
        first, second, third = [await executor.run(call) for _ in range(3)]
    async with Executor(Toolset(order), hooks=[loop_guard(repeats=None)]) as executor:
        unguarded = await texts(executor, *[call] * 5)

    assert NOTE.format("order") not in first.text
    assert second.text.endswith(NOTE.format("order"))
    assert second.parts[-1] == Text(NOTE.format("order").lstrip())
    assert third.text == REFUSED.format("order")
    assert not any("Note" in one or "Not run" in one for one in unguarded)


async def test_a_failure_in_between_begins_the_count_of_successes_anew() -> None:
    answers = iter(["ok", "failed", "ok", "ok"])

    @tool(effect=READ)
    async def poll() -> str:
        """Poll."""
        if (answer := next(answers)) == "failed":
            raise ToolFailed(answer)
        return answer

    async with Executor(Toolset(poll), hooks=[loop_guard(repeats=2)]) as executor:
        said = await texts(executor, *[Call("poll", {}, "c")] * 4)

    assert said[2:] == ["ok", "ok" + NOTE.format("poll")]


@pytest.mark.parametrize("options", [{"most": 0}, {"repeats": 0}])
def test_a_guard_that_lets_nothing_through_is_a_mistake(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        loop_guard(**options)


async def test_a_call_of_one_person_is_no_repetition_of_another_ones() -> None:
    async with Executor(TOOLS, hooks=[loop_guard(repeats=2)]) as executor:

        async def find_tea(who: str, run: str) -> str:
            turn = executor.turn(run=run, principal=who)
            return (await executor.run(Call("find", {"word": "tea"}, "c"), turn=turn)).text

        said = [await find_tea(*one) for one in [("ada", "1"), ("bob", "1"), ("bob", "2")] * 2]

    assert said == ["tea"] * 3 + ["tea" + NOTE.format("find")] * 3


async def test_only_the_latest_owners_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.hooks._loop_guard._MAX_OWNERS", 1)
    async with Executor(TOOLS, hooks=[loop_guard(repeats=2)]) as executor:
        runs = [executor.turn(run=run) for run in ("1", "2", "1")]
        said = [
            (await executor.run(Call("find", {"word": "tea"}, "c"), turn=turn)).text
            for turn in runs
        ]

    assert said == ["tea"] * 3
