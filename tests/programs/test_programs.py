"""Programs: what they return, what they refuse, and what a model reads when they fail."""

from __future__ import annotations

import subprocess
import sys

import anyio
import pytest
from inline_snapshot import snapshot

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Call,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    FailureKind,
    Hook,
    Image,
    LongResults,
    StopRun,
    Text,
    Toolset,
    tool,
)
from handrail.events import Asked, Finished, Requested
from handrail.policy import Rulebook
from handrail.programs import ProgramLimits, program_tool, with_programs
from programs.tools import PNG, Shop, ask_about_refunds, find_workers, run, run_text


async def test_a_program_returns_its_last_expression() -> None:
    shop = Shop()
    code = """
late = [order["id"] for order in await orders(user="ann") if order["late"]]
[await refund(order=number) for number in late]
"""
    assert await run_text(code, shop) == '["refunded 1", "refunded 3"]'
    assert (shop.reads, shop.refunded) == (1, [1, 3])


async def test_a_final_assignment_and_what_is_printed_are_returned_too() -> None:
    assert await run_text("print('hi')\ncount = 3") == "Printed:\nhi\n\n\nReturned:\n3"
    assert await run_text("x = 'text'") == "text"
    assert await run_text("None") == snapshot(
        "The program returned nothing. To see a value, make it the last expression, or print it."
    )


async def test_a_markdown_fence_is_no_part_of_a_program() -> None:
    assert await run_text("```python\n1 + 1\n```") == "2"


async def test_calls_of_one_gather_are_one_turn_in_order_of_conflicts() -> None:
    events: list[str] = []

    @tool(effect=WRITE, touches=lambda place: Access(WRITE, f"place:{place}"))
    async def put(place: str, context: Context) -> str:
        """Put something somewhere."""
        events.append(f"begin {context.call_id}")
        await anyio.lowlevel.checkpoint()
        events.append(f"end {context.call_id}")
        return context.turn_id

    code = """
import asyncio
await asyncio.gather(put(place="a"), put(place="a"), put(place="b"))
"""
    async with Executor(Toolset(put, program_tool([put]))) as executor:
        result = await run(executor, code)
    assert result.text == '[".1", ".1", ".1"]'
    assert events.index("end p0") < events.index("begin p1")
    assert events.index("begin p2") < events.index("end p1")


async def test_arguments_can_be_given_by_position_and_too_many_are_an_error() -> None:
    shop = Shop()
    assert await run_text("len(await orders('ann', 2))", shop) == "2"
    text = await run_text("await refund(1, 'note', 2)", shop)
    assert text.startswith("Not run: this program would fail. Nothing was called.\nline 1: ")
    code = """
import json
out = []
for args, kwargs in json.loads('[[[1, "x", 3], {}], [[1], {"order": 2}]]'):
    try:
        await refund(*args, **kwargs)
    except TypeError as error:
        out.append(str(error))
out
"""
    assert await run_text(code, shop) == snapshot(
        '["refund() takes 2 positional arguments, and 3 were given", "refund() got two values for \'order\'"]'
    )
    assert shop.refunded == []


async def test_a_failure_is_the_nearest_exception_with_its_kind() -> None:
    code = """
out = []
for order in ["x", -1]:
    values = {"order": order}
    try:
        await refund(**values)
    except Exception as error:
        out.append([type(error).__name__, str(error)[:30]])
out
"""
    assert await run_text(code) == snapshot(
        '[["ValueError", "[bad_args] Not run: invalid ar"], ["RuntimeError", "[failed] There is no such orde"]]'
    )


async def test_a_denied_call_is_a_permission_error_and_a_program_adds_no_rights() -> None:
    shop = Shop()
    code = """
try:
    await refund(order=1)
except PermissionError as error:
    print(error)
"""

    def policy(call: CheckedCall) -> Decision:
        return Deny("No refunds.") if call.name == "refund" else Allow()

    async with Executor(shop.with_program(), policy=policy) as executor:
        result = await run(executor, code)
        direct = await executor.run(Call("refund", {"order": 1}))
    assert (result.text, shop.refunded) == ("Printed:\n[denied] No refunds.\n", [])
    assert direct.text == "No refunds."


async def test_a_rulebook_asks_about_the_calls_of_a_program_and_not_about_the_program() -> None:
    shop = Shop()
    async with Executor(shop.with_program(), policy=Rulebook(mode="plan")) as executor:
        read = await run(executor, "len(await orders(user='a'))")
        write = await run(executor, "await refund(order=1)")
    assert read.text == "4"
    assert "PermissionError: [denied]" in write.text
    assert shop.refunded == []


async def test_only_the_named_tools_can_be_called() -> None:
    shop = Shop()
    tools = shop.tools()
    program = program_tool(tools.only("orders"))
    async with Executor(Toolset(*tools, program)) as executor:
        result = await run(
            executor, "f = 'refund'\ntry:\n    eval('refund')\nexcept NameError as e:\n    print(e)"
        )
        refused = await run(executor, "await refund(order=1)")
    assert result.text == "Printed:\nname 'refund' is not defined\n"
    assert refused.text == snapshot(
        """\
Not run: this program would fail. Nothing was called.
line 1: Name `refund` used when not defined\
"""
    )
    assert shop.refunded == []


async def test_a_call_that_is_not_awaited_is_refused_before_the_start() -> None:
    shop = Shop()
    for code in [
        "refund(order=1)",
        "x = refund(order=1)\nprint(await orders(user='a'))",
        "await orders(user=refund(order=1))",
        "def f():\n    refund(order=1)\nf()",
    ]:
        text = await run_text(code, shop)
        assert "is never awaited: write `await refund(...)`" in text, code
    assert shop.refunded == []


async def test_a_call_that_was_made_and_never_awaited_is_named_at_the_end() -> None:
    shop = Shop()
    text = await run_text("calls = [refund(order=1)]\nlen(calls)", shop)
    assert (text, shop.refunded) == ("1\n\nNot run, because they were never awaited: refund.", [])


@pytest.mark.parametrize(
    "value",
    ["refund(order=1)", "lambda: 1", "refund", "{1, 2}", "float('nan')", "{(1, 2): 3}", "b'x'"],
)
async def test_an_argument_that_is_no_json_is_refused(value: str) -> None:
    shop = Shop()
    code = f"""
values = {{"user": {value}}}
f = orders
try:
    await f(**values)
except (TypeError, ValueError) as e:
    print('refused')
"""
    text = await run_text(code, shop)
    assert text.startswith(("Printed:\nrefused\n", "Not run: this program would fail."))
    assert shop.reads == 0


async def test_results_reach_a_program_whole_and_only_its_own_result_is_truncated() -> None:
    limits = LongResults(max_result_chars=1_000)
    async with Executor(Shop().with_program(), long_results=limits) as executor:
        whole = await run(
            executor, "[len(await text(size=1_000_000)), len(await orders(user='a', limit=9_000))]"
        )
        cut = await run(executor, "await text(size=5_000)")
    assert whole.text == "[1000000, 9000]"
    assert "omitted" in cut.text


async def test_a_result_that_is_too_long_raises_and_is_never_cut() -> None:
    code = "try:\n    await text(size=1_000_001)\nexcept RuntimeError as error:\n    print(error)"
    assert await run_text(code) == snapshot(
        """\
Printed:
[failed] The call ran, but its result has 1,000,001 characters. Code can read 1,000,000: ask for less.
"""
    )


async def test_a_program_that_reads_too_much_in_all_is_told() -> None:
    limits = ProgramLimits(result_chars=2_500_000)
    code = """
for n in range(3):
    try:
        await text(size=1_000_000)
    except MemoryError as error:
        print(n, error)
"""
    assert await run_text(code, limits=limits) == snapshot(
        """\
Printed:
2 the call ran, but the program has read more than 2,500,000 characters
"""
    )


async def test_a_failed_program_says_what_it_did() -> None:
    code = "print('first')\nawait refund(order=1)\nraise ValueError('no')"
    async with Executor(Shop().with_program()) as executor:
        result = await run(executor, code)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.FAILED
    assert result.text == snapshot(
        """\
The program failed.
Traceback (most recent call last):
  File "program", line 3, in <module>
    raise ValueError('no')
ValueError: no

Printed before:
first


These calls ran. Those that are done took effect: do not repeat them.
- refund(order=1): done\
"""
    )


async def test_an_unknown_outcome_is_named_even_if_the_program_caught_it() -> None:
    @tool(effect=WRITE, timeout=0.01, touches=lambda: Access(WRITE, "x:y"))
    async def slow() -> str:
        """Take long."""
        await anyio.sleep(60)
        return "never"

    code = "try:\n    await slow()\nexcept Exception:\n    pass\n'fine'"
    async with Executor(Toolset(slow, program_tool([slow]))) as executor:
        result = await run(executor, code)
    assert result.text == snapshot(
        """\
fine

It is unknown whether these calls took effect. Check before you repeat them.
- slow(): [unknown] Timed out after 0.01 s and was stopped. It may have taken effect: check before you call it again.\
"""
    )


async def test_a_picture_is_a_reference_and_comes_with_the_value_that_has_it() -> None:
    async with Executor(Shop().with_program()) as executor:
        with_it = await run(executor, "await picture()")
        without = await run(executor, "(await picture())['parts'][0]['bytes']")
    text = '{"text": "", "parts": [{"media_type": "image/png", "bytes": 4, "ref": "p0#0"}]}'
    assert with_it.parts == (Text(text), Image(PNG, "image/png"))
    assert (without.text, without.parts) == ("4", ())


async def test_a_program_makes_a_limited_number_of_calls() -> None:
    code = """
done = 0
try:
    for n in range(10):
        await orders(user="a")
        done += 1
except RuntimeError as error:
    print(error)
done
"""
    text = await run_text(code, limits=ProgramLimits(calls=3))
    assert text == "Printed:\na program can make 3 calls\n\n\nReturned:\n3"


async def test_a_flood_of_calls_and_of_prints_is_stopped() -> None:
    shop = Shop()
    flood = "import asyncio\nawait asyncio.gather(*[refund(order=n) for n in range(100_000)])"
    text = await run_text(flood, shop)
    assert "RuntimeError: a program can make 100 calls" in text
    assert shop.refunded == []
    printed = await run_text("for n in range(100_000):\n    print('x' * 100)\n1")
    assert "[10,096,000 more characters were printed]\n\nReturned:\n1" in printed


async def test_an_endless_program_is_stopped_and_says_so() -> None:
    text = await run_text("while True:\n    pass", limits=ProgramLimits(cpu_seconds=0.2))
    assert text.startswith("The program failed.\nTimeoutError: turn time limit exceeded")


async def test_a_cancelled_program_ends_its_interpreter() -> None:
    before = set(find_workers())
    async with Executor(Shop().with_program()) as executor:
        with anyio.move_on_after(1):
            await run(executor, "while True:\n    pass")
        assert (await run(executor, "1")).text == "1"
    assert len(set(find_workers()) - before) <= 2


async def test_a_lost_interpreter_is_replaced_and_no_call_is_repeated() -> None:
    shop = Shop()
    code = """
a = await refund(order=1)
b = await crash()
c = await refund(order=2)
[a, b, c]
"""
    assert await run_text(code, shop) == '["refunded 1", "crashed", "refunded 2"]'
    assert shop.refunded == [1, 2]


async def test_more_programs_wait_than_there_are_workers() -> None:
    arrived, go = 0, anyio.Event()

    @tool(effect=READ, touches=lambda: ())
    async def wait() -> str:
        """Wait for all."""
        nonlocal arrived
        arrived += 1
        if arrived == 20:
            go.set()
        await go.wait()
        return "ok"

    async with Executor(Toolset(wait, program_tool([wait]))) as executor:
        calls = [
            Call("run_program", {"code": f"r = await wait()\nr + '{n}'"}, id=f"c{n}")
            for n in range(20)
        ]
        with anyio.fail_after(60):
            results = await executor.run_all(calls)
    assert [result.text for result in results] == [f"ok{n}" for n in range(20)]


async def test_hooks_and_events_see_the_calls_of_a_program() -> None:
    seen: list[str] = []

    def before(call: CheckedCall) -> CheckedCall:
        seen.append(f"{call.name} {call.key}")
        return call

    async with Executor(Shop().with_program(), hooks=[Hook(before=before)]) as executor:
        turn = executor.turn("1", run="r")
        feed = turn.events()
        await executor.run(
            Call("run_program", {"code": "await refund(order=1)"}, id="c"), turn=turn
        )
        feed.close()
        events = [
            (event.call.name, event.turn) async for event in feed if isinstance(event, Requested)
        ]
    assert seen == ["run_program r/1/c", "refund r%2F1%2Fc/.1/p0"]
    assert events == [("run_program", "r/1"), ("refund", "r%2F1%2Fc/.1")]


async def test_a_hook_that_ends_the_run_ends_the_turn_of_the_program() -> None:
    shop = Shop()

    def before(call: CheckedCall) -> CheckedCall:
        if call.name == "refund":
            raise StopRun("Enough.")
        return call

    code = "for n in range(3):\n    try:\n        await refund(order=n)\n    except Exception as e:\n        print(e)"
    async with Executor(shop.with_program(), hooks=[Hook(before=before)]) as executor:
        turn = executor.turn("1", run="r")
        await executor.run(Call("run_program", {"code": code}, id="c"), turn=turn)
    assert (turn.stop_reason, shop.refunded) == ("Enough.", [])


async def test_principal_deps_and_metadata_are_those_of_the_program() -> None:
    @tool(effect=READ, touches=lambda: ())
    def who(context: Context[list[int]]) -> list[object]:
        """Say who asks."""
        return [context.principal, context.deps, dict(context.metadata)]

    async with Executor(Toolset(who, program_tool([who]))) as executor:
        turn = executor.turn(principal="ann", deps=[1], metadata={"tenant": "t"})
        result = await executor.run(Call("run_program", {"code": "await who()"}), turn=turn)
    assert result.text == '["ann", [1], {"tenant": "t"}]'


async def test_names_that_are_no_identifiers_work_in_both_directions() -> None:
    from handrail import Json, Spec, Tool

    schema = {
        "type": "object",
        "properties": {"from": {"type": "string"}, "per-page": {"type": "integer"}},
        "required": ["from"],
    }

    async def send(args: dict[str, Json], _context: Context) -> str:
        return str(sorted(args.items()))

    remote = Tool.remote(
        Spec(name="gh.list-issues", description="List.", input_schema=schema), send
    )
    program = program_tool([remote])
    assert "async def gh_list_issues(from_: str, per_page: int = ...): " in program.spec.description
    async with Executor(Toolset(remote, program)) as executor:
        one = await run(executor, "await gh_list_issues(from_='a', per_page=2)")
        two = await run(
            executor, "args = {'from': 'a', 'per-page': 2}\nf = gh_list_issues\nawait f(**args)"
        )
    assert one.text == two.text == "[('from', 'a'), ('per-page', 2)]"


async def test_the_description_has_few_tokens_beside_the_functions() -> None:
    program = program_tool(Shop().tools().only("orders", "refund"))
    rules, _, functions = program.spec.description.partition("Functions:\n")
    assert len(rules) / 4 <= 300
    assert functions == snapshot(
        """\
OrdersItem = {"id": int, "late": bool}
async def orders(user: str, limit: int = 4) -> list[OrdersItem]: "List the orders of a user."
async def refund(order: int, note: str = ''): "Refund an order."\
"""
    )


async def test_tools_say_whether_programs_can_call_them() -> None:
    @tool(effect=READ, touches=lambda: (), metadata={"program": "only"})
    def rows() -> list[int]:
        """Return rows."""
        return [1, 2, 3]

    @tool(effect=READ, touches=lambda: ())
    def read() -> int:
        """Read."""
        return 1

    @tool(effect=WRITE)
    def write() -> int:
        """Write."""
        return 1

    tools = with_programs([rows, read, write])
    async with Executor(tools) as executor:
        sent = [spec.name for spec in executor.tools.specs]
        inside = await run(executor, "sum(await rows()) + await read()")
        outside = await executor.run(Call("rows", {}))
        refused = await run(executor, "await write()")
    assert sent == ["read", "run_program", "write"]
    assert (inside.text, outside.failure and outside.failure.kind) == (
        "7",
        FailureKind.UNKNOWN_TOOL,
    )
    assert "`write` used when not defined" in refused.text


async def test_the_clock_of_a_program_stands_still_and_sleep_takes_no_time() -> None:
    code = """
import time
from datetime import datetime
a = datetime.now()
time.sleep(1000)
[a == datetime.now(), a.year >= 2026]
"""
    assert await run_text(code) == "[true, true]"


async def test_what_asks_shows_the_program_with_its_line() -> None:
    asked: list[Asked] = []

    async def approve(pending: object) -> Allow:
        asked.append(pending)  # type: ignore[arg-type]
        return Allow()

    shop = Shop()
    tools, policy = shop.with_program(), ask_about_refunds
    async with Executor(tools, policy=policy, approvals=approve) as executor:
        await run(executor, "a = 1\nb = await refund(\n    order=7)\nb")
    [pending] = asked
    assert (pending.question, pending.call.args, shop.refunded) == (
        "Refund 7?",
        '{"order":7}',
        [7],
    )  # type: ignore[attr-defined]
    assert pending.changes == ("    1 a = 1\n>   2 b = await refund(\n>   3     order=7)\n    4 b",)  # type: ignore[attr-defined]


async def test_a_program_that_only_reads_can_run_beside_others() -> None:
    assert program_tool(Shop().tools().only("orders")).spec.effect == READ
    assert program_tool(Shop().tools()).spec.effect == WRITE


async def test_every_call_of_a_program_has_its_result_among_the_events() -> None:
    async with Executor(Shop().with_program()) as executor:
        feed = executor.events()
        await run(executor, "await orders(user='a')\nawait refund(order=1)")
        feed.close()
        ended = [event.result.call_id async for event in feed if isinstance(event, Finished)]
    assert ended == ["p0", "p1", "c"]


async def test_a_value_of_any_type_is_json_or_text() -> None:
    code = """
from dataclasses import dataclass

@dataclass
class Point:
    x: int

{}
"""
    values = ["(1, 2)", "{'a': None, 1: 2.5}", "'é'", "Point(1)", "[{1}]", "b'x'", "orders", "True"]
    found = [await run_text(code.format(value)) for value in values]
    assert found == snapshot(
        [
            "[1, 2]",
            '{"a": null, "1": 2.5}',
            "é",
            "Point(x=1)",
            "[{1}]",
            "b'x'",
            "<function 'run' at 0x0>",
            "true",
        ]
    )


async def test_a_program_can_end_with_return_at_any_place() -> None:
    code = "for order in await orders(user='a'):\n    if order['late']:\n        return (order['id'],\n            'late')\n'none'"
    assert await run_text(code) == '[1, "late"]'
    assert await run_text("x = 1; x + 1") == "2"
    assert await run_text("x = 1\nif x:\n    return\nx") == snapshot(
        "The program returned nothing. To see a value, make it the last expression, or print it."
    )


async def test_lines_of_errors_and_of_waits_are_those_of_the_program() -> None:
    text = await run_text("x = 'é'\nif x == 'a':\n    return 2\n(\n    # here\n    1 / 0\n)")
    refused = await run_text("x = 1\n(x,\nawait reefund(order=x))")
    assert text == snapshot("""\
The program failed.
Traceback (most recent call last):
  File "program", line 6, in <module>
    1 / 0
    ~~~~~
ZeroDivisionError: division by zero

It had made no call.\
""")
    assert refused == snapshot("""\
Not run: this program would fail. Nothing was called.
line 3: Name `reefund` used when not defined\
""")


async def test_arguments_are_whole_json_of_a_bounded_length() -> None:
    shop = Shop()
    code = """
out = []
for user in ["x" * 2_000_000, {1: (2, 3)}, [[[]]] * 3, float("nan"), orders(user="b")]:
    values = {"user": user}
    f = orders
    try:
        await f(**values)
    except Exception as error:
        out.append(str(error)[:70])
out
"""
    assert await run_text(code, shop, limits=ProgramLimits(args_chars=2_500_000)) == snapshot(
        '["orders() takes 2,000,000 characters, and got 2,000,018", "[bad_args] Not run: invalid arguments.\\n- user: expected a string, got ", "[bad_args] Not run: invalid arguments.\\n- user: expected a string, got ", "orders() takes JSON: a number must be finite, not NaN", "Object of type coroutine is not JSON serializable"]'
    )
    much = "for n in range(3):\n    f = orders\n    v = {'user': 'x' * 400}\n    await f(**v)"
    assert "TypeError: the calls of a program take 1,000 characters in all" in await run_text(
        much, shop, limits=ProgramLimits(args_chars=1_000)
    )


async def test_a_program_that_waits_with_much_in_memory_begins_again() -> None:
    arrived, go = 0, anyio.Event()
    made: list[int] = []

    @tool(effect=READ, touches=lambda **_: ())
    async def note(number: int) -> int:
        """Note a number."""
        made.append(number)
        return number

    @tool(effect=READ, touches=lambda: ())
    async def wait() -> str:
        """Wait for all."""
        nonlocal arrived
        arrived += 1
        if arrived == 12:
            go.set()
        await go.wait()
        return "ok"

    code = "x = list(range(600_000))\na = await note(number={})\nawait wait()\nlen(x) + a"
    async with Executor(Toolset(note, wait, program_tool([note, wait]))) as executor:
        calls = [Call("run_program", {"code": code.format(n)}, id=f"c{n}") for n in range(12)]
        with anyio.fail_after(60):
            results = await executor.run_all(calls)
    assert [result.text for result in results] == [str(600_000 + n) for n in range(12)]
    assert sorted(made) == [*range(12)]


def test_a_forked_process_says_that_it_cannot_run_programs() -> None:
    code = """
import os, sys
import anyio
from handrail import Call, Executor, Toolset
from handrail.programs import program_tool

async def main():
    async with Executor(Toolset(program_tool([]))) as executor:
        return (await executor.run(Call("run_program", {"code": "1 + 1"}))).text

first = anyio.run(main)
pid = os.fork()
if pid == 0:
    anyio.run(main)
    os._exit(0)
os.waitpid(pid, 0)
print(first, anyio.run(main))
"""
    done = subprocess.run(  # noqa: S603  our own program
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, timeout=60
    )
    assert done.stdout == "2 2\n"
    assert "Fork before the first program" in done.stderr
