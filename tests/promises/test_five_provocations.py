"""What breaks most agents, done to an executor with no options at all."""

import json

import anyio

from handrail import READ, WRITE, Call, Executor, FailureKind, Toolset, tool, writes_file


async def test_a_tool_that_raises_is_a_result_and_the_next_call_still_works() -> None:
    @tool(effect=READ)
    async def explode(fuse: int) -> str:
        """Explode."""
        raise RuntimeError(fuse)

    async with Executor(Toolset(explode)) as executor:
        outcomes = [await executor.run(Call("explode", f'{{"fuse":{n}}}', f"c{n}")) for n in (1, 2)]
        batch = await executor.run_all([Call("explode", '{"fuse":3}', f"b{n}") for n in (1, 2)])

    for outcome in [*outcomes, *batch]:
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.BUG
        assert "RuntimeError" in outcome.text
    assert [one.call_id for one in [*outcomes, *batch]] == ["c1", "c2", "b1", "b2"]


async def test_a_wrong_argument_type_is_named_and_the_tool_is_not_run() -> None:
    ran: list[int] = []

    @tool(effect=READ)
    async def double(number: int) -> int:
        """Double a number."""
        ran.append(number)
        return 2 * number

    async with Executor(Toolset(double)) as executor:
        refused = [
            await executor.run(Call("double", {"number": "many"}, "c1")),
            await executor.run(Call("double", '{"number": "many"}', "c2")),
        ]
        corrected = await executor.run(Call("double", {"number": 4}, "c3"))

    for outcome in refused:
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.BAD_ARGS
        assert "number" in outcome.text
        assert "Not run: " in outcome.text
    assert corrected.text == "8"
    assert ran == [4]


async def test_an_unknown_tool_name_is_answered_with_the_closest_ones() -> None:
    @tool(effect=READ)
    def read_note(name: str) -> str:
        """Read a note."""
        return name

    async with Executor(Toolset(read_note)) as executor:
        [wrong, right] = await executor.run_all(
            [Call("read_notes", {"name": "a"}, "c1"), Call("read_note", {"name": "a"}, "c2")]
        )

    assert wrong.failure is not None
    assert wrong.failure.kind is FailureKind.UNKNOWN_TOOL
    assert wrong.text == "There is no tool 'read_notes'. Did you mean read_note?"
    assert right.text == "a"


async def test_two_writers_of_one_file_in_one_turn_go_one_after_the_other_in_order() -> None:
    file = {"a.txt": ""}
    inside = 0

    @tool(effect=WRITE, touches=lambda path, **_: writes_file(path))
    async def append(path: str, text: str) -> str:
        """Append to a file."""
        nonlocal inside
        assert inside == 0
        inside += 1
        before = file[path]
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        file[path] = before + text
        inside -= 1
        return "ok"

    async with Executor(Toolset(append)) as executor:
        outcomes = await executor.run_all(
            Call("append", {"path": "a.txt", "text": text}, text) for text in "abc"
        )

    assert file == {"a.txt": "abc"}
    assert [one.text for one in outcomes] == ["ok"] * 3


async def test_two_writers_that_declare_nothing_go_one_after_the_other_too() -> None:
    balance = 100

    @tool
    async def withdraw(amount: int) -> int:
        """Withdraw money."""
        nonlocal balance
        before = balance
        await anyio.lowlevel.checkpoint()
        balance = before - amount
        return balance

    async with Executor(Toolset(withdraw)) as executor:
        outcomes = await executor.run_all(
            Call("withdraw", {"amount": amount}, f"c{amount}") for amount in (10, 20, 30)
        )

    assert [json.loads(one.text) for one in outcomes] == [90, 70, 40]


async def test_a_megabyte_of_result_is_cut_to_its_ends_and_can_be_read_on() -> None:
    lines = [f"line {number:06}" for number in range(90_000)]
    whole = "\n".join(lines)
    assert len(whole) > 1_000_000

    @tool(effect=READ)
    def dump() -> str:
        """Dump everything."""
        return whole

    async with Executor(Toolset(dump)) as executor:
        assert len(executor.tools) == 1
        outcome = await executor.run(Call("dump", {}, "c1"))
        names = [one.spec.name for one in executor.tools]
        middle = await executor.run(
            Call("read_result", {"call_id": "c1", "start": 600_000, "end": 600_026}, "c2")
        )

    assert outcome.failure is None
    assert len(outcome.text) < 20_500
    assert outcome.text.startswith("line 000000\n")
    assert outcome.text.endswith("line 089999")
    assert "read_result" in outcome.text
    assert names == ["dump", "read_result"]
    assert middle.text == f"[characters 600000 to 600026 of {len(whole)}]\n{whole[600_000:600_026]}"
