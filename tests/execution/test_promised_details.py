"""Small promises that no other test would miss."""

from __future__ import annotations

from contextvars import copy_context
from typing import Any

from handrail import (
    READ,
    Allow,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    NeedsLogin,
    Toolset,
    tool,
    writes_file,
)
from handrail.approvals import defer

saved: list[str] = []


def show(path: str) -> str:
    saved.append(f"previewed {path}")
    return f"Saves {path}."


@tool(touches=writes_file, preview=show, aliases=["store"])
async def save(path: str) -> str:
    """Save a file."""
    saved.append(path)
    return f"saved {path}"


@tool(effect=READ)
async def fetch() -> str:
    """Fetch a page."""
    raise NeedsLogin("Sign in first.", url="https://example.com/login")


def put(path: str, call_id: str) -> Call:
    return Call("save", {"path": path}, call_id)


def asking(call: CheckedCall) -> Decision:
    return Ask("May it?") if call.args.get("path") == "a" else Allow()


async def test_writes_that_are_added_with_contexts_run() -> None:
    saved.clear()
    async with Executor(Toolset(save)) as executor:
        turn = executor.turn()
        turn.add(put("a", "1"), put("b", "2"), contexts=[copy_context(), copy_context()])
        results = await turn.results()

    assert [one.text for one in results] == ["saved a", "saved b"]


async def test_an_answer_to_a_call_that_has_its_result_is_ignored() -> None:
    saved.clear()
    async with Executor(Toolset(save), policy=asking, approvals=defer) as executor:
        turn = executor.turn("t", run="r")
        turn.add(put("a", "1"))
        await turn.results()
        [pending] = turn.pending
        turn.answer(pending, Allow())
        first = await turn.results()
        turn.answer(pending, Allow())
        second = await turn.results()

    assert [one.text for one in first] == ["saved a"]
    assert second == first
    assert saved == ["previewed a", "a"]


async def test_a_call_under_an_old_name_is_told_the_new_one() -> None:
    async with Executor(Toolset(save)) as executor:
        result = await executor.run(Call("store", {"path": "a"}, "1"))

    assert result.text == "saved a\n[Note: 'store' is now called 'save'.]"


async def test_a_call_that_only_waits_has_no_preview() -> None:
    saved.clear()

    def decide(call: CheckedCall) -> Decision:
        return Ask("May it?") if call.id == "1" else Allow()

    async with Executor(Toolset(save), policy=decide, approvals=defer) as executor:
        turn = executor.turn("t", run="r")
        turn.add(put("a", "1"), put("a", "2"))
        await turn.results()
        asked, behind = turn.pending

    assert (asked.question, behind.question) == ("May it?", "")
    assert (asked.changes, behind.changes) == (("Saves a.",), ())
    assert saved == ["previewed a"]


async def test_a_tool_that_needs_a_login_is_refused_if_no_one_can_sign_in() -> None:
    async with Executor(Toolset(fetch)) as executor:
        result = await executor.run(Call("fetch", {}, "1"))

    text = (
        "Not run: this needs the user's approval, and no one is available to give it. Do what you "
        "can without it, and report it at the end. Request: Sign in first. "
        "https://example.com/login"
    )
    failure: Any = result.failure
    assert (failure.kind.value, result.text) == ("denied", text)
