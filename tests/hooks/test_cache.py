"""The cache: what a tool that only reads said lately, until something it read may have changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Context,
    Deny,
    Executor,
    Hook,
    LongResults,
    Registry,
    Result,
    ToolFailed,
    Toolset,
    reads_file,
    tool,
    writes_file,
)
from handrail.hooks import cache
from handrail.permissions import Pending


async def test_a_result_that_needed_more_access_is_not_kept() -> None:
    fetched: list[str] = []

    @tool(effect=READ, touches=reads_file)
    async def show(path: str, context: Context) -> str:
        """Show a file."""
        await context.may(reads_file("b" if path == "link" else path))
        fetched.append(path)
        return path

    executor = Executor(Toolset(show), hooks=[cache()])
    for path in ("link", "link", "plain", "plain"):
        await executor.run(Call("show", {"path": path}, "c1"))

    assert fetched == ["link", "link", "plain"]


async def test_a_write_to_what_a_tool_asked_for_drops_what_was_read() -> None:
    text = ["old"]

    @tool(effect=READ, touches=reads_file)
    async def show(path: str) -> str:
        """Show a file."""
        return f"{path}: {text[-1]}"

    @tool(effect=WRITE, touches=lambda: writes_file("log"))
    async def save(context: Context) -> None:
        """Save what the log names."""
        await context.may(writes_file("b"))
        text.append("new")

    executor = Executor(Toolset(show, save), hooks=[cache()])
    show_b, save_b = Call("show", {"path": "b"}, "c1"), Call("save", {}, "c2")
    results = [await executor.run(call) for call in (show_b, save_b, show_b)]

    assert [result.text for result in results] == ["b: old", "(no output)", "b: new"]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def broken(path: str) -> Iterator[Access]:
    raise LookupError(path)


class Disk:
    """Files; what is read has the number of the read in it."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.reads = count(1)

    @tool(effect=READ, touches=lambda path, **_: reads_file(path), aliases=["get"])
    async def read(self, path: str, lines: int = 10) -> str:  # noqa: ARG002  two calls may differ in it
        """Read a file."""
        if path == "lost":
            raise ToolFailed(f"{next(self.reads)}: not there")
        return f"{self.files.get(path, '')}{next(self.reads)}"

    @tool(effect=READ)
    async def look(self) -> str:
        """Look around."""
        return f"{next(self.reads)}"

    @tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
    async def write(self, path: str, text: str) -> str:
        """Write a file."""
        self.files[path] = text
        return "ok"

    @tool(effect=WRITE, touches=broken)
    async def spoil(self, path: str) -> str:  # noqa: ARG002  for touches
        """Say nothing proper of what it touches."""
        raise AssertionError


def read(path: str, call_id: str = "c") -> Call:
    return Call("read", {"path": path}, call_id)


def write(path: str, call_id: str = "w") -> Call:
    return Call("write", {"path": path, "text": "new "}, call_id)


def cached(
    clock: Clock | None = None,
    *,
    ttl: float = 60.0,
    most: int = 1000,
    except_for: tuple[str, ...] = (),
    max_chars: int = 20_000,
) -> Executor:
    tools = Toolset.from_object(Disk())
    hook = cache(ttl=ttl, most=most, except_for=except_for, clock=clock or Clock())
    long_results = LongResults(max_result_chars=max_chars)
    return Executor(tools, hooks=[hook], long_results=long_results)


async def texts(executor: Executor, *calls: Call) -> list[str]:
    """What calls say that are made one after the other."""
    return [(await executor.run(call)).text for call in calls]


async def test_the_same_call_is_answered_from_memory_under_its_own_id() -> None:
    async with cached() as executor:
        first = await executor.run(Call("read", '{"path": "a", "lines": 1}', "c1"))
        again = await executor.run(Call("read", '{"lines":1,"path":"a"}', "c2"))
        other = await executor.run(Call("read", '{"path": "a", "lines": 2}', "c3"))

    assert [first, again, other] == [
        Result("c1", "1"),
        Result("c2", "1"),
        Result("c3", "2"),
    ]


async def test_an_answer_is_good_for_so_long_and_being_used_does_not_make_it_younger() -> None:
    clock = Clock()
    async with cached(clock, ttl=10.0) as executor:
        assert await texts(executor, read("a")) == ["1"]
        clock.now = 9.0
        assert await texts(executor, read("a")) == ["1"]
        clock.now = 10.0
        assert await texts(executor, read("a"), read("a")) == ["2", "2"]


async def test_the_answers_that_were_not_used_for_longest_go_first() -> None:
    async with cached(most=2) as executor:
        assert await texts(executor, *map(read, ["a", "b", "a", "c", "a", "b"])) == [
            *["1", "2", "1"],
            *["3", "1", "4"],
        ]


async def test_a_write_drops_what_it_touches_and_nothing_else() -> None:
    async with cached() as executor:
        calls = [read("d/a"), read("b"), write("d"), read("d/a"), read("b")]
        assert await texts(executor, *calls) == ["1", "2", "ok", "3", "2"]


async def test_a_tool_that_does_not_say_what_it_reads_reads_everything() -> None:
    look = Call("look", {}, "c")
    async with cached() as executor:
        assert await texts(executor, look, look, write("b"), look) == ["1", "1", "ok", "2"]


async def test_a_read_after_a_write_in_the_same_batch_sees_the_write() -> None:
    async with cached() as executor:
        await executor.run(read("a"))
        batch = await executor.run_all([read("a", "1"), write("a", "2"), read("a", "3")])
        later = await texts(executor, read("a"))

    assert [one.text for one in batch] == ["1", "ok", "new 2"]
    assert later == ["new 2"]


async def test_a_read_that_a_write_followed_before_it_ended_is_not_kept() -> None:
    async with cached() as executor:
        batch = await executor.run_all([read("a", "1"), read("b", "2"), write("a", "3")])
        later = await texts(executor, read("a"), read("b"))

    assert sorted(one.text for one in batch) == ["1", "2", "ok"]
    assert later == ["new 3", batch[1].text]


async def test_a_failure_is_not_kept() -> None:
    async with cached() as executor:
        said = await texts(executor, read("lost"), read("lost"))

    assert [text[0] for text in said] == ["1", "2"]


async def test_tools_whose_answer_changes_by_itself_may_be_left_alone() -> None:
    async with cached(except_for=("look",)) as executor:
        look = Call("look", {}, "c")
        assert await texts(executor, look, look, read("a"), read("a")) == ["1", "2", "3", "3"]


async def test_a_note_is_for_its_own_call_and_no_other_is_answered_with_it() -> None:
    plain = Call("read", {"path": "a", "lines": 10}, "c")
    repaired = Call("read", {"path": "a", "lines": "10"}, "c")
    alias = Call("get", {"path": "a", "lines": 10}, "c")
    async with cached() as executor:
        said = await texts(executor, repaired, alias, plain)

    assert said == [
        "1\n[Note: lines: the string was read as a number.]",
        "1\n[Note: 'get' is now called 'read'.]",
        "1",
    ]


async def test_an_answer_that_is_shortened_is_kept_whole_and_shortened_for_each_call() -> None:
    async with cached(max_chars=100) as executor:
        await executor.run(Call("write", {"path": "a", "text": "x" * 200}, "w"))
        said = await texts(executor, read("a", "c1"), read("a", "c2"))
        rest = await executor.run(
            Call("read_result", {"call_id": "c2", "start": 190, "end": 201}, "c3")
        )

    assert ['call_id="c1"' in said[0], 'call_id="c2"' in said[1]] == [True, True]
    assert rest.text == f"[characters 190 to 201 of 201]\n{'x' * 10}1"


async def test_a_very_long_answer_is_not_kept() -> None:
    async with cached(max_chars=100_000) as executor:
        await executor.run(Call("write", {"path": "a", "text": "x" * 20_000}, "w"))
        said = await texts(executor, read("a"), read("a"))

    assert [text[-1] for text in said] == ["1", "2"]


async def test_calls_that_will_be_refused_change_nothing() -> None:
    calls = [
        Call("sing", {}, "c"),
        Call("write", {"path": "a"}, "c"),
        Call("spoil", {"path": "a"}, "c"),
    ]
    async with cached() as executor:
        said = await texts(executor, read("a"), *calls, read("a"))

    assert (said[0], said[-1]) == ("1", "1")


async def test_a_write_that_a_later_hook_makes_is_seen() -> None:
    tools = Toolset.from_object(Disk())
    hook = cache(clock=Clock())

    def elsewhere(call: CheckedCall) -> CheckedCall | Call:
        text = {"path": "a", "text": "x"}
        return replace(call.call, name="write", args=text) if call.id == "w" else call

    async with Executor(tools, hooks=[hook, Hook(before=elsewhere)]) as executor:
        assert await texts(executor, read("a"), read("b", "w"), read("a"), read("b")) == [
            *["1", "ok"],
            *["x2", "3"],
        ]


async def test_calls_with_one_id_at_the_same_time_do_not_mix_their_answers() -> None:
    may_end = anyio.Event()

    @tool(effect=READ)
    async def slow(n: int) -> str:
        """Take a while, the first time."""
        if n == 1:
            await may_end.wait()
        else:
            may_end.set()
        return f"{n}"

    tools = Toolset(slow)
    hook = cache(clock=Clock())
    async with Executor(tools, hooks=[hook]) as executor:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(executor.run, Call("slow", {"n": 1}, "same"))
            await anyio.wait_all_tasks_blocked()
            await executor.run(Call("slow", {"n": 2}, "same"))
        said = await texts(executor, *(Call("slow", {"n": n}, "c") for n in (2, 1)))

    assert said == ["2", "1"]


async def test_more_calls_at_once_than_are_kept_are_all_answered() -> None:
    async with cached(most=1) as executor:
        batch = await executor.run_all(read(path, path) for path in "abc")
        said = await texts(executor, read("a"), read("a"))

    assert sorted(one.text for one in batch) == ["1", "2", "3"]
    assert said[0] == said[1]


async def test_a_registry_is_asked_as_it_is_now() -> None:
    disk = Disk()
    registry = Registry()
    hook = cache(clock=Clock())
    registry.add(disk.look)
    async with Executor(registry, hooks=[hook]) as executor:
        look = Call("look", {}, "c")
        assert await texts(executor, look, look) == ["1", "1"]
        registry.add(disk.write)
        executor.refresh_tools()
        assert await texts(executor, write("a"), look) == ["ok", "2"]


async def test_rules_come_before_memory() -> None:
    asked: list[str] = []

    def policy(call: CheckedCall) -> Allow | Ask | Deny:
        principal = call.turn.principal
        return {"ada": Allow(), "bob": Ask("May bob?")}.get(principal or "", Deny("no"))

    async def approver(pending: Pending) -> Allow:
        asked.append(pending.call.id)
        return Allow()

    tools = Toolset.from_object(Disk())
    hooks = [cache(clock=Clock())]
    async with Executor(tools, policy=policy, approvals=approver, hooks=hooks) as executor:
        ended = [
            await executor.run(Call("look", {}, "c"), turn=executor.turn(principal=name))
            for name in ("ada", "bob", "bob", "eve")
        ]

    assert [one.text for one in ended] == ["1", "2", "2", "no"]
    assert asked == ["c", "c"]


async def test_an_answer_is_for_one_principal_one_set_of_deps_and_one_tool() -> None:
    answers = count(1)

    @tool(effect=READ)
    async def whose(context: Context) -> str:
        """Whose is it?"""
        return f"{next(answers)} {context.principal} {context.deps} {context.metadata.get('t')}"

    @tool(effect=READ)
    async def ours() -> int:
        """Is the same for all."""
        return next(answers)

    @tool(effect=READ, name="ours")
    async def theirs() -> int:
        """Has the same name."""
        return next(answers)

    one, two = ["db"], ["db"]
    executor = Executor(Toolset(whose, ours), hooks=[cache(clock=Clock())])

    async def say(name: str, **options: Any) -> str:
        return (await executor.run(Call(name, {}, "c"), turn=executor.turn(**options))).text

    async with executor:
        assert [
            await say("whose", principal="ada", deps=one),
            await say("whose", principal="bob", deps=one),
            await say("whose", principal="ada", deps=two),
            await say("whose", principal="ada", deps=one, metadata={"t": 1}),
            await say("whose", principal="ada", deps=one),
            await say("ours", principal="ada", deps=one),
            await say("ours", principal="ada", deps=two, metadata={"t": 1}),
            await say("ours", principal="bob", deps=one),
            await say("ours", principal="ada", tools=Toolset(theirs)),
        ] == [
            "1 ada ['db'] None",
            "2 bob ['db'] None",
            "3 ada ['db'] None",
            "4 ada ['db'] 1",
            "1 ada ['db'] None",
            *["5", "5", "6", "7"],
        ]


async def test_an_answer_is_not_kept_if_a_call_within_it_has_changed_what_it_read() -> None:
    disk = Disk()
    made: list[Executor] = []

    @tool(effect=READ)
    async def first() -> str:
        """Look, and write then."""
        seen = f"{disk.files.get('a', 'nothing')} {next(disk.reads)}"
        await made[0].run(write("a"))
        return seen

    made.append(Executor(Toolset(first) | Toolset.from_object(disk), hooks=[cache(clock=Clock())]))
    async with made[0] as executor:
        call = Call("first", {}, "c")
        assert await texts(executor, call, call) == ["nothing 1", "new  2"]


def test_a_cache_that_keeps_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        cache(most=0)


PATHS = st.sampled_from(["a", "a/b", "c", ""])
BATCHES = st.lists(st.lists(st.tuples(st.booleans(), PATHS), max_size=6), max_size=5)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(batches=BATCHES)
def test_whatever_is_asked_a_read_sees_the_last_write_before_it(
    backend: str, batches: list[list[tuple[bool, str]]]
) -> None:
    files: dict[str, str] = {}

    @tool(effect=READ, touches=reads_file)
    async def show(path: str) -> str:
        """Show a file, which may take a moment."""
        await anyio.lowlevel.checkpoint()
        return files.get(path, "")

    @tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
    async def save(path: str, text: str) -> str:
        """Save a file, which may take a moment."""
        await anyio.lowlevel.checkpoint()
        files[path] = text
        return ""

    async def main() -> None:
        expected: dict[str, str] = {}
        tools = Toolset(show, save)
        hook = cache(most=2, clock=Clock())
        async with Executor(tools, hooks=[hook]) as executor:
            for turn, batch in enumerate(batches):
                calls: list[Call] = []
                wanted: list[str] = []
                for place, (writes, path) in enumerate(batch):
                    call_id = f"{turn}/{place}"
                    if writes:
                        expected[path] = call_id
                        calls.append(Call("save", {"path": path, "text": call_id}, call_id))
                    else:
                        calls.append(Call("show", {"path": path}, call_id))
                    wanted.append("" if writes else expected.get(path, ""))
                assert [one.text for one in await executor.run_all(calls)] == wanted

    anyio.run(main, backend=backend)
