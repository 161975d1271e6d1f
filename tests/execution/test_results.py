"""What a model reads: every text that the execution layer says, word for word; parts; bounds."""

import gc
import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any

import anyio
import pydantic
import pytest
from inline_snapshot import snapshot

from handrail import (
    READ,
    Ask,
    Call,
    CallLimits,
    CheckedCall,
    Deny,
    Executor,
    FailureKind,
    File,
    Hook,
    Image,
    LongResults,
    Refused,
    Registry,
    Result,
    Text,
    ToolFailed,
    Toolset,
    Transient,
    tool,
)


def kind(result: Result) -> FailureKind | None:
    return result.failure.kind if result.failure else None


# ---------------------------------------------------------------- every text


@tool(effect=READ, aliases=["say"])
async def speak(words: str) -> str:
    """Speak."""
    return words


@tool
async def act(how: str) -> int:
    """Act as told."""
    errors = {
        "fail": ToolFailed("The file is not there."),
        "fail wordlessly": ToolFailed(),
        "refuse": Refused("That is private"),
        "busy": Transient("The line is busy!"),
        "break": RuntimeError("hunter2"),
    }
    if how in errors:
        raise errors[how]
    if how == "hang":
        await anyio.sleep_forever()
    return "no number"  # type: ignore[return-value]


@tool(effect=READ, timeout=0.02)
async def look() -> str:
    """Look for too long."""
    await anyio.sleep_forever()
    return ""


@tool(effect=READ)
async def stumble() -> str:
    """Break without having changed anything."""
    raise KeyError


@tool(effect=READ)
async def nothing() -> None:
    """Give nothing back."""


SAID = {
    "unknown": (
        Call("speek", {}, "c"),
        "There is no tool 'speek'. Did you mean speak?",
    ),
    "unknown and far": (
        Call("zzz", {}, "c"),
        "There is no tool 'zzz'. Available tools: act, look, nothing, speak, stumble.",
    ),
    "alias": (
        Call("say", {"words": "hi"}, "c"),
        "hi\n[Note: 'say' is now called 'speak'.]",
    ),
    "bad args": (
        Call("speak", {"words": 5}, "c"),
        "Not run: invalid arguments.\n- words: expected a string, got 5\nFix these and call again.",
    ),
    "fail": (Call("act", {"how": "fail"}, "c"), "The file is not there."),
    "fail wordlessly": (Call("act", {"how": "fail wordlessly"}, "c"), "The tool failed, and gave no reason."),
    "refuse": (
        Call("act", {"how": "refuse"}, "c"),
        "That is private",
    ),
    "busy": (
        Call("act", {"how": "busy"}, "c"),
        "The line is busy! This may be temporary: retry later, or continue with other work.",
    ),
    "break": (
        Call("act", {"how": "break"}, "c"),
        ("The tool 'act' failed with an internal error (RuntimeError). It may have taken effect before it failed. Do not repeat the same call; tell the user."),
    ),
    "break harmlessly": (
        Call("stumble", {}, "c"),
        ("The tool 'stumble' failed with an internal error (KeyError). Do not repeat the same call; tell the user."),
    ),
    "hang": (
        Call("act", {"how": "hang"}, "c"),
        ("Timed out after 0.02 s and was stopped. It may have taken effect: check before you call it again."),
    ),
    "hang harmlessly": (
        Call("look", {}, "c"),
        "Timed out after 0.02 s and was stopped. Ask for less at a time, or try another approach.",
    ),
    "lie": (
        Call("act", {"how": "lie"}, "c"),
        ("Result withheld: the tool 'act' ran, but did not return what it declares. It may have taken effect: check before you call it again."),
    ),
    "nothing": (Call("nothing", {}, "c"), "(no output)"),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
async def test_what_a_model_reads_word_for_word(case: str) -> None:
    call, expected = SAID[case]
    async with Executor(
        Toolset(speak, act, look, stumble, nothing), limits=CallLimits(timeout=0.02)
    ) as executor:
        outcomes = [await executor.run(call) for _ in range(2)]

    assert [one.text for one in outcomes] == [expected] * 2


async def test_what_a_model_reads_of_decisions_word_for_word() -> None:
    async def said(**options: Any) -> str:
        async with Executor(
            Toolset(speak), limits=CallLimits(hook_timeout=0.2), **options
        ) as executor:
            return (await executor.run(Call("speak", {"words": "hi"}, "c"))).text

    async def crash(*_: object) -> Any:
        raise KeyError

    async def hang(*_: object) -> Any:
        await anyio.sleep_forever()

    async def nothing(*_: object) -> Any:
        return None

    async def another(call: CheckedCall) -> Call:
        return Call(call.name, call.args, "x")

    ask = lambda *_: Ask("Speak?")  # noqa: E731  short
    before = "Not run: a check before the call {}. Tell the user."
    after = "Result withheld: a check after the call {}. The call may have taken effect: check before you call it again. Tell the user."
    assert await said(policy=lambda *_: Deny("Not here.")) == "Not here."
    assert await said(policy=lambda *_: {}["x"]) == (
        "Not run: the permission check failed (KeyError). Calling again will not help; tell the user."
    )
    assert await said(policy=lambda *_: "yes") == (
        "Not run: the permission check gave no decision. Calling again will not help; tell the user."
    )
    assert await said(policy=ask) == (
        "Not run: this needs the user's approval, and no one is available to give it. Do what you can without it, and report it at the end. Request: Speak?"
    )
    assert await said(policy=ask, approvals=crash) == (
        "Not run: the approval request failed (KeyError). Tell the user."
    )
    assert await said(policy=ask, approvals=nothing) == (
        "Not run: the approver returned an invalid answer. Tell the user."
    )
    assert await said(hooks=[Hook(before=crash)]) == before.format("failed (KeyError)")
    assert await said(hooks=[Hook(before=hang)]) == before.format("timed out after 0.2 s")
    assert await said(hooks=[Hook(before=nothing)]) == before.format(
        "returned neither a call nor its result"
    )
    assert await said(hooks=[Hook(before=another)]) == before.format("returned another call")
    assert await said(hooks=[Hook(after=crash)]) == after.format("failed (KeyError)")
    assert await said(hooks=[Hook(after=hang)]) == after.format("timed out after 0.2 s")
    assert await said(hooks=[Hook(after=nothing)]) == after.format(
        "returned no result of this call"
    )


async def test_what_a_model_reads_of_a_stale_tool_word_for_word() -> None:
    registry = Registry()
    registry.add(speak)
    async with Executor(registry) as executor:
        registry.remove("speak")
        outcome = await executor.run(Call("speak", {"words": "hi"}, "c"))

    assert outcome == Result.fail(
        "c",
        FailureKind.STALE,
        "Not run: the tool 'speak' has changed since you received it. Read its new definition and call again.",
    )


# ---------------------------------------------------------------- parts


async def test_words_pictures_and_files_come_in_order() -> None:
    picture, file = Image(b"png"), File(b"pdf", "application/pdf", "a.pdf")
    given: dict[str, Any] = {
        "text": Text("one"),
        "list": ["one", picture, Text("two"), file],
        "tuple": ("one", "two"),
        "picture": picture,
        "empty": [],
        "words": "plain",
    }

    @tool(effect=READ)
    async def show(what: str) -> Any:
        """Show."""
        return given[what]

    async with Executor(Toolset(show)) as executor:
        shown = {
            what: await executor.run(Call("show", json.dumps({"what": what}), "c"))
            for what in [*given, *given]
        }

    assert shown["text"].content == (Text("one"),)
    assert shown["list"].content == (Text("one"), picture, Text("two"), file)
    assert shown["list"].text == "one\ntwo"
    assert (shown["tuple"].text, shown["tuple"].data) == ('["one","two"]',) * 2
    assert shown["picture"] == Result("c", "", (picture,))
    assert (shown["empty"].text, shown["empty"].data) == ("[]", "[]")
    assert shown["words"] == Result("c", "plain")


async def test_notes_stand_beside_pictures_too() -> None:
    @tool(effect=READ, aliases=["paint"])
    async def draw() -> Image:
        """Draw."""
        return Image(b"png")

    async with Executor(Toolset(draw)) as executor:
        outcome = await executor.run(Call("paint", {}, "c"))

    assert outcome.content[0] == Image(b"png")
    words = "".join(part.text for part in outcome.content if isinstance(part, Text))
    assert "'paint' is now called 'draw'" in words


class Ugly(pydantic.BaseModel):
    number: int = 1

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def broken(self) -> int:
        raise LookupError("hunter2")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize("declared", [True, False])
async def test_a_result_that_breaks_while_it_is_written_is_withheld(*, declared: bool) -> None:
    async def give() -> Ugly:
        """Give."""
        return Ugly()

    give.__annotations__["return"] = Ugly if declared else Any
    async with Executor(Toolset(tool(effect=READ)(give))) as executor:
        outcomes = [await executor.run(Call("give", "{}", "c")) for _ in range(2)]
        outcomes += await executor.run_all([Call("give", "{}", "c")])

    assert [kind(one) for one in outcomes] == [FailureKind.BUG] * 3
    assert not any("hunter2" in one.text for one in outcomes)


def _lookup(_value: str) -> str:
    raise LookupError("hunter2")


async def test_a_check_of_an_argument_that_breaks_is_a_result() -> None:
    ran: list[str] = []

    @tool
    async def save(path: Annotated[str, pydantic.AfterValidator(_lookup)]) -> str:
        """Save."""
        ran.append(path)
        return ""

    async with Executor(Toolset(save, speak)) as executor:
        outcomes = await executor.run_all(
            [Call("save", '{"path":"a"}', "1"), Call("speak", '{"words":"b"}', "2")]
        )
        alone = await executor.run(Call("save", '{"path":"a"}', "3"))

    assert outcomes[1].text == "b"
    assert ran == []
    for outcome in (outcomes[0], alone):
        assert kind(outcome) in (FailureKind.BUG, FailureKind.BAD_ARGS)
        assert "hunter2" not in outcome.text


async def test_exceptions_that_cannot_be_printed_are_results_too() -> None:  # noqa: C901  every place
    class Speechless(ToolFailed):
        def __str__(self) -> str:
            raise RuntimeError

    def cannot_say() -> Any:
        raise Unprintable

    async def hook(call: CheckedCall) -> CheckedCall:
        if call.id == "hook":
            raise Unprintable
        return call

    async def after(call: CheckedCall | Call, result: Result) -> Result:
        if call.id == "after":
            raise Unprintable
        return result

    @tool(touches=cannot_say)
    async def touch() -> str:
        """Touch."""
        return ""

    @tool
    async def fail() -> str:
        """Fail."""
        raise Speechless

    @tool
    async def crack() -> str:
        """Break."""
        raise Unprintable

    calls = [Call(name, "{}", name) for name in ("touch", "fail", "crack")]
    calls += [Call("crack", "{}", "hook"), Call("crack", "{}", "after")]
    async with Executor(
        Toolset(touch, fail, crack), hooks=[Hook(before=hook), Hook(after=after)]
    ) as executor:
        outcomes = await executor.run_all(calls)

    assert [kind(one) for one in outcomes] == [
        FailureKind.BUG,
        FailureKind.FAILED,
        FailureKind.BUG,
        FailureKind.DENIED,
        FailureKind.BUG,
    ]


# ---------------------------------------------------------------- streams


async def test_what_a_tool_yields_is_put_together() -> None:
    @tool(effect=READ)
    async def count() -> AsyncIterator[Any]:
        """Count."""
        for number in range(3):
            await anyio.lowlevel.checkpoint()
            yield number
        yield " and done"

    @tool(effect=READ)
    def count_sync() -> Iterator[Any]:
        """Count in a thread."""
        yield from range(3)
        yield " and done"

    async with Executor(Toolset(count, count_sync)) as executor:
        outcomes = await executor.run_all([Call("count", {}, "1"), Call("count_sync", {}, "2")])

    assert [one.text for one in outcomes] == ["012 and done"] * 2


async def test_what_was_said_before_the_time_was_over_is_kept() -> None:
    @tool(effect=READ, timeout=0.05)
    async def drip() -> AsyncIterator[str]:
        """Drip."""
        yield "one "
        yield "two"
        await anyio.sleep_forever()

    async with Executor(Toolset(drip)) as executor:
        outcome = await executor.run(Call("drip", {}, "1"))

    assert outcome.text == (
        "Timed out after 0.05 s and was stopped. Ask for less at a time, or try another approach.\nOutput so far:\none two"
    )


async def test_a_stream_is_closed_when_it_yields_what_json_cannot_say() -> None:
    closed: list[bool] = []

    @tool(effect=READ)
    async def drip() -> AsyncIterator[Any]:
        """Drip."""
        try:
            yield "one "
            yield object()
        finally:
            closed.append(True)

    async with Executor(Toolset(drip)) as executor:
        outcome = await executor.run(Call("drip", {}, "1"))
        assert closed == [True]
    gc.collect()

    assert kind(outcome) is FailureKind.BUG


@pytest.mark.parametrize("size", [1, 7, 1000, 5000])
async def test_a_flood_keeps_its_beginning_and_its_end_within_bounds(size: int) -> None:
    total = 20_000
    whole = "".join(f"{n:05}" for n in range(total // 5))

    @tool(effect=READ)
    def flood() -> Iterator[str]:
        """Flood."""
        for start in range(0, total, size):
            yield whole[start : start + size]

    async with Executor(
        Toolset(flood), long_results=LongResults(max_result_chars=300, max_stored_chars=1000)
    ) as executor:
        outcome = await executor.run(Call("flood", {}, "1"))
        part = await executor.run(
            Call("read_result", {"call_id": "1", "start": 900, "end": 1000}, "2")
        )

    assert outcome.text.startswith(whole[:200])
    assert outcome.text.endswith(whole[-100:])
    assert len(outcome.text) < 300 + 250
    assert part.text.endswith(whole[900:1000])


# ---------------------------------------------------------------- bounds


async def test_a_long_result_is_cut_at_line_ends_and_says_how_to_read_the_rest() -> None:
    lines = "".join(f"line {n:04}\n" for n in range(1000))

    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return lines

    async with Executor(Toolset(dump), long_results=LongResults(max_result_chars=300)) as executor:
        outcomes = [await executor.run(Call("dump", "{}", "d")) for _ in range(2)]
        outcomes += await executor.run_all([Call("dump", "{}", "d")])

    head = "".join(f"line {n:04}\n" for n in range(20))
    tail = "".join(f"line {n:04}\n" for n in range(991, 1000))
    assert outcomes[0].text == (
        f"{head}\n[9,710 of 10,000 characters omitted. To read on: "
        f'read_result(call_id="d", start=200), up to 220 characters per call. To search: search="text".]\n{tail}'
    )
    assert outcomes == outcomes[:1] * 3


async def test_a_long_failure_is_cut_in_its_text_and_its_message() -> None:
    @tool(effect=READ, max_chars=100)
    async def fail() -> str:
        """Fail at length."""
        raise ToolFailed("x" * 1000)

    async with Executor(Toolset(fail)) as executor:
        outcome = await executor.run(Call("fail", "{}", "1"))

    assert outcome.failure is not None
    assert outcome.failure.message == outcome.text
    assert len(outcome.text) < 400


async def test_json_that_was_cut_is_no_longer_given_as_data() -> None:
    @tool(effect=READ, max_chars=100)
    async def numbers() -> list[int]:
        """Give numbers."""
        return list(range(1000))

    async with Executor(Toolset(numbers)) as executor:
        outcomes = [await executor.run(Call("numbers", "{}", "1")) for _ in range(2)]

    assert [one.data for one in outcomes] == [None, None]


async def test_the_oldest_results_go_when_there_is_no_more_room() -> None:
    @tool(effect=READ)
    async def dump(letter: str) -> str:
        """Dump."""
        return letter * 400

    async with Executor(
        Toolset(dump), long_results=LongResults(max_result_chars=200, max_stored_chars=1000)
    ) as executor:
        for letter in "abca":
            await executor.run(Call("dump", json.dumps({"letter": letter}), letter))
        reads = {
            letter: await executor.run(
                Call("read_result", {"call_id": letter, "start": 398, "end": 500}, "r")
            )
            for letter in "abc"
        }

    assert reads["a"].text == "[characters 398 to 400 of 400]\naa"
    assert reads["c"].text == "[characters 398 to 400 of 400]\ncc"
    assert reads["b"].text == (
        "No result is stored for 'b'. Stored: c, a. A stored result is lost when the run moves to "
        "another process, or when newer ones need its room. To read it, call the tool again."
    )
    assert kind(reads["b"]) is FailureKind.FAILED


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(0, 5, (0, 5)), (-7, 5, (0, 5)), (5, 0, (5, 5)), (999, 2000, (999, 1000)), (5000, 6000, (1000, 1000))],
)  # fmt: skip
async def test_any_range_can_be_asked_for(start: int, end: int, expected: tuple[int, int]) -> None:
    whole = "".join(f"{n:04}" for n in range(250))

    @tool(effect=READ, max_chars=100)
    async def dump() -> str:
        """Dump."""
        return whole

    async with Executor(Toolset(dump)) as executor:
        await executor.run(Call("dump", "{}", "d"))
        outcome = await executor.run(
            Call("read_result", {"call_id": "d", "start": start, "end": end}, "r")
        )

    first, last = expected
    assert outcome.text == f"[characters {first} to {last} of 1000]\n{whole[first:last]}"


async def test_what_the_reader_gives_is_itself_never_cut() -> None:
    whole = "".join(f"{n:04}" for n in range(2500))

    @tool(effect=READ)
    async def dump() -> str:
        """Dump."""
        return whole

    async with Executor(Toolset(dump), long_results=LongResults(max_result_chars=500)) as executor:
        await executor.run(Call("dump", "{}", "d"))
        read = ""
        while len(read) < len(whole):
            args = {"call_id": "d", "start": len(read), "end": len(whole)}
            part = await executor.run(Call("read_result", args, "r"))
            assert len(part.text) <= 500
            read += part.text.partition("\n")[2]

    assert read == whole


async def test_the_reader_steps_aside_for_a_tool_of_its_name() -> None:
    @tool(effect=READ, max_chars=50)
    async def read_result() -> str:
        """Read something else."""
        return "x" * 100

    async with Executor(Toolset(read_result)) as executor:
        assert [one.spec.name for one in executor.tools] == ["read_result"]
        outcome = await executor.run(Call("read_result", {}, "1"))
        assert [one.spec.name for one in executor.tools] == ["read_result", "read_result_"]

    assert "To read on: read_result_(" in outcome.text


async def test_a_tool_may_give_a_result_of_its_own_making() -> None:
    @tool(effect=READ)
    async def fetch() -> Result:
        """Fetch what somebody else made."""
        return Result("another id", "words", (Text("words"), Image(b"png")))

    async with Executor(Toolset(fetch)) as executor:
        outcomes = [await executor.run(Call("fetch", "{}", "c")) for _ in range(2)]

    assert outcomes == [Result("c", "words", (Text("words"), Image(b"png")))] * 2


async def test_a_result_of_which_nothing_more_was_kept_says_so() -> None:
    @tool(effect=READ, max_chars=90)
    async def dump() -> str:
        """Dump."""
        return "x" * 1000

    async with Executor(Toolset(dump), long_results=LongResults(max_stored_chars=10)) as executor:
        outcomes = [await executor.run(Call("dump", "{}", "d")) for _ in range(2)]

    expected = f"{'x' * 60}\n[910 of 1,000 characters omitted. They were not stored.]\n{'x' * 30}"
    assert [one.text for one in outcomes] == [expected] * 2


async def test_a_stream_that_never_waits_does_not_hold_up_the_others_and_meets_its_deadline() -> (
    None
):
    @tool(effect=READ, timeout=0.1)
    async def babble() -> AsyncIterator[str]:
        """Never stop, never wait."""
        while True:
            yield "bla "

    async with Executor(Toolset(babble, speak)) as executor:
        with anyio.fail_after(3):
            outcomes = await executor.run_all(
                [Call("babble", {}, "1"), Call("speak", {"words": "hi"}, "2")]
            )

    assert [kind(one) for one in outcomes] == [FailureKind.TIMEOUT, None]
    assert "Output so far:\nbla bla " in outcomes[0].text
    assert len(outcomes[0].text) < 21_000


async def test_a_truncated_result_can_be_searched() -> None:
    @tool(max_chars=300)
    async def build() -> str:
        """Build."""
        lines = [f"{number:04} ok" for number in range(1_000)]
        lines[500] = "x" * 200 + " Fatal ERROR: disk full " + "y" * 900
        lines[600] = "error again"
        return "\n".join(lines)

    searches: list[dict[str, Any]] = [
        {"search": "error"},
        {"search": "error", "start": 4_300},
        {"search": "error", "end": 4_000},
        {"search": "Error: (disk"},
        {"search": "ok", "start": 7_900},
        {"search": ""},
    ]
    async with Executor(Toolset(build), long_results=LongResults(max_result_chars=700)) as executor:
        first = await executor.run(Call("build", {}, "b"))
        found = [
            (await executor.run(Call("read_result", {"call_id": "b", **args}, "r"))).text
            for args in searches
        ]
        many = await executor.run(Call("read_result", {"call_id": "b", "search": "ok"}, "r"))
        rest = re.search(r"pass start=(\d+)", many.text)
        assert rest is not None
        args = {"call_id": "b", "search": "ok", "start": int(rest[1])}
        after = await executor.run(Call("read_result", args, "r"))

    assert 'search="text"' in first.text
    assert [text[:300] for text in found] == snapshot(
        [
            """\
[2 matching lines, each after its position.]
4107: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx Fatal ERROR: disk full yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\
""",
            """\
[1 matching line, each after its position.]
5917: error again\
""",
            "[No line from start on contains this text.]",
            "[No line from start on contains this text.]",
            """\
[44 matching lines, each after its position. For more, pass start=8248.]
7897: 0847 ok
7905: 0848 ok
7913: 0849 ok
7921: 0850 ok
7929: 0851 ok
7937: 0852 ok
7945: 0853 ok
7953: 0854 ok
7961: 0855 ok
7969: 0856 ok
7977: 0857 ok
7985: 0858 ok
7993: 0859 ok
8001: 0860 ok
8009: 0861 ok
8017: 0862 ok
802\
""",
            """\
[characters 0 to 620 of 9120]
0000 ok
0001 ok
0002 ok
0003 ok
0004 ok
0005 ok
0006 ok
0007 ok
0008 ok
0009 ok
0010 ok
0011 ok
0012 ok
0013 ok
0014 ok
0015 ok
0016 ok
0017 ok
0018 ok
0019 ok
0020 ok
0021 ok
0022 ok
0023 ok
0024 ok
0025 ok
0026 ok
0027 ok
0028 ok
0029 ok
0030 ok
0031 ok
0032 ok
0033 o\
""",
        ]
    )
    assert (many.text.split("\n")[:2], many.text.split("\n")[-1]) == snapshot(
        (
            [
                "[48 matching lines, each after its position. For more, pass start=383.]",
                "0: 0000 ok",
            ],
            "376: 0047 ok",
        )
    )
    assert after.text.split("\n")[1] == snapshot("384: 0048 ok")
    assert len(many.text) <= 700


# ---------------------------------------------------------------- images and files


def _shows(*parts: Text | Image | File) -> Any:
    @tool(effect=READ)
    async def show() -> list[Text | Image | File]:
        """Show."""
        return list(parts)

    return show


BIG, SMALL = Image(b"b" * 800, "image/jpeg"), Image(b"s" * 200)
PAPER = File(b"p" * 700, "application/pdf", "report.pdf")


async def test_invariant_12_images_and_files_have_a_limit_and_the_rest_is_named() -> None:
    parts = (Text("Here:"), BIG, PAPER, SMALL, File(b"1", "text/plain", "a\nb"))
    limits = LongResults(max_media_bytes=1_000)
    async with Executor(Toolset(_shows(*parts)), long_results=limits) as executor:
        result = await executor.run(Call("show", {}, "c"))

    note = (
        "[2 of 4 images and files omitted: a result has room for 1,000 bytes of them. Omitted: "
        "'report.pdf' (700 bytes), 'a\\nb' (1 bytes). Ask for fewer or smaller ones.]"
    )
    shown = (Text("Here:"), BIG, SMALL, Text(note))
    assert (result.text, result.parts) == (f"Here:\n{note}", shown)


async def test_invariant_12_many_images_keep_the_first_and_the_note_stays_short() -> None:
    limits = LongResults(max_media_bytes=300)
    async with Executor(Toolset(_shows(*[SMALL] * 50)), long_results=limits) as executor:
        result = await executor.run(Call("show", {}, "c"))

    assert result.parts == (SMALL, Text(result.text))
    assert result.text == snapshot(
        "[49 of 50 images and files omitted: a result has room for 300 bytes of them. Omitted: image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), image/png (200 bytes), and 39 more. Ask for fewer or smaller ones.]"
    )


async def test_invariant_12_by_default_ten_megabytes_of_images_are_shown() -> None:
    megabyte = Image(b"0" * 1024 * 1024)
    async with Executor(Toolset(_shows(*[megabyte] * 50))) as executor:
        result = await executor.run(Call("show", {}, "c"))
        known = executor.turn("t", run="r", known={"c": result._replace(parts=(megabyte,) * 50)})
        again = await known.run(Call("show", {}, "c"))

    assert result.parts[:-1] == again.parts[:-1] == (megabyte,) * 10


async def test_images_that_fit_are_shown_as_they_are() -> None:
    """The control: nothing is left out, and nothing is said."""
    async with Executor(Toolset(_shows(BIG, PAPER, SMALL))) as executor:
        result = await executor.run(Call("show", {}, "c"))

    assert result == Result("c", "", (BIG, PAPER, SMALL))
