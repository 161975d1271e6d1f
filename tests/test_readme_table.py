"""The table of the README: each row run twice, by a plain loop and by handrail."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from handrail import (
    DESTROY,
    READ,
    WRITE,
    Access,
    Allow,
    Approvals,
    Call,
    CallLimits,
    Executor,
    FailureKind,
    Result,
    Toolset,
    tool,
)
from handrail.approvals import FileLedger, defer, sign_pending, verify_pending
from handrail.policy import Rulebook
from mcp_client.test_sdk_servers import serving

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
ROWS: list[str] = []
"""The first column of the table, as far as a test shows the row."""

Function = Callable[..., Awaitable[object]]
Test = Callable[..., Awaitable[None]]


def row(name: str) -> Callable[[Test], Test]:
    """Name the row of the table that a test shows."""

    def mark(test: Test) -> Test:
        ROWS.append(name)
        return test

    return mark


async def plain_loop(functions: list[Function], calls: list[Call]) -> list[str]:
    """Run calls the way a first loop does: look the function up, run all at once, collect texts."""
    by_name = {getattr(function, "__name__", ""): function for function in functions}
    texts: dict[str, str] = {}

    async def run(call: Call) -> None:
        texts[call.id] = str(await by_name[call.name](**json.loads(str(call.args))))

    async with anyio.create_task_group() as tasks:
        for call in calls:
            tasks.start_soon(run, call)
    return [texts[call.id] for call in calls]


async def with_handrail(tools: Toolset, calls: list[Call]) -> list[Result]:
    async with Executor(tools) as executor:
        return await executor.run_all(calls)


def kinds(results: list[Result]) -> list[FailureKind | None]:
    return [result.failure.kind if result.failure else None for result in results]


async def look_up(word: str) -> str:
    """Look a word up."""
    return {"rail": "A bar to hold on to."}[word]


FOUND = Call("look_up", '{"word": "rail"}', "c1")


@row("raises an exception")
async def test_an_exception_ends_one_call_and_not_the_loop() -> None:
    calls = [FOUND, Call("look_up", '{"word": "reil"}', "c2")]

    with pytest.RaisesGroup(KeyError):
        await plain_loop([look_up], calls)
    results = await with_handrail(Toolset(tool(look_up, effect=READ)), calls)

    assert kinds(results) == [None, FailureKind.BUG]
    assert results[0].text == "A bar to hold on to."
    assert "KeyError" in results[1].text
    assert "Traceback" not in results[1].text


@row("hangs")
async def test_a_call_that_hangs_ends_after_its_timeout() -> None:
    async def wait() -> str:
        """Wait for a server that never answers."""
        await anyio.sleep_forever()
        return "never"

    calls = [FOUND, Call("wait", "{}", "c2")]
    ended: list[str] = []

    async def plain() -> None:
        ended.extend(await plain_loop([look_up, wait], calls))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(plain)
        await anyio.wait_all_tasks_blocked()
        assert ended == []  # everything waits, and nothing is left that could wake it
        tasks.cancel_scope.cancel()
    tools = Toolset(tool(look_up, effect=READ), tool(wait, effect=READ, timeout=0.05))
    results = await with_handrail(tools, calls)

    assert kinds(results) == [None, FailureKind.TIMEOUT]
    assert CallLimits().timeout == 120.0
    assert "did not finish" in results[1].text or "Timed out" in results[1].text


@row("has an argument of the wrong type")
async def test_a_function_does_not_run_with_an_argument_of_the_wrong_type() -> None:
    paid: list[object] = []

    async def pay(euros: int) -> str:
        """Pay an amount."""
        paid.append(euros)
        return "Paid."

    calls = [Call("pay", '{"euros": "ten"}', "c1")]

    assert await plain_loop([pay], calls) == ["Paid."]
    assert paid == ["ten"]
    paid.clear()
    results = await with_handrail(Toolset(tool(pay)), calls)

    assert (kinds(results), paid) == ([FailureKind.BAD_ARGS], [])
    assert "- euros: " in results[0].text


@row("names a tool that does not exist")
async def test_an_unknown_name_is_answered_with_the_closest_one() -> None:
    calls = [FOUND, Call("lookup", '{"word": "rail"}', "c2")]

    with pytest.RaisesGroup(KeyError):
        await plain_loop([look_up], calls)
    results = await with_handrail(Toolset(tool(look_up, effect=READ)), calls)

    assert kinds(results) == [None, FailureKind.UNKNOWN_TOOL]
    assert "look_up" in results[1].text


@row("writes what another call writes")
async def test_calls_that_write_the_same_thing_run_in_order() -> None:
    refunded = {"A1": 0}

    async def refund(order: str, euros: int) -> int:
        """Refund a part of an order; returns the total."""
        before = refunded[order]
        await anyio.lowlevel.checkpoint()
        refunded[order] = before + euros
        return refunded[order]

    calls = [Call("refund", f'{{"order": "A1", "euros": {n}}}', f"c{n}") for n in (10, 20)]

    await plain_loop([refund], calls)
    assert refunded["A1"] in {10, 20}
    refunded["A1"] = 0
    tools = Toolset(tool(refund, touches=lambda order, **_: Access(WRITE, f"order:{order}")))
    results = await with_handrail(tools, calls)

    assert ([result.text for result in results], refunded) == (["10", "30"], {"A1": 30})


@row("returns 1 MB")
async def test_a_long_result_is_truncated_and_can_be_read_in_parts() -> None:
    whole = "".join(f"line {number:06}\n" for number in range(90_000))

    async def dump() -> str:
        """Return everything."""
        return whole

    calls = [Call("dump", "{}", "c1")]

    assert await plain_loop([dump], calls) == [whole]
    async with Executor(Toolset(tool(dump, effect=READ))) as executor:
        [result] = await executor.run_all(calls)
        part = Call("read_result", {"call_id": "c1", "start": 600_000, "end": 600_026}, "c2")
        middle = await executor.run(part)

    assert len(whole) > 1_000_000
    assert len(result.text) < 20_500
    assert whole[600_000:600_026] in middle.text


@row("deletes something")
async def test_a_dangerous_call_waits_for_approval_and_runs_once(tmp_path: Path) -> None:
    deleted: list[int] = []

    async def delete(order: int) -> str:
        """Delete an order."""
        deleted.append(order)
        return "Deleted."

    calls = [Call("delete", '{"order": 7}', "c1")]
    tools = Toolset(tool(delete, effect=DESTROY))
    key = b"k" * 32

    def new_executor(day: int) -> Executor:
        ledger = FileLedger(tmp_path / "approvals")
        approvals = Approvals(approver=defer, ledger=ledger, timeout=7 * 86_400)
        return Executor(tools, policy=Rulebook(), approvals=approvals, clock=lambda: day * 86_400.0)

    async def approve(token: str) -> Result:
        pending = verify_pending(token, key)
        async with new_executor(day=6) as executor:
            turn = executor.turn(pending.turn_id, run=pending.run_id)
            turn.answer(pending, Allow())
            [result] = await turn.results()
            return result

    assert await plain_loop([delete], calls) == ["Deleted."]
    assert deleted == [7]
    deleted.clear()
    async with new_executor(day=0) as executor:
        [waiting] = await executor.run_all(calls)
    assert (kinds([waiting]), deleted) == ([FailureKind.PENDING], [])
    assert waiting.pending is not None
    token = sign_pending(waiting.pending, key)
    results = [await approve(token), await approve(token)]

    assert results[0].text == "Deleted."
    assert results[1].failure is not None
    assert deleted == [7]


def first_column(text: str) -> list[str]:
    """The first cells of the first table of a page, without its head."""
    lines = re.findall(r"^\| (.+?) \|", text.partition("\n## ")[0], re.MULTILINE)
    return lines[1:]


def test_every_row_of_the_table_has_a_test() -> None:
    assert first_column(README) == ROWS


def test_the_first_column_of_a_table_is_found() -> None:
    text = "# Page\n\n| A | B |\n|---|---|\n| one | 1 |\n| two | 2 |\n\n## More\n\n| three | 3 |\n"

    assert first_column(text) == ["one", "two"]


def defined(line: str) -> dict[str, Any]:
    """The names of the README's program that has this line."""
    names: dict[str, Any] = {}
    [source] = [one for one in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if line in one]
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102  our own page
    return names


async def test_the_connections_of_the_readme_are_made(capsys: pytest.CaptureFixture[str]) -> None:
    names = defined("async def connect(")
    names |= {"Rulebook": Rulebook, "defer": defer, "Executor": Executor}
    paths = {"/pets": {"get": {"operationId": "listPets"}}}
    about = {"openapi": "3.1.0", "info": {"title": "Pets", "version": "1"}, "paths": paths}
    document = json.dumps({**about, "servers": [{"url": "https://pets.example"}]})
    with serving() as (server, _):
        await names["connect"](document, server.url)
    offered = ast.literal_eval(capsys.readouterr().out)

    assert {"list_pets", "mcp__docs__add"} <= set(offered)


async def test_the_loop_of_the_readme_runs_calls_until_there_is_an_answer() -> None:
    names = defined("async def loop(")
    asks = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"word": "rail"}}
    answers = [
        {"stop_reason": "tool_use", "content": [asks]},
        {"stop_reason": "end_turn", "content": [{"type": "text", "text": "It is a bar."}]},
    ]
    requests: list[dict[str, Any]] = []

    async def create(**request: Any) -> Any:
        requests.append(request)
        return SimpleNamespace(model_dump=lambda: answers[len(requests) - 1])

    client = SimpleNamespace(messages=SimpleNamespace(create=create))
    async with Executor(Toolset(tool(look_up, effect=READ))) as executor:
        reply = await names["loop"](client, executor, "What is a rail?", model="any")

    assert (reply.text, [request["model"] for request in requests]) == ("It is a bar.", ["any"] * 2)
    assert requests[1]["messages"][-1]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "A bar to hold on to."}
    ]
